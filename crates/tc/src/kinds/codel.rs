//! CoDel, alone and for each flow.

use crate::attribute::{attributes, fixed, layout};

attributes! {
    /// Options of `codel`.
    CodelOption {
        /// Target of the delay, in microseconds.
        Target(u32) = 1,
        /// Room, in packets.
        Limit(u32) = 2,
        /// Interval, in microseconds.
        Interval(u32) = 3,
        /// Whether ECN-capable packets are marked.
        Ecn(u32) = 4,
        /// Delay above which such packets are always marked, in microseconds.
        CeThreshold(u32) = 5,
    }
}

layout! {
    /// Statistics of `codel` (`struct tc_codel_xstats`). Times in microseconds.
    CodelXstats {
        maxpacket: u32,
        count: u32,
        lastcount: u32,
        /// Delay of the packet that left last.
        ldelay: u32,
        drop_next: i32,
        drop_overlimit: u32,
        ecn_mark: u32,
        dropping: u32,
        ce_mark: u32,
    }
}

attributes! {
    /// Options of `fq_codel`.
    FqCodelOption {
        /// Target of the delay, in microseconds.
        Target(u32) = 1,
        /// Room, in packets.
        Limit(u32) = 2,
        /// Interval, in microseconds.
        Interval(u32) = 3,
        /// Whether ECN-capable packets are marked.
        Ecn(u32) = 4,
        /// Number of queues.
        Flows(u32) = 5,
        /// Bytes that a queue may send at once.
        Quantum(u32) = 6,
        /// Delay above which ECN-capable packets are always marked, in microseconds.
        CeThreshold(u32) = 7,
        /// Packets that are dropped at once when the room is used up.
        DropBatchSize(u32) = 8,
        /// Room, in bytes of memory.
        MemoryLimit(u32) = 9,
        /// What the field of differentiated services must be for the threshold.
        CeThresholdSelector(u8) = 10,
        /// Which bits of it are looked at.
        CeThresholdMask(u8) = 11,
    }
}

fixed! {
    /// Statistics of `fq_codel` as a whole (`struct tc_fq_codel_qd_stats`).
    FqCodelTotals {
        maxpacket: u32,
        drop_overlimit: u32,
        ecn_mark: u32,
        new_flow_count: u32,
        new_flows_len: u32,
        old_flows_len: u32,
        ce_mark: u32,
        memory_usage: u32,
        drop_overmemory: u32,
    }
}

fixed! {
    /// Statistics of one flow (`struct tc_fq_codel_cl_stats`). Times in microseconds.
    FqCodelFlow {
        deficit: i32,
        ldelay: u32,
        count: u32,
        lastcount: u32,
        dropping: u32,
        drop_next: i32,
    }
}

/// Statistics of `fq_codel` (`struct tc_fq_codel_xstats`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FqCodelXstats {
    /// Of the whole.
    Totals(FqCodelTotals, Vec<u8>),
    /// Of a flow, in the dump of classes; what follows is not used.
    Flow(FqCodelFlow, Vec<u8>),
}

impl crate::attribute::Value for FqCodelXstats {
    fn read(flags: u16, mut bytes: &[u8]) -> Option<Self> {
        use crate::attribute::Fixed;
        let from = &mut bytes;
        match (flags, u32::take(from)?) {
            (0, 0) => Some(FqCodelXstats::Totals(Fixed::take(from)?, bytes.to_vec())),
            (0, 1) => Some(FqCodelXstats::Flow(Fixed::take(from)?, bytes.to_vec())),
            _ => None,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        use crate::attribute::Fixed;
        let rest = match self {
            FqCodelXstats::Totals(totals, rest) => {
                0_u32.put(out);
                totals.put(out);
                rest
            }
            FqCodelXstats::Flow(flow, rest) => {
                1_u32.put(out);
                flow.put(out);
                rest
            }
        };
        out.extend_from_slice(rest);
    }
}
