//! A length predictor on prompts and models that it was not trained on.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use homeostat_core::SeedTree;
use homeostat_lab::{Error, Result, read_packed};
use homeostat_muserve::cache::{SemanticCache, SemanticCacheConfig};
use homeostat_muserve::encode::{Embed, Keep, TextEncoder};
use homeostat_muserve::predict::{
    Answer, Classification, LengthClasses, LengthLoss, LengthPredictor, PromptNetwork,
    PromptNetworkConfig, PromptRegression, PromptRegressionConfig, kendall_tau, readable_part,
};
use homeostat_report::{Cell, Finding, Spread, Table};
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::MuserveOptions;

/// Answers of models (rows) to prompts (columns).
struct Recorded {
    prompts: Vec<String>,
    models: Vec<String>,
    lengths: Vec<Vec<Option<u32>>>,
}

/// The figures of one split.
#[derive(Clone, Copy)]
struct Figures {
    unseen_prompts: f64,
    unseen_prompts_pooled: f64,
    unseen_models: f64,
    unseen_both: f64,
    unseen_both_pooled: f64,
    recalibrated_pooled: f64,
    ceiling: f64,
    accuracy: f64,
    f1: f64,
    coverage: f64,
    milliseconds: f64,
    networks: [NetworkFigures; LengthLoss::ALL.len()],
    cache: Option<CacheFigures>,
}

/// A small network trained with one loss.
#[derive(Clone, Copy)]
struct NetworkFigures {
    unseen_prompts: f64,
    unseen_both: f64,
    /// NaN for losses that name no class.
    accuracy: f64,
    milliseconds: f64,
}

/// What the semantic cache finds of unseen prompts; errors are NaN without a hit.
#[derive(Clone, Copy)]
struct CacheFigures {
    hits: f64,
    log_error: f64,
    log_error_predicted: f64,
}

pub(super) fn predictor(
    options: &MuserveOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let recorded = Recorded::read(&options.data.join("alpaca_eval_lengths"))?;
    let encoder = match &options.encoder {
        Some(directory) => {
            progress("reading all prompts with the encoder");
            Some(recorded.encode(directory)?)
        }
        None => None,
    };
    let judge = |encoder: Option<&Encoded>| -> Result<Vec<Figures>> {
        let of_seed = |seed: &u64| {
            progress(&format!("seed {seed}: training on four fifths of prompts and models"));
            recorded.judge(&SeedTree::new(*seed).child("muserve/predictor"), encoder)
        };
        options.seeds.par_iter().map(of_seed).collect()
    };
    let plain = judge(None)?;
    let encoded = encoder.as_ref().map(|encoder| judge(Some(encoder))).transpose()?;
    let mut finding = Finding::default();
    let columns = ["figure", "ours", "with an encoder", "paper"];
    let mut table = Table::new("lengths predicted from prompt and model", &columns);
    for (key, text, figure, paper) in ROWS {
        let over_seeds =
            |figures: &Vec<Figures>| Spread::of(&figures.iter().map(figure).collect::<Vec<_>>());
        let with_encoder = encoded.as_ref().map(over_seeds);
        let paper = paper.map_or(Cell::Nothing, Cell::from);
        table.push(vec![
            text.into(),
            over_seeds(&plain).into(),
            with_encoder.map_or(Cell::Nothing, Cell::from),
            paper,
        ]);
        put(&mut finding.facts, key, json!(over_seeds(&plain)));
        if let Some(spread) = with_encoder {
            let facts = finding.facts.entry("with_encoder").or_insert_with(|| json!({}));
            put(facts.as_object_mut().expect("it was made as an object"), key, json!(spread));
        }
    }
    finding.facts.insert("paper".to_owned(), json!({ "accuracy": 0.43 }));
    finding.tables.push(table);
    finding.tables.push(network_table(&plain, encoded.as_deref(), &mut finding.facts));
    finding.notes = vec![
        "A seed is a split: a fifth of the prompts and a fifth of the models are not trained on. The paper's \
         accuracy is that of a fine-tuned BERT on another data set (LMSYS-Chat-1M). Milliseconds depend on \
         the machine."
            .to_owned(),
        "Features and penalty were chosen on other splits of the same prompts, among some forty variants: tau \
         of unseen prompts is slightly optimistic."
            .to_owned(),
    ];
    if let (Some(encoder), Some(figures)) = (&encoder, &encoded) {
        finding.tables.push(cache_table(figures, &mut finding.facts));
        finding.facts.insert("encoder_ms".to_owned(), json!(encoder.milliseconds));
        finding.notes.push(format!(
            "The encoder needs {:.1} ms per prompt in addition, read on a thread for each core. The semantic cache has \
             the answers of ten models to the prompts of training; log errors are those of unseen prompts that it finds.",
            encoder.milliseconds
        ));
    }
    Ok(finding)
}

type Row = (&'static str, &'static str, fn(&Figures) -> f64, Option<f64>);

const ROWS: [Row; 11] = [
    (
        "tau.unseen_prompts",
        "Kendall's tau within a model, unseen prompts",
        |f| f.unseen_prompts,
        None,
    ),
    (
        "tau.unseen_prompts_pooled",
        "the same over all models' requests",
        |f| f.unseen_prompts_pooled,
        None,
    ),
    (
        "tau.unseen_models",
        "tau within a model, unseen models, known prompts",
        |f| f.unseen_models,
        None,
    ),
    ("tau.unseen_both", "tau within a model, prompt and model unseen", |f| f.unseen_both, None),
    (
        "tau.unseen_both_pooled",
        "the same over all models' requests",
        |f| f.unseen_both_pooled,
        None,
    ),
    (
        "tau.unseen_both_recalibrated",
        "the same after 50 answers of each model",
        |f| f.recalibrated_pooled,
        None,
    ),
    ("tau.ceiling", "mean of the other models' answers to the prompt", |f| f.ceiling, None),
    ("accuracy", "accuracy of five classes, unseen prompts", |f| f.accuracy, Some(0.43)),
    ("f1", "macro F1 of five classes", |f| f.f1, None),
    ("coverage", "answers inside the 90 % interval", |f| f.coverage, None),
    ("ms", "milliseconds of a prediction", |f| f.milliseconds, None),
];

/// Under its key, one level deeper after a dot.
fn put(facts: &mut Map<String, Value>, key: &str, value: Value) {
    match key.split_once('.') {
        Some((group, name)) => {
            facts.entry(group).or_insert_with(|| json!({}))[name] = value;
        }
        None => {
            facts.insert(key.to_owned(), value);
        }
    }
}

type NetworkRow = (&'static str, &'static str, fn(&NetworkFigures) -> f64);

fn network_table(
    plain: &[Figures],
    encoded: Option<&[Figures]>,
    facts: &mut Map<String, Value>,
) -> Table {
    const NAMES: [&str; LengthLoss::ALL.len()] = ["classes", "regression", "ranking"];
    let rows: [NetworkRow; 4] = [
        ("tau_unseen_prompts", "tau within a model, unseen prompts", |f| f.unseen_prompts),
        ("tau_unseen_both", "tau within a model, prompt and model unseen", |f| f.unseen_both),
        ("accuracy", "accuracy of five classes, unseen prompts", |f| f.accuracy),
        ("ms", "milliseconds of a prediction", |f| f.milliseconds),
    ];
    let columns = ["loss", "figure", "ours", "with an encoder"];
    let mut table =
        Table::new("a small network that reads the model as well, by its loss", &columns);
    for (loss, name) in NAMES.into_iter().enumerate() {
        for (key, text, figure) in rows {
            let over_seeds = |figures: &[Figures]| {
                let of_seeds = figures.iter().map(|figures| figure(&figures.networks[loss]));
                let known: Vec<f64> = of_seeds.filter(|value| value.is_finite()).collect();
                (!known.is_empty()).then(|| Spread::of(&known))
            };
            let Some(spread) = over_seeds(plain) else { continue };
            let with_encoder = encoded.and_then(over_seeds);
            let networks = facts.entry("network").or_insert_with(|| json!({}));
            networks[name][key] = json!(spread);
            if let Some(spread) = with_encoder {
                networks[name]["with_encoder"][key] = json!(spread);
            }
            table.push(vec![
                name.into(),
                text.into(),
                spread.into(),
                with_encoder.map_or(Cell::Nothing, Cell::from),
            ]);
        }
    }
    table
}

type CacheRow = (&'static str, &'static str, fn(&CacheFigures) -> f64);

fn cache_table(figures: &[Figures], facts: &mut Map<String, Value>) -> Table {
    let rows: [CacheRow; 3] = [
        ("cache.hits", "unseen prompts that a cached one is similar to", |f| f.hits),
        ("cache.log_error", "mean log error of the cached length", |f| f.log_error),
        ("cache.log_error_predicted", "the same of the prediction", |f| f.log_error_predicted),
    ];
    let mut table = Table::new("the semantic cache at a similarity of 0.8", &["figure", "ours"]);
    for (key, text, figure) in rows {
        // Without a hit there is no error.
        let known = figures.iter().filter_map(|figures| figures.cache.as_ref()).map(figure);
        let known: Vec<f64> = known.filter(|value| value.is_finite()).collect();
        if known.is_empty() {
            continue;
        }
        let spread = Spread::of(&known);
        table.push(vec![text.into(), spread.into()]);
        put(facts, key, json!(spread));
    }
    table
}

/// Embeddings of all prompts, made once.
#[derive(Debug)]
struct Encoded {
    embeddings: Arc<Known>,
    milliseconds: f64,
}

#[derive(Debug)]
struct Known {
    width: usize,
    by_prompt: BTreeMap<String, Vec<f32>>,
}

impl Embed for Known {
    fn width(&self) -> usize {
        self.width
    }

    fn embed(&self, prompt: &str) -> Vec<f32> {
        self.by_prompt.get(prompt).cloned().unwrap_or_else(|| vec![0.0; self.width])
    }
}

impl Recorded {
    fn encode(&self, directory: &Path) -> Result<Encoded> {
        let refused = |error: homeostat_muserve::Error| Error::OutOfRange {
            key: "encoder".to_owned(),
            value: directory.display().to_string(),
            source_text: "flag --encoder".to_owned(),
            expected: error.to_string(),
        };
        let encoder = TextEncoder::load(|name| match std::fs::read(directory.join(name)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            bytes => bytes.map(Some),
        });
        let encoder = encoder.map_err(refused)?;
        let started = Instant::now();
        let embed = |prompt: &String| {
            let text = readable_part(prompt);
            encoder.embed(&text, Keep::Last).map(|embedding| (text, embedding))
        };
        let by_prompt: BTreeMap<String, Vec<f32>> =
            self.prompts.par_iter().map(embed).collect::<Result<_, _>>().map_err(refused)?;
        let threads = rayon::current_num_threads() as f64;
        let milliseconds =
            1e3 * started.elapsed().as_secs_f64() * threads / self.prompts.len().max(1) as f64;
        let embeddings = Arc::new(Known { width: encoder.width(), by_prompt });
        Ok(Encoded { embeddings, milliseconds })
    }

    fn judge(&self, seeds: &SeedTree, encoder: Option<&Encoded>) -> Result<Figures> {
        let split = |count: usize, name: &str| {
            let mut places: Vec<usize> = (0..count).collect();
            seeds.stream(name).shuffle(&mut places);
            let known = places.split_off(count / 5);
            (known, places)
        };
        let (known_prompts, unseen_prompts) = split(self.prompts.len(), "prompts");
        let (known_models, unseen_models) = split(self.models.len(), "models");
        let mut answers = Vec::new();
        for model in &known_models {
            for prompt in &known_prompts {
                if let Some(tokens) = self.lengths[*model][*prompt] {
                    answers.push(Answer { prompt: *prompt, model: *model, tokens });
                }
            }
        }
        let prompts: Vec<&str> = self.prompts.iter().map(String::as_str).collect();
        let models: Vec<&str> = self.models.iter().map(String::as_str).collect();
        let config = PromptRegressionConfig::default();
        let embed = encoder.map(|encoder| encoder.embeddings.clone() as Arc<dyn Embed>);
        let mut trained =
            PromptRegression::train(config, embed.clone(), &prompts, &models, &answers)
                .map_err(|error| refused(&error.to_string()))?;
        let mut networks = [None; LengthLoss::ALL.len()];
        for (figures, loss) in networks.iter_mut().zip(LengthLoss::ALL) {
            let config = PromptNetworkConfig {
                seed: seeds.stream("network").next_u64(),
                ..PromptNetworkConfig::new(loss)
            };
            let network = PromptNetwork::train(config, embed.clone(), &prompts, &models, &answers)
                .map_err(|error| refused(&error.to_string()))?;
            let class = |model: usize, prompt: usize| network.class(prompts[prompt], models[model]);
            let classification =
                self.classify(&known_models, &known_prompts, &unseen_prompts, &class);
            *figures = Some(NetworkFigures {
                unseen_prompts: self.taus(&network, &known_models, &unseen_prompts).0,
                unseen_both: self.taus(&network, &unseen_models, &unseen_prompts).0,
                accuracy: classification.map_or(f64::NAN, |found| found.accuracy()),
                milliseconds: self.milliseconds(&network, &unseen_prompts),
            });
        }
        let milliseconds = self.milliseconds(&trained, &unseen_prompts);
        let (unseen_prompts_tau, unseen_prompts_pooled) =
            self.taus(&trained, &known_models, &unseen_prompts);
        let (unseen_models_tau, _) = self.taus(&trained, &unseen_models, &known_prompts);
        let (unseen_both, unseen_both_pooled) =
            self.taus(&trained, &unseen_models, &unseen_prompts);
        let classes: Vec<usize> = prompts.iter().map(|prompt| trained.class(prompt)).collect();
        let classification =
            self.classify(&known_models, &known_prompts, &unseen_prompts, &|_, prompt| {
                Some(classes[prompt])
            });
        let classification = classification.expect("every prompt has a class");
        let (mut inside, mut count) = (0.0, 0.0);
        for model in &known_models {
            for prompt in &unseen_prompts {
                let Some(tokens) = self.lengths[*model][*prompt] else { continue };
                let (low, high) = trained.predict(prompts[*prompt], models[*model]).interval;
                inside += f64::from(u8::from((low..=high).contains(&f64::from(tokens))));
                count += 1.0;
            }
        }
        let cache = encoder.map(|encoder| {
            let models = &known_models[..known_models.len().min(10)];
            self.judge_cache(encoder, &trained, models, &known_prompts, &unseen_prompts)
        });
        for model in &unseen_models {
            for prompt in known_prompts.iter().take(50) {
                if let Some(tokens) = self.lengths[*model][*prompt] {
                    trained.record(prompts[*prompt], models[*model], tokens);
                }
            }
        }
        Ok(Figures {
            unseen_prompts: unseen_prompts_tau,
            unseen_prompts_pooled,
            unseen_models: unseen_models_tau,
            unseen_both,
            unseen_both_pooled,
            recalibrated_pooled: self.taus(&trained, &unseen_models, &unseen_prompts).1,
            ceiling: self.ceiling(&known_models, &unseen_prompts),
            accuracy: classification.accuracy(),
            f1: classification.macro_f1(),
            coverage: inside / f64::max(count, 1.0),
            milliseconds,
            networks: networks.map(|figures| figures.expect("one for each loss")),
            cache: cache.transpose()?,
        })
    }

    /// Predicted classes of a model's answers to unseen prompts beside the true ones, whose limits are
    /// those of known prompts; none without predictions.
    fn classify(
        &self,
        models: &[usize],
        known_prompts: &[usize],
        unseen_prompts: &[usize],
        class: &dyn Fn(usize, usize) -> Option<usize>,
    ) -> Option<Classification> {
        let mut classification = Classification::new(LengthClasses::COUNT);
        for model in models {
            let lengths: Vec<u32> =
                known_prompts.iter().filter_map(|prompt| self.lengths[*model][*prompt]).collect();
            let Ok(limits) = LengthClasses::of(&lengths) else { continue };
            for prompt in unseen_prompts {
                let Some(tokens) = self.lengths[*model][*prompt] else { continue };
                classification.add(limits.class(tokens), class(*model, *prompt)?);
            }
        }
        Some(classification)
    }

    fn milliseconds(&self, predictor: &dyn LengthPredictor, prompts: &[usize]) -> f64 {
        let started = Instant::now();
        for prompt in prompts {
            std::hint::black_box(predictor.predict(&self.prompts[*prompt], &self.models[0]));
        }
        1e3 * started.elapsed().as_secs_f64() / prompts.len().max(1) as f64
    }

    fn judge_cache(
        &self,
        encoder: &Encoded,
        trained: &PromptRegression,
        models: &[usize],
        known_prompts: &[usize],
        unseen_prompts: &[usize],
    ) -> Result<CacheFigures> {
        let embedding =
            |prompt: usize| encoder.embeddings.embed(&readable_part(&self.prompts[prompt]));
        let config = SemanticCacheConfig::default();
        let mut cache = SemanticCache::new(config, encoder.embeddings.width)
            .map_err(|error| refused(&error.to_string()))?;
        let (mut asked, mut hits, mut error, mut error_predicted) = (0.0, 0.0, 0.0, 0.0);
        for model in models {
            let name = self.models[*model].as_str();
            for prompt in known_prompts {
                if let Some(tokens) = self.lengths[*model][*prompt] {
                    cache.record(name, &embedding(*prompt), tokens);
                }
            }
            for prompt in unseen_prompts {
                let Some(tokens) = self.lengths[*model][*prompt] else { continue };
                let of_log = |expected: f64| (expected / f64::from(tokens.max(1))).ln().abs();
                asked += 1.0;
                if let Some(cached) = cache.find(name, &embedding(*prompt)) {
                    hits += 1.0;
                    error += of_log(cached);
                    error_predicted += of_log(trained.predict(&self.prompts[*prompt], name).tokens);
                }
            }
        }
        Ok(CacheFigures {
            hits: hits / f64::max(asked, 1.0),
            log_error: error / hits,
            log_error_predicted: error_predicted / hits,
        })
    }

    /// Mean tau within a model, and tau of all requests in one.
    fn taus(
        &self,
        predictor: &dyn LengthPredictor,
        models: &[usize],
        prompts: &[usize],
    ) -> (f64, f64) {
        let predict = |model: usize, prompt: usize| {
            predictor.predict(&self.prompts[prompt], &self.models[model]).tokens
        };
        self.taus_of(models, prompts, &predict)
    }

    fn ceiling(&self, models: &[usize], prompts: &[usize]) -> f64 {
        let predict = |model: usize, prompt: usize| {
            let others = models.iter().filter(|other| **other != model);
            let lengths: Vec<f64> =
                others.filter_map(|other| self.lengths[*other][prompt]).map(f64::from).collect();
            lengths.iter().sum::<f64>() / lengths.len().max(1) as f64
        };
        self.taus_of(models, prompts, &predict).0
    }

    fn taus_of(
        &self,
        models: &[usize],
        prompts: &[usize],
        predict: &dyn Fn(usize, usize) -> f64,
    ) -> (f64, f64) {
        let (mut all_predicted, mut all_true, mut taus) = (Vec::new(), Vec::new(), Vec::new());
        for model in models {
            let start = all_true.len();
            for prompt in prompts {
                if let Some(tokens) = self.lengths[*model][*prompt] {
                    all_predicted.push(predict(*model, *prompt));
                    all_true.push(f64::from(tokens));
                }
            }
            if all_true.len() > start + 1 {
                taus.push(kendall_tau(&all_predicted[start..], &all_true[start..]));
            }
        }
        let mean = taus.iter().sum::<f64>() / taus.len().max(1) as f64;
        (mean, kendall_tau(&all_predicted, &all_true))
    }

    fn read(directory: &Path) -> Result<Self> {
        let read_lines = |name: &str| {
            read_packed(&directory.join(name), &["csv", "jsonl"], &mut |_| {}, |file| {
                file.lines().collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())
            })
        };
        let lines = read_lines("prompts.jsonl")?;
        let mut prompts = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            let broken = || {
                refused(&format!(
                    "prompts.jsonl, line {}: expected an object with prompt_id and prompt",
                    index + 1
                ))
            };
            let value: Value = serde_json::from_str(line).map_err(|_| broken())?;
            let id = value["prompt_id"].as_u64().ok_or_else(broken)?;
            let prompt = value["prompt"].as_str().ok_or_else(broken)?;
            prompts.push((format!("p{id}"), prompt.to_owned()));
        }
        let lines = read_lines("lengths.csv")?;
        let header: Vec<&str> = lines.first().map_or(Vec::new(), |line| line.split(',').collect());
        let names: Vec<&str> = prompts.iter().map(|(name, _)| name.as_str()).collect();
        if header.split_first() != Some((&"model", names.as_slice())) {
            return Err(refused(
                "lengths.csv: its columns are not model and the prompts of prompts.jsonl",
            ));
        }
        let (mut models, mut lengths) = (Vec::new(), Vec::new());
        for (index, line) in lines.iter().enumerate().skip(1) {
            let mut fields = line.split(',');
            models.push(fields.next().unwrap_or_default().to_owned());
            let row: Option<Vec<Option<u32>>> = fields
                .map(
                    |field| {
                        if field.is_empty() { Some(None) } else { field.parse().ok().map(Some) }
                    },
                )
                .collect();
            let row = row.filter(|row| row.len() == prompts.len()).ok_or_else(|| {
                refused(&format!(
                    "lengths.csv, line {}: expected a length or nothing per prompt",
                    index + 1
                ))
            })?;
            lengths.push(row);
        }
        if models.len() < 10 {
            return Err(refused("lengths.csv: at least 10 models are needed"));
        }
        Ok(Self {
            prompts: prompts.into_iter().map(|(_, prompt)| prompt).collect(),
            models,
            lengths,
        })
    }
}

fn refused(expected: &str) -> Error {
    Error::OutOfRange {
        key: "data".to_owned(),
        value: "alpaca_eval_lengths".to_owned(),
        source_text: "flag --data".to_owned(),
        expected: expected.to_owned(),
    }
}
