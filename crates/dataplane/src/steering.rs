//! What steers a direction, and customers of it that have a policy of their own.

use rtrb::Producer;
use std::collections::BTreeMap;
use weir_queue::OwnGuides;
use weir_steer::{Helm, Move, Policy, SteeringLaw};
use weir_units::Time;

/// The steering law over the packets of a queue, or of one customer.
pub(crate) type Steering = Helm<SteeringLaw, Moves>;

/// Passes the moves of the set point on to whoever reads them; those of single customers are not told.
#[derive(Default)]
pub(crate) struct Moves {
    pub ring: Option<Producer<Move>>,
    pub lost: u64,
}

impl weir_steer::Observer for Moves {
    fn moved(&mut self, m: &Move) {
        if let Some(ring) = &mut self.ring {
            self.lost += u64::from(ring.push(*m).is_err());
        }
    }
}

/// A law for each customer that has a policy, by the number of its plan.
pub(crate) fn of_customers(policies: &BTreeMap<u32, Policy>) -> OwnGuides<Steering> {
    let law = |policy: &Policy| SteeringLaw::new(policy).expect("policies are checked with the plans");
    let own = |policy: &Policy| Box::new(Helm::to_come(law(policy), Time::ZERO, Moves::default()));
    let numbers = policies.last_key_value().map_or(0, |(last, _)| last + 1);
    (0..numbers).map(|number| policies.get(&number).map(own)).collect()
}

/// Puts the laws of customers into force and hands back those before. Who had one goes on with what it has
/// learned, under the new policy.
pub(crate) fn exchange(now: Time, own: &mut OwnGuides<Steering>, next: &mut OwnGuides<Steering>) {
    for (number, next) in next.iter_mut().enumerate() {
        let Some(new) = next else { continue };
        match own.get_mut(number).and_then(Option::as_mut) {
            Some(before) => {
                let adopted = before.adopt(new.law().policy());
                debug_assert!(adopted.is_ok(), "policies are checked with the plans");
                std::mem::swap(before, new);
            }
            None => new.begin(now),
        }
    }
    std::mem::swap(own, next);
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::Duration;

    fn policies(most_ms: &[(u32, u64)]) -> OwnGuides<Steering> {
        let policy = |ms| Policy { target_max: Duration::from_millis(ms), ..Policy::default() };
        of_customers(&most_ms.iter().map(|(number, ms)| (*number, policy(*ms))).collect())
    }

    #[test]
    fn a_law_goes_on_with_what_it_has_learned_and_others_come_and_go() {
        let mut own = OwnGuides::default();
        let mut told = |next: &[(u32, u64)]| {
            exchange(Time::ZERO, &mut own, &mut policies(next));
            let of = |own: &Option<Box<Steering>>| {
                own.as_ref().map(|own| (own.law().policy().target_max, own.setpoint_now()))
            };
            own.iter().map(of).collect::<Vec<_>>()
        };
        let us = Duration::from_micros;
        assert_eq!(
            told(&[(1, 1), (2, 30)]),
            [None, Some((us(1000), us(1000))), Some((us(30_000), us(2500)))]
        );
        // The first could have 30 ms now, and stands where it stood.
        assert_eq!(told(&[(0, 30), (1, 30)]), [Some((us(30_000), us(2500))), Some((us(30_000), us(1000)))]);
        assert_eq!(told(&[]), []);
    }
}
