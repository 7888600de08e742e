//! PIE, alone, for each flow, and coupled for two queues.

use crate::attribute::{attributes, layout};

attributes! {
    /// Options of `pie`.
    PieOption {
        /// Target of the delay, in microseconds.
        Target(u32) = 1,
        /// Room, in packets.
        Limit(u32) = 2,
        /// Time between updates of the probability, in microseconds.
        Tupdate(u32) = 3,
        /// Weight of the delay's distance from the target.
        Alpha(u32) = 4,
        /// Weight of the delay's change.
        Beta(u32) = 5,
        /// Whether ECN-capable packets are marked.
        Ecn(u32) = 6,
        /// Whether large packets are dropped more often.
        Bytemode(u32) = 7,
        /// Whether the delay is computed from a measured rate and not from time stamps.
        DqRateEstimator(u32) = 8,
    }
}

layout! {
    /// Statistics of `pie` (`struct tc_pie_xstats`).
    PieXstats {
        /// Probability, of 2^64 (before Linux 5.6 of 2^32).
        prob: u64,
        /// Delay, in microseconds.
        delay: u32,
        avg_dq_rate: u32,
        dq_rate_estimating: u32,
        packets_in: u32,
        dropped: u32,
        overlimit: u32,
        maxq: u32,
        ecn_mark: u32,
    }
}

attributes! {
    /// Options of `fq_pie`.
    FqPieOption {
        /// Room, in packets.
        Limit(u32) = 1,
        /// Number of queues.
        Flows(u32) = 2,
        /// Target of the delay, in microseconds.
        Target(u32) = 3,
        /// Time between updates of the probability, in microseconds.
        Tupdate(u32) = 4,
        /// Weight of the delay's distance from the target.
        Alpha(u32) = 5,
        /// Weight of the delay's change.
        Beta(u32) = 6,
        /// Bytes that a queue may send at once.
        Quantum(u32) = 7,
        /// Room, in bytes of memory.
        MemoryLimit(u32) = 8,
        /// Probability up to which packets are marked, in percent.
        EcnProb(u32) = 9,
        /// Whether ECN-capable packets are marked.
        Ecn(u32) = 10,
        /// Whether large packets are dropped more often.
        Bytemode(u32) = 11,
        /// Whether the delay is computed from a measured rate and not from time stamps.
        DqRateEstimator(u32) = 12,
    }
}

layout! {
    /// Statistics of `fq_pie` (`struct tc_fq_pie_xstats`).
    FqPieXstats {
        packets_in: u32,
        dropped: u32,
        overlimit: u32,
        overmemory: u32,
        ecn_mark: u32,
        new_flow_count: u32,
        new_flows_len: u32,
        old_flows_len: u32,
        memory_usage: u32,
    }
}

attributes! {
    /// Options of `dualpi2` (Linux 6.17).
    DualPi2Option {
        /// Room, in packets.
        Limit(u32) = 1,
        /// Room, in bytes of memory.
        MemoryLimit(u32) = 2,
        /// Target of the delay, in microseconds.
        Target(u32) = 3,
        /// Time between updates of the probability, in microseconds.
        Tupdate(u32) = 4,
        /// Weight of the delay's distance from the target, in 1/256 Hz.
        Alpha(u32) = 5,
        /// Weight of the delay's change, in 1/256 Hz.
        Beta(u32) = 6,
        /// Queue of L4S traffic above which it is marked, in packets.
        StepThresholdPackets(u32) = 7,
        /// Delay of L4S traffic above which it is marked, in microseconds.
        StepThresholdMicros(u32) = 8,
        /// Packets that must wait for the threshold to apply.
        MinQlenStep(u32) = 9,
        /// Coupling factor.
        Coupling(u8) = 10,
        /// Whether an overload is met by drops.
        DropOverload(u8) = 11,
        /// Whether packets are dropped on arrival.
        DropEarly(u8) = 12,
        /// Share that the classic queue gets, in percent.
        ClassicProtection(u8) = 13,
        /// Which ECN code points are L4S traffic.
        EcnMask(u8) = 14,
        /// Whether segments are split on arrival.
        SplitGso(u8) = 15,
        /// Padding.
        Padding(Vec<u8>) = 16,
    }
}

layout! {
    /// Statistics of `dualpi2` (`struct tc_dualpi2_xstats`). Delays in microseconds.
    DualPi2Xstats {
        prob: u32,
        delay_c: u32,
        delay_l: u32,
        packets_in_c: u32,
        packets_in_l: u32,
        maxq: u32,
        ecn_mark: u32,
        step_marks: u32,
        credit: i32,
        memory_used: u32,
        max_memory_used: u32,
        memory_limit: u32,
    }
}
