//! What can go wrong while measuring.

/// A reason in words. Nothing is decided on the kind of a failure here: it is told and the part is skipped.
#[derive(Debug)]
pub struct Error(pub String);

/// Shorthand.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failure with its reason.
    pub fn new(text: impl Into<String>) -> Error {
        Error(text.into())
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Error {
        Error(error.to_string())
    }
}
