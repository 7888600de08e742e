//! What can be switched in the end hosts of flows.

use crate::errors::{Place, Wrong};
use crate::problems::Problems;
use crate::schema::{Check, Given, Here, Key, Printer, Range, Rule, Section, absent, or, within};
use crate::settings::{print_setting, read_setting, row};
use crate::table_doc::TableDoc;
use crate::tree::{Entry, Table};
use weir_aqm::{ParamError, ParamInfo, Value};
use weir_tcp::congestion::Parameters;
use weir_units::{Bytes, Duration};

choices! {
    /// Whether a sender spreads its segments over the round-trip time.
    pub enum Pacing {
        /// As the congestion control wants it: BBR paces, Reno and CUBIC do not.
        Default = "default",
        /// Always.
        On = "on",
        /// Never.
        Off = "off",
    }
}

choices! {
    /// How a sender finds out what was lost.
    pub enum Recovery {
        /// By time: RACK and tail loss probes (RFC 8985).
        Rack = "rack",
        /// By duplicate acknowledgements: NewReno (RFC 6582).
        NewReno = "newreno",
    }
}

section! {
    /// Switches of the end hosts. The defaults are those of Linux.
    pub struct EndHost {
        /// Parameters of congestion controls.
        control: Parameters = OfControls => [Simulator];
        /// Whether segments are spread over the round-trip time: "default" as the congestion control wants
        /// it, "on" or "off". A lab asks Linux for it (SO_MAX_PACING_RATE, far above the link's rate), which
        /// has no "off".
        pacing: Pacing = or(Pacing::Default, Range::Any) => [Simulator, Row];
        /// Most data that leaves the sender back to back. Linux gathers what its pacing rate would send in a
        /// millisecond, up to 64kB, whether or not the network card cuts it up. All flows of a lab share one
        /// value.
        burst: Option<Bytes> = absent("one segment", within(Bytes::new(536), Bytes::new(1_000_000))) => [Simulator, Row];
        /// An acknowledgement is sent for so many segments, or when the delayed-acknowledgement time is over.
        ack_every: u32 = or(2, within(1, 64)) => [Simulator];
        /// Receive window: most data on its way.
        window: Option<Bytes> = absent("no limit", within(Bytes::new(9000), Bytes::new(100_000_000_000))) => [Simulator];
        /// Largest receive buffer of a receiver whose window grows with what arrives per round-trip time, as
        /// Linux's does (the third number of `tcp_rmem`, 6 MiB in most systems): the window begins with 64
        /// KiB and is at most five eighths of the buffer, as in Linux with full segments. It takes the place
        /// of `window`.
        window_auto: Option<Bytes> = absent("a constant window", within(Bytes::new(131_072), Bytes::new(100_000_000_000))) => [Simulator];
        /// How losses are found: "rack" by time (RFC 8985), "newreno" by duplicate acknowledgements (RFC
        /// 6582).
        recovery: Recovery = or(Recovery::Rack, Range::Any) => [Simulator];
        /// Segments of the smallest window after a congestion mark. With 1, as in RFC 3168, a sender that is
        /// marked at a window of one waits for its retransmission timer, so that it can send less than a
        /// packet per round-trip time. BBR has a smallest window of its own; Prague does not wait.
        window_min: u32 = or(2, within(1, 2)) => [Simulator];
        /// Smallest retransmission timeout: 1 s in RFC 6298, rule 2.4, and in senders of about 2000. Without
        /// it the timeout is that of Linux, which adds at least 200 ms to the smoothed round-trip time.
        rto_min: Option<Duration> = absent("200 ms above the smoothed round-trip time", within(Duration::from_millis(1), Duration::from_secs(10))) => [Simulator];
        /// Tick of the clock by which the sender measures round-trip times for its timeout (RFC 6298, G): 100
        /// ms in ns-2, 500 ms in BSD. It takes `rto_min`.
        rto_clock: Option<Duration> = absent("too fine to matter", within(Duration::from_millis(1), Duration::from_secs(1))) => [Simulator];
        /// Segments that leave in the first round trip, and after an idle time: 10 in RFC 6928 and Linux, 2
        /// to 4 in RFC 3390, 1 in senders of before 1998.
        initial_window: u32 = or(10, within(1, 1000)) => [Simulator];
        /// Whether a connection of TCP is opened by SYN and SYN-ACK before data leaves, a round trip later;
        /// the ACK goes with the data. A SYN that is not answered is sent again after 1 s, 2 s and so on
        /// (RFC 6298 section 5.7). Without it connections are open when their flow starts. In the lab there
        /// always is one.
        handshake: bool = or(false, Range::Any);
        /// Whether a connection begins with the slow-start threshold that earlier ones between the same two
        /// nodes ended with, of all flows that say so. Linux did up to 5.5, and does with
        /// `tcp_no_ssthresh_metrics_save = 0`.
        ssthresh_saved: bool = or(false, Range::Any) => [Simulator, Modems];
    }
}

impl Check for EndHost {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if let (Some(clock), None) = (self.rto_clock, self.rto_min) {
            let problem = format!("{clock} is the clock of a timeout that Linux does not have");
            here.wrong(p, "rto_clock", problem, "give `rto_min`, such as \"1s\" (RFC 6298), or leave it out");
        }
        if self.window.is_some() && self.window_auto.is_some() {
            here.wrong(
                p,
                "window_auto",
                "does not go with `window`, which is constant",
                "remove one of the two",
            );
        }
    }
}

/// Keys of flows that congestion controls declare. Each may be given whichever congestion control the flows
/// have, so that a sweep can change that.
struct OfControls;

impl OfControls {
    fn check(name: &str, value: Value) -> Result<(), ParamError> {
        Parameters::default().set(name, value)
    }

    fn read_into(parameters: &mut Parameters, info: &ParamInfo, entry: &Entry) -> Result<(), Wrong> {
        let value = read_setting(info, entry, OfControls::check)?;
        parameters.set(info.name, value).map_err(|e| Wrong::new("is not allowed", format!("it {e}")))
    }

    /// The declarations with the values.
    fn values(parameters: &Parameters) -> impl Iterator<Item = (&'static ParamInfo, Value)> {
        Parameters::declarations().map(|info| (info, parameters.get(info.name).unwrap_or(info.default)))
    }
}

impl Rule<Parameters> for OfControls {
    fn names(&self, _key: &Key) -> Vec<&'static str> {
        Parameters::declarations().map(|info| info.name).collect()
    }
    fn read(&self, _key: &Key, here: &Here, p: &mut Problems) -> Option<Parameters> {
        let mut parameters = Parameters::default();
        let mut is_right = true;
        for info in Parameters::declarations() {
            let Some(entry) = here.table.get(info.name) else { continue };
            if let Err(wrong) = OfControls::read_into(&mut parameters, info, entry) {
                p.add(&entry.place, &here.key(info.name), wrong);
                is_right = false;
            }
        }
        is_right.then_some(parameters)
    }
    fn print_value(&self, _key: &Key, value: &Parameters, out: &mut Printer) {
        for (info, value) in OfControls::values(value) {
            print_setting(info, &value, value != info.default, out);
        }
    }
    fn collect_given(&self, key: &Key, value: &Parameters, given: &mut Given) {
        for (info, _) in OfControls::values(value).filter(|(info, value)| *value != info.default) {
            given.add(&Key { name: info.name, ..*key });
        }
    }
    fn describe(&self, _key: &Key, at: usize, tables: &mut Vec<TableDoc>) {
        tables[at].rows.extend(Parameters::declarations().map(row));
    }
}

impl Default for EndHost {
    fn default() -> EndHost {
        let table = Table::absent(Place::File);
        let here = Here { table: &table, path: String::new() };
        EndHost::read_fields(&here, &mut Problems::new("")).expect("every switch has a default")
    }
}

impl EndHost {
    /// The keys that were given another value than their default.
    pub fn changed(&self) -> Vec<String> {
        Given::of(self, &|_| true)
    }
}
