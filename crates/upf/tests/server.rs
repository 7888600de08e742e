//! Session management on one socket, this function on another.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_config::UpfConfig;
use weir_upf::client::{Client, Error, usual};
use weir_upf::control::Counts;
use weir_upf::ledger::Ledger;
use weir_upf::message::{Element, Value, ie, kind};
use weir_upf::rules::{PerDirection, Session};
use weir_upf::server::Server;

/// A server in a thread of its own, which gives what it counted.
struct Running {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Counts>,
}

fn config(server: &str, peer: &str) -> UpfConfig {
    let text = format!(
        "n3 = {{ port = \"a\", address = [\"192.0.2.1/24\"] }}\n\
         n4 = {{ address = \"{server}\", peers = [\"{peer}\"] }}\n\
         n6 = {{ port = \"b\", address = [\"198.51.100.1/24\"] }}\n"
    );
    UpfConfig::parse("test", &text).unwrap()
}

fn run(config: &UpfConfig) -> Running {
    let mut server = Server::open(config, Ledger::new(1000)).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let thread = std::thread::spawn(move || {
        while !flag.load(Ordering::Relaxed) {
            server.turn(Duration::from_millis(5)).unwrap();
        }
        server.goodbye(Duration::from_millis(200)).unwrap();
        server.control().counts().clone()
    });
    Running { stop, thread }
}

fn rules() -> Session {
    let ambr = PerDirection { up: 50_000, down: 100_000 };
    usual(
        7,
        "10.45.0.7".parse().unwrap(),
        "192.0.2.1".parse().unwrap(),
        ("192.0.2.9".parse().unwrap(), 0x99),
        ambr,
    )
}

#[test]
fn a_session_lives_over_sockets() {
    let (server, peer) = ("127.8.6.1", "127.8.6.2");
    let running = run(&config(server, peer));
    let address = SocketAddr::new(server.parse().unwrap(), 8805);
    let mut client = Client::open(peer.parse::<IpAddr>().unwrap(), address).unwrap();
    assert!(matches!(client.establish(&rules()), Err(Error::Refused { cause: Some(72), .. })));
    client.associate(5).unwrap();
    let session = client.establish(&rules()).unwrap();
    assert!(session.tunnels.len() == 1 && session.tunnels[0].1.teid != 0);
    let closed =
        Value::Group(vec![Element::number(ie::QER_ID, 1u32), Element::number(ie::GATE_STATUS, 5u32)]);
    client.modify(session.seid, vec![Element::new(ie::UPDATE_QER, closed)]).unwrap();
    client.delete(session.seid).unwrap();
    assert!(matches!(client.delete(session.seid), Err(Error::Refused { cause: Some(65), .. })));
    running.stop.store(true, Ordering::Relaxed);
    // At its end the function asks to be released, and is answered.
    let begun = std::time::Instant::now();
    while !client.asked.iter().any(|m| m.kind == kind::ASSOCIATION_UPDATE_REQUEST) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", client.asked);
        client.listen().unwrap();
    }
    let counts = running.thread.join().unwrap();
    assert_eq!((counts.established, counts.modified, counts.removed, counts.refused_all()), (1, 1, 1, 2));
}

#[test]
fn an_address_that_is_taken_is_told() {
    let config = config("127.8.6.9", "127.8.6.2");
    let _first = Server::open(&config, Ledger::new(1)).unwrap();
    let error = Server::open(&config, Ledger::new(1)).err().expect("it is taken").to_string();
    assert!(error.contains("127.8.6.9:8805") && error.contains("Remedy"), "{error}");
}

#[test]
fn whoever_comes_first_the_function_can_ask_for_the_association() {
    let (server, peer) = ("127.8.6.11", "127.8.6.12");
    let mut config = config(server, peer);
    config.n4.initiate = true;
    config.n4.heartbeat = weir_units::Duration::from_millis(200);
    config.n4.tries = 1;
    // Nobody is there yet.
    let running = run(&config);
    std::thread::sleep(Duration::from_millis(500));
    let address = SocketAddr::new(server.parse().unwrap(), 8805);
    let mut client = Client::open(peer.parse::<IpAddr>().unwrap(), address).unwrap();
    let asked = |client: &Client, kind| client.asked.iter().filter(|message| message.kind == kind).count();
    while asked(&client, kind::ASSOCIATION_SETUP_REQUEST) == 0 {
        client.listen().unwrap();
    }
    client.establish(&rules()).unwrap();
    // Until it was answered it may have been asked for twice. It is not asked for again, and it is kept by
    // heartbeats.
    let first = asked(&client, kind::ASSOCIATION_SETUP_REQUEST);
    while asked(&client, kind::HEARTBEAT_REQUEST) < 3 {
        client.listen().unwrap();
    }
    assert_eq!(asked(&client, kind::ASSOCIATION_SETUP_REQUEST), first);
    // Asked for from this side as well, it is the same.
    client.associate(1).unwrap();
    running.stop.store(true, Ordering::Relaxed);
    client.listen().unwrap();
    let counts = running.thread.join().unwrap();
    assert_eq!((counts.established, counts.removed), (1, 0));
}
