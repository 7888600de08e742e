//! The user plane on interfaces, with real TCP through tunnels.
//!
//! Three network namespaces that the test makes: a base station, which takes packets out of tunnels and puts
//! them in; the user-plane function; the data network. The user equipment is a TUN device in the namespace of
//! the base station. Without root these tests say so and pass.

#[path = "live/bearers.rs"]
mod bearers;
#[path = "live/classifier.rs"]
mod classifier;
#[path = "../../lab/tests/skipped/mod.rs"]
mod skipped;
#[path = "live/station.rs"]
mod station;
#[path = "live/world.rs"]
mod world;

use skipped::judged::{Attempt, judged};
use station::Station;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_config::UpfConfig;
use weir_dataplane::Mode;
use weir_upf::client::Client;
use weir_upf::plane::{Pace, PlaneHandle, PlaneSetup, PortSetup, Profile, Remote, open};
use weir_upf::rules::*;
use weir_upf::server::Server;
use world::{World, inside};

const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 5);
const SERVER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
/// What is sent to a TCP connection before it is measured, and how long it is.
const WARM: Duration = Duration::from_millis(700);
const MEASURED: Duration = Duration::from_secs(2);
/// Longest wait for what should happen at once, on a machine that others use.
const PATIENCE: Duration = Duration::from_secs(60);
/// At slow rates it takes longer until a packet more or less is within a percent.
const PACKETS: f64 = 500.0;

fn measured(bps: f64) -> Duration {
    MEASURED.max(Duration::from_secs_f64(PACKETS * 1500.0 * 8.0 / bps))
}

fn session(ambr_kbps: u64) -> Session {
    let ue = |end| Some(UeAddress { v4: Some(UE), v6: None, end });
    let tunnel = LocalTunnel { teid: 0x1005, v4: Some(world::N3), v6: None };
    let remote = RemoteTunnel { teid: 0x2005, address: world::STATION.into(), port: 2152 };
    let pdr = |id, from| Pdr {
        id,
        precedence: 255,
        from,
        tunnel: (from == Side::Access).then_some(tunnel),
        ue: ue(if from == Side::Access { End::Source } else { End::Destination }),
        filters: Box::new([]),
        qfis: Box::new([]),
        removal: (from == Side::Access).then_some(Removal::GtpUdpIp),
        far: Some(u32::from(id)),
        qers: Box::new([1, 2]),
    };
    let forward = |id, to, tunnel| Far::forwarding(id, Forward { to, tunnel, dscp: None });
    let both = |value| PerDirection { up: value, down: value };
    let qer = |id, mbr: Option<u64>, qfi| Qer {
        id,
        correlation: None,
        open: PerDirection { up: true, down: true },
        mbr: mbr.map(both),
        gbr: None,
        qfi,
    };
    Session {
        seid: 1,
        pdrs: vec![pdr(1, Side::Access), pdr(2, Side::Core)],
        fars: vec![forward(1, Side::Core, None), forward(2, Side::Access, Some(remote))],
        qers: vec![qer(1, Some(ambr_kbps), None), qer(2, None, Some(9))],
        inactivity: None,
        meters: Box::default(),
    }
}

/// Tests that measure take turns: they share the machine's processors.
static TURN: Mutex<()> = Mutex::new(());

/// Ends a loop also when a test fails.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `measure` while the packet loop turns in its namespace.
fn with_plane<T: Send>(
    world: &World,
    setup: PlaneSetup,
    mode: Mode,
    measure: impl FnOnce(&mut PlaneHandle<Remote>) -> T + Send,
) -> T {
    let stop = AtomicBool::new(false);
    let (looping, mut desk) = inside(&world.upf, || {
        let pace = Pace { mode: Some(mode), ..Pace::default() };
        open(setup, pace).unwrap_or_else(|e| panic!("{e}"))
    });
    std::thread::scope(|scope| {
        let stop = &stop;
        let running = scope.spawn(move || inside(&world.upf, move || looping.run(stop)));
        let result = {
            let _stops = Stops(stop);
            measure(&mut desk)
        };
        assert_eq!(running.join().unwrap().unwrap(), Vec::<String>::new());
        result
    })
}

/// Runs `talk` with session management beside a function that works in a namespace, both at addresses of this
/// host with that number.
fn with_function<T>(
    namespace: &str,
    number: u8,
    setup: PlaneSetup,
    talk: impl FnOnce(&mut Client) -> T,
) -> T {
    let [server, peer] = [1, 2].map(|last| format!("127.8.{number}.{last}"));
    let address = |port: &PortSetup| port.addresses[0].0;
    let config = format!(
        "n3 = {{ port = \"n3\", address = [\"{}/24\"] }}\n\
         n4 = {{ address = \"{server}\", peers = [\"{peer}\"] }}\n\
         n6 = {{ port = \"n6\", address = [\"{}/24\"] }}\n",
        address(&setup.access),
        address(&setup.core)
    );
    let config = UpfConfig::parse("function", &config).unwrap();
    let (looping, desk) = inside(namespace, || {
        open(setup, Pace { mode: Some(Mode::AfPacket), ..Pace::default() }).unwrap_or_else(|e| panic!("{e}"))
    });
    let (stop, ended) = (&AtomicBool::new(false), &AtomicBool::new(false));
    std::thread::scope(|scope| {
        let running = scope.spawn(move || inside(namespace, move || looping.run(stop)));
        let mut control = Server::open(&config, desk).unwrap();
        let serving = scope.spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                control.turn(Duration::from_millis(5)).unwrap();
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let address = SocketAddr::new(server.parse().unwrap(), 8805);
            let mut client = Client::open(peer.parse::<IpAddr>().unwrap(), address).unwrap();
            client.associate(5).unwrap();
            talk(&mut client)
        }));
        ended.store(true, Ordering::Relaxed);
        serving.join().unwrap();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(running.join().unwrap().unwrap(), Vec::<String>::new());
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// What came of a download, in bits per second: IP packets out of the tunnel, and what programs read.
struct Downloaded {
    rate: f64,
    goodput: f64,
}

/// Downloads over TCP from a port until it is stopped.
struct Downloads {
    stop: Arc<AtomicBool>,
    /// What programs read.
    read: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Downloads {
    fn start(world: &World, (network, server): (&str, Ipv4Addr), port: u16, connections: usize) -> Downloads {
        let stop = Arc::new(AtomicBool::new(false));
        let read = Arc::new(AtomicU64::new(0));
        let listener = inside(network, || TcpListener::bind((server, port)).unwrap());
        let mut threads = Vec::new();
        for _ in 0..connections {
            let receiving =
                inside(&world.ran, || TcpStream::connect_timeout(&(server, port).into(), PATIENCE));
            let mut receiving = receiving.unwrap();
            let (mut sending, from) = listener.accept().unwrap();
            assert_eq!(from.ip(), UE);
            receiving.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            sending.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
            let (one, other) = (stop.clone(), stop.clone());
            threads.push(std::thread::spawn(move || {
                let data = vec![7; 64 << 10];
                while !one.load(Ordering::Relaxed) {
                    let _ = sending.write(&data);
                }
            }));
            let read = read.clone();
            threads.push(std::thread::spawn(move || {
                let mut data = vec![0; 256 << 10];
                while !other.load(Ordering::Relaxed) {
                    read.fetch_add(receiving.read(&mut data).unwrap_or(0) as u64, Ordering::Relaxed);
                }
            }));
        }
        Downloads { stop, read, threads }
    }
}

impl Drop for Downloads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

/// Downloads over TCP and says how fast IP packets came out of the tunnel meanwhile.
fn download(
    world: &World,
    from: (&str, Ipv4Addr),
    station: &Station,
    connections: usize,
    time: Duration,
    warm: impl FnOnce(),
) -> Downloaded {
    let downloads = Downloads::start(world, from, 5001, connections);
    std::thread::sleep(WARM);
    warm();
    let (begin, before) = (Instant::now(), downloads.read.load(Ordering::Relaxed));
    let rate = station.rate_over(time);
    let bytes = downloads.read.load(Ordering::Relaxed) - before;
    Downloaded { rate, goodput: bytes as f64 * 8.0 / begin.elapsed().as_secs_f64() }
}

/// Sends 1.3 times the datagrams that a rate allows, and says how fast they came out of the tunnel meanwhile.
fn flood(world: &World, station: &Station, bps: f64) -> f64 {
    let socket = inside(&world.dn, || UdpSocket::bind((SERVER, 6001)).unwrap());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (begin, mut sent) = (Instant::now(), 0.0);
            while !stop.load(Ordering::Relaxed) {
                while sent < begin.elapsed().as_secs_f64() * 1.3 * bps && !stop.load(Ordering::Relaxed) {
                    let _ = socket.send_to(&[1; 1300], (UE, 9));
                    sent += 1328.0 * 8.0;
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        std::thread::sleep(WARM);
        let rate = station.rate_over(measured(bps));
        stop.store(true, Ordering::Relaxed);
        rate
    })
}

/// More than anything here can send.
const NO_LIMIT_KBPS: u64 = 100_000_000;

/// What a session gets at a rate, from a queue or a policer.
struct Row {
    kbps: u64,
    name: &'static str,
    tcp: Downloaded,
    udp: f64,
    /// 95 % of TCP's packets wait less in the queue.
    delay: Option<weir_units::Duration>,
}

impl Row {
    /// What is missing or too much of the rate, in percent.
    fn off(&self, rate: f64) -> f64 {
        100.0 * (rate / (self.kbps as f64 * 1e3) - 1.0)
    }

    fn judge(&self, attempt: &mut Attempt) {
        attempt.within(format!("at {} kbit/s, TCP off by %", self.kbps), self.off(self.tcp.rate), -1.0..1.0);
        attempt.within("datagrams", self.off(self.udp), -1.0..1.0);
        // A packet that is being sent is waited for; times of sojourn are told at most a quarter too long.
        let packet_ms = 1.25 * 1538.0 * 8.0 / self.kbps as f64;
        if let Some(delay) = self.delay {
            attempt.within(
                "95 % of TCP's packets wait up to ms",
                delay.as_millis_f64(),
                ..packet_ms.max(15.0),
            );
        }
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Row { kbps, name, tcp, udp, delay } = self;
        let delay = delay.map_or("-".into(), |delay| format!("{:.1} ms", delay.as_millis_f64()));
        let share = |bps: f64| 100.0 * bps / (*kbps as f64 * 1e3);
        let [rate, goodput, udp] = [tcp.rate, tcp.goodput, *udp].map(share);
        write!(f, "| {kbps} | {name} | {rate:.1} % | {goodput:.1} % | {udp:.1} % | {delay} |")
    }
}

/// Measures TCP, then datagrams, under an aggregate; where it is `policed`, without a queue, and the rate is
/// the policer's.
fn measure(
    world: &World,
    station: &Station,
    desk: &mut PlaneHandle<Remote>,
    kbps: u64,
    policed: bool,
) -> Row {
    let bps = kbps as f64 * 1e3;
    let ambr = if policed { NO_LIMIT_KBPS } else { kbps };
    desk.modify(Arc::new(session(ambr)), &[]).unwrap();
    station.police(policed.then_some(bps));
    let tcp = download(world, (&world.dn, SERVER), station, 2, measured(bps), || drop(desk.flows(1)));
    let flows = desk.flows(1);
    let udp = flood(world, station, bps);
    station.police(None);
    let delay = flows.iter().find(|flow| !flow.is_uplink).and_then(|flow| flow.sojourn_p95);
    let name = if policed { "policer" } else { "queue" };
    Row { kbps, name, tcp, udp, delay: delay.filter(|_| !policed) }
}

/// Rates hold, and delays; a policer is measured beside it where that is wanted.
fn rates_hold(mode: Mode, kbps: &[u64], beside: bool) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(world) = World::new() else { return };
    let station = Station::new(&world, UE, world::STATION.into(), world::N3.into());
    with_plane(&world, world::setup(), mode, |desk| {
        desk.establish(Arc::new(session(kbps[0]))).unwrap();
        println!(
            "{mode}, AMBR in kbit/s: TCP, what programs read of it, datagrams, 95 % delay of TCP's packets"
        );
        for kbps in kbps {
            judged(|attempt| {
                let row = measure(&world, &station, desk, *kbps, false);
                println!("{row}");
                row.judge(attempt);
            });
            if beside {
                println!("{}", measure(&world, &station, desk, *kbps, true));
            }
        }
        println!("{:?} {:?}", desk.usage(1), desk.faults());
    });
}

#[test]
fn an_mtu_that_changes_while_it_runs_is_told() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(world) = World::new() else { return };
    with_plane(&world, world::setup(), Mode::AfPacket, |desk| {
        let told = |desk: &mut PlaneHandle<Remote>| {
            let until = Instant::now() + PATIENCE;
            loop {
                let warnings = desk.reach().warnings();
                if !warnings.is_empty() || Instant::now() > until {
                    return warnings.join("; ");
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        world.set_mtu("n6", 1400);
        let shorter = told(desk);
        assert!(
            shorter.starts_with("n6: its MTU was changed from 1600 to 1400 while running; "),
            "{shorter}"
        );
        assert!(shorter.contains("more than 1400 bytes") && !shorter.contains("Remedy"), "{shorter}");
        world.set_mtu("n6", 1700);
        let longer = told(desk);
        assert!(longer.contains("more than 1600 bytes") && longer.contains("Remedy"), "{longer}");
    });
}

#[test]
fn tcp_and_udp_get_their_aggregate_through_af_xdp() {
    rates_hold(Mode::XdpNative, &[100_000], false);
}

#[test]
fn tcp_and_udp_get_their_aggregate_through_af_packet() {
    rates_hold(Mode::AfPacket, &[100_000], false);
}

/// The same session with tunnels over IPv6, in which packets to and from the edge use the port for local
/// breakout.
fn session_with_edge(ambr_kbps: u64) -> Session {
    let mut session = session(ambr_kbps);
    let forward = |id, to, tunnel| Far::forwarding(id, Forward { to, tunnel, dscp: None });
    let remote = RemoteTunnel { teid: 0x2005, address: world::STATION_V6.into(), port: 2152 };
    session.fars[1] = forward(2, Side::Access, Some(remote));
    session.fars.push(forward(3, Side::Local, None));
    session.pdrs[0].tunnel = Some(LocalTunnel { teid: 0x1005, v4: None, v6: Some(world::N3_V6) });
    let edge = "permit out ip from 10.9.0.0/24 to assigned".parse().unwrap();
    let up =
        Pdr { id: 3, precedence: 10, filters: Box::new([edge]), far: Some(3), ..session.pdrs[0].clone() };
    let down = Pdr { id: 4, from: Side::Local, ..session.pdrs[1].clone() };
    session.pdrs.extend([up, down]);
    session.order();
    session
}

#[test]
fn tunnels_over_ipv6_and_local_breakout_carry_tcp() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(world) = World::new().map(World::with_edge) else { return };
    let station = Station::new(&world, UE, world::STATION_V6.into(), world::N3_V6.into());
    let edge = world.edge.clone().unwrap();
    with_plane(&world, world::setup_with_edge(), Mode::AfPacket, |desk| {
        desk.establish(Arc::new(session_with_edge(50_000))).unwrap();
        let local = |desk: &mut PlaneHandle<Remote>| -> u64 {
            desk.flows(1).iter().filter(|flow| flow.is_local && !flow.is_uplink).map(|flow| flow.bytes).sum()
        };
        judged(|attempt| {
            attempt.tolerates(0.025);
            let before = local(desk);
            let server = (edge.as_str(), Ipv4Addr::new(10, 9, 0, 9));
            let rate = download(&world, server, &station, 2, MEASURED, || ()).rate;
            attempt.end();
            // What waited when the senders stopped is delivered.
            std::thread::sleep(Duration::from_millis(500));
            // The way is tried here; what rates hold is what other tests measure.
            attempt.within("Mbit/s by local breakout", rate / 1e6, 47.5..52.5);
            let passed = (local(desk) - before) as f64 * 8.0;
            assert!(
                passed >= rate * MEASURED.as_secs_f64(),
                "{rate} bit/s, {passed} bits: {:?}",
                desk.flows(1)
            );
        });
        let passed = local(desk);
        // The data network is still where it was.
        let host = inside(&world.dn, || UdpSocket::bind((SERVER, 7000)).unwrap());
        let user = inside(&world.ran, || UdpSocket::bind((UE, 5000)).unwrap());
        for socket in [&host, &user] {
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        user.send_to(b"there", (SERVER, 7000)).unwrap();
        let (_, from) = host.recv_from(&mut [0; 64]).expect("the user's packet");
        host.send_to(b"back", from).unwrap();
        assert_eq!(user.recv_from(&mut [0; 64]).map(|(length, _)| length).ok(), Some(4));
        assert_eq!(local(desk), passed, "what is not for the edge does not pass there");
    });
}

/// Beyond what a test run may take: `cargo test --release -p weir-upf --test live -- --ignored --nocapture`.
#[test]
#[ignore = "takes a machine of its own"]
fn tcp_and_udp_get_their_aggregate_at_all_rates() {
    rates_hold(Mode::XdpNative, &[10_000, 100_000, 300_000, 1_000_000, 1_000, 64], true);
}

/// What TCP lacks at a slow rate is room for packets, not rate: without the bound beside CoDel it has all of
/// it, and waits.
#[test]
#[ignore = "takes a machine of its own"]
fn slow_tcp_gets_its_rate_where_its_packets_may_wait() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(world) = World::new() else { return };
    let station = Station::new(&world, UE, world::STATION.into(), world::N3.into());
    let profile = Profile { bound: None, ..Profile::self_learning() };
    let setup = PlaneSetup { profile, ..world::setup() };
    with_plane(&world, setup, Mode::XdpNative, |desk| {
        desk.establish(Arc::new(session(1000))).unwrap();
        for kbps in [1000, 64] {
            judged(|attempt| {
                let row = Row { delay: None, ..measure(&world, &station, desk, kbps, false) };
                println!("{row}");
                row.judge(attempt);
            });
        }
    });
}

#[test]
fn sessions_outlive_a_port_that_vanishes_and_comes_back() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(world) = World::new() else { return };
    with_plane(&world, world::setup(), Mode::AfPacket, |desk| {
        desk.establish(Arc::new(session(10_000))).unwrap();
        let told = |desk: &mut PlaneHandle<Remote>, what: &str| {
            let until = Instant::now() + PATIENCE;
            while !desk.reach().warnings().iter().any(|warning| warning.contains(what)) {
                assert!(Instant::now() < until, "nothing was told of ports that {what}");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        world.take_n6_away();
        told(desk, "do not work");
        // Control is answered meanwhile.
        let mut other = session(20_000);
        other.qers[0].mbr = Some(PerDirection { up: 1000, down: 1000 });
        desk.modify(Arc::new(other), &[]).unwrap();
        assert!(desk.usage(1).is_some());
        world.bring_n6_back();
        told(desk, "work again");
        let socket = inside(&world.dn, || UdpSocket::bind((SERVER, 0)).unwrap());
        let until = Instant::now() + PATIENCE;
        while desk.usage(1).unwrap().packets.down == 0 {
            assert!(Instant::now() < until, "{:?}", desk.faults());
            // Neighbours are asked for with the first.
            let _ = socket.send_to(b"hello", (UE, 9));
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(desk.capacity().used, 1);
    });
}
