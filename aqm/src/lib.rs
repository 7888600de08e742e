//! aqm
