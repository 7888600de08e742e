//! `weir upf session`: session management by hand. It asks a user-plane function for sessions over PFCP.

use super::kept_sessions::{KeptSession, KeptSessions, wrong};
use crate::interrupt::interrupted;
use crate::log::Entry;
use crate::output::{Done, Failure, Output};
use serde_json::{Value as Json, json};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_config::{Document, SessionConfig, SessionFile};
use weir_report::table;
use weir_upf::client::wanted::{changes, rules};
use weir_upf::client::{self, Client, usage_reports};
use weir_upf::control::PFCP_PORT;
use weir_upf::message::{Message, Value, ie, kind};
use weir_upf::rules::PerDirection;

/// Be session management: ask a user-plane function for PDU sessions, change and end them.
///
/// What was asked for is kept in a file, so that each call goes on where the one before ended. A user-plane
/// function ends sessions when nobody answers its heartbeats for `n4.hold` (60 s): `add --hold`, or `hold`
/// in another terminal, answers them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

const EXAMPLES: &str = "Examples:
  weir upf session add phone --upf 203.0.113.1 --ue 10.45.0.7 --station 192.0.2.9 --teid 0x99 --hold
  weir upf session add --upf 203.0.113.1 --file sessions.toml             keys: docs/upf-sessions.md
  weir upf session add car --upf 203.0.113.1 --ue 10.45.0.8 --station 192.0.2.9 --teid 0x9a \\
      --ambr-up 50Mbit/s --ambr-down 100Mbit/s \\
      --flow '{ qfi = 1, gbr_down = \"2Mbit/s\", filter = [\"permit out 17 from any to assigned 5060\"] }'
  weir upf session add lte --upf 203.0.113.1 --ue 10.45.0.9 --station 192.0.2.9 --teid 0x9b --bearers \\
      --flow '{ qfi = 5, teid = 0x9c, filter = [\"permit out 17 from any to assigned 5060\"] }'   4G
  weir upf session add near --upf 203.0.113.1 --ue 10.45.1.1 --station 192.0.2.9 --teid 0x9d \\
      --core 192.0.2.30 --core-teid 0xa005    all through a tunnel to another function (N9)
  weir upf session change phone --upf 203.0.113.1 --station 192.0.2.10 --teid 0x17    a handover
  weir upf session list --upf 203.0.113.1
  weir upf session delete phone --upf 203.0.113.1";

#[derive(clap::Subcommand)]
enum Verb {
    /// Ask for sessions; print the tunnel (F-TEID) and the number (SEID) that each got.
    Add {
        /// Name of the session here.
        #[arg(required_unless_present = "file", conflicts_with = "file")]
        name: Option<String>,
        #[command(flatten)]
        peer: Peer,
        #[command(flatten)]
        keys: Keys,
        /// A file of sessions in place of the arguments.
        #[arg(long, conflicts_with = "keys")]
        file: Option<PathBuf>,
        /// Stay, answer heartbeats, tell reports, and end these sessions on Ctrl-C.
        #[arg(long)]
        hold: bool,
        /// The same, for this long at the most.
        #[arg(long = "for", value_name = "TIME", value_parser = duration)]
        length: Option<Duration>,
    },
    /// The sessions that were asked for, and whether they are still there.
    List {
        #[command(flatten)]
        peer: Peer,
    },
    /// Change a session as a whole: a handover, its AMBR, its QoS flows.
    Change {
        /// Its name, or its number at the user plane (SEID).
        session: String,
        #[command(flatten)]
        peer: Peer,
        #[command(flatten)]
        keys: Keys,
        /// Take out the QoS flow with this QFI. Can be repeated.
        #[arg(long, value_name = "QFI")]
        remove_flow: Vec<u32>,
    },
    /// End sessions; print what each had used.
    Delete {
        /// Their names, or their numbers at the user plane (SEID).
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        sessions: Vec<String>,
        #[command(flatten)]
        peer: Peer,
        /// All that were asked for.
        #[arg(long)]
        all: bool,
    },
    /// Answer heartbeats and tell reports until Ctrl-C, so that sessions last.
    Hold {
        #[command(flatten)]
        peer: Peer,
        /// For this long at the most.
        #[arg(long = "for", value_name = "TIME", value_parser = duration)]
        length: Option<Duration>,
    },
}

/// Who speaks with whom.
#[derive(clap::Args)]
struct Peer {
    /// Address of the user-plane function (`n4.address`), with a port if that is not 8805.
    #[arg(long, value_name = "ADDRESS", value_parser = server)]
    upf: SocketAddr,
    /// Our address, one of `n4.peers`; by default the one from which this machine reaches the other.
    #[arg(long, value_name = "ADDRESS")]
    from: Option<IpAddr>,
    /// How long an answer is waited for; a request is sent four times in it.
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = duration)]
    timeout: Duration,
    /// The file that keeps what was asked for; by default one in /run/weir, or of whom is not root in
    /// $XDG_RUNTIME_DIR.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
}

/// Keys of a session as arguments.
#[derive(clap::Args)]
#[group(id = "keys", multiple = true)]
struct Keys {
    /// Address of the user equipment: an IPv4 address, an IPv6 prefix of 64 bits, or both.
    #[arg(long, value_name = "ADDRESS")]
    ue: Vec<String>,
    /// Address of the base station on N3.
    #[arg(long, value_name = "ADDRESS")]
    station: Option<String>,
    /// The tunnel at the base station (TEID), such as 0x99.
    #[arg(long, value_name = "NUMBER")]
    teid: Option<String>,
    /// Session AMBR from the user equipment.
    #[arg(long, value_name = "RATE")]
    ambr_up: Option<String>,
    /// Session AMBR to the user equipment.
    #[arg(long, value_name = "RATE")]
    ambr_down: Option<String>,
    /// The QoS flow of what no filter matches, 9 by default.
    #[arg(long, value_name = "QFI")]
    qfi: Option<String>,
    /// After this long without a packet it is reported.
    #[arg(long, value_name = "TIME")]
    inactivity: Option<String>,
    /// As the gateway of 4G: each flow is a bearer with a tunnel of its own (`teid` of a `--flow`) and no
    /// QFI.
    #[arg(long)]
    bearers: bool,
    /// Address of another user-plane function that anchors the session (N9), into a tunnel to which all goes
    /// but flows with `breakout`.
    #[arg(long, value_name = "ADDRESS", requires = "core_teid")]
    core: Option<String>,
    /// The tunnel there (TEID).
    #[arg(long, value_name = "NUMBER")]
    core_teid: Option<String>,
    /// Another QoS flow, with the keys of `[[sessions.flows]]`. Can be repeated; `change` replaces the one
    /// with its QFI.
    #[arg(long, value_name = "TABLE")]
    flow: Vec<String>,
    /// Set a key, such as `ambr_up=5Mbit/s`. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

fn duration(text: &str) -> Result<Duration, String> {
    match weir_units::parse_duration(text) {
        Ok(time) if time.as_nanos() >= 1_000_000 => Ok(Duration::from_nanos(time.as_nanos())),
        Ok(_) => Err("give at least 1ms".into()),
        Err(wrong) => Err(wrong.to_string()),
    }
}

fn server(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, PFCP_PORT));
    address.or_else(|_| text.parse()).map_err(|_| {
        "is no address. Remedy: give an IP address such as 203.0.113.1, with a port as 203.0.113.1:8805"
            .into()
    })
}

impl Keys {
    /// The keys that were given, but for QoS flows.
    fn settings(&self) -> Vec<(String, String)> {
        let ue: Vec<String> = self.ue.iter().map(|ue| format!("{ue:?}")).collect();
        let ue = (!ue.is_empty()).then(|| format!("[{}]", ue.join(", ")));
        let bearers = self.bearers.then(|| "true".to_string());
        let named = [
            ("ue", &ue),
            ("station", &self.station),
            ("teid", &self.teid),
            ("ambr_up", &self.ambr_up),
            ("ambr_down", &self.ambr_down),
            ("qfi", &self.qfi),
            ("inactivity", &self.inactivity),
            ("bearers", &bearers),
            ("core", &self.core),
            ("core_teid", &self.core_teid),
        ];
        let given = named.into_iter().filter_map(|(key, value)| Some((key.to_string(), value.clone()?)));
        given.collect()
    }

    /// Sets what was given in the only session of a document.
    fn apply(&self, document: &mut Document, with_flows: bool) -> Result<(), Failure> {
        for (key, value) in self.settings() {
            document.set(&format!("sessions.0.{key}"), &value).map_err(Failure::input)?;
        }
        if with_flows && !self.flow.is_empty() {
            let flows = format!("[{}]", self.flow.join(", "));
            document.set("sessions.0.flows", &flows).map_err(Failure::input)?;
        }
        for text in &self.set {
            document.set_from(&format!("sessions.0.{text}")).map_err(Failure::input)?;
        }
        Ok(())
    }
}

/// The only session of a document.
fn only(document: &Document) -> Result<SessionConfig, Failure> {
    let file = SessionFile::of(document).map_err(Failure::input)?;
    Ok(file.sessions.into_iter().next().expect("the text has one"))
}

/// A text as TOML has it.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a text is plain data")
}

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    match arguments.verb {
        Verb::Add { name, peer, keys, file, hold, length } => {
            let wanted = match file {
                Some(file) => {
                    let document = Document::load(&file).map_err(Failure::input)?;
                    SessionFile::of(&document).map_err(Failure::input)?.sessions
                }
                None => {
                    let name = name.unwrap_or_default();
                    let text = format!("[[sessions]]\nname = {}\n", quoted(&name));
                    let mut document = Document::parse("arguments", &text).map_err(Failure::input)?;
                    keys.apply(&mut document, true)?;
                    vec![only(&document)?]
                }
            };
            add(&peer, wanted, hold || length.is_some(), length, output)
        }
        Verb::List { peer } => list(&peer, output),
        Verb::Change { session, peer, keys, remove_flow } => {
            change(&peer, &session, &keys, &remove_flow, output)
        }
        Verb::Delete { sessions, peer, all } => delete(&peer, &sessions, all, output),
        Verb::Hold { peer, length } => {
            let kept = KeptSessions::open(&peer.state, peer.upf, peer.own()?)?;
            if kept.sessions.is_empty() {
                let told = "no session was asked for. Remedy: `weir upf session add` asks for one";
                return Err(Failure::Failed(told.into()));
            }
            let client = peer.client(true, &kept)?;
            drop(kept);
            hold(&peer, client, length, output)
        }
    }
}

impl Peer {
    fn own(&self) -> Result<IpAddr, Failure> {
        if let Some(own) = self.from {
            return Ok(own);
        }
        let any = if self.upf.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let found = UdpSocket::bind(any).and_then(|socket| {
            socket.connect(self.upf)?;
            socket.local_addr()
        });
        let told = |error| format!("no way to {}: {error}. Remedy: name our address with --from", self.upf);
        Ok(found.map_err(|error| Failure::Failed(told(error)))?.ip())
    }

    /// `hears` takes the port to which the other side sends its requests.
    fn client(&self, hears: bool, kept: &KeptSessions) -> Result<Client, Failure> {
        let own = self.own()?;
        let open = if hears { Client::open } else { Client::asking };
        let mut client = open(own, self.upf).map_err(explained)?;
        client.wait_at_most(self.timeout / 4).map_err(explained)?;
        client.started(kept.recovery);
        Ok(client)
    }
}

const NO_SESSION: u64 = 65;
const RULE_FAILURE: u64 = 73;
const NO_ASSOCIATION: u64 = 72;
const NO_RESOURCES: u64 = 75;

fn cause(error: &client::Error) -> Option<u64> {
    match error {
        client::Error::Refused { cause, .. } => *cause,
        _ => None,
    }
}

/// A failure with what helps against it.
fn explained(error: client::Error) -> Failure {
    let remedy = match cause(&error) {
        Some(NO_SESSION | NO_ASSOCIATION) => {
            ". Remedy: it has ended there, as the user plane was started anew or nobody answered its heartbeats for \
             `n4.hold`: `weir upf session delete` it, and add it again, with --hold"
        }
        Some(RULE_FAILURE) => {
            ". Remedy: the address of the user equipment or the tunnel may be another session's, or the user plane has no \
             address of the base station's version of IP; its log says more"
        }
        Some(NO_RESOURCES) => ". Remedy: raise `limits` in the configuration of the user plane",
        _ => "",
    };
    Failure::Failed(format!("{error}{remedy}"))
}

fn named(session: &SessionConfig, error: client::Error) -> Failure {
    Failure::Failed(format!("session {:?}: {}", session.name, explained(error).text()))
}

/// Tunnels that a session sends into, each with its key.
fn sends_into(session: &SessionConfig) -> impl Iterator<Item = (&'static str, IpAddr, u32)> {
    let bearers = session.flows.iter().filter_map(|flow| flow.teid);
    let station = [session.teid].into_iter().chain(bearers).map(|teid| ("teid", session.station, teid));
    // IPv4 addresses in IPv6 form (RFC 4291 section 2.5.5.2) are of sessions that earlier versions asked for.
    let all =
        station.chain(session.core.zip(session.core_teid).map(|(core, teid)| ("core_teid", core, teid)));
    all.map(|(key, address, teid)| (key, address.to_canonical(), teid))
}

/// An address that the user plane would take for another one than was meant.
fn check_addresses(session: &SessionConfig) -> Result<(), Failure> {
    let all = [("station", Some(session.station)), ("core", session.core)];
    for (key, address) in all.into_iter().filter_map(|(key, address)| Some((key, address?))) {
        if address.to_canonical() != address {
            return Err(Failure::Input(format!(
                "session {:?}: key `{key}`: {address} is an IPv4 address in IPv6 form, to which no packet is routed. Remedy: \
                 write {}",
                session.name,
                address.to_canonical()
            )));
        }
    }
    Ok(())
}

/// No two sessions send into one tunnel: whoever is at its other end could not tell their packets apart.
fn apart(session: &SessionConfig, others: impl Iterator<Item = SessionConfig>) -> Result<(), Failure> {
    check_addresses(session)?;
    let own: Vec<_> = sends_into(session).collect();
    let is_double = |(at, one): &(usize, &(_, IpAddr, u32))| {
        own[..*at].iter().any(|other| (other.1, other.2) == (one.1, one.2))
    };
    if let Some((_, (key, address, teid))) = own.iter().enumerate().find(is_double) {
        return Err(Failure::Input(format!(
            "session {:?}: key `{key}`: the tunnel {teid:#x} at {address} is there already, for the other way. Remedy: give \
             each its own",
            session.name
        )));
    }
    for other in others {
        let is_its = |at: &&(_, IpAddr, u32)| sends_into(&other).any(|its| (its.1, its.2) == (at.1, at.2));
        if let Some((key, address, teid)) = own.iter().find(is_its) {
            return Err(Failure::Input(format!(
                "session {:?}: key `{key}`: the tunnel {teid:#x} at {address} is that of session {:?}. Remedy: give it the \
                 tunnel that its own base station, or core, has for it; if the other one has ended, `delete` that first",
                session.name, other.name
            )));
        }
    }
    Ok(())
}

fn add(
    peer: &Peer,
    wanted: Vec<SessionConfig>,
    holds: bool,
    length: Option<Duration>,
    output: &Output,
) -> Done {
    let mut kept = KeptSessions::open(&peer.state, peer.upf, peer.own()?)?;
    let mut all = Vec::new();
    for session in wanted {
        if kept.sessions.iter().any(|other| other.name == session.name) {
            let told = format!(
                "session {:?} is there already. Remedy: give it another name, `weir upf session change` it, or, if it has ended \
                 there, `delete` it first",
                session.name
            );
            return Err(Failure::Input(told));
        }
        let others = kept.sessions.iter().map(KeptSession::config);
        apart(&session, others.chain(all.iter().map(|(_, other)| SessionConfig::clone(other))))?;
        let rules = rules(kept.number(), &session, &[]);
        all.push((rules.map_err(|told| wrong(&session, told))?, session));
    }
    let mut client = peer.client(holds, &kept)?;
    let (mut added, mut failed) = (Vec::new(), None);
    for (rules, session) in all {
        let mut asked = client.establish(&rules);
        if asked.as_ref().is_err_and(|error| cause(error) == Some(NO_ASSOCIATION)) {
            // Without an association there is no session, either.
            if !kept.sessions.is_empty() {
                let count = kept.sessions.len();
                output.say(format!("the user plane knows none of the {count} sessions of before any more"));
                kept.sessions.clear();
            }
            asked = client.associate(kept.recovery).and_then(|_| client.establish(&rules));
        }
        match asked {
            Ok(established) => {
                let session = KeptSession::new(&session, rules.seid, &established);
                kept.sessions.push(session.clone());
                added.push(session);
            }
            Err(error) => {
                failed = Some(named(&session, error));
                break;
            }
        }
    }
    kept.save()?;
    drop(kept);
    // What was done before a failure is told, too.
    if failed.is_none() || !added.is_empty() {
        let told: Vec<Json> = added.iter().map(KeptSession::json).collect();
        output.result(&json!({ "upf": peer.upf, "sessions": told }), || text(&added, |_| None));
    }
    if let Some(failed) = failed {
        return Err(failed);
    }
    if !holds {
        return Ok(ExitCode::SUCCESS);
    }
    let held = hold(peer, client, length, output);
    let mut kept = KeptSessions::open(&peer.state, peer.upf, peer.own()?)?;
    let mut client = peer.client(false, &kept)?;
    for session in &added {
        // Another call may have ended it meanwhile.
        if kept.sessions.iter().all(|other| other.seid != session.seid) {
            continue;
        }
        // Where it has ended already, nothing is left to do.
        if client.delete(session.seid).is_ok() {
            output.say(format!("session {:?} is ended", session.name));
        }
        kept.sessions.retain(|other| other.seid != session.seid);
    }
    kept.save()?;
    held
}

/// A line for each session.
fn text(sessions: &[KeptSession], state: impl Fn(usize) -> Option<&'static str>) -> String {
    let rows: Vec<Vec<String>> = sessions
        .iter()
        .enumerate()
        .map(|(at, session)| {
            let config = session.config();
            vec![
                session.name.clone(),
                format!("{:#x}", session.seid),
                config.ue.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
                session.tunnel_shown(),
                format!("{:#x} at {}", config.teid, config.station),
                (config.flows.len() + 1).to_string(),
                state(at).unwrap_or("added").to_string(),
            ]
        })
        .collect();
    table::aligned(&["session", "SEID", "user", "tunnel here", "base station", "flows", "state"], &rows)
}

fn list(peer: &Peer, output: &Output) -> Done {
    let kept = KeptSessions::open(&peer.state, peer.upf, peer.own()?)?;
    let mut client = peer.client(false, &kept)?;
    let mut states = Vec::new();
    for session in &kept.sessions {
        // A modification that changes nothing tells whether the session is there.
        states.push(match client.modify(session.seid, Vec::new()) {
            Ok(_) => "up",
            Err(error) if matches!(cause(&error), Some(NO_SESSION | NO_ASSOCIATION)) => "gone",
            Err(error) => return Err(explained(error)),
        });
    }
    let with_state = |(session, state): (&KeptSession, &&str)| {
        let mut told = session.json();
        told["state"] = (*state).into();
        told
    };
    let told: Vec<Json> = kept.sessions.iter().zip(&states).map(with_state).collect();
    output.result(&json!({ "upf": peer.upf, "sessions": told }), || {
        text(&kept.sessions, |at| states.get(at).copied())
    });
    Ok(ExitCode::SUCCESS)
}

fn change(peer: &Peer, session: &str, keys: &Keys, remove: &[u32], output: &Output) -> Done {
    let mut kept = KeptSessions::open(&peer.state, peer.upf, peer.own()?)?;
    let at = kept.place(session)?;
    let before = kept.sessions[at].clone();
    let old = before.config();
    let parse = |config: &SessionConfig| {
        let text = SessionFile { sessions: vec![config.clone()] }.to_toml();
        Document::parse("arguments", &text).map_err(Failure::input)
    };
    if let Some(qfi) = remove.iter().find(|qfi| old.flows.iter().all(|flow| flow.qfi != **qfi)) {
        let all: Vec<String> = old.flows.iter().map(|flow| flow.qfi.to_string()).collect();
        let told =
            format!("session {:?} has no QoS flow {qfi} to take out; it has: {}", old.name, all.join(", "));
        return Err(Failure::Input(told));
    }
    // The flows that are given, checked as if they were all.
    let mut alone = parse(&SessionConfig { flows: Vec::new(), ..old.clone() })?;
    keys.apply(&mut alone, true)?;
    let given = only(&alone)?.flows;
    let mut flows = old.flows.clone();
    flows.retain(|flow| !remove.contains(&flow.qfi) && given.iter().all(|new| new.qfi != flow.qfi));
    flows.extend(given);
    let mut document = parse(&SessionConfig { flows, ..old.clone() })?;
    keys.apply(&mut document, false)?;
    let new = only(&document)?;
    let tunnels = before.tunnels();
    let of =
        |config: &SessionConfig| rules(before.cp_seid, config, &tunnels).map_err(|told| wrong(config, told));
    let wanted = of(&new)?;
    let elements = changes(&of(&old)?, &wanted);
    if elements.is_empty() && new == old {
        output.result(&json!({ "upf": peer.upf, "changed": false, "session": before.json() }), || {
            "everything is so already".into()
        });
        return Ok(ExitCode::SUCCESS);
    }
    if new.name != old.name && kept.find(&new.name).is_some() {
        let told = format!("session {:?} is there already. Remedy: give it another name", new.name);
        return Err(Failure::Input(told));
    }
    apart(&new, kept.sessions.iter().filter(|other| other.seid != before.seid).map(KeptSession::config))?;
    if new.station.is_ipv4() != old.station.is_ipv4() {
        let told = "a handover to a base station of another version of IP takes another tunnel here. Remedy: delete the \
                    session and add it anew";
        return Err(Failure::Input(told.into()));
    }
    let version = |core: Option<IpAddr>| core.map(|core| core.is_ipv4());
    if new.bearers != old.bearers || version(new.core) != version(old.core) {
        let key = if new.bearers == old.bearers { "core" } else { "bearers" };
        let told = format!(
            "key `{key}` does not change: all rules of the session follow from it. Remedy: delete the session and add it anew"
        );
        return Err(Failure::Input(told));
    }
    let mut client = peer.client(false, &kept)?;
    let answer = client.modify(before.seid, elements).map_err(|error| named(&old, error))?;
    kept.sessions[at].took(&client::created(&answer));
    kept.sessions[at].set(&new, &wanted);
    kept.save()?;
    let session = kept.sessions[at].clone();
    output.result(&json!({ "upf": peer.upf, "changed": true, "session": session.json() }), || {
        text(std::slice::from_ref(&session), |_| Some("changed"))
    });
    Ok(ExitCode::SUCCESS)
}

fn delete(peer: &Peer, sessions: &[String], all: bool, output: &Output) -> Done {
    let mut kept = KeptSessions::open(&peer.state, peer.upf, peer.own()?)?;
    let places = if all {
        (0..kept.sessions.len()).collect()
    } else {
        sessions.iter().map(|session| kept.place(session)).collect::<Result<Vec<_>, _>>()?
    };
    let chosen: Vec<KeptSession> = places.into_iter().map(|at| kept.sessions[at].clone()).collect();
    let mut client = peer.client(false, &kept)?;
    let (mut told, mut lines, mut failed) = (Vec::new(), Vec::new(), None);
    for session in chosen {
        let (state, bytes) = match client.delete(session.seid) {
            Ok(answer) => ("ended", used(&answer)),
            Err(error) if matches!(cause(&error), Some(NO_SESSION | NO_ASSOCIATION)) => ("gone", None),
            Err(error) => {
                failed = Some(named(&session.config(), error));
                break;
            }
        };
        kept.sessions.retain(|other| other.seid != session.seid);
        let mut object = session.json();
        object["state"] = state.into();
        object["bytes_up"] = bytes.map(|bytes| bytes.up).into();
        object["bytes_down"] = bytes.map(|bytes| bytes.down).into();
        told.push(object);
        lines.push(match bytes {
            Some(bytes) => {
                format!(
                    "session {:?} is ended: {} bytes up, {} bytes down",
                    session.name, bytes.up, bytes.down
                )
            }
            None if state == "gone" => format!("session {:?} had ended there already", session.name),
            None => format!("session {:?} is ended", session.name),
        });
    }
    kept.save()?;
    if failed.is_none() || !told.is_empty() {
        output.result(&json!({ "upf": peer.upf, "sessions": told }), || lines.join("\n"));
    }
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// What a session had used, as its end reports it.
fn used(answer: &Message) -> Option<PerDirection<u64>> {
    usage_reports(answer).first().map(|report| report.bytes)
}

/// Between two heartbeats of ours.
const BEAT: Duration = Duration::from_secs(10);

/// Answers heartbeats and tells reports until somebody ends it.
fn hold(peer: &Peer, mut client: Client, length: Option<Duration>, output: &Output) -> Done {
    let stop = interrupted();
    let begun = Instant::now();
    let beats = |client: &mut Client| {
        client.wait_at_most(peer.timeout / 4)?;
        let stamp = client.heartbeat();
        // It looks often whether it is to end.
        client.wait_at_most(Duration::from_millis(100))?;
        stamp
    };
    let first = beats(&mut client).map_err(explained)?;
    output.say("heartbeats are answered until Ctrl-C");
    let (mut beat, mut is_silent) = (Instant::now(), false);
    while !stop.load(Ordering::Relaxed) && length.is_none_or(|length| begun.elapsed() < length) {
        client.listen().map_err(explained)?;
        for message in std::mem::take(&mut client.asked) {
            heard(peer, &message, output)?;
        }
        if beat.elapsed() < BEAT {
            continue;
        }
        beat = Instant::now();
        match beats(&mut client) {
            Ok(stamp) if stamp == first => {
                if std::mem::take(&mut is_silent) {
                    output.say("the user plane answers again");
                }
            }
            Ok(_) => {
                let told =
                    "the user plane has started anew, and its sessions are gone. Remedy: add them again";
                return Err(Failure::Failed(told.into()));
            }
            Err(error @ client::Error::NoAnswer { .. }) => {
                if !std::mem::replace(&mut is_silent, true) {
                    output.tell_error(&Entry::warn("warning", error.to_string()));
                }
            }
            Err(error) => return Err(explained(error)),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells what the user plane asked or reported.
fn heard(peer: &Peer, message: &Message, output: &Output) -> Result<(), Failure> {
    /// Report Type (TS 29.244 section 8.2.21), by bit.
    const REPORTS: [&str; 4] = [
        "a packet waits for the user equipment",
        "usage",
        "the base station does not know its tunnel",
        "no packet came for the time of `inactivity`",
    ];
    match message.kind {
        kind::ASSOCIATION_UPDATE_REQUEST => {
            let told = "the user plane ends and asks to be released: its sessions are gone";
            Err(Failure::Failed(told.into()))
        }
        kind::SESSION_REPORT_REQUEST => {
            let flags = message.elements.iter().find_map(|element| match element.value {
                Value::Number(flags) if element.id == ie::REPORT_TYPE => Some(flags),
                _ => None,
            });
            let what: Vec<&str> = REPORTS
                .iter()
                .enumerate()
                .filter(|(bit, _)| flags.unwrap_or(0) >> bit & 1 == 1)
                .map(|(_, text)| *text)
                .collect();
            let kept = KeptSessions::read(&peer.state, peer.upf, peer.own()?)?;
            let own = kept.sessions.iter().find(|session| Some(session.cp_seid) == message.seid);
            let name = own.map_or("of another one".into(), |session| format!("{:?}", session.name));
            output.tell(&Entry::info("pfcp", format!("session {name}: {}", what.join(", "))));
            Ok(())
        }
        _ => Ok(()),
    }
}
