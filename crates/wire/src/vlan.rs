//! VLAN tags (IEEE 802.1Q section 9) and tags in tags (QinQ, 802.1ad).

use crate::bytes::{field, room};
use crate::ethernet::HEADER_LEN;
use crate::{TooShort, bytes};

/// Type field in front of a customer's tag.
pub const CUSTOMER: u16 = 0x8100;
/// Type field in front of a provider's tag.
pub const SERVICE: u16 = 0x88a8;
/// Most tags that are looked through.
pub const TAGS_MAX: usize = 2;
/// Length of a tag in bytes, with the type field behind it.
pub const TAG_LEN: usize = 4;

/// Whether a type field stands in front of a tag.
#[inline(always)]
pub fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, CUSTOMER | SERVICE)
}

/// A tag, and what follows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag {
    /// Priority, 0 to 7 (PCP).
    pub priority: u8,
    /// Whether it may be discarded first (DEI).
    pub drop_eligible: bool,
    /// Number of the VLAN, 0 to 4095 (VID).
    pub id: u16,
    /// The type field behind the tag.
    pub ethertype: u16,
}

impl Tag {
    /// Reads a tag from the byte behind its type field on; `None` if it is cut.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Tag> {
        let tag: &[u8; TAG_LEN] = bytes.first_chunk()?;
        let [control, ethertype] = [0, 2].map(|at| u16::from_be_bytes(field(tag, at)));
        let drop_eligible = control & 0x1000 != 0;
        Some(Tag { priority: (control >> 13) as u8, drop_eligible, id: control & 0xfff, ethertype })
    }

    /// Writes a tag from the byte behind its type field on; its length. Of priority and number the bits that
    /// fit.
    ///
    /// # Errors
    ///
    /// If `out` is shorter than [`TAG_LEN`].
    pub fn write(&self, out: &mut [u8]) -> Result<usize, TooShort> {
        let control = u16::from(self.priority) << 13 | u16::from(self.drop_eligible) << 12 | self.id & 0xfff;
        let tag: &mut [u8; TAG_LEN] = room(out)?;
        tag[..2].copy_from_slice(&control.to_be_bytes());
        tag[2..].copy_from_slice(&self.ethertype.to_be_bytes());
        Ok(TAG_LEN)
    }
}

/// Writes a frame with a tag behind its addresses: what stands in front of the tag (`type_field`) and its
/// control information (priority, eligibility, number) come from elsewhere, as the kernel takes tags out of
/// what it receives.
///
/// # Errors
///
/// If `out` is not [`TAG_LEN`] longer than `frame`, or `frame` has no addresses.
pub fn insert(out: &mut [u8], frame: &[u8], type_field: u16, control: u16) -> Result<(), TooShort> {
    const ADDRESSES: usize = HEADER_LEN - 2;
    let (addresses, rest) = frame.split_first_chunk::<ADDRESSES>().ok_or(TooShort)?;
    if out.len() != frame.len() + TAG_LEN {
        return Err(TooShort);
    }
    let (head, behind) = out.split_first_chunk_mut::<ADDRESSES>().ok_or(TooShort)?;
    *head = *addresses;
    behind[..2].copy_from_slice(&type_field.to_be_bytes());
    behind[2..TAG_LEN].copy_from_slice(&control.to_be_bytes());
    behind[TAG_LEN..].copy_from_slice(rest);
    Ok(())
}

/// The tags of a frame, the outer one first, at most [`TAGS_MAX`]; it ends before one that is cut.
#[inline]
pub fn tags(frame: &[u8]) -> impl Iterator<Item = Tag> {
    let mut ethertype = bytes::be16(frame, HEADER_LEN - 2).unwrap_or(0);
    (0..TAGS_MAX).map_while(move |number| {
        let tag = Tag::read(frame.get(HEADER_LEN + TAG_LEN * number..)?).filter(|_| is_tag(ethertype))?;
        ethertype = tag.ethertype;
        Some(tag)
    })
}
