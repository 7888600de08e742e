//! A 5G user-plane function (3GPP TS 23.501) that queues where others police.
//!
//! A session management function says over PFCP what it wants for each PDU session; `control` turns that into
//! [`rules`], and a [`rules::Plane`] keeps them: packets leave tunnels and enter them, each QoS flow waits in a queue of
//! its own with the AQM it needs.

pub mod filter;
pub mod plane;
pub mod rules;
