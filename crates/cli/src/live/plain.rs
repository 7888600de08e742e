//! Foreign text on a terminal.

/// Text without control characters, which could move the cursor or change colours.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
