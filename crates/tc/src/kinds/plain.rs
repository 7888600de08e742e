//! FIFOs, RED, and what holds others for each queue of an interface.

use crate::attribute::{Fixed, Nested, Raw, Value, attributes, layout};

layout! {
    /// What `pfifo` and `bfifo` are (`struct tc_fifo_qopt`).
    FifoParms {
        /// Room, in packets or bytes.
        limit: u32,
    }
}

layout! {
    /// What `red` is (`struct tc_red_qopt`).
    RedParms {
        /// Room, in bytes.
        limit: u32,
        /// Smallest average queue at which packets are dropped, in bytes.
        qth_min: u32,
        /// Largest average queue at which not all are dropped, in bytes.
        qth_max: u32,
        wlog: u8,
        plog: u8,
        scell_log: u8,
        flags: u8,
    }
}

attributes! {
    /// Options of `red`.
    RedOption {
        /// All of the first version.
        Parms(RedParms) = 1,
        /// Table for the idle time; set only.
        Stab(Vec<u8>) = 2,
        /// Largest probability, of 2^32.
        MaxP(u32) = 3,
        /// Flags that are known, and which of them are set.
        Flags(u64) = 4,
        /// Filters for packets that are dropped.
        EarlyDropBlock(u32) = 5,
        /// Filters for packets that are marked.
        MarkBlock(u32) = 6,
    }
}

layout! {
    /// Statistics of `red` (`struct tc_red_xstats`).
    RedXstats {
        early: u32,
        pdrop: u32,
        other: u32,
        marked: u32,
    }
}

/// What `mqprio` is (`struct tc_mqprio_qopt`), and attributes behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MqprioOptions {
    /// Number of traffic classes.
    pub num_tc: u8,
    /// Traffic class of each priority.
    pub prio_tc_map: [u8; 16],
    /// Whether the interface does it.
    pub hw: u8,
    /// Queues of each traffic class.
    pub count: [u16; 16],
    /// The first of them.
    pub offset: [u16; 16],
    /// The rest.
    pub attributes: Nested<MqprioOption>,
}

attributes! {
    /// Attributes of `mqprio`.
    MqprioOption {
        /// Who defines the traffic classes.
        Mode(u16) = 1,
        /// Who shapes.
        Shaper(u16) = 2,
        /// Smallest rates of traffic classes, in bytes per second.
        MinRate64(Vec<u8>) = 3,
        /// Largest rates of traffic classes, in bytes per second.
        MaxRate64(Vec<u8>) = 4,
        /// One traffic class.
        TcEntry(Nested<Raw>) = 5,
    }
}

impl Value for MqprioOptions {
    fn read(flags: u16, mut bytes: &[u8]) -> Option<Self> {
        let from = &mut bytes;
        let (num_tc, prio_tc_map, hw) = (u8::take(from)?, Fixed::take(from)?, u8::take(from)?);
        let (count, offset) = (Fixed::take(from)?, Fixed::take(from)?);
        // Attributes begin at a multiple of four.
        let padding = u16::take(from)?;
        let attributes = Nested::read(flags, bytes)?;
        (padding == 0).then_some(MqprioOptions { num_tc, prio_tc_map, hw, count, offset, attributes })
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.num_tc.put(out);
        self.prio_tc_map.put(out);
        self.hw.put(out);
        self.count.put(out);
        self.offset.put(out);
        0_u16.put(out);
        self.attributes.write(out);
    }

    fn flags(&self) -> u16 {
        self.attributes.flags()
    }
}
