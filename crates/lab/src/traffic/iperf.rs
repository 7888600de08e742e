//! What iperf3 tells about a test (`--json`).

use crate::error::{Error, Result};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::HashMap;
use std::fmt;

/// Output of a client or a server.
#[derive(Clone, Debug, Default)]
pub struct Output {
    start: Start,
    intervals: Vec<IntervalEntry>,
    end: End,
    /// Why the test failed or was cut short, in iperf3's words.
    pub error: Option<String>,
}

/// By hand, because iperf3 writes `error` twice when two things fail.
impl<'de> Deserialize<'de> for Output {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Output, D::Error> {
        deserializer.deserialize_map(OutputVisitor)
    }
}

struct OutputVisitor;

impl<'de> Visitor<'de> for OutputVisitor {
    type Value = Output;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Output, A::Error> {
        let mut output = Output::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "start" => output.start = map.next_value()?,
                "intervals" => output.intervals = map.next_value()?,
                "end" => output.end = map.next_value()?,
                "error" => output.add_error(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(output)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Start {
    connected: Vec<Connected>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Connected {
    socket: i64,
    local_port: u16,
    remote_port: u16,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct IntervalEntry {
    streams: Vec<StreamEntry>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct StreamEntry {
    socket: i64,
    #[serde(deserialize_with = "number")]
    start: f64,
    #[serde(deserialize_with = "number")]
    end: f64,
    #[serde(deserialize_with = "number")]
    bytes: f64,
    #[serde(deserialize_with = "number")]
    retransmits: f64,
    #[serde(deserialize_with = "number")]
    packets: f64,
    #[serde(deserialize_with = "number")]
    lost_packets: f64,
    #[serde(deserialize_with = "number")]
    jitter_ms: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct End {
    streams: Vec<EndStream>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct EndStream {
    sender: Option<StreamEntry>,
    receiver: Option<StreamEntry>,
    udp: Option<StreamEntry>,
}

/// Numbers that iperf3 could not compute are `null`. Datagrams that came late are lost ones less, of which an
/// interval may have fewer than none: what is no signed number of 64 bits was negative.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.filter(|n| n.abs() < i64::MAX as f64).unwrap_or(0.0))
}

/// Bytes of a stream in an interval; times are seconds after the start of the test.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamInterval {
    /// Beginning.
    pub start_s: f64,
    /// End.
    pub end_s: f64,
    /// Bytes.
    pub bytes: u64,
}

/// A stream as one side saw it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stream {
    /// Port of this side.
    pub local_port: u16,
    /// Port of the other side.
    pub remote_port: u16,
    /// Bytes in each interval.
    pub intervals: Vec<StreamInterval>,
    /// Bytes received over all, if this side received.
    pub received: Option<u64>,
    /// Segments sent again, if this side sent.
    pub retransmits: u64,
    /// Datagrams sent, as far as known here.
    pub packets: u64,
    /// Datagrams lost.
    pub lost_packets: u64,
    /// Variation of the delay of datagrams in milliseconds.
    pub jitter_ms: f64,
}

impl Output {
    /// Reads what a process wrote. If it wrote several outputs, the first is read.
    pub fn parse(text: &[u8]) -> Result<Output> {
        if text.iter().all(u8::is_ascii_whitespace) {
            return Err(Error::Iperf {
                reason: "it is empty: the process was ended before it could report".into(),
            });
        }
        // Warnings of libraries may stand in front.
        let Some(begin) = text.iter().position(|&c| c == b'{') else {
            let words = String::from_utf8_lossy(&text[..text.len().min(200)]);
            return Err(Error::Iperf { reason: format!("it is no JSON object: {}", words.trim()) });
        };
        let mut outputs = serde_json::Deserializer::from_slice(&text[begin..]).into_iter::<Output>();
        match outputs.next() {
            Some(Ok(output)) => Ok(output),
            Some(Err(e)) => Err(Error::Iperf { reason: format!("{e} ({} bytes)", text.len()) }),
            None => Err(Error::Iperf { reason: "it holds no value".into() }),
        }
    }

    fn add_error(&mut self, words: String) {
        self.error = Some(match self.error.take() {
            Some(before) => format!("{before}; {words}"),
            None => words,
        });
    }

    /// The streams, in the order in which they were connected.
    pub fn streams(&self) -> Vec<Stream> {
        let mut streams: Vec<Stream> = self.start.connected.iter().map(Stream::new).collect();
        let by_socket: HashMap<i64, usize> =
            self.start.connected.iter().enumerate().map(|(i, c)| (c.socket, i)).collect();
        for entry in self.intervals.iter().flat_map(|i| &i.streams) {
            if let Some(&i) = by_socket.get(&entry.socket) {
                streams[i].add_interval(entry);
            }
        }
        for end in &self.end.streams {
            let part = end.sender.as_ref().or(end.receiver.as_ref()).or(end.udp.as_ref());
            if let Some(&i) = part.and_then(|p| by_socket.get(&p.socket)) {
                streams[i].finish(end);
            }
        }
        streams
    }
}

impl Stream {
    fn new(connected: &Connected) -> Stream {
        let Connected { local_port, remote_port, .. } = *connected;
        Stream { local_port, remote_port, ..Stream::default() }
    }

    fn add_interval(&mut self, entry: &StreamEntry) {
        let StreamEntry { start, end, bytes, .. } = *entry;
        // A server whose client was ended reports its last interval twice.
        if self.intervals.last().is_some_and(|last| start < last.end_s) {
            return;
        }
        // Casts saturate: negative numbers become zero.
        self.intervals.push(StreamInterval { start_s: start, end_s: end, bytes: bytes as u64 });
        self.retransmits = self.retransmits.saturating_add(entry.retransmits as u64);
        self.packets = self.packets.saturating_add(entry.packets as u64);
        self.lost_packets = self.lost_packets.saturating_add(entry.lost_packets as u64);
        self.jitter_ms = entry.jitter_ms;
    }

    /// Totals, where there are any, are better than sums: they include what came after the last interval.
    fn finish(&mut self, end: &EndStream) {
        if let Some(sender) = &end.sender {
            self.retransmits = self.retransmits.max(sender.retransmits as u64);
        }
        self.received = end.receiver.as_ref().map(|r| r.bytes as u64);
        if let Some(udp) = &end.udp {
            self.finish_datagrams(udp);
        }
    }

    /// A server whose client was ended tells how many datagrams there were, but not how many bytes: those
    /// after the last interval were as long as those before.
    fn finish_datagrams(&mut self, total: &StreamEntry) {
        let counted = self.counted();
        let (packets, lost) = (total.packets as u64, total.lost_packets as u64);
        let before = self.packets.saturating_sub(self.lost_packets);
        let all = packets.saturating_sub(lost);
        let by_number = if before > 0 { (counted as f64 / before as f64 * all as f64) as u64 } else { 0 };
        self.received = Some(by_number.max(total.bytes as u64));
        self.packets = self.packets.max(packets);
        self.lost_packets = self.lost_packets.max(lost);
    }

    /// Bytes of all intervals.
    fn counted(&self) -> u64 {
        self.intervals.iter().fold(0, |sum, i| sum.saturating_add(i.bytes))
    }

    /// Bytes received after the last interval: iperf3 leaves them out of the intervals when a test is cut.
    pub fn rest(&self) -> u64 {
        let counted = self.counted();
        self.received.unwrap_or(0).saturating_sub(counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Recorded from iperf3 3.12; each test was ended by a signal to the client in the middle of an interval.
    const TCP_CLIENT: &[u8] = include_bytes!("../../tests/data/tcp-client.json");
    const TCP_SERVER: &[u8] = include_bytes!("../../tests/data/tcp-server.json");
    const UDP_SERVER: &[u8] = include_bytes!("../../tests/data/udp-server.json");
    const REVERSE_CLIENT: &[u8] = include_bytes!("../../tests/data/reverse-client.json");
    const REVERSE_SERVER: &[u8] = include_bytes!("../../tests/data/reverse-server.json");
    const REFUSED: &[u8] = include_bytes!("../../tests/data/refused-client.json");

    fn streams(text: &[u8]) -> Vec<Stream> {
        Output::parse(text).unwrap().streams()
    }

    /// Megabits in a second over all, between bounds that leave room for what a cut test loses.
    fn assert_rate(bytes: u64, mbps: f64) {
        let seconds = 1.3;
        let got = bytes as f64 * 8e-6 / seconds;
        assert!((0.85 * mbps..1.05 * mbps).contains(&got), "{got} instead of {mbps} Mbit/s");
    }

    #[test]
    fn a_server_counts_what_each_stream_received() {
        let streams = streams(TCP_SERVER);
        assert_eq!(streams.iter().map(|s| s.remote_port).collect::<Vec<_>>(), [10_000, 10_001]);
        for s in &streams {
            assert_eq!(s.intervals.len(), 2, "the one that is there twice counts once");
            assert!((s.intervals[1].end_s - 1.0).abs() < 0.01);
            let counted: u64 = s.intervals.iter().map(|i| i.bytes).sum();
            assert!(s.rest() > 0);
            assert_rate(counted + s.rest(), 20.0);
        }
    }

    #[test]
    fn a_client_counts_what_was_sent_again() {
        let output = Output::parse(TCP_CLIENT).unwrap();
        assert_eq!(output.error.as_deref(), Some("interrupt - the client has terminated"));
        let streams = output.streams();
        assert_eq!(streams.iter().map(|s| s.local_port).collect::<Vec<_>>(), [10_000, 10_001]);
        let text = String::from_utf8(TCP_CLIENT.to_vec()).unwrap();
        let with_loss = text.replace("\"retransmits\": 0", "\"retransmits\": 7");
        assert_ne!(text, with_loss);
        assert!(Output::parse(with_loss.as_bytes()).unwrap().streams().iter().all(|s| s.retransmits == 7));
    }

    #[test]
    fn in_reverse_the_client_receives() {
        let (client, server) = (streams(REVERSE_CLIENT), streams(REVERSE_SERVER));
        assert_eq!((client[0].local_port, server[0].remote_port), (10_000, 10_000));
        assert_rate(client[0].intervals.iter().map(|i| i.bytes).sum::<u64>() + client[0].rest(), 20.0);
    }

    #[test]
    fn datagrams_after_the_last_interval_are_counted_by_number() {
        let s = &streams(UDP_SERVER)[0];
        assert_eq!((s.packets, s.lost_packets), (25, 0));
        assert!(s.jitter_ms > 0.0);
        assert_eq!(s.intervals.len(), 2);
        assert_eq!(s.rest() + s.intervals.iter().map(|i| i.bytes).sum::<u64>(), 25 * 32_768);
    }

    #[test]
    fn a_failure_is_in_iperf3s_words() {
        let output = Output::parse(REFUSED).unwrap();
        assert_eq!(output.error.as_deref(), Some("unable to connect to server: Connection refused"));
        assert!(output.streams().is_empty());
    }

    #[test]
    fn two_errors_are_both_told() {
        let text = br#"{"start":{},"error":"the client has terminated","error":"no results"}"#;
        assert_eq!(
            Output::parse(text).unwrap().error.as_deref(),
            Some("the client has terminated; no results")
        );
    }

    #[test]
    fn output_that_is_cut_or_garbled_is_an_error_or_less_data_but_no_panic() {
        for text in [TCP_CLIENT, TCP_SERVER, UDP_SERVER, REVERSE_CLIENT] {
            let whole = text.trim_ascii_end();
            for cut in 0..whole.len() {
                assert!(Output::parse(&whole[..cut]).is_err(), "cut at {cut}");
            }
            for at in 0..whole.len() {
                let mut garbled = whole.to_vec();
                garbled[at] ^= 0x15;
                if let Ok(output) = Output::parse(&garbled) {
                    output.streams();
                }
            }
        }
        for text in ["", "  \n", "iperf3: error - no route", "[]", "3", "{\"start\":3}", "\0\u{1}"] {
            assert!(Output::parse(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(Output::parse(b"").unwrap_err().to_string().contains("empty"));
    }

    #[test]
    fn null_and_negative_numbers_are_zero() {
        let text = br#"{"start":{"connected":[{"socket":5,"local_port":1,"remote_port":2}]},
            "intervals":[{"streams":[{"socket":5,"start":0,"end":1,"bytes":null,"retransmits":-3}]},
                         {"streams":[{"socket":5,"start":1,"end":2,"lost_packets":2,"packets":9e18}]},
                         {"streams":[{"socket":5,"start":2,"end":3,"lost_packets":18446744073709551615,
                             "packets":9e18}]},
                         {"streams":[{"socket":5,"start":3,"end":4,"lost_packets":18446744073709551615,
                             "packets":9e18}]},
                         {"streams":[{"socket":9,"start":1,"end":2,"bytes":5}]}]}"#;
        let s = &streams(text)[0];
        assert_eq!(s.intervals[0], StreamInterval { start_s: 0.0, end_s: 1.0, bytes: 0 });
        assert_eq!((s.intervals.len(), s.retransmits, s.lost_packets, s.rest()), (4, 0, 2, 0));
        assert_eq!(s.packets, u64::MAX, "as much as there may be");
    }

    #[test]
    fn of_several_outputs_the_first_is_read() {
        let two = [TCP_SERVER, TCP_CLIENT].concat();
        assert_eq!(streams(&two), streams(TCP_SERVER));
    }
}
