//! The list of disciplines, and what is made from it.
//!
//! Adding a discipline is one file beside this one and one line in the list below. Names, checked parameters,
//! TOML with its documentation, steering, the simulator's and the live link's queues follow.

use crate::Discipline;
use crate::per_user::{Plans, UserNow};
use weir_aqm::{Aqm, Guide, Params};
use weir_units::{Bytes, Duration, Rate, Time};

/// How much a queue may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most bytes.
    pub bytes: Bytes,
    /// Most packets; memory for them is allocated at once, unless the queue [grows](Setup::grows).
    pub packets: u32,
}

/// What a queue is built with, apart from its parameters and its algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// Room for waiting packets.
    pub limits: Limits,
    /// What algorithms are told about the link; zero if it is unshaped.
    pub rate: Rate,
    /// For the algorithms' dice and for hashes.
    pub seed: u64,
    /// Whether memory for packets is allocated when they come, so that a short queue with large limits stays
    /// in the cache; for hosts that may allocate while packets pass.
    pub grows: bool,
}

/// What a user is where each has a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserKey {
    /// Most users.
    pub most: u32,
    /// Whether a user is whoever sends, instead of whoever receives.
    pub by_sender: bool,
    /// Bits of an IPv4 address that name a user on a live link.
    pub prefix4: u32,
    /// The same of an IPv6 address.
    pub prefix6: u32,
    /// Whether a user is a VLAN on a live link, instead of an address.
    pub vlan: bool,
    /// How long a user without packets is remembered.
    pub idle: Duration,
}

/// Guides of single customers, by the number of the plan; as far as it goes.
pub type OwnGuides<G> = Box<[Option<Box<G>>]>;

/// A discipline as hosts use it.
pub trait Managed<T>: Discipline<T> {
    /// The algorithm of which each FIFO has an instance.
    type Aqm;
    /// What stands above its algorithms.
    type Guide;
    /// Puts a copy of this algorithm in the place of every instance. Packets stay where they are; what the
    /// instances had learned is gone. The work grows with the number of FIFOs, not with that of packets.
    fn set_aqm(&mut self, aqm: Self::Aqm);
    /// The guide.
    fn guide(&self) -> &Self::Guide;
    /// The guide, to take what it collected.
    fn guide_mut(&mut self) -> &mut Self::Guide;
    /// The set point in force, where there is one.
    fn setpoint(&mut self) -> Option<Duration>;
    /// What the host stored with the packet that is likely to be next, where that is known.
    fn head(&self) -> Option<&T>;
    /// Memory for users, taken when it was made; none where there are no users.
    fn bytes_of_users(&self) -> usize {
        0
    }
    /// Makes room for a rate of each user; a discipline without users has none to hold. What a user could not
    /// send because of others is made up for at most `catch_up`. To be called before the first packet.
    fn make_paces(&mut self, _catch_up: Duration) {}
    /// The same, and room for plans of customers and for what is told of each user.
    fn make_plans(&mut self, _catch_up: Duration) {}
    /// Puts plans in the place of those before, which are in `plans` then; where room was made for them.
    /// Packets stay where they are. The work grows with the number of users.
    fn set_plans(&mut self, _plans: &mut Plans) {}
    /// Guides that single customers have in the place of the one of all, to be exchanged; `None` where no
    /// room for plans was made.
    fn own_guides(&mut self) -> Option<&mut OwnGuides<Self::Guide>> {
        None
    }
    /// Nobody is held to a rate of its own any more: a host that ends, or that drops what waits, takes all at
    /// once.
    fn let_go(&mut self) {}
    /// Plans hold again. Rates that were set one by one come when they are set again.
    fn hold_again(&mut self) {}
    /// Users from the place `from` on, as many as `into` has room for; how many there were. None where no
    /// room for plans was made.
    fn tell_users(&mut self, _from: usize, _into: &mut [UserNow]) -> usize {
        0
    }
    /// Inner variables by name.
    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64));
}

/// An entry of the list.
pub trait Entry: Sized + 'static {
    /// The name in configurations.
    const NAME: &'static str;
    /// What it does, in one sentence.
    const SUMMARY: &'static str;
    /// The RFC or paper it is written from; "none" where there is none.
    const SOURCE: &'static str;
    /// Its parameters.
    type Params: Params;
    /// What a user is, if each has a queue.
    fn user_key(_params: &Self::Params) -> Option<UserKey> {
        None
    }
    /// Calls what fits the entry: [`Visitor::over_any`] or [`Visitor::of_its_own`].
    fn accept<V: Visitor>(visitor: V) -> V::Output;
}

/// How many FIFOs an algorithm is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fifos {
    /// One, so that a virtual queue can take its place.
    One,
    /// One for each flow.
    Many,
}

/// A discipline that puts any algorithm of the list to use.
pub trait OverAny: Entry {
    /// How many instances of the algorithm there are.
    const FIFOS: Fifos;
    /// A queue for items `T` under algorithm `A`.
    type Queue<A, G, T>: Managed<T, Aqm = A, Guide = G> + Send + 'static
    where
        A: Aqm + Clone + Send + 'static,
        G: Guide<A> + Send + 'static,
        T: Copy + Send + 'static;
    /// An empty queue.
    fn build<A, G, T>(params: &Self::Params, aqm: A, guide: G, setup: &Setup) -> Self::Queue<A, G, T>
    where
        A: Aqm + Clone + Send + 'static,
        G: Guide<A> + Send + 'static,
        T: Copy + Send + 'static;
    /// The same queue, with what waits in it, under another guide.
    fn under<A, G, H, T>(queue: Self::Queue<A, G, T>, guide: H) -> Self::Queue<A, H, T>
    where
        A: Aqm + Clone + Send + 'static,
        G: Guide<A> + Send + 'static,
        H: Guide<A> + Send + 'static,
        T: Copy + Send + 'static;
}

/// A discipline that brings its algorithm with it.
pub trait OfItsOwn: Entry {
    /// The parameter that is its delay set point.
    const SETPOINT: &'static str;
    /// Its algorithm.
    type Aqm: Aqm + Clone + Send + 'static;
    /// A queue for items `T`.
    type Queue<G, T>: Managed<T, Aqm = Self::Aqm, Guide = G> + Send + 'static
    where
        G: Guide<Self::Aqm> + Send + 'static,
        T: Copy + Send + 'static;
    /// Its algorithm, starting at `start`.
    fn aqm(params: &Self::Params, start: Time) -> Self::Aqm;
    /// An empty queue.
    fn build<G, T>(params: &Self::Params, aqm: Self::Aqm, guide: G, setup: &Setup) -> Self::Queue<G, T>
    where
        G: Guide<Self::Aqm> + Send + 'static,
        T: Copy + Send + 'static;
    /// The same queue, with what waits in it, under another guide.
    fn under<G, H, T>(queue: Self::Queue<G, T>, guide: H) -> Self::Queue<H, T>
    where
        G: Guide<Self::Aqm> + Send + 'static,
        H: Guide<Self::Aqm> + Send + 'static,
        T: Copy + Send + 'static;
}

/// Something to do with a discipline, generic over which one it is.
pub trait Visitor {
    /// What comes out.
    type Output;
    /// Does it with a discipline for any algorithm.
    fn over_any<D: OverAny>(self) -> Self::Output;
    /// Does it with a discipline that has its own.
    fn of_its_own<D: OfItsOwn>(self) -> Self::Output;
}

/// From lines `module => Type` this makes the modules, [`names`], [`visit`] and the macro
/// [`each_discipline`](crate::each_discipline). The first token is a dollar sign, for that macro.
macro_rules! disciplines {
    ($dollar:tt $($module:ident => $ty:ident,)*) => {
        $(pub mod $module;)*

        /// Calls a macro with the lines of the list, where each discipline needs an item of its own, such as
        /// a test.
        #[macro_export]
        macro_rules! each_discipline {
            ($dollar name:ident) => {
                $dollar name! { $($module => $ty,)* }
            };
        }

        /// The names of all disciplines, in the order of the list.
        pub fn names() -> &'static [&'static str] {
            &[$(<$module::$ty as Entry>::NAME),*]
        }

        /// Does something with the discipline of that name; `None` if there is none.
        pub fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            $(if name == <$module::$ty as Entry>::NAME {
                return Some(<$module::$ty as Entry>::accept(visitor));
            })*
            None
        }
    };
}

/// The name of the discipline that is meant when nothing is said.
pub const USUAL: &str = <single::OneFifo as Entry>::NAME;

/// The name of the discipline with a FIFO for each flow.
pub const EACH_FLOW: &str = <flow_queue::Flows as Entry>::NAME;

/// The name of the discipline with a FIFO for each user.
pub const EACH_USER: &str = <per_user::Users as Entry>::NAME;

disciplines! {
    $
    single => OneFifo,
    flow_queue => Flows,
    dual_pi2 => Dual,
    choke => Choose,
    per_user => Users,
}
