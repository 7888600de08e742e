//! Faults: what can happen to a packet loop, when, and how often it did.

use crate::kernel::Kernel;
use libc::c_int;
use serde::{Deserialize, Serialize};

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Kinds of faults.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        pub enum Kind {
            $($(#[doc = $doc])* $name,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &[Kind] = &[$(Kind::$name),*];

            /// What it is, in words.
            pub fn about(self) -> &'static str {
                match self {
                    $(Kind::$name => concat!($($doc),*),)*
                }
            }
        }
    };
}

kinds! {
    /// Sending fails with an error that passes by itself (EAGAIN, EBUSY, ENOBUFS, EINTR, ENETDOWN).
    SendErrno,
    /// Sending fails with an error that nobody expects (ENOMEM, EINVAL, EIO, EPERM).
    SendUnexpected,
    /// Waking the receiving side fails.
    ReceiveErrno,
    /// Waiting fails (EINTR, ENOMEM).
    PollErrno,
    /// Reading statistics fails.
    StatisticsErrno,
    /// A request about an interface fails.
    RequestErrno,
    /// A call fails while ports are opened.
    OpenErrno,
    /// The transmit queue of a port takes nothing.
    TransmitFull,
    /// A port takes a few frames with each call.
    TransmitSlow,
    /// Memory of sent frames comes back late.
    CompletionsLate,
    /// The driver does not see that it was woken.
    WakeupLost,
    /// One receive queue is flooded.
    Flood,
    /// The other end of a cable goes, and comes back.
    Carrier,
    /// An interface is set down, and up again.
    AdminDown,
    /// The MTU of a port is changed.
    Mtu,
    /// A port gets more receive queues.
    Queues,
    /// The wall clock is set.
    WallStep,
    /// The process gets no processor.
    Stall,
    /// Somebody takes the programs off a port.
    ProgramsRemoved,
    /// Somebody switches offloads on.
    OffloadOn,
    /// An interface vanishes.
    Gone,
    /// The process is killed.
    Kill,
    /// The process is ended by its user, and started again.
    Restart,
    /// Another process takes over the ports of the living one.
    Takeover,
    /// A PFCP peer sends octets that are no message, or half of one.
    PfcpLies,
    /// A PFCP peer sends more than it may.
    PfcpFlood,
    /// PFCP is lost or doubled on the way.
    PfcpLoss,
    /// A PFCP peer says that it has started again.
    PfcpRestart,
    /// Packets come in tunnels that nobody has, or that are broken.
    TunnelLies,
    /// Error indications that nobody has cause for.
    IndicationFlood,
    /// Neighbours that do not answer, or answer for others.
    NeighbourLies,
    /// Packets for users that are not there.
    Spray,
}

/// A fault of a plan.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Fault {
    /// When, in ns after the beginning.
    pub at: u64,
    /// For how long, in ns; zero for one that has no end.
    pub span: u64,
    /// At which port.
    pub port: usize,
    /// What.
    pub kind: Kind,
    /// How much, by kind.
    pub value: u64,
}

/// How often faults took effect.
#[derive(Clone, Default, Debug)]
pub struct Met(Vec<u64>);

impl Met {
    /// One more.
    pub fn count(&mut self, kind: Kind) {
        self.add(kind, 1);
    }

    fn add(&mut self, kind: Kind, n: u64) {
        self.0.resize(Kind::ALL.len(), 0);
        self.0[kind as usize] += n;
    }

    /// Those of another, too.
    pub fn merge(&mut self, other: &Met) {
        for (kind, n) in other.all() {
            self.add(kind, n);
        }
    }

    /// All that were met.
    pub fn all(&self) -> impl Iterator<Item = (Kind, u64)> + '_ {
        Kind::ALL.iter().copied().zip(self.0.iter().copied()).filter(|(_, n)| *n > 0)
    }
}

/// So many calls fail with an error, after so many that do not.
#[derive(Clone, Copy, Default, Debug)]
pub struct Calls {
    number: c_int,
    after: u32,
    left: u32,
}

impl Calls {
    /// The next `count` calls fail, after `after` of them.
    pub fn fail(number: c_int, after: u32, count: u32) -> Calls {
        Calls { number, after, left: count }
    }

    /// The error of this call.
    #[inline]
    pub fn take_one(&mut self) -> Option<c_int> {
        if self.left == 0 {
            return None;
        }
        if self.after > 0 {
            self.after -= 1;
            return None;
        }
        self.left -= 1;
        Some(self.number)
    }
}

/// What faults that have begun do to calls.
#[derive(Clone, Debug)]
pub struct Armed {
    /// Sending, by port.
    pub send: [Calls; 2],
    /// As which kind that counts.
    pub send_kind: [Kind; 2],
    /// Waking the receiver.
    pub receive: Calls,
    /// Waiting.
    pub poll: Calls,
    /// Reading options.
    pub statistics: Calls,
    /// Requests about interfaces.
    pub request: Calls,
    /// Opening sockets.
    pub open: Calls,
    /// Mapping memory.
    pub map: Calls,
    /// Binding AF_XDP sockets.
    pub bind: Calls,
    /// Programs and maps.
    pub program: Calls,
    /// Questions over netlink.
    pub netlink: Calls,
    /// By port: nothing is taken.
    pub transmit_full: [bool; 2],
    /// By port: most frames in a call; zero for no limit.
    pub transmit_slow: [u32; 2],
    /// By port: what was sent is not told.
    pub completions_late: [bool; 2],
    /// By port: wakeups that have no effect.
    pub wakeup_lost: [u32; 2],
    /// Waiting for a port that is down tells of an error.
    pub poll_error: bool,
    /// No real-time class is granted.
    pub no_realtime: bool,
}

impl Default for Armed {
    fn default() -> Armed {
        let calls = Calls::default();
        Armed {
            send: [calls; 2],
            send_kind: [Kind::SendErrno; 2],
            receive: calls,
            poll: calls,
            statistics: calls,
            request: calls,
            open: calls,
            map: calls,
            bind: calls,
            program: calls,
            netlink: calls,
            transmit_full: [false; 2],
            transmit_slow: [0; 2],
            completions_late: [false; 2],
            wakeup_lost: [0; 2],
            poll_error: false,
            no_realtime: false,
        }
    }
}

impl Armed {
    /// Calls of a process that is dead fail no more.
    pub fn forget_calls(&mut self) {
        let Armed { transmit_full, transmit_slow, completions_late, poll_error, no_realtime, .. } = *self;
        *self = Armed {
            transmit_full,
            transmit_slow,
            completions_late,
            poll_error,
            no_realtime,
            ..Armed::default()
        };
    }
}

/// Errors that pass by themselves.
const EXPECTED: [c_int; 5] = [libc::EAGAIN, libc::EBUSY, libc::ENOBUFS, libc::EINTR, libc::ENETDOWN];
/// Errors that nobody expects of a call that sends.
const UNEXPECTED: [c_int; 4] = [libc::ENOMEM, libc::EINVAL, libc::EIO, libc::EPERM];
/// Errors of the others.
const ANY: [c_int; 6] = [libc::ENOMEM, libc::EINVAL, libc::EIO, libc::EPERM, libc::EINTR, libc::ENOBUFS];

fn one_of<const N: usize>(all: [c_int; N], value: u64) -> c_int {
    all[(value % N as u64) as usize]
}

/// Arms calls made while ports are opened: which, and after how many of them.
pub fn arm_opening(armed: &mut Armed, value: u64) {
    let calls = Calls::fail(one_of(ANY, value / 7), (value / 64 % 24) as u32, 1 + (value >> 40) as u32 % 3);
    match value % 7 {
        0 => armed.open = calls,
        1 => armed.map = calls,
        2 => armed.bind = calls,
        3 => armed.program = calls,
        4 => armed.netlink = calls,
        5 => armed.request = calls,
        _ => armed.statistics = calls,
    }
}

/// A fault begins.
pub fn begin(kernel: &mut Kernel, fault: &Fault) {
    let Fault { port, value, .. } = *fault;
    let few = 1 + (value >> 8) as u32 % 20;
    kernel.outside.disturbed = kernel.now;
    match fault.kind {
        Kind::SendErrno => {
            kernel.armed.send[port] = Calls::fail(one_of(EXPECTED, value), 0, few);
            kernel.armed.send_kind[port] = Kind::SendErrno;
            return;
        }
        Kind::SendUnexpected => {
            kernel.armed.send[port] = Calls::fail(one_of(UNEXPECTED, value), 0, few);
            kernel.armed.send_kind[port] = Kind::SendUnexpected;
            return;
        }
        Kind::ReceiveErrno => {
            kernel.armed.receive = Calls::fail(one_of(ANY, value), 0, few);
            return;
        }
        Kind::PollErrno => {
            kernel.armed.poll = Calls::fail(one_of([libc::EINTR, libc::ENOMEM], value), 0, few);
            return;
        }
        Kind::StatisticsErrno => {
            kernel.armed.statistics = Calls::fail(one_of(ANY, value), 0, few);
            return;
        }
        Kind::RequestErrno => {
            kernel.armed.request = Calls::fail(one_of(ANY, value), 0, few);
            return;
        }
        Kind::WakeupLost => {
            kernel.armed.wakeup_lost[port] = few;
            return;
        }
        Kind::TransmitFull => kernel.armed.transmit_full[port] = true,
        Kind::TransmitSlow => kernel.armed.transmit_slow[port] = 1 + value as u32 % 8,
        Kind::CompletionsLate => kernel.armed.completions_late[port] = true,
        Kind::Flood => {
            let (queue, count) = ((value >> 32) as u32, value % 12_000);
            for _ in 0..count {
                kernel.outside.flood(port);
                kernel.arrive(port, queue);
            }
        }
        Kind::Carrier => kernel.interfaces[port].has_carrier = false,
        Kind::AdminDown => {
            kernel.armed.poll_error = value % 2 == 0;
            kernel.set_down(port);
        }
        Kind::Mtu => kernel.interfaces[port].mtu = [1280, 1400, 1500, 1504, 9000, 576][(value % 6) as usize],
        Kind::Queues => {
            let interface = &mut kernel.interfaces[port];
            interface.queues = (interface.queues + 1 + value as u32 % 8).min(128);
            interface.queues_changed = kernel.now;
            kernel.outside.queues_changed(kernel.now);
        }
        Kind::WallStep => kernel.wall += (value as i64 % 2_000_000_000) * 1_000_000_000,
        Kind::Stall => {
            kernel.stalled_until = kernel.stalled_until.max(kernel.now + fault.span);
            // The end of the stall is when time has passed.
        }
        Kind::ProgramsRemoved => {
            let interface = &mut kernel.interfaces[port];
            match value % 3 {
                0 => interface.filter = None,
                1 => (interface.filter, interface.has_clsact) = (None, false),
                _ => kernel.take_xdp_off(port),
            }
            if value % 3 < 2 {
                kernel.removed[port] = Some(kernel.now);
            }
        }
        Kind::OffloadOn => kernel.interfaces[port].offloads[(value % 3) as usize] = true,
        Kind::Gone => kernel.interfaces[port].is_present = false,
        Kind::Kill => return kernel.kill(),
        Kind::Restart => kernel.ask_to_stop(),
        Kind::Takeover => kernel.is_challenged = true,
        _ => {}
    }
    kernel.met.count(fault.kind);
}

/// A fault ends.
pub fn end(kernel: &mut Kernel, fault: &Fault) {
    let port = fault.port;
    kernel.outside.disturbed = kernel.now;
    match fault.kind {
        Kind::TransmitFull => kernel.armed.transmit_full[port] = false,
        Kind::TransmitSlow => kernel.armed.transmit_slow[port] = 0,
        Kind::CompletionsLate => kernel.armed.completions_late[port] = false,
        Kind::Carrier => kernel.interfaces[port].has_carrier = true,
        Kind::AdminDown => kernel.interfaces[port].is_up = true,
        Kind::Mtu => kernel.interfaces[port].mtu = 1500,
        _ => {}
    }
}

impl Kernel {
    /// An interface is set down by somebody: sockets on it are told of an error.
    fn set_down(&mut self, port: usize) {
        self.interfaces[port].is_up = false;
        if let Some(socket) = &self.interfaces[port].packet {
            socket.borrow().error.set(libc::ENETDOWN);
        }
    }
}
