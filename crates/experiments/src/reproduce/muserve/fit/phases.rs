//! Prompt and token phases of large models (splitwise_perf_model). A prompt takes the time to read
//! the weights or that of its arithmetic, whichever is longer, and more for each token where activations
//! leave the caches. A token takes time linear in the batch and in the cached tokens. No coefficient is
//! below zero: more work never takes less time.

use std::collections::BTreeMap;
use std::path::Path;

use homeostat_core::SeedTree;
use homeostat_lab::{Error, Result};

use super::columns::Columns;
use super::least_squares::{dot, non_negative};
use super::{Errors, halves};

/// Prompt size, batch size and tokens to generate.
type Setting = [u64; 3];

/// One model on one type and number of devices: means over repetitions.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    settings: BTreeMap<Setting, Mean>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    count: f64,
    prompt_ms: f64,
    token_ms: f64,
    /// Over the device's thermal design power; zero where it was not measured.
    power: f64,
    with_power: f64,
}

impl Mean {
    fn prompt(&self) -> f64 {
        self.prompt_ms / self.count
    }

    fn token(&self) -> f64 {
        self.token_ms / self.count
    }

    fn power(&self) -> Option<f64> {
        (self.with_power > 0.0).then(|| self.power / self.with_power)
    }
}

pub(super) fn read(data: &Path) -> Result<Vec<Group>> {
    let path = data.join("splitwise_perf_model/perf_model.csv");
    let columns = Columns::read(&path)?;
    groups(&columns).map_err(|reason| Error::File { action: "read", path, reason })
}

fn groups(columns: &Columns) -> Result<Vec<Group>, String> {
    let names: Vec<usize> = ["model", "hardware", "tensor_parallel"]
        .iter()
        .map(|name| columns.find(name))
        .collect::<Result<_, _>>()?;
    let sizes: Vec<usize> = ["prompt_size", "batch_size", "token_size"]
        .iter()
        .map(|name| columns.find(name))
        .collect::<Result<_, _>>()?;
    let [prompt, token, power] =
        ["prompt_time", "token_time", "average_power"].map(|name| columns.find(name));
    let (prompt, token, power) = (prompt?, token?, power?);
    let mut groups: BTreeMap<Vec<String>, Group> = BTreeMap::new();
    for row in 0..columns.len() {
        let key: Vec<String> =
            names.iter().map(|column| columns.text(row, *column).to_owned()).collect();
        let mut setting = [0; 3];
        for (size, column) in setting.iter_mut().zip(&sizes) {
            *size = columns.required(row, *column)? as u64;
        }
        let mean = groups.entry(key).or_default().settings.entry(setting).or_default();
        mean.count += 1.0;
        mean.prompt_ms += columns.required(row, prompt)?;
        mean.token_ms += columns.required(row, token)?;
        if let Some(power) = columns.number(row, power)?.filter(|power| *power > 0.0) {
            mean.power += power;
            mean.with_power += 1.0;
        }
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.iter_mut().for_each(Group::drop_broken);
    Ok(groups)
}

impl Group {
    /// Leaves out settings that took less time than half as many tokens: their batch did not run.
    fn drop_broken(&mut self) {
        let settings = self.settings.clone();
        self.settings.retain(|[prompt, batch, generated], mean| {
            let half = settings.get(&[*prompt, batch / 2, *generated]);
            half.is_none_or(|half| half.prompt() < mean.prompt())
        });
    }

    /// Whether a mean power can be one of phases that run. A mean lies between the power of prompts
    /// and that of tokens, which differ by less than a factor of two in every other setting; three
    /// settings have the power of an idle device, the same on two, four and eight devices.
    fn is_of_a_run(&self, power: f64) -> bool {
        let powers = self.settings.values().filter_map(Mean::power);
        powers.fold(0.0, f64::max) < 2.0 * power
    }
}

/// Time of a prompt in its tokens: above the knee it is bound by arithmetic, and from 2048 tokens on
/// activations leave the caches.
fn roofline(tokens: f64, knee: f64) -> Vec<f64> {
    vec![tokens.max(knee), (tokens - 2048.0).max(0.0)]
}

/// The two ways to count: with the settings whose power is that of an idle device, and without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PowerRows {
    All,
    OfRuns,
}

pub(super) fn evaluate(groups: &[Group], seeds: &SeedTree, rows: PowerRows) -> Errors {
    let mut errors = Errors::default();
    for (place, group) in groups.iter().enumerate() {
        prompts(group, &seeds.child(&format!("prompts/{place}")), &mut errors);
        tokens(group, &seeds.child(&format!("tokens/{place}")), rows, &mut errors);
    }
    errors
}

fn prompts(group: &Group, seeds: &SeedTree, errors: &mut Errors) {
    // The tokens to generate do not change the time of a prompt.
    let mut by_prompt: BTreeMap<(u64, u64), Vec<f64>> = BTreeMap::new();
    for ([prompt, batch, _], mean) in &group.settings {
        by_prompt.entry((prompt * batch, *prompt)).or_default().push(mean.prompt());
    }
    let rows: Vec<(f64, f64)> = by_prompt
        .iter()
        .map(|((tokens, _), times)| {
            (*tokens as f64, times.iter().sum::<f64>() / times.len() as f64)
        })
        .collect();
    let is_fitted = halves(rows.len(), seeds, "settings");
    let fitted: Vec<(f64, f64)> =
        rows.iter().zip(&is_fitted).filter(|(_, is)| **is).map(|(row, _)| *row).collect();
    let targets: Vec<f64> = fitted.iter().map(|row| row.1).collect();
    let mut best: Option<(f64, f64, Vec<f64>)> = None;
    for knee in [128.0, 256.0, 384.0, 512.0, 768.0, 1024.0] {
        let features: Vec<_> = fitted.iter().map(|row| roofline(row.0, knee)).collect();
        let coefficients = non_negative(&features, &targets);
        let error: f64 = features
            .iter()
            .zip(&targets)
            .map(|(row, target)| (dot(row, &coefficients) / target - 1.0).powi(2))
            .sum();
        if best.as_ref().is_none_or(|(least, ..)| error < *least) {
            best = Some((error, knee, coefficients));
        }
    }
    let Some((_, knee, coefficients)) = best else { return };
    for ((tokens, time), _) in rows.iter().zip(&is_fitted).filter(|(_, is)| !**is) {
        errors.add_time(dot(&roofline(*tokens, knee), &coefficients), *time);
    }
}

fn tokens(group: &Group, seeds: &SeedTree, counted: PowerRows, errors: &mut Errors) {
    let rows: Vec<([f64; 3], Mean)> = group
        .settings
        .iter()
        .map(|([prompt, batch, generated], mean)| {
            let [prompt, batch, generated] = [*prompt, *batch, *generated].map(|size| size as f64);
            ([batch, batch * (prompt + generated / 2.0), generated], *mean)
        })
        .collect();
    let is_fitted = halves(rows.len(), seeds, "settings");
    let features = |row: &[f64; 3]| vec![1.0, row[0], row[1]];
    let fitted = || rows.iter().zip(&is_fitted).filter(|(_, is)| **is).map(|(row, _)| row);
    let unseen = || rows.iter().zip(&is_fitted).filter(|(_, is)| !**is).map(|(row, _)| row);
    let times: Vec<f64> = fitted().map(|(_, mean)| mean.token()).collect();
    let by_time: Vec<_> = fitted().map(|(row, _)| features(row)).collect();
    let coefficients = non_negative(&by_time, &times);
    for (row, mean) in unseen() {
        errors.add_time(dot(&features(row), &coefficients), mean.token());
    }
    // Power is that of prompts for their part of the time, and that of tokens for the rest, which
    // grows with the batch.
    let of_phases = |row: &[f64; 3], mean: &Mean| {
        let prompt = mean.prompt() / (mean.prompt() + mean.token() * row[2]);
        vec![prompt, 1.0 - prompt, row[0]]
    };
    let counts = |power: &f64| counted == PowerRows::All || group.is_of_a_run(*power);
    let power = |mean: &Mean| mean.power().filter(counts);
    let with_power: Vec<(Vec<f64>, f64)> =
        fitted().filter_map(|(row, mean)| Some((of_phases(row, mean), power(mean)?))).collect();
    if with_power.len() < 4 {
        return;
    }
    let (by_power, powers): (Vec<_>, Vec<f64>) = with_power.into_iter().unzip();
    let coefficients = non_negative(&by_power, &powers);
    for (row, mean) in unseen() {
        if let Some(power) = power(mean) {
            errors.add_power(dot(&of_phases(row, mean), &coefficients), power);
        }
    }
}
