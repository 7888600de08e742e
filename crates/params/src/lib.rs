//! Checked parameters: struct, default, range, unit and text from one declaration.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

use core::fmt;
use weir_units::{Bytes, Duration, Rate};

/// A share of a whole, from 0 to 1; written with a percent sign.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Share(pub f64);

/// A parameter's value with its unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// A length of time.
    Duration(Duration),
    /// An amount of data.
    Bytes(Bytes),
    /// A data rate.
    Rate(Rate),
    /// A share of a whole.
    Share(Share),
    /// A plain number, such as a gain.
    Number(f64),
    /// A whole number.
    Count(u32),
    /// Yes or no.
    Flag(bool),
}

impl Value {
    /// What kind of value this is, with an example of how it is written.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Duration(_) => "a duration such as \"2.5ms\"",
            Value::Bytes(_) => "an amount of data such as \"64kB\"",
            Value::Rate(_) => "a rate such as \"1Gbit/s\"",
            Value::Share(_) => "a share such as \"99%\"",
            Value::Number(_) => "a number such as 1.5",
            Value::Count(_) => "a whole number such as 5",
            Value::Flag(_) => "true or false",
        }
    }

    /// Whether the value lies in `min..=max`; false when the kinds differ or it is not a number.
    pub fn within(&self, min: &Value, max: &Value) -> bool {
        fn inside<T: PartialOrd>(v: &T, min: &T, max: &T) -> bool {
            min <= v && v <= max
        }
        match (self, min, max) {
            (Value::Duration(v), Value::Duration(a), Value::Duration(b)) => inside(v, a, b),
            (Value::Bytes(v), Value::Bytes(a), Value::Bytes(b)) => inside(v, a, b),
            (Value::Rate(v), Value::Rate(a), Value::Rate(b)) => inside(v, a, b),
            (Value::Share(v), Value::Share(a), Value::Share(b)) => inside(v, a, b),
            (Value::Number(v), Value::Number(a), Value::Number(b)) => inside(v, a, b),
            (Value::Count(v), Value::Count(a), Value::Count(b)) => inside(v, a, b),
            (Value::Flag(v), Value::Flag(a), Value::Flag(b)) => inside(v, a, b),
            _ => false,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Duration(v) => v.fmt(f),
            Value::Bytes(v) => v.fmt(f),
            Value::Rate(v) => v.fmt(f),
            // Parsing and printing a share divides and multiplies by 100: keep ten digits of it.
            Value::Share(v) => write!(f, "{}%", libm::round(v.0 * 1e12) / 1e10),
            Value::Number(v) => v.fmt(f),
            Value::Count(v) => v.fmt(f),
            Value::Flag(v) => v.fmt(f),
        }
    }
}

/// Declaration of one parameter.
#[derive(Clone, Copy, Debug)]
pub struct ParamInfo {
    /// Name, as in configurations.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Value when nothing is said.
    pub default: Value,
    /// Smallest value allowed.
    pub min: Value,
    /// Largest value allowed.
    pub max: Value,
}

/// What is wrong with a setting.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Problem {
    /// There is no parameter of this name.
    Unknown,
    /// The value has another kind than the parameter.
    Kind {
        /// The kind that is wanted.
        wanted: &'static str,
    },
    /// The value lies outside the declared range.
    Range {
        /// Smallest value allowed.
        min: Value,
        /// Largest value allowed.
        max: Value,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Unknown => write!(f, "there is no parameter of this name"),
            Problem::Kind { wanted } => write!(f, "must be {wanted}"),
            Problem::Range { min, max } => write!(f, "must lie in {min} .. {max}"),
        }
    }
}

/// A setting that was refused; nothing was changed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ParamError {
    /// What is wrong.
    pub problem: Problem,
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)
    }
}

impl core::error::Error for ParamError {}

/// The parameters of an algorithm, a law or a congestion control, made by `params!`.
pub trait Params: Default + Clone + fmt::Debug + Send + 'static {
    /// The declarations, in order.
    const INFO: &'static [ParamInfo];

    /// The value of a parameter.
    fn get(&self, name: &str) -> Option<Value>;

    /// Sets a parameter, or says why not and changes nothing.
    fn set(&mut self, name: &str, value: Value) -> Result<(), ParamError>;
}

/// Of whoever has no parameters.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct NoParams;

impl Params for NoParams {
    const INFO: &'static [ParamInfo] = &[];

    fn get(&self, _name: &str) -> Option<Value> {
        None
    }

    fn set(&mut self, _name: &str, _value: Value) -> Result<(), ParamError> {
        Err(ParamError { problem: Problem::Unknown })
    }
}

/// A Rust type that can be a parameter.
pub trait ParamType: Copy {
    /// The value with its unit.
    fn into_value(self) -> Value;
    /// Back from a value of the same kind.
    fn from_value(value: Value) -> Option<Self>;
}

macro_rules! param_type {
    ($($ty:ty => $variant:ident),*) => {$(
        impl ParamType for $ty {
            fn into_value(self) -> Value {
                Value::$variant(self)
            }
            fn from_value(value: Value) -> Option<Self> {
                match value {
                    Value::$variant(v) => Some(v),
                    _ => None,
                }
            }
        }
    )*};
}

param_type!(Duration => Duration, Bytes => Bytes, Rate => Rate, Share => Share, f64 => Number, u32 => Count, bool => Flag);

/// Checks a value against its declaration; used by the expansion of `params!`.
#[doc(hidden)]
pub fn checked<T: ParamType>(info: &ParamInfo, value: Value) -> Result<T, ParamError> {
    let wrong = ParamError { problem: Problem::Kind { wanted: info.default.kind() } };
    let typed = T::from_value(value).ok_or(wrong)?;
    if value.within(&info.min, &info.max) {
        Ok(typed)
    } else {
        Err(ParamError { problem: Problem::Range { min: info.min, max: info.max } })
    }
}

/// Declares a parameter struct.
///
/// ```
/// # use weir_units::Duration;
/// weir_params::params! {
///     /// Parameters of an example.
///     pub struct Example {
///         /// Delay above which a packet is dropped.
///         target: Duration = Duration::from_millis(5), Duration::ZERO => Duration::from_secs(1);
///     }
/// }
/// ```
///
/// expands to `pub struct Example { pub target: Duration }` with `Default` (5 ms) and
/// [`Params`](crate::Params): a table of declarations, and `get` and `set` by name, where `set` refuses
/// other kinds of value and anything outside the range.
#[macro_export]
macro_rules! params {
    (@value Duration $v:expr) => { $crate::Value::Duration($v) };
    (@value Bytes $v:expr) => { $crate::Value::Bytes($v) };
    (@value Rate $v:expr) => { $crate::Value::Rate($v) };
    (@value Share $v:expr) => { $crate::Value::Share($v) };
    (@value f64 $v:expr) => { $crate::Value::Number($v) };
    (@value u32 $v:expr) => { $crate::Value::Count($v) };
    (@value bool $v:expr) => { $crate::Value::Flag($v) };
    ($(#[$outer:meta])* pub struct $name:ident {$(
        $(#[doc = $doc:literal])+
        $field:ident : $ty:ident = $default:expr, $min:expr => $max:expr;
    )*}) => {
        $(#[$outer])*
        #[derive(Clone, PartialEq, Debug)]
        pub struct $name {$(
            $(#[doc = $doc])+
            pub $field: $ty,
        )*}

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $default),* }
            }
        }

        impl $crate::Params for $name {
            const INFO: &'static [$crate::ParamInfo] = &[$($crate::ParamInfo {
                name: stringify!($field),
                doc: concat!($($doc),+),
                default: $crate::params!(@value $ty $default),
                min: $crate::params!(@value $ty $min),
                max: $crate::params!(@value $ty $max),
            }),*];

            fn get(&self, name: &str) -> Option<$crate::Value> {
                match name {
                    $(stringify!($field) => Some($crate::ParamType::into_value(self.$field)),)*
                    _ => None,
                }
            }

            #[allow(unused_variables)]
            fn set(&mut self, name: &str, value: $crate::Value) -> Result<(), $crate::ParamError> {
                let unknown = $crate::ParamError { problem: $crate::Problem::Unknown };
                let info = <Self as $crate::Params>::INFO.iter().find(|i| i.name == name).ok_or(unknown)?;
                match name {
                    $(stringify!($field) => self.$field = $crate::checked(info, value)?,)*
                    _ => return Err(unknown),
                }
                Ok(())
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    crate::params! {
        /// An example.
        pub struct Example {
            /// Delay above which
            /// a packet is dropped.
            target: Duration = Duration::from_millis(5), Duration::from_millis(1) => Duration::from_secs(1);
            /// How eager.
            gain: f64 = 0.5, 0.0 => 2.0;
            /// Most of it.
            most: Share = Share(0.99), Share(0.0) => Share(1.0);
        }
    }

    #[test]
    fn values_are_checked_against_kind_and_range() {
        let mut p = Example::default();
        p.set("target", Value::Duration(Duration::from_millis(7))).unwrap();
        assert_eq!(p.get("target"), Some(Value::Duration(Duration::from_millis(7))));
        let late = p.set("target", Value::Duration(Duration::from_secs(2))).unwrap_err();
        assert_eq!(late.to_string(), "must lie in 1ms .. 1s");
        let kind = p.set("target", Value::Number(5.0)).unwrap_err();
        assert_eq!(kind.to_string(), "must be a duration such as \"2.5ms\"");
        assert_eq!(p.set("aim", Value::Number(5.0)).unwrap_err().problem, Problem::Unknown);
        assert!(p.set("gain", Value::Number(f64::NAN)).is_err());
        assert_eq!(p.target, Duration::from_millis(7));
        assert_eq!(p.get("most").unwrap().to_string(), "99%");
        assert_eq!(Example::INFO[0].doc, " Delay above which a packet is dropped.");
    }
}
