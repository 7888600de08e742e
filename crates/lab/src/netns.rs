//! Three network namespaces in a row, and what is done inside namespaces.

use crate::command::{ip_batch, run};
use crate::error::{Error, Result};
use crate::offload;
use crate::owner::{Name, Owner};
use crate::side::Side;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Where iproute2 keeps the names of namespaces.
const NAMES: &str = "/run/netns";
/// Largest MTU of a testbed.
pub const MAX_MTU: u32 = 9000;

/// The sender's interface, inside its namespace.
pub const SENDER_INTERFACE: &str = "snd0";
/// The receiver's interface, inside its namespace.
pub const RECEIVER_INTERFACE: &str = "rcv0";
/// The bottleneck's port towards the sender.
pub const PORT_A: &str = "a";
/// The bottleneck's port towards the receiver.
pub const PORT_B: &str = "b";
/// Both.
pub const PORTS: [&str; 2] = [PORT_A, PORT_B];

/// Most boxes of a testbed.
pub const BOXES_MAX: u32 = 8;

/// Settings of a testbed.
#[derive(Clone, Debug)]
pub struct TestbedConfig {
    /// Boxes between the end hosts, one behind the other.
    pub boxes: u32,
    /// IPv4 addresses of the receiver beside its own, such as those of other users.
    pub more_receivers: Vec<String>,
    /// Receive and transmit queues at both ends of the link between the sender and port `a`, and of the link
    /// between port `b` and the receiver. With one, a reader of a port sees all packets of it.
    pub queues: [u32; 2],
    /// MTU of all four interfaces, from 576 on; below 1280 the hosts have no IPv6.
    pub mtu: u32,
    /// Whether the end hosts merge packets that they received (GRO). It saves CPU behind the bottleneck and
    /// makes fewer acknowledgements.
    pub gro: bool,
    /// Whether neighbour entries are fixed, so that no ARP and no neighbour solicitation is ever sent.
    pub static_neighbours: bool,
    /// Largest send buffer of a connection in bytes (`tcp_wmem`). A receive buffer is twice as large.
    pub max_buffer: u64,
    /// Most segments that an end host hands to its interface as one (`gso_max_segs`). Without offloads in
    /// the interface, too, the kernel gathers what its pacing rate would send in a millisecond, and cuts
    /// it up last.
    pub burst_segments: u32,
    /// Packets the end hosts' interfaces hold while the bottleneck's port is busy taking packets. Without
    /// room there, a veth drops what its peer cannot take at once, and TCP sees losses that no AQM made.
    pub txqueuelen: u32,
    /// CPUs that do the end hosts' receive work (RPS), as a bit mask for each; 0 leaves it where packets
    /// arrive.
    pub rps_sender: u64,
    /// As `rps_sender`, for the receiver.
    pub rps_receiver: u64,
    /// As `rps_sender`, for both ports of the bottleneck. A veth leaves packets on the CPU of whoever sent
    /// them, and a sender that moves between CPUs thereby reorders its packets; a port that is read by
    /// native XDP has a queue of its own and needs nothing.
    pub rps_ports: u64,
}

impl Default for TestbedConfig {
    fn default() -> TestbedConfig {
        TestbedConfig {
            boxes: 1,
            more_receivers: Vec::new(),
            queues: [1, 1],
            mtu: 1500,
            gro: false,
            static_neighbours: true,
            max_buffer: 128 << 20,
            burst_segments: 1,
            txqueuelen: 1000,
            rps_sender: 0,
            rps_receiver: 0,
            rps_ports: 0,
        }
    }
}

/// The smallest MTU with IPv6 (RFC 8200 section 5).
const IPV6_MTU_MIN: u32 = 1280;

impl TestbedConfig {
    /// The window that receivers offer: a quarter of their buffers, so that it stays the same while data
    /// waits for a program, and that the kernel acknowledges when data arrives and not when it is read.
    pub fn receive_window(&self) -> u32 {
        (self.max_buffer / 2) as u32
    }

    /// Whether the end hosts have IPv6, which needs packets of 1280 bytes (RFC 8200 section 5).
    fn has_ipv6(&self) -> bool {
        self.mtu >= IPV6_MTU_MIN
    }
}

/// Sender, bottleneck and receiver, each a network namespace of its own:
///
/// ```text
///   sender [snd0] ---- [a] bottleneck [b] ---- [rcv0] receiver
/// ```
///
/// There may be several bottlenecks, each port `b` wired to port `a` of the next. Their ports have no
/// addresses and send nothing by themselves. Everything is removed when the testbed is dropped;
/// [`Testbed::close`] does the same and tells what went wrong.
#[derive(Debug)]
pub struct Testbed {
    sender: String,
    /// From the sender to the receiver.
    boxes: Vec<String>,
    receiver: String,
    config: TestbedConfig,
    open: bool,
}

/// Packets lost between an end host and a port of the bottleneck since the testbed was built. No queue that
/// is managed lost them: the machine was too slow to take them (`netdev_max_backlog`, or a full ring).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireLosses {
    /// From the sender to port `a`.
    pub sender_to_a: u64,
    /// From port `b` to the receiver.
    pub b_to_receiver: u64,
    /// Between two boxes, in both directions.
    pub between_boxes: u64,
    /// From the receiver to port `b`.
    pub receiver_to_b: u64,
    /// From port `a` to the sender.
    pub a_to_sender: u64,
}

impl WireLosses {
    /// What to tell a reader of the measurements; `None` if nothing was lost.
    pub fn warning(&self) -> Option<String> {
        (self.total() > 0).then(|| {
            format!(
                "the machine lost {} packets outside of the bottleneck ({} to port a, {} from port b, {} on the \
                 way back, {} between boxes): use a lower rate or fewer flows, keep other programs away, or raise \
                 net.core.netdev_max_backlog",
                self.total(),
                self.sender_to_a,
                self.b_to_receiver,
                self.receiver_to_b + self.a_to_sender,
                self.between_boxes
            )
        })
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.sender_to_a + self.b_to_receiver + self.receiver_to_b + self.a_to_sender + self.between_boxes
    }
}

/// Addresses of one end host. Connections to the `ecn` addresses ask for ECN, those to the others do not:
/// the routes say so, which lets flows with and without ECN share a testbed.
struct EndHost {
    interface: &'static str,
    mac: &'static str,
    v4: &'static str,
    v4_ecn: &'static str,
    v6: &'static str,
    v6_ecn: &'static str,
}

const SENDER: EndHost = EndHost {
    interface: SENDER_INTERFACE,
    mac: "02:77:00:00:00:01",
    v4: "10.77.0.1",
    v4_ecn: "10.77.0.11",
    v6: "fd77::1",
    v6_ecn: "fd77::11",
};

const RECEIVER: EndHost = EndHost {
    interface: RECEIVER_INTERFACE,
    mac: "02:77:00:00:00:02",
    v4: "10.77.0.2",
    v4_ecn: "10.77.0.12",
    v6: "fd77::2",
    v6_ecn: "fd77::12",
};

/// Address of an end host that connections of a kind go to.
pub fn address(side: Side, ipv6: bool, ecn: bool) -> &'static str {
    let host = match side {
        Side::Sender => &SENDER,
        Side::Receiver => &RECEIVER,
    };
    match (ipv6, ecn) {
        (false, false) => host.v4,
        (false, true) => host.v4_ecn,
        (true, false) => host.v6,
        (true, true) => host.v6_ecn,
    }
}

/// Address on the link of an end host.
pub(crate) fn link_address(side: Side) -> &'static str {
    match side {
        Side::Sender => SENDER.mac,
        Side::Receiver => RECEIVER.mac,
    }
}

impl Testbed {
    /// Builds a testbed. If a step fails, what was built so far is removed.
    pub fn new(config: TestbedConfig) -> Result<Testbed> {
        require_root("building network namespaces")?;
        check_config(&config)?;
        let (owner, number) = (Owner::current(), next_number());
        let mut testbed = Testbed {
            sender: owner.name("snd", number),
            boxes: std::iter::once(owner.name("bot", number))
                .chain((1..config.boxes).map(|i| owner.name("box", number * BOXES_MAX + i)))
                .collect(),
            receiver: owner.name("rcv", number),
            config,
            open: true,
        };
        // On failure `testbed` is dropped here, which removes what there is.
        testbed.build()?;
        Ok(testbed)
    }

    /// Name of the sender's namespace.
    pub fn sender(&self) -> &str {
        &self.sender
    }

    /// Name of the bottleneck's namespace, which has the ports [`PORT_A`] and [`PORT_B`].
    pub fn bottleneck(&self) -> &str {
        &self.boxes[0]
    }

    /// Names of the namespaces of all boxes, from the sender to the receiver.
    pub fn boxes(&self) -> &[String] {
        &self.boxes
    }

    /// Name of the receiver's namespace.
    pub fn receiver(&self) -> &str {
        &self.receiver
    }

    /// Name of the namespace of an end host.
    pub fn namespace(&self, side: Side) -> &str {
        match side {
            Side::Sender => &self.sender,
            Side::Receiver => &self.receiver,
        }
    }

    /// The settings it was built with.
    pub fn config(&self) -> &TestbedConfig {
        &self.config
    }

    /// Checks that both end hosts can use a congestion control, loading its module where the kernel can.
    pub fn require_congestion(&self, name: &str) -> Result<()> {
        in_netns(&self.sender, || require_congestion(name))?
    }

    /// Packets that the machine lost outside of the bottleneck. A run in which there are some did not measure
    /// the bottleneck alone.
    pub fn wire_losses(&self) -> Result<WireLosses> {
        let (first, last) = (&self.boxes[0], self.last());
        let inner = self
            .boxes
            .windows(2)
            .map(|pair| Ok(transmit_drops(&pair[0], PORT_B)? + transmit_drops(&pair[1], PORT_A)?));
        Ok(WireLosses {
            sender_to_a: transmit_drops(&self.sender, SENDER_INTERFACE)?,
            b_to_receiver: transmit_drops(last, PORT_B)?,
            between_boxes: inner.sum::<Result<u64>>()?,
            receiver_to_b: transmit_drops(&self.receiver, RECEIVER_INTERFACE)?,
            a_to_sender: transmit_drops(first, PORT_A)?,
        })
    }

    /// Removes the namespaces and everything in them, and ends the processes inside.
    pub fn close(mut self) -> Result<()> {
        self.remove()
    }

    fn build(&mut self) -> Result<()> {
        for name in self.boxes.iter().chain([&self.sender, &self.receiver]) {
            run("ip", &["netns", "add", name])?;
        }
        self.link(&SENDER, PORT_A, &self.boxes[0])?;
        self.link(&RECEIVER, PORT_B, self.last())?;
        for pair in self.boxes.windows(2) {
            self.wire(&pair[0], &pair[1])?;
        }
        for name in &self.boxes {
            in_netns(name, prepare_bottleneck)??;
            ip_batch(name, &ports_up(&self.config))?;
            for port in PORTS {
                set_rps_unless_zero(name, port, self.config.rps_ports)?;
            }
        }
        self.prepare_end_host(Side::Sender, &SENDER, &RECEIVER)?;
        self.prepare_end_host(Side::Receiver, &RECEIVER, &SENDER)
    }

    fn last(&self) -> &str {
        self.boxes.last().expect("there is one box at least")
    }

    /// Joins port `b` of a box to port `a` of the next.
    fn wire(&self, near: &str, far: &str) -> Result<()> {
        let TestbedConfig { mtu, txqueuelen, .. } = self.config;
        let queues = "numtxqueues 1 numrxqueues 1";
        let line = format!(
            "link add name {PORT_B} mtu {mtu} txqueuelen {txqueuelen} {queues} type veth peer name {PORT_A} mtu {mtu} \
             {queues} netns {far}"
        );
        ip_batch(near, &[line])
    }

    /// Makes a veth pair right inside the namespaces, so that nothing is left in the root namespace.
    fn link(&self, host: &EndHost, port: &str, place: &str) -> Result<()> {
        let namespace = if host.interface == SENDER_INTERFACE { &self.sender } else { &self.receiver };
        let TestbedConfig { mtu, txqueuelen, burst_segments, .. } = self.config;
        let queues = self.config.queues[usize::from(port == PORT_B)];
        let queues = format!("numtxqueues {queues} numrxqueues {queues}");
        let line = format!(
            "link add name {} address {} mtu {mtu} txqueuelen {txqueuelen} {queues} gso_max_segs {burst_segments} type \
             veth peer name {port} mtu {mtu} {queues} netns {}",
            host.interface, host.mac, place
        );
        ip_batch(namespace, &[line])
    }

    fn prepare_end_host(&self, side: Side, host: &'static EndHost, peer: &EndHost) -> Result<()> {
        let namespace = self.namespace(side);
        let config = self.config.clone();
        let rps = if side == Side::Sender { config.rps_sender } else { config.rps_receiver };
        in_netns(namespace, || {
            set_end_host_sysctls(host.interface, &config)?;
            offload::disable(host.interface, config.gro)
        })??;
        ip_batch(namespace, &end_host_lines(host, peer, &config))?;
        ip_batch(namespace, &more_receivers_lines(side, host, peer, &config))?;
        run("tc", &["-n", namespace, "qdisc", "replace", "dev", host.interface, "root", "pfifo"])?;
        set_rps_unless_zero(namespace, host.interface, rps)
    }

    fn remove(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.open, false) {
            return Ok(());
        }
        let mut result = Ok(());
        for name in self.boxes.iter().chain([&self.sender, &self.receiver]) {
            // One that fails must not keep the others.
            result = result.and(remove_namespace(name).map(|_| ()));
        }
        result
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`; a later start removes what is left.
        let _ = self.remove();
    }
}

/// Packets that an interface could not hand to its peer: a veth counts them where they were sent.
fn transmit_drops(namespace: &str, interface: &str) -> Result<u64> {
    let text = in_netns(namespace, || fs::read_to_string("/proc/thread-self/net/dev"))?
        .map_err(|e| Error::system(format!("read the counters of `{interface}`"), e))?;
    transmit_drops_in(&text, interface)
        .ok_or_else(|| Error::invalid(format!("`{interface}` has no counters"), "keep it in the testbed"))
}

/// Finds the counter in the text of `/proc/net/dev`: eight receive columns, then bytes, packets, errors,
/// drops.
fn transmit_drops_in(text: &str, interface: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().nth(11)?.parse().ok()
}

pub(crate) fn next_number() -> u32 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

fn check_config(config: &TestbedConfig) -> Result<()> {
    // Linux keeps paths of IPv4 at 552 bytes or more (`net.ipv4.route.min_pmtu`).
    if !(576..=MAX_MTU).contains(&config.mtu) {
        return Err(Error::invalid(
            format!("an MTU of {} cannot be used in the testbed", config.mtu),
            format!("choose one from 576 to {MAX_MTU}"),
        ));
    }
    if !(1..=BOXES_MAX).contains(&config.boxes) {
        return Err(Error::invalid(
            format!("{} boxes cannot stand between the end hosts", config.boxes),
            format!("choose 1 to {BOXES_MAX}"),
        ));
    }
    if config.burst_segments == 0 {
        return Err(Error::invalid("a burst of no segments cannot be sent", "choose one segment or more"));
    }
    if !((1 << 20)..(1 << 30)).contains(&config.max_buffer) {
        return Err(Error::invalid(
            format!("socket buffers of {} bytes cannot be used", config.max_buffer),
            "choose from 1 MiB to less than 1 GiB",
        ));
    }
    Ok(())
}

fn ports_up(config: &TestbedConfig) -> Vec<String> {
    let mut lines = vec!["link set lo up".to_string()];
    for port in PORTS {
        lines.extend(no_link_local(port, config));
        lines.push(format!("link set dev {port} up"));
    }
    lines
}

/// Keeps an interface from giving itself a link-local address: then no router solicitation crosses the
/// bottleneck. One without IPv6 has no such setting.
fn no_link_local(dev: &str, config: &TestbedConfig) -> Option<String> {
    config.has_ipv6().then(|| format!("link set dev {dev} addrgenmode none"))
}

fn end_host_lines(host: &EndHost, peer: &EndHost, config: &TestbedConfig) -> Vec<String> {
    let (dev, window) = (host.interface, config.receive_window());
    let mut lines = vec!["link set lo up".to_string()];
    lines.extend(no_link_local(dev, config));
    lines.extend([
        format!("link set dev {dev} up"),
        format!("addr add {}/24 dev {dev}", host.v4),
        format!("addr add {}/32 dev {dev}", host.v4_ecn),
        format!("route add {}/32 dev {dev} src {} window {window}", peer.v4, host.v4),
        format!("route add {}/32 dev {dev} src {} window {window} features ecn", peer.v4_ecn, host.v4),
    ]);
    let mut neighbours = vec![peer.v4, peer.v4_ecn];
    if config.has_ipv6() {
        lines.extend([
            format!("addr add {}/64 dev {dev} nodad", host.v6),
            format!("addr add {}/128 dev {dev} nodad", host.v6_ecn),
            format!("route add {}/128 dev {dev} src {} window {window}", peer.v6, host.v6),
            format!("route add {}/128 dev {dev} src {} window {window} features ecn", peer.v6_ecn, host.v6),
        ]);
        neighbours.extend([peer.v6, peer.v6_ecn]);
    }
    if config.static_neighbours {
        let neighbour = |a: &str| format!("neigh replace {a} lladdr {} nud permanent dev {dev}", peer.mac);
        lines.extend(neighbours.into_iter().map(neighbour));
    }
    lines
}

/// Addresses of other users at the receiver, and the way of the sender to them.
fn more_receivers_lines(side: Side, host: &EndHost, peer: &EndHost, config: &TestbedConfig) -> Vec<String> {
    let (dev, window) = (host.interface, config.receive_window());
    let each = config.more_receivers.iter();
    match side {
        Side::Receiver => each.map(|address| format!("addr add {address}/32 dev {dev}")).collect(),
        Side::Sender => each
            .flat_map(|address| {
                [
                    format!("route add {address}/32 dev {dev} src {} window {window}", host.v4),
                    format!("neigh replace {address} lladdr {} nud permanent dev {dev}", peer.mac),
                ]
            })
            .collect(),
    }
}

/// Runs inside the bottleneck: its ports stay silent.
fn prepare_bottleneck() -> Result<()> {
    for port in PORTS {
        set_sysctl_if_present(&format!("ipv6/conf/{port}/disable_ipv6"), "1")?;
        offload::disable(port, false)?;
    }
    Ok(())
}

/// Runs inside an end host.
fn set_end_host_sysctls(interface: &str, config: &TestbedConfig) -> Result<()> {
    let max = config.max_buffer;
    // Windows start at their full size, which the routes say: while a window grows, Linux acknowledges every
    // segment and not every second one.
    let receive = 2 * max;
    set_sysctl("ipv4/tcp_rmem", &format!("4096 {receive} {receive}"))?;
    // The default lets a connection start with room for 4 MiB; autotuning follows the window from there.
    set_sysctl("ipv4/tcp_wmem", &format!("4096 4194304 {max}"))?;
    // Runs must not learn from each other.
    set_sysctl("ipv4/tcp_no_metrics_save", "1")?;
    // Repeated transfers must not run out of ports.
    set_sysctl("ipv4/tcp_tw_reuse", "1")?;
    // Accept ECN, ask for it only where the route says so.
    set_sysctl("ipv4/tcp_ecn", "2")?;
    // Only connections without a choice of their own use this, such as the control connections of iperf3.
    set_sysctl("ipv4/tcp_congestion_control", "cubic")
        .or_else(|_| set_sysctl("ipv4/tcp_congestion_control", "reno"))?;
    for (key, value) in [("accept_ra", "0"), ("router_solicitations", "0"), ("accept_dad", "0")] {
        set_sysctl_if_present(&format!("ipv6/conf/{interface}/{key}"), value)?;
    }
    Ok(())
}

/// Writes a key below `/proc/sys/net` of the current namespace.
pub(crate) fn set_sysctl(key: &str, value: &str) -> Result<()> {
    fs::write(format!("/proc/sys/net/{key}"), value)
        .map_err(|e| Error::system(format!("set net/{key} to `{value}`"), e))
}

/// As [`set_sysctl`], but a key that the kernel does not have (IPv6 may be off) is left out.
pub(crate) fn set_sysctl_if_present(key: &str, value: &str) -> Result<()> {
    let present = fs::exists(format!("/proc/sys/net/{key}")).unwrap_or(false);
    if present { set_sysctl(key, value) } else { Ok(()) }
}

/// Checks in the current namespace by using it: this also loads its module where the kernel can.
pub(crate) fn require_congestion(name: &str) -> Result<()> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
        .map_err(|e| Error::system("open a TCP socket", e))?;
    socket.set_tcp_congestion(name.as_bytes()).map_err(|e| match e.raw_os_error() {
        Some(libc::ENOENT) => Error::Congestion { name: name.into(), available: available_congestion() },
        _ => Error::system(format!("use congestion control `{name}`"), e),
    })
}

/// The congestion controls of this kernel, separated by blanks.
pub(crate) fn available_congestion() -> String {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .map_or_else(|_| "(unknown)".into(), |text| text.trim().to_string())
}

/// Lets the CPUs in `mask` do the receive work of an interface in a namespace (RPS); 0 switches it off.
pub fn set_rps(namespace: &str, interface: &str, mask: u64) -> Result<()> {
    in_netns(namespace, || {
        // sysfs shows the interfaces of the namespace it was mounted in: this thread gets a /sys of its own.
        mount_own_sysfs()?;
        let file = format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus");
        // The kernel reads groups of 32 bits that are separated by commas.
        let text = format!("{:x},{:08x}", mask >> 32, mask & 0xffff_ffff);
        let text = text.strip_prefix("0,").unwrap_or(&text);
        fs::write(&file, text)
            .map_err(|e| Error::system(format!("set RPS of `{interface}` in `{namespace}` to {text}"), e))
    })?
}

fn set_rps_unless_zero(namespace: &str, interface: &str, mask: u64) -> Result<()> {
    if mask != 0 { set_rps(namespace, interface, mask) } else { Ok(()) }
}

/// Gives the calling thread a mount namespace with a sysfs of its network namespace.
fn mount_own_sysfs() -> Result<()> {
    // SAFETY: a plain integer. Only this thread leaves the mount namespace.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } < 0 {
        return Err(Error::last("make a mount namespace"));
    }
    let mount = |source: &std::ffi::CStr, target: &std::ffi::CStr, kind: &std::ffi::CStr, flags| {
        // SAFETY: three strings that end in NUL and live through the call; no data.
        let result =
            unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) };
        if result < 0 { Err(Error::last(format!("mount {target:?}"))) } else { Ok(()) }
    };
    // Nothing done here may reach the machine's mounts.
    mount(c"none", c"/", c"none", libc::MS_REC | libc::MS_SLAVE)?;
    mount(c"sysfs", c"/sys", c"sysfs", 0)
}

/// Runs `f` on a new thread inside the namespace `name` and returns its value. A panic of `f` goes on here.
pub fn in_netns<T: Send>(name: &str, f: impl FnOnce() -> T + Send) -> Result<T> {
    let namespace = open_namespace(name)?;
    std::thread::scope(|scope| {
        let mut thread = std::thread::Builder::new();
        // What it says as it panics names its caller, as one of several tests.
        if let Some(caller) = std::thread::current().name() {
            thread = thread.name(caller.into());
        }
        let thread = thread.spawn_scoped(scope, || enter(&namespace, name).map(|()| f()));
        let thread = thread.map_err(|e| Error::system("start a thread", e))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Moves the calling thread into a namespace, for good.
pub(crate) fn enter_netns(name: &str) -> Result<()> {
    enter(&open_namespace(name)?, name)
}

fn enter(namespace: &OwnedFd, name: &str) -> Result<()> {
    // SAFETY: an open descriptor; the kernel checks that it is a network namespace. Threads have theirs each.
    if unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } < 0 {
        return Err(Error::last(format!("enter the namespace `{name}`")));
    }
    Ok(())
}

/// Opens a namespace by its name.
pub(crate) fn open_namespace(name: &str) -> Result<OwnedFd> {
    let file = File::open(namespace_file(name))
        .map_err(|e| Error::system(format!("open the namespace `{name}`"), e))?;
    Ok(file.into())
}

fn namespace_file(name: &str) -> PathBuf {
    PathBuf::from(NAMES).join(name)
}

/// What needs root of every lab.
pub(crate) const LAB: &str = "a lab of network namespaces";

pub(crate) fn require_root(what: &str) -> Result<()> {
    if crate::host::is_root() { Ok(()) } else { Err(Error::NotRoot { what: what.into() }) }
}

/// A namespace that a killed program left.
#[derive(Debug)]
pub struct Stale {
    /// Its name.
    pub name: String,
    /// Processes inside that had to be ended, if it could be removed.
    pub removed: Result<Vec<u32>>,
}

/// Removes the namespaces whose owner no longer runs, with their interfaces and processes. One that cannot be
/// removed keeps neither the others nor whoever asks from going on.
///
/// Owners are looked up among the processes seen from here: programs in other PID namespaces that share
/// `/run/netns` would seem dead.
pub fn clean_stale() -> Result<Vec<Stale>> {
    let names = stale_namespaces()?;
    if !names.is_empty() {
        require_root("removing network namespaces of an earlier run")?;
    }
    let remove = |name: String| Stale { removed: remove_namespace(&name), name };
    Ok(names.into_iter().map(remove).collect())
}

/// Names of the namespaces that [`clean_stale`] would remove.
pub fn stale_namespaces() -> Result<Vec<String>> {
    let stale = |name: &String| Name::parse(name).is_some_and(|n| !n.owner.is_alive());
    Ok(namespaces()?.into_iter().filter(stale).collect())
}

/// Names of all network namespaces of this machine.
pub fn namespaces() -> Result<Vec<String>> {
    let entries = match fs::read_dir(NAMES) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|e| Error::system(format!("list {NAMES}"), e))?,
    };
    let mut names: Vec<String> = entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// Removes a namespace, if it exists; returns the processes it ended.
pub(crate) fn remove_namespace(name: &str) -> Result<Vec<u32>> {
    if !namespace_file(name).exists() {
        return Ok(Vec::new());
    }
    let ended = end_processes(name);
    // The kernel removes a namespace some time after its last use. Its interfaces (and their peers) are
    // removed at once, so that a name that is gone leaves nothing behind that could still carry packets.
    for interface in [SENDER_INTERFACE, RECEIVER_INTERFACE, PORT_A, PORT_B] {
        let _ = run("ip", &["-n", name, "link", "del", "dev", interface]);
    }
    run("ip", &["netns", "del", name])?;
    Ok(ended)
}

/// Kills the processes inside a namespace, except this one, and waits shortly for their end.
fn end_processes(name: &str) -> Vec<u32> {
    let ended = processes_in(name);
    for &pid in &ended {
        kill_in(name, pid);
    }
    let deadline = Instant::now() + Duration::from_secs(1);
    while !processes_in(name).is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    ended
}

/// Processes inside a namespace, except this one.
pub fn processes_in(name: &str) -> Vec<u32> {
    let Some(wanted) = identity(namespace_file(name)) else { return Vec::new() };
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter(|&pid: &u32| pid != std::process::id() && pid != 1)
        .filter(|pid| identity(PathBuf::from(format!("/proc/{pid}/ns/net"))) == Some(wanted))
        .collect()
}

fn identity(file: PathBuf) -> Option<(u64, u64)> {
    fs::metadata(file).ok().map(|m| (m.dev(), m.ino()))
}

/// Kills a process through a descriptor of it, so that another one that got its id meanwhile is spared.
fn kill_in(name: &str, pid: u32) {
    // SAFETY: plain integers; the result is checked before use.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return;
    }
    // SAFETY: `fd` was just opened and has no other owner.
    let pidfd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    if !processes_in(name).contains(&pid) {
        return;
    }
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: an open descriptor, a signal, no extra information, no flags.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), libc::SIGKILL, no_info, 0) };
}

/// A single namespace for checks, removed when dropped.
pub(crate) struct Scratch(String);

impl Scratch {
    pub fn new() -> Result<Scratch> {
        require_root("building network namespaces")?;
        let name = Owner::current().name("chk", next_number());
        run("ip", &["netns", "add", &name])?;
        Ok(Scratch(name))
    }

    pub fn name(&self) -> &str {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = remove_namespace(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_read_from_their_column() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes    packets errs drop\n    lo:   1 2 3 4 5 6 7 8 9 10 11 12\n\
                    ab: 1 2 3 4 5 6 7 8 9 10 11 99 13\n     a:100 2 3 4 5 6 7 8 9 10 11 42 13 14 15 16\n";
        assert_eq!(transmit_drops_in(text, "a"), Some(42));
        assert_eq!(transmit_drops_in(text, "b"), None);
        assert_eq!(transmit_drops_in("a: 1 2 3", "a"), None);
    }

    #[test]
    fn a_congestion_control_that_the_kernel_lacks_is_told_with_those_that_it_has() {
        let told = require_congestion("none").unwrap_err().to_string();
        assert!(told.contains("`none` is not in this kernel, which has: "), "{told}");
    }

    #[test]
    fn losses_are_told_only_if_there_are_any() {
        assert_eq!(WireLosses::default().warning(), None);
        let losses = WireLosses { b_to_receiver: 3, a_to_sender: 4, ..WireLosses::default() };
        assert!(losses.warning().unwrap().contains("lost 7 packets"), "{losses:?}");
    }

    #[test]
    fn impossible_settings_are_refused_with_a_remedy() {
        let config = |mtu, max_buffer| TestbedConfig { mtu, max_buffer, ..TestbedConfig::default() };
        assert!(check_config(&config(575, 64 << 20)).unwrap_err().to_string().contains("from 576"));
        assert!(check_config(&config(9001, 64 << 20)).is_err());
        assert!(check_config(&config(1500, 1000)).unwrap_err().to_string().contains("1 MiB"));
        assert!(check_config(&config(9000, 64 << 20)).is_ok());
        // Below what IPv6 needs the hosts have IPv4 alone.
        let six = |mtu| {
            let config = config(mtu, 64 << 20);
            assert!(check_config(&config).is_ok());
            let lines = end_host_lines(&SENDER, &RECEIVER, &config);
            lines.iter().filter(|line| line.contains("fd77") || line.contains("addrgenmode")).count()
        };
        assert_eq!((six(1000), six(1279)), (0, 0));
        assert!(six(1280) > 0);
        let none = TestbedConfig { burst_segments: 0, ..TestbedConfig::default() };
        assert!(check_config(&none).unwrap_err().to_string().contains("one segment"));
    }
}
