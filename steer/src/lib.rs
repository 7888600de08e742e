//! steer
