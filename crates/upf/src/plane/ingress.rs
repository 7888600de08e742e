//! From a frame that came in to a packet that is classified: what arrives beside packets of users, too.

pub(super) mod arrived;
pub(super) mod messages;
