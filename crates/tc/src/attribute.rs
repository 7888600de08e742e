//! Attributes of netlink: a type, a length and a value, which may be a list of attributes again.
//!
//! What is read is written again byte for byte. A value that does not have the declared form, or a type that
//! is not declared, is kept as it came ([`Raw`]).

use netlink_packet_core::{NLA_F_NESTED, NLA_HEADER_SIZE, NlaBuffer};
use std::ops::{Deref, DerefMut};

/// Attributes begin at multiples of this many bytes.
const ALIGNMENT: usize = 4;

/// An attribute that is kept as it came: its type with all flags, and its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Raw {
    /// Type, with the flags of netlink in the two upper bits.
    pub kind: u16,
    /// The value, without padding.
    pub bytes: Vec<u8>,
}

/// The value of an attribute.
pub trait Value: Sized {
    /// Reads all of the value; `None` where writing would not yield the same bytes. `flags` are those of the
    /// type.
    fn read(flags: u16, bytes: &[u8]) -> Option<Self>;
    /// Appends the value.
    fn write(&self, out: &mut Vec<u8>);
    /// The flags of the type.
    fn flags(&self) -> u16 {
        0
    }
}

/// One attribute of a list.
pub trait Attribute: Sized {
    /// Reads it; what is not known is kept as it came.
    fn read(kind: u16, bytes: &[u8]) -> Self;
    /// Its type, with flags.
    fn kind(&self) -> u16;
    /// Appends its value.
    fn write(&self, out: &mut Vec<u8>);
}

impl Attribute for Raw {
    fn read(kind: u16, bytes: &[u8]) -> Raw {
        Raw { kind, bytes: bytes.to_vec() }
    }

    fn kind(&self) -> u16 {
        self.kind
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
    }
}

/// The attributes in `bytes`, with their types; `None` where a length or a padding is wrong.
pub(crate) fn split(mut bytes: &[u8]) -> Option<Vec<(u16, &[u8])>> {
    // Most messages have about as many, so that the list is seldom moved.
    let mut all = Vec::with_capacity(8);
    while !bytes.is_empty() {
        let attribute = NlaBuffer::new_checked(bytes).ok()?;
        let end = usize::from(attribute.length());
        let next = end.next_multiple_of(ALIGNMENT);
        let value = bytes.get(NLA_HEADER_SIZE..end)?;
        if bytes.get(end..next)?.iter().any(|byte| *byte != 0) {
            return None;
        }
        all.push((u16::from_ne_bytes([bytes[2], bytes[3]]), value));
        bytes = &bytes[next..];
    }
    Some(all)
}

pub(crate) fn write_all<A: Attribute>(attributes: &[A], out: &mut Vec<u8>) {
    for attribute in attributes {
        let start = out.len();
        out.extend_from_slice(&[0; NLA_HEADER_SIZE]);
        attribute.write(out);
        let length = out.len() - start;
        // A value that does not fit has no form in netlink; it cannot be read either.
        assert!(length <= usize::from(u16::MAX), "an attribute of {length} bytes is too long for netlink");
        out[start..start + 2].copy_from_slice(&(length as u16).to_ne_bytes());
        out[start + 2..start + 4].copy_from_slice(&attribute.kind().to_ne_bytes());
        out.resize(start + length.next_multiple_of(ALIGNMENT), 0);
    }
}

/// A list of attributes as the value of one, in the order in which they came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nested<A> {
    /// Whether the type says that the value is a list; the kernel does so for new attributes only.
    pub flagged: bool,
    /// The attributes.
    pub items: Vec<A>,
}

impl<A> From<Vec<A>> for Nested<A> {
    fn from(items: Vec<A>) -> Self {
        Nested { flagged: false, items }
    }
}

impl<A> Deref for Nested<A> {
    type Target = Vec<A>;

    fn deref(&self) -> &Vec<A> {
        &self.items
    }
}

impl<A> DerefMut for Nested<A> {
    fn deref_mut(&mut self) -> &mut Vec<A> {
        &mut self.items
    }
}

impl<A: Attribute> Value for Nested<A> {
    fn read(flags: u16, bytes: &[u8]) -> Option<Self> {
        if flags & !NLA_F_NESTED != 0 {
            return None;
        }
        let items = split(bytes)?.into_iter().map(|(kind, value)| A::read(kind, value)).collect();
        Some(Nested { flagged: flags != 0, items })
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_all(&self.items, out);
    }

    fn flags(&self) -> u16 {
        if self.flagged { NLA_F_NESTED } else { 0 }
    }
}

/// A value of constant length, in the byte order of the machine, as the kernel has it.
pub(crate) trait Fixed: Sized {
    fn take(bytes: &mut &[u8]) -> Option<Self>;
    fn put(&self, out: &mut Vec<u8>);
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Fixed for $number {
            fn take(bytes: &mut &[u8]) -> Option<Self> {
                let (first, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some(<$number>::from_ne_bytes(*first))
            }

            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_ne_bytes());
            }
        }

        impl Value for $number {
            fn read(flags: u16, mut bytes: &[u8]) -> Option<Self> {
                let value = Self::take(&mut bytes)?;
                (flags == 0 && bytes.is_empty()).then_some(value)
            }

            fn write(&self, out: &mut Vec<u8>) {
                self.put(out);
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, i16, i32, i64);

impl<const N: usize, F: Fixed + Copy + Default> Fixed for [F; N] {
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let mut all = [F::default(); N];
        for one in &mut all {
            *one = F::take(bytes)?;
        }
        Some(all)
    }

    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|one| one.put(out));
    }
}

/// A flag: it is there, and has no value.
impl Value for () {
    fn read(flags: u16, bytes: &[u8]) -> Option<Self> {
        (flags == 0 && bytes.is_empty()).then_some(())
    }

    fn write(&self, _out: &mut Vec<u8>) {}
}

/// Text that ends with a zero byte.
impl Value for String {
    fn read(flags: u16, bytes: &[u8]) -> Option<Self> {
        let (last, text) = bytes.split_last()?;
        let text = (flags == 0 && *last == 0 && !text.contains(&0)).then_some(text)?;
        str::from_utf8(text).ok().map(str::to_owned)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
        out.push(0);
    }
}

/// Bytes whose meaning is not declared.
impl Value for Vec<u8> {
    fn read(flags: u16, bytes: &[u8]) -> Option<Self> {
        (flags == 0).then(|| bytes.to_vec())
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

/// Declares an attribute list: an enum with a variant for each type, and one for what is not known.
macro_rules! attributes {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident($value:ty) = $kind:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$vdoc])* $variant($value),)*
            /// What is not declared, or has another form than declared, as it came.
            Other($crate::attribute::Raw),
        }

        impl $crate::attribute::Attribute for $name {
            fn read(kind: u16, bytes: &[u8]) -> Self {
                let flags = kind & !netlink_packet_core::NLA_TYPE_MASK;
                let known = match kind & netlink_packet_core::NLA_TYPE_MASK {
                    $($kind => <$value as $crate::attribute::Value>::read(flags, bytes).map($name::$variant),)*
                    _ => None,
                };
                known.unwrap_or_else(|| $name::Other($crate::attribute::Attribute::read(kind, bytes)))
            }

            fn kind(&self) -> u16 {
                match self {
                    $($name::$variant(value) => $kind | $crate::attribute::Value::flags(value),)*
                    $name::Other(raw) => raw.kind,
                }
            }

            fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $($name::$variant(value) => $crate::attribute::Value::write(value, out),)*
                    $name::Other(raw) => out.extend_from_slice(&raw.bytes),
                }
            }
        }
    };
}
pub(crate) use attributes;

/// Declares a structure of the kernel without gaps.
macro_rules! fixed {
    ($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        #[allow(missing_docs)]
        pub struct $name { $($(#[$fdoc])* pub $field: $type,)* }

        impl $crate::attribute::Fixed for $name {
            fn take(bytes: &mut &[u8]) -> Option<Self> {
                Some($name { $($field: <$type as $crate::attribute::Fixed>::take(bytes)?,)* })
            }

            fn put(&self, out: &mut Vec<u8>) {
                $($crate::attribute::Fixed::put(&self.$field, out);)*
            }
        }
    };
}
pub(crate) use fixed;

/// Declares a structure of the kernel that is a value by itself, and that newer kernels may make longer.
macro_rules! layout {
    ($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        #[allow(missing_docs)]
        pub struct $name {
            $($(#[$fdoc])* pub $field: $type,)*
            /// What a newer kernel appends.
            pub rest: Vec<u8>,
        }

        impl $crate::attribute::Value for $name {
            fn read(flags: u16, mut bytes: &[u8]) -> Option<Self> {
                if flags != 0 {
                    return None;
                }
                let from = &mut bytes;
                Some($name {
                    $($field: <$type as $crate::attribute::Fixed>::take(from)?,)*
                    rest: bytes.to_vec(),
                })
            }

            fn write(&self, out: &mut Vec<u8>) {
                $($crate::attribute::Fixed::put(&self.$field, out);)*
                out.extend_from_slice(&self.rest);
            }
        }
    };
}
pub(crate) use layout;

/// The first attribute of a list that is of a variant, as a copy of its value.
macro_rules! first {
    ($list:expr, $variant:path) => {
        $list.iter().find_map(|item| if let $variant(value) = item { Some(value) } else { None })
    };
}
pub(crate) use first;
