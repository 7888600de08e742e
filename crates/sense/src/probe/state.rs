//! What a sensor's word is worth.

/// Whether samples can be relied on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum State {
    /// No probe has come back yet, and it is too early to say that none will.
    #[default]
    Starting,
    /// Probes come back.
    Sensing,
    /// None has come back for a while; the last good value is held.
    Holding,
    /// None comes back, or too few do: the link is controlled by what its own queue shows, at the configured
    /// set point.
    FallenBack,
}

impl State {
    /// The word for it in events and displays.
    pub const fn name(self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Sensing => "sensing",
            State::Holding => "holding",
            State::FallenBack => "fallen back",
        }
    }
}
