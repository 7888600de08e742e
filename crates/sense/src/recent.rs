//! Which of the numbers of a stream came lately.

/// What a number is that comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Came {
    /// The largest so far.
    Newest,
    /// Overtaken by others, for the first time.
    Overtaken,
    /// One that had come.
    Again,
    /// So far behind the largest that it is not known whether it had.
    Forgotten,
}

/// The 64 numbers up to the largest that came.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recent {
    next: u64,
    /// Which of those before `next` came; the lowest bit is the last one.
    came: u64,
}

impl Recent {
    /// One more than the largest number that came.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// A number comes.
    pub fn note(&mut self, number: u64) -> Came {
        let Some(back) = self.next.checked_sub(number + 1) else {
            let ahead = number + 1 - self.next;
            self.came = u32::try_from(ahead).ok().and_then(|n| self.came.checked_shl(n)).unwrap_or(0) | 1;
            self.next = number + 1;
            return Came::Newest;
        };
        let Some(bit) = u32::try_from(back).ok().and_then(|n| 1u64.checked_shl(n)) else {
            return Came::Forgotten;
        };
        let is_known = self.came & bit != 0;
        self.came |= bit;
        if is_known { Came::Again } else { Came::Overtaken }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_known_among_the_last_64_and_those_before_are_forgotten() {
        let mut recent = Recent::default();
        let came = [0, 0, 3, 1, 1, 2, 3, 66, 2, 3, 3, 200, 136, 137].map(|number| recent.note(number));
        use Came::{Again, Forgotten, Newest, Overtaken};
        let expected = [
            Newest, Again, Newest, Overtaken, Again, Overtaken, Again, Newest, Forgotten, Again, Again,
            Newest, Forgotten, Overtaken,
        ];
        assert_eq!(came, expected);
        assert_eq!(recent.next(), 201);
    }
}
