//! What the paper says of each claim, where its bound comes from, and why it is missed where that is known.

use super::causes;
use crate::said::{Said, Unjudged, row};

/// Claims that some arm does not judge, and why.
pub const UNJUDGED: &[Unjudged] = &[Unjudged::live(
    &["A1", "A2", "A18", "A19", "A20"],
    "what the paper tells without a figure is simulated alone",
)];

/// Of figure 7a with large packets.
const DOUBLED: &str = "the set point is found by doubling, and some runs double once more than others";
/// Of figure 7a: what is asked for is two thirds of what the same run had before.
const REGAINED: &str =
    "runs that double once more before than after do not come to two thirds of what they had";

/// Of figure 7b, in which the set point is to be regained.
const SEVEN_TENTHS: &str = "7 ms: seven tenths of the 10 ms to which figure 7a comes back";

/// Of figure 8a with few flows.
const OVERSHOOTS: &str = "often overshooting into the real queue below six flows";
const OVERSHOOTS_BASIS: &str = "order of the 95 % delays, with each number of flows below six, and above what counts as effectively empty";
/// Of figure 8a with many flows.
const EMPTY: &str = "effectively zero from six flows on, average and 95 % quantile";
const EMPTY_BASIS: &str = "0.1 ms: the width of a line in figure 8a, whose axis is 6 ms long";
const GAIN: &str = "a step of the virtual rate counts by the time since the last signal here, as with a gain of 2 at each, which the paper has for the set point, few \
    flows leave the policy";

/// In the order of the paper; the first row that fits counts.
pub const TABLE: &[Said] = &[
    row(
        "A1",
        "",
        "up to several seconds in extreme cases",
        "several: two; the buffer is four seconds long",
        "",
    ),
    row("A2", "", "5 ms, 5 % of a measurement interval of 100 ms", "the paper's text; no run can miss it, as the program's defaults are compared", ""),
    row(
        "A3",
        "uses less",
        "throughput lower for static AQMs and a small buffer below 9 flows (figure 5a)",
        "order, with each number of flows below nine",
        "",
    ),
    row(
        "A3",
        "",
        "\"also accomplish good throughput\" from 9 flows on (figure 5a)",
        "the policy's 99 %, as the paper gives no number",
        "",
    ),
    row(
        "A4",
        "",
        "\"Tail drop (small): Still low loss de-synchronization!\" (slides)",
        "order only",
        "",
    ),
    row(
        "A5",
        "clearly",
        "clearly below the allowed 30 ms",
        "two thirds of 30 ms; figure 5b shows 10 to 20 ms with two flows",
        "",
    ),
    row(
        "A5",
        "",
        "10 to 20 ms (read off figure 5b)",
        "figure 5b at 10 Gbit/s; for 1 Gbit/s, \"very similar\", also a third less, chosen here after the first measurements",
        "two flows signal every 5 to 30 s at 10 Gbit/s, and a run holds few of their signals: the mean of a few runs is wide",
    ),
    row(
        "A6",
        "falls",
        "delay reduced further as the number of flows grows",
        "order of the points that were run",
        "single runs of two and three flows differ by more than their means do, as a raise doubles the set point",
    ),
    row(
        "A6",
        "0.825",
        "0.825 ms",
        "0.5 to 1.2 ms around it",
        "",
    ),
    row(
        "A6",
        "less than half",
        "0.825 against 2.5 ms: a third",
        "half, so that an order decides and not the rate",
        "",
    ),
    row(
        "A6",
        "",
        "2.5 ms",
        "2 to 3 ms around it",
        "",
    ),
    row(
        "A7",
        "",
        "high throughput, high delay (slides); the limit is 30 ms",
        "99 %; 25 to 31 ms: a sixth below the limit, a thirtieth above",
        "two flows do not reach the limit within a short run",
    ),
    row(
        "A8",
        "",
        "at least min(99 %, throughput of tail drop with 30 ms), when converged",
        "the policy, without a margin; the mean of the runs is judged, of which single ones may miss it",
        "",
    ),
    row(
        "A9",
        "clearly",
        "much worse (axis of figure 6a from 2 Gbit/s)",
        "three points of utilization, as the paper gives no number",
        "",
    ),
    row("A9", "worst", "very low throughput of the small buffer", "order only", ""),
    row("A9", "drains", "practically no delay", "0.5 ms of the mean, a sixtieth of figure 6b's axis, which is of 95 % quantiles", ""),
    row(
        "A9",
        "even more",
        "even higher than TD 30 ms",
        "order only",
        "runs differ by more than the queues do",
    )
    .shown_by(&causes::RUNS_DIFFER),
    row("A9", "pays", "at the cost of increasing the queueing delay", "order only", ""),
    row("A9", "", "with 36 flows less delay without hurting throughput", "order; the policy's 99 %", ""),
    row(
        "A10",
        "",
        "60 to 80 % under certain circumstances",
        "the paper's own range",
        "the lower of the two algorithms depends on the size of the transfers",
    ),
    row(
        "A11",
        "MTU 9000: two flows",
        "about 11 ms",
        "three tenths less to three tenths more: raises double the set point",
        DOUBLED,
    )
    .shown_by(&causes::DOUBLED),
    row("A11", "about 11", "about 11 ms", "three tenths less to three tenths more: raises double the set point", ""),
    row(
        "A11",
        "regained",
        "about 10 ms",
        "three tenths less to three tenths more: raises double the set point",
        "the largest set point of each run is judged, and a run that doubles once more than the others comes to 20 ms",
    )
    .shown_by(&causes::REGAINED),
    row("A11", "low before", "low (figure 7a)", "3 ms: the 2.5 ms of a first raise, and a fifth more", ""),
    row(
        "A11",
        "quicker than it was lowered (10Gbit/s)",
        "raised relatively quickly, smoothly lowered",
        "number of signals, as the paper gives none",
        "runs either doubled once more before than after, or lack the last of three raises at the end, as two flows signal 6 to 15 times until then and few of these signals raise",
    )
    .shown_by(&causes::RAISED_LATE),
    row(
        "A11",
        "",
        "raised relatively quickly, smoothly lowered",
        "number of signals, as the paper gives none",
        REGAINED,
    )
    .shown_by(&causes::REGAINED),
    row("A12", "nothing", "not adapted in absence of any packet drops", "exact", ""),
    row(
        "A12",
        "",
        "18 s",
        "half to one and a half times, chosen here after the first measurements; it depends on the size of packets, which the paper does not tell",
        "CUBIC's window function takes as many seconds as the cube root of the packets that each of the two flows lacks, divided by 0.4 (RFC 9438, equation 1)",
    )
    .shown_by(&causes::RECLAIM),
    row(
        "A13",
        "almost",
        "almost the same upper values as before",
        SEVEN_TENTHS,
        "20 s hold too few signals of two flows to raise the set point so often; at 10 Gbit/s they have the link again only after them",
    )
    .shown_by(&causes::FLIPS),
    row(
        "A13",
        "",
        "quickly changing traffic does not destabilize the control",
        "20 ms: twice the 10 ms to which figure 7a comes back",
        "a raise doubles what the set point was lowered to, and some runs double once more than others",
    )
    .shown_by(&causes::STABLE),
    row(
        "A14",
        "79 to 80 %",
        "nothing: the paper shows 94 to 95 % alone",
        "the policy's own bounds, without a margin; the mean of the runs is judged",
        "",
    )
    .own(),
    row(
        "A14",
        "",
        "within [94 %, 95 %]",
        "the paper's own bounds, without a margin; the mean of the runs is judged, of which single ones may miss it",
        "signals of two and three flows are further apart than the rate is remembered",
    ),
    row("A15", "overshoots into the real one (10Gbit/s)", OVERSHOOTS, OVERSHOOTS_BASIS, GAIN),
    row("A15", "overshoots", OVERSHOOTS, OVERSHOOTS_BASIS, GAIN).shown_by(&causes::OVERSHOOT),
    row(
        "A15",
        "(mean)",
        EMPTY,
        EMPTY_BASIS,
        "packets of real TCP arrive in bunches that are shorter than a millisecond, in which they wait for each other; how many the packet loop finds at a time is not recorded",
    ),
    row("A15", "", EMPTY, EMPTY_BASIS, "bursts of senders stand in the real queue for a moment")
        .shown_by(&causes::BURSTS),
    row(
        "A16",
        "scale",
        "axis of figure 8b: 0 to 800 kB",
        "the axis, in proportion to the rate",
        "its set point of 0.2 ms is too long for the scale, and 0.1 ms is not",
    )
    .shown_by(&causes::SCALE),
    row(
        "A16",
        "empty",
        "almost never empty",
        "2 % of the time, as the rate that leaves lacks that share, and is to be within 2 %",
        "a virtual queue with a set point of 0.2 ms is empty now and then; a longer one is less often empty",
    )
    .shown_by(&causes::RATES),
    row(
        "A16",
        "around",
        "fluctuates around its threshold (figure 8b)",
        "a quarter to three quarters of the time above it",
        "",
    ),
    row(
        "A16",
        "",
        "egress rate close to rate_virtual on average",
        "2 %: two fifths of the 5 % between the target and the link",
        "what leaves is the virtual rate less the share of time in which the virtual queue is empty; a longer one is less often empty",
    )
    .shown_by(&causes::RATES),
    row("A17", "exceeds", "may exceed rate_virtual briefly", "any sample of 2 ms, so that hardly a run can miss it", ""),
    row(
        "A17",
        "no longer",
        "may exceed rate_virtual briefly",
        "50 ms, the round-trip time, after which a signal shows; of 99 stretches of samples in 100, as the longest of ten runs, by which it \
         was to be judged before the first measurement, lasts 300 ms at 10 Gbit/s and would miss it",
        "",
    ),
    row(
        "A17",
        "",
        "never on average",
        "conservation: a virtual queue with a bound implies it; it guards the accounting",
        "",
    ),
    row(
        "A18",
        "",
        "some providers avoid utilizations above 50 % for protection",
        "the policy of 49 to 50 %",
        "",
    ),
    row("A19", "short", "the goal of phantom queues: \"bandwidth headroom\"", "1 ms: 1 % of the buffer", ""),
    row(
        "A19",
        "",
        "a fixed fraction of the link, such as 95 %",
        "at most the fraction, and not less than nine tenths of the link",
        "a phantom queue holds nothing that could be sent while DCTCP's windows are below their mean",
    )
    .shown_by(&causes::PHANTOM),
    row(
        "A20",
        "36",
        "with many flows and without synchronized losses less suffices",
        "99 % at a quarter",
        "",
    ),
    row(
        "A20",
        "",
        "1 bdp fulfils it in almost any circumstances",
        "99 %; Reno, which halves its window, needs all of it, and CUBIC, which keeps seven tenths, three sevenths",
        "",
    ),
];
