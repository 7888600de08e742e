//! Which of a fixed number of places a hash goes to, with one or several ways.
//!
//! With one way it is the plain hash of RFC 8290 section 4.1. With several, a hash chooses a set, and within
//! the set takes the place that it had or one that is free, as in the cache of a processor (CAKE, "Piece of
//! CAKE", Høiland-Jørgensen et al. 2018, section III-A): with eight ways, flows share a place only when nine
//! of them meet in a set.

/// Places by hash.
pub(crate) struct Buckets {
    /// Who was there last.
    tags: Box<[u32]>,
    ways: u32,
    salt: u64,
    collisions: u64,
}

impl Buckets {
    /// `count` places, rounded up to whole sets.
    pub fn new(count: u32, ways: u32, salt: u64) -> Buckets {
        let count = count.next_multiple_of(ways);
        Buckets { tags: vec![0; count as usize].into(), ways, salt, collisions: 0 }
    }

    /// Number of places.
    pub fn len(&self) -> usize {
        self.tags.len()
    }

    /// Memory of the places.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.tags)
    }

    /// How often a hash met another one in its place that had not left it.
    pub fn collisions(&self) -> u64 {
        self.collisions
    }

    /// The place that a hash has, if nobody else took it since it was there.
    pub fn find(&self, hash: u32) -> Option<usize> {
        let tag = self.tag(hash);
        let ways = self.ways as usize;
        let set = self.home(tag) / ways * ways;
        self.tags[set..set + ways].iter().position(|t| *t == tag).map(|way| set + way)
    }

    fn tag(&self, hash: u32) -> u32 {
        mixed(self.salt ^ u64::from(hash))
    }

    /// Where a hash goes as long as nobody else is there.
    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.tags.len() as u64) >> 32) as usize
    }

    /// The place of a hash; `idle` says of a place whether nobody is there.
    #[inline]
    pub fn place(&mut self, hash: u32, idle: impl Fn(usize) -> bool) -> usize {
        let tag = self.tag(hash);
        let home = self.home(tag);
        if self.tags[home] == tag {
            return home;
        }
        if self.ways > 1 {
            return self.place_in_set(home, tag, idle);
        }
        if idle(home) {
            self.tags[home] = tag;
        } else {
            self.collisions += 1;
        }
        home
    }

    fn place_in_set(&mut self, home: usize, tag: u32, idle: impl Fn(usize) -> bool) -> usize {
        let ways = self.ways as usize;
        let set = home / ways * ways;
        if let Some(way) = self.tags[set..set + ways].iter().position(|t| *t == tag) {
            return set + way;
        }
        let free = std::iter::once(home).chain(set..set + ways).find(|place| idle(*place));
        match free {
            Some(place) => self.tags[place] = tag,
            None => self.collisions += 1,
        }
        free.unwrap_or(home)
    }
}

/// Two rounds of multiply and shift; the salt makes places differ from queue to queue.
fn mixed(hash: u64) -> u32 {
    let h = hash.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((h ^ (h >> 32)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collisions when `flows` come once each and stay.
    fn collisions(ways: u32, flows: u32) -> u64 {
        let mut buckets = Buckets::new(1024, ways, 7);
        let mut taken = vec![false; buckets.len()];
        for flow in 0..flows {
            let place = buckets.place(flow, |i| !taken[i]);
            taken[place] = true;
        }
        buckets.collisions()
    }

    #[test]
    fn ways_avoid_collisions() {
        // With one way, 100 of 1024 places: 100 - 1024 (1 - (1 - 1/1024)^100) = 4.7 collisions are expected.
        assert!((1..=12).contains(&collisions(1, 100)), "{}", collisions(1, 100));
        assert_eq!(collisions(8, 100), 0);
        assert!(collisions(8, 512) < collisions(1, 512) / 10);
    }

    #[test]
    fn a_flow_keeps_its_place_and_a_left_place_is_taken_over() {
        let mut buckets = Buckets::new(8, 8, 0);
        let place = buckets.place(5, |_| true);
        assert_eq!(buckets.place(5, |_| false), place);
        let mut taken = [false; 8];
        taken[place] = true;
        let other = buckets.place(6, |i| !taken[i]);
        assert_ne!(place, other);
        assert_eq!(buckets.place(7, |_| false) / 8, 0);
        assert_eq!(buckets.collisions(), 1);
    }
}
