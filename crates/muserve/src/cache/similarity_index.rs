//! The most similar of many vectors: by comparing all of them while there are few, by a graph above.

use std::collections::BTreeSet;

use super::navigable_graph::NavigableGraph;

/// When a graph is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimilarityIndexConfig {
    /// Up to so many vectors all are compared: exact, and ten milliseconds for 100 000 of 384 numbers.
    pub max_exact: usize,
}

impl Default for SimilarityIndexConfig {
    fn default() -> Self {
        Self { max_exact: 100_000 }
    }
}

/// Vectors that enter the graph with each one that comes, once there are too many to compare all: no single request
/// waits until a graph of all is built.
const INTO_GRAPH: usize = 8;

/// Unit vectors with their places.
#[derive(Debug, Clone)]
pub struct SimilarityIndex {
    config: SimilarityIndexConfig,
    vectors: Vectors,
    free: Vec<u32>,
    /// Places that are not in the graph.
    outside: BTreeSet<u32>,
    graph: NavigableGraph,
}

/// Vectors of one width, by place.
#[derive(Debug, Clone)]
pub(super) struct Vectors {
    width: usize,
    values: Vec<f32>,
}

impl Vectors {
    pub(super) fn at(&self, place: u32) -> &[f32] {
        let start = place as usize * self.width;
        &self.values[start..start + self.width]
    }

    pub(super) fn similarity(&self, place: u32, to: &[f32]) -> f32 {
        dot(self.at(place), to)
    }
}

/// In sixteen sums, so that the compiler uses vectors.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 16];
    let (a, a_rest) = a.as_chunks::<16>();
    let (b, b_rest) = b.as_chunks::<16>();
    for (a, b) in a.iter().zip(b) {
        for lane in 0..16 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

impl SimilarityIndex {
    /// No vectors yet; they will have `width` numbers.
    pub fn new(config: SimilarityIndexConfig, width: usize) -> Self {
        Self {
            config,
            vectors: Vectors { width, values: Vec::new() },
            free: Vec::new(),
            outside: BTreeSet::new(),
            graph: NavigableGraph::default(),
        }
    }

    /// How many vectors there are.
    pub fn len(&self) -> usize {
        self.outside.len() + self.graph.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a vector of length one and returns its place.
    ///
    /// # Panics
    /// If it has another width.
    pub fn insert(&mut self, vector: &[f32]) -> u32 {
        assert_eq!(vector.len(), self.vectors.width, "all vectors of an index have one width");
        let place = self.free.pop().unwrap_or_else(|| {
            let place = self.vectors.values.len() / self.vectors.width;
            self.vectors.values.resize((place + 1) * self.vectors.width, 0.0);
            u32::try_from(place).expect("memory ends before places do")
        });
        let start = place as usize * self.vectors.width;
        self.vectors.values[start..start + vector.len()].copy_from_slice(vector);
        self.outside.insert(place);
        if self.len() > self.config.max_exact {
            for _ in 0..INTO_GRAPH {
                let Some(place) = self.outside.pop_first() else { break };
                self.graph.insert(&self.vectors, place);
            }
        }
        place
    }

    /// Takes a vector out; its place may be given to another one.
    pub fn remove(&mut self, place: u32) {
        if self.outside.remove(&place) || self.graph.remove(&self.vectors, place) {
            self.free.push(place);
        }
    }

    /// The place of the most similar vector, and its scalar product with this one. Approximate for those that are in the graph.
    pub fn nearest(&self, to: &[f32]) -> Option<(u32, f32)> {
        if to.len() != self.vectors.width {
            return None;
        }
        let compared = |place: &u32| (*place, self.vectors.similarity(*place, to));
        let outside = self.outside.iter().map(compared);
        outside.chain(self.graph.nearest(&self.vectors, to)).max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_core::Stream;

    const WIDTH: usize = 48;

    fn unit(mut vector: Vec<f32>) -> Vec<f32> {
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        vector.iter_mut().for_each(|value| *value /= length);
        vector
    }

    /// Texts lie in groups: a few hundred subjects with their variations.
    fn near(rng: &mut Stream, subjects: &[Vec<f32>]) -> Vec<f32> {
        let subject = &subjects[rng.below(subjects.len())];
        unit(subject.iter().map(|value| value + 0.1 * rng.normal() as f32).collect())
    }

    fn subjects(rng: &mut Stream) -> Vec<Vec<f32>> {
        let one = |rng: &mut Stream| unit((0..WIDTH).map(|_| rng.normal() as f32).collect());
        (0..300).map(|_| one(rng)).collect()
    }

    /// The part of queries for which an index finds the nearest vector.
    fn recall(index: &SimilarityIndex, exact: &SimilarityIndex, queries: &[Vec<f32>]) -> f64 {
        let is_found = |query: &&Vec<f32>| {
            let (found, truth) = (index.nearest(query).unwrap(), exact.nearest(query).unwrap());
            found.1 >= truth.1 - 1e-6
        };
        queries.iter().filter(is_found).count() as f64 / queries.len() as f64
    }

    #[test]
    fn the_graph_finds_what_exact_search_finds_also_after_half_of_it_was_replaced() {
        let mut rng = Stream::from_seed(1);
        let subjects = subjects(&mut rng);
        let mut graph = SimilarityIndex::new(SimilarityIndexConfig { max_exact: 100 }, WIDTH);
        let mut exact = SimilarityIndex::new(SimilarityIndexConfig::default(), WIDTH);
        let add = |rng: &mut Stream, graph: &mut SimilarityIndex, exact: &mut SimilarityIndex| {
            let vector = near(rng, &subjects);
            (graph.insert(&vector), exact.insert(&vector))
        };
        let places: Vec<(u32, u32)> =
            (0..3000).map(|_| add(&mut rng, &mut graph, &mut exact)).collect();
        assert!(graph.outside.is_empty(), "all are in the graph");
        let queries: Vec<Vec<f32>> = (0..300).map(|_| near(&mut rng, &subjects)).collect();
        let found = recall(&graph, &exact, &queries);
        assert!(found >= 0.95, "{found}");
        for (in_graph, in_exact) in places.iter().step_by(2) {
            graph.remove(*in_graph);
            exact.remove(*in_exact);
            add(&mut rng, &mut graph, &mut exact);
        }
        assert_eq!((graph.len(), exact.len()), (3000, 3000));
        let found = recall(&graph, &exact, &queries);
        assert!(found >= 0.95, "{found}");
    }

    #[test]
    fn vectors_are_found_while_they_move_into_the_graph() {
        let mut rng = Stream::from_seed(2);
        let subjects = subjects(&mut rng);
        let mut index = SimilarityIndex::new(SimilarityIndexConfig { max_exact: 500 }, WIDTH);
        let vectors: Vec<Vec<f32>> = (0..530).map(|_| near(&mut rng, &subjects)).collect();
        let places: Vec<u32> = vectors.iter().map(|vector| index.insert(vector)).collect();
        assert!(!index.outside.is_empty() && index.graph.len() > 0, "some are in the graph");
        let is_found = |(vector, place): &(&Vec<f32>, &u32)| {
            index.nearest(vector).is_some_and(|(found, _)| found == **place)
        };
        let found = vectors.iter().zip(&places).filter(is_found).count();
        assert!(found >= 525, "{found}");
    }

    #[test]
    fn an_index_can_be_emptied_and_filled_again() {
        let mut index = SimilarityIndex::new(SimilarityIndexConfig { max_exact: 2 }, 2);
        for _ in 0..3 {
            let places: Vec<u32> =
                (0..20).map(|i| index.insert(&unit(vec![1.0, i as f32]))).collect();
            assert_eq!(index.nearest(&[0.0, 1.0]).unwrap().0, places[19]);
            places.iter().for_each(|place| index.remove(*place));
            assert!(index.is_empty() && index.nearest(&[0.0, 1.0]).is_none());
        }
        assert_eq!(index.vectors.values.len(), 40);
    }
}
