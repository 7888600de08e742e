//! What meters count, and what quotas let pass.

use crate::rig::*;
use std::sync::Arc;
use weir_units::Duration;
use weir_upf::plane::{CORE, Cause};
use weir_upf::rules::*;

fn metered(number: u32) -> Session {
    let both = Meter { urr: Some(7), pdrs: [1, 2].into() };
    let down = Meter { urr: Some(8), pdrs: [2].into() };
    Session { meters: [both, down].into(), ..session(number, None) }
}

fn down(rig: &mut Rig, count: usize) -> usize {
    (0..count).for_each(|_| rig.comes(CORE, &udp(SERVER, ue(1), (1, 2), 100)));
    rig.passes(Duration::from_millis(1));
    rig.packets().len()
}

fn bytes(rig: &mut Rig) -> Vec<(u64, u64)> {
    rig.0.measured(1).iter().map(|m| (m.bytes.down, m.packets.down)).collect()
}

#[test]
fn packets_that_are_forwarded_count_for_every_rule_that_names_them() {
    let mut rig = Rig::new(setup());
    rig.establish(metered(1));
    assert_eq!(down(&mut rig, 3), 3);
    assert_eq!(bytes(&mut rig), [(300, 3), (300, 3)]);
    // A rule that goes on goes on counting; one in the place of another begins anew.
    let mut other = metered(1);
    other.meters[1].urr = Some(9);
    let told = rig.0.modify(Arc::new(other), &[]).unwrap();
    assert_eq!(told[1].bytes.down, 300);
    assert_eq!(down(&mut rig, 1), 1);
    assert_eq!(bytes(&mut rig), [(400, 4), (100, 1)]);
    let (_, told) = rig.0.remove(1).unwrap();
    assert_eq!(told.iter().map(|m| m.bytes.down).collect::<Vec<_>>(), [400, 100]);
    assert!(rig.0.measured(1).is_empty());
}

#[test]
fn bounds_are_told_once_and_a_quota_stops() {
    let mut rig = Rig::new(setup());
    rig.establish(metered(1));
    let at = |down: u64| Amounts { down: Some(down), ..Amounts::default() };
    rig.0.bound(1, 1, Bounds { tell: at(200), stop: at(400), first: false });
    assert_eq!((down(&mut rig, 1), rig.0.event()), (1, None));
    assert_eq!((down(&mut rig, 2), rig.0.event()), (2, Some(Event::Measured { seid: 1 })));
    assert_eq!((down(&mut rig, 3), rig.0.event()), (1, None));
    assert_eq!((rig.count(Cause::Quota), rig.0.usage(1).unwrap().dropped.down), (2, 2));
    // Bounds that are reached already are told at once.
    rig.0.bound(1, 1, Bounds { tell: at(10), ..Bounds::default() });
    assert_eq!(rig.0.event(), Some(Event::Measured { seid: 1 }));
    assert_eq!((down(&mut rig, 1), rig.0.event()), (1, None));
}
