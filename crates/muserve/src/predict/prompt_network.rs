//! A small network that reads the prompt and which model answers (one-hot), with the three losses that
//! predictors of lengths are trained with: ordinal classes, regression, and ranking.
//!
//! Training holds out a tenth of the prompts: they choose the best weights, and map the network's
//! score to a length.

use std::sync::Arc;

use homeostat_core::Stream;
use homeostat_nn::{
    Activation, Adam, AdamConfig, Init, InputRows, Kernel, MlpShape, Network, Tape,
};

use super::embeddings::Embeddings;
use super::prompt_features::{FORM_FEATURES, form_features, grams, readable_part};
use super::{
    Answer, LengthClasses, LengthPrediction, LengthPredictor, MIN_PROMPTS, Recalibration,
    kendall_tau, log_length,
};
use crate::encode::Embed;
use crate::{Error, Result};

/// What a network is trained to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthLoss {
    /// Name the class of the length among [`LengthClasses`]: cross-entropy.
    Classes,
    /// Predict the logarithm of the length: squared error.
    Regression,
    /// Say which of two prompts gets the longer answer of a model: logistic loss of pairs.
    Ranking,
}

impl LengthLoss {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Classes, Self::Regression, Self::Ranking];

    fn outputs(self) -> usize {
        if self == Self::Classes { LengthClasses::COUNT } else { 1 }
    }
}

/// How a network is trained.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PromptNetworkConfig {
    /// The loss.
    pub loss: LengthLoss,
    /// Units of the hidden layer.
    pub hidden: usize,
    /// Updates of the weights.
    pub updates: usize,
    /// Answers of an update; for ranking, half as many pairs.
    pub minibatch: usize,
    /// Learning rate of Adam.
    pub learning_rate: f32,
    /// Part of every weight that an update takes away, over the learning rate.
    pub weight_decay: f32,
    /// Seed of weights and minibatches.
    pub seed: u64,
}

impl PromptNetworkConfig {
    /// Settings that were not tuned beyond a first try.
    pub fn new(loss: LengthLoss) -> Self {
        Self {
            loss,
            hidden: 64,
            updates: 2000,
            minibatch: 64,
            learning_rate: 1e-3,
            weight_decay: 0.1,
            seed: 1,
        }
    }

    fn validate(&self) -> Result<()> {
        for (what, value) in [
            ("the hidden units", self.hidden as f64),
            ("the updates", self.updates as f64),
            ("the minibatch", self.minibatch as f64 / 2.0),
            ("the learning rate", f64::from(self.learning_rate)),
        ] {
            if !value.is_finite() || value <= 0.0 {
                return Err(Error::OutOfRange { what, value, expected: "it is above zero" });
            }
        }
        if !(0.0..=1.0).contains(&self.weight_decay) {
            let (what, value) = ("the weight decay", f64::from(self.weight_decay));
            return Err(Error::OutOfRange { what, value, expected: "it is between 0 and 1" });
        }
        Ok(())
    }
}

/// Columns of each bag of grams: each gram adds to one of them, or takes from it.
const GRAM_COLUMNS: usize = 128;

/// One in this many answers is read as of a model that was never seen.
const UNKNOWN_MODELS: usize = 8;

/// How often the held-out prompts are looked at.
const LOOKS: usize = 20;

/// Answers to held-out prompts that are read at each look, so that a look costs little.
const MAX_HELD_OUT: usize = 4000;

/// A trained network.
#[derive(Debug, Clone)]
pub struct PromptNetwork {
    loss: LengthLoss,
    encoder: PromptEncoder,
    /// In the order of their inputs.
    models: Vec<String>,
    network: Network,
    kernel: Kernel,
    /// Log length for one more of the score.
    slope: f64,
    recalibration: Recalibration,
}

impl PromptNetwork {
    /// Learns from answers of `models` to `prompts`. With an `encoder`, its embeddings of prompts are
    /// inputs, too.
    pub fn train(
        config: PromptNetworkConfig,
        encoder: Option<Arc<dyn Embed>>,
        prompts: &[&str],
        models: &[&str],
        answers: &[Answer],
    ) -> Result<Self> {
        config.validate()?;
        for answer in answers {
            for (what, index, count) in
                [("prompt", answer.prompt, prompts.len()), ("model", answer.model, models.len())]
            {
                if index >= count {
                    return Err(Error::UnknownIndex { what, index, count });
                }
            }
        }
        let mut known: Vec<usize> = answers.iter().map(|answer| answer.prompt).collect();
        known.sort_unstable();
        known.dedup();
        if known.len() < MIN_PROMPTS {
            let what = "prompts with answers";
            return Err(Error::TooFew { what, found: known.len(), least: MIN_PROMPTS });
        }
        let texts: Vec<String> = known.iter().map(|place| readable_part(prompts[*place])).collect();
        let encoder = PromptEncoder::of(&texts, encoder);
        let mut rows = vec![Vec::new(); prompts.len()];
        for (place, text) in known.iter().zip(&texts) {
            rows[*place] = encoder.encode(text);
        }
        let widths = [encoder.width() + models.len(), config.hidden, config.loss.outputs()];
        let shape = MlpShape::new(&widths, Activation::Relu, Activation::Identity)?;
        let mut rng = Stream::from_seed(config.seed);
        let network = Network::new(Arc::new(shape), 0, Init::orthogonal(0.1), &mut rng);
        rng.shuffle(&mut known);
        let mut is_held_out = vec![false; prompts.len()];
        known[..known.len() / 10].iter().for_each(|place| is_held_out[*place] = true);
        let (mut held_out, learnt): (Vec<Answer>, Vec<Answer>) =
            answers.iter().partition(|answer| is_held_out[answer.prompt]);
        rng.shuffle(&mut held_out);
        held_out.truncate(MAX_HELD_OUT);
        let mut this = Self {
            loss: config.loss,
            encoder,
            models: models.iter().map(|name| (*name).to_owned()).collect(),
            network,
            kernel: Kernel::best(),
            slope: 1.0,
            recalibration: Recalibration::new(0.0),
        };
        this.fit(&config, &Targets::of(config.loss, learnt, models.len()), &rows, &held_out, rng)?;
        this.calibrate(&rows, &held_out);
        Ok(this)
    }

    fn fit(
        &mut self,
        config: &PromptNetworkConfig,
        targets: &Targets,
        rows: &[Vec<f32>],
        held_out: &[Answer],
        mut rng: Stream,
    ) -> Result<()> {
        let count = self.network.params().len();
        let (mut adam, mut tape) = (Adam::new(AdamConfig::default(), count), Tape::default());
        let (mut x, mut d_output, mut gradient) = (Vec::new(), Vec::new(), vec![0.0; count]);
        let mut best = (f64::NEG_INFINITY, self.network.clone());
        let every = config.updates.div_ceil(LOOKS);
        for update in 1..=config.updates {
            let drawn = targets.draw(config.minibatch, &mut rng);
            x.clear();
            for place in &drawn {
                let answer = targets.answers[*place];
                let is_known = rng.below(UNKNOWN_MODELS) > 0;
                self.write_input(&rows[answer.prompt], is_known.then_some(answer.model), &mut x);
            }
            let outputs = self.network.forward(self.kernel, &x, drawn.len(), &mut tape);
            targets.gradient(&drawn, outputs, &mut d_output);
            let input = InputRows { x: &x, rows: drawn.len() };
            let shape = self.network.shape().clone();
            let params = self.network.params();
            let into = Some(&mut gradient[..]);
            shape.backward(self.kernel, params, input, &mut tape, &d_output, into, None);
            let params = self.network.params_mut();
            let keep = 1.0 - config.learning_rate * config.weight_decay;
            params.iter_mut().for_each(|weight| *weight *= keep);
            if !adam.step(self.kernel, config.learning_rate, 1.0, &gradient, params) {
                let value = f64::from(config.learning_rate);
                let expected = "a smaller one: the weights have diverged";
                return Err(Error::OutOfRange { what: "the learning rate", value, expected });
            }
            if update % every == 0 {
                let tau = self.tau_within_models(rows, held_out);
                if tau > best.0 {
                    best = (tau, self.network.clone());
                }
            }
        }
        self.network = best.1;
        Ok(())
    }

    /// Kendall's tau of scores and lengths, the mean over models.
    fn tau_within_models(&self, rows: &[Vec<f32>], answers: &[Answer]) -> f64 {
        let mut by_model = vec![(Vec::new(), Vec::new()); self.models.len()];
        for (answer, score) in answers.iter().zip(self.scores(rows, answers)) {
            by_model[answer.model].0.push(score);
            by_model[answer.model].1.push(f64::from(answer.tokens));
        }
        let several = by_model.iter().filter(|(scores, _)| scores.len() > 1);
        let taus: Vec<f64> = several.map(|(scores, tokens)| kendall_tau(scores, tokens)).collect();
        taus.iter().sum::<f64>() / taus.len().max(1) as f64
    }

    /// Maps scores to log lengths: one slope for all, one intercept for each model.
    fn calibrate(&mut self, rows: &[Vec<f32>], held_out: &[Answer]) {
        let scores = self.scores(rows, held_out);
        let mut means = vec![(0.0, 0.0, 0.0); self.models.len()];
        for (answer, score) in held_out.iter().zip(&scores) {
            let (count, of_score, of_length) = &mut means[answer.model];
            *count += 1.0;
            *of_score += score;
            *of_length += log_length(answer.tokens);
        }
        let (mut product, mut square) = (0.0, 0.0);
        for (answer, score) in held_out.iter().zip(&scores) {
            let (count, of_score, of_length) = means[answer.model];
            let beyond = score - of_score / count;
            product += beyond * (log_length(answer.tokens) - of_length / count);
            square += beyond * beyond;
        }
        self.slope = if square > 0.0 { product / square } else { 0.0 };
        let beyond: Vec<(&str, f64)> = held_out
            .iter()
            .zip(&scores)
            .map(|(answer, score)| {
                let model = self.models[answer.model].as_str();
                (model, log_length(answer.tokens) - self.slope * score)
            })
            .collect();
        let mean = beyond.iter().map(|(_, value)| value).sum::<f64>() / beyond.len().max(1) as f64;
        self.recalibration = Recalibration::new(mean);
        beyond.into_iter().for_each(|(model, value)| self.recalibration.record(model, value));
    }

    /// The class (0 to 4, of [`LengthClasses`]) of a model's answer; none for another loss.
    pub fn class(&self, prompt: &str, model: &str) -> Option<usize> {
        let outputs = self.outputs(prompt, model);
        (self.loss == LengthLoss::Classes).then(|| homeostat_nn::argmax(&outputs))
    }

    fn outputs(&self, prompt: &str, model: &str) -> Vec<f32> {
        let model = self.models.iter().position(|known| known == model);
        let mut x = Vec::new();
        self.write_input(&self.encoder.encode(&readable_part(prompt)), model, &mut x);
        self.network.forward(self.kernel, &x, 1, &mut Tape::default()).to_vec()
    }

    fn scores(&self, rows: &[Vec<f32>], answers: &[Answer]) -> Vec<f64> {
        let mut x = Vec::new();
        for answer in answers {
            self.write_input(&rows[answer.prompt], Some(answer.model), &mut x);
        }
        let mut tape = Tape::default();
        let outputs = self.network.forward(self.kernel, &x, answers.len(), &mut tape);
        outputs.chunks_exact(self.loss.outputs()).map(|outputs| self.score(outputs)).collect()
    }

    /// Larger for longer answers.
    fn score(&self, outputs: &[f32]) -> f64 {
        match self.loss {
            LengthLoss::Regression | LengthLoss::Ranking => outputs[0].into(),
            LengthLoss::Classes => {
                let parts = (0..).zip(probabilities(outputs));
                parts.map(|(class, part)| f64::from(class) * part).sum()
            }
        }
    }

    fn write_input(&self, prompt: &[f32], model: Option<usize>, x: &mut Vec<f32>) {
        x.extend_from_slice(prompt);
        let start = x.len();
        x.resize(start + self.models.len(), 0.0);
        if let Some(model) = model {
            x[start + model] = 1.0;
        }
    }

    fn beyond_model(&self, prompt: &str, model: &str) -> f64 {
        self.slope * self.score(&self.outputs(prompt, model))
    }
}

impl LengthPredictor for PromptNetwork {
    fn predict(&self, prompt: &str, model: &str) -> LengthPrediction {
        let expected = self.recalibration.verbosity(model) + self.beyond_model(prompt, model);
        let (low, high) = self.recalibration.error_interval();
        LengthPrediction {
            tokens: expected.exp(),
            interval: ((expected + low).exp(), (expected + high).exp()),
        }
    }

    fn record(&mut self, prompt: &str, model: &str, tokens: u32) {
        let beyond = log_length(tokens) - self.beyond_model(prompt, model);
        self.recalibration.record(model, beyond);
    }
}

/// Softmax.
fn probabilities(outputs: &[f32]) -> impl Iterator<Item = f64> {
    let largest = outputs.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weight = move |output: &f32| f64::from(output - largest).exp();
    let sum: f64 = outputs.iter().map(weight).sum();
    outputs.iter().map(move |output| weight(output) / sum)
}

/// What the network is told about each answer.
struct Targets {
    loss: LengthLoss,
    answers: Vec<Answer>,
    /// Places among the answers, by model; models with two or more.
    by_model: Vec<Vec<usize>>,
    /// Log length, standardised; or the class.
    values: Vec<f64>,
}

impl Targets {
    fn of(loss: LengthLoss, answers: Vec<Answer>, models: usize) -> Self {
        let mut by_model = vec![Vec::new(); models];
        for (place, answer) in answers.iter().enumerate() {
            by_model[answer.model].push(place);
        }
        let logs: Vec<f64> = answers.iter().map(|answer| log_length(answer.tokens)).collect();
        let values = match loss {
            LengthLoss::Ranking => logs,
            LengthLoss::Regression => {
                let count = logs.len().max(1) as f64;
                let mean = logs.iter().sum::<f64>() / count;
                let square = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / count;
                let deviation = square.sqrt().max(1e-6);
                logs.iter().map(|log| (log - mean) / deviation).collect()
            }
            LengthLoss::Classes => {
                let mut values = vec![0.0; answers.len()];
                for places in &by_model {
                    let lengths: Vec<u32> =
                        places.iter().map(|place| answers[*place].tokens).collect();
                    let Ok(classes) = LengthClasses::of(&lengths) else { continue };
                    for (place, tokens) in places.iter().zip(lengths) {
                        values[*place] = classes.class(tokens) as f64;
                    }
                }
                values
            }
        };
        by_model.retain(|places| places.len() > 1);
        Self { loss, answers, by_model, values }
    }

    /// Places of a minibatch: for ranking, pairs of one model behind each other.
    fn draw(&self, minibatch: usize, rng: &mut Stream) -> Vec<usize> {
        if self.loss != LengthLoss::Ranking || self.by_model.is_empty() {
            return (0..minibatch).map(|_| rng.below(self.answers.len())).collect();
        }
        let pair = |_| {
            let of_model = &self.by_model[rng.below(self.by_model.len())];
            [of_model[rng.below(of_model.len())], of_model[rng.below(of_model.len())]]
        };
        (0..minibatch / 2).flat_map(pair).collect()
    }

    /// The gradient of the mean loss with respect to the outputs.
    fn gradient(&self, drawn: &[usize], outputs: &[f32], out: &mut Vec<f32>) {
        out.clear();
        let share = 1.0 / drawn.len() as f64;
        match self.loss {
            LengthLoss::Regression => {
                let slope = |(place, output): (&usize, &f32)| {
                    (2.0 * share * (f64::from(*output) - self.values[*place])) as f32
                };
                out.extend(drawn.iter().zip(outputs).map(slope));
            }
            LengthLoss::Classes => {
                for (place, outputs) in drawn.iter().zip(outputs.chunks(LengthClasses::COUNT)) {
                    let truth = self.values[*place] as usize;
                    let parts = probabilities(outputs).enumerate();
                    out.extend(parts.map(|(class, part)| {
                        (share * (part - f64::from(u8::from(class == truth)))) as f32
                    }));
                }
            }
            LengthLoss::Ranking => {
                for (pair, outputs) in drawn.chunks(2).zip(outputs.chunks(2)) {
                    let &[first, second] = pair else { continue };
                    let difference = f64::from(outputs[0] - outputs[1]);
                    let way = self.values[first].total_cmp(&self.values[second]) as i8;
                    let way = f64::from(way);
                    let slope = -way / (1.0 + (way * difference).exp());
                    out.extend([(2.0 * share * slope) as f32, (-2.0 * share * slope) as f32]);
                }
            }
        }
    }
}

/// A prompt as numbers of a fixed count: form, grams by hashing, and an embedding.
#[derive(Debug, Clone)]
struct PromptEncoder {
    form_mean: Vec<f64>,
    form_deviation: Vec<f64>,
    embeddings: Option<Embeddings>,
}

impl PromptEncoder {
    fn of(texts: &[String], encoder: Option<Arc<dyn Embed>>) -> Self {
        let forms: Vec<Vec<f64>> = texts.iter().map(|text| form_features(text)).collect();
        let count = texts.len() as f64;
        let mean_of =
            |value: &dyn Fn(&Vec<f64>) -> f64| forms.iter().map(value).sum::<f64>() / count;
        let form_mean: Vec<f64> =
            (0..FORM_FEATURES).map(|place| mean_of(&|form| form[place])).collect();
        let variance = |place: usize| mean_of(&|form| (form[place] - form_mean[place]).powi(2));
        let form_deviation = (0..FORM_FEATURES).map(|place| variance(place).sqrt()).collect();
        // Embeddings of length one have small components.
        let scale = encoder.as_ref().map_or(1.0, |encoder| (encoder.width() as f64).sqrt());
        let embeddings = encoder.map(|encoder| Embeddings::of(encoder, scale, texts));
        Self { form_mean, form_deviation, embeddings }
    }

    fn width(&self) -> usize {
        let embedding = self.embeddings.as_ref().map_or(0, Embeddings::width);
        FORM_FEATURES + 2 * GRAM_COLUMNS + embedding
    }

    fn encode(&self, text: &str) -> Vec<f32> {
        let mut row = Vec::with_capacity(self.width());
        for (place, value) in form_features(text).into_iter().enumerate() {
            // A feature that is constant in training says nothing.
            let deviation = self.form_deviation[place];
            let known =
                if deviation > 1e-6 { (value - self.form_mean[place]) / deviation } else { 0.0 };
            row.push(known.clamp(-4.0, 4.0) as f32);
        }
        for bag in grams(text) {
            let mut columns = [0f64; GRAM_COLUMNS];
            for gram in bag {
                // The low bits of the hash choose the column, a high one the sign.
                let sign = if gram >> 63 == 0 { 1.0 } else { -1.0 };
                columns[(gram % GRAM_COLUMNS as u64) as usize] += sign;
            }
            let norm = columns.iter().map(|value| value * value).sum::<f64>().sqrt().max(1e-12);
            let scale = (GRAM_COLUMNS as f64).sqrt() / norm;
            row.extend(columns.map(|value| (value * scale) as f32));
        }
        if let Some(embeddings) = &self.embeddings {
            row.extend(embeddings.features(text).map(|value| value as f32));
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stories are long, names are short, and one model says twice as much as the other.
    fn trained(loss: LengthLoss) -> PromptNetwork {
        let prompts: Vec<String> = (0..80)
            .map(|i| match i % 2 {
                0 => format!("Write a story about item number {i} and its friends."),
                _ => format!("Which name has person {i}?"),
            })
            .collect();
        let mut answers = Vec::new();
        for prompt in 0..prompts.len() {
            for model in 0..2 {
                let base = if prompt % 2 == 0 { 300 } else { 20 };
                let tokens = base * (model as u32 + 1) + prompt as u32 % 7;
                answers.push(Answer { prompt, model, tokens });
            }
        }
        let prompts: Vec<&str> = prompts.iter().map(String::as_str).collect();
        let config = PromptNetworkConfig { updates: 300, ..PromptNetworkConfig::new(loss) };
        PromptNetwork::train(config, None, &prompts, &["terse", "verbose"], &answers).unwrap()
    }

    #[test]
    fn with_every_loss_stories_of_a_verbose_model_are_expected_to_be_long() {
        for loss in LengthLoss::ALL {
            let predictor = trained(loss);
            let tokens = |prompt: &str, model: &str| predictor.predict(prompt, model).tokens;
            let (story, name) = ("Write a story about a horse.", "Which name has the queen?");
            assert!(tokens(story, "terse") > 3.0 * tokens(name, "terse"), "{loss:?}");
            assert!(tokens(story, "verbose") > 1.3 * tokens(story, "terse"), "{loss:?}");
            let unknown = tokens(story, "never seen");
            assert!(unknown > tokens(name, "verbose"), "{loss:?}: {unknown}");
            let classes = [story, name].map(|prompt| predictor.class(prompt, "terse"));
            match loss {
                LengthLoss::Classes => assert!(classes[0] > classes[1], "{classes:?}"),
                _ => assert_eq!(classes, [None, None]),
            }
        }
    }

    #[test]
    fn finished_requests_correct_a_model_that_was_never_seen() {
        let mut predictor = trained(LengthLoss::Ranking);
        let story = "Write a story about a horse.";
        (0..200).for_each(|_| predictor.record(story, "new", 2000));
        let prediction = predictor.predict(story, "new");
        assert!((prediction.tokens / 2000.0 - 1.0).abs() < 0.1, "{prediction:?}");
    }

    #[test]
    fn the_gradients_are_those_of_the_losses() {
        let answers: Vec<Answer> = [(0, 5), (1, 80), (2, 80), (3, 300)]
            .map(|(prompt, tokens)| Answer { prompt, model: 0, tokens })
            .to_vec();
        for loss in LengthLoss::ALL {
            let targets = Targets::of(loss, answers.clone(), 1);
            let drawn = [0, 1, 2, 3, 3, 0];
            let count = drawn.len() * loss.outputs();
            let outputs: Vec<f32> = (0..count).map(|k| ((k * 7) % 5) as f32 * 0.3 - 0.6).collect();
            let value = |outputs: &[f32]| -> f64 {
                let each = outputs.chunks(loss.outputs()).zip(drawn);
                let sum: f64 = match loss {
                    LengthLoss::Regression => each
                        .map(|(output, place)| {
                            (f64::from(output[0]) - targets.values[place]).powi(2)
                        })
                        .sum(),
                    LengthLoss::Classes => each
                        .map(|(outputs, place)| {
                            -probabilities(outputs)
                                .nth(targets.values[place] as usize)
                                .unwrap()
                                .ln()
                        })
                        .sum(),
                    LengthLoss::Ranking => outputs
                        .chunks(2)
                        .zip(drawn.chunks(2))
                        .map(|(outputs, pair)| {
                            let way = targets.values[pair[0]].total_cmp(&targets.values[pair[1]]);
                            let difference = f64::from(outputs[0]) - f64::from(outputs[1]);
                            2.0 * (-f64::from(way as i8) * difference).exp().ln_1p()
                        })
                        .sum(),
                };
                sum / drawn.len() as f64
            };
            let mut gradient = Vec::new();
            targets.gradient(&drawn, &outputs, &mut gradient);
            for place in 0..count {
                let shifted = |by: f32| {
                    let mut outputs = outputs.clone();
                    outputs[place] += by;
                    value(&outputs)
                };
                let numeric = (shifted(1e-3) - shifted(-1e-3)) / 2e-3;
                assert!((numeric - f64::from(gradient[place])).abs() < 1e-3, "{loss:?} {place}");
            }
        }
    }

    #[test]
    fn bad_settings_and_too_few_prompts_are_refused() {
        let config = PromptNetworkConfig::new(LengthLoss::Regression);
        let train = |config: PromptNetworkConfig, answers: &[Answer]| {
            PromptNetwork::train(config, None, &["a"], &["m"], answers).unwrap_err()
        };
        assert!(matches!(train(config, &[]), Error::TooFew { .. }));
        let unknown = Answer { prompt: 0, model: 1, tokens: 5 };
        assert!(matches!(train(config, &[unknown]), Error::UnknownIndex { what: "model", .. }));
        let check = |config: PromptNetworkConfig| {
            assert!(matches!(train(config, &[]), Error::OutOfRange { .. }), "{config:?}");
        };
        check(PromptNetworkConfig { hidden: 0, ..config });
        check(PromptNetworkConfig { updates: 0, ..config });
        check(PromptNetworkConfig { minibatch: 0, ..config });
        check(PromptNetworkConfig { learning_rate: f32::NAN, ..config });
        check(PromptNetworkConfig { weight_decay: 2.0, ..config });
    }
}
