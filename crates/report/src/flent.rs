//! Results as a data file of Flent, whose own tools then draw, compare and combine them.
//!
//! The format is that of Flent 2.1 (its documentation, "Data file format", version 4). Series have the names
//! that Flent's tests give them, so that the plots of those tests find them.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use weir_measure::result::{FlowSample, Recording};

/// Version of the file format.
const VERSION: u32 = 4;

/// What of a run is not in its recording.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// When it began, in UTC as RFC 3339 has it, and in seconds after the beginning of 1970.
    pub begun: (String, f64),
    /// Groups of flows that send up; all others send down.
    pub uploads: BTreeSet<u32>,
    /// Round trip of the path without queues, in milliseconds.
    pub rtt_ms: f64,
    /// Links whose queues a round trip passes, by their number in the summary.
    pub waits: Vec<usize>,
}

/// A series over the times of the file; `None` where there is no value.
type Series = Vec<Option<f64>>;

/// The names of one direction's series in the test of Flent that a run is told as.
struct Names {
    /// Before the number of a flow.
    each: &'static str,
    sum: &'static str,
    average: &'static str,
}

const DOWN: Names = Names { each: "TCP download::", sum: "TCP download sum", average: "TCP download avg" };
const UP: Names = Names { each: "TCP upload::", sum: "TCP upload sum", average: "TCP upload avg" };
const DOWN_OF_BOTH: Names = Names { each: "TCP download BE::", ..DOWN };
const UP_OF_BOTH: Names = Names { each: "TCP upload BE::", ..UP };
const PING: &str = "Ping (ms) ICMP";
const PING_AVERAGE: &str = "Ping (ms) avg";
const TOTALS: &str = "TCP totals";

/// The data file of a run, as JSON. `None` of a run without samples.
///
/// Rates are goodput of flows between two samples, in Mbit/s; of a run that knows no flows, as those of live
/// links, what its first two links delivered. The ping is the round trip without queues and the mean delay of
/// the queues in each period: it is computed, as nobody sent pings.
pub fn data_file(recording: &Recording, facts: &Facts) -> Option<String> {
    let times: Vec<f64> = recording.link_samples.first()?.iter().map(|row| row.t_s).collect();
    let (first, last) = (*times.first()?, *times.last()?);
    let step = if times.len() > 1 { (last - first) / (times.len() - 1) as f64 } else { first.max(1e-3) };
    let [down, up] = [false, true].map(|up| flows_of(recording, facts, up, &times));
    let of_links = down.is_empty() && up.is_empty();
    let [down, up] = if of_links {
        [0, 1].map(|link| delivered(recording, link).into_iter().collect())
    } else {
        [down, up]
    };
    let both = !down.is_empty() && !up.is_empty();
    let (name, names) = match (both, up.is_empty()) {
        (true, _) => ("rrul_be_nflows", [DOWN_OF_BOTH, UP_OF_BOTH]),
        (false, true) => ("tcp_ndown", [DOWN, UP]),
        (false, false) => ("tcp_nup", [DOWN, UP]),
    };
    let mut series: Vec<(String, &str, Series)> = Vec::new();
    for (names, flows) in names.iter().zip([&down, &up]).filter(|(_, flows)| !flows.is_empty()) {
        let total = sum(flows, times.len());
        let share = total.iter().map(|sum| sum.map(|sum| sum / flows.len() as f64)).collect();
        series.push((names.sum.into(), "Mbits/s", total));
        series.push((names.average.into(), "Mbits/s", share));
        let numbered = flows.iter().enumerate();
        series.extend(
            numbered.map(|(n, rates)| (format!("{}{}", names.each, n + 1), "Mbits/s", rates.clone())),
        );
    }
    let pings = round_trips(recording, facts, times.len());
    series.push((PING.into(), "ms", pings.clone()));
    if both {
        let all: Vec<Series> = down.iter().chain(&up).cloned().collect();
        series.push((TOTALS.into(), "Mbits/s", sum(&all, times.len())));
        series.push((PING_AVERAGE.into(), "ms", pings));
    }
    let summary = &recording.summary;
    let (mut results, mut raw, mut meta) = (Map::new(), Map::new(), Map::new());
    for (name, unit, values) in &series {
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        let mean = known.iter().sum::<f64>() / known.len().max(1) as f64;
        meta.insert(name.clone(), json!({ "UNITS": unit, "MEAN_VALUE": mean }));
        results.insert(name.clone(), json!(values));
        // Sums and averages have no measurements of their own in Flent either.
        if !name.ends_with("sum") && !name.ends_with("avg") && !name.ends_with("totals") {
            let each = times.iter().zip(values).filter_map(|(t, value)| Some((t, (*value)?)));
            let each = each.map(|(t, value)| json!({ "t": facts.begun.1 + t, "val": value }));
            raw.insert(name.clone(), each.collect());
        }
    }
    let file = json!({
        "version": VERSION,
        "x_values": times,
        "results": results,
        "raw_values": raw,
        "metadata": {
            "NAME": name,
            "TITLE": summary.title,
            "TIME": facts.begun.0,
            "T0": facts.begun.0,
            "LENGTH": last.ceil(),
            "TOTAL_LENGTH": last.ceil(),
            "STEP_SIZE": step,
            "HOST": format!("weir {}", summary.arm),
            "HOSTS": [format!("weir {}", summary.arm)],
            "LOCAL_HOST": "weir",
            "DATA_FILENAME": Value::Null,
            "TEST_PARAMETERS": {
                "download_streams": down.len().to_string(),
                "upload_streams": up.len().to_string(),
            },
            "SERIES_META": meta,
            "NOTE": summary.warnings.join("\n"),
        },
    });
    Some(file.to_string())
}

/// Goodput of each flow that sends up, or down, in Mbit/s.
fn flows_of(recording: &Recording, facts: &Facts, up: bool, times: &[f64]) -> Vec<Series> {
    let flows = recording.summary.flows.iter().filter(|flow| facts.uploads.contains(&flow.group) == up);
    let rates = flows.map(|flow| {
        let rows = recording.flow_samples.iter().filter(|row| row.flow == flow.id).collect::<Vec<_>>();
        goodput(&rows, times)
    });
    // Flows that the arm has no samples of, such as datagrams, are no TCP.
    rates.filter(|rates| rates.iter().any(Option::is_some)).collect()
}

/// What was acknowledged in each period, in Mbit/s; none before the first sample and behind the last.
fn goodput(rows: &[&FlowSample], times: &[f64]) -> Series {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return vec![None; times.len()] };
    let mut next = 0;
    let mut acked = (0.0, 0);
    let mut rates = Vec::with_capacity(times.len());
    for end in times {
        let before = acked;
        while next < rows.len() && rows[next].t_s <= *end + 1e-9 {
            acked = (rows[next].t_s, rows[next].bytes_acked);
            next += 1;
        }
        let span = acked.0 - before.0;
        let is_known = first.t_s <= *end + 1e-9 && *end <= last.t_s + span.max(1e-9);
        // A connection that follows another one counts from zero again.
        let bytes = acked.1.checked_sub(before.1).unwrap_or(acked.1) as f64;
        rates.push(is_known.then(|| if span > 0.0 { bytes * 8e-6 / span } else { 0.0 }));
    }
    rates
}

/// What a link delivered, in Mbit/s.
fn delivered(recording: &Recording, link: usize) -> Option<Series> {
    let rows = recording.link_samples.get(link)?;
    Some(rows.iter().map(|row| Some(row.delivered_bps / 1e6)).collect())
}

fn sum(of: &[Series], length: usize) -> Series {
    (0..length)
        .map(|at| {
            let known: Vec<f64> = of.iter().filter_map(|series| *series.get(at)?).collect();
            (!known.is_empty()).then(|| known.iter().sum())
        })
        .collect()
}

/// Round trip in each period, in milliseconds: none where a queue on the way sent nothing.
fn round_trips(recording: &Recording, facts: &Facts, length: usize) -> Series {
    let wait = |at: usize, link: &usize| {
        let delay = recording.link_samples.get(*link)?.get(at)?.delay_mean_ms;
        delay.is_finite().then_some(delay)
    };
    (0..length)
        .map(|at| facts.waits.iter().try_fold(facts.rtt_ms, |sum, link| Some(sum + wait(at, link)?)))
        .collect()
}

/// Bytes as a file of gzip (RFC 1952) that is not compressed: blocks of stored bytes (RFC 1951 section
/// 3.2.4).
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 0xffff;
    // Magic, method 8, no flags, no time, nothing of how it was compressed, an unknown system.
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let blocks = bytes.len().div_ceil(BLOCK).max(1);
    for number in 0..blocks {
        let block = &bytes[number * BLOCK..bytes.len().min((number + 1) * BLOCK)];
        let length = block.len() as u16;
        out.push(u8::from(number + 1 == blocks));
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(block);
    }
    out.extend(crc32(bytes).to_le_bytes());
    out.extend((bytes.len() as u32).to_le_bytes());
    out
}

/// The check of RFC 1952 section 8, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_measure::result::{FlowSummary, LinkSample, LinkSummary, Summary};

    fn recording(groups: &[u32]) -> Recording {
        let times = [1.0, 2.0, 3.0];
        let row = |t_s: f64| LinkSample {
            t_s,
            delay_mean_ms: 5.0 * t_s,
            delivered_bps: 9e6,
            ..LinkSample::default()
        };
        let sample = |flow: u32, t_s: f64| FlowSample {
            t_s,
            flow,
            // A megabit in each second of the first flow, two of the second, and so on.
            bytes_acked: (t_s * 125_000.0) as u64 * u64::from(flow + 1),
            ..FlowSample::default()
        };
        let flows = groups.iter().enumerate();
        let flows =
            flows.map(|(id, group)| FlowSummary { id: id as u32, group: *group, ..FlowSummary::default() });
        let flows: Vec<FlowSummary> = flows.collect();
        let samples =
            times.iter().flat_map(|t| flows.iter().map(|flow| sample(flow.id, *t)).collect::<Vec<_>>());
        Recording {
            flow_samples: samples.collect(),
            link_samples: vec![times.map(row).to_vec(); 2],
            summary: Summary {
                title: "A \"run\"".into(),
                arm: "sim".into(),
                links: vec![LinkSummary::default(); 2],
                flows,
                ..Summary::default()
            },
            ..Recording::default()
        }
    }

    fn file(recording: &Recording, uploads: &[u32]) -> Value {
        let facts = Facts {
            begun: ("2026-01-02T03:04:05.000Z".into(), 1_767_323_045.0),
            uploads: uploads.iter().copied().collect(),
            rtt_ms: 20.0,
            waits: vec![0],
        };
        serde_json::from_str(&data_file(recording, &facts).expect("it has samples")).expect("it is JSON")
    }

    #[test]
    fn series_have_the_names_and_units_of_flents_tests() {
        let down = file(&recording(&[0, 0]), &[]);
        assert_eq!((&down["version"], &down["metadata"]["NAME"]), (&json!(4), &json!("tcp_ndown")));
        assert_eq!(down["metadata"]["TEST_PARAMETERS"]["download_streams"], "2");
        assert_eq!(down["x_values"], json!([1.0, 2.0, 3.0]));
        assert_eq!(down["results"]["TCP download::2"], json!([2.0, 2.0, 2.0]));
        assert_eq!(down["results"]["TCP download sum"], json!([3.0, 3.0, 3.0]));
        assert_eq!(down["results"]["TCP download avg"], json!([1.5, 1.5, 1.5]));
        assert_eq!(down["results"]["Ping (ms) ICMP"], json!([25.0, 30.0, 35.0]));
        assert_eq!(down["raw_values"]["TCP download::1"][1], json!({ "t": 1_767_323_047.0, "val": 1.0 }));
        assert!(down["raw_values"].get("TCP download sum").is_none());
        let both = file(&recording(&[0, 1]), &[1]);
        assert_eq!(both["metadata"]["NAME"], "rrul_be_nflows");
        assert_eq!(both["results"]["TCP upload BE::1"], json!([2.0, 2.0, 2.0]));
        assert_eq!(both["results"]["TCP totals"], json!([3.0, 3.0, 3.0]));
        assert_eq!(both["results"]["Ping (ms) avg"], both["results"]["Ping (ms) ICMP"]);
        assert_eq!(file(&recording(&[7]), &[7])["metadata"]["NAME"], "tcp_nup");
    }

    #[test]
    fn holes_stay_holes_and_a_run_without_flows_tells_its_links() {
        let mut holes = recording(&[0]);
        holes.link_samples[0][1].delay_mean_ms = f64::NAN;
        holes.flow_samples.remove(0);
        let told = file(&holes, &[]);
        assert_eq!(told["results"]["Ping (ms) ICMP"], json!([25.0, null, 35.0]));
        assert_eq!(told["results"]["TCP download::1"], json!([null, 1.0, 1.0]));
        assert_eq!(told["raw_values"]["TCP download::1"].as_array().unwrap().len(), 2);
        let links = file(&recording(&[]), &[]);
        assert_eq!(links["results"]["TCP upload sum"], json!([9.0, 9.0, 9.0]));
        assert!(data_file(&Recording::default(), &Facts::default()).is_none());
    }

    #[test]
    fn what_is_stored_is_gzip_of_blocks_with_the_check_of_all() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let bytes: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
        let packed = gzip(&bytes);
        let (mut at, mut got) = (10, Vec::<u8>::new());
        loop {
            let length = usize::from(u16::from_le_bytes([packed[at + 1], packed[at + 2]]));
            assert_eq!(u16::from_le_bytes([packed[at + 3], packed[at + 4]]), !(length as u16));
            got.extend(&packed[at + 5..at + 5 + length]);
            let is_last = packed[at] == 1;
            at += 5 + length;
            if is_last {
                break;
            }
        }
        assert!(got == bytes && packed.len() == at + 8);
        assert_eq!(gzip(b"").len(), 10 + 5 + 8);
    }
}
