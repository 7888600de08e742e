//! Bytes as a source of decisions.

use weir_aqm::{ParamInfo, Params, Share, Value};
use weir_units::{Bytes, Duration, Rate};

/// Bytes that say what happens; when they are used up, nothing more happens.
pub struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    /// A script from its beginning.
    pub fn new(bytes: &'a [u8]) -> Script<'a> {
        Script(bytes)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next byte, or zero.
    pub fn byte_or_zero(&mut self) -> u8 {
        self.byte().unwrap_or(0)
    }

    /// A number below 65536.
    pub fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.byte_or_zero(), self.byte_or_zero()])
    }

    /// A number of any magnitude below 2^(8 + `bits`).
    pub fn magnitude(&mut self, bits: u8) -> u64 {
        let mantissa = u64::from(self.byte_or_zero());
        mantissa << (self.byte_or_zero() % (bits + 1))
    }

    /// A time from none to three days. Ten thousand of them are a small part of what `Time` can hold.
    pub fn wait(&mut self) -> Duration {
        Duration::from_nanos(self.magnitude(40))
    }

    /// A rate from none (an unshaped link) to 2.2 Tbit/s.
    pub fn rate(&mut self) -> Rate {
        Rate::from_bps(self.magnitude(33))
    }

    /// Some bytes, or as many as are left.
    pub fn some(&mut self, count: usize) -> &'a [u8] {
        let (some, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        some
    }

    /// All that is left.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    /// Parameters: each its default, an end of its range, or a value within.
    pub fn params<P: Params>(&mut self) -> P {
        let mut params = P::default();
        for info in P::INFO {
            let value = match self.byte_or_zero() % 8 {
                0..=3 => info.default,
                4 => info.min,
                5 => info.max,
                _ => self.within(info),
            };
            let set = params.set(info.name, value);
            assert!(set.is_ok(), "{} = {value} was refused: {set:?}", info.name);
        }
        params
    }

    /// A value within the range, of any magnitude.
    fn within(&mut self, info: &ParamInfo) -> Value {
        let shift = self.byte_or_zero();
        let whole = |min: u64, max: u64| min + ((max - min) >> (shift % 64));
        let real = |min: f64, max: f64| min + (max - min) / (1u64 << (shift % 64)) as f64;
        match (info.min, info.max) {
            (Value::Duration(min), Value::Duration(max)) => {
                Value::Duration(Duration::from_nanos(whole(min.as_nanos(), max.as_nanos())))
            }
            (Value::Bytes(min), Value::Bytes(max)) => Value::Bytes(Bytes::new(whole(min.get(), max.get()))),
            (Value::Rate(min), Value::Rate(max)) => {
                Value::Rate(Rate::from_bps(whole(min.as_bps(), max.as_bps())))
            }
            (Value::Share(min), Value::Share(max)) => Value::Share(Share(real(min.0, max.0))),
            (Value::Number(min), Value::Number(max)) => Value::Number(real(min, max)),
            (Value::Count(min), Value::Count(max)) => {
                Value::Count(whole(u64::from(min), u64::from(max)) as u32)
            }
            (Value::Flag(_), Value::Flag(_)) => Value::Flag(shift % 2 == 1),
            _ => info.default,
        }
    }
}
