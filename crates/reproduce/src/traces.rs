//! Recorded rates of radio links, which the program brings with it.

use crate::host::Error;
use weir_config::{Document, Trace};

macro_rules! trace {
    ($path:literal) => {
        ($path, include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/", $path)))
    };
}

/// By the paths by which scenarios name them.
const TRACES: [(&str, &[u8]); 2] = [trace!("traces/cell_strong.trace"), trace!("traces/cell_weak.trace")];

/// A document that finds them wherever the program is run.
///
/// # Errors
///
/// None, as long as the files in the source code are traces.
pub fn bring(document: Document) -> Result<Document, Error> {
    TRACES.into_iter().try_fold(document, |document, (path, content)| {
        Ok(document.bring(path, Trace::parse(path, content).map_err(Error::input)?))
    })
}
