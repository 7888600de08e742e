//! Whether the sides of a user-plane function go together, and each with its link.

use super::{LinkAddress, UpfConfig};
use crate::problems::Problems;
use crate::schema::Here;
use std::net::IpAddr;

/// A side as it was written.
struct Side<'a> {
    name: &'static str,
    port: &'a str,
    address: &'a [LinkAddress],
    instance: Option<&'a String>,
}

fn all(config: &UpfConfig) -> Vec<Side<'_>> {
    let n3 = &config.n3;
    let mut sides =
        vec![Side { name: "n3", port: &n3.port, address: &n3.address, instance: n3.instance.as_ref() }];
    let named = [("n6", Some(&config.n6)), ("local", config.local.as_ref())];
    sides.extend(named.into_iter().filter_map(|(name, side)| {
        let side = side?;
        Some(Side { name, port: &side.port, address: &side.address, instance: side.instance.as_ref() })
    }));
    sides
}

/// Tells what does not go together of the sides.
pub(super) fn check(config: &UpfConfig, here: &Here, p: &mut Problems) {
    let sides = all(config);
    for (at, side) in sides.iter().enumerate() {
        if side.port == "lo" {
            let problem = "is the interface of this host with itself";
            here.wrong(p, &format!("{}.port", side.name), problem, "name an interface that leads elsewhere");
        }
        sides[..at].iter().for_each(|other| check_pair(other, side, here, p));
        if side.address.iter().any(|own| own.address == config.n4.address) {
            let problem =
                format!("is an address of `{}`, whose port the user plane has for itself", side.name);
            here.wrong(p, "n4.address", problem, "name an address of another interface");
        }
    }
    if config.local.as_ref().is_some_and(|local| local.instance.is_none()) {
        let problem = "is missing: session management chooses the port for local breakout by this name";
        here.wrong(p, "local.instance", problem, "add it, such as \"edge\"");
    }
}

fn check_pair(one: &Side, other: &Side, here: &Here, p: &mut Problems) {
    let key = |of: &str| format!("{}.{of}", other.name);
    if one.port == other.port {
        let problem = format!("is the same port as `{}.port`", one.name);
        here.wrong(p, &key("port"), problem, "name an interface of its own");
    }
    if one.instance.is_some() && one.instance == other.instance {
        let problem = format!("is that of `{}`", one.name);
        let remedy = "give each side a name of its own; a side without one takes any";
        here.wrong(p, &key("instance"), problem, remedy);
    }
    let overlap = |own: &&LinkAddress| {
        one.address.iter().any(|far| far.reaches(own.address) || own.reaches(far.address))
    };
    if let Some(own) = other.address.iter().find(overlap) {
        let problem = format!("{own} is on the same network as `{}.address`", one.name);
        here.wrong(p, &key("address"), problem, "give each side a network of its own");
    }
}

/// Tells what is wrong with the addresses of a side and its gateways.
pub(super) fn check_links(addresses: &[LinkAddress], gateways: &[IpAddr], here: &Here, p: &mut Problems) {
    let hosts: Vec<IpAddr> = addresses.iter().map(|own| own.address).collect();
    one_of_each(&hosts, "address", here, p);
    one_of_each(gateways, "gateway", here, p);
    for own in addresses {
        if let Some(whose) = own.whose(own.address) {
            here.wrong(p, "address", format!("{own} is {whose}"), "name the address of this host on it");
        }
    }
    for gateway in gateways {
        if let Some(problem) = wrong_gateway(*gateway, addresses) {
            let remedy = "name the address of a router on the link, or give the link its whole prefix";
            here.wrong(p, "gateway", format!("{gateway} {problem}"), remedy);
        }
    }
}

fn wrong_gateway(gateway: IpAddr, addresses: &[LinkAddress]) -> Option<String> {
    if addresses.iter().any(|own| own.address == gateway) {
        return Some("is our own address".into());
    }
    // Routers are known by addresses of the link alone in IPv6.
    let is_local = matches!(gateway, IpAddr::V6(v6) if v6.is_unicast_link_local());
    if is_local && addresses.iter().any(|own| own.address.is_ipv6()) {
        return None;
    }
    match addresses.iter().find(|own| own.reaches(gateway)) {
        None => Some("is on no link of `address`".into()),
        Some(own) => own.whose(gateway).map(|whose| format!("is {whose}")),
    }
}

fn one_of_each(addresses: &[IpAddr], key: &str, here: &Here, p: &mut Problems) {
    if let [a, b] = addresses
        && a.is_ipv4() == b.is_ipv4()
    {
        here.wrong(p, key, "has two addresses of one IP version", "give at most one of each");
    }
}
