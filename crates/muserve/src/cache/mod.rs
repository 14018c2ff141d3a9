//! The semantic cache: lengths of answers to similar prompts (section 6.3.3).

mod navigable_graph;
mod similarity_index;

use std::collections::BTreeMap;

pub use similarity_index::{SimilarityIndex, SimilarityIndexConfig};

use crate::{Error, Result};

/// A prompt this near to a cached one is the same prompt.
const SAME_PROMPT: f32 = 0.999;

/// Weight of the latest answer to a prompt that was asked before.
const NEWEST: f64 = 0.5;

/// How a cache is bounded, and when it answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SemanticCacheConfig {
    /// Cosine similarity from which on two prompts mean the same.
    pub threshold: f32,
    /// Answers that are kept; beyond that the least recently used one is removed.
    pub capacity: usize,
}

impl Default for SemanticCacheConfig {
    /// The dissertation's threshold; 100 000 vectors of 384 numbers take 150 MB.
    fn default() -> Self {
        Self { threshold: 0.8, capacity: 100_000 }
    }
}

/// Lengths of answers by model and embedding of the prompt.
#[derive(Debug, Clone)]
pub struct SemanticCache {
    config: SemanticCacheConfig,
    width: usize,
    models: BTreeMap<String, OfModel>,
    /// By when they were last used.
    used: BTreeMap<u64, (String, u32)>,
    clock: u64,
}

#[derive(Debug, Clone)]
struct OfModel {
    index: SimilarityIndex,
    /// By place in the index.
    answers: BTreeMap<u32, Cached>,
}

#[derive(Debug, Clone, Copy)]
struct Cached {
    log_tokens: f64,
    used: u64,
}

impl SemanticCache {
    /// An empty cache for embeddings of `width` numbers.
    pub fn new(config: SemanticCacheConfig, width: usize) -> Result<Self> {
        let threshold = f64::from(config.threshold);
        if !(threshold > 0.0 && threshold <= 1.0) {
            return Err(Error::OutOfRange {
                what: "the similarity from which on prompts mean the same",
                value: threshold,
                expected: "it is a cosine above 0 and at most 1",
            });
        }
        if config.capacity == 0 || width == 0 {
            return Err(Error::OutOfRange {
                what: "the size of a semantic cache",
                value: 0.0,
                expected: "a cache has at least one answer, and an embedding one number",
            });
        }
        let (models, used) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { config, width, models, used, clock: 0 })
    }

    /// Answers in the cache.
    pub fn len(&self) -> usize {
        self.used.len()
    }

    /// Whether it has no answers.
    pub fn is_empty(&self) -> bool {
        self.used.is_empty()
    }

    /// The length of the model's answer to the most similar prompt, if it is similar enough. An embedding of
    /// another width finds nothing.
    pub fn find(&mut self, model: &str, embedding: &[f32]) -> Option<f64> {
        let (place, similarity) = self.nearest(model, embedding)?;
        (similarity >= self.config.threshold).then(|| self.touch(model, place, None).exp())
    }

    /// Records an answer.
    pub fn record(&mut self, model: &str, embedding: &[f32], tokens: u32) {
        if embedding.len() != self.width || embedding.iter().any(|value| !value.is_finite()) {
            return;
        }
        let log_tokens = f64::from(tokens.max(1)).ln();
        let nearest = self.nearest(model, embedding);
        if let Some((place, _)) = nearest.filter(|(_, similarity)| *similarity >= SAME_PROMPT) {
            self.touch(model, place, Some(log_tokens));
            return;
        }
        if self.len() >= self.config.capacity {
            self.evict();
        }
        let of_model = self.models.entry(model.to_owned()).or_insert_with(|| {
            let index = SimilarityIndex::new(SimilarityIndexConfig::default(), self.width);
            OfModel { index, answers: BTreeMap::new() }
        });
        let place = of_model.index.insert(embedding);
        self.clock += 1;
        of_model.answers.insert(place, Cached { log_tokens, used: self.clock });
        self.used.insert(self.clock, (model.to_owned(), place));
    }

    fn nearest(&self, model: &str, embedding: &[f32]) -> Option<(u32, f32)> {
        self.models.get(model)?.index.nearest(embedding)
    }

    /// Moves an answer to the most recently used; returns its log length.
    fn touch(&mut self, model: &str, place: u32, newest: Option<f64>) -> f64 {
        let of_model = self.models.get_mut(model).expect("the place was found in this model's");
        let cached = of_model.answers.get_mut(&place).expect("every place has an answer");
        self.clock += 1;
        let entry = self.used.remove(&cached.used).expect("every answer was used once");
        self.used.insert(self.clock, entry);
        cached.used = self.clock;
        if let Some(newest) = newest {
            cached.log_tokens += NEWEST * (newest - cached.log_tokens);
        }
        cached.log_tokens
    }

    fn evict(&mut self) {
        let Some((_, (model, place))) = self.used.pop_first() else { return };
        let of_model = self.models.get_mut(&model).expect("a model is kept while it has answers");
        of_model.index.remove(place);
        of_model.answers.remove(&place);
        if of_model.answers.is_empty() {
            self.models.remove(&model);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(capacity: usize) -> SemanticCache {
        SemanticCache::new(SemanticCacheConfig { threshold: 0.8, capacity }, 2).unwrap()
    }

    fn at(degrees: f32) -> [f32; 2] {
        [degrees.to_radians().cos(), degrees.to_radians().sin()]
    }

    #[test]
    fn a_similar_prompt_has_the_cached_length_of_the_same_model() {
        let mut cache = cache(10);
        cache.record("m", &at(0.0), 100);
        cache.record("m", &at(60.0), 900);
        assert_eq!(cache.find("m", &at(20.0)).map(f64::round), Some(100.0));
        assert_eq!(cache.find("m", &at(50.0)).map(f64::round), Some(900.0));
        // 40 degrees from the next one is a similarity of 0.77.
        assert_eq!(cache.find("m", &at(100.0)), None);
        assert_eq!(cache.find("other", &at(0.0)), None);
        assert_eq!(cache.find("m", &[1.0]), None);
    }

    #[test]
    fn the_same_prompt_is_kept_once_with_its_latest_answers() {
        let mut cache = cache(10);
        (0..20).for_each(|_| cache.record("m", &at(0.0), 100));
        (0..20).for_each(|_| cache.record("m", &at(0.0), 400));
        assert_eq!(cache.len(), 1);
        assert_eq!(cache.find("m", &at(0.0)).map(f64::round), Some(400.0));
    }

    #[test]
    fn the_least_recently_used_answer_makes_room() {
        let mut cache = cache(2);
        cache.record("m", &at(0.0), 100);
        cache.record("n", &at(0.0), 200);
        assert!(cache.find("m", &at(0.0)).is_some());
        cache.record("m", &at(90.0), 300);
        assert_eq!(cache.len(), 2);
        assert_eq!(cache.find("n", &at(0.0)), None);
        assert!(cache.find("m", &at(0.0)).is_some() && cache.find("m", &at(90.0)).is_some());
    }

    #[test]
    fn what_is_not_a_number_is_not_kept_and_settings_are_checked() {
        let mut cache = cache(2);
        cache.record("m", &[f32::NAN, 0.0], 5);
        assert!(cache.is_empty());
        for (threshold, capacity) in [(0.0, 1), (1.1, 1), (f32::NAN, 1), (0.8, 0)] {
            let config = SemanticCacheConfig { threshold, capacity };
            assert!(SemanticCache::new(config, 2).is_err(), "{config:?}");
        }
    }
}
