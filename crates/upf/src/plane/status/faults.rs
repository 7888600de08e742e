//! Why packets were not forwarded, and what else is counted.

macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident => $text:literal,)*) => {
        /// Something that is counted.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Cause {
            $($(#[$doc])* $name,)*
        }

        const NAMES: &[&str] = &[$($text),*];
    };
}

causes! {
    /// A frame that is neither IP nor about neighbours, or is cut off.
    NotIp => "not_ip",
    /// An IP packet to the port for tunnels whose headers contradict themselves.
    OuterMalformed => "outer_malformed",
    /// A fragment of one: nothing is put together here.
    OuterFragment => "outer_fragment",
    /// One with a wrong UDP checksum, or none over IPv6.
    OuterChecksum => "outer_checksum",
    /// One for another address, or no tunnel at all.
    NotOurs => "not_ours",
    /// A message shorter than it says.
    GtpShort => "gtp_short",
    /// A message of another version.
    GtpVersion => "gtp_version",
    /// Broken extension headers.
    GtpExtension => "gtp_extension",
    /// An extension header that must be understood and is not; that is answered.
    GtpNotComprehended => "gtp_not_comprehended",
    /// A broken PDU session container.
    GtpContainer => "gtp_container",
    /// An unknown message.
    GtpKind => "gtp_kind",
    /// A broken information element.
    GtpElement => "gtp_element",
    /// A tunnel that nobody knows; that is answered with an error indication.
    NoTunnel => "no_tunnel",
    /// One in the tunnel of a session from a host that is not its base station.
    StationForeign => "station_foreign",
    /// Flows that came from the base station of another session, as in a handover.
    StationMoved => "station_moved",
    /// A user's packet to an address of this function.
    OwnAddress => "own_address",
    /// Nobody's address.
    NoUser => "no_user",
    /// A packet whose headers contradict themselves.
    InnerMalformed => "inner_malformed",
    /// Congestion was experienced outside, and the packet cannot say so (RFC 6040).
    InnerNotCapable => "inner_not_capable",
    /// No rule matches.
    NoRule => "no_rule",
    /// A closed gate.
    Gate => "gate",
    /// A rule says so.
    Rule => "rule",
    /// A quota that is used up.
    Quota => "quota",
    /// Too long to go on; told to the sender.
    TooBig => "too_big",
    /// No hops left; told to the sender.
    Expired => "expired",
    /// All queues are in use.
    NoQueue => "no_queue",
    /// Too many packets wait for user equipment that is idle.
    BufferFull => "buffer_full",
    /// A packet waited too long for user equipment that is idle.
    BufferedLong => "buffered_long",
    /// Nobody is there on the link, or nobody answered in time.
    NoNeighbour => "no_neighbour",
    /// No memory for an answer.
    NoMemory => "no_memory",
    /// Echo requests that were answered.
    Echo => "echo",
    /// Error indications that were sent.
    IndicationSent => "error_indication_sent",
    /// Error indications that came.
    IndicationReceived => "error_indication_received",
    /// Error indications that came from another address than that of the tunnel that they name.
    IndicationForeign => "error_indication_foreign",
    /// End markers that came.
    EndMarkerReceived => "end_marker_received",
    /// End markers that were sent.
    EndMarkerSent => "end_marker_sent",
    /// Answers and errors that were not told, because too many were.
    Hushed => "not_told",
    /// Events that nobody fetched in time.
    EventsLost => "events_lost",
}

/// Counts by cause.
#[derive(Clone, Debug)]
pub struct Faults([u64; NAMES.len()]);

impl Default for Faults {
    fn default() -> Faults {
        Faults([0; NAMES.len()])
    }
}

impl Faults {
    /// One more.
    #[inline]
    pub fn count(&mut self, cause: Cause) {
        self.0[cause as usize] += 1;
    }

    /// How many.
    pub fn of(&self, cause: Cause) -> u64 {
        self.0[cause as usize]
    }

    /// Those that happened, by name.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        NAMES.iter().copied().zip(self.0).filter(|(_, count)| *count > 0)
    }
}
