use super::*;
use std::vec::Vec;

fn us(us: u64) -> Time {
    Time::from_nanos(us * 1000)
}

/// Both ends of a connection and the observer between them, `server` and `user` microseconds away. The server
/// sends a packet each `gap`; the user answers each at once.
struct Path {
    server: u64,
    user: u64,
    gap: u64,
    /// Whether the user inverts, as a client does.
    user_inverts: bool,
    /// The user answers each so many packets.
    answered_each: u64,
    /// Every so many packets towards the user, one is overtaken by the next; zero for none.
    overtaken_each: u64,
    /// Every so many packets towards the user, one is lost behind the observer.
    lost_each: u64,
    /// The smallest round-trip time that is known of the user, in microseconds.
    known: Option<u64>,
    /// An end whose bit is off, and thus random from packet to packet; the other one goes on as if it spun.
    random: Option<Random>,
}

/// With which dice.
#[derive(Clone, Copy)]
enum Random {
    Server(u64),
    User(u64),
}

const PLAIN: Path = Path {
    server: 10_000,
    user: 20_000,
    gap: 500,
    user_inverts: true,
    answered_each: 1,
    overtaken_each: 0,
    lost_each: 0,
    known: None,
    random: None,
};

/// Something on its way: when it gets there, what, its number and spin bit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Passing {
    /// The observer, towards the user.
    Down,
    User,
    /// The observer, from the user.
    Up,
    Server,
}

impl Path {
    /// Lets `packets` pass; returns the samples, and what did not add up.
    fn run(&self, packets: u64) -> (Vec<Rtt>, Suspicions) {
        let (mut flow, mut suspicions, mut samples) =
            (QuicFlow::default(), Suspicions::default(), Vec::new());
        let known = self.known.map(Duration::from_micros);
        let mut events: std::collections::BTreeSet<(u64, Passing, u64, bool)> = Default::default();
        let mut next = 0;
        let (mut at_servers, mut at_users) = match self.random {
            None => (None, None),
            Some(Random::Server(seed)) => (Some(seed), None),
            Some(Random::User(seed)) => (None, Some(seed)),
        };
        let sent =
            |bit: bool, state: &mut Option<u64>| state.as_mut().map_or(bit, |state| dice(state) & 1 == 1);
        // The newest number and bit that each end has.
        let (mut at_server, mut at_user) = ((0, false), (0, false));
        while next < packets || !events.is_empty() {
            let send_at = next * self.gap;
            let event = events.first().copied().filter(|e| next >= packets || e.0 <= send_at);
            let Some((at, passing, number, spin)) = event else {
                let bit = sent(at_server.1 ^ !self.user_inverts, &mut at_servers);
                let overtaken = self.overtaken_each > 0 && next % self.overtaken_each == 0;
                let late = if overtaken { self.gap + self.gap / 2 } else { 0 };
                events.insert((send_at + self.server + late, Passing::Down, next, bit));
                next += 1;
                continue;
            };
            events.pop_first();
            match passing {
                Passing::Down => {
                    samples.extend(flow.spin(us(at), Way::ToUser, 1000, spin, known, &mut suspicions));
                    if self.lost_each == 0 || number % self.lost_each != 0 {
                        events.insert((at + self.user / 2, Passing::User, number, spin));
                    }
                }
                Passing::User => {
                    at_user = at_user.max((number, spin));
                    let bit = sent(at_user.1 ^ self.user_inverts, &mut at_users);
                    if number % self.answered_each == 0 {
                        events.insert((at + self.user / 2, Passing::Up, number, bit));
                    }
                }
                Passing::Up => {
                    samples.extend(flow.spin(us(at), Way::FromUser, 40, spin, known, &mut suspicions));
                    events.insert((at + self.server, Passing::Server, number, spin));
                }
                Passing::Server => at_server = at_server.max((number, spin)),
            }
        }
        (samples, suspicions)
    }
}

fn within(samples: &[Rtt], from: u64, to: u64) -> bool {
    samples.iter().all(|s| (Duration::from_micros(from)..=Duration::from_micros(to)).contains(&s.rtt))
}

#[test]
fn the_users_half_is_found_whichever_side_inverts() {
    for user_inverts in [true, false] {
        let (samples, suspicions) = Path { user_inverts, ..PLAIN }.run(4000);
        // Two seconds in round trips of 40 ms, of which the first eight are not believed yet.
        assert!(samples.len() >= 35, "{}", samples.len());
        assert!(within(&samples, 20_000, 20_500), "{samples:?}");
        assert_eq!(suspicions, Suspicions::default());
    }
}

#[test]
fn beside_a_round_trip_that_is_known_the_second_is_believed() {
    let (all, _) = Path { known: Some(20_000), ..PLAIN }.run(400);
    let (later, _) = PLAIN.run(400);
    // 200 ms are five round trips.
    assert!(all.len() >= 3 && within(&all, 20_000, 20_500) && later.is_empty(), "{all:?} {later:?}");
    // Twice as fast as anything before: it has to prove itself.
    let (faster, _) = Path { known: Some(50_000), ..PLAIN }.run(400);
    assert!(faster.is_empty(), "{faster:?}");
}

#[test]
fn an_edge_that_a_near_server_reflects_before_it_is_confirmed_takes_its_turn() {
    let (samples, suspicions) = Path { server: 50, answered_each: 4, ..PLAIN }.run(4000);
    assert!(samples.len() >= 70 && within(&samples, 20_000, 22_500), "{samples:?}");
    assert_eq!(suspicions, Suspicions::default());
}

#[test]
fn loss_and_reordering_leave_the_samples_right() {
    let (samples, _) = Path { overtaken_each: 7, ..PLAIN }.run(4000);
    assert!(samples.len() >= 15 && within(&samples, 19_000, 22_000), "{samples:?}");
    let (samples, _) = Path { lost_each: 10, ..PLAIN }.run(4000);
    assert!(samples.len() >= 15 && within(&samples, 19_000, 22_000), "{samples:?}");
}

fn dice(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn a_bit_that_is_random_or_constant_gives_nothing() {
    let (mut flow, mut suspicions, mut state) = (QuicFlow::default(), Suspicions::default(), 1);
    let mut samples = 0;
    for n in 0..20_000u64 {
        let way = if n % 2 == 0 { Way::ToUser } else { Way::FromUser };
        let spin = dice(&mut state) & 1 == 1;
        samples += usize::from(flow.spin(us(n * 250), way, 1000, spin, None, &mut suspicions).is_some());
    }
    assert!(samples == 0, "{samples} samples of {} windows", suspicions.spin_distrusted);
    assert!(suspicions.spin_distrusted > 100);
    // Nor beside a round trip of 20 ms that is known, in which 80 packets pass.
    let (mut flow, known) = (QuicFlow::default(), Some(Duration::from_millis(20)));
    for n in 0..20_000u64 {
        let way = if n % 2 == 0 { Way::ToUser } else { Way::FromUser };
        let spin = dice(&mut state) & 1 == 1;
        samples += usize::from(flow.spin(us(n * 250), way, 1000, spin, known, &mut suspicions).is_some());
    }
    assert_eq!(samples, 0);
    let mut flow = QuicFlow::default();
    let constant = |n: u64| flow.spin(us(n), Way::FromUser, 40, true, None, &mut Suspicions::default());
    assert!((0..1000).filter_map(constant).next().is_none());
}

/// At least one connection in sixteen has it off at an end (RFC 9000 section 17.4); the other end does not
/// know.
#[test]
fn a_bit_that_is_random_at_one_end_gives_nothing() {
    let (mut believed, mut all) = (Vec::new(), 0);
    for seed in 0..20 {
        for random in [Random::Server(seed), Random::User(seed)] {
            for (gap, answered_each) in [(100, 2), (500, 1), (500, 2), (2000, 2), (8000, 1)] {
                for known in [None, Some(20_000)] {
                    let path = Path { random: Some(random), gap, answered_each, known, ..PLAIN };
                    let (samples, _) = path.run(20_000);
                    all += 1;
                    believed.extend((!samples.is_empty()).then_some((gap, answered_each, known, samples)));
                }
            }
        }
    }
    // One may look like what is known, and then says nothing else.
    let is_right = |(.., samples): &(_, _, _, Vec<Rtt>)| within(samples, 20_000, 28_000);
    assert!(
        believed.len() <= 1 && believed.iter().all(is_right),
        "{} of {all}: {believed:#?}",
        believed.len()
    );
}

#[test]
fn a_user_who_spins_faster_than_the_path_is_not_believed() {
    let (mut flow, mut suspicions, mut samples) = (QuicFlow::default(), Suspicions::default(), 0);
    for n in 0..10_000u64 {
        // The server's bit turns each 40 ms, the user's each 4 ms.
        let _ = flow.spin(us(n * 100), Way::ToUser, 1000, n / 400 % 2 == 1, None, &mut suspicions);
        let rtt = flow.spin(us(n * 100 + 50), Way::FromUser, 40, n / 40 % 2 == 1, None, &mut suspicions);
        samples += usize::from(rtt.is_some());
    }
    assert_eq!(samples, 0);
    assert!(suspicions.spin_out_of_turn > 100 && suspicions.spin_distrusted > 10);
}

#[test]
fn a_pause_is_left_out_and_a_lasting_change_is_believed() {
    let (mut flow, mut suspicions) = (QuicFlow::default(), Suspicions::default());
    let (mut now, mut bit) = (0, false);
    let mut turn = |half: u64, flow: &mut QuicFlow| {
        bit = !bit;
        let mut seen = None;
        for (way, after) in
            [(Way::ToUser, 0), (Way::ToUser, 10), (Way::FromUser, half), (Way::FromUser, half + 10)]
        {
            seen = flow.spin(us(now + after), way, 100, bit, None, &mut suspicions).or(seen);
        }
        now += 20_000 + half;
        seen.map(|rtt| rtt.rtt.as_nanos() / 1000)
    };
    let usual: Vec<_> = (0..16).filter_map(|_| turn(20_000, &mut flow)).collect();
    assert!(usual.len() >= 6 && usual.iter().all(|rtt| *rtt == 20_000), "{usual:?}");
    assert_eq!(turn(500_000, &mut flow), None);
    // Edges closer than half of the last period are not timed, once in each direction.
    let after: Vec<_> = (0..4).map(|_| turn(20_000, &mut flow)).collect();
    assert_eq!(after[2..], [Some(20_000); 2], "{after:?}");
    let changed: Vec<_> = (0..8).filter_map(|_| turn(200_000, &mut flow)).collect();
    assert!(changed.len() >= 4 && changed.iter().all(|rtt| *rtt == 200_000), "{changed:?}");
}

#[test]
fn what_passed_before_an_answered_edge_is_delivered() {
    let (mut flow, mut suspicions) = (QuicFlow::default(), Suspicions::default());
    for n in 0..100u64 {
        let bit = n / 10 % 2 == 1;
        let _ = flow.spin(us(n * 1000), Way::ToUser, 1000, bit, None, &mut suspicions);
        let answered = n >= 5 && (n - 5) / 10 % 2 == 1;
        let _ = flow.spin(us(n * 1000 + 500), Way::FromUser, 40, answered, None, &mut suspicions);
    }
    // Six had passed between an edge and its answer, the packet of the edge among them.
    assert_eq!(flow.in_flight(), Some(Bytes::new(6_000)));
    // The edge after 90 packets was answered by the 95th.
    assert_eq!(flow.delivered(), Bytes::new(90_000));
}

#[test]
fn the_handshake_gives_one_sample() {
    let mut flow = QuicFlow::default();
    assert_eq!(flow.handshake(us(0), Way::ToUser), None);
    assert_eq!(flow.handshake(us(100), Way::ToUser), None, "the rest of the first flight");
    let rtt = Duration::from_micros(30_000);
    assert_eq!(
        flow.handshake(us(30_000), Way::FromUser),
        Some(Rtt { rtt, held: Duration::ZERO, doubtful: false })
    );
    assert_eq!(flow.handshake(us(31_000), Way::FromUser), None);
    let mut missed = QuicFlow::default();
    assert_eq!(missed.handshake(us(0), Way::FromUser), None);
    assert_eq!(missed.handshake(us(1), Way::ToUser), None);
    assert_eq!(missed.handshake(us(2), Way::FromUser), None);
}
