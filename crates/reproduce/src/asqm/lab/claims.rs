//! The paper's claims, as far as the lab can judge them.

use super::Point;
use crate::asqm::cases::{ALGORITHMS, Algorithm, Study, TARGET_MS};
use crate::claim::claim;
use weir_measure::result::Claim;

/// The claims that the points are enough for.
pub fn of(points: &[Point], quick: bool) -> Vec<Claim> {
    let mut paths: Vec<_> = points.iter().map(|p| (p.case.way, p.rtt_ms)).collect();
    paths.sort_unstable();
    paths.dedup();
    let alike = |path| points.iter().filter(move |p| (p.case.way, p.rtt_ms) == path).collect::<Vec<_>>();
    paths.into_iter().flat_map(|path| of_path(&alike(path), quick)).collect()
}

/// The claims about one direction at one round-trip time.
fn of_path(points: &[&Point], quick: bool) -> Vec<Claim> {
    let find =
        |managed, study| points.iter().copied().find(|p| (p.case.managed, p.case.study) == (managed, study));
    let others = || [Algorithm::CoDel, Algorithm::Pie].into_iter().filter_map(|m| find(m, Study::Peak));
    let mut claims: Vec<Claim> = others().map(blind).collect();
    if let Some(asqm) = find(Algorithm::Asqm, Study::Peak) {
        claims.extend(others().map(|other| controlled(asqm, other)));
        claims.push(paid(asqm));
        // The short form is too short for what needs many seconds.
        if !quick {
            claims.push(held(asqm));
            claims.extend(others().map(|other| steadier(asqm, other)));
        }
        claims.extend(find(Algorithm::Asqm, Study::OffPeak).map(|before| unaffected(asqm, before)));
    }
    for managed in ALGORITHMS {
        claims.extend(find(managed, Study::OffPeak).map(|p| throughput(p, "B4", (15.0, 15.8))));
        claims.extend(find(managed, Study::Peak).map(|p| throughput(p, "B9", (6.2, 6.8))));
    }
    claims
}

fn blind(p: &Point) -> Claim {
    claim(
        "B10",
        format!("{}: what waits below IP is not seen", p.title),
        "ping p95 above 500 ms",
        format!("{:.0} ms", p.ping_p95_ms),
        p.ping_p95_ms > 500.0,
    )
}

fn held(p: &Point) -> Claim {
    // At the default target the link's round trip is held there.
    let most = (p.rtt_ms + TARGET_MS) as f64;
    claim(
        "B7",
        format!("{}: the delay below IP is held", p.title),
        format!("ping p50 at most {most:.0} ms"),
        format!("{:.0} ms", p.ping_p50_ms),
        p.ping_p50_ms <= most,
    )
}

fn controlled(p: &Point, other: &Point) -> Claim {
    claim(
        "B10",
        format!("{}: the delay stays controlled where {} does not see it", p.title, other.title),
        "ping p95 below 500 ms, and at most half",
        format!("{:.0} of {:.0} ms", p.ping_p95_ms, other.ping_p95_ms),
        p.ping_p95_ms < 500.0 && p.ping_p95_ms <= other.ping_p95_ms / 2.0,
    )
}

fn steadier(p: &Point, other: &Point) -> Claim {
    claim(
        "B12",
        format!("{}: a steadier rate than {}", p.title, other.title),
        "deviation of seconds at most half",
        format!("± {:.2} of {:.2} Mbit/s", p.deviation_mbps, other.deviation_mbps),
        p.deviation_mbps <= other.deviation_mbps / 2.0,
    )
}

fn unaffected(peak: &Point, before: &Point) -> Claim {
    claim(
        "B11",
        format!("{}: the peak does not change the delay", peak.title),
        "p95 within 25 % of the off-peak value",
        format!("{:.0} and {:.0} ms", peak.ping_p95_ms, before.ping_p95_ms),
        (peak.ping_p95_ms / before.ping_p95_ms - 1.0).abs() <= 0.25,
    )
}

fn throughput(p: &Point, id: &str, (low, high): (f64, f64)) -> Claim {
    claim(
        id,
        format!("{}: throughput of a modem", p.title),
        format!("{low} to {high} Mbit/s"),
        format!("{:.2} Mbit/s", p.mbps),
        (low..=high).contains(&p.mbps),
    )
}

fn paid(p: &Point) -> Claim {
    let (overhead, returned) = (p.overhead.unwrap_or(f64::NAN), p.returned.unwrap_or(0.0));
    claim(
        "B2",
        format!("{}: the price of probes, off a plain Linux gateway", p.title),
        "at most 0.5 % of the bytes; all but what the modem's FIFO dropped come back",
        format!("{:.3} %, {:.1} % returned", overhead * 100.0, returned * 100.0),
        overhead <= 0.005 && returned > 0.9,
    )
}
