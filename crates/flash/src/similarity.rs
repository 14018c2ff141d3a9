//! How alike two pairs are, and whether a pair lies outside those that a meta learner was trained
//! on (Section 5.6.3, "Adaptation Predictability").

use crate::{Error, Result};

/// Similarity of two embeddings, `(1 - ED + CS) / 2`: one for equal ones, minus one half for
/// opposite ones.
///
/// `CS` is the cosine similarity. `ED` is the Euclidean distance over the sum of the two norms, so
/// that it lies from zero to one; the text does not say how it is normalised.
pub fn similarity(one: &[f32], other: &[f32]) -> Result<f64> {
    if one.len() != other.len() {
        let (found, expected) = (other.len(), one.len());
        return Err(Error::Width { what: "the other embedding", found, expected });
    }
    let (mut dot, mut squares, mut distance) = (0.0, [0.0, 0.0], 0.0);
    for (a, b) in one.iter().zip(other) {
        let (a, b) = (f64::from(*a), f64::from(*b));
        dot += a * b;
        squares[0] += a * a;
        squares[1] += b * b;
        distance += (a - b) * (a - b);
    }
    let norms = squares.map(f64::sqrt);
    let [one, other] = norms;
    // Two embeddings of zero are equal; one of them alone has no direction.
    let cosine = match (one > 0.0, other > 0.0) {
        (true, true) => dot / (one * other),
        (false, false) => 1.0,
        _ => 0.0,
    };
    let euclidean = if one + other > 0.0 { distance.sqrt() / (one + other) } else { 0.0 };
    Ok((1.0 - euclidean + cosine) / 2.0)
}

/// The embeddings of the pairs that a meta learner was trained on.
#[derive(Debug, Clone)]
pub struct EmbeddingPool {
    embeddings: Vec<Vec<f32>>,
    limit: f64,
}

/// Where a pair lies among those of the pool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Proximity {
    /// Place in the pool of the most similar pair.
    pub nearest: usize,
    /// Its similarity.
    pub similarity: f64,
    /// Whether pairs of the pool are hardly ever that far from all others.
    pub is_outside: bool,
}

impl EmbeddingPool {
    /// A pool of embeddings. A pair is outside if its similarity to the nearest one is below what
    /// all but a part `outside` of the pool's pairs have to the nearest other one.
    pub fn new(embeddings: Vec<Vec<f32>>, outside: f64) -> Result<Self> {
        if embeddings.len() < 2 {
            return Err(Error::Setting {
                name: "pool",
                value: format!("{} pairs", embeddings.len()),
                expected: "at least 2 pairs",
            });
        }
        let mut pool = Self { embeddings, limit: f64::NEG_INFINITY };
        let mut nearest = Vec::with_capacity(pool.embeddings.len());
        for (place, embedding) in pool.embeddings.iter().enumerate() {
            nearest.push(pool.nearest(embedding, Some(place))?.1);
        }
        nearest.sort_by(f64::total_cmp);
        let rank = (outside.clamp(0.0, 1.0) * nearest.len() as f64) as usize;
        pool.limit = nearest[rank.min(nearest.len() - 1)];
        Ok(pool)
    }

    /// Where a pair with this embedding lies.
    pub fn locate(&self, embedding: &[f32]) -> Result<Proximity> {
        let (nearest, similarity) = self.nearest(embedding, None)?;
        Ok(Proximity { nearest, similarity, is_outside: similarity < self.limit })
    }

    fn nearest(&self, embedding: &[f32], except: Option<usize>) -> Result<(usize, f64)> {
        let mut best = (0, f64::NEG_INFINITY);
        for (place, other) in self.embeddings.iter().enumerate() {
            if Some(place) != except {
                let similarity = similarity(other, embedding)?;
                if similarity > best.1 {
                    best = (place, similarity);
                }
            }
        }
        Ok(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_embeddings_have_one_and_opposite_ones_minus_one_half() {
        let check = |one: &[f32], other: &[f32], expect: f64| {
            let found = similarity(one, other).unwrap();
            assert!((found - expect).abs() < 1e-6, "{one:?} {other:?}: {found}");
        };
        check(&[1.0, 2.0], &[1.0, 2.0], 1.0);
        check(&[1.0, 0.0], &[-1.0, 0.0], -0.5);
        check(&[1.0, 0.0], &[0.0, 1.0], (1.0 - 0.5f64.sqrt()) / 2.0);
        check(&[0.0, 0.0], &[0.0, 0.0], 1.0);
        // Same direction, twice the length: the distance alone tells them apart.
        check(&[1.0, 0.0], &[2.0, 0.0], (2.0 - 1.0 / 3.0) / 2.0);
    }

    #[test]
    fn embeddings_of_other_sizes_are_refused() {
        let error = similarity(&[1.0], &[1.0, 2.0]).unwrap_err().to_string();
        assert_eq!(error, "the other embedding has 2 numbers, 1 are needed");
    }

    #[test]
    fn a_pair_far_from_all_others_is_outside() {
        let pool = (0..20).map(|place| vec![1.0, 0.05 * place as f32]).collect();
        let pool = EmbeddingPool::new(pool, 0.0).unwrap();
        let inside = pool.locate(&[1.0, 0.51]).unwrap();
        assert_eq!((inside.nearest, inside.is_outside), (10, false));
        assert!(pool.locate(&[-1.0, 0.5]).unwrap().is_outside);
        assert!(EmbeddingPool::new(vec![vec![1.0]], 0.0).is_err());
    }
}
