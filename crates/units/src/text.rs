//! The text forms of the units: `"2.5ms"`, `"1Gbit/s"`, `"64MB"`, `"99%"`.

use crate::{Bytes, Duration, Rate};
use core::fmt;

/// Why a text is no quantity; says what would be one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParseError {
    what: &'static str,
    example: &'static str,
    is_out_of_range: bool,
}

impl ParseError {
    const fn new(what: &'static str, example: &'static str) -> ParseError {
        ParseError { what, example, is_out_of_range: false }
    }

    /// Whether it is written as such a quantity is, and below or above all that there are.
    pub fn is_out_of_range(&self) -> bool {
        self.is_out_of_range
    }

    fn out_of_range(self) -> ParseError {
        ParseError { is_out_of_range: true, ..self }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_out_of_range {
            return write!(f, "out of range: {} is neither negative nor larger than can be", self.what);
        }
        write!(f, "not {}: write it with its unit, like {}", self.what, self.example)
    }
}

impl core::error::Error for ParseError {}

fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    Some((number, text[end..].trim_start()))
}

fn scaled(text: &str, units: &[(&str, f64)], error: ParseError) -> Result<f64, ParseError> {
    let text = text.trim();
    let (is_negative, size) = text.strip_prefix('-').map_or((false, text), |size| (true, size));
    let (number, unit) = split(size).ok_or(error)?;
    let factor = units.iter().find(|(name, _)| *name == unit).map(|(_, f)| *f).ok_or(error)?;
    let value = number * factor;
    // Above 2^63 the nearest float is no longer a faithful count.
    if is_negative || !value.is_finite() || value >= 9.2e18 { Err(error.out_of_range()) } else { Ok(value) }
}

const SMALL: &str = "\"2.5ms\" or \"10s\" (units: ns, us, ms, s, min, h)";

/// Parses a duration such as `2.5ms`, `10s`, `200us`, `1min`. Zero needs a unit too.
pub fn parse_duration(text: &str) -> Result<Duration, ParseError> {
    let error = ParseError::new("a duration", SMALL);
    let units =
        [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9)];
    scaled(text, &units, error).map(|ns| Duration::from_nanos((ns + 0.5) as u64))
}

/// Parses a rate such as `1Gbit/s`, `10Mbit/s`, `64kbit/s`.
pub fn parse_rate(text: &str) -> Result<Rate, ParseError> {
    let error = ParseError::new(
        "a rate",
        "\"1Gbit/s\" or \"20Mbit/s\" (units: bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s)",
    );
    let units = [("bit/s", 1.0), ("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9), ("Tbit/s", 1e12)];
    scaled(text, &units, error).map(Rate::from_bps_f64)
}

/// Parses an amount of data such as `1500B`, `64MB`, `32MiB`.
pub fn parse_bytes(text: &str) -> Result<Bytes, ParseError> {
    let error =
        ParseError::new("an amount of data", "\"1500B\" or \"64MB\" (units: B, kB, MB, GB, KiB, MiB, GiB)");
    let units = [
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("KiB", 1024.0),
        ("MiB", 1048576.0),
        ("GiB", 1073741824.0),
    ];
    scaled(text, &units, error).map(|b| Bytes::new((b + 0.5) as u64))
}

/// Parses a share of a whole, such as `99%`, as a number from 0 to 1.
pub fn parse_share(text: &str) -> Result<f64, ParseError> {
    let error = ParseError::new("a share", "\"99%\" or \"0.5%\"");
    let share = scaled(text, &[("%", 1.0)], error)? / 100.0;
    if share <= 1.0 { Ok(share) } else { Err(error.out_of_range()) }
}

/// Picks the largest unit that keeps the number at one or above.
fn with_unit(f: &mut fmt::Formatter<'_>, value: f64, units: &[(f64, &str)]) -> fmt::Result {
    let (factor, unit) =
        units.iter().find(|(factor, _)| value >= *factor).or(units.last()).expect("never empty");
    write!(f, "{}{unit}", value / factor)
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_unit(f, self.as_nanos() as f64, &[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")])
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")];
        with_unit(f, self.as_bps_f64(), &units)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_unit(f, self.get() as f64, &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn what_is_printed_is_read_back() {
        for text in ["2.5ms", "10s", "200us", "0ns", "1ns", "100ms"] {
            assert_eq!(parse_duration(text).unwrap().to_string(), text);
        }
        for text in ["1Gbit/s", "9.5Gbit/s", "64kbit/s", "10Mbit/s"] {
            assert_eq!(parse_rate(text).unwrap().to_string(), text);
        }
        for text in ["1500B", "1.5kB", "64MB"] {
            let bytes = parse_bytes(text).unwrap();
            assert_eq!(parse_bytes(&bytes.to_string()).unwrap(), bytes);
        }
        assert_eq!(parse_share("99.5%").unwrap(), 0.995);
    }

    #[test]
    fn a_number_without_its_unit_is_refused() {
        for text in ["", "5", "ms", "-5ms", "5 parsecs", "1e3ms", "nan s", "99999999999h", "5.5.5ms"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        for text in ["1", "1Gbps", "1 gbit/s", "infGbit/s"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
        for text in ["1", "0.5", "101%", "-1%"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
        assert!(parse_bytes("12").is_err());
    }

    #[test]
    fn what_has_its_unit_and_cannot_be_is_told_from_what_has_none() {
        for text in ["-30ms", "-0.5s", "99999999999h"] {
            assert!(parse_duration(text).unwrap_err().is_out_of_range(), "{text}");
        }
        for text in ["-1%", "120%"] {
            assert!(parse_share(text).unwrap_err().is_out_of_range(), "{text}");
        }
        assert!(parse_rate("-1Mbit/s").unwrap_err().is_out_of_range());
        for text in ["-30", "--30ms", "-ms", "30 parsecs", "-1%"] {
            assert!(!parse_duration(text).unwrap_err().is_out_of_range(), "{text}");
        }
    }
}
