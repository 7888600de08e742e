//! Network namespaces and the cables between them.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use weir_upf::plane::{PlaneSetup, PortSetup};

/// The plane's address to base stations.
pub const N3: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The base station.
pub const STATION: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

/// Another user-plane function on the same network, to which N9 leads.
pub const ANCHOR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 3);
/// A server in the data network behind that.
pub const FAR: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);

/// The same over IPv6.
pub const N3_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
/// See [`N3_V6`].
pub const STATION_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Three namespaces or up to five, which go with it.
pub struct World {
    pub ran: String,
    pub upf: String,
    pub dn: String,
    /// The data network at the port for local breakout.
    pub edge: Option<String>,
    /// Another user-plane function, and the data network behind it.
    pub anchor: Option<[String; 2]>,
}

/// A program, also where only administrators would find it.
pub fn command(program: &str) -> Command {
    Command::new(crate::skipped::find(program).unwrap_or_else(|| program.into()))
}

fn run(program: &str, arguments: &str) {
    let output = command(program).args(arguments.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{program} {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Does something in a network namespace, on a thread of its own.
pub fn inside<T: Send>(name: &str, action: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let namespace = File::open(format!("/run/netns/{name}")).unwrap();
            // SAFETY: the descriptor is open; only this thread changes its namespace.
            let code = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
            assert_eq!(code, 0, "setns: {}", std::io::Error::last_os_error());
            action()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl World {
    /// `None` where it cannot be made, which is said.
    pub fn new() -> Option<World> {
        if !crate::skipped::can_run_live(&["ip", "ethtool"]) {
            return None;
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = |what: &str| format!("weir-upf-{}-{number}-{what}", std::process::id());
        let world = World { ran: name("ran"), upf: name("upf"), dn: name("dn"), edge: None, anchor: None };
        for name in world.names() {
            run("ip", &format!("netns add {name}"));
            run("ip", &format!("-n {name} link set dev lo up"));
        }
        world.cable(&world.ran, "g0", &world.upf, "n3");
        world.cable(&world.dn, "d0", &world.upf, "n6");
        run("ip", &format!("-n {} address add {STATION}/24 dev g0", world.ran));
        world.address_dn();
        Some(world)
    }

    /// With IPv6 between base station and plane, and a data network beside the other.
    pub fn with_edge(mut self) -> World {
        let edge = self.dn.replace("-dn", "-edge");
        run("ip", &format!("netns add {edge}"));
        self.edge = Some(edge.clone());
        self.cable(&edge, "e0", &self.upf, "n6l");
        run("ip", &format!("-n {edge} address add 10.9.0.9/24 dev e0"));
        run("ip", &format!("-n {edge} route add 10.45.0.0/16 via 10.9.0.1"));
        run("ip", &format!("-n {} address add {STATION_V6}/64 dev g0 nodad", self.ran));
        self
    }

    /// With another user-plane function on the network of the base station, and a data network behind it.
    pub fn with_anchor(mut self) -> World {
        let [anchor, far] = ["-anchor", "-far"].map(|what| self.dn.replace("-dn", what));
        for name in [&anchor, &far] {
            run("ip", &format!("netns add {name}"));
        }
        self.anchor = Some([anchor.clone(), far.clone()]);
        // The base station's address moves to a bridge, to which both functions are connected.
        run("ip", &format!("-n {} link add net type bridge", self.ran));
        run("ip", &format!("-n {} address delete {STATION}/24 dev g0", self.ran));
        self.cable(&self.ran, "g1", &anchor, "n3");
        for port in ["g0", "g1"] {
            run("ip", &format!("-n {} link set dev {port} master net", self.ran));
        }
        run("ip", &format!("-n {} link set dev net up", self.ran));
        run("ip", &format!("-n {} address add {STATION}/24 dev net", self.ran));
        self.cable(&far, "d1", &anchor, "n6");
        run("ip", &format!("-n {far} address add {FAR}/24 dev d1"));
        run("ip", &format!("-n {far} route add 10.45.0.0/16 via 198.51.100.1"));
        self
    }

    /// Changes the MTU of a port.
    pub fn set_mtu(&self, port: &str, mtu: u32) {
        run("ip", &format!("-n {} link set dev {port} mtu {mtu}", self.upf));
    }

    /// Takes the port to the data network away, with its cable.
    pub fn take_n6_away(&self) {
        run("ip", &format!("-n {} link delete dev n6", self.upf));
    }

    /// Puts another in its place.
    pub fn bring_n6_back(&self) {
        self.cable(&self.dn, "d0", &self.upf, "n6");
        self.address_dn();
    }

    fn address_dn(&self) {
        run("ip", &format!("-n {} address add 203.0.113.9/24 dev d0", self.dn));
        run("ip", &format!("-n {} route add 10.45.0.0/16 via 203.0.113.1", self.dn));
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        [&self.ran, &self.upf, &self.dn].into_iter().chain(&self.edge).chain(self.anchor.iter().flatten())
    }

    fn cable(&self, one: &str, name: &str, other: &str, other_name: &str) {
        run(
            "ip",
            &format!(
                "link add {name} netns {one} mtu 1600 type veth peer name {other_name} netns {other} mtu 1600"
            ),
        );
        run("ip", &format!("netns exec {one} ethtool -K {name} tx off"));
        run("ip", &format!("-n {one} link set dev {name} addrgenmode none"));
        run("ip", &format!("-n {one} link set dev {name} up"));
        run("ip", &format!("-n {other} link set dev {other_name} up"));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for name in self.names() {
            let _ = command("ip").args(["netns", "delete", name]).output();
        }
    }
}

fn port(name: &str, address: impl Into<IpAddr>) -> PortSetup {
    PortSetup {
        name: name.into(),
        addresses: vec![(address.into(), 24)],
        gateways: vec![],
        neighbours: vec![],
        rate: None,
    }
}

/// Neighbours are asked for; queues are those of which nothing is said.
pub fn setup() -> PlaneSetup {
    let core = port("n6", Ipv4Addr::new(203, 0, 113, 1));
    let mut setup = PlaneSetup::new(port("n3", N3), core, 7);
    (setup.sessions, setup.queues, setup.learners, setup.packets) = (16, 16, 4, 16_384);
    setup
}

/// The same of the other user-plane function.
pub fn setup_of_anchor() -> PlaneSetup {
    let mut setup = setup();
    setup.access = port("n3", ANCHOR);
    setup.core = port("n6", Ipv4Addr::new(198, 51, 100, 1));
    setup
}

/// The same for a world with an edge.
pub fn setup_with_edge() -> PlaneSetup {
    let mut setup = setup();
    setup.access.addresses.push((N3_V6.into(), 64));
    setup.local = Some(port("n6l", Ipv4Addr::new(10, 9, 0, 1)));
    setup
}
