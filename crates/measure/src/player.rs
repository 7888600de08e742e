//! What a player of video showed.

/// What a player showed in the measured part.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Played {
    /// Segments that arrived.
    pub segments: u64,
    /// Their mean rate in bit/s.
    pub rate_bps: f64,
    /// Segments of another rate than the one before.
    pub switches: u64,
    /// How often the buffer ran empty.
    pub stalls: u64,
    /// Time that the picture stood still.
    pub stalled_s: f64,
    /// Time from the first picture, or the begin of the measured part if that was later, to the end.
    pub watched_s: f64,
    /// From the request of the first segment to the first picture; none if there was none.
    pub startup_s: Option<f64>,
    /// Mean of the video in the buffer over that time, in seconds.
    pub buffer_s: f64,
}
