//! Neighbours on the links of the ports (ARP, neighbour discovery) and the way to a next hop.

pub(super) mod next_hop;
pub(super) mod table;
