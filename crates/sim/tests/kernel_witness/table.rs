//! The recorded table of `tools/kernel-witness`, and the scenario that is the same for the simulator.

use serde::Deserialize;

/// What Linux did, with what every run has in common.
#[derive(Deserialize)]
pub struct Table {
    pub kernel: String,
    pub rate_bps: u64,
    pub rtt_ms: u64,
    pub warmup_s: usize,
    pub seconds: usize,
    pub payload: u64,
    pub runs: Vec<Row>,
}

/// A queue of the kernel under a load.
#[derive(Deserialize)]
pub struct Row {
    pub name: String,
    pub queue: String,
    pub flows: u32,
    pub congestion: Option<String>,
    #[serde(default)]
    pub ecn: bool,
    /// Time between two datagrams, where the load is such.
    pub gap_ns: Option<u64>,
    pub room_packets: u64,
    /// When it was recorded.
    pub date: String,
    pub utilization: f64,
    /// Of each run, where there were several, of which all else are means.
    #[serde(default)]
    pub utilizations: Vec<f64>,
    pub delay_ms: Delay,
    pub drops_per_s: f64,
    pub marks_per_s: f64,
    /// Mean drop probability of PIE.
    pub probability: Option<f64>,
    /// Drops so far at 1, 2, 3 ... seconds, of datagrams.
    #[serde(default)]
    pub drops_until: Vec<f64>,
}

/// Delays of the packets that came out.
#[derive(Clone, Copy, Deserialize)]
pub struct Delay {
    pub mean: f64,
    pub p95: f64,
}

/// IP packet and Ethernet header.
pub const FRAME: u64 = 1514;

impl Table {
    pub fn read() -> Table {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/vectors/kernel_witness.json");
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}; remedy: make witness"))
    }

    /// The same queue under the same load.
    ///
    /// In the guest a packet is at the receiver when its transmission begins; here it is there when that
    /// ends, so the path is shorter by one transmission.
    pub fn scenario(&self, row: &Row, law: Law) -> String {
        let rtt_us = 1000 * self.rtt_ms - FRAME * 8 * 1_000_000 / self.rate_bps;
        let load = match row.gap_ns {
            Some(gap) => {
                let rate = self.payload * 8 * 1_000_000_000 / gap;
                format!("udp_rate = \"{rate}bit/s\"\npacket = \"{}B\"\n", self.payload)
            }
            None => format!(
                "count = {}\ncongestion = \"{}\"\necn = {}\n",
                row.flows,
                row.congestion.as_deref().expect("a run has datagrams or a congestion control"),
                row.ecn
            ),
        };
        format!(
            "title = \"{}\"\n[link]\nrate = \"{}bit/s\"\nbuffer = \"{}B\"\naccounting = \"frame\"\n\
             [path]\nrtt = \"{rtt_us}us\"\n{}[[flows]]\n{load}\
             [run]\nduration = \"{}s\"\nwarmup = \"{}s\"\nsample = \"1s\"\n",
            row.name,
            self.rate_bps,
            row.room_packets * FRAME,
            row.tables(law),
            self.seconds,
            self.warmup_s,
        )
    }
}

/// How CoDel takes its inverse square root.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Law {
    /// Exactly, by default.
    Exact,
    /// As Linux does (`newton = true`).
    Newton,
}

impl Row {
    /// Whether the queue has CoDel, whose law can be that of Linux.
    pub fn has_codel(&self) -> bool {
        matches!(self.queue.as_str(), "codel" | "fq_codel")
    }

    /// Queue and algorithm, where they count packets in the way of the kernel.
    fn tables(&self, law: Law) -> String {
        let newton = if self.has_codel() && law == Law::Newton { "newton = true\n" } else { "" };
        let tables = match self.queue.as_str() {
            "pfifo" => "[aqm]\nname = \"tail_drop\"\nlimit = \"60s\"\n",
            "codel" => "[aqm]\nname = \"codel\"\nmtu = \"1514B\"\n",
            "fq_codel" => {
                "[queue]\ndiscipline = \"flow\"\nquantum = \"1514B\"\n[aqm]\nname = \"codel\"\nmtu = \"1514B\"\n"
            }
            "pie" => "[aqm]\nname = \"pie\"\nmean_packet = \"1514B\"\n",
            "cake" | "cake_small" => "[aqm]\nname = \"cobalt\"\nmtu = \"1514B\"\n",
            other => panic!("the table has a queue `{other}` that this test does not know"),
        };
        // The table of the algorithm is the last one.
        format!("{tables}{newton}")
    }
}
