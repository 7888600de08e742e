//! What control must know of this function to translate: addresses of tunnels, names of sides, limits.

use super::cause::{Cause, Refused};
use crate::message::ie;
use crate::rules::Side;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_config::UpfConfig;

/// This function as rules see it.
#[derive(Clone, Debug)]
pub struct Sides {
    /// Where tunnels over IPv4 end.
    pub v4: Option<Ipv4Addr>,
    /// Where tunnels over IPv6 end.
    pub v6: Option<Ipv6Addr>,
    own: Vec<IpAddr>,
    gateways: Vec<IpAddr>,
    access: Option<String>,
    core: Option<String>,
    local: Option<String>,
    /// Most rules of each kind in a session.
    pub rules_max: usize,
    /// Most filters of a rule.
    pub filters_max: usize,
}

/// Interfaces on the wire (TS 29.244 sections 8.2.2 and 8.2.24).
const ACCESS: u64 = 0;
const CORE: u64 = 1;
const SGI_N6_LAN: u64 = 2;

impl Sides {
    /// From the configuration.
    pub fn new(config: &UpfConfig) -> Sides {
        let addresses = config.n3.address.iter().map(|own| own.address);
        let n6 = || std::iter::once(&config.n6).chain(&config.local);
        let links = n6().flat_map(|n6| &n6.address).map(|own| own.address);
        let gateways = n6().flat_map(|n6| &n6.gateway).chain(&config.n3.gateway).copied();
        Sides {
            own: addresses.clone().chain(links).chain([config.n4.address]).collect(),
            gateways: gateways.collect(),
            v4: addresses.clone().find_map(|a| if let IpAddr::V4(v4) = a { Some(v4) } else { None }),
            v6: addresses.clone().find_map(|a| if let IpAddr::V6(v6) = a { Some(v6) } else { None }),
            access: config.n3.instance.clone(),
            core: config.n6.instance.clone(),
            local: config.local.as_ref().and_then(|local| local.instance.clone()),
            rules_max: config.limits.rules as usize,
            filters_max: config.limits.filters as usize,
        }
    }

    /// Addresses that no user equipment can have: our own, and those of gateways.
    pub fn taken(&self) -> impl Iterator<Item = IpAddr> {
        self.own.iter().chain(&self.gateways).copied()
    }

    /// Whether an address is one of ours.
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.own.contains(&address)
    }

    /// The side that an interface and a network instance mean; `id` is the element that names the interface.
    pub fn side(&self, id: u16, interface: u64, instance: Option<&str>) -> Result<Side, Refused> {
        let (side, own) = match interface & 0xf {
            ACCESS => (Side::Access, &self.access),
            CORE | SGI_N6_LAN if instance.is_some() && instance == self.local.as_deref() => {
                (Side::Local, &self.local)
            }
            CORE | SGI_N6_LAN => (Side::Core, &self.core),
            other => {
                let why = format!("there is no interface of kind {other}");
                return Err(Refused::element(Cause::NotSupported, id, why));
            }
        };
        match (own, instance) {
            (Some(own), Some(named)) if own != named => {
                let why = format!("there is no network instance `{named}` on that side");
                Err(Refused::element(Cause::NotSupported, ie::NETWORK_INSTANCE, why))
            }
            _ => Ok(side),
        }
    }
}
