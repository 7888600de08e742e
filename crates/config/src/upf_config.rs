//! A configuration of `weir upf`: a 5G user-plane function.

mod link_address;
mod sides;

pub use link_address::LinkAddress;

use crate::aqm_config::AqmConfig;
use crate::limits::{FASTEST, MAX_DURATION, SLOWEST};
use crate::policy_config::PolicyConfig;
use crate::problems::Problems;
use crate::queue_config::QueueConfig;
use crate::run_config::{
    ADDRESS, INTERFACE, LOOPBACK, LogLevel, Poll, PortMode, address, interface, loopback,
};
use crate::schema::{
    Check, Flat, Here, OPTIONAL_TABLES, OneTable, OptionalTable, Printer, Range, Section, absent, list, or,
    reference, required, such, within,
};
use crate::sense_config::unicast;
use std::net::IpAddr;
use weir_aqm::Needs;
use weir_sense::bottleneck::FollowLaw;
use weir_units::{Bytes, Duration, Rate};

section! {
    /// A 5G user-plane function: tunnels on one side, the data network on the other, sessions from a session
    /// management function.
    pub struct UpfConfig {
        /// How a rate is found that follows a bottleneck behind the base station (`flow.follow`): "delivered"
        /// from what the bottleneck delivers between two round trips; "largest" by the rule of the article on
        /// vAQM, from the largest rate at which no queue stood there.
        follow_law: FollowedBy = or(FollowedBy::Delivered, Range::Any);
        /// The side of the base stations: tunnels of GTP-U.
        n3: N3 = OneTable;
        /// The session management function, over PFCP.
        n4: N4 = OneTable;
        /// The side of the data network.
        n6: N6 = OneTable;
        /// The data network beside it, for local breakout. Session management names it by its network
        /// instance.
        local: Option<N6> = OptionalTable;
        /// How much there can be.
        limits: UpfLimits = OneTable;
        /// How the packets of a QoS flow wait where nothing else is said; without an algorithm that is vAQM,
        /// which learns what it needs.
        flow: FlowConfig = OneTable;
        /// How packets from and to the port for local breakout wait, where they wait otherwise.
        local_flow: Option<FlowConfig> = OptionalTable;
        /// QoS flows that wait otherwise.
        flows: Vec<QosFlow> = OPTIONAL_TABLES;
        /// How the packet loop uses this machine.
        host: UpfHost = OneTable;
        /// For how long.
        run: UpfRun = OneTable;
    }
}

section! {
    /// How the packet loop uses this machine.
    pub struct UpfHost {
        /// How packets get from and to the ports; "auto" takes the fastest way that works for all of them.
        /// Native AF_XDP, generic AF_XDP and AF_PACKET are tried in this order. A port may have up to 128
        /// receive queues in AF_XDP, each with buffers of its own, and any number in AF_PACKET.
        mode: PortMode = or(PortMode::Auto, Range::Any);
        /// What the packet loop does when there is nothing to do: "busy" looks again at once, for exact
        /// timing at the price of a core; "sleep" waits.
        poll: Poll = or(Poll::Sleep, Range::Any);
    }
}

impl Check for UpfHost {}

section! {
    /// For how long it runs.
    pub struct UpfRun {
        /// A folder in which sessions are kept, so that a restart loses none and session management sees
        /// none; "none" keeps them in memory alone.
        state: Option<String> = absent(
            "/var/lib/weir/upf-ADDRESS with that of `n4`, and \"none\" with `duration` or --control-only",
            such("a folder such as \"/var/lib/weir/upf\", or \"none\"", |t: &String| !t.is_empty())
        );
        /// How long to run.
        duration: Option<Duration> =
            absent("until it is stopped", within(Duration::from_millis(1), MAX_DURATION));
        /// From which level on the log is told: "error", "warn", "info", "debug", as records on standard
        /// error. "auto" tells the journal from "info" on where standard error is one of its streams, and
        /// elsewhere all to whoever watches, in words. `--log` comes before it.
        log: LogLevel = or(LogLevel::Auto, Range::Any);
        /// Address and port at which Prometheus may ask for metrics (`/metrics`), and others for `/health`
        /// and `/ready`. Only of this machine, as whoever reaches it may read; nothing can be changed there.
        /// Without it they are at the control socket.
        metrics: Option<String> = absent("only at the control socket", such(LOOPBACK, |t: &String| loopback(t)));
        /// Address and port of the page, on which sessions and their queues are looked at with a browser;
        /// `weir ctl page` prints how. At an address that others reach, looking takes a token and goes over
        /// the network as it is: put it behind TLS, or leave it at 127.0.0.1 and forward the port with ssh.
        page: Option<String> = absent("no page but at the control socket", such(ADDRESS, |t: &String| address(t)));
    }
}

impl Check for UpfRun {}

impl Check for UpfConfig {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        sides::check(self, here, p);
        for (at, flow) in self.flows.iter().enumerate() {
            if self.flows[..at].iter().any(|other| other.qfi == flow.qfi) {
                let key = format!("flows.{at}.qfi");
                here.wrong(p, &key, format!("{} is there already", flow.qfi), "name each QoS flow once");
            }
        }
    }
}

choices! {
    /// How a rate is found that follows a bottleneck behind the base station.
    pub enum FollowedBy {
        /// From what the bottleneck delivers.
        Delivered = "delivered",
        /// By the rule of the article on virtual AQM.
        Largest = "largest",
    }
}

impl FollowedBy {
    /// The law of this name.
    pub fn law(self) -> FollowLaw {
        match self {
            FollowedBy::Delivered => FollowLaw::Delivered,
            FollowedBy::Largest => FollowLaw::Largest,
        }
    }
}

choices! {
    /// From whom packets in the tunnel of a session are taken.
    pub enum Sources {
        /// From anybody.
        Any = "any",
        /// From base stations to which this or another session sends.
        Known = "known",
        /// From those to which this session sends.
        Own = "own",
    }
}

const OWN: &str = "an address of one host";

fn own(address: &LinkAddress) -> bool {
    unicast(&address.address)
}

section! {
    /// The side of the base stations.
    pub struct N3 {
        /// Name of the network interface.
        port: String = required(such(INTERFACE, |t: &String| interface(t)));
        /// Our addresses, where tunnels end; one for each IP version.
        address: Vec<LinkAddress> = list("needed", 2, such(OWN, |a: &LinkAddress| own(a)));
        /// Next hop to base stations that are not on the link; one for each IP version.
        gateway: Vec<IpAddr> = list("all are on the link", 2, such(OWN, |a: &IpAddr| unicast(a)));
        /// From whom packets in the tunnel of a session are taken: "any" host; "known", base stations to
        /// which this or any other session sends, as a handover over Xn changes the base station before
        /// session management tells; "own", those to which this session sends. A session that sends to none
        /// yet, or is idle, takes packets from any.
        sources: Sources = or(Sources::Known, Range::Any);
        /// Networks of base stations from which packets are taken as well.
        stations: Vec<LinkAddress> = list("none", 64, such("an IP network", |_: &LinkAddress| true));
        /// Network instance of this side. Rules that name another are refused.
        instance: Option<String> = absent("any name is taken", such(INSTANCE, |t: &String| instance(t)));
        /// Rate of the link behind the port, where that is less than the port can send.
        rate: Option<Rate> = absent("as fast as the port", within(SLOWEST, FASTEST));
    }
}

impl Check for N3 {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if self.address.is_empty() {
            here.wrong(p, "address", "is missing: tunnels need an end", "add it, such as [\"192.0.2.1/24\"]");
        }
        sides::check_links(&self.address, &self.gateway, here, p);
    }
}

section! {
    /// A side of data networks.
    pub struct N6 {
        /// Name of the network interface.
        port: String = required(such(INTERFACE, |t: &String| interface(t)));
        /// Our addresses, to which routers send what goes to user equipment; one for each IP version.
        address: Vec<LinkAddress> = list("needed", 2, such(OWN, |a: &LinkAddress| own(a)));
        /// Next hop to what is not on the link; one for each IP version.
        gateway: Vec<IpAddr> = list("all are on the link", 2, such(OWN, |a: &IpAddr| unicast(a)));
        /// Network instance of this side.
        instance: Option<String> = absent("any name that no other side has", such(INSTANCE, |t: &String| instance(t)));
        /// Rate of the link behind the port, where that is less than the port can send.
        rate: Option<Rate> = absent("as fast as the port", within(SLOWEST, FASTEST));
    }
}

impl Check for N6 {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if self.address.is_empty() {
            let problem = "is missing: routers need an address to send to";
            here.wrong(p, "address", problem, "add it, such as [\"198.51.100.1/24\"]");
        }
        sides::check_links(&self.address, &self.gateway, here, p);
    }
}

const INSTANCE: &str = "a name such as \"internet\": at most 100 letters, digits, dots and dashes";

fn instance(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-' || c == '_';
    (1..=100).contains(&name.len()) && name.chars().all(allowed)
}

section! {
    /// Where session management reaches this function.
    pub struct N4 {
        /// Our address, which is also our Node ID.
        address: IpAddr = required(such(OWN, |a: &IpAddr| here_or_unicast(a)));
        /// UDP port.
        udp_port: u32 = or(8805, within(1, 65_535));
        /// Who may associate; nobody else gets an answer.
        peers: Vec<IpAddr> = list("needed", 64, such(OWN, |a: &IpAddr| here_or_unicast(a)));
        /// Whether peers that are not associated are asked for it, each `heartbeat`; they may ask as well.
        initiate: bool = or(false, Range::Any);
        /// Whether an address of `peers` without an association may speak about sessions of another, whose
        /// Node ID it gives or at whose sessions' address it is: a function with several addresses. Say false
        /// where peers do not trust each other.
        aliases: bool = or(true, Range::Any);
        /// Between two heartbeats to an associated peer.
        heartbeat: Duration = or(Duration::from_secs(10), within(Duration::from_secs(1), Duration::from_secs(3600)));
        /// Time after which a request of ours without an answer is sent again (T1).
        again: Duration = or(Duration::from_secs(1), within(Duration::from_millis(50), Duration::from_secs(60)));
        /// How often a request of ours is sent (N1), the first time included.
        tries: u32 = or(4, within(1, 20));
        /// Time without an answer to any heartbeat after which an association ends, with its sessions.
        hold: Duration = or(Duration::from_secs(60), within(Duration::from_secs(2), Duration::from_secs(86_400)));
        /// After which time packets that still wait for user equipment that is idle are reported again.
        page_again: Duration = or(Duration::from_secs(10), within(Duration::from_secs(1), Duration::from_secs(3600)));
        /// Most requests of a peer in a second, of which a tenth, or 64, may come at once, each counting once
        /// for every kilobyte that it begins; what is above is discarded and counted, and the peer sends it
        /// again.
        rate_max: u32 = or(50_000, within(10, 1_000_000));
        /// Answers kept for requests that come again, an equal part for each peer.
        answers: u32 = or(65_536, within(16, 4_000_000));
    }
}

impl Check for N4 {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if self.peers.is_empty() {
            let problem = "is missing: nobody could associate";
            here.wrong(p, "peers", problem, "add it, such as [\"192.0.2.2\"]");
        }
        let is_twice = |at: usize| self.peers[..at].contains(&self.peers[at]);
        if let Some(at) = (0..self.peers.len()).find(|at| is_twice(*at)) {
            here.wrong(p, "peers", format!("{} is there twice", self.peers[at]), "name each peer once");
        }
        if self.peers.contains(&self.address) {
            let problem = format!("{} is `n4.address` itself", self.address);
            here.wrong(p, "peers", problem, "name the address of session management");
        }
        if let Some(other) = self.peers.iter().find(|peer| peer.is_ipv4() != self.address.is_ipv4()) {
            let problem = format!("{other} is of another IP version than `n4.address`");
            here.wrong(p, "peers", problem, "give addresses of the same");
        }
        if self.hold <= self.heartbeat {
            let problem = format!("{} is no longer than `heartbeat`, {}", self.hold, self.heartbeat);
            here.wrong(p, "hold", problem, "raise it, or lower `heartbeat`");
        }
    }
}

/// Control and session management may share a machine, unlike hosts behind ports.
fn here_or_unicast(address: &IpAddr) -> bool {
    unicast(address) || address.is_loopback()
}

section! {
    /// How much there can be. What is beyond is refused with the cause "no resources available".
    pub struct UpfLimits {
        /// Sessions.
        sessions: u32 = or(100_000, within(1, 1_000_000));
        /// Rules of each kind in a session.
        rules: u32 = or(32, within(1, 255));
        /// SDF filters of a packet detection rule.
        filters: u32 = or(16, within(1, 255));
        /// Queues that are in use at once. One that was empty for `idle` may be given to another QoS flow.
        queues: u32 = or(8192, within(16, 1_000_000));
        /// See `queues`.
        idle: Duration = or(Duration::from_secs(10), within(Duration::from_millis(100), Duration::from_secs(3600)));
        /// Bottlenecks behind base stations that are learnt at once: one for the non-GBR flows of a session,
        /// and one for each GBR flow.
        learners: u32 = or(1024, within(1, 100_000));
        /// Packets that wait at once, in all queues together.
        packets: u32 = or(32_768, within(64, 4_000_000));
        /// Packets that wait at once for user equipment that is idle, under rules that buffer, of `packets`.
        /// A session may have as many as are still free.
        buffered: Option<u32> = absent("a quarter of `packets`", within(16, 4_000_000));
        /// How long they wait at most, within a second or, with more than 100 000 sessions, a
        /// hundred-thousandth of a second for each.
        buffered_for: Duration =
            or(Duration::from_secs(30), within(Duration::from_millis(100), Duration::from_secs(3600)));
        /// Room of a queue, as the time that packets take at its rate.
        buffer: Duration =
            or(Duration::from_millis(250), within(Duration::from_micros(1), Duration::from_secs(60)));
        /// Room of a queue at least.
        buffer_min: Bytes = or(Bytes::new(64_000), within(Bytes::new(1500), Bytes::new(1_000_000_000)));
    }
}

impl Check for UpfLimits {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if let Some(buffered) = self.buffered.filter(|buffered| *buffered > self.packets) {
            let problem = format!("{buffered} is more than `packets`, {}", self.packets);
            here.wrong(p, "buffered", problem, "lower it, or raise `packets`");
        }
    }
}

section! {
    /// How packets of a QoS flow wait.
    pub struct FlowConfig {
        /// The algorithm.
        aqm: Option<AqmConfig> = OptionalTable;
        /// The policy; its presence turns steering on.
        policy: Option<PolicyConfig> = OptionalTable;
        /// Whether the rate follows what round-trip times tell of a bottleneck behind the base station, so
        /// that packets wait here and not there. The set point of an algorithm that is given none is then
        /// made from the path's round trip.
        follow: Option<bool> = absent("as if true without an algorithm, as if false with one", Range::Any);
    }
}

impl Check for FlowConfig {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if let Some(aqm) = self.aqm.as_ref().filter(|aqm| aqm.needs() == Needs::Probes) {
            let problem =
                format!("`{}` acts on what probes find, and a user-plane function sends none", aqm.name);
            let remedy =
                "choose another algorithm, or remove the table: vAQM learns from the packets that pass";
            here.wrong(p, "aqm.name", problem, remedy);
        }
        match (&self.aqm, &mut self.policy) {
            (Some(aqm), Some(policy)) => policy.check_with(aqm, &QueueConfig::default(), here, p),
            (None, Some(_)) => {
                let problem = "has nothing to steer: vAQM learns by itself";
                here.wrong(p, "policy", problem, "name an algorithm in an `aqm` table, or remove it");
            }
            _ => {}
        }
    }
}

impl FlowConfig {
    /// Whether the rate follows a bottleneck behind the base station.
    pub fn follows(&self) -> bool {
        self.follow.unwrap_or(self.aqm.is_none())
    }
}

section! {
    /// A QoS flow that waits in its own way.
    pub struct QosFlow {
        /// Its identifier (QFI).
        qfi: u32 = required(within(1, 63));
        /// How its packets wait.
        waits: FlowConfig = Flat;
    }
}

impl Check for QosFlow {}

impl UpfConfig {
    /// What is allowed but may not be what was meant.
    pub fn warnings(&self) -> Vec<String> {
        let named = self.flows.iter().map(|flow| (format!("QoS flow {}", flow.qfi), &flow.waits));
        let local = self.local_flow.iter().map(|flow| ("local_flow".to_string(), flow));
        let all = std::iter::once(("flow".to_string(), &self.flow)).chain(local).chain(named);
        let setpoints = all.clone().filter_map(|(name, flow)| {
            let warning = flow.policy.as_ref()?.unused_setpoint(flow.aqm.as_ref()?)?;
            Some(format!("{name}: {warning}"))
        });
        let no_port = (self.local_flow.is_some() && self.local.is_none()).then_some(
            "local_flow: there is no port for local breakout, so that nothing waits in this way; add a `local` \
             table, or remove this one",
        );
        let nothing_follows =
            self.follow_law != FollowedBy::Delivered && !all.clone().any(|(_, flow)| flow.follows());
        let unused_law = nothing_follows.then_some(
            "follow_law: no rate follows a bottleneck, so that it is not used; set `flow.follow` to true, or \
             remove it",
        );
        setpoints.chain([no_port, unused_law].into_iter().flatten().map(String::from)).collect()
    }

    /// The configuration in canonical form: every key with its value, its meaning and its range.
    pub fn to_toml(&self) -> String {
        self.print_file(Printer::new(Vec::new(), &[]))
    }

    /// All keys with type, default, range and meaning, as Markdown.
    pub fn reference() -> String {
        reference::<UpfConfig>("Configuration of `weir upf`", INTRO)
    }
}

const INTRO: &str = "A configuration of `weir upf` says which ports a 5G user-plane function has, who tells it of \
sessions, and how packets\nwait. It is TOML; keys may stand in any order. Quantities are written with their unit: \
`\"2.5ms\"`, `\"64MB\"`.\n`--set key=value` sets a key over the file.\n\nThis page is generated from the declarations of \
the keys.";

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "n3 = { port = \"a\", address = [\"192.0.2.1/24\"] }\n\
                         n4 = { address = \"127.0.0.1\", peers = [\"127.0.0.2\"] }\n\
                         n6 = { port = \"b\", address = [\"198.51.100.1/24\"] }\n";

    #[test]
    fn little_must_be_said_and_what_is_in_force_reads_back() {
        let config = UpfConfig::parse("x", SMALL).unwrap();
        assert!(config.flow.aqm.is_none() && config.flow.follows());
        assert_eq!(UpfConfig::parse("y", &config.to_toml()).unwrap(), config);
    }

    #[test]
    fn links_without_room_for_more_than_two_have_no_addresses_of_their_own() {
        for (address, gateway) in [
            ("198.51.100.0/31", "198.51.100.1"),
            ("2001:db8::/127", "2001:db8::1"),
            ("2001:db8::1/64", "fe80::1"),
        ] {
            let own = format!("\"{address}\"], gateway = [\"{gateway}\"]");
            let text = SMALL.replace("\"198.51.100.1/24\"]", &own);
            assert!(UpfConfig::parse("x", &text).is_ok(), "{:?}", UpfConfig::parse("x", &text));
        }
    }

    #[test]
    fn each_qos_flow_can_wait_in_its_own_way() {
        let more = "[[flows]]\nqfi = 5\naqm = { name = \"codel\" }\n";
        let config = UpfConfig::parse("x", &format!("{SMALL}{more}")).unwrap();
        let waits = &config.flows[0].waits;
        assert_eq!((waits.aqm.as_ref().map(|aqm| &*aqm.name), waits.follows()), (Some("codel"), false));
        assert_eq!(UpfConfig::parse("y", &config.to_toml()).unwrap(), config);
    }

    #[test]
    fn what_does_not_go_together_is_told_by_its_key() {
        let told = |text: &str| UpfConfig::parse("x", text).unwrap_err().to_string();
        for (from, to, key) in [
            ("port = \"b\"", "port = \"a\"", "n6.port"),
            ("peers = [\"127.0.0.2\"]", "peers = [\"::1\"]", "n4.peers"),
            ("[\"192.0.2.1/24\"]", "[\"192.0.2.1/24\", \"192.0.2.2/24\"]", "n3.address"),
            ("192.0.2.1/24", "192.0.2.1", "n3.address"),
            ("192.0.2.1/24", "192.0.2.1/33", "n3.address"),
            (", peers = [\"127.0.0.2\"]", "", "n4.peers"),
            ("[\"127.0.0.2\"]", "[\"127.0.0.2\", \"127.0.0.3\", \"127.0.0.2\"]", "n4.peers"),
            ("[\"127.0.0.2\"]", "[\"127.0.0.1\"]", "n4.peers"),
            ("port = \"a\"", "port = \"lo\"", "n3.port"),
            ("port = \"b\"", "port = \"lo\"", "n6.port"),
            ("192.0.2.1/24", "192.0.2.0/24", "n3.address"),
            ("192.0.2.1/24", "192.0.2.255/24", "n3.address"),
            ("192.0.2.1/24", "2001:db8::/64", "n3.address"),
            ("100.1/24\"]", "100.1/24\"], gateway = [\"198.51.101.1\"]", "n6.gateway"),
            ("100.1/24\"]", "100.1/24\"], gateway = [\"2001:db8::1\"]", "n6.gateway"),
            ("100.1/24\"]", "100.1/24\"], gateway = [\"198.51.100.1\"]", "n6.gateway"),
            ("100.1/24\"]", "100.1/24\"], gateway = [\"198.51.100.255\"]", "n6.gateway"),
            ("198.51.100.1/24", "192.0.2.129/25", "n6.address"),
            ("127.0.0.1", "192.0.2.1", "n4.address"),
            ("/24\"] }", "/24\"], instance = \"internet\" }", "n6.instance"),
        ] {
            let text = SMALL.replace(from, to);
            assert!(told(&text).contains(key), "{key}: {}", told(&text));
        }
        let twice = format!("{SMALL}[[flows]]\nqfi = 5\n[[flows]]\nqfi = 5\n");
        assert!(told(&twice).contains("flows.1.qfi"));
        let sensing = "[[flows]]\nqfi = 5\naqm = { name = \"asqm\" }\n[local_flow.aqm]\nname = \"asqm\"\n";
        let told_of = told(&format!("{SMALL}{sensing}"));
        assert!(told_of.contains("flows.0.aqm.name") && told_of.contains("local_flow.aqm.name"), "{told_of}");
        let local = format!("{SMALL}local = {{ port = \"c\", address = [\"203.0.113.9/24\"] }}\n");
        assert!(told(&local).contains("local.instance"));
        let more = told(&format!("{SMALL}limits = {{ packets = 1000, buffered = 1001 }}\n"));
        assert!(
            more.contains("limits.buffered") && more.contains("1001 is more than `packets`, 1000"),
            "{more}"
        );
        assert!(
            UpfConfig::parse("x", &format!("{SMALL}limits = {{ packets = 1000, buffered = 1000 }}\n"))
                .is_ok()
        );
    }

    #[test]
    fn what_is_not_used_is_told() {
        let told =
            |text: &str| UpfConfig::parse("x", &format!("{text}{SMALL}")).unwrap().warnings().join("\n");
        assert_eq!(told(""), "");
        assert!(
            told("local_flow.follow = false\n")
                .starts_with("local_flow: there is no port for local breakout")
        );
        let with_port = "local_flow.follow = false\n\
                         local = { port = \"c\", address = [\"203.0.113.1/24\"], instance = \"edge\" }\n";
        assert_eq!(told(with_port), "");
        let law = "follow_law = \"largest\"\n";
        assert_eq!(told(law), "");
        assert!(told(&format!("{law}flow.follow = false\n")).starts_with("follow_law: no rate follows"));
        let one = format!("{law}flow.follow = false\nflows = [{{ qfi = 5, follow = true }}]\n");
        assert_eq!(told(&one), "");
    }
}
