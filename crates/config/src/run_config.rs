//! A configuration of `weir run`: a link between two real ports.

use crate::alarms::AlarmsConfig;
use crate::experiment::check_sample;
use crate::limits::MAX_DURATION;
use crate::link::{Channel, Upstream};
use crate::problems::Problems;
use crate::schema::{
    Check, Here, OPTIONAL_TABLE_OR_TABLES, OneTable, OptionalTable, Printer, Range, Section, absent,
    element_key, or, reference, required, such, within,
};
use crate::sense_config::{PortName, SenseConfig};
use weir_aqm::{Needs, Share};
use weir_queue::EACH_USER;
use weir_units::{Bytes, Duration};

section! {
    /// A link between two real ports.
    pub struct RunConfig {
        /// The two ports.
        ports: Ports = OneTable;
        /// What enters at a and leaves at b.
        a_to_b: Channel = OneTable;
        /// What enters at b and leaves at a.
        b_to_a: Channel = OneTable;
        /// Probes that measure what waits below IP, behind the port that faces the gateway. The presence of
        /// this table turns sensing on; packets of the class EF (DSCP 46) then pass the algorithm of that
        /// direction by. For probes at both ports it is written twice, each time under `[[sense]]`.
        sense: Vec<SenseConfig> = OPTIONAL_TABLE_OR_TABLES;
        /// Customers, whose rates a file of plans says. Directions that keep a queue for each user
        /// (`queue.discipline = "user"`) hold them to these.
        users: Option<UsersConfig> = OptionalTable;
        /// How the packet loop uses this machine.
        host: Host = OneTable;
        /// What is measured, and for how long.
        run: RunOptions = OneTable;
        /// What happens when the packet loop is stuck.
        fail_open: FailOpen = OneTable;
        /// When alarms are raised. The time of an alarm runs up while its condition holds and down while it
        /// does not; at what is said here it is raised, and at zero it is cleared.
        alarms: AlarmsConfig = OneTable;
    }
}

impl Check for RunConfig {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        for (i, sense) in self.sense.iter().enumerate() {
            let key = element_key(here, "sense", i);
            let port = format!("{key}.port");
            let (name, channel) = self.sensed_by(sense);
            if let Some(other) = self.sense[..i].iter().position(|other| other.port == sense.port) {
                let which = if other == 0 { "the first" } else { "an earlier" };
                let remedy = "name the other port, or remove this table: a port is sensed by one";
                here.wrong(p, &port, format!("is that of {which} `[[sense]]` table"), remedy);
                continue;
            }
            if channel.aqm.is_none() {
                let problem = format!("senses for {name}, which has no algorithm to tell what it finds");
                here.wrong(
                    p,
                    &port,
                    problem,
                    format!("give `[{name}]` an `aqm` table, or name the other port"),
                );
            }
            if channel.upstream != Upstream::Off {
                let problem = "tells the algorithm of round trips, and `sense` of others";
                let remedy = "remove the `sense` table, or say \"off\"";
                here.wrong(p, &format!("{name}.upstream"), problem, remedy);
            }
            sense.rate.check_with(channel.link.rate, None, &key, here, p);
            let most = sense.rate.autorate.as_ref().map(|autorate| autorate.max);
            if channel.delay > Duration::ZERO && most > channel.link.rate {
                let problem = format!("is more than `{name}.rate`, for which its delay line has room");
                here.wrong(p, &format!("{key}.autorate.max"), problem, format!("remove `{name}.delay`"));
            }
        }
        self.check_users(here, p);
    }
}

section! {
    /// Customers, whose rates a file of plans says.
    pub struct UsersConfig {
        /// The file of plans, in TOML or as a table (CSV); `docs/plans.md` has its keys. A relative path
        /// begins at the folder of this configuration. `weir ctl reload` and SIGHUP read it again.
        file: String = required(such("a path", |t: &String| path(t)));
        /// The port that faces the customers: what leaves there goes down to them, what comes in there comes
        /// up from them.
        port: PortName = or(PortName::B, Range::Any);
        /// What customers' quality of outcome is measured by.
        outcome: OutcomeConfig = OneTable;
    }
}

impl Check for UsersConfig {}

section! {
    /// What customers' quality of outcome is measured by: the score of draft-ietf-ippm-qoo falls from 100 %
    /// where conditions are optimal to 0 % where they are unacceptable, for delay and loss each, and is the
    /// smaller of the two. Unless said otherwise, for conversational voice (ITU-T G.1010: 150 ms one way
    /// preferred, 400 ms the limit, at most 3 % lost).
    pub struct OutcomeConfig {
        /// Round-trip time up to which conditions are optimal.
        delay_optimal: Duration = or(Duration::from_millis(300), within(Duration::ZERO, Duration::from_secs(10)));
        /// Round-trip time from which they are unacceptable.
        delay_unacceptable: Duration = or(
            Duration::from_millis(800), within(Duration::from_micros(1), Duration::from_secs(10))
        );
        /// Share of packets up to which losses are optimal.
        loss_optimal: Share = or(Share(0.0), within(Share(0.0), Share(1.0)));
        /// Share of packets from which they are unacceptable.
        loss_unacceptable: Share = or(Share(0.03), within(Share(1e-6), Share(1.0)));
    }
}

impl Check for OutcomeConfig {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        let wrong = |p: &mut Problems, key: &str, than: &str| {
            here.wrong(p, key, "is not beyond what is optimal", format!("give more than `{than}`"));
        };
        if self.delay_unacceptable <= self.delay_optimal {
            wrong(p, "delay_unacceptable", "delay_optimal");
        }
        if self.loss_unacceptable.0 <= self.loss_optimal.0 {
            wrong(p, "loss_unacceptable", "loss_optimal");
        }
    }
}

choices! {
    /// How packets get from and to a port.
    pub enum PortMode {
        /// The fastest of the others that works.
        Auto = "auto",
        /// AF_XDP in the driver.
        XdpNative = "xdp-native",
        /// AF_XDP behind the driver.
        XdpGeneric = "xdp-generic",
        /// AF_PACKET rings.
        AfPacket = "af_packet",
    }
}

section! {
    /// The two ports.
    pub struct Ports {
        /// Name of the first network interface.
        a: String = required(such(INTERFACE, |t: &String| interface(t)));
        /// Name of the second network interface.
        b: String = required(such(INTERFACE, |t: &String| interface(t)));
        /// How packets get from and to the ports; "auto" takes the fastest way that works.
        /// Native AF_XDP, generic AF_XDP and AF_PACKET are tried in this order. A port may have up to 128
        /// receive queues in AF_XDP, each with buffers of its own, and any number in AF_PACKET.
        mode: PortMode = or(PortMode::Auto, Range::Any);
    }
}

pub(crate) const INTERFACE: &str = "the name of an interface: at most 15 bytes, no blanks, no `/`";

/// The kernel's own rule for names of interfaces (`dev_valid_name`).
pub(crate) fn interface(name: &str) -> bool {
    let forbidden = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    (1..=15).contains(&name.len()) && name != "." && name != ".." && !name.contains(forbidden)
}

impl Check for Ports {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if self.a == self.b {
            here.wrong(p, "b", "is the same port as `a`", "name two different interfaces");
        }
    }
}

choices! {
    /// What the packet loop does when there is nothing to do.
    pub enum Poll {
        /// It looks again at once: the most exact timing, and a core fully used.
        Busy = "busy",
        /// It sleeps until something happens.
        Sleep = "sleep",
    }
}

section! {
    /// How the packet loop uses this machine.
    pub struct Host {
        /// Core that the packet loop keeps to.
        core: Option<u32> = absent("any core", within(0, 1023));
        /// Whether the packet loop asks for a real-time scheduling class, where it has a core of its own.
        realtime: bool = or(true, Range::Any);
        /// What the packet loop does when there is nothing to do: "busy" looks again at once, for exact
        /// timing at the price of a core; "sleep" waits, which several links in one process do unless they
        /// say "busy".
        poll: Poll = or(Poll::Busy, Range::Any);
    }
}

impl Check for Host {}

choices! {
    /// From which level on the log is told.
    pub enum LogLevel {
        /// As fits where it goes.
        Auto = "auto",
        /// What was asked for is not done.
        Error = "error",
        /// Somebody should look.
        Warn = "warn",
        /// What happened.
        Info = "info",
        /// Also moves of set points, and how it stands every few seconds.
        Debug = "debug",
    }
}

section! {
    /// What is measured, and for how long.
    pub struct RunOptions {
        /// Sampling period of the tables.
        sample: Duration =
            or(Duration::from_millis(100), within(Duration::from_millis(1), Duration::from_secs(3600)));
        /// How long to run.
        duration: Option<Duration> =
            absent("until it is stopped", within(Duration::from_millis(1), MAX_DURATION));
        /// Directory for the results. Rows are in their tables as soon as they are known; while they grow,
        /// and after a run that did not come to its end, a file `INCOMPLETE` says so, and `summary.json`
        /// comes last. Files there that weir did not write are not overwritten: the run is refused.
        out: Option<String> = absent("no results are written", such("a path", |t: &String| path(t)));
        /// Size at which a table of `out` is put aside as `NAME.1.csv` and begun anew; what was put aside
        /// before becomes `NAME.2.csv`, and so on. For runs of months: the tables take at most three times
        /// this, and once more for each of `rotations`.
        rotate: Option<Bytes> = absent(
            "tables grow as long as the run goes",
            within(Bytes::new(100_000), Bytes::new(1_000_000_000_000)),
        );
        /// How many tables that were put aside are kept of each; the oldest goes.
        rotations: u32 = or(4, within(1, 100));
        /// From which level on the log is told: "error", "warn", "info", "debug", as records on standard
        /// error. "auto" tells the journal from "info" on where standard error is one of its streams, and
        /// elsewhere all to whoever watches, in words. `--log` comes before it.
        log: LogLevel = or(LogLevel::Auto, Range::Any);
        /// Address and port at which Prometheus may ask for metrics (`/metrics`), and others for `/health`
        /// and `/ready`. Only of this machine, as whoever reaches it may read; nothing can be changed there.
        /// Without it they are at the control socket.
        metrics: Option<String> = absent("only at the control socket", such(LOOPBACK, |t: &String| loopback(t)));
        /// Address and port of the page, on which the run is looked at and its policy changed with a browser;
        /// `weir ctl page` prints how. Changes take a token. At an address that others reach, looking takes
        /// it, too, and goes over the network as it is: put it behind TLS, or leave it at 127.0.0.1 and
        /// forward the port with ssh.
        page: Option<String> = absent("no page but at the control socket", such(ADDRESS, |t: &String| address(t)));
    }
}

pub(crate) const LOOPBACK: &str =
    "an address of this machine alone with a port, such as 127.0.0.1:9469 or [::1]:9469";

pub(crate) fn loopback(text: &str) -> bool {
    let address = text.parse::<std::net::SocketAddr>();
    address.is_ok_and(|address| address.ip().is_loopback() && address.port() > 0)
}

pub(crate) const ADDRESS: &str = "an address with a port, such as 127.0.0.1:9470 or [::1]:9470";

pub(crate) fn address(text: &str) -> bool {
    text.parse::<std::net::SocketAddr>().is_ok_and(|address| address.port() > 0)
}

fn path(text: &str) -> bool {
    !text.is_empty() && text.len() <= 4096 && !text.contains('\0')
}

impl Check for RunOptions {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if let Some(duration) = self.duration {
            check_sample(self.sample, duration, here, p);
        }
        if self.rotate.is_some() && self.out.is_none() {
            here.wrong(p, "rotate", "has no tables to put aside", "name a folder as `out`, or leave it out");
        }
    }
}

section! {
    /// What happens when the packet loop is stuck.
    pub struct FailOpen {
        /// Time after which packets pass unmanaged.
        after: Duration =
            or(Duration::from_millis(200), within(Duration::from_millis(20), Duration::from_millis(900)));
        /// Whether the kernel goes on forwarding, past the queues, after an end in order, too, as after a
        /// crash. The next run on the ports takes over; `weir doctor --clean` puts them back.
        keep_forwarding: bool = or(false, Range::Any);
    }
}

impl Check for FailOpen {}

impl RunConfig {
    /// Tells what does not go with plans of customers.
    fn check_users(&self, here: &Here, p: &mut Problems) {
        let Some(users) = &self.users else { return };
        let directions = [("a_to_b", &self.a_to_b), ("b_to_a", &self.b_to_a)];
        let keyed: Vec<_> = directions
            .iter()
            .filter_map(|(name, channel)| Some((*name, *channel, channel.queue.user_key()?)))
            .collect();
        if keyed.is_empty() {
            let remedy = format!("give `a_to_b` or `b_to_a` a `queue.discipline = \"{EACH_USER}\"`");
            here.wrong(p, "users.file", "has plans, and no direction keeps a queue for each user", remedy);
        }
        for (name, channel, key) in keyed {
            // Down goes what leaves at the customers' port.
            let is_down = (users.port == PortName::B) == (name == "a_to_b");
            if key.by_sender == is_down && !key.vlan {
                let (is, remedy) = if is_down { ("receives", "false") } else { ("sends", "true") };
                let problem = format!("must name who {is}, as `users.port` says that customers are there");
                here.wrong(
                    p,
                    &format!("{name}.queue.by_sender"),
                    problem,
                    format!("set it to {remedy}, or change `users.port`"),
                );
            }
            if channel.upstream.follows() {
                let problem =
                    format!("is \"{}\", which sets rates of users that plans set, too", channel.upstream);
                here.wrong(
                    p,
                    &format!("{name}.upstream"),
                    problem,
                    "say \"inform\" or \"off\", or remove `users`",
                );
            }
        }
    }

    /// The direction whose queue a table senses, by its name: the one that leaves at the port that faces the
    /// gateway.
    pub fn sensed_by(&self, sense: &SenseConfig) -> (&'static str, &Channel) {
        match sense.port {
            PortName::B => ("a_to_b", &self.a_to_b),
            PortName::A => ("b_to_a", &self.b_to_a),
        }
    }

    /// Whether the queue of a direction is sensed.
    pub fn is_sensed(&self, direction: &str) -> bool {
        self.sense.iter().any(|sense| self.sensed_by(sense).0 == direction)
    }

    /// What is allowed but may not be what was meant.
    pub fn warnings(&self) -> Vec<String> {
        let directions = [("a_to_b", &self.a_to_b), ("b_to_a", &self.b_to_a)];
        let of = |(name, channel): &(&str, &Channel)| {
            channel.warnings().into_iter().map(|warning| format!("{name}: {warning}")).collect::<Vec<_>>()
        };
        let own = directions.iter().flat_map(of);
        let blind = directions.iter().filter(|(name, _)| !self.is_sensed(name));
        let blind = blind.filter_map(|(name, channel)| {
            let aqm = channel.aqm.as_ref()?;
            match aqm.needs() {
                Needs::Probes => Some(format!(
                    "{name}: `{}` is told of round trips by probes, and there is no `[sense]` table for this \
                     direction: it sees its own queue alone",
                    aqm.name
                )),
                Needs::PassingPackets if channel.upstream == Upstream::Off => Some(format!(
                    "{name}: `{}` is told of round trips of the packets that pass, and `{name}.upstream` is \"off\": \
                     it signals nothing",
                    aqm.name
                )),
                _ => None,
            }
        });
        own.chain(blind).collect()
    }

    /// The configuration in canonical form: every key with its value, its meaning and its range.
    pub fn to_toml(&self) -> String {
        self.print_file(Printer::new(Vec::new(), &[]))
    }

    /// All keys with type, default, range and meaning, as Markdown.
    pub fn reference() -> String {
        reference::<RunConfig>("Configuration of `weir run`", INTRO)
    }
}

const INTRO: &str = "A configuration of `weir run` says which two ports are joined and what is done with the packets of \
each direction.\nIt is TOML; keys may stand in any order. Quantities are written with their unit: `\"2.5ms\"`, \
`\"1Gbit/s\"`,\n`\"64MB\"`, `\"99%\"`. `--set key=value` sets a key over the file.\n\n\
Ports are two Ethernet interfaces (TAP, veth, bonds and VLAN devices included), or two devices of bare IP packets, such as \
TUN,\nPPP (PPPoE), WireGuard or tunnels, which AF_PACKET serves: one of each is refused, as nobody here knows to whom on an \
Ethernet\nlink a packet should go. What the link of such a device adds to a packet is said with `overhead`. Refused are the \
loopback interface,\nboth ends of one veth cable, and an interface beside the one that it sends through (a VLAN device and \
its trunk). `weir check`\nwarns of ports and cores that this machine lacks. An address that a port is given while it runs \
is told.\n\n\
While it runs, lines tell each direction by its name, every two seconds and for the time since the line before; on a \
terminal\na view shows one direction in full and the other in a line (Tab changes that, `q` or Ctrl-C ends). Told at once, \
and kept\nunder `warnings` of the results with the time: a port that is set down or loses its carrier, and that it is \
back; an MTU that\nchanges; frames that the kernel forwarded past the queues while the packet loop did not turn, at most \
every 10 s. At the end\na loop that did not turn for more than 5 % of the time is warned of.\n\n\
SIGINT, SIGTERM and a terminal that is closed end a run in order: interfaces are put back, results are whole. SIGHUP that a \
process\nsends reads the file again, as `weir ctl reload` does ([operation](operation.md) says which keys change while it runs). Further signals within 2 s are \
taken\nfor the same request; one that comes later, because something hangs, ends the program at once, and \
`weir doctor --clean` puts\nthe interfaces back. That is how a run without `duration` ends (exit status 0); one with it \
was interrupted (exit status 130).\n\nThis page is generated from the \
declarations of the keys.";
