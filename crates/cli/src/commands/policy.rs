//! `homeostat policy`.

use std::path::PathBuf;

use clap::Subcommand;
use homeostat_core::{ActionSchema, ControlSchema, FeatureSchema};
use homeostat_lab::{load_candidate, places_that_serve};
use homeostat_rl::{Policy, RunProvenance};
use serde_json::{Value, json};

use crate::Ending;
use crate::output::{Output, print, print_records};

/// Show the features, actions and provenance of a policy file.
#[derive(Subcommand)]
pub(crate) enum PolicyCommand {
    /// Show the features and actions of a policy, its provenance, and what can serve it.
    #[command(
        after_help = "Examples:\n  homeostat policy show runs/simppo+-seed1/policies/agent-0.policy\n  homeostat policy show checkout.policy --output json"
    )]
    Show {
        /// Policy file, for example runs/NAME/policies/agent-0.policy.
        file: PathBuf,
        /// Output format. CSV has one row for each feature and each component of an action.
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
}

pub(crate) fn run(command: &PolicyCommand) -> anyhow::Result<Ending> {
    let PolicyCommand::Show { file, output } = command;
    let policy = load_candidate(file)?.policy;
    match output {
        Output::Table => print(&describe(&policy)),
        Output::Json => print(&format!("{:#}\n", record(&policy))),
        Output::Csv => print_records(Output::Csv, &interface_records(&policy)),
    }
    Ok(Ending::Done)
}

fn record(policy: &Policy) -> Value {
    let ControlSchema { features, action, bounds } = policy.schema();
    json!({
        "algorithm": policy.algorithm(),
        "serves": places_that_serve(policy),
        "features": features,
        "action": action,
        "bounds": bounds,
        "provenance": policy.provenance(),
    })
}

/// One row for each feature and each component of an action.
fn interface_records(policy: &Policy) -> Vec<Value> {
    let ControlSchema { features, action, .. } = policy.schema();
    let features = features.features.iter().map(|field| {
        json!({
            "part": "feature",
            "name": field.name,
            "unit": field.unit,
            "low": field.low,
            "high": field.high,
            "needs_team": field.needs_team,
            "choices": "",
            "meaning": field.meaning,
        })
    });
    let actions = action.parts.iter().map(|field| {
        json!({
            "part": "action",
            "name": field.name,
            "unit": "",
            "low": null,
            "high": null,
            "needs_team": false,
            "choices": field.choices.join("; "),
            "meaning": field.meaning,
        })
    });
    features.chain(actions).collect()
}

fn describe(policy: &Policy) -> String {
    let ControlSchema { features, action, bounds } = policy.schema();
    let serves = places_that_serve(policy);
    let serves =
        if serves.is_empty() { "its own environment only".to_owned() } else { serves.join(", ") };
    let mut text = format!(
        "algorithm    {}\nenvironment  {}\nserves       {serves}\n",
        policy.algorithm(),
        policy.env()
    );
    if let Some(RunProvenance { seed, steps, hash, .. }) = &policy.provenance().run {
        text.push_str(&format!("run          seed {seed}, {steps} steps, sha256 {hash}\n"));
    }
    if let Some(found) = &policy.provenance().evaluation {
        text.push_str(&format!(
            "evaluation   its value is at least {:.3} ({} %), that of the recorded policy {:.3}, by {} \
             trajectories\n",
            found.policy_low,
            found.confidence * 100.0,
            found.behaviour,
            found.trajectories
        ));
    }
    text.push_str(&features_text(features));
    text.push_str(&action_text(action));
    if !bounds.is_empty() {
        text.push_str("\nBounds in training\n");
        for bound in bounds {
            text.push_str(&format!("  {}: {} to {}\n", bound.dimension, bound.low, bound.high));
        }
    }
    text
}

fn features_text(schema: &FeatureSchema) -> String {
    let mut text = format!("\nReads {} (history {})\n", schema.id, schema.history);
    let width = schema.features.iter().map(|feature| feature.name.len()).max().unwrap_or(0);
    for feature in &schema.features {
        let end = |end: Option<f32>| end.map_or("any".to_owned(), |end| end.to_string());
        let team = if feature.needs_team { "; needs the team" } else { "" };
        let unit = match feature.unit.as_str() {
            "" => String::new(),
            unit => format!(" (from {unit})"),
        };
        text.push_str(&format!(
            "  {:width$}  {} to {}: {}{unit}{team}\n",
            feature.name,
            end(feature.low),
            end(feature.high),
            feature.meaning
        ));
    }
    text
}

fn action_text(schema: &ActionSchema) -> String {
    let mut text = format!("\nAnswers {}\n", schema.id);
    for part in &schema.parts {
        let choices =
            if part.choices.is_empty() { "a number".to_owned() } else { part.choices.join(" | ") };
        text.push_str(&format!("  {}: {} ({choices})\n", part.name, part.meaning));
    }
    text
}
