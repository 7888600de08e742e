//! Two simulators side by side.

use crate::avq::experiments::Experiment;
use crate::avq::measured::{Measured, PACKETS_PER_S, Row, Run};
use crate::claim::{claim, percent};
use crate::said::WITNESS;
use weir_measure::result::Claim;
use weir_report::html::Rows;

/// Utilizations that agree are apart by at most this.
const UTILIZATION: f64 = 0.015;
/// Queues that agree are apart by at most this share, or so many packets.
const QUEUE: (f64, f64) = (0.2, 5.0);
/// Losses that agree are apart by at most this factor, or this share of the packets.
const LOSSES: (f64, f64) = (3.0, 0.001);

/// What a witness saw, and how far it is from what was measured here.
pub struct Comparison {
    /// Its runs.
    pub runs: Vec<Run>,
    /// Whether both agree.
    pub claims: Vec<Claim>,
    /// Every load side by side.
    pub table: Rows,
}

/// A load under both.
struct Pair {
    label: String,
    ours: Row,
    theirs: Row,
}

impl Pair {
    fn utilization(&self) -> bool {
        (self.ours.utilization - self.theirs.utilization).abs() <= UTILIZATION
    }

    fn queue(&self) -> bool {
        let apart = (self.ours.queue - self.theirs.queue).abs();
        apart <= QUEUE.1 || apart <= QUEUE.0 * self.theirs.queue
    }

    fn lost(&self) -> bool {
        let (a, b) = (self.ours.lost, self.theirs.lost);
        let few = LOSSES.1 * PACKETS_PER_S * (self.ours.to_s - self.ours.from_s);
        (a - b).abs() <= few || (a <= LOSSES.0 * b && b <= LOSSES.0 * a)
    }

    fn cells(&self, experiment: Experiment) -> Vec<String> {
        let (a, b) = (&self.ours, &self.theirs);
        let word = |agrees: bool| if agrees { "agree" } else { "differ" };
        [
            format!("{} {}", u32::from(experiment), self.label),
            percent(a.utilization),
            percent(b.utilization),
            format!("{:+.2} %", (a.utilization - b.utilization) * 100.0),
            word(self.utilization()).into(),
            format!("{:.1}", a.queue),
            format!("{:.1}", b.queue),
            format!("{:+.1}", a.queue - b.queue),
            word(self.queue()).into(),
            format!("{:.0}", a.lost),
            format!("{:.0}", b.lost),
            word(self.lost()).into(),
            format!("{:.1}", a.goodput),
            format!("{:.1}", b.goodput),
            format!("{:.3}", a.fairness),
            format!("{:.3}", b.fairness),
        ]
        .to_vec()
    }
}

/// Puts both side by side.
pub fn compare(ours: &Measured, theirs: Vec<Run>) -> Comparison {
    let header = [
        "load",
        "util",
        "util ns-2",
        "util apart",
        "util agrees",
        "queue",
        "queue ns-2",
        "queue apart",
        "queue agrees",
        "lost",
        "lost ns-2",
        "lost agrees",
        "goodput",
        "goodput ns-2",
        "Jain",
        "Jain ns-2",
    ];
    let (mut claims, mut rows) = (Vec::new(), Vec::new());
    for (experiment, theirs) in Measured::new(&theirs).experiments() {
        let pairs = pairs(&ours.only(|case| case.experiment == experiment), &theirs);
        rows.extend(pairs.iter().map(|pair| pair.cells(experiment)));
        claims.extend(agreement(experiment, &pairs));
    }
    let title = "Side by side with ns-2".to_string();
    Comparison {
        runs: theirs,
        claims,
        table: Rows { title, header: header.map(String::from).to_vec(), rows },
    }
}

fn pairs(ours: &Measured, theirs: &Measured) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for series in theirs.series() {
        for span in 0..theirs.spans() {
            let load = theirs.load(span);
            let of = |runs: &Measured| Row {
                utilization: runs.at(series, span, |r| r.utilization),
                queue: runs.at(series, span, |r| r.queue),
                lost: runs.at(series, span, |r| r.lost),
                goodput: runs.at(series, span, |r| r.goodput),
                fairness: runs.at(series, span, |r| r.fairness),
                ..load.clone()
            };
            let short =
                if load.short_per_s > 0.0 { format!(" + {}/s", load.short_per_s) } else { String::new() };
            let label = format!("{series}, {}{short}", load.flows);
            pairs.push(Pair { label, ours: of(ours), theirs: of(theirs) });
        }
    }
    pairs
}

/// What a claim of agreement says: quantity, margin, whether a load agrees, its numbers.
type Quantity = (&'static str, &'static str, fn(&Pair) -> bool, fn(&Pair) -> String);

const QUANTITIES: [Quantity; 3] = [
    ("utilization", "within 1.5 %", Pair::utilization, |p| {
        format!("{} and {}", percent(p.ours.utilization), percent(p.theirs.utilization))
    }),
    ("mean queue", "within 20 % or 5 packets", Pair::queue, |p| {
        format!("{:.1} and {:.1}", p.ours.queue, p.theirs.queue)
    }),
    ("number of losses", "within a factor of 3 or 0.1 % of the packets", Pair::lost, |p| {
        format!("{:.0} and {:.0}", p.ours.lost, p.theirs.lost)
    }),
];

fn agreement(experiment: Experiment, pairs: &[Pair]) -> Vec<Claim> {
    let one = |&(quantity, margin, agrees, numbers): &Quantity| {
        let apart: Vec<&Pair> = pairs.iter().filter(|p| !agrees(p)).collect();
        let list: Vec<String> =
            apart.iter().take(3).map(|p| format!("{}: {}", p.label, numbers(p))).collect();
        let more = if apart.len() > list.len() { " …" } else { "" };
        let measured = format!("{} of {} loads", pairs.len() - apart.len(), pairs.len());
        let measured =
            if list.is_empty() { measured } else { format!("{measured}; {}{more}", list.join("; ")) };
        let text = format!("{}: the {quantity} is that of ns-2", u32::from(experiment));
        claim(WITNESS, text, margin, measured, apart.is_empty() && !pairs.is_empty())
    };
    QUANTITIES.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(ours: (f64, f64, f64), theirs: (f64, f64, f64)) -> Pair {
        let row =
            |(utilization, queue, lost)| Row { to_s: 100.0, utilization, queue, lost, ..Row::default() };
        Pair { label: "AVQ, 20".into(), ours: row(ours), theirs: row(theirs) }
    }

    fn agree(ours: (f64, f64, f64), theirs: (f64, f64, f64)) -> (bool, bool, bool) {
        let pair = pair(ours, theirs);
        (pair.utilization(), pair.queue(), pair.lost())
    }

    #[test]
    fn margins_are_kept() {
        assert_eq!(agree((0.98, 50.0, 0.0), (0.99, 54.0, 100.0)), (true, true, true));
        assert_eq!(agree((0.96, 50.0, 0.0), (0.98, 70.0, 200.0)), (false, false, false));
        assert_eq!(agree((1.0, 90.0, 600.0), (1.0, 76.0, 1700.0)), (true, true, true));
        assert_eq!(agree((f64::NAN, f64::NAN, f64::NAN), (1.0, 76.0, 1700.0)), (false, false, false));
    }

    #[test]
    fn a_load_that_differs_is_named() {
        let pairs = [pair((0.98, 5.0, 0.0), (0.98, 5.0, 0.0)), pair((0.90, 5.0, 0.0), (0.98, 5.0, 0.0))];
        let claims = agreement(Experiment::Two, &pairs);
        assert_eq!(claims.iter().map(|c| c.held).collect::<Vec<_>>(), [false, true, true]);
        assert_eq!(claims[0].measured, "1 of 2 loads; AVQ, 20: 90.00 % and 98.00 %");
        assert_eq!(claims[1].measured, "2 of 2 loads");
    }
}
