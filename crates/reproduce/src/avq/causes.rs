//! Experiments that show why claims are missed.

use super::claims::alike;
use super::measured::PACKETS_PER_S;
use crate::experiment::{
    Experiment, Points, between, delay_mean_ms, fairness, lost, payload_mbps, utilization,
};
use crate::statistics::{deviation, least, mean, most};
use weir_measure::result::Recording;

/// Packets that wait, at the samples of that time.
fn waiting(run: &Recording, from_s: f64, to_s: f64) -> impl Iterator<Item = f64> + Clone {
    between(run, from_s, to_s).map(|sample| sample.backlog_bytes as f64 / 1000.0)
}

/// How many wait then on average, in all runs.
fn queue_between(points: &Points, names: &[&str], from_s: f64, to_s: f64) -> f64 {
    mean(points.runs(names).flat_map(|run| waiting(run, from_s, to_s)))
}

/// Packets that are lost in that time, in the mean of the runs.
fn lost_between(points: &Points, name: &str, from_s: f64, to_s: f64) -> f64 {
    let lost = |run| between(run, from_s, to_s).map(|sample| sample.drops + sample.overflows).sum::<u64>();
    mean(points.runs(&[name]).map(|run| lost(run) as f64))
}

/// How much of the link is used in that time, in percent and in the mean of the runs.
fn used_between(points: &Points, names: &[&str], from_s: f64, to_s: f64) -> f64 {
    let rate_bps = |run| mean(between(run, from_s, to_s).map(|sample| sample.delivered_bps));
    mean(points.runs(names).map(rate_bps)) / (PACKETS_PER_S * 8000.0) * 100.0
}

/// AVQ whose virtual capacity has followed its flows loses hardly anything.
pub static START: Experiment = Experiment {
    file: scenario_file!("cause_avq_start.toml"),
    judge: |points: &Points| {
        // Claims are judged by means, too.
        let (lost, worst) = (points.mean(&[], lost), most(points.runs(&[]).map(lost)));
        (
            format!(
                "with short flows from the beginning on it loses {lost:.0} packets in the 200 s that begin 50 s later (at most {worst:.0} in a run)"
            ),
            lost <= 20.0,
        )
    },
};

/// The queue is as long with short flows as before them, but for the times in which the virtual capacity
/// follows; whether those weigh alike decides about the claim.
pub static FOLLOWS: Experiment = Experiment {
    file: scenario_file!("cause_avq_follows.toml"),
    judge: |points: &Points| {
        // Mean and deviation in packets, from one time to another.
        let queue = |senders: &str, from_s: f64, to_s: f64| {
            let named = [senders];
            let each = points.runs(&named).map(|run| {
                let packets = waiting(run, from_s, to_s);
                [mean(packets.clone()), deviation(packets)]
            });
            let each: Vec<[f64; 2]> = each.collect();
            [0, 1].map(|which| mean(each.iter().map(|run| run[which])))
        };
        // As the claim has it, and after the capacity has settled: before the short flows and with them.
        let whole = |senders: &str| [queue(senders, 10.0, 100.0), queue(senders, 100.0, 200.0)];
        let settled = |senders: &str| [queue(senders, 50.0, 100.0), queue(senders, 150.0, 200.0)];
        let same = [settled("2001"), whole("2001, ten times alpha"), settled("Linux"), whole("Linux")];
        let other = [whole("2001"), whole("Linux, from 20 %")];
        let high = whole("2001, from 80 %");
        let told = |[before, after]: [[f64; 2]; 2]| {
            format!("{:.1} ({:.1}) and {:.1} ({:.1})", before[0], before[1], after[0], after[1])
        };
        let found = format!(
            "with the timers of 2001 mean (and deviation) before and with short flows are {} packets, in the last 50 s of both {}; \
             with a capacity that follows ten times as fast {}, with one that begins at 80 % of the link {}; with the timers of \
             Linux {}, in the last 50 s {}, with a capacity that begins at 20 % {}",
            told(other[0]),
            told(same[0]),
            told(same[1]),
            told(high),
            told(same[3]),
            told(same[2]),
            told(other[1])
        );
        let hardly =
            |[before, after]: [[f64; 2]; 2]| [0, 1].map(|i| (after[i] - before[i]).abs() <= alike(before[i]));
        let is_expected = same.map(hardly) == [[true; 2]; 4] && other.map(hardly) == [[false; 2]; 2];
        // From above the time before the short flows is the one with the longer queue.
        let is_before_longer = [0, 1].iter().all(|i| high[0][*i] > high[1][*i]);
        (found, is_expected && is_before_longer)
    },
};

/// Name and content of experiment 2 with other rooms.
const ROOMS: (&str, &str) = scenario_file!("cause_avq_room.toml");
/// When 20 more join the 60 flows of experiment 2, which is as far as real TCP goes, and when it ends; in
/// seconds.
const SIXTY_S: f64 = 300.0;
const ALL_S: f64 = 900.0;
/// From when on losses of experiment 2 count, in seconds.
const COUNTED_S: f64 = 10.0;

/// With room for 100 packets, as PI has, AVQ loses fewer than PI; with the 50 of the experiment not.
pub static ROOM: Experiment = Experiment {
    file: ROOMS,
    judge: |points: &Points| {
        let [few, all] = [SIXTY_S, ALL_S].map(|end_s| {
            ["AVQ", "PI", "AVQ, room for 100"].map(|name| lost_between(points, name, COUNTED_S, end_s))
        });
        let found = format!(
            "AVQ loses {:.0} packets and PI {:.0}, of 20 to 60 flows {:.0} and {:.0}; with room for 100 AVQ loses {:.0}, and {:.0}",
            all[0], all[1], few[0], few[1], all[2], few[2]
        );
        let is_expected = |[avq, pi, roomy]: [f64; 3]| avq >= pi && roomy < pi;
        (found, is_expected(few) && is_expected(all))
    },
};

/// AVQ loses packets of few flows, GKVQ of many.
pub static PLACES: Experiment = Experiment {
    file: ROOMS,
    judge: |points: &Points| {
        let of = |name: &str| {
            let [few, all] = [SIXTY_S, ALL_S].map(|end_s| lost_between(points, name, COUNTED_S, end_s));
            [few, all - few]
        };
        let [avq, gkvq] = ["AVQ", "GKVQ"].map(of);
        let found = format!(
            "of 20 to 60 flows AVQ loses {:.0} packets and GKVQ {:.0}, of 80 to 180 {:.0} and {:.0}",
            avq[0], gkvq[0], avq[1], gkvq[1]
        );
        (found, avq[0] > gkvq[0] && avq[1] < avq[0] && gkvq[1] > 10.0 * gkvq[0])
    },
};

/// Between the paper's thresholds RED's queue never runs empty, between lower ones it does.
pub static RED: Experiment = Experiment {
    file: scenario_file!("cause_avq_red.toml"),
    judge: |points: &Points| {
        const LOADS: [&str; 3] = ["20 long", "180 long", "40 long, 10 short per second"];
        let used = |queue: &str| LOADS.map(|load| points.mean(&[load, queue], utilization) * 100.0);
        // Packets wait as long as there are packets before them.
        let packets =
            |queue: &str| LOADS.map(|load| points.mean(&[load, queue], delay_mean_ms) * PACKETS_PER_S / 1e3);
        let [paper, low] = ["RED, 37 to 75 packets", "RED, 5 to 15 packets"];
        let ([full, poor], [long, short]) = ([used(paper), used(low)], [packets(paper), packets(low)]);
        let avq = used("AVQ")[2];
        let found = format!(
            "20 flows, 180, and 40 with short ones use {:.1}, {:.1} and {:.1} % with {:.0}, {:.0} and {:.0} packets waiting; between \
             5 and 15 packets {:.1}, {:.1} and {:.1} % (AVQ {avq:.1} %) with {:.0}, {:.0} and {:.0}",
            full[0],
            full[1],
            full[2],
            long[0],
            long[1],
            long[2],
            poor[0],
            poor[1],
            poor[2],
            short[0],
            short[1],
            short[2]
        );
        let is_poor = least(poor) < 97.0 && poor[2] < avq && most(short) < 50.0;
        (found, least(full) >= 99.0 && most(long) > 50.0 && is_poor)
    },
};

/// Short flows that wait for their timers at a window of one packet are what GKVQ loses packets of, and not
/// that they come back in step.
pub static WAITING: Experiment = Experiment {
    file: scenario_file!("cause_avq_gkvq.toml"),
    judge: |points: &Points| {
        let of = |senders: &str| points.mean(&[senders], lost);
        let open = |senders: &str| {
            let left = |run: &Recording| {
                let transfers = run.summary.flows.iter().filter_map(|flow| flow.transfers);
                let mean_s: Vec<f64> = transfers.filter_map(|transfers| transfers.mean_s).collect();
                mean(mean_s)
            };
            points.mean(&[senders], left)
        };
        let [usual, apart, two] = ["usual timers", "timers apart", "two segments"].map(of);
        let found = format!(
            "it loses {usual:.0} packets and short flows take {:.1} s; with timers that are apart it loses {apart:.0}, where short flows keep \
             two segments {two:.0} and they take {:.1} s",
            open("usual timers"),
            open("two segments")
        );
        (found, apart >= 0.8 * usual && two <= 0.01 * usual)
    },
};

/// The others' queues make round-trip times alike.
pub static BIAS: Experiment = Experiment {
    file: scenario_file!("cause_avq_bias.toml"),
    judge: |points: &Points| {
        let [red, avq, longer] =
            ["RED", "AVQ 98 %", "AVQ 98 %, paths 40 ms longer"].map(|name| points.mean(&[name], fairness));
        let found =
            format!("Jain's index is {avq:.3}, with paths that are 40 ms longer {longer:.3}, RED's {red:.3}");
        (found, avq < red && longer >= red - 0.005)
    },
};

/// REM's queue needs longer than the experiment lasts.
pub static SETTLES: Experiment = Experiment {
    file: scenario_file!("cause_rem_settles.toml"),
    judge: |points: &Points| {
        let queue = |from_s: f64, to_s: f64| queue_between(points, &[], from_s, to_s);
        let (first, last, settled) = (queue(150.0, 200.0), queue(200.0, 250.0), queue(350.0, 1150.0));
        let found = format!(
            "behind the return of 105 flows its queue is {first:.0} packets for 50 s, {last:.0} for the next 50, and from 200 s on \
             {settled:.0}"
        );
        (found, last > 65.0 && (40.0..=60.0).contains(&settled))
    },
};

/// With real TCP AVQ of experiment 1 drops, and its virtual capacity needs long from half of the link to
/// where it settles.
pub static BEGIN: Experiment = Experiment {
    file: scenario_file!("cause_avq_begin.toml"),
    judge: |points: &Points| {
        let of = |begin: &str| {
            [(0.0, 20.0), (20.0, 200.0), (0.0, 200.0)]
                .map(|(from_s, to_s)| used_between(points, &[begin], from_s, to_s))
        };
        let [half, high] = ["50 %", "95 %"].map(of);
        let found = format!(
            "from half of the link {:.1} % are used, {:.1} in the first 20 s and {:.1} later; from 95 % {:.1} %",
            half[2], half[0], half[1], high[2]
        );
        (found, half[2] < 97.5 && half[1] >= 97.5 && (97.5..=99.0).contains(&high[2]))
    },
};

/// Senders that keep two packets on the way fill the link from some number of them on; bursts of few meet the
/// room that AVQ is given.
pub static WINDOWS: Experiment = Experiment {
    file: scenario_file!("cause_avq_windows.toml"),
    judge: |points: &Points| {
        const LOADS: [(f64, f64); 3] = [(COUNTED_S, 100.0), (100.0, 200.0), (200.0, SIXTY_S)];
        let used = |name: &str| LOADS.map(|(from_s, to_s)| used_between(points, &[name], from_s, to_s));
        let names = ["two packets", "two packets, room for 100", "one packet"];
        let [two, roomy, one] = names.map(used);
        let [few, few_roomy] = [names[0], names[1]].map(|name| lost_between(points, name, COUNTED_S, 100.0));
        let found = format!(
            "20, 40 and 60 flows use {:.1}, {:.1} and {:.1} % of the link, and {:.1}, {:.1} and {:.1} with windows down to one packet; 20 lose \
             {few:.0} packets, with room for 100 {few_roomy:.0}, and use {:.1} %",
            two[0], two[1], two[2], one[0], one[1], one[2], roomy[0]
        );
        let follows = |share: f64| (97.5..=99.0).contains(&share);
        (found, two[2] > 99.0 && follows(one[2]) && follows(roomy[0]) && few > few_roomy)
    },
};

/// REM's price outlasts the flows that left, for longer than the experiment lasts.
pub static LEAVES: Experiment = Experiment {
    file: scenario_file!("cause_rem_leaves.toml"),
    judge: |points: &Points| {
        let [marks, drops] = ["marks", "drops"].map(|senders| {
            let queue = |from_s: f64, to_s: f64| queue_between(points, &[senders], from_s, to_s);
            let used_percent = used_between(points, &[senders], 100.0, 150.0);
            // In steps of 10 s: when half of the 50 packets wait that are wanted.
            let back_s =
                (0..50).map(|step| f64::from(step) * 10.0).find(|s| queue(100.0 + s, 110.0 + s) >= 25.0);
            let (empty, settled) = (queue(100.0, 150.0), queue(350.0, 600.0));
            let told = format!(
                "{used_percent:.0} % of the link used and {empty:.0} packets waiting in the 50 s behind the leave, half of the 50 wanted \
                 {:.0} s behind it, and {settled:.0} from 250 s on",
                back_s.unwrap_or(f64::NAN)
            );
            (told, used_percent < 90.0 && empty < 10.0 && back_s > Some(50.0) && settled > 35.0)
        });
        (format!("with marks {}; with drops {}", marks.0, drops.0), marks.1 && drops.1)
    },
};

/// Without SACK AVQ's senders repeat what had arrived, as it loses more packets than others.
pub static GOODPUT: Experiment = Experiment {
    file: scenario_file!("cause_avq_goodput.toml"),
    judge: |points: &Points| {
        let share = |pair: [&str; 2]| {
            let [avq, red] = pair.map(|name| points.mean(&[name], payload_mbps));
            avq / red * 100.0
        };
        let pairs = [["AVQ", "RED"], ["AVQ, SACK", "RED, SACK"]];
        let [without, with] = pairs.map(share);
        let lost = pairs[0].map(|name| points.mean(&[name], lost));
        let found = format!(
            "it loses {:.0} packets, RED {:.0}, and has {without:.1} % of RED's goodput, {with:.1} % with senders that have SACK",
            lost[0], lost[1]
        );
        (found, without < 99.0 && with >= 99.0)
    },
};
