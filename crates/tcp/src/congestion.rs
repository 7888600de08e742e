//! THE LIST of congestion controls, their contract, and what is made from the list.
//!
//! Adding a congestion control is one file under `congestion/` and one line in the list below.
//! The [`Sender`](crate::Sender) finds and repairs losses and moves the window through a reduction; a
//! congestion control says how the window grows, where it falls to, and how fast segments may leave.

mod own;
mod window;

pub use own::Own;
pub use window::Window;

use crate::{EcnMode, RateSample, State};
use weir_params::{ParamError, ParamInfo, Params, Problem, Value};
use weir_units::{Duration, Time};

/// What a congestion control is told about its flow at the start.
#[derive(Clone, Debug)]
pub struct Env {
    /// When the flow starts.
    pub now: Time,
    /// Whether segments are paced.
    pub paced: bool,
    /// Window at the start.
    pub initial_window: u32,
    /// Payload of a full segment in bytes, 1 to 65535.
    pub mss: u32,
    /// Start of its dice.
    pub seed: u64,
}

/// What an ACK that delivered something tells.
#[derive(Clone, Debug)]
pub struct AckSample {
    /// When it arrived.
    pub now: Time,
    /// Segments that it newly reports as delivered.
    pub delivered: u32,
    /// Of these, those that carried a congestion mark.
    pub marked: u32,
    /// Segments newly taken for lost.
    pub lost: u32,
    /// RTT of the last of them that was sent only once.
    pub rtt: Option<Duration>,
    /// Smoothed RTT.
    pub srtt: Option<Duration>,
    /// Smallest RTT.
    pub min_rtt: Option<Duration>,
    /// First segment not acknowledged.
    pub una: u64,
    /// Next new segment.
    pub nxt: u64,
    /// Segments in flight before this ACK.
    pub prior_in_flight: u32,
    /// Segments in flight now.
    pub in_flight: u32,
    /// Segments delivered since the start.
    pub total_delivered: u64,
    /// Whether the window, and not the application or the peer, limits the flow.
    pub cwnd_limited: bool,
    /// State of loss recovery.
    pub state: State,
    /// A measurement of the delivery rate, for those that ask with [`CongestionControl::WANTS_RATE`].
    pub rate: Option<RateSample>,
}

#[cfg(test)]
impl AckSample {
    /// An ACK of segment `una - 1` alone, of a flow that uses its window of `window`.
    fn of_one(now: Time, una: u64, rtt: Duration, window: u32) -> AckSample {
        AckSample {
            now,
            delivered: 1,
            marked: 0,
            lost: 0,
            rtt: Some(rtt),
            srtt: Some(rtt),
            min_rtt: Some(rtt),
            una,
            nxt: una + u64::from(window),
            prior_in_flight: window,
            in_flight: window - 1,
            total_delivered: una,
            cwnd_limited: true,
            state: State::Open,
            rate: None,
        }
    }
}

/// Why the window falls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReductionCause {
    /// A segment was lost and is repaired.
    Loss,
    /// The network marked.
    Mark,
    /// The retransmission timer expired.
    Timeout,
}

/// A congestion control.
pub trait CongestionControl {
    /// Its name in scenario files.
    const NAME: &'static str;
    /// What it is, in a sentence.
    const SUMMARY: &'static str;
    /// Where it is defined.
    const SOURCE: &'static str;
    /// Its parameters; in scenario files they are keys of the flows. No two congestion controls have one of
    /// the same name.
    type Params: Params + PartialEq;
    /// Whether it wants segments paced when nobody says otherwise.
    const PACED: bool = false;
    /// Whether it wants [`AckSample::rate`], which costs memory per segment in flight.
    const WANTS_RATE: bool = false;
    /// Whether it sets the window itself in every state, so that the sender reduces nothing.
    const OWNS_WINDOW: bool = false;
    /// Whether it answers marks itself in [`CongestionControl::on_sample`].
    const OWNS_MARKS: bool = false;
    /// How it wants the ECN field used when nobody says otherwise.
    const ECN: EcnMode = EcnMode::Off;

    /// A new flow.
    fn new(params: &Self::Params, env: &Env) -> Self;

    /// Every ACK that delivered something, in every state.
    fn on_sample(&mut self, _window: &mut Window, _sample: &AckSample) {}

    /// An ACK after which the window may grow.
    fn grow(&mut self, window: &mut Window, sample: &AckSample);

    /// The slow-start threshold after a reduction that starts now.
    fn ssthresh(&mut self, window: &Window, cause: ReductionCause) -> u32;

    /// The retransmission timer expired, whether or not [`CongestionControl::ssthresh`] was asked before:
    /// within one window it is asked once.
    fn on_timeout(&mut self) {}

    /// The flow sends again after nothing was in flight for `idle`.
    fn on_idle(&mut self, _now: Time, _idle: Duration) {}

    /// The reduction was in vain: what was taken for lost had only been late.
    fn on_undo(&mut self) {}

    /// Segments per second at which a paced flow may send, of which `out` are not acknowledged.
    ///
    /// The default is Linux's: twice the window per RTT in slow start, 1.2 times after. What is out counts
    /// where it is more than the window, so that a reduction does not slow the repair down.
    fn pacing_rate(&self, window: &Window, srtt: Option<Duration>, out: u32) -> Option<f64> {
        let srtt = srtt?.as_secs_f64();
        let early = window.ssthresh.is_none_or(|s| window.cwnd < s / 2);
        Some(if early { 2.0 } else { 1.2 } * f64::from(window.cwnd.max(out)) / srtt)
    }
}

/// The smallest window after a loss (RFC 5681 equation 4) and, unless chosen otherwise, after a mark.
pub const CWND_MIN: u32 = 2;

/// From lines `module => Type` this makes the modules, [`names`], [`Parameters`], [`Congestion`] and its
/// dispatch.
macro_rules! congestion_controls {
    ($($module:ident => $ty:ident,)*) => {
        $(pub mod $module;)*

        /// The names of all congestion controls, in the order of the list.
        pub fn names() -> &'static [&'static str] {
            &[$(<$module::$ty as CongestionControl>::NAME),*]
        }

        /// Name, summary and source of all congestion controls.
        pub fn describe() -> &'static [(&'static str, &'static str, &'static str)] {
            &[$((
                <$module::$ty as CongestionControl>::NAME,
                <$module::$ty as CongestionControl>::SUMMARY,
                <$module::$ty as CongestionControl>::SOURCE,
            )),*]
        }

        /// The parameters that the congestion control of that name declares; none if there is none.
        pub fn declared(name: &str) -> &'static [ParamInfo] {
            $(if name == <$module::$ty as CongestionControl>::NAME {
                return <<$module::$ty as CongestionControl>::Params as Params>::INFO;
            })*
            &[]
        }

        /// The parameters of all congestion controls. A flow uses those of its own.
        #[derive(Clone, PartialEq, Default, Debug)]
        #[allow(missing_docs)]
        pub struct Parameters {
            $(pub $module: <$module::$ty as CongestionControl>::Params,)*
        }

        impl Parameters {
            /// The declarations, in the order of the list.
            pub fn declarations() -> impl Iterator<Item = &'static ParamInfo> {
                let all = [$(<<$module::$ty as CongestionControl>::Params as Params>::INFO),*];
                all.into_iter().flatten()
            }

            /// The value of a parameter.
            pub fn get(&self, name: &str) -> Option<Value> {
                $(if let Some(value) = self.$module.get(name) {
                    return Some(value);
                })*
                None
            }

            /// Sets a parameter, or says why not and changes nothing.
            pub fn set(&mut self, name: &str, value: Value) -> Result<(), ParamError> {
                $(if self.$module.get(name).is_some() {
                    return self.$module.set(name, value);
                })*
                Err(ParamError { problem: Problem::Unknown })
            }
        }

        /// Which congestion control a flow uses.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs)]
        pub enum Congestion {
            $($ty,)*
            /// One outside the list.
            Own(Own),
        }

        impl Congestion {
            /// The one of that name; `None` if there is none.
            pub fn by_name(name: &str) -> Option<Congestion> {
                $(if name == <$module::$ty as CongestionControl>::NAME {
                    return Some(Congestion::$ty);
                })*
                None
            }

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Congestion::$ty => <$module::$ty as CongestionControl>::NAME,)*
                    Congestion::Own(own) => own.name,
                }
            }

            /// How it wants the ECN field used when nobody says otherwise.
            pub fn ecn(self) -> EcnMode {
                match self {
                    $(Congestion::$ty => <$module::$ty as CongestionControl>::ECN,)*
                    Congestion::Own(own) => own.ecn,
                }
            }

            /// Whether it wants segments paced when nobody says otherwise.
            pub fn is_paced(self) -> bool {
                match self {
                    $(Congestion::$ty => <$module::$ty as CongestionControl>::PACED,)*
                    Congestion::Own(own) => own.paced,
                }
            }
        }

        /// The state of any congestion control of the list.
        #[derive(Clone, Debug)]
        pub(crate) enum Control {
            $($ty($module::$ty),)*
            Own(Own, Box<dyn own::State>),
        }

        impl Control {
            pub fn new(which: Congestion, params: &Parameters, env: &Env) -> Control {
                match which {
                    $(Congestion::$ty => {
                        Control::$ty(<$module::$ty as CongestionControl>::new(&params.$module, env))
                    })*
                    Congestion::Own(own) => Control::Own(own, (own.new)(env)),
                }
            }
            #[inline]
            pub fn wants_rate(&self) -> bool {
                match self {
                    $(Control::$ty(_) => <$module::$ty as CongestionControl>::WANTS_RATE,)*
                    Control::Own(own, _) => own.wants_rate,
                }
            }
            #[inline]
            pub fn owns_window(&self) -> bool {
                match self {
                    $(Control::$ty(_) => <$module::$ty as CongestionControl>::OWNS_WINDOW,)*
                    Control::Own(own, _) => own.owns_window,
                }
            }
            #[inline]
            pub fn owns_marks(&self) -> bool {
                match self {
                    $(Control::$ty(_) => <$module::$ty as CongestionControl>::OWNS_MARKS,)*
                    Control::Own(own, _) => own.owns_marks,
                }
            }
            #[inline]
            pub fn on_sample(&mut self, window: &mut Window, sample: &AckSample) {
                match self {
                    $(Control::$ty(c) => c.on_sample(window, sample),)*
                    Control::Own(_, c) => c.on_sample(window, sample),
                }
            }
            #[inline]
            pub fn grow(&mut self, window: &mut Window, sample: &AckSample) {
                match self {
                    $(Control::$ty(c) => c.grow(window, sample),)*
                    Control::Own(_, c) => c.grow(window, sample),
                }
            }
            pub fn ssthresh(&mut self, window: &Window, cause: ReductionCause) -> u32 {
                match self {
                    $(Control::$ty(c) => c.ssthresh(window, cause),)*
                    Control::Own(_, c) => c.ssthresh(window, cause),
                }
            }
            pub fn on_timeout(&mut self) {
                match self {
                    $(Control::$ty(c) => c.on_timeout(),)*
                    Control::Own(_, c) => c.on_timeout(),
                }
            }
            pub fn on_idle(&mut self, now: Time, idle: Duration) {
                match self {
                    $(Control::$ty(c) => c.on_idle(now, idle),)*
                    Control::Own(_, c) => c.on_idle(now, idle),
                }
            }
            pub fn on_undo(&mut self) {
                match self {
                    $(Control::$ty(c) => c.on_undo(),)*
                    Control::Own(_, c) => c.on_undo(),
                }
            }
            pub fn pacing_rate(&self, window: &Window, srtt: Option<Duration>, out: u32) -> Option<f64> {
                match self {
                    $(Control::$ty(c) => c.pacing_rate(window, srtt, out),)*
                    Control::Own(_, c) => c.pacing_rate(window, srtt, out),
                }
            }
        }
    };
}

/// The congestion control of a flow of which nothing is said.
pub const USUAL: &str = <cubic::Cubic as CongestionControl>::NAME;

congestion_controls! {
    reno => Reno,
    cubic => Cubic,
    dctcp => Dctcp,
    bbr => Bbr,
    bbr3 => Bbr3,
    prague => Prague,
    ledbat => Ledbat,
}

impl Congestion {
    /// What it is on a connection without ECN: one that is made for marks falls back to Reno, as DCTCP and
    /// Prague do in Linux.
    pub fn without_ecn(self) -> Congestion {
        if self.ecn() == EcnMode::Off { self } else { Congestion::Reno }
    }
}

mod hystart;
mod hystart_plus;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_its_control() {
        for name in names() {
            assert_eq!(Congestion::by_name(name).unwrap().name(), *name);
        }
        assert!(Congestion::by_name("vegas").is_none());
        assert_eq!(describe().len(), names().len());
    }

    #[test]
    fn parameters_have_names_of_their_own_and_are_set_by_them() {
        let mut parameters = Parameters::default();
        let names: Vec<&str> = Parameters::declarations().map(|info| info.name).collect();
        for (i, info) in Parameters::declarations().enumerate() {
            assert!(!names[..i].contains(&info.name), "two congestion controls have `{}`", info.name);
            assert_eq!(parameters.get(info.name), Some(info.default));
            parameters.set(info.name, info.min).unwrap();
            assert_eq!(parameters.get(info.name), Some(info.min));
        }
        assert_eq!(parameters.set("aim", Value::Count(1)).unwrap_err().problem, Problem::Unknown);
    }
}
