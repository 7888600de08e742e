//! A user-plane function's control path: how fast sessions are established over PFCP, and what an idle one
//! holds.

use crate::rows::Row;
use crate::sim::memory::allocated_by;
use std::net::SocketAddr;
use std::time::Instant;
use weir_config::UpfConfig;
use weir_units::{Duration, Time};
use weir_upf::client::{creates, usual};
use weir_upf::codec::{Codec, Pfcp};
use weir_upf::configured::plane_setup;
use weir_upf::control::{Control, Outgoing, numbers_of_seed};
use weir_upf::ledger::Ledger;
use weir_upf::message::{Element, Message, NodeId, Value, ie, kind};
use weir_upf::plane::memory::{Here, Memory};
use weir_upf::plane::{PlaneHandle, PlaneSetup, PortInterface, UserPlane};
use weir_upf::rules::{PerDirection, Plane};

const PART: &str = "sessions";
const SESSIONS: u32 = 100_000;
/// Fewest establishments in a second.
const LEAST_RATE: f64 = 10_000.0;
/// Most bytes of an idle session.
const MOST_BYTES: f64 = 2048.0;
const CONFIG: &str = "n3 = { port = \"a\", address = [\"192.0.2.1/24\"] }\n\
    n4 = { address = \"127.0.0.1\", peers = [\"127.0.0.2\"], rate_max = 1000000, answers = 16 }\n\
    n6 = { port = \"b\", address = [\"198.51.100.1/24\"] }\n";

/// Measures with so many sessions, at most a hundred thousand.
pub fn run(sessions: u32) -> Vec<Row> {
    let sessions = sessions.min(SESSIONS);
    eprintln!("sessions: {sessions}");
    let mut rows = of("control alone", sessions, Ledger::new(SESSIONS as usize), 0);
    let (few, many) = (tables(1), tables(SESSIONS));
    match whole(SESSIONS) {
        Ok(plane) => {
            // Tables of the packet path have their size from the start; what they hold for each session
            // counts with it.
            let tables = u64::from(sessions) * many.saturating_sub(few) / u64::from(SESSIONS);
            rows.extend(of("control and packet path", sessions, plane, tables));
        }
        Err(why) => rows.push(Row::failed(PART, "control and packet path", why)),
    }
    rows
}

/// Bytes of a packet path for so many sessions, without any.
fn tables(sessions: u32) -> u64 {
    allocated_by(|| whole(sessions)).1
}

/// A packet path between ports that lead nowhere.
fn whole(sessions: u32) -> Result<PlaneHandle<Here>, String> {
    let config = UpfConfig::parse("bench", CONFIG).map_err(|errors| errors.to_string())?;
    let setup = PlaneSetup { sessions, packets: 1024, ..plane_setup(&config, 7) };
    let cards = [1, 2].map(|last| PortInterface { address: [2, 0, 0, 0, 0, last], mtu: 1500 });
    let plane = UserPlane::new(setup.clone(), &cards, Time::ZERO)?;
    let memory = Memory::new(1024).map_err(|error| error.to_string())?;
    Ok(PlaneHandle::new(setup, Here { plane, memory, now: Time::ZERO }))
}

fn of(what: &str, sessions: u32, plane: impl Plane, tables: u64) -> Vec<Row> {
    let config = UpfConfig::parse("bench", CONFIG).expect("a good configuration");
    let mut control = Control::new(&config, 1, plane, Pfcp, numbers_of_seed(1));
    let peer: SocketAddr = "127.0.0.2:8805".parse().expect("an address");
    let setup = Element::number(ie::RECOVERY_TIME_STAMP, 1u32);
    exchange(&mut control, peer, &request(0, kind::ASSOCIATION_SETUP_REQUEST, None, vec![node(), setup]), 0);
    let requests: Vec<Vec<u8>> = (1..=sessions).map(establishment).collect();
    let start = Instant::now();
    let mut number = 0;
    let ((), bytes) = allocated_by(|| {
        for octets in &requests {
            number += 1;
            exchange(&mut control, peer, octets, number);
        }
    });
    let rate = f64::from(sessions) / start.elapsed().as_secs_f64();
    assert_eq!(control.sessions().len(), sessions as usize, "{:?}", control.counts());
    let each = (bytes + tables) as f64 / f64::from(sessions);
    vec![
        Row::told(PART, format!("{what}: sessions established in a second"), rate, "1/s")
            .at_least(LEAST_RATE),
        Row::told(PART, format!("{what}: an idle session"), each, "bytes")
            .at_most(MOST_BYTES)
            .note("2 PDR, 2 FAR, 2 QER; without the answers kept for repetitions, which are bounded"),
    ]
}

/// One request and its answer, as the `number`th of those that come each 20 us.
fn exchange<P: Plane, C: Codec>(control: &mut Control<P, C>, peer: SocketAddr, octets: &[u8], number: u64) {
    let now = Time::ZERO + Duration::from_micros(20 * number);
    let mut out: Vec<Outgoing> = Vec::with_capacity(1);
    control.receive(now, peer, octets, &mut out);
    assert_eq!(out.len(), 1, "each request is answered");
}

fn node() -> Element {
    Element::new(ie::NODE_ID, Value::Node(NodeId::Address("127.0.0.2".parse().expect("an address"))))
}

fn establishment(number: u32) -> Vec<u8> {
    let ambr = PerDirection { up: 50_000, down: 100_000 };
    let user = (0x0a00_0000 + number).into();
    let station = ("192.0.2.9".parse().expect("an address"), number);
    let rules = usual(u64::from(number), user, "192.0.2.1".parse().expect("an address"), station, ambr);
    let v4 = "127.0.0.2".parse().ok();
    let mut elements =
        vec![node(), Element::new(ie::F_SEID, Value::Session { seid: u64::from(number), v4, v6: None })];
    elements.extend(creates(&rules, true));
    request(number, kind::SESSION_ESTABLISHMENT_REQUEST, Some(0), elements)
}

fn request(sequence: u32, kind: u8, seid: Option<u64>, elements: Vec<Element>) -> Vec<u8> {
    let mut octets = Vec::new();
    Pfcp.encode(&Message { kind, seid, sequence, elements }, &mut octets);
    octets
}
