//! Lengths of answers, learnt from the requests that this gateway has seen finish.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Instant;

use homeostat_muserve::cache::SemanticCache;
use homeostat_muserve::encode::{Embed, TextEncoder};
use homeostat_muserve::predict::{
    Answer, DriftDetector, PromptRegression, PromptRegressionConfig, Recalibration, readable_part,
};

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::settings::{Encoder, Prediction};

const NOT_POISONED: &str = "no code panics while it holds this lock";

/// Until a model has answered: a typical answer of a chat.
const FIRST_GUESS: f64 = 200.0;

/// A training is followed by a rest of so many times its own time: it takes a 20th of a core at most.
const RESTS_PER_TRAINING: u32 = 19;
/// Of Linux, for a thread.
#[cfg(target_os = "linux")]
const LEAST_PRIORITY: i32 = 19;

/// What is known of lengths.
#[derive(Debug)]
pub struct Lengths {
    learnt: RwLock<Learnt>,
    reader: RwLock<Option<Arc<Reader>>>,
    window: Mutex<Window>,
    is_training: AtomicBool,
}

#[derive(Debug)]
enum Learnt {
    /// A mean per model, until there is enough for a regression.
    Means(Recalibration),
    Regression {
        training: u64,
        regression: Box<PromptRegression>,
    },
}

/// What the regression of one training makes of a prompt.
#[derive(Debug, Clone, Copy)]
struct Score {
    training: u64,
    score: f64,
}

/// What an encoder makes of prompts.
#[derive(Debug)]
struct Reader {
    settings: Encoder,
    encoder: TextEncoder,
    remembered: Mutex<Remembered>,
    cache: Option<Mutex<SemanticCache>>,
}

/// The latest embeddings: a prompt is read when it comes, when its answer is recorded, and in trainings.
#[derive(Debug, Default)]
struct Remembered {
    embeddings: BTreeMap<String, Vec<f32>>,
    order: VecDeque<String>,
}

/// More than the largest window of a training.
const REMEMBERED: usize = 4096;

/// Reads an encoder from the files of its directory.
pub(crate) fn read_encoder(directory: &Path) -> homeostat_muserve::Result<TextEncoder> {
    TextEncoder::load(|name| match std::fs::read(directory.join(name)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        bytes => bytes.map(Some),
    })
}

impl Reader {
    fn new(settings: Encoder) -> homeostat_muserve::Result<Arc<Self>> {
        let encoder = read_encoder(&settings.directory)?;
        let cache = settings.cache.map(|config| SemanticCache::new(config, encoder.width()));
        let cache = cache.transpose()?.map(Mutex::new);
        Ok(Arc::new(Self { settings, encoder, remembered: Mutex::default(), cache }))
    }

    /// The length of the model's answer to a prompt that meant the same.
    fn find(&self, prompt: &str, model: &str) -> Option<f64> {
        // Without a cache, too: the regression then finds it remembered, and computes none under its lock.
        let embedding = Embed::embed(self, prompt);
        let cache = self.cache.as_ref()?;
        cache.lock().expect(NOT_POISONED).find(model, &embedding)
    }

    fn record(&self, prompt: &str, model: &str, tokens: u32) {
        let embedding = Embed::embed(self, prompt);
        if let Some(cache) = &self.cache {
            cache.lock().expect(NOT_POISONED).record(model, &embedding, tokens);
        }
    }
}

impl Embed for Reader {
    fn width(&self) -> usize {
        self.encoder.width()
    }

    fn embed(&self, prompt: &str) -> Vec<f32> {
        let known = self.remembered.lock().expect(NOT_POISONED).embeddings.get(prompt).cloned();
        if let Some(known) = known {
            return known;
        }
        let embed = || Embed::embed(&self.encoder, prompt);
        // It takes milliseconds: other tasks of this thread go on elsewhere meanwhile.
        let runtime = Handle::try_current().map(|handle| handle.runtime_flavor());
        let embedding = match runtime {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(embed),
            _ => embed(),
        };
        let mut remembered = self.remembered.lock().expect(NOT_POISONED);
        if remembered.embeddings.insert(prompt.to_owned(), embedding.clone()).is_none() {
            remembered.order.push_back(prompt.to_owned());
        }
        if remembered.order.len() > REMEMBERED {
            let oldest = remembered.order.pop_front().expect("there are more than none");
            remembered.embeddings.remove(&oldest);
        }
        embedding
    }
}

#[derive(Debug)]
struct Window {
    settings: Prediction,
    finished: VecDeque<Finished>,
    since_training: usize,
    /// When the next training may begin.
    rested: Option<Instant>,
    /// By model, since the last training.
    drift: BTreeMap<String, DriftDetector>,
}

impl Window {
    /// Whether the lengths of a model have changed; then its answers of before are forgotten.
    fn has_drifted(&mut self, model: &str, error: f64) -> bool {
        let detector = match self.drift.get_mut(model) {
            Some(detector) => detector,
            None => self.drift.entry(model.to_owned()).or_default(),
        };
        let Some(since) = detector.record(error) else { return false };
        let mut kept = 0;
        let mut answers: Vec<Finished> = self.finished.drain(..).rev().collect();
        answers.retain(|answer| {
            kept += u32::from(answer.model == model);
            answer.model != model || kept <= since
        });
        self.finished = answers.into_iter().rev().collect();
        true
    }
}

#[derive(Debug, Clone)]
struct Finished {
    prompt: String,
    model: String,
    tokens: u32,
}

/// The prompt of a request as predictors read it, and what was predicted.
#[derive(Debug, Clone)]
pub struct Expected {
    prompt: String,
    /// Tokens of the answer, no more than the request allows.
    pub tokens: f64,
    /// What the prompt and the model alone let expect.
    unlimited: f64,
    /// Known if a regression was asked.
    score: Option<Score>,
}

impl Lengths {
    /// Nothing learnt.
    pub fn new(settings: Prediction) -> Arc<Self> {
        let learnt = Learnt::Means(Recalibration::new(FIRST_GUESS.ln()));
        let window = Window {
            settings,
            finished: VecDeque::new(),
            since_training: 0,
            rested: None,
            drift: BTreeMap::new(),
        };
        let lengths = Self {
            learnt: RwLock::new(learnt),
            reader: RwLock::new(None),
            window: Mutex::new(window),
            is_training: AtomicBool::new(false),
        };
        lengths.read_with(lengths.window.lock().expect(NOT_POISONED).settings.encoder.as_ref());
        Arc::new(lengths)
    }

    /// Takes over new settings. A new encoder counts in the regression from its next training on.
    pub fn configure(&self, settings: Prediction) {
        self.read_with(settings.encoder.as_ref());
        self.window.lock().expect(NOT_POISONED).settings = settings;
    }

    fn read_with(&self, encoder: Option<&Encoder>) {
        let before = self.reader();
        if encoder == before.as_ref().map(|reader| &reader.settings) {
            return;
        }
        // It was read when the settings were checked: only a change since then makes it fail here.
        let reader = encoder.and_then(|encoder| match Reader::new(encoder.clone()) {
            Ok(reader) => Some(reader),
            Err(error) => {
                tracing::error!(%error, "no encoder: lengths are predicted without one");
                None
            }
        });
        *self.reader.write().expect(NOT_POISONED) = reader;
    }

    fn reader(&self) -> Option<Arc<Reader>> {
        self.reader.read().expect(NOT_POISONED).clone()
    }

    /// The expected answer of a model, no longer than the request allows.
    pub fn expect(&self, prompt: &str, model: &str, max_tokens: Option<f64>) -> Expected {
        let prompt = readable_part(prompt);
        let cached = self.reader().and_then(|reader| reader.find(&prompt, model));
        let (tokens, score) = match cached {
            Some(tokens) => (tokens, None),
            None => self.predict(&prompt, model),
        };
        let limit = max_tokens.unwrap_or(f64::INFINITY);
        Expected { prompt, tokens: tokens.min(limit), unlimited: tokens, score }
    }

    fn predict(&self, prompt: &str, model: &str) -> (f64, Option<Score>) {
        match &*self.learnt.read().expect(NOT_POISONED) {
            Learnt::Means(means) => (means.verbosity(model).exp(), None),
            Learnt::Regression { training, regression } => {
                let score = regression.score(prompt);
                let tokens = regression.predict_scored(score, model).tokens;
                (tokens, Some(Score { training: *training, score }))
            }
        }
    }

    /// Takes note of a finished answer; returns whether the lengths of the model have drifted. An answer
    /// that was cut at its limit says only that it would have been longer: it counts if it was longer
    /// than expected, too.
    pub fn record(
        self: &Arc<Self>,
        expected: Expected,
        model: &str,
        tokens: u64,
        is_cut: bool,
    ) -> bool {
        if is_cut && (tokens as f64) < expected.tokens {
            return false;
        }
        let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
        // First, so that the prompt's embedding is remembered before a lock is held that others wait for.
        if let Some(reader) = self.reader() {
            reader.record(&expected.prompt, model, tokens);
        }
        self.correct(&expected, model, tokens);
        let error = (f64::from(tokens.max(1)) / expected.unlimited).ln();
        let mut window = self.window.lock().expect(NOT_POISONED);
        let finished = Finished { prompt: expected.prompt, model: model.to_owned(), tokens };
        window.finished.push_back(finished);
        while window.finished.len() > window.settings.window {
            window.finished.pop_front();
        }
        window.since_training += 1;
        let has_drifted = !is_cut && window.has_drifted(model, error);
        let is_rested = window.rested.is_none_or(|rested| rested <= Instant::now());
        let is_due =
            has_drifted || (is_rested && window.since_training >= window.settings.train_every);
        if is_due && !self.is_training.swap(true, Ordering::AcqRel) {
            window.since_training = 0;
            window.drift.clear();
            let finished: Vec<Finished> = window.finished.iter().cloned().collect();
            drop(window);
            let lengths = self.clone();
            // A thread of its own, since its priority stays as it is set.
            let training = std::thread::Builder::new().name("training".to_owned());
            let training = training.spawn(move || lengths.train(&finished));
            if let Err(error) = training {
                tracing::warn!(%error, "there is no thread for a training");
                self.is_training.store(false, Ordering::Release);
            }
        }
        if has_drifted {
            tracing::info!(
                model,
                "lengths of answers have changed: answers of before are forgotten"
            );
        }
        has_drifted
    }

    /// Corrects what was learnt by an answer. A prompt is encoded before the lock is held for which
    /// predictions wait.
    fn correct(&self, expected: &Expected, model: &str, tokens: u32) {
        let score = match &*self.learnt.read().expect(NOT_POISONED) {
            Learnt::Means(_) => None,
            Learnt::Regression { training, regression } => {
                let known = expected.score.filter(|score| score.training == *training);
                // Otherwise the cache predicted, or an earlier training.
                let score = || regression.score(&expected.prompt);
                known.or_else(|| Some(Score { training: *training, score: score() }))
            }
        };
        match (&mut *self.learnt.write().expect(NOT_POISONED), score) {
            (Learnt::Means(means), _) => means.record(model, f64::from(tokens.max(1)).ln()),
            (Learnt::Regression { training, regression }, Some(found))
                if found.training == *training =>
            {
                regression.record_scored(found.score, model, tokens);
            }
            // A training ended in between: it has most answers, and one more or less says little.
            (Learnt::Regression { .. }, _) => {}
        }
    }

    fn train(&self, finished: &[Finished]) {
        // Requests go first. Where that cannot be had, they share the processor.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::setpriority_process(None, LEAST_PRIORITY);
        let start = Instant::now();
        let prompts: Vec<&str> = finished.iter().map(|answer| answer.prompt.as_str()).collect();
        let models: BTreeSet<&str> = finished.iter().map(|answer| answer.model.as_str()).collect();
        let models: Vec<&str> = models.into_iter().collect();
        let answers: Vec<Answer> = finished
            .iter()
            .enumerate()
            .map(|(prompt, answer)| {
                let place = models.binary_search(&answer.model.as_str());
                let model = place.expect("the list has the models of all answers");
                Answer { prompt, model, tokens: answer.tokens }
            })
            .collect();
        let config = PromptRegressionConfig::default();
        let encoder = self.reader().map(|reader| reader as Arc<dyn Embed>);
        match PromptRegression::train(config, encoder, &prompts, &models, &answers) {
            Ok(regression) => {
                tracing::info!(answers = answers.len(), "trained the predictor of lengths");
                let mut learnt = self.learnt.write().expect(NOT_POISONED);
                let training = match &*learnt {
                    Learnt::Means(_) => 0,
                    Learnt::Regression { training, .. } => training + 1,
                };
                *learnt = Learnt::Regression { training, regression: Box::new(regression) };
            }
            Err(error) => tracing::info!(%error, "lengths are predicted by a mean per model"),
        }
        // Thousands of requests per second would make one training follow the other.
        let rest = start.elapsed() * RESTS_PER_TRAINING;
        self.window.lock().expect(NOT_POISONED).rested = Instant::now().checked_add(rest);
        self.is_training.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_muserve::cache::SemanticCacheConfig;

    fn lengths(train_every: usize) -> Arc<Lengths> {
        Lengths::new(Prediction { train_every, window: 200, encoder: None })
    }

    #[tokio::test]
    async fn a_mean_per_model_comes_first_and_the_limit_of_a_request_holds() {
        let lengths = lengths(1000);
        assert_eq!(lengths.expect("Hello", "m", None).tokens.round(), FIRST_GUESS);
        for _ in 0..200 {
            lengths.record(lengths.expect("Hello", "m", None), "m", 1000, false);
        }
        assert!((lengths.expect("Hello", "m", None).tokens - 1000.0).abs() < 100.0);
        assert_eq!(lengths.expect("Hello", "m", Some(5.0)).tokens, 5.0);
    }

    #[tokio::test]
    async fn a_training_is_followed_by_a_rest() {
        let lengths = lengths(50);
        for number in 0..50 {
            let prompt = format!("Tell me about item number {number}.");
            lengths.record(lengths.expect(&prompt, "m", None), "m", 200 + number % 7, false);
        }
        while lengths.is_training.load(Ordering::Acquire) {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        assert!(matches!(*lengths.learnt.read().unwrap(), Learnt::Regression { .. }));
        let later = Instant::now() + std::time::Duration::from_secs(60);
        lengths.window.lock().unwrap().rested = Some(later);
        for number in 0..100 {
            lengths.record(lengths.expect("Hello", "m", None), "m", 200 + number % 7, false);
        }
        assert!(!lengths.is_training.load(Ordering::Acquire));
        assert_eq!(lengths.window.lock().unwrap().since_training, 100, "it is due, and waits");
    }

    #[tokio::test]
    async fn an_answer_that_was_cut_early_teaches_nothing() {
        let lengths = lengths(1000);
        lengths.record(lengths.expect("Hello", "m", Some(5.0)), "m", 4, true);
        assert_eq!(lengths.expect("Hello", "m", None).tokens.round(), FIRST_GUESS);
    }

    #[tokio::test]
    async fn a_model_that_answers_at_another_length_is_learnt_anew_from_the_change_on() {
        let lengths = lengths(1000);
        let mut rng = homeostat_core::Stream::from_seed(1);
        let mut answer = |number: u64, median: f64| {
            let prompt = format!("Tell me about item number {number}.");
            let tokens = (median * (0.5 * rng.normal()).exp()) as u64;
            lengths.record(lengths.expect(&prompt, "m", None), "m", tokens, false)
        };
        assert!(!(0..150).any(|number| answer(number, 100.0)));
        let noticed = (0..100).find(|number| answer(*number, 800.0)).unwrap();
        assert!(noticed < 30, "{noticed}");
        let window = lengths.window.lock().unwrap();
        let kept = window.finished.len() as u64 - (noticed + 1);
        assert!(kept < 15, "{kept} of 150 answers of before are still used");
    }

    #[tokio::test]
    async fn finished_requests_train_a_regression_on_prompts() {
        let lengths = lengths(100);
        for number in 0..100 {
            let (prompt, tokens) = match number % 2 {
                0 => (format!("Write a long story about item {number}."), 600),
                _ => (format!("Which name has person {number}?"), 12),
            };
            lengths.record(lengths.expect(&prompt, "m", None), "m", tokens, false);
        }
        let is_trained = || matches!(&*lengths.learnt.read().unwrap(), Learnt::Regression { .. });
        for _ in 0..2000 {
            if is_trained() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let tokens = |prompt: &str| lengths.expect(prompt, "m", None).tokens;
        // Expected before the training and recorded after it, or both after it: each is learnt.
        let before = Expected { score: None, ..lengths.expect("Hello", "m", None) };
        for expected in [before, lengths.expect("Hello", "m", None)] {
            let expectation = tokens("Hello");
            lengths.record(expected, "m", 5000, false);
            assert!(tokens("Hello") > expectation);
        }
        assert!(tokens("Write a long story about cats.") > 3.0 * tokens("Which name has she?"));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_prompt_that_means_the_same_is_expected_to_be_answered_at_the_same_length() {
        let Some(directory) = std::env::var_os("HOMEOSTAT_TEST_MINILM") else {
            homeostat_test_skip::skip(
                "a semantic cache: ./test sets HOMEOSTAT_TEST_MINILM, see tests/minilm",
            );
            return;
        };
        let cache = Some(SemanticCacheConfig::default());
        let encoder = Some(Encoder { directory: directory.into(), cache });
        let lengths = Lengths::new(Prediction { train_every: 1000, window: 200, encoder });
        let question = "What is the capital of France?";
        lengths.record(lengths.expect(question, "m", None), "m", 17, false);
        let tokens = |prompt: &str, model: &str| lengths.expect(prompt, model, None).tokens.round();
        assert_eq!(tokens("what's the capital city of France", "m"), 17.0);
        // The mean of the model has moved towards its only answer.
        assert!(tokens("Write a poem about autumn leaves.", "m") > 100.0);
        assert_eq!(tokens(question, "other"), FIRST_GUESS);
        lengths.configure(Prediction { train_every: 1000, window: 200, encoder: None });
        assert!(tokens(question, "m") > 100.0);
    }
}
