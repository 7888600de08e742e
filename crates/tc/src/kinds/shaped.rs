//! What shapes: HTB and TBF.

use crate::attribute::{attributes, fixed, layout};

/// The kernel tells bursts as times, in units of 64 ns (`PSCHED_SHIFT`).
pub const TICK_NANOS: u64 = 64;

fixed! {
    /// A rate and how lengths are counted (`struct tc_ratespec`).
    RateSpec {
        cell_log: u8,
        linklayer: u8,
        overhead: u16,
        cell_align: i16,
        mpu: u16,
        /// Bytes per second; all ones where an attribute of 64 bits says more.
        rate: u32,
    }
}

layout! {
    /// A class of `htb` (`struct tc_htb_opt`).
    HtbClass {
        rate_spec: RateSpec,
        ceil_spec: RateSpec,
        /// Time that the burst takes at the rate, in [`TICK_NANOS`].
        buffer: u32,
        /// The same of the ceiling.
        cbuffer: u32,
        quantum: u32,
        /// Told only.
        level: u32,
        prio: u32,
    }
}

layout! {
    /// All of `htb` (`struct tc_htb_glob`).
    HtbGlobal {
        version: u32,
        rate2quantum: u32,
        /// Class for what no filter takes.
        default_class: u32,
        debug: u32,
        direct_packets: u32,
    }
}

attributes! {
    /// Options of `htb` and its classes.
    HtbOption {
        /// Of a class.
        Class(HtbClass) = 1,
        /// Of the discipline.
        Global(HtbGlobal) = 2,
        /// Table of the ceiling, for kernels that need it.
        CeilTable(Vec<u8>) = 3,
        /// Table of the rate, for kernels that need it.
        RateTable(Vec<u8>) = 4,
        /// Room for packets that no class takes, in packets.
        DirectQlen(u32) = 5,
        /// Rate, in bytes per second, where 32 bits do not suffice.
        Rate64(u64) = 6,
        /// Ceiling, in bytes per second, where 32 bits do not suffice.
        Ceil64(u64) = 7,
        /// Padding.
        Padding(Vec<u8>) = 8,
        /// Whether the interface shapes.
        Offload(()) = 9,
    }
}

layout! {
    /// Statistics of a class of `htb` (`struct tc_htb_xstats`).
    HtbXstats {
        lends: u32,
        borrows: u32,
        giants: u32,
        tokens: i32,
        ctokens: i32,
    }
}

layout! {
    /// What `tbf` is (`struct tc_tbf_qopt`).
    TbfParms {
        rate_spec: RateSpec,
        peakrate_spec: RateSpec,
        /// Room, in bytes.
        limit: u32,
        /// Time that the burst takes at the rate, in [`TICK_NANOS`].
        buffer: u32,
        /// The same of the peak rate.
        mtu: u32,
    }
}

attributes! {
    /// Options of `tbf`.
    TbfOption {
        /// All that fits into 32 bits.
        Parms(TbfParms) = 1,
        /// Table of the rate, for kernels that need it.
        RateTable(Vec<u8>) = 2,
        /// Table of the peak rate, for kernels that need it.
        PeakTable(Vec<u8>) = 3,
        /// Rate, in bytes per second, where 32 bits do not suffice.
        Rate64(u64) = 4,
        /// Peak rate, in bytes per second, where 32 bits do not suffice.
        PeakRate64(u64) = 5,
        /// Burst, in bytes; set only.
        Burst(u32) = 6,
        /// Burst at the peak rate, in bytes; set only.
        PeakBurst(u32) = 7,
        /// Padding.
        Padding(Vec<u8>) = 8,
    }
}
