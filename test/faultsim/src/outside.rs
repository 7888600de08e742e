//! Who sends and receives beyond the two ports, and what they find wrong.
//!
//! A frame says which flow it is of, which it is in it, and when it was sent. So whoever receives it knows
//! whether one was doubled, overtaken, changed on the way, or late.

use crate::dice::Dice;
use serde::{Deserialize, Serialize};

/// What ends every frame: a mark, the flow, the number in the flow, the time of sending.
const TRAILER: usize = 24;
const MARK: u32 = 0x5765_6972;
/// Shortest frame: Ethernet, VLAN tag, IPv4, UDP, and what ends it.
pub const SHORTEST: usize = 14 + 4 + 20 + 8 + TRAILER;

/// A flow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Flow {
    /// The port where it comes in.
    pub port: usize,
    /// The receive queue to which it is hashed.
    pub queue: u32,
    /// Lengths of its frames.
    pub len: (usize, usize),
    /// Frames in a burst.
    pub burst: u64,
    /// Between two frames of a burst, in ns.
    pub gap: u64,
    /// Between two bursts, in ns: at least and at most.
    pub pause: (u64, u64),
    /// Whether it can be marked.
    pub is_ect: bool,
    /// Its VLAN tag: kind and number.
    pub tag: Option<(u16, u16)>,
    /// Its class.
    pub dscp: u8,
}

/// Frames that came in at a port, and what became of them.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// Sent from outside.
    pub sent: u64,
    /// The port had no link.
    pub link_down: u64,
    /// Put into a ring of the process.
    pub taken: u64,
    /// Lost before that, as sockets tell.
    pub lost_in_kernel: u64,
    /// Lost before that, as the driver's own counters tell.
    pub lost_in_driver: u64,
    /// Gone to the host: the wire is closed.
    pub to_host: u64,
    /// Gone to the host just after somebody removed the filter.
    pub unguarded: u64,
    /// Discarded by the filter though there was no copy.
    pub shot: u64,
    /// Forwarded by the kernel past the process.
    pub bypassed: u64,
    /// Of these, while no loop was to have them: before it turned for the first time, and after its end.
    pub bypassed_without_loop: u64,
    /// Taken from a ring of the process, to be sent.
    pub left: u64,
    /// Lost after that, or after the bypass: the port behind had no link.
    pub lost_behind: u64,
    /// Received at the other side.
    pub received: u64,
}

struct FlowState {
    flow: Flow,
    sent: u64,
    /// Left of the burst.
    left: u64,
    /// The last that was received: through the process, and past it.
    seen: [u64; 2],
    /// Frames below this number may overtake each other: their queue was changed.
    loose_below: u64,
}

/// The world beyond the ports.
pub struct Outside {
    flows: Vec<FlowState>,
    /// By the port where frames came in.
    pub counts: [Counts; 2],
    /// The frame that is sent.
    pub frame: Vec<u8>,
    /// The frame that leaves.
    pub leaving: Vec<u8>,
    /// Nothing is sent any more.
    pub is_silent: bool,
    /// And what was sent has had time to arrive.
    pub is_drained: bool,
    /// When a fault last began or ended.
    pub disturbed: u64,
    /// Longest time that a frame may take where nothing disturbs, in ns.
    pub late: u64,
    /// Faults that go on, as frames are late then.
    pub disturbances: u32,
    /// How often the reader looks, in ns.
    pub read_every: u64,
    /// Longest time without a frame received while frames were sent, by the port where they came in.
    pub longest_delay: u64,
    /// Numbers of flooding frames.
    floods: u64,
}

impl Outside {
    /// A world with these flows.
    pub fn new(flows: &[Flow], late: u64) -> Outside {
        let state = |flow: &Flow| FlowState {
            flow: flow.clone(),
            sent: 0,
            left: flow.burst,
            seen: [0; 2],
            loose_below: 0,
        };
        Outside {
            flows: flows.iter().map(state).collect(),
            counts: [Counts::default(); 2],
            frame: Vec::with_capacity(2048),
            leaving: Vec::with_capacity(2048),
            is_silent: false,
            is_drained: false,
            disturbed: 0,
            late,
            disturbances: 0,
            read_every: 1_000_000_000,
            longest_delay: 0,
            floods: 0,
        }
    }

    /// Makes the next frame of a flow; where it comes in, and when the one after it does.
    pub fn next(&mut self, flow: usize, now: u64, dice: &mut Dice) -> (usize, u32, u64) {
        let state = &mut self.flows[flow];
        state.sent += 1;
        let Flow { port, queue, len, gap, pause, burst, .. } = state.flow;
        let len = dice.range(len.0 as u64, len.1 as u64) as usize;
        write(&mut self.frame, &state.flow, flow, state.sent, now, len);
        state.left -= 1;
        let next = if state.left > 0 {
            now + gap.max(1)
        } else {
            state.left = burst.max(1);
            now + dice.span(pause.0.max(1), pause.1.max(1))
        };
        (port, queue, next)
    }

    /// Makes a frame of a flood, of which nobody keeps count: it has a flow of its own.
    pub fn flood(&mut self, port: usize) {
        self.floods += 1;
        let flow = Flow {
            port,
            queue: 0,
            len: (SHORTEST, SHORTEST),
            burst: 1,
            gap: 1,
            pause: (1, 1),
            is_ect: false,
            tag: None,
            dscp: 0,
        };
        write(&mut self.frame, &flow, usize::from(u16::MAX), self.floods, 0, SHORTEST);
    }

    /// Flows are hashed to other queues from now on.
    pub fn queues_changed(&mut self, _now: u64) {
        for state in &mut self.flows {
            state.loose_below = state.sent + 1;
        }
    }

    /// A frame that came in at `from` is received at the other side.
    pub fn received(
        &mut self,
        from: usize,
        frame: &[u8],
        now: u64,
        is_bypass: bool,
        wrong: &mut Vec<String>,
    ) {
        self.counts[from].received += 1;
        let Some((flow, number, sent)) = read(frame) else {
            return wrong.push(format!("a frame of {} bytes was received that nobody sent", frame.len()));
        };
        if flow == usize::from(u16::MAX) {
            return;
        }
        let Some(state) = self.flows.get_mut(flow) else {
            return wrong.push(format!("a frame of flow {flow} was received, and there is no such flow"));
        };
        if state.flow.port != from {
            wrong.push(format!("a frame of flow {flow} left where it came in"));
        }
        if number == 0 || number > state.sent {
            wrong.push(format!("frame {number} of flow {flow} was received and never sent"));
        }
        let seen = &mut state.seen[usize::from(is_bypass)];
        if number <= *seen && number >= state.loose_below {
            wrong.push(format!("frame {number} of flow {flow} was received after frame {seen}"));
        }
        *seen = number.max(*seen);
        // Frames are as they were, but for a mark that they allow.
        let mut original = std::mem::take(&mut self.frame);
        write(&mut original, &state.flow, flow, number, sent, frame.len());
        if !is_same(&original, frame, state.flow.is_ect && !is_bypass) {
            wrong.push(format!("frame {number} of flow {flow} was changed on its way"));
        }
        self.frame = original;
        let delay = now - sent.min(now);
        self.longest_delay = self.longest_delay.max(delay);
        if delay > self.late && sent > self.disturbed + self.late && self.disturbances == 0 {
            wrong.push(format!("frame {number} of flow {flow} took {} ms", delay / 1_000_000));
        }
    }
}

fn write(to: &mut Vec<u8>, flow: &Flow, number_of_flow: usize, number: u64, now: u64, len: usize) {
    to.clear();
    to.extend([2, 0, 0, 0, 1, 1 - flow.port as u8, 2, 0, 0, 0, 1, flow.port as u8]);
    if let Some((kind, tag)) = flow.tag {
        to.extend(kind.to_be_bytes());
        to.extend(tag.to_be_bytes());
    }
    to.extend([8, 0]);
    let network = to.len();
    let len = len.max(network + 28 + TRAILER);
    let total = (len - network) as u16;
    to.extend([0x45, (flow.dscp << 2) | (u8::from(flow.is_ect) * 2)]);
    to.extend(total.to_be_bytes());
    to.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    to.extend([10, flow.port as u8, (number_of_flow >> 8) as u8, number_of_flow as u8]);
    to.extend([10, 1 - flow.port as u8, 0, 1]);
    let sum = checksum(&to[network..network + 20]);
    to[network + 10..network + 12].copy_from_slice(&sum.to_be_bytes());
    to.extend((1000u16.wrapping_add(number_of_flow as u16)).to_be_bytes());
    to.extend(443u16.to_be_bytes());
    to.extend((total - 20).to_be_bytes());
    to.extend([0, 0]);
    to.resize(len - TRAILER, 0x5a);
    to.extend(MARK.to_be_bytes());
    to.extend((number_of_flow as u32).to_be_bytes());
    to.extend(number.to_be_bytes());
    to.extend(now.to_be_bytes());
}

fn checksum(header: &[u8]) -> u16 {
    let mut sum: u32 = header.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Flow, number and time of a frame.
fn read(frame: &[u8]) -> Option<(usize, u64, u64)> {
    let end = frame.get(frame.len().checked_sub(TRAILER)?..)?;
    let long = |at: usize| u64::from_be_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|n| end[at + n]));
    let first = long(0);
    (first >> 32 == u64::from(MARK)).then_some((first as u32 as usize, long(8), long(16)))
}

/// Whether two frames are the same, or differ in a mark and the checksum of the header only.
fn is_same(original: &[u8], frame: &[u8], may_be_marked: bool) -> bool {
    if original == frame {
        return true;
    }
    let network = if frame.len() > 14 && frame[12] != 8 { 18 } else { 14 };
    if !may_be_marked || original.len() != frame.len() || frame.len() < network + 20 {
        return false;
    }
    let differs = |at: usize| original[at] != frame[at];
    let allowed = |at: usize| at == network + 1 || at == network + 10 || at == network + 11;
    (0..frame.len()).all(|at| !differs(at) || allowed(at))
        && frame[network + 1] & 3 == 3
        && checksum(&frame[network..network + 20]) == 0
}
