//! A tournament tree: the least of many keys that change one at a time. A changed key replays the
//! matches on its path to the root: O(log owners).

use std::hint::select_unpredictable;

/// Keys by owner number. Of equal keys the lowest owner wins.
///
/// Keys lie below [`Tournament::NONE`]; an owner without a key, or with that key or a larger one,
/// does not take part.
#[derive(Debug, Clone)]
pub struct Tournament {
    /// Twice the key of each owner; a power of two of them, so that every match has two sides.
    doubled: Vec<u64>,
    /// The owners of each match, the lower one first. The final is at 1, the matches that lead to
    /// the match at `k` are at `2 k` and `2 k + 1`, and index 0 is not used.
    matches: Vec<[u32; 2]>,
}

impl Default for Tournament {
    fn default() -> Self {
        Self { doubled: vec![DOUBLED_NONE; 2], matches: vec![[0, 1]; 2] }
    }
}

const DOUBLED_NONE: u64 = 2 * Tournament::NONE;

impl Tournament {
    /// The key of an owner that does not take part. Half of the range, so that one bit below the
    /// key decides a draw.
    pub const NONE: u64 = u64::MAX / 2;

    /// Sets an owner's key, or clears it with [`Tournament::NONE`].
    #[inline]
    pub fn set(&mut self, owner: usize, key: u64) {
        let key = 2 * key.min(Self::NONE);
        match self.doubled.get_mut(owner) {
            Some(before) if *before == key => {}
            Some(before) => {
                *before = key;
                self.replay(owner, key);
            }
            None => self.make_room(owner, key),
        }
    }

    /// The least key and its owner.
    #[inline]
    pub fn first(&self) -> Option<(u64, usize)> {
        let [left, right] = self.matches[1].map(|owner| owner as usize);
        let [left_key, right_key] = [self.doubled[left], self.doubled[right]];
        let is_right = right_key < left_key;
        let owner = select_unpredictable(is_right, right, left);
        let key = select_unpredictable(is_right, right_key, left_key);
        (key != DOUBLED_NONE).then_some((key / 2, owner))
    }

    /// An owner's key, if it is set.
    pub fn key(&self, owner: usize) -> Option<u64> {
        self.doubled.get(owner).filter(|key| **key != DOUBLED_NONE).map(|key| key / 2)
    }

    fn replay(&mut self, owner: usize, key: u64) {
        let (keys, matches) = (self.doubled.as_slice(), self.matches.as_mut_slice());
        let owner = owner as u32;
        let (mut winner, mut least) = (owner, key);
        let mut place = keys.len() + owner as usize;
        // The final has no match to follow, and is decided by `first`.
        while place > 3 {
            let side = place & 1;
            place /= 2;
            let rival = matches[place][1 - side];
            let key = keys[rival as usize];
            // A rival on the left is the lower owner and wins a draw.
            let is_beaten = key < least + side as u64;
            winner = select_unpredictable(is_beaten, rival, winner);
            least = select_unpredictable(is_beaten, key, least);
            let entry = &mut matches[place / 2][place & 1];
            let before = std::mem::replace(entry, winner);
            if before == winner && winner != owner {
                // Neither the winner nor its key has changed, so the matches above stay the same.
                return;
            }
        }
    }

    /// Grows the tree for an owner beyond the present ones.
    #[cold]
    fn make_room(&mut self, owner: usize, key: u64) {
        let owners = (owner + 1).next_power_of_two();
        self.doubled.resize(owners, DOUBLED_NONE);
        self.doubled[owner] = key;
        self.matches = vec![[0, 0]; owners];
        for place in (1..owners).rev() {
            let entrant = |side: usize| {
                let below = 2 * place + side;
                below.checked_sub(owners).unwrap_or_else(|| {
                    let [left, right] = self.matches[below].map(|owner| owner as usize);
                    if self.doubled[right] < self.doubled[left] { right } else { left }
                }) as u32
            };
            self.matches[place] = [entrant(0), entrant(1)];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NONE: u64 = Tournament::NONE;

    proptest! {
        #[test]
        fn the_first_is_the_lowest_owner_of_the_least_key(
            calls in prop::collection::vec((0usize..40, 0u64..8), 1..300),
        ) {
            let mut tournament = Tournament::default();
            let mut keys = [NONE; 40];
            for (owner, key) in calls {
                // Few different keys, so that draws are common, and the two ends of the range.
                let key = [0, 1, 2, 3, 4, NONE - 1, NONE, NONE][key as usize];
                tournament.set(owner, key);
                keys[owner] = key;
                let least = keys.iter().enumerate().min_by_key(|(owner, key)| (**key, *owner));
                let expect = least.map(|(owner, key)| (*key, owner)).filter(|(key, _)| *key != NONE);
                prop_assert_eq!(tournament.first(), expect);
                prop_assert_eq!(tournament.key(owner), Some(key).filter(|key| *key != NONE));
            }
        }
    }

    #[test]
    fn one_owner_needs_no_match() {
        let mut tournament = Tournament::default();
        assert_eq!(tournament.first(), None);
        tournament.set(0, 3);
        assert_eq!((tournament.first(), tournament.key(1)), (Some((3, 0)), None));
        tournament.set(0, NONE);
        assert_eq!(tournament.first(), None);
    }
}
