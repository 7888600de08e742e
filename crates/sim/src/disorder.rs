//! What changes the order of packets behind a link's queue, or their number.

use crate::dice::{Chance, Dice};
use weir_config::Variation;
use weir_config::disorder::HeldBack;
use weir_units::Time;

/// What changes the order of packets behind a link's queue, or their number.
pub struct Disorder {
    held_back: Option<(HeldBack, Dice)>,
    twice: Option<Chance>,
    /// Packets that were held back.
    pub reordered: u64,
    /// Packets that arrived twice.
    pub duplicated: u64,
}

impl Disorder {
    /// That of a link, if it has any; `dice` makes a stream of the name of its use.
    pub fn of(variation: &Variation, dice: impl Fn(&str) -> Dice) -> Option<Disorder> {
        let held_back = variation.held_back().map(|held| (held, dice("reorder")));
        let share = variation.duplicate.0;
        let twice = (share > 0.0).then(|| Chance::new(share, dice("duplicate")));
        let is_any = held_back.is_some() || twice.is_some();
        is_any.then_some(Disorder { held_back, twice, reordered: 0, duplicated: 0 })
    }

    /// When a packet that would arrive `at` does, and whether twice.
    pub fn roll(&mut self, at: Time) -> (Time, bool) {
        let late = self.held_back.as_mut().map(|(held, dice)| held.delay(&mut || dice.bits()));
        let at_last = late.map_or(at, |late| at + late);
        let twice = self.twice.as_mut().is_some_and(Chance::hits);
        self.reordered += u64::from(at_last > at);
        self.duplicated += u64::from(twice);
        (at_last, twice)
    }
}
