//! Where each rule of a session stands: one that goes on keeps its place, so that queues keep their packets
//! and packets their way.

/// Most places of one kind in a session.
const PLACES_MAX: usize = 200;

/// What stands where, for the next change.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Layout {
    /// FARs, by number.
    pub acts: RuleSlots<u32>,
    /// Rates: the number of a QER, and whether that from the user equipment.
    pub limits: RuleSlots<(u32, bool)>,
    /// Queues.
    pub queues: RuleSlots<QueueKey>,
    /// Bottlenecks behind the base station, in the order of their numbers.
    pub paths: Box<[FlowKey]>,
}

/// Packets that pass one bottleneck behind the base station, which is learnt from them alone: each has a vAQM
/// of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FlowKey {
    /// All non-GBR flows of the session.
    Aggregate,
    /// A GBR flow, by QFI.
    Flow(u8),
    /// A GBR flow without a QFI, by the QER that guarantees its rate.
    Bearer(u32),
}

impl Layout {
    /// As the next change will find it. Sessions with the same numbers have the same then, whatever they were
    /// before.
    pub fn settled(mut self) -> Layout {
        self.acts.settle();
        self.limits.settle();
        self.queues.settle();
        self
    }
}

/// What tells queues apart: all packets with the same key wait together.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct QueueKey {
    /// Whether packets come from the user equipment.
    pub is_up: bool,
    /// Whether they come from or go to the port for local breakout.
    pub is_local: bool,
    /// The QoS flow; `None` for the aggregate.
    pub qfi: Option<u8>,
    /// The bearer, where QoS flows are not named.
    pub bearer: Option<Bearer>,
    /// Number of the profile.
    pub profile: u16,
    /// Numbers of the QERs whose rates hold.
    pub limits: Box<[u32]>,
}

/// A bearer of a session without QoS flows other than the first, or with a guaranteed rate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bearer {
    /// The first rule of its tunnel; `None` for the first bearer.
    pub number: Option<u16>,
    /// The QER that guarantees its rate.
    pub guaranteed: Option<u32>,
}

/// Keys in their places.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RuleSlots<K>(Vec<RuleSlot<K>>);

/// A place.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RuleSlot<K> {
    /// Whose it is.
    pub key: Option<K>,
    /// How often it was given to another.
    pub generation: u8,
    /// Whether its owner had it before.
    pub is_kept: bool,
}

impl<K> Default for RuleSlots<K> {
    fn default() -> RuleSlots<K> {
        RuleSlots(Vec::new())
    }
}

impl<K: PartialEq + Clone> RuleSlots<K> {
    /// All of them.
    pub fn all(&self) -> &[RuleSlot<K>] {
        &self.0
    }

    fn settle(&mut self) {
        self.0.iter_mut().for_each(|place| place.is_kept = false);
        self.0.shrink_to_fit();
    }

    /// As before, without those that are not wanted any more.
    pub fn keeping(&self, wanted: impl Fn(&K) -> bool) -> RuleSlots<K> {
        let keep = |place: &RuleSlot<K>| {
            let key = place.key.clone().filter(&wanted);
            RuleSlot { is_kept: key.is_some(), key, generation: place.generation }
        };
        RuleSlots(self.0.iter().map(keep).collect())
    }

    /// The place of a key, if one is free.
    pub fn of(&mut self, key: &K) -> Option<u8> {
        let found = self.0.iter().position(|place| place.key.as_ref() == Some(key));
        let at = match found.or_else(|| self.0.iter().position(|place| place.key.is_none())) {
            Some(at) => at,
            None if self.0.len() >= PLACES_MAX => return None,
            None => {
                self.0.push(RuleSlot { key: None, generation: 0, is_kept: false });
                self.0.len() - 1
            }
        };
        let place = &mut self.0[at];
        if place.key.is_none() {
            let generation = place.generation.wrapping_add(1);
            *place = RuleSlot { key: Some(key.clone()), generation, is_kept: false };
        }
        Some(at as u8)
    }
}
