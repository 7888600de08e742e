//! The table that says how the queue below IP is measured: probes, and where they turn around.

use crate::errors::{Wrong, quoted};
use crate::problems::Problems;
use crate::schema::{Check, Flat, Here, Range, Scalar, absent, or, required, such, within, wrong_type};
use crate::sensed_rate::SensedRate;
use crate::tree::{Node, quote};
use std::net::IpAddr;
use weir_aqm::Share;
use weir_units::Duration;

choices! {
    /// One of the two ports.
    pub enum PortName {
        /// The first.
        A = "a",
        /// The second.
        B = "b",
    }
}

choices! {
    /// What turns probes around.
    pub enum SenseMode {
        /// The gateway, whatever it is: probes are addressed to their own sender and given to the gateway,
        /// which routes them back.
        Bounce = "bounce",
        /// A host that runs `weir reflect`.
        Reflector = "reflector",
        /// A host that answers ICMP echo requests.
        Icmp = "icmp",
    }
}

/// The address of a network card.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MacAddress(pub [u8; 6]);

impl std::str::FromStr for MacAddress {
    type Err = ();

    fn from_str(text: &str) -> Result<MacAddress, ()> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let is_pair = |part: &&str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
            let part = parts.next().filter(is_pair).ok_or(())?;
            *byte = u8::from_str_radix(part, 16).map_err(drop)?;
        }
        if parts.next().is_none() { Ok(MacAddress(bytes)) } else { Err(()) }
    }
}

impl std::fmt::Display for MacAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Reads a text that has a form of its own.
pub(crate) fn parsed<T: Scalar + std::str::FromStr>(node: &Node, what: &str) -> Result<T, Wrong> {
    let Node::Text(text) = node else { return Err(wrong_type::<T>(node)) };
    text.parse()
        .map_err(|_| Wrong::new(format!("{} is no {what}", quoted(text)), format!("write {}", T::kind())))
}

impl Scalar for MacAddress {
    fn kind() -> String {
        "the address of a network card such as \"02:00:5e:10:00:01\"".to_string()
    }
    fn read(node: &Node) -> Result<Self, Wrong> {
        parsed(node, "address of a network card")
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Scalar for IpAddr {
    fn kind() -> String {
        "an IP address such as \"192.0.2.1\"".to_string()
    }
    fn read(node: &Node) -> Result<Self, Wrong> {
        parsed(node, "IP address")
    }
    fn show(&self) -> String {
        self.to_string()
    }
    fn literal(&self) -> String {
        quote(&self.to_string())
    }
}

section! {
    /// Probes in the queue of one direction, which measure all queues up to where they turn around.
    pub struct SenseConfig {
        /// Port that faces the gateway. The queue of what leaves there is sensed; probes leave and return
        /// there.
        port: PortName = required(Range::Any);
        /// What turns probes around: "bounce" needs nothing but a gateway that forwards; "reflector" a host
        /// that runs `weir reflect`; "icmp" a host that answers echo requests.
        mode: SenseMode = or(SenseMode::Bounce, Range::Any);
        /// Address that probes come from and return to. For an upload behind NAT, and wherever the gateway
        /// routes the senders' addresses back through this port, the senders' own will do.
        address: Option<IpAddr> = absent("the source address of the packets that probes follow", such(HOST, |a: &IpAddr| is_routed(a)));
        /// Host that turns probes around, in the modes "reflector" and "icmp".
        target: Option<IpAddr> = absent("needed in the modes \"reflector\" and \"icmp\"", such(HOST, |a: &IpAddr| is_routed(a)));
        /// Network card of the gateway. Packets to others get no probes then.
        gateway_mac: Option<MacAddress> = absent("that of the packets that probes follow", such("an address of one card", |m: &MacAddress| m.0[0] & 1 == 0 && m.0 != [0; 6]));
        /// Packets of data for each probe.
        every: u32 = or(4, within(1, 1000));
        /// Most bytes of probes, as a share of the bytes of data, by IP length.
        budget: Share = or(Share(0.005), within(Share(0.0001), Share(0.05)));
        /// Most probes in a second.
        rate_max: u32 = or(1_000, within(1, 10_000));
        /// While no probe comes back, the age of the oldest counts as its round trip up to this; then the
        /// last good value is held.
        hold: Duration = or(Duration::from_secs(2), within(Duration::from_millis(100), Duration::from_secs(60)));
        /// Time without a probe that came back after which the direction is managed by what its own queue
        /// shows.
        fall_back: Duration = or(Duration::from_secs(5), within(Duration::from_secs(1), Duration::from_secs(60)));
        /// What probes do to the rate of the direction.
        rate: SensedRate = Flat;
    }
}

const HOST: &str = "an address of one host, and none that is valid on its link only";

/// Whether packets to an address of one host pass a router: probes to and from others never come back.
pub fn is_routed(address: &IpAddr) -> bool {
    let on_link = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    unicast(address) && !on_link
}

/// Whether an address can be that of one host elsewhere.
pub fn unicast(address: &IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !(address.is_unspecified() || address.is_multicast() || address.is_loopback() || broadcast)
}

impl Check for SenseConfig {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        match (self.mode, self.target) {
            (SenseMode::Bounce, Some(_)) => {
                let remedy = "remove it, or choose mode = \"reflector\" or \"icmp\"";
                here.wrong(
                    p,
                    "target",
                    "does not go with mode = \"bounce\", whose probes go to their own sender",
                    remedy,
                );
            }
            (SenseMode::Reflector | SenseMode::Icmp, None) => {
                let problem =
                    format!("is missing: mode = \"{}\" needs a host that turns probes around", self.mode);
                here.wrong(p, "target", problem, "give its address");
            }
            _ => {}
        }
        if self.fall_back < self.hold {
            let problem = format!("{} is less than `hold`, {}", self.fall_back, self.hold);
            here.wrong(p, "fall_back", problem, "raise it, or lower `hold`");
        }
        if let (Some(own), Some(target)) = (self.address, self.target)
            && own.is_ipv4() != target.is_ipv4()
        {
            here.wrong(p, "target", "is of another IP version than `address`", "give both of the same");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn card_addresses_are_read_and_written() {
        let mac: MacAddress = "02:00:5E:10:00:0a".parse().unwrap();
        assert_eq!(mac.0, [2, 0, 0x5e, 0x10, 0, 10]);
        assert_eq!(mac.to_string(), "02:00:5e:10:00:0a");
        for text in [
            "",
            "02:00:5e:10:00",
            "02:00:5e:10:00:01:02",
            "2:0:5e:10:0:1",
            "+2:00:5e:10:00:01",
            "02-00-5e-10-00-01",
        ] {
            let read = text.parse::<MacAddress>();
            assert!(read.is_err(), "{text}: {read:?}");
        }
    }
}
