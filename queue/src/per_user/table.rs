//! Which place belongs to a key: a hash table of fixed size that never moves what it points to.

/// Load of at most a half keeps the way to a key short.
const PLACES_PER_KEY: usize = 2;

/// Places by key.
pub(super) struct Table {
    /// Number of the place plus one; zero where nothing is.
    cells: Box<[u32]>,
    mask: usize,
    salt: u64,
}

impl Table {
    /// For at most so many keys.
    pub fn new(keys: usize, salt: u64) -> Table {
        let cells = (keys * PLACES_PER_KEY).next_power_of_two();
        Table { cells: vec![0; cells].into(), mask: cells - 1, salt }
    }

    /// Bytes for each key.
    pub fn bytes_per_key() -> usize {
        // The number of cells is rounded up to a power of two.
        2 * PLACES_PER_KEY * size_of::<u32>()
    }

    fn home(&self, key: u32) -> usize {
        let h = (self.salt ^ u64::from(key)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((h ^ (h >> 32)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 32) as usize & self.mask
    }

    /// The place of a key; `key_of` tells the key of a place that is in use.
    #[inline]
    pub fn find(&self, key: u32, key_of: impl Fn(usize) -> u32) -> Option<usize> {
        let mut cell = self.home(key);
        loop {
            let place = self.cells[cell].checked_sub(1)? as usize;
            if key_of(place) == key {
                return Some(place);
            }
            cell = (cell + 1) & self.mask;
        }
    }

    /// Notes the place of a key that is not in the table.
    pub fn insert(&mut self, key: u32, place: usize) {
        let mut cell = self.home(key);
        while self.cells[cell] != 0 {
            cell = (cell + 1) & self.mask;
        }
        self.cells[cell] = u32::try_from(place + 1).expect("there are fewer than 2^32 users");
    }

    /// Forgets a key; those that had to go past its cell move up.
    pub fn remove(&mut self, key: u32, key_of: impl Fn(usize) -> u32) {
        let mut hole = self.home(key);
        while self.cells[hole] != 0 && key_of(self.cells[hole] as usize - 1) != key {
            hole = (hole + 1) & self.mask;
        }
        let mut cell = hole;
        loop {
            cell = (cell + 1) & self.mask;
            let Some(place) = self.cells[cell].checked_sub(1) else { break };
            let from_home = |to: usize| to.wrapping_sub(self.home(key_of(place as usize))) & self.mask;
            if from_home(hole) <= from_home(cell) {
                self.cells[hole] = place + 1;
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
