//! The namespaces of an access network and the wires between them.
//!
//! ```text
//! upload:
//!   home 0 ---- [a] limiter 0 [b] --.
//!   home 1 ---- [a] limiter 1 [b] ---- (bridge, FIFOs) ---- gateway ---- [a] delay [b] ---- server
//!   home 2 ---- [a] limiter 2 [b] --'
//! download:
//!   home 0 --.                                 .-- [b] limiter 0 [a] --.
//!   home 1 ---- (bridge) ---- (FIFOs, bridge) ---- [b] limiter 1 [a] ---- gateway ---- [a] delay [b] ---- server
//!   home 2 --'                                 '-- [b] limiter 2 [a] --'
//! ```
//!
//! A home may have several machines, all on its network: a bridge before the limiter joins them, and for
//! downloads that of the modems.
//!
//! A bridge stands for the modems and the head end: each modem has a FIFO there that nobody manages, and they
//! take turns on the shared link. What probes turn around at, the gateway for uploads and the home for
//! downloads, is Linux as it comes, with routing and a strict reverse path filter on.

use super::Way;
use crate::command::{ip_batch, run};
use crate::error::Result;
use crate::netns::{
    in_netns, next_number, remove_namespace, require_root, set_sysctl, set_sysctl_if_present,
};
use crate::offload;
use crate::owner::Owner;
use weir_units::{Duration, Rate};

/// Most modems.
pub const MODEMS_MAX: u32 = 8;
/// Most machines of a home.
pub const MACHINES_MAX: u32 = 8;
/// The server's address.
pub const SERVER: &str = "10.21.0.2";
/// The gateway's address towards the server.
const GATEWAY: &str = "10.21.0.1";
/// The port behind which the FIFOs of the modems are.
const FIFOS: &str = "fifos";
/// Largest frame without its check sequence.
const FRAME: u32 = 1514;
/// How late the machine may be until the shared link loses what it could have delivered meanwhile. A link
/// that delivers exactly what the limiters send could never drain what waits for that.
const LATE: Duration = Duration::from_millis(10);

/// The address of a machine of a home. Each home has a network of its own.
pub fn home_address(modem: u32, machine: u32) -> String {
    format!("10.20.{modem}.{}", machine + 2)
}

/// The gateway's address towards a home.
pub fn gateway_address(modem: u32) -> String {
    format!("10.20.{modem}.1")
}

/// The namespaces. Removed when dropped.
#[derive(Debug)]
pub struct Wires {
    /// One for each machine of each modem.
    pub homes: Vec<Vec<String>>,
    /// One for each modem, with the ports `a` and `b`.
    pub limiters: Vec<String>,
    /// With the ports `a` and `b`.
    pub delay: String,
    /// Where transfers go.
    pub server: String,
    /// Bridges: the one with the FIFOs, and for downloads the one behind them.
    bridges: Vec<String>,
    /// For uploads, one for each modem: the bridge of its machines, where it has several.
    hubs: Vec<Option<String>>,
    gateway: String,
}

impl Wires {
    /// Builds them, for so many machines behind each modem. If a step fails, what was built so far is
    /// removed.
    pub fn new(machines: &[u32], way: Way, shared: Rate, fifo: u32) -> Result<Wires> {
        require_root("building network namespaces")?;
        let (owner, first) = (Owner::current(), next_number());
        let name = |role: &str| owner.name(role, first);
        let modem = |i: u32| first * MODEMS_MAX + i;
        let modems = || machines.iter().zip(0..);
        let home = |(machines, i): (&u32, u32)| {
            (0..*machines).map(|n| owner.name("hom", modem(i) * MACHINES_MAX + n)).collect()
        };
        let hub = |(machines, i): (&u32, u32)| {
            (*machines > 1 && way == Way::Upload).then(|| owner.name("hub", modem(i)))
        };
        let wires = Wires {
            homes: modems().map(home).collect(),
            limiters: modems().map(|(_, i)| owner.name("lim", modem(i))).collect(),
            hubs: modems().map(hub).collect(),
            delay: name("dly"),
            server: name("srv"),
            bridges: match way {
                Way::Upload => vec![name("mdm")],
                Way::Download => vec![name("cmt"), name("mdm")],
            },
            gateway: name("gwy"),
        };
        wires.build(way, shared, fifo)?;
        Ok(wires)
    }

    fn all(&self) -> impl Iterator<Item = &String> {
        let single = [&self.gateway, &self.delay, &self.server];
        let homes = self.homes.iter().flatten();
        homes.chain(&self.limiters).chain(self.hubs.iter().flatten()).chain(&self.bridges).chain(single)
    }

    fn build(&self, way: Way, shared: Rate, fifo: u32) -> Result<()> {
        for name in self.all() {
            run("ip", &["netns", "add", name])?;
            in_netns(name, || set_sysctl_if_present("ipv6/conf/default/disable_ipv6", "1"))??;
            ip_batch(name, &["link set dev lo up".into()])?;
        }
        for bridge in self.bridges.iter().chain(self.hubs.iter().flatten()) {
            ip_batch(bridge, &["link add name br0 type bridge".into(), "link set dev br0 up".into()])?;
        }
        match way {
            Way::Upload => self.wire_uploads()?,
            Way::Download => self.wire_downloads()?,
        }
        wire(&self.gateway, "wan", &self.delay, "a")?;
        wire(&self.delay, "b", &self.server, "wan")?;
        self.address(way)?;
        self.share(way, shared, fifo)
    }

    fn wire_uploads(&self) -> Result<()> {
        let bridge = &self.bridges[0];
        for (i, (home, limiter)) in self.homes.iter().zip(&self.limiters).enumerate() {
            match &self.hubs[i] {
                None => wire(&home[0], "wan", limiter, "a")?,
                Some(hub) => {
                    wire(hub, "up", limiter, "a")?;
                    join(hub, "up")?;
                    for (n, machine) in home.iter().enumerate() {
                        wire(hub, &format!("h{n}"), machine, "wan")?;
                        join(hub, &format!("h{n}"))?;
                    }
                }
            }
            wire(limiter, "b", bridge, &format!("m{i}"))?;
            join(bridge, &format!("m{i}"))?;
        }
        wire(bridge, FIFOS, &self.gateway, "lan")?;
        join(bridge, FIFOS)
    }

    fn wire_downloads(&self) -> Result<()> {
        let [head_end, modems] = [&self.bridges[0], &self.bridges[1]];
        for (i, (home, limiter)) in self.homes.iter().zip(&self.limiters).enumerate() {
            wire(&self.gateway, &format!("lan{i}"), limiter, "a")?;
            wire(limiter, "b", head_end, &format!("m{i}"))?;
            join(head_end, &format!("m{i}"))?;
            for (n, machine) in home.iter().enumerate() {
                wire(modems, &format!("h{i}m{n}"), machine, "wan")?;
                join(modems, &format!("h{i}m{n}"))?;
            }
        }
        wire(head_end, FIFOS, modems, "up")?;
        join(head_end, FIFOS)?;
        join(modems, "up")
    }

    fn address(&self, way: Way) -> Result<()> {
        let turns: Vec<&String> = match way {
            Way::Upload => vec![&self.gateway],
            Way::Download => self.homes.iter().flatten().chain([&self.gateway]).collect(),
        };
        for router in turns {
            in_netns(router, router_settings)??;
        }
        if way == Way::Download {
            // Its interfaces meet on the head end's bridge: each is to answer for its own address.
            in_netns(&self.gateway, || set_sysctl("ipv4/conf/all/arp_ignore", "1"))??;
        }
        let on = |address: &str, device: &str| format!("addr add {address}/24 dev {device}");
        let via = |gateway: &str| format!("route add default via {gateway}");
        ip_batch(&self.gateway, &[on(GATEWAY, "wan")])?;
        ip_batch(&self.server, &[on(SERVER, "wan"), via(GATEWAY)])?;
        for (i, home) in self.homes.iter().enumerate() {
            let lan = match way {
                Way::Upload => "lan".to_string(),
                Way::Download => format!("lan{i}"),
            };
            let far = gateway_address(i as u32);
            ip_batch(&self.gateway, &[on(&far, &lan)])?;
            for (machine, n) in home.iter().zip(0..) {
                ip_batch(machine, &[on(&home_address(i as u32, n), "wan"), via(&far)])?;
            }
        }
        for host in self.homes.iter().flatten().chain([&self.server]) {
            in_netns(host, end_host_settings)??;
            // Without room there a veth discards what its peer cannot take at once.
            run("tc", &["-n", host, "qdisc", "replace", "dev", "wan", "root", "pfifo", "limit", "1000"])?;
        }
        Ok(())
    }

    /// The shared link: FIFOs of the modems, served in turn.
    fn share(&self, way: Way, shared: Rate, fifo: u32) -> Result<()> {
        let modems = self.homes.len() as u64;
        let (whole, part) = (shared.as_bps(), shared.as_bps() / modems);
        let burst = shared.bytes_in(LATE).get().max(2 * u64::from(FRAME));
        let limits = format!("burst {burst} cburst {burst} quantum {FRAME}");
        let mut lines = vec![
            format!("qdisc add dev {FIFOS} root handle 1: htb default 99"),
            format!(
                "class add dev {FIFOS} parent 1: classid 1:100 htb rate {whole}bit ceil {whole}bit {limits}"
            ),
            // What is no traffic of homes: address resolution.
            format!(
                "class add dev {FIFOS} parent 1:100 classid 1:99 htb rate 64kbit ceil {whole}bit {limits}"
            ),
            format!("qdisc add dev {FIFOS} parent 1:99 pfifo limit 10"),
        ];
        let side = match way {
            Way::Upload => "src",
            Way::Download => "dst",
        };
        for i in 0..self.homes.len() as u32 {
            // The whole network of a home: probes of downloads go to the gateway's address in it.
            let (class, network) = (i + 1, format!("10.20.{i}.0/24"));
            lines.push(format!(
                "class add dev {FIFOS} parent 1:100 classid 1:{class} htb rate {part}bit ceil {whole}bit {limits}"
            ));
            lines.push(format!("qdisc add dev {FIFOS} parent 1:{class} pfifo limit {fifo}"));
            lines.push(format!(
                "filter add dev {FIFOS} parent 1: protocol ip prio 1 u32 match ip {side} {network} flowid 1:{class}"
            ));
        }
        for line in lines {
            let words = ["-n", &self.bridges[0]].into_iter().chain(line.split(' '));
            run("tc", &words.collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        for name in self.all() {
            // A later start removes what is left.
            let _ = remove_namespace(name);
        }
    }
}

/// A port of a bridge.
fn join(bridge: &str, port: &str) -> Result<()> {
    ip_batch(bridge, &[format!("link set dev {port} master br0")])
}

/// A wire between two namespaces, without offloads: the frames on it are those of a real one.
fn wire(near: &str, name: &str, far: &str, peer: &str) -> Result<()> {
    let line = format!(
        "link add name {name} numtxqueues 1 numrxqueues 1 type veth peer name {peer} numtxqueues 1 numrxqueues 1 netns {far}"
    );
    ip_batch(near, &[line, format!("link set dev {name} up")])?;
    ip_batch(far, &[format!("link set dev {peer} up")])?;
    in_netns(near, || offload::disable(name, false))??;
    in_netns(far, || offload::disable(peer, false))?
}

/// Runs inside what routes.
fn router_settings() -> Result<()> {
    set_sysctl("ipv4/ip_forward", "1")?;
    // The larger of the two is in force.
    set_sysctl("ipv4/conf/all/rp_filter", "1")
}

/// Runs inside an end host.
fn end_host_settings() -> Result<()> {
    // As hosts of the paper's time did, connections begin with the slow-start threshold of earlier ones. What
    // is learned goes with the namespace.
    set_sysctl("ipv4/tcp_no_metrics_save", "0")?;
    set_sysctl_if_present("ipv4/tcp_no_ssthresh_metrics_save", "0")?;
    set_sysctl("ipv4/tcp_tw_reuse", "1")?;
    set_sysctl("ipv4/tcp_ecn", "0")
}
