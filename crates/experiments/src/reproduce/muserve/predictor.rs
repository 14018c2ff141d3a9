//! A length predictor on prompts and models that it was not trained on.

use std::io::BufRead;
use std::path::Path;
use std::time::Instant;

use homeostat_core::SeedTree;
use homeostat_lab::{Error, Result, read_packed};
use homeostat_muserve::predict::{
    Answer, Classification, LengthClasses, LengthPredictor, PromptRegression,
    PromptRegressionConfig, kendall_tau,
};
use homeostat_report::{Cell, Finding, Spread, Table};
use rayon::prelude::*;
use serde_json::{Value, json};

use super::{MuserveOptions, empty_finding};

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
}

pub(super) fn predictor(
    options: &MuserveOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let recorded = Recorded::read(&options.data.join("alpaca_eval_lengths"))?;
    let figures: Vec<Figures> = options
        .seeds
        .par_iter()
        .map(|seed| {
            progress(&format!("seed {seed}: training on four fifths of prompts and models"));
            recorded.judge(&SeedTree::new(*seed).child("muserve/predictor"))
        })
        .collect::<Result<_>>()?;
    let over_seeds =
        |figure: fn(&Figures) -> f64| Spread::of(&figures.iter().map(figure).collect::<Vec<_>>());
    let rows: [(&str, &str, Spread, Cell); 11] = [
        (
            "tau.unseen_prompts",
            "Kendall's tau within a model, unseen prompts",
            over_seeds(|f| f.unseen_prompts),
            Cell::Nothing,
        ),
        (
            "tau.unseen_prompts_pooled",
            "the same over all models' requests",
            over_seeds(|f| f.unseen_prompts_pooled),
            Cell::Nothing,
        ),
        (
            "tau.unseen_models",
            "tau within a model, unseen models, known prompts",
            over_seeds(|f| f.unseen_models),
            Cell::Nothing,
        ),
        (
            "tau.unseen_both",
            "tau within a model, prompt and model unseen",
            over_seeds(|f| f.unseen_both),
            Cell::Nothing,
        ),
        (
            "tau.unseen_both_pooled",
            "the same over all models' requests",
            over_seeds(|f| f.unseen_both_pooled),
            Cell::Nothing,
        ),
        (
            "tau.unseen_both_recalibrated",
            "the same after 50 answers of each model",
            over_seeds(|f| f.recalibrated_pooled),
            Cell::Nothing,
        ),
        (
            "tau.ceiling",
            "mean of the other models' answers to the prompt",
            over_seeds(|f| f.ceiling),
            Cell::Nothing,
        ),
        (
            "accuracy",
            "accuracy of five classes, unseen prompts",
            over_seeds(|f| f.accuracy),
            0.43.into(),
        ),
        ("f1", "macro F1 of five classes", over_seeds(|f| f.f1), Cell::Nothing),
        ("coverage", "answers inside the 90 % interval", over_seeds(|f| f.coverage), Cell::Nothing),
        ("ms", "milliseconds of a prediction", over_seeds(|f| f.milliseconds), Cell::Nothing),
    ];
    let mut finding = empty_finding();
    let mut table =
        Table::new("lengths predicted from prompt and model", &["figure", "ours", "paper"]);
    let mut tau = json!({});
    for (key, text, spread, paper) in rows {
        table.push(vec![text.into(), spread.into(), paper]);
        match key.strip_prefix("tau.") {
            Some(name) => tau[name] = json!(spread),
            None => {
                finding.facts.insert(key.to_owned(), json!(spread));
            }
        }
    }
    finding.facts.insert("tau".to_owned(), tau);
    finding.facts.insert("paper".to_owned(), json!({ "accuracy": 0.43 }));
    finding.tables.push(table);
    finding.notes = vec![
        "A seed is a split: a fifth of the prompts and a fifth of the models are not trained on. The paper's \
         accuracy is that of a fine-tuned BERT on another data set (LMSYS-Chat-1M). Milliseconds depend on \
         the machine."
            .to_owned(),
        "Features and penalty were chosen on other splits of the same prompts, among some forty variants: tau \
         of unseen prompts is slightly optimistic."
            .to_owned(),
    ];
    Ok(finding)
}

impl Recorded {
    fn judge(&self, seeds: &SeedTree) -> Result<Figures> {
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
        let mut trained = PromptRegression::train(config, &prompts, &models, &answers)
            .map_err(|error| refused(&error.to_string()))?;
        let started = Instant::now();
        for prompt in &unseen_prompts {
            std::hint::black_box(trained.predict(prompts[*prompt], models[0]));
        }
        let milliseconds =
            1e3 * started.elapsed().as_secs_f64() / unseen_prompts.len().max(1) as f64;
        let (unseen_prompts_tau, unseen_prompts_pooled) =
            self.taus(&trained, &known_models, &unseen_prompts);
        let (unseen_models_tau, _) = self.taus(&trained, &unseen_models, &known_prompts);
        let (unseen_both, unseen_both_pooled) =
            self.taus(&trained, &unseen_models, &unseen_prompts);
        let mut classification = Classification::new(LengthClasses::COUNT);
        let classes: Vec<usize> =
            unseen_prompts.iter().map(|prompt| trained.class(prompts[*prompt])).collect();
        let (mut inside, mut count) = (0.0, 0.0);
        for model in &known_models {
            let lengths: Vec<u32> =
                known_prompts.iter().filter_map(|prompt| self.lengths[*model][*prompt]).collect();
            let Ok(limits) = LengthClasses::of(&lengths) else { continue };
            for (prompt, predicted) in unseen_prompts.iter().zip(&classes) {
                let Some(tokens) = self.lengths[*model][*prompt] else { continue };
                classification.add(limits.class(tokens), *predicted);
                let (low, high) = trained.predict(prompts[*prompt], models[*model]).interval;
                inside += f64::from(u8::from((low..=high).contains(&f64::from(tokens))));
                count += 1.0;
            }
        }
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
        })
    }

    /// Mean tau within a model, and tau of all requests in one.
    fn taus(
        &self,
        predictor: &PromptRegression,
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
