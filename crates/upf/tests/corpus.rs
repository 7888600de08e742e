//! Requests as session management functions send them, which others' user planes answered wrongly or died of,
//! played against a server on its socket. Each file of `corpus` is a case; its first lines say what it is
//! about.
//!
//! ```text
//! send [from HOST] OCTETS     a datagram from 127.9.0.HOST, else from 127.9.0.2; $SEID is the session established last
//! answer KIND [cause N] [offending N] [with N] [without N]     what comes back: elements are named by their types
//! nothing                     nothing comes back
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_config::UpfConfig;
use weir_upf::codec::{Codec, Pfcp};
use weir_upf::configured::plane_setup;
use weir_upf::message::{Element, Message, NodeId, Value, ie, kind};
use weir_upf::plane::alone;
use weir_upf::server::Server;

const CONFIG: &str = "n3 = { port = \"a\", address = [\"192.0.2.1/24\"] }\n\
                      n4 = { address = \"127.9.0.1\", peers = [\"127.9.0.2\", \"127.9.0.3\", \"127.9.0.4\"] }\n\
                      n6 = { port = \"b\", address = [\"198.51.100.1/24\"] }\n";

/// Session management at its addresses.
struct Player {
    sockets: BTreeMap<u8, UdpSocket>,
    server: SocketAddr,
    /// By which numbers of requests are raised, so that no case repeats those of another.
    raise: u32,
    seid: u64,
}

fn number(elements: &[Element], id: u16) -> Option<u64> {
    elements.iter().find_map(|element| match element.value {
        Value::Number(number) if element.id == id => Some(number),
        _ => None,
    })
}

fn octets(text: &str) -> Vec<u8> {
    let hex: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    hex.chunks(2).map(pair).collect()
}

impl Player {
    fn new(server: SocketAddr) -> Player {
        let socket = |host: u8| {
            let socket = UdpSocket::bind((std::net::Ipv4Addr::new(127, 9, 0, host), 8805)).unwrap();
            (host, socket)
        };
        Player { sockets: (2..=4).map(socket).collect(), server, raise: 0, seid: 0 }
    }

    /// Sends a request; what comes back within the patience, if anything does.
    fn ask(&self, host: u8, request: &[u8], patience: Duration) -> Option<Message> {
        let socket = &self.sockets[&host];
        socket.send_to(request, self.server).unwrap();
        socket.set_read_timeout(Some(patience)).unwrap();
        let mut buffer = [0; 9000];
        loop {
            let length = socket.recv(&mut buffer).ok()?;
            let message = Pfcp.decode(&buffer[..length]).expect("what is sent can be read");
            // Requests of the other side are left.
            if message.kind != kind::HEARTBEAT_REQUEST && message.kind != kind::SESSION_REPORT_REQUEST {
                return Some(message);
            }
        }
    }

    fn request(&self, text: &str) -> Vec<u8> {
        let mut seid = String::new();
        write!(seid, "{:016x}", self.seid).unwrap();
        let mut octets = octets(&text.replace("$SEID", &seid));
        let at = if octets.first().is_some_and(|first| first & 1 == 1) { 12 } else { 4 };
        if let Some(bytes) = octets.get_mut(at..at + 3) {
            let number = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) + self.raise;
            bytes.copy_from_slice(&number.to_be_bytes()[1..]);
        }
        octets
    }

    /// Plays a case; what went wrong.
    fn play(&mut self, case: &str) -> Result<(), String> {
        let mut sent: Option<(u8, Vec<u8>)> = None;
        for (at, line) in case.lines().enumerate() {
            let mut words = line.split_whitespace();
            let wrong = |why: String| Err(format!("line {}: {why}", at + 1));
            match words.next() {
                Some("send") => {
                    let rest = line.trim_start_matches("send").trim();
                    let (host, text) = match rest.strip_prefix("from ") {
                        Some(rest) => {
                            rest.split_once(' ').map(|(host, text)| (host.parse().unwrap(), text)).unwrap()
                        }
                        None => (2, rest),
                    };
                    sent = Some((host, self.request(text)));
                }
                Some("nothing") => {
                    let (host, request) = sent.take().expect("something was sent");
                    if let Some(answer) = self.ask(host, &request, Duration::from_millis(100)) {
                        return wrong(format!("{answer:?} came back"));
                    }
                }
                Some("answer") => {
                    let (host, request) = sent.take().expect("something was sent");
                    let Some(answer) = self.ask(host, &request, Duration::from_secs(5)) else {
                        return wrong("nothing came back".into());
                    };
                    if words.next().and_then(|word| word.parse().ok()) != Some(answer.kind) {
                        return wrong(format!("{answer:?}"));
                    }
                    let seid = answer.elements.iter().find_map(|element| match element.value {
                        Value::Session { seid, .. } => Some(seid),
                        _ => None,
                    });
                    self.seid = seid.unwrap_or(self.seid);
                    while let (Some(what), Some(expected)) = (words.next(), words.next()) {
                        let expected: u64 = expected.parse().unwrap();
                        let has = |id: u64| answer.elements.iter().any(|element| u64::from(element.id) == id);
                        let holds = match what {
                            "cause" => number(&answer.elements, ie::CAUSE) == Some(expected),
                            "offending" => number(&answer.elements, ie::OFFENDING_IE) == Some(expected),
                            "with" => has(expected),
                            "without" => !has(expected),
                            other => panic!("{other}"),
                        };
                        if !holds {
                            return wrong(format!("{what} {expected} is not in {answer:?}"));
                        }
                    }
                }
                Some(comment) if comment.starts_with('#') => {}
                None => {}
                Some(other) => return wrong(format!("{other}?")),
            }
        }
        Ok(())
    }

    /// Ends the association, and all sessions with it.
    fn release(&mut self) {
        let node = NodeId::Address("127.9.0.2".parse().unwrap());
        let sequence = 0xf0_0000 + self.raise;
        let elements = vec![Element::new(ie::NODE_ID, Value::Node(node))];
        let release = Message { kind: kind::ASSOCIATION_RELEASE_REQUEST, seid: None, sequence, elements };
        let mut octets = Vec::new();
        Pfcp.encode(&release, &mut octets);
        assert!(self.ask(2, &octets, Duration::from_secs(5)).is_some());
    }
}

#[test]
fn every_request_is_answered_as_the_specification_says() {
    let config = UpfConfig::parse("corpus", CONFIG).unwrap();
    let plane = alone(plane_setup(&config, 7)).unwrap();
    let mut server = Server::open(&config, plane).unwrap();
    let mut player = Player::new(server.address().unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let thread = std::thread::spawn(move || {
        while !flag.load(Ordering::Relaxed) {
            server.turn(Duration::from_millis(5)).unwrap();
        }
        (server.control().sessions().len(), server.control().counts().clone())
    });
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut wrong = Vec::new();
    for path in &paths {
        player.raise += 0x100;
        let case = std::fs::read_to_string(path).unwrap();
        if let Err(why) = player.play(&case) {
            wrong.push(format!("{}: {why}", path.file_name().unwrap().display()));
        }
        player.release();
    }
    stop.store(true, Ordering::Relaxed);
    let (sessions, counts) = thread.join().unwrap();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), paths.len(), wrong.join("\n"));
    assert!(paths.len() >= 20 && counts.ignored > 5, "{counts:?}");
    assert_eq!(sessions, 0);
}
