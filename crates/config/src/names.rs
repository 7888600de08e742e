//! Which names links, nodes and the like may have.

/// Longest name of a link or a node.
const MAX_NAME: usize = 32;
pub(crate) const NAME: &str = "a word of at most 32 letters, digits, `_` or `-`";

pub(crate) fn name_allowed(name: &str) -> bool {
    word(name, MAX_NAME)
}

/// Whether a text is a plain word of at most so many bytes.
pub(crate) fn word(text: &str, most: usize) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=most).contains(&text.len()) && text.chars().all(plain)
}
