//! Which place belongs to a key: a hash table of fixed size that never moves what it points to.

use crate::memory;
use std::iter;

/// Load of at most a half keeps the way to a key short.
const PLACES_PER_KEY: usize = 2;

/// Bits of a cell that hold the place; the others hold a tag.
const PLACE_BITS: u32 = 20;
const PLACE: u32 = (1 << PLACE_BITS) - 1;

/// Places by key.
pub(super) struct Table {
    /// Number of the place plus one, and above it some bits of the key's hash, which tell nearly all other
    /// keys apart without a look at the place, whose memory is seldom in a cache. Zero where nothing is.
    cells: Box<[u32]>,
    mask: usize,
    salt: u64,
}

/// Where the search for a key begins, and the tag of its cell.
#[derive(Clone, Copy)]
struct Home {
    cell: usize,
    tag: u32,
}

/// The place that a cell names.
fn place_of(cell: u32) -> Option<usize> {
    (cell & PLACE).checked_sub(1).map(|place| place as usize)
}

impl Table {
    /// For at most so many keys.
    pub fn new(keys: usize, salt: u64) -> Table {
        assert!(keys < PLACE as usize, "there are fewer users than a cell can name");
        let cells = (keys * PLACES_PER_KEY).next_power_of_two();
        Table { cells: memory::array(iter::repeat_n(0, cells)), mask: cells - 1, salt }
    }

    /// Bytes for each key.
    pub fn bytes_per_key() -> usize {
        // The number of cells is rounded up to a power of two.
        2 * PLACES_PER_KEY * size_of::<u32>()
    }

    /// A number that nobody outside can foretell.
    #[inline]
    pub fn hash(&self, key: u32) -> u64 {
        let h = (self.salt ^ u64::from(key)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (h ^ (h >> 32)).wrapping_mul(0x94d0_49bb_1331_11eb)
    }

    fn home(&self, key: u32) -> Home {
        let h = self.hash(key);
        Home { cell: (h >> 32) as usize & self.mask, tag: (h as u32) & !PLACE }
    }

    /// The place of a key; `key_of` tells the key of a place that is in use.
    #[inline]
    pub fn find(&self, key: u32, key_of: impl Fn(usize) -> u32) -> Option<usize> {
        let Home { mut cell, tag } = self.home(key);
        loop {
            let found = self.cells[cell];
            let place = place_of(found)?;
            if found & !PLACE == tag && key_of(place) == key {
                return Some(place);
            }
            cell = (cell + 1) & self.mask;
        }
    }

    /// Asks for the memory where the search for a key begins.
    #[inline]
    pub fn expect(&self, key: u32) {
        memory::soon(&self.cells[self.home(key).cell]);
    }

    /// The place of a key, nearly always: that of another with the same tag, at times. It looks at no place.
    #[inline]
    pub fn guess(&self, key: u32) -> Option<usize> {
        self.find(key, |_| key)
    }

    /// Notes the place of a key that is not in the table.
    pub fn insert(&mut self, key: u32, place: usize) {
        let Home { mut cell, tag } = self.home(key);
        while self.cells[cell] != 0 {
            cell = (cell + 1) & self.mask;
        }
        self.cells[cell] = tag | (place as u32 + 1);
    }

    /// Forgets a key; those that had to go past its cell move up.
    pub fn remove(&mut self, key: u32, key_of: impl Fn(usize) -> u32) {
        let mut hole = self.home(key).cell;
        while place_of(self.cells[hole]).is_some_and(|place| key_of(place) != key) {
            hole = (hole + 1) & self.mask;
        }
        let mut cell = hole;
        loop {
            cell = (cell + 1) & self.mask;
            let Some(place) = place_of(self.cells[cell]) else { break };
            let home = self.home(key_of(place)).cell;
            let from_home = |to: usize| to.wrapping_sub(home) & self.mask;
            if from_home(hole) <= from_home(cell) {
                self.cells[hole] = self.cells[cell];
                hole = cell;
            }
        }
        self.cells[hole] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn it_finds_what_a_map_finds_while_keys_come_and_go() {
        let (mut table, mut map) = (Table::new(64, 7), BTreeMap::new());
        let mut keys = [0u32; 64];
        let mut state = 1u64;
        for step in 0..20_000u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = (state >> 33) as u32 % 100;
            match map.get(&key).copied() {
                Some(place) if step % 3 == 0 => {
                    table.remove(key, |at| keys[at]);
                    map.remove(&key);
                    assert_eq!(table.find(key, |at| keys[at]), None);
                    keys[place] = 0;
                }
                Some(place) => assert_eq!(table.find(key, |at| keys[at]), Some(place)),
                None if map.len() < 64 => {
                    let place = (0..64).find(|at| !map.values().any(|used| used == at)).unwrap();
                    keys[place] = key;
                    table.insert(key, place);
                    map.insert(key, place);
                }
                None => assert_eq!(table.find(key, |at| keys[at]), None),
            }
        }
        assert!(map.len() > 10);
    }
}
