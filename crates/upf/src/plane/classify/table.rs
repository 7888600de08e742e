//! A hash table of fixed size: from the number of a tunnel or an address to a session.

use crate::plane::classify::layout::User;
use std::num::NonZeroU32;

/// What a table is of: numbers that take no more memory than they need.
pub trait Key: Copy + Eq + Default {
    /// The number, for the hash.
    fn number(self) -> u64;
}

impl Key for u32 {
    #[inline]
    fn number(self) -> u64 {
        u64::from(self)
    }
}

impl Key for u64 {
    #[inline]
    fn number(self) -> u64 {
        self
    }
}

impl Key for u128 {
    #[inline]
    fn number(self) -> u64 {
        (self >> 64) as u64 ^ self as u64
    }
}

/// A place.
#[derive(Clone, Copy, Default)]
struct TableSlot<K> {
    key: K,
    /// The value and one; empty places have none.
    value: Option<NonZeroU32>,
}

/// Open addressing with at most half of the places taken, so that a search is short. All memory is there from
/// the start.
pub struct Table<K> {
    places: Box<[TableSlot<K>]>,
    /// A secret, or senders could choose what collides.
    seed: u64,
    shift: u32,
    used: usize,
    most: usize,
}

impl<K: Key> Table<K> {
    /// An empty table for so many keys.
    pub fn new(most: usize, seed: u64) -> Table<K> {
        let count = (2 * most.max(1)).next_power_of_two();
        let shift = 64 - count.trailing_zeros();
        Table { places: vec![TableSlot::default(); count].into(), seed: seed | 1, shift, used: 0, most }
    }

    /// Memory for a key.
    pub fn bytes_per_key(&self) -> usize {
        (self.places.len() * size_of::<TableSlot<K>>()).div_ceil(self.most.max(1))
    }

    #[inline]
    fn home(&self, key: K) -> usize {
        let mixed = (key.number() ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ (mixed >> 29)).wrapping_mul(self.seed) >> self.shift) as usize
    }

    /// Where a key is, or where it would be.
    #[inline]
    fn find(&self, key: K) -> usize {
        let mut at = self.home(key);
        while self.places[at].value.is_some() && self.places[at].key != key {
            at = (at + 1) & (self.places.len() - 1);
        }
        at
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: K) -> Option<u32> {
        self.places[self.find(key)].value.map(|value| value.get() - 1)
    }

    /// Whether so many more keys find room.
    pub fn has_room(&self, more: usize) -> bool {
        self.used + more <= self.most
    }

    /// Enters a key that is not there, while there is room.
    pub fn insert(&mut self, key: K, value: u32) {
        assert!(self.has_room(1), "whoever inserts has made sure that there is room");
        let at = self.find(key);
        self.used += usize::from(self.places[at].value.is_none());
        self.places[at] = TableSlot { key, value: NonZeroU32::new(value + 1) };
    }

    /// Enters a key, or gives it another value; for one that is not there while there is room.
    pub fn set(&mut self, key: K, value: u32) {
        let at = self.find(key);
        if self.places[at].value.is_some() {
            self.places[at].value = NonZeroU32::new(value + 1);
        } else {
            self.insert(key, value);
        }
    }

    /// Takes a key out.
    pub fn remove(&mut self, key: K) {
        let mut hole = self.find(key);
        if self.places[hole].value.is_none() {
            return;
        }
        self.used -= 1;
        let mask = self.places.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            if self.places[at].value.is_none() {
                break;
            }
            // What could stand in the hole moves there: a search for it begins at or before the hole.
            let home = self.home(self.places[at].key);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.places[hole] = self.places[at];
                hole = at;
            }
        }
        self.places[hole] = TableSlot::default();
    }
}

/// Addresses of user equipment, to their sessions.
pub struct UserTable {
    /// IPv4.
    pub v4: Table<u32>,
    /// The first 64 bits of IPv6.
    pub v6: Table<u64>,
}

impl UserTable {
    /// An empty table for so many of each family.
    pub fn new(most: usize, seed: u64) -> UserTable {
        UserTable { v4: Table::new(most, seed), v6: Table::new(most, seed.rotate_left(16)) }
    }

    /// Whose an address is.
    pub fn get(&self, user: User) -> Option<u32> {
        match user {
            User::V4(address) => self.v4.get(address),
            User::V6(prefix) => self.v6.get(prefix),
        }
    }

    /// Whether so many more of each family find room.
    pub fn has_room(&self, [v4, v6]: [usize; 2]) -> bool {
        self.v4.has_room(v4) && self.v6.has_room(v6)
    }

    /// Enters an address that is not there, while there is room.
    pub fn insert(&mut self, user: User, session: u32) {
        match user {
            User::V4(address) => self.v4.insert(address, session),
            User::V6(prefix) => self.v6.insert(prefix, session),
        }
    }

    /// Takes an address out.
    pub fn remove(&mut self, user: User) {
        match user {
            User::V4(address) => self.v4.remove(address),
            User::V6(prefix) => self.v6.remove(prefix),
        }
    }

    /// Memory for an address of either family: room is kept for both.
    pub fn bytes_per_key(&self) -> usize {
        self.v4.bytes_per_key() + self.v6.bytes_per_key()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn is_a_map<K: Key + Ord>(of: impl Fn(u64) -> K) {
        let mut table = Table::new(100, 7);
        let mut map = BTreeMap::new();
        let mut dice = 1u64;
        for _ in 0..20_000 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (key, value) = (of((dice >> 33) % 300), (dice >> 50) as u32);
            if map.remove(&key).is_some() {
                table.remove(key);
            } else if table.has_room(1) {
                table.insert(key, value);
                map.insert(key, value);
            }
            assert_eq!(table.get(key), map.get(&key).copied());
        }
        assert!((0..300).map(of).all(|key| table.get(key) == map.get(&key).copied()));
        assert_eq!(table.used, map.len());
    }

    #[test]
    fn it_is_a_map_whatever_comes_and_goes() {
        is_a_map(|key| key << 40 | key);
        is_a_map(|key| (key << 20) as u32);
    }
}
