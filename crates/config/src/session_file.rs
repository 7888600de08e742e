//! PDU sessions that `weir upf session` asks a user-plane function for.

use crate::document::Document;
use crate::errors::Errors;
use crate::limits::{FASTEST, SLOWEST};
use crate::plans::IpNetwork;
use crate::problems::Problems;
use crate::schema::{
    Check, Here, OPTIONAL_TABLES, Printer, Range, Section, TABLES, absent, list, or, reference, required,
    such, within,
};
use crate::sense_config::unicast;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use weir_units::{Duration, Rate};

/// Sessions of one file.
const SESSIONS_MAX: usize = 100_000;
/// QoS flows of a session beside the one that takes what no filter matches: a QFI has six bits.
const FLOWS_MAX: usize = 62;
/// Filters of a QoS flow.
const FILTERS_MAX: usize = 16;

const NAME: &str = "a name of 1 to 64 bytes without control characters that begins with no digit";
const USER: &str = "one IPv4 address such as \"10.45.0.7\", and one IPv6 prefix such as \"2001:db8:7::/64\"";

fn is_name(name: &str) -> bool {
    crate::plans::is_name(name) && !name.starts_with(|c: char| c.is_ascii_digit())
}

fn is_user(network: &IpNetwork) -> bool {
    match network.address {
        IpAddr::V4(v4) => network.length == 32 && !v4.is_unspecified() && unicast(&v4.into()),
        IpAddr::V6(v6) => network.length == 64 && unicast(&v6.into()) && u128::from(v6) << 64 == 0,
    }
}

section! {
    /// PDU sessions.
    pub struct SessionFile {
        /// Sessions.
        sessions: Vec<SessionConfig> = TABLES;
    }
}

section! {
    /// A PDU session: user equipment behind a base station.
    pub struct SessionConfig {
        /// Its name here, which no other session has.
        name: String = required(such(NAME, |name: &String| is_name(name)));
        /// Addresses of the user equipment.
        ue: Vec<IpNetwork> = list("needed", 2, such(USER, is_user));
        /// Address of the base station on N3.
        station: IpAddr = required(such("an address of one host", |a: &IpAddr| unicast(a)));
        /// The tunnel at the base station (TEID), into which packets to the user equipment go.
        teid: u32 = required(within(1, u32::MAX));
        /// The most that all QoS flows without a guaranteed rate may send together (session AMBR).
        ambr_up: Option<Rate> = absent("no limit", within(SLOWEST, FASTEST));
        /// The most that they may receive.
        ambr_down: Option<Rate> = absent("no limit", within(SLOWEST, FASTEST));
        /// The QoS flow of what no filter of `flows` matches.
        qfi: u32 = or(9, within(1, 63));
        /// Whether its QoS flows are bearers, as the gateway of 4G has them: each with a tunnel of its own in
        /// both directions, and no QFI in packets. Each of `flows` then has a `teid`.
        bearers: bool = or(false, Range::Any);
        /// Address of another user-plane function (N9) that anchors the session: what no flow with `breakout`
        /// keeps here goes into a tunnel to it, and what comes back in one goes to the user equipment.
        core: Option<IpAddr> = absent("the data network is here", such("an address of one host", |a: &IpAddr| unicast(a)));
        /// The tunnel there (TEID), into which packets from the user equipment go.
        core_teid: Option<u32> = absent("no `core`", within(1, u32::MAX));
        /// After this long without a packet session management is told, in whole seconds.
        inactivity: Option<Duration> = absent(
            "it is not told", within(Duration::from_secs(1), Duration::from_secs(86_400))
        );
        /// Other QoS flows.
        flows: Vec<SessionFlow> = OPTIONAL_TABLES;
    }
}

section! {
    /// A QoS flow of a session.
    pub struct SessionFlow {
        /// Its number (QFI).
        qfi: u32 = required(within(1, 63));
        /// What belongs to it, one of these, such as "permit out 17 from 198.51.100.9 to assigned 5060":
        /// SDF filters as [upf.md](upf.md#sdf-filters) has them.
        filter: Vec<String> = list("needed", FILTERS_MAX, such("a filter", |f: &String| !f.is_empty()));
        /// With `bearers` the tunnel at the base station (TEID) into which its packets go.
        teid: Option<u32> = absent("that of the session", within(1, u32::MAX));
        /// With `core`, whether its packets from the user equipment go to the data network here.
        breakout: bool = or(false, Range::Any);
        /// Guaranteed rate from the user equipment.
        gbr_up: Option<Rate> = absent("none", within(SLOWEST, FASTEST));
        /// Guaranteed rate to the user equipment.
        gbr_down: Option<Rate> = absent("none", within(SLOWEST, FASTEST));
        /// Highest rate from the user equipment.
        mbr_up: Option<Rate> = absent("no limit of its own", within(SLOWEST, FASTEST));
        /// Highest rate to the user equipment.
        mbr_down: Option<Rate> = absent("no limit of its own", within(SLOWEST, FASTEST));
    }
}

/// PFCP tells both directions of a highest rate or none.
fn both(up: Option<Rate>, down: Option<Rate>, key: &str, here: &Here, p: &mut Problems) {
    if up.is_some() != down.is_some() {
        let (given, missing) = if up.is_some() { ("up", "down") } else { ("down", "up") };
        let problem = format!("is missing, and `{key}_{given}` is there");
        here.wrong(p, &format!("{key}_{missing}"), problem, "give both directions, or neither");
    }
}

impl Check for SessionFlow {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if self.filter.is_empty() {
            here.wrong(p, "filter", "is missing", "say which packets belong to the QoS flow");
        }
        both(self.mbr_up, self.mbr_down, "mbr", here, p);
        for (key, gbr, mbr) in
            [("gbr_up", self.gbr_up, self.mbr_up), ("gbr_down", self.gbr_down, self.mbr_down)]
        {
            if let (Some(gbr), Some(mbr)) = (gbr, mbr)
                && gbr > mbr
            {
                let problem = format!("{gbr} is more than the highest rate, {mbr}");
                here.wrong(p, key, problem, "guarantee at most what is allowed");
            }
        }
    }
}

impl Check for SessionConfig {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        let of = |is_ipv4| self.ue.iter().filter(|ue| ue.address.is_ipv4() == is_ipv4).count();
        if self.ue.is_empty() {
            here.wrong(p, "ue", "is missing", format!("give {USER}"));
        } else if of(true) > 1 || of(false) > 1 {
            here.wrong(p, "ue", "has two of one version of IP", format!("give {USER}"));
        }
        both(self.ambr_up, self.ambr_down, "ambr", here, p);
        if self.core.is_some() != self.core_teid.is_some() {
            let (given, missing) =
                if self.core.is_some() { ("core", "core_teid") } else { ("core_teid", "core") };
            let problem = format!("is missing, and `{given}` is there");
            here.wrong(p, missing, problem, "name the tunnel and the address of its end, or neither");
        }
        if self.bearers && self.core.is_some() {
            let problem =
                "does not go with `bearers`: on the core side of a 4G gateway there are no tunnels here";
            here.wrong(p, "core", problem, "leave out one of the two");
        }
        let (mut known, mut teids) = (BTreeSet::from([self.qfi]), BTreeSet::from([self.teid]));
        for (at, flow) in self.flows.iter().enumerate() {
            let mut wrong = |key: &str, problem: String, remedy: &str| {
                here.wrong(p, &format!("flows.{at}.{key}"), problem, remedy);
            };
            match flow.teid {
                None if self.bearers => {
                    let remedy = "name the tunnel of this bearer at the base station";
                    wrong("teid", "is missing, and `bearers` asks for a tunnel of each flow".into(), remedy);
                }
                Some(_) if !self.bearers => {
                    let problem = "is given, and all QoS flows of a session share its tunnel";
                    wrong("teid", problem.into(), "leave it out, or say `bearers = true`");
                }
                Some(teid) if !teids.insert(teid) => {
                    wrong(
                        "teid",
                        format!("{teid:#x} is there already"),
                        "give each bearer a tunnel of its own",
                    );
                }
                _ => {}
            }
            if flow.breakout && self.core.is_none() {
                let problem = "has no meaning without `core`: all packets go to the data network here";
                wrong("breakout", problem.into(), "leave it out, or name the other function");
            }
            if !known.insert(flow.qfi) {
                let problem = format!("{} is there already", flow.qfi);
                here.wrong(p, &format!("flows.{at}.qfi"), problem, "give each QoS flow a number of its own");
            }
        }
        if self.flows.len() > FLOWS_MAX {
            let problem = format!("are {} in number", self.flows.len());
            here.wrong(p, "flows", problem, format!("name at most {FLOWS_MAX}"));
        }
    }
}

impl Check for SessionFile {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if self.sessions.len() > SESSIONS_MAX {
            let problem = format!("are {} in number", self.sessions.len());
            here.wrong(p, "sessions", problem, format!("name at most {SESSIONS_MAX} in a file"));
        }
        let (mut names, mut users) = (BTreeMap::new(), BTreeMap::new());
        for (at, session) in self.sessions.iter().enumerate() {
            if let Some(first) = names.insert(&session.name, at) {
                let problem = format!("{:?} is the name of session {first} already", session.name);
                let remedy = "give each session a name of its own";
                here.wrong(p, &format!("sessions.{at}.name"), problem, remedy);
            }
            for ue in &session.ue {
                if let Some(first) = users.insert(*ue, at) {
                    let problem = format!("{ue} is the address of session {first} already");
                    here.wrong(p, &format!("sessions.{at}.ue"), problem, "give each its own addresses");
                }
            }
        }
    }
}

impl SessionFile {
    /// From a document.
    pub fn of(document: &Document) -> Result<SessionFile, Errors> {
        SessionFile::read_file(document, &[])
    }

    /// In canonical form: every key with its value and its meaning.
    pub fn to_toml(&self) -> String {
        self.print_file(Printer::new(Vec::new(), &[]))
    }

    /// All keys with type, default, range and meaning, as Markdown.
    pub fn reference() -> String {
        reference::<SessionFile>("Sessions of `weir upf session`", INTRO)
    }
}

const INTRO: &str = "A file of sessions says which PDU sessions `weir upf session add --file FILE` asks a user-plane \
function for;\n[upf.md](upf.md#sessions-by-hand) says how it is used. `--set` of a session that \
arguments describe, and of `change`, takes the keys of\n`[[sessions]]`.\n\nThis page is generated from the declarations of the keys.";

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[[sessions]]\nname = \"phone\"\nue = [\"10.45.0.7\", \"2001:db8:7::/64\"]\n\
        station = \"192.0.2.9\"\nteid = 0x99\nambr_up = \"50Mbit/s\"\nambr_down = \"100Mbit/s\"\n\
        [[sessions.flows]]\nqfi = 1\nfilter = [\"permit out 17 from any to assigned 5060\"]\n\
        gbr_down = \"1Mbit/s\"\nmbr_up = \"2Mbit/s\"\nmbr_down = \"2Mbit/s\"\n";

    fn read(text: &str) -> Result<SessionFile, Errors> {
        SessionFile::of(&Document::parse("s.toml", text).unwrap())
    }

    #[test]
    fn a_file_is_written_as_it_was_read() {
        let file = read(TEXT).unwrap();
        assert_eq!((file.sessions[0].teid, file.sessions[0].qfi), (0x99, 9));
        assert_eq!(read(&file.to_toml()).unwrap(), file);
    }

    #[test]
    fn what_is_wrong_is_told_with_line_and_key() {
        for (from, to, wanted) in [
            ("\"phone\"", "\"5\"", "s.toml:2: key `sessions.0.name`"),
            ("10.45.0.7", "10.45.0.7/24", "s.toml:3: key `sessions.0.ue.0`"),
            ("2001:db8:7::/64", "10.45.0.8", "has two of one version of IP"),
            ("ambr_up = \"50Mbit/s\"\n", "", "key `sessions.0.ambr_up`: is missing"),
            ("0x99", "0", "s.toml:5: key `sessions.0.teid`: 0 is out of range"),
            ("qfi = 1", "qfi = 9", "s.toml:9: key `sessions.0.flows.0.qfi`: 9 is there already"),
            ("gbr_down = \"1M", "gbr_down = \"3M", "s.toml:11: key `sessions.0.flows.0.gbr_down`: 3"),
            ("mbr_up = \"2Mbit/s\"\n", "", "key `sessions.0.flows.0.mbr_up`: is missing"),
            ("station", "sation", "did you mean `station`?"),
        ] {
            let text = TEXT.replacen(from, to, 1);
            assert_ne!(text, TEXT);
            let told = read(&text).unwrap_err().to_string();
            assert!(told.contains(wanted), "{from} -> {to}: {told}");
        }
        let other = TEXT[..TEXT.find("[[sessions.flows").unwrap()].replace("phone", "other");
        let told = read(&format!("{TEXT}{other}")).unwrap_err().to_string();
        assert!(told.contains("key `sessions.1.ue`: 10.45.0.7/32 is the address of session 0"), "{told}");
        assert!(read("").unwrap_err().to_string().contains("sessions"));
    }

    #[test]
    fn bearers_and_another_function_take_what_belongs_to_them() {
        let lte =
            TEXT.replace("ambr_up", "bearers = true\nambr_up").replace("qfi = 1\n", "qfi = 1\nteid = 0x9a\n");
        let n9 = TEXT
            .replace("ambr_up", "core = \"192.0.2.30\"\ncore_teid = 5\nambr_up")
            .replace("qfi = 1\n", "qfi = 1\nbreakout = true\n");
        for text in [&lte, &n9] {
            let file = read(text).unwrap();
            assert_eq!(read(&file.to_toml()).unwrap(), file);
        }
        for (text, wanted) in [
            (lte.replace("teid = 0x9a\n", ""), "key `sessions.0.flows.0.teid`: is missing"),
            (lte.replace("0x9a", "0x99"), "key `sessions.0.flows.0.teid`: 0x99 is there already"),
            (
                lte.replace("bearers = true\n", ""),
                "key `sessions.0.flows.0.teid`: is given, and all QoS flows",
            ),
            (n9.replace("core_teid = 5\n", ""), "key `sessions.0.core_teid`: is missing"),
            (
                n9.replace("core = \"192.0.2.30\"\ncore_teid = 5\n", ""),
                "`sessions.0.flows.0.breakout`: has no meaning",
            ),
            (
                lte.replace("bearers", "core = \"192.0.2.30\"\ncore_teid = 5\nbearers"),
                "key `sessions.0.core`: does not go with `bearers`",
            ),
        ] {
            let told = read(&text).unwrap_err().to_string();
            assert!(told.contains(wanted), "{wanted}: {told}");
        }
    }
}
