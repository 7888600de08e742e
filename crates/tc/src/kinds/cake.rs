//! CAKE, one for an interface or one for each of its queues (`cake_mq`).

use crate::attribute::{Nested, attributes};

attributes! {
    /// Options of `cake` and `cake_mq`.
    CakeOption {
        /// Padding.
        Padding(Vec<u8>) = 1,
        /// Rate, in bytes per second; zero is none.
        BaseRate(u64) = 2,
        /// How traffic is divided into tins.
        DiffservMode(u32) = 3,
        /// Framing of ATM or PTM.
        Atm(u32) = 4,
        /// What a flow is.
        FlowMode(u32) = 5,
        /// Bytes that each packet takes in addition.
        Overhead(i32) = 6,
        /// Interval, in microseconds.
        Rtt(u32) = 7,
        /// Target of the delay, in microseconds.
        Target(u32) = 8,
        /// Whether the rate is estimated from what arrives.
        Autorate(u32) = 9,
        /// Room, in bytes of memory.
        Memory(u32) = 10,
        /// Whether addresses are looked up behind NAT.
        Nat(u32) = 11,
        /// Whether lengths are taken as the kernel has them.
        Raw(u32) = 12,
        /// Whether the field of differentiated services is cleared.
        Wash(u32) = 13,
        /// Smallest length of a packet, in bytes.
        Mpu(u32) = 14,
        /// Whether dropped packets count as transmitted.
        Ingress(u32) = 15,
        /// How acknowledgements are thinned out.
        AckFilter(u32) = 16,
        /// Whether segments are split.
        SplitGso(u32) = 17,
        /// Mask of the mark by which tins are chosen.
        Fwmark(u32) = 18,
    }
}

attributes! {
    /// Statistics of `cake`.
    CakeStat {
        /// Padding.
        Padding(Vec<u8>) = 1,
        /// Estimate of the capacity, in bytes per second.
        CapacityEstimate(u64) = 2,
        /// Room, in bytes of memory.
        MemoryLimit(u32) = 3,
        /// The most memory that was used, in bytes.
        MemoryUsed(u32) = 4,
        /// Average offset of the network header, in bytes.
        AvgNetoff(u32) = 5,
        /// Shortest packet, in bytes.
        MinNetlen(u32) = 6,
        /// Longest packet.
        MaxNetlen(u32) = 7,
        /// Shortest packet with overhead.
        MinAdjlen(u32) = 8,
        /// Longest packet with overhead.
        MaxAdjlen(u32) = 9,
        /// Of each tin.
        Tins(Nested<CakeTin>) = 10,
        /// Of a flow: bytes that it may send.
        Deficit(i32) = 11,
        /// Of a flow: COBALT's count.
        CobaltCount(u32) = 12,
        /// Of a flow: whether it is dropping.
        Dropping(u32) = 13,
        /// Of a flow: time to the next drop, in microseconds.
        DropNext(i32) = 14,
        /// Of a flow: probability of BLUE, of 2^32.
        DropProbability(u32) = 15,
        /// Of a flow: time to its change, in microseconds.
        BlueTimer(i32) = 16,
        /// Of `cake_mq`: queues that are in use.
        ActiveQueues(u32) = 17,
    }
}

/// A tin with its number, which counts from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CakeTin {
    /// The statistics of this tin.
    Tin(u16, Nested<CakeTinStat>),
    /// What has another form, as it came.
    Other(crate::attribute::Raw),
}

impl crate::attribute::Attribute for CakeTin {
    fn read(kind: u16, bytes: &[u8]) -> Self {
        use crate::attribute::{Raw, Value};
        use netlink_packet_core::NLA_TYPE_MASK;
        match Nested::read(kind & !NLA_TYPE_MASK, bytes) {
            Some(tin) => CakeTin::Tin(kind & NLA_TYPE_MASK, tin),
            None => CakeTin::Other(Raw { kind, bytes: bytes.to_vec() }),
        }
    }

    fn kind(&self) -> u16 {
        use crate::attribute::Value;
        match self {
            CakeTin::Tin(number, tin) => number | tin.flags(),
            CakeTin::Other(raw) => raw.kind,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        use crate::attribute::Value;
        match self {
            CakeTin::Tin(_, tin) => tin.write(out),
            CakeTin::Other(raw) => out.extend_from_slice(&raw.bytes),
        }
    }
}

attributes! {
    /// Statistics of a tin.
    CakeTinStat {
        /// Padding.
        Padding(Vec<u8>) = 1,
        /// Packets sent.
        SentPackets(u32) = 2,
        /// Bytes sent.
        SentBytes(u64) = 3,
        /// Packets dropped.
        DroppedPackets(u32) = 4,
        /// Bytes dropped.
        DroppedBytes(u64) = 5,
        /// Acknowledgements left out.
        AcksDroppedPackets(u32) = 6,
        /// Their bytes.
        AcksDroppedBytes(u64) = 7,
        /// Packets marked.
        EcnMarkedPackets(u32) = 8,
        /// Their bytes.
        EcnMarkedBytes(u64) = 9,
        /// Packets that wait.
        BacklogPackets(u32) = 10,
        /// Bytes that wait.
        BacklogBytes(u32) = 11,
        /// Rate above which the tin has no priority, in bytes per second.
        ThresholdRate(u64) = 12,
        /// Target in force, in microseconds.
        Target(u32) = 13,
        /// Interval in force, in microseconds.
        Interval(u32) = 14,
        /// Flows that found their queue at the second attempt.
        WayIndirectHits(u32) = 15,
        /// Flows that took a free queue.
        WayMisses(u32) = 16,
        /// Flows that share a queue.
        WayCollisions(u32) = 17,
        /// Largest delay of late, in microseconds.
        PeakDelay(u32) = 18,
        /// Average delay, in microseconds.
        AvgDelay(u32) = 19,
        /// Smallest delay of late, in microseconds.
        BaseDelay(u32) = 20,
        /// Flows that send little.
        SparseFlows(u32) = 21,
        /// Flows that send much.
        BulkFlows(u32) = 22,
        /// Flows that do not respond.
        UnresponsiveFlows(u32) = 23,
        /// Longest packet, in bytes.
        MaxSkblen(u32) = 24,
        /// Bytes that a flow may send at once.
        FlowQuantum(u32) = 25,
    }
}
