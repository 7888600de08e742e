//! THE LIST: kinds of queueing disciplines, with their options and statistics. Another kind is a line here
//! and its types.

mod cake;
mod codel;
mod pie;
mod plain;
mod shaped;

pub use cake::{CakeOption, CakeStat, CakeTin, CakeTinStat};
pub use codel::{CodelOption, CodelXstats, FqCodelFlow, FqCodelOption, FqCodelTotals, FqCodelXstats};
pub use pie::{DualPi2Option, DualPi2Xstats, FqPieOption, FqPieXstats, PieOption, PieXstats};
pub use plain::{FifoParms, MqprioOption, MqprioOptions, RedOption, RedParms, RedXstats};
pub use shaped::{HtbClass, HtbGlobal, HtbOption, HtbXstats, RateSpec, TICK_NANOS, TbfOption, TbfParms};

use crate::attribute::{Nested, Raw, Value, first};
use std::fmt;
use weir_units::Duration;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $name:literal $options:ty $([$xstats:ty])?;)*) => {
        /// A kind of queueing discipline.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
            /// One that is not in the list.
            Other(String),
        }

        impl Kind {
            /// Every kind of the list.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind),*];

            /// Its name, as `tc` has it.
            pub fn name(&self) -> &str {
                match self {
                    $(Kind::$kind => $name,)*
                    Kind::Other(name) => name,
                }
            }

            /// The kind of a name.
            pub fn of(name: &str) -> Kind {
                match name {
                    $($name => Kind::$kind,)*
                    other => Kind::Other(other.to_owned()),
                }
            }
        }

        /// The options of a discipline or a class.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum Options {
            $($(#[$doc])* $kind($options),)*
            /// Of a kind that is not in the list, or of another form than declared.
            Other(Raw),
        }

        impl Options {
            pub(crate) fn read(kind: Option<&Kind>, attribute: u16, flags: u16, bytes: &[u8]) -> Options {
                let known = match kind {
                    $(Some(Kind::$kind) => <$options as Value>::read(flags, bytes).map(Options::$kind),)*
                    _ => None,
                };
                known.unwrap_or_else(|| Options::Other(Raw { kind: attribute | flags, bytes: bytes.to_vec() }))
            }

            pub(crate) fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $(Options::$kind(options) => options.write(out),)*
                    Options::Other(raw) => out.extend_from_slice(&raw.bytes),
                }
            }

            pub(crate) fn kind(&self, attribute: u16) -> u16 {
                match self {
                    $(Options::$kind(options) => attribute | options.flags(),)*
                    Options::Other(raw) => raw.kind,
                }
            }
        }

        /// Statistics that only one kind has.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum Xstats {
            $($(
                #[doc = concat!("Of `", $name, "`.")]
                $kind($xstats),
            )?)*
            /// Of a kind that is not in the list, or of another form than declared.
            Other(Raw),
        }

        impl Xstats {
            pub(crate) fn read(kind: Option<&Kind>, attribute: u16, flags: u16, bytes: &[u8]) -> Xstats {
                let known = match kind {
                    $($(Some(Kind::$kind) => <$xstats as Value>::read(flags, bytes).map(Xstats::$kind),)?)*
                    _ => None,
                };
                known.unwrap_or_else(|| Xstats::Other(Raw { kind: attribute | flags, bytes: bytes.to_vec() }))
            }

            pub(crate) fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $($(Xstats::$kind(stats) => <$xstats as Value>::write(stats, out),)?)*
                    Xstats::Other(raw) => out.extend_from_slice(&raw.bytes),
                }
            }

            pub(crate) fn kind(&self, attribute: u16) -> u16 {
                match self {
                    $($(Xstats::$kind(stats) => attribute | <$xstats as Value>::flags(stats),)?)*
                    Xstats::Other(raw) => raw.kind,
                }
            }
        }
    };
}

kinds! {
    /// CoDel (RFC 8289).
    Codel "codel" Nested<CodelOption> [CodelXstats];
    /// CoDel for each flow (RFC 8290).
    FqCodel "fq_codel" Nested<FqCodelOption> [FqCodelXstats];
    /// PIE (RFC 8033).
    Pie "pie" Nested<PieOption> [PieXstats];
    /// PIE with a queue for each flow.
    FqPie "fq_pie" Nested<FqPieOption> [FqPieXstats];
    /// CAKE: shaper, fairness and COBALT.
    Cake "cake" Nested<CakeOption> [Nested<CakeStat>];
    /// CAKE on each queue of an interface.
    CakeMq "cake_mq" Nested<CakeOption> [Nested<CakeStat>];
    /// DualPI2 (RFC 9332).
    DualPi2 "dualpi2" Nested<DualPi2Option> [DualPi2Xstats];
    /// RED.
    Red "red" Nested<RedOption> [RedXstats];
    /// Hierarchical token buckets.
    Htb "htb" Nested<HtbOption> [HtbXstats];
    /// One token bucket.
    Tbf "tbf" Nested<TbfOption>;
    /// A FIFO with room for packets.
    Pfifo "pfifo" FifoParms;
    /// A FIFO with room for bytes.
    Bfifo "bfifo" FifoParms;
    /// A discipline for each queue of an interface.
    Mq "mq" Nested<Raw>;
    /// The same with traffic classes.
    Mqprio "mqprio" MqprioOptions;
    /// Filters on what arrives.
    Ingress "ingress" Nested<Raw>;
    /// Filters on what arrives and leaves.
    Clsact "clsact" Nested<Raw>;
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn micros(value: Option<&u32>) -> Option<Duration> {
    value.map(|us| Duration::from_micros(u64::from(*us)))
}

/// Microseconds as the kernel takes them.
fn to_micros(time: Duration) -> u32 {
    u32::try_from(time.as_nanos() / 1000).unwrap_or(u32::MAX)
}

impl Kind {
    /// What to set so that the kernel tells this target, in whole microseconds: it rounds down when it stores
    /// and again when it tells, CoDel to units of 1024 ns and PIE of 64 ns. What it told once can be set
    /// again without a loss.
    pub fn target_to_set(&self, told: Duration) -> Duration {
        let us = told.as_nanos() / 1000;
        let more = match self {
            Kind::Codel | Kind::FqCodel => true,
            Kind::Pie | Kind::FqPie => !us.is_multiple_of(8),
            _ => false,
        };
        Duration::from_micros(us + u64::from(more))
    }
}

impl Options {
    /// The target of the delay, of kinds that have one.
    pub fn target(&self) -> Option<Duration> {
        micros(match self {
            Options::Codel(o) => first!(o, CodelOption::Target),
            Options::FqCodel(o) => first!(o, FqCodelOption::Target),
            Options::Pie(o) => first!(o, PieOption::Target),
            Options::FqPie(o) => first!(o, FqPieOption::Target),
            Options::Cake(o) | Options::CakeMq(o) => first!(o, CakeOption::Target),
            Options::DualPi2(o) => first!(o, DualPi2Option::Target),
            _ => None,
        })
    }

    /// The target that the kernel has where none is asked for: 5 ms of CoDel, 15 ms of PIE and DualPI2
    /// (`codel_params_init`, `pie_params_init`, `dualpi2_reset_default`), and a twentieth of CAKE's interval,
    /// as `tc` sets it.
    pub fn default_target(&self) -> Option<Duration> {
        match self {
            Options::Codel(_) | Options::FqCodel(_) => Some(Duration::from_millis(5)),
            Options::Pie(_) | Options::FqPie(_) | Options::DualPi2(_) => Some(Duration::from_millis(15)),
            Options::Cake(_) | Options::CakeMq(_) => Some(self.interval()?.mul_f64(0.05)),
            _ => None,
        }
    }

    /// The interval of kinds that have one; CAKE calls it round-trip time.
    pub fn interval(&self) -> Option<Duration> {
        micros(match self {
            Options::Codel(o) => first!(o, CodelOption::Interval),
            Options::FqCodel(o) => first!(o, FqCodelOption::Interval),
            Options::Cake(o) | Options::CakeMq(o) => first!(o, CakeOption::Rtt),
            _ => None,
        })
    }

    /// The change of the target, and nothing else, for kinds that take it alone; `None` for others. Rounded
    /// down to microseconds. CAKE takes the interval with it, which otherwise would set the target.
    pub fn with_target(kind: &Kind, target: Duration, interval: Option<Duration>) -> Option<Options> {
        let us = to_micros(target);
        Some(match kind {
            Kind::Codel => Options::Codel(vec![CodelOption::Target(us)].into()),
            Kind::FqCodel => Options::FqCodel(vec![FqCodelOption::Target(us)].into()),
            Kind::Pie => Options::Pie(vec![PieOption::Target(us)].into()),
            // These refuse a list that does not say that it is one.
            Kind::FqPie => Options::FqPie(Nested { flagged: true, items: vec![FqPieOption::Target(us)] }),
            Kind::DualPi2 => {
                Options::DualPi2(Nested { flagged: true, items: vec![DualPi2Option::Target(us)] })
            }
            Kind::Cake | Kind::CakeMq => {
                let mut all = vec![CakeOption::Target(us)];
                all.splice(0..0, interval.map(|time| CakeOption::Rtt(to_micros(time))));
                let all = all.into();
                if *kind == Kind::Cake { Options::Cake(all) } else { Options::CakeMq(all) }
            }
            _ => return None,
        })
    }

    /// The rate of a shaper in bytes per second: of TBF, of a class of HTB (its ceiling), of CAKE.
    pub fn shaped_rate(&self) -> Option<u64> {
        let wide = |narrow: u32, wide: Option<&u64>| wide.copied().unwrap_or(u64::from(narrow));
        match self {
            Options::Tbf(o) => {
                first!(o, TbfOption::Parms).map(|p| wide(p.rate_spec.rate, first!(o, TbfOption::Rate64)))
            }
            Options::Htb(o) => {
                first!(o, HtbOption::Class).map(|c| wide(c.ceil_spec.rate, first!(o, HtbOption::Ceil64)))
            }
            Options::Cake(o) | Options::CakeMq(o) => {
                first!(o, CakeOption::BaseRate).copied().filter(|rate| *rate > 0)
            }
            _ => None,
        }
    }

    /// The same options with another rate, in bytes per second, as a change takes them; bursts keep their
    /// bytes. Of a class of HTB it is the ceiling, and the rate where it would lie above that. `None` where
    /// nothing is shaped.
    pub fn with_shaped_rate(&self, rate: u64) -> Option<Options> {
        let before = self.shaped_rate().filter(|rate| *rate > 0)?;
        let narrow = u32::try_from(rate).unwrap_or(u32::MAX);
        let scaled = |ticks: u32, before: u64, after: u64| {
            u32::try_from(u128::from(ticks) * u128::from(before) / u128::from(after.max(1)))
                .unwrap_or(u32::MAX)
        };
        match self {
            Options::Tbf(o) => {
                let mut parms = first!(o, TbfOption::Parms)?.clone();
                let burst =
                    u128::from(parms.buffer) * u128::from(TICK_NANOS) * u128::from(before) / 1_000_000_000;
                parms.rate_spec.rate = narrow;
                parms.buffer = scaled(parms.buffer, before, rate);
                let mut all = vec![TbfOption::Parms(parms)];
                all.extend(o.iter().filter(|a| matches!(a, TbfOption::PeakRate64(_))).cloned());
                all.extend((rate > u64::from(u32::MAX)).then_some(TbfOption::Rate64(rate)));
                // Rounded up: a burst of less than a packet would stop all packets.
                all.push(TbfOption::Burst(u32::try_from(burst + 1).unwrap_or(u32::MAX)));
                Some(Options::Tbf(all.into()))
            }
            Options::Htb(o) => {
                let mut class = first!(o, HtbOption::Class)?.clone();
                let assured =
                    first!(o, HtbOption::Rate64).copied().unwrap_or(u64::from(class.rate_spec.rate));
                class.cbuffer = scaled(class.cbuffer, before, rate);
                class.ceil_spec.rate = narrow;
                let kept = if assured >= rate || assured == before { rate } else { assured };
                class.buffer = scaled(class.buffer, assured, kept);
                class.rate_spec.rate = u32::try_from(kept).unwrap_or(u32::MAX);
                let mut all = vec![HtbOption::Class(class)];
                all.extend((kept > u64::from(u32::MAX)).then_some(HtbOption::Rate64(kept)));
                all.extend((rate > u64::from(u32::MAX)).then_some(HtbOption::Ceil64(rate)));
                Some(Options::Htb(all.into()))
            }
            Options::Cake(_) => Some(Options::Cake(vec![CakeOption::BaseRate(rate)].into())),
            Options::CakeMq(_) => Some(Options::CakeMq(vec![CakeOption::BaseRate(rate)].into())),
            _ => None,
        }
    }
}
