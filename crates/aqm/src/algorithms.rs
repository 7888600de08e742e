//! THE LIST of algorithms, and what is made from it.
//!
//! Adding an algorithm is one file beside this one and one line in the list below. Names, checked
//! parameters, `weir list` and `weir explain`, TOML, steering, conformance, benchmarks and fuzzing follow.
//!
//! One more is that of a crate outside of this repository, whose file `WEIR_ALGORITHM` names at the build
//! (`build.rs`).

use crate::{Algorithm, Aqm, Moment, Needs, Packet, Params, Sample, Setpoint, Verdict};
use weir_units::{Rate, Time};

/// Something to do with an algorithm, generic over which one it is.
///
/// Hosts build their inner loop in `visit`, so that dispatch happens once per port and not per packet.
pub trait Visitor {
    /// What comes out.
    type Output;
    /// Does it with algorithm `A`.
    fn visit<A: Algorithm>(self) -> Self::Output;
}

/// Who has parameters for whichever algorithm there is.
pub trait Parameters {
    /// Those of an algorithm.
    fn params<P: Params>(&self) -> P;
}

/// From lines `module => Type` this makes the modules, [`names`], [`visit`], [`visit_all`], [`AnyAqm`] and
/// the macro [`each_algorithm`](crate::each_algorithm). The first token is a dollar sign, for that macro.
macro_rules! algorithms {
    ($dollar:tt $($(#[$gate:meta])* $module:ident => $ty:ident,)*) => {
        $($(#[$gate])* pub mod $module;)*

        /// Calls a macro with the lines of THE LIST, where each algorithm needs an item of its own, such as a
        /// test.
        #[macro_export]
        macro_rules! each_algorithm {
            ($dollar name:ident) => {
                $dollar name! { $($(#[$gate])* $module => $ty,)* }
            };
        }

        /// The names of all algorithms, in the order of the list.
        pub fn names() -> &'static [&'static str] {
            &[$($(#[$gate])* <$module::$ty as Algorithm>::NAME),*]
        }

        /// Whether there is an algorithm of that name, and it [does not notice packets that
        /// pass](Aqm::IGNORES_PASSING).
        pub fn ignores_passing(name: &str) -> bool {
            $($(#[$gate])* if name == <$module::$ty as Algorithm>::NAME {
                return <$module::$ty as Aqm>::IGNORES_PASSING;
            })*
            false
        }

        /// Whether there is an algorithm of that name, and it may have flows [shaped](Aqm::SHAPES).
        pub fn shapes(name: &str) -> bool {
            $($(#[$gate])* if name == <$module::$ty as Algorithm>::NAME {
                return <$module::$ty as Aqm>::SHAPES;
            })*
            false
        }

        /// The names of the algorithms that [need](Aqm::NEEDS) this, in the order of the list.
        pub fn names_needing(needs: Needs) -> impl Iterator<Item = &'static str> {
            let all = [$($(#[$gate])* (<$module::$ty as Algorithm>::NAME, <$module::$ty as Aqm>::NEEDS)),*];
            all.into_iter().filter(move |(_, own)| *own == needs).map(|(name, _)| name)
        }

        /// The algorithm of which others call a queue for each flow by that name.
        pub fn per_flow_elsewhere(name: &str) -> Option<&'static str> {
            $($(#[$gate])* if <$module::$ty as Algorithm>::PER_FLOW_ELSEWHERE.contains(&name) {
                return Some(<$module::$ty as Algorithm>::NAME);
            })*
            None
        }

        /// Does something with the algorithm of that name; `None` if there is none.
        pub fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            $($(#[$gate])* if name == <$module::$ty as Algorithm>::NAME {
                return Some(visitor.visit::<$module::$ty>());
            })*
            None
        }

        /// Does something with every algorithm in turn.
        pub fn visit_all<V: Visitor + Clone>(visitor: V, mut each: impl FnMut(V::Output)) {
            $($(#[$gate])* each(visitor.clone().visit::<$module::$ty>());)*
        }

        /// Any algorithm of the list as one type, for places where ten nanoseconds do not matter.
        #[derive(Clone)]
        #[allow(missing_docs, clippy::large_enum_variant)]
        pub enum AnyAqm {
            $($(#[$gate])* $ty($module::$ty),)*
        }

        $($(#[$gate])* impl From<$module::$ty> for AnyAqm {
            fn from(aqm: $module::$ty) -> AnyAqm {
                AnyAqm::$ty(aqm)
            }
        })*

        impl AnyAqm {
            /// A fresh instance of the algorithm of that name; `None` if there is none.
            pub fn new(name: &str, from: &impl Parameters, start: Time) -> Option<AnyAqm> {
                $($(#[$gate])* if name == <$module::$ty as Algorithm>::NAME {
                    return Some(<$module::$ty as Algorithm>::new(&from.params(), start).into());
                })*
                None
            }
        }

        impl Aqm for AnyAqm {
            const USES_RANDOM: bool = true;
            const SHAPES: bool = true;
            fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
                match self { $($(#[$gate])* AnyAqm::$ty(a) => a.on_enqueue(m, p),)* }
            }
            fn on_dequeue(&mut self, m: &Moment, p: &Packet) -> Verdict {
                match self { $($(#[$gate])* AnyAqm::$ty(a) => a.on_dequeue(m, p),)* }
            }
            fn on_empty(&mut self, now: Time) {
                match self { $($(#[$gate])* AnyAqm::$ty(a) => a.on_empty(now),)* }
            }
            fn on_overflow(&mut self, m: &Moment, p: &Packet) {
                match self { $($(#[$gate])* AnyAqm::$ty(a) => a.on_overflow(m, p),)* }
            }
            fn next_wakeup(&self) -> Option<Time> {
                match self { $($(#[$gate])* AnyAqm::$ty(a) => a.next_wakeup(),)* }
            }
            fn on_wakeup(&mut self, m: &Moment) {
                match self { $($(#[$gate])* AnyAqm::$ty(a) => a.on_wakeup(m),)* }
            }
            fn on_sample(&mut self, now: Time, s: Sample) {
                match self { $($(#[$gate])* AnyAqm::$ty(a) => a.on_sample(now, s),)* }
            }
            fn shaped(&self, p: &Packet) -> Option<Rate> {
                match self { $($(#[$gate])* AnyAqm::$ty(a) => a.shaped(p),)* }
            }
            fn on_shaped(&mut self, now: Time, p: &Packet) {
                match self { $($(#[$gate])* AnyAqm::$ty(a) => a.on_shaped(now, p),)* }
            }
            fn on_shaped_sent(&mut self, now: Time, p: &Packet) {
                match self { $($(#[$gate])* AnyAqm::$ty(a) => a.on_shaped_sent(now, p),)* }
            }
            fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
                match self { $($(#[$gate])* AnyAqm::$ty(a) => a.setpoint(),)* }
            }
            fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
                match self { $($(#[$gate])* AnyAqm::$ty(a) => a.gauges(plot),)* }
            }
        }
    };
}

/// The name of the algorithm for a queue without management: packets are discarded when there is no room. Its
/// parameter `limit` is the room.
pub const UNMANAGED: &str = <tail_drop::TailDrop as Algorithm>::NAME;

/// The name of the algorithm that manages a queue of which nothing is said.
pub const USUAL: &str = <codel::CoDel as Algorithm>::NAME;

algorithms! {
    $
    tail_drop => TailDrop,
    codel => CoDel,
    gsp => Gsp,
    pie => Pie,
    pi2 => Pi2,
    cobalt => Cobalt,
    blue => Blue,
    hull => Hull,
    red => Red,
    rem => Rem,
    pi => Pi,
    gkvq => Gkvq,
    avq => Avq,
    asqm => Asqm,
    vaqm => Vaqm,
    #[cfg(feature = "test-algorithm")]
    every_nth => EveryNth,
    #[cfg(outside)]
    outside => Outside,
}
