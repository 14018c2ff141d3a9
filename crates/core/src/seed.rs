//! Named, independent random streams. A stream depends only on the root seed and its own name, so
//! that a draw added in one place never changes another stream.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use sha2::{Digest, Sha256};

use crate::{Persist, Result, Snapshot};

/// A node in a tree of seeds; children and streams have names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedTree {
    key: [u8; 32],
}

impl SeedTree {
    /// The root of the tree.
    pub fn new(root: u64) -> Self {
        Self { key: digest(&root.to_le_bytes(), "homeostat seed tree") }
    }

    /// The subtree under `name`. `child("a").child("b")` differs from `child("a/b")`.
    pub fn child(&self, name: &str) -> Self {
        Self { key: digest(&self.key, name) }
    }

    /// The stream under `name`.
    pub fn stream(&self, name: &str) -> Stream {
        Stream { rng: ChaCha8Rng::from_seed(self.child(name).key) }
    }

    /// A seed under `name`, for interfaces that take a number.
    pub fn seed(&self, name: &str) -> u64 {
        self.stream(name).next_u64()
    }
}

fn digest(key: &[u8], name: &str) -> [u8; 32] {
    Sha256::new().chain_update(key).chain_update(name.as_bytes()).finalize().into()
}

/// A stream of random numbers whose position can be saved and restored.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    rng: ChaCha8Rng,
}

impl Stream {
    /// The stream of a plain seed.
    pub fn from_seed(seed: u64) -> Self {
        SeedTree::new(seed).stream("stream")
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// Uniform in [0, 1), 53 bits.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in [low, high).
    pub fn range(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Uniform in 0..n, without modulo bias beyond 2^-64. `n` must not be zero.
    pub fn below(&mut self, n: usize) -> usize {
        debug_assert!(n > 0, "an empty range has no member");
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// Standard normal.
    pub fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.rng)
    }

    /// A uniformly random order of `items`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

impl Persist for Stream {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let position = self.rng.get_word_pos();
        let mut bytes = self.rng.get_seed().to_vec();
        bytes.extend_from_slice(&position.to_le_bytes());
        out.put_u8(name, bytes);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        let bytes = from.u8s(name, 32 + 16)?;
        let (seed, position) = bytes.split_at(32);
        let mut rng = ChaCha8Rng::from_seed(seed.try_into().expect("split at 32"));
        rng.set_word_pos(u128::from_le_bytes(position.try_into().expect("16 bytes remain")));
        self.rng = rng;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stream_depends_on_its_name_and_the_root_alone() {
        let first = SeedTree::new(7).stream("faas/host/3/arrivals").next_u64();
        let tree = SeedTree::new(7);
        tree.stream("somebody/else").next_u64();
        assert_eq!(tree.stream("faas/host/3/arrivals").next_u64(), first);
        assert_ne!(SeedTree::new(8).stream("faas/host/3/arrivals").next_u64(), first);
        assert_ne!(tree.stream("faas/host/4/arrivals").next_u64(), first);
    }

    #[test]
    fn draws_have_the_moments_of_their_distribution() {
        let mut stream = SeedTree::new(1).stream("moments");
        let n = 200_000;
        let (mut sum, mut squares, mut uniform) = (0.0, 0.0, 0.0);
        for _ in 0..n {
            let x = stream.normal();
            sum += x;
            squares += x * x;
            uniform += stream.uniform();
        }
        let n = f64::from(n);
        // Five standard errors: the seed is fixed, so this either holds or does not.
        assert!((sum / n).abs() < 5.0 / n.sqrt());
        assert!((squares / n - 1.0).abs() < 5.0 * 2f64.sqrt() / n.sqrt());
        assert!((uniform / n - 0.5).abs() < 5.0 * (1.0 / 12.0f64).sqrt() / n.sqrt());
    }

    proptest! {
        #[test]
        fn a_restored_stream_goes_on_where_it_was_saved(seed in any::<u64>(), draws in 0usize..200) {
            let mut stream = Stream::from_seed(seed);
            for _ in 0..draws {
                stream.uniform();
                stream.normal();
            }
            let mut snapshot = Snapshot::default();
            stream.save("s", &mut snapshot);
            let mut restored = Stream::from_seed(0);
            restored.load("s", &snapshot).unwrap();
            for _ in 0..20 {
                prop_assert_eq!(stream.next_u64(), restored.next_u64());
            }
        }

        #[test]
        fn below_stays_below(seed in any::<u64>(), n in 1usize..1000) {
            prop_assert!(Stream::from_seed(seed).below(n) < n);
        }

        #[test]
        fn shuffling_keeps_every_item(seed in any::<u64>(), n in 0usize..50) {
            let mut items: Vec<_> = (0..n).collect();
            Stream::from_seed(seed).shuffle(&mut items);
            items.sort_unstable();
            prop_assert_eq!(items, (0..n).collect::<Vec<_>>());
        }
    }
}
