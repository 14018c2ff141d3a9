//! Operators of language models against the number of tokens (vidur_profiles): launch-bound below
//! a knee, then linear.

use std::collections::BTreeMap;
use std::path::Path;

use homeostat_core::SeedTree;
use homeostat_lab::{Result, read_archive};

use super::columns::Columns;
use super::least_squares::{dot, relative};
use super::{Errors, halves};

const OPERATORS: [&str; 10] = [
    "emb",
    "input_layernorm",
    "attn_pre_proj",
    "attn_rope",
    "attn_post_proj",
    "post_attention_layernorm",
    "mlp_up_proj",
    "mlp_act",
    "mlp_down_proj",
    "add",
];

const KNEES: [f64; 9] = [0.0, 64.0, 128.0, 256.0, 384.0, 512.0, 768.0, 1024.0, 1536.0];

/// Tokens and milliseconds of one operator of one model on one type and number of devices.
pub(super) type Profile = Vec<(f64, f64)>;

pub(super) fn read(data: &Path) -> Result<Vec<Profile>> {
    let path = data.join("vidur_profiles/vidur_data.tar.zst");
    let mut profiles = Vec::new();
    let is_profile = |name: &str| name.contains("/compute/") && name.ends_with("mlp.csv");
    read_archive(&path, &is_profile, &mut |_, text| {
        let columns = Columns::parse(text)?;
        let (tokens, devices) =
            (columns.find("num_tokens")?, columns.find("num_tensor_parallel_workers")?);
        for operator in OPERATORS {
            // Some models lack an operator.
            let Ok(time) = columns.find(&format!("time_stats.{operator}.median")) else { continue };
            let mut by_devices: BTreeMap<&str, Profile> = BTreeMap::new();
            for row in 0..columns.len() {
                let milliseconds = columns.number(row, time)?.filter(|time| *time > 0.0);
                if let Some(milliseconds) = milliseconds {
                    let tokens = columns.required(row, tokens)?;
                    let profile = by_devices.entry(columns.text(row, devices)).or_default();
                    profile.push((tokens, milliseconds));
                }
            }
            profiles.extend(by_devices.into_values().filter(|profile| profile.len() >= 6));
        }
        Ok(())
    })?;
    Ok(profiles)
}

pub(super) fn evaluate(profiles: &[Profile], seeds: &SeedTree) -> Errors {
    let mut errors = Errors::default();
    for (place, profile) in profiles.iter().enumerate() {
        let is_fitted = halves(profile.len(), seeds, &format!("{place}"));
        let fitted: Vec<(f64, f64)> =
            profile.iter().zip(&is_fitted).filter(|(_, is)| **is).map(|(row, _)| *row).collect();
        let targets: Vec<f64> = fitted.iter().map(|row| row.1).collect();
        let features = |tokens: f64, knee: f64| vec![1.0, (tokens - knee).max(0.0)];
        let mut best: Option<(f64, f64, Vec<f64>)> = None;
        for knee in KNEES {
            let rows: Vec<_> = fitted.iter().map(|row| features(row.0, knee)).collect();
            let coefficients = relative(&rows, &targets, 1e-9);
            let error: f64 = rows
                .iter()
                .zip(&targets)
                .map(|(row, target)| (dot(row, &coefficients) / target - 1.0).abs())
                .sum();
            if best.as_ref().is_none_or(|(least, ..)| error < *least) {
                best = Some((error, knee, coefficients));
            }
        }
        let Some((_, knee, coefficients)) = best else { continue };
        for ((tokens, time), _) in profile.iter().zip(&is_fitted).filter(|(_, is)| !**is) {
            errors.add_time(dot(&features(*tokens, knee), &coefficients), *time);
        }
    }
    errors
}
