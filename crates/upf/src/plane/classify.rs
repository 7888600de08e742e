//! To which session, rule and QoS flow a packet belongs.

pub(super) mod compile;
pub(super) mod find;
pub(super) mod flows;
pub(super) mod layout;
pub mod lookup;
pub(super) mod rule_slots;
pub(super) mod stations;
pub(super) mod table;
