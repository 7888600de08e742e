//! What the paper says of each claim, where its bound comes from, and why it is missed where that is known.

use super::causes;
use crate::said::{Said, Unjudged, row};

/// Claims that some arm does not judge, and why.
pub const UNJUDGED: &[Unjudged] = &[
    Unjudged::live(&["B1"], "arithmetic, which the simulator's results have"),
    Unjudged::anywhere(
        &["B15"],
        "a survey of providers (half of 16 deliver 90 % of the committed rate to 80 % of their users 80 % of the time); \
         no experiment of the paper",
    ),
];

const PAYLOAD: &str = "at 16 Mbit/s of frames payload is 15.3 Mbit/s at most, and over long round trips a short queue runs empty while CUBIC comes back after \
    a loss";

const B4_BASIS: &str = "half a Mbit/s below, a tenth above; where the bound is 16, as it was until 30 November 2026, half a Mbit/s above";
const B11_BASIS: &str = "a quarter, as the paper gives no number, of what is beyond the path's round trip; of all of it in results that were judged before \
    30 November 2026";

/// In the order of the paper; the first row that fits counts.
pub const TABLE: &[Said] = &[
    row("B1", "", "25 times too large: 2.5 s at 2 Mbit/s", "arithmetic, 5 % below and 1 % above", ""),
    row(
        "B2",
        "",
        "less than 0.5 % with packets of 1500 bytes",
        "the paper's number; 28 of 4 x 1500 bytes are 0.467 %. Probes are limited to 0.5 % of the bytes here, so that the claim can hardly be missed",
        "",
    ),
    row(
        "B3",
        "28 bytes",
        "20 + 8 bytes, one for every four data packets",
        "the paper's text; 3.7 to 4.3 is chosen here. What is measured is computed from the largest share of bytes, for packets of 1500 bytes; by the \
         limit of 0.5 % it cannot be less than 3.73",
        "small packets of data count as packets",
    ),
    row(
        "B3",
        "",
        "target 100 ms, interval 100 ms / sqrt(n), ends with a measurement below",
        "exact to a packet's time",
        "",
    ),
    row("B4", "", "about 15.5 Mbit/s", B4_BASIS, PAYLOAD).shown_by(&causes::PAYLOAD),
    row(
        "B5",
        "Linux 3.15",
        "within 50-75, 100-125 and 200-225 ms",
        "25 ms beyond the link's round trip, at 95 %",
        "",
    ),
    row(
        "B5",
        "",
        "within 50-75, 100-125 and 200-225 ms",
        "25 ms beyond the link's round trip, at 95 % (the paper: the range)",
        "only with real TCP: off-peak the access link delivers what the limiters send and no more, so that what the machine keeps from it \
         for more than 10 ms waits until the end of a run, which runs differ by",
    ),
    row(
        "B6",
        "",
        "within about 50-75, 100-125 and 200-225 ms for 90 % of the measurements",
        "25 ms beyond the link's round trip, at 90 %",
        "PIE's target (15 ms, of Linux 3.15: 20 ms) is a mean, which a tenth of the packets exceed by more",
    )
    .shown_by(&causes::TARGET_OF_PIE),
    row(
        "B7",
        "target of 50",
        "exceeds the link's round trip by only as much as 50 ms",
        "50 ms, at 95 %",
        "what exceeds the target is what senders add until they answer a signal, more the more there are",
    )
    .shown_by(&causes::SENDERS),
    row(
        "B7",
        "its target",
        "target 100 ms",
        "the target, at 95 %",
        "what exceeds the target is what senders add until they answer a signal, more the more there are",
    )
    .shown_by(&causes::SENDERS),
    row(
        "B7",
        "",
        "exceeds the link's round trip by only as much as 50 ms",
        "50 ms, at 95 %",
        "the law begins to signal when the smoothed round trip of the link has reached 100 ms, so that the queue is there; \
         with a target of 50 ms it is at most a quarter above what figure 8 shows",
    )
    .shown_by(&causes::TARGET),
    row(
        "B8",
        "ASQM",
        "ASQM slightly more than either at 50 to 200 ms",
        "order only",
        "a probe takes 42 bytes of frames for four of 1514, 0.7 % of the limiter's rate; at 200 ms ASQM is ahead",
    )
    .shown_by(&causes::PROBES),
    row(
        "B8",
        "PIE of Linux 3.15",
        "PIE slightly less than CoDel at 200 ms",
        "order only",
        "PIE's target is 20 ms there, four times CoDel's",
    )
    .shown_by(&causes::ORDER_OF_KERNEL),
    row(
        "B8",
        "PIE",
        "PIE slightly less than CoDel at 200 ms",
        "order only",
        "PIE's target is three times CoDel's",
    )
    .shown_by(&causes::ORDER),
    row("B8", "", "decreases slightly with the round-trip time", "order only", ""),
    row("B9", "", "about 6.5 Mbit/s", "0.3 Mbit/s to either side", ""),
    row(
        "B10",
        "",
        "100 to about 1500 ms (CoDel), about 200 to 1200 ms (PIE)",
        "twice the lower end, a quarter around the upper",
        "a FIFO is as long as its 1000 frames, and runs empty only where senders pause, of which the paper tells nothing",
    )
    .shown_by(&causes::FIFO),
    row(
        "B11",
        "class EF",
        "the EF queue needs no AQM; ASQM operates only on the AF queue",
        "half of the time in queues, 95 %, chosen here: calls pass the limiter first and wait below IP with everything else, of which the paper says nothing",
        "",
    )
    .own(),
    row("B11", "half of", "ASQM unaffected, CoDel and PIE unable to manage", "half: an order with room", ""),
    row("B11", "", "virtually unaffected by the displacement", B11_BASIS, ""),
    row(
        "B12",
        "off-peak",
        "a lot more variable than off-peak (CoDel), a lot of variability (PIE)",
        "twice the deviation from second to second, chosen here, as the paper gives no number, at every round-trip time",
        "",
    ),
    row(
        "B12",
        "",
        "stable at the full available rate (ASQM)",
        "half of the others' deviation from second to second at peak, chosen here, as the paper gives no number",
        "",
    ),
    row(
        "B13",
        "ASQM",
        "ASQM controls the delay when the access link gives less than the committed rate",
        "a quarter more than without",
        "",
    ),
    row(
        "B13",
        "",
        "even the slightest bit less than 100 % of the committed rate defeats PIE and CoDel",
        "twice what it is without a shortfall, and at least twice the 25 ms of figures 4 and 6, at each step",
        "what leaves a limiter under CoDel is one or two hundredths less than its rate on average, and under PIE a few thousandths, as senders answer signals, and a link that \
         gives as much carries all of it",
    )
    .shown_by(&causes::SHORTFALL),
    row(
        "B14",
        "breaks down",
        "begin to break down above 250 ms",
        "a tenth of what it is at 100 ms lost at 300 ms: chosen here, as the paper gives no number",
        "CUBIC loses bandwidth gradually: the paper says \"begin\", and a tenth at 300 ms is chosen here",
    )
    .shown_by(&causes::BEGINS),
    row(
        "B14",
        "",
        "unusable by 500 ms due to severe bandwidth loss",
        "a quarter of what it is at 100 ms lost at 500 ms: chosen here, as the paper gives no number",
        "CUBIC loses bandwidth gradually, and the paper gives no number for \"severe\"",
    )
    .shown_by(&causes::GRADUALLY),
    row(
        "B16",
        "",
        "thousands of experiments over these ranges",
        "the ends of the ranges, in some tens of cases; it is held where both ends of each range carry data",
        "",
    ),
];
