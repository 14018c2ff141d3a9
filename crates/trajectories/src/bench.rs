//! How fast a store is on this machine's disk.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use homeostat_core::{
    ActionField, ActionSchema, ControlSchema, FeatureField, FeatureSchema, SeedTree,
};
use homeostat_trajectories::{End, Filter, Origin, TrajectoryStore, Transition};
use serde_json::json;

use crate::output::{Output, print_record};

/// Figures: `transitions_per_s.write` in durable transactions, `.read` of all of them,
/// `best_20_ms` and `recent_100_ms` for the two queries, `bytes_per_transition` on disk.
#[derive(Args)]
pub(crate) struct BenchArguments {
    /// Transitions to write: observations of 8 numbers, actions of 1, 100 in a trajectory.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..))]
    transitions: u64,
    /// Transitions in a transaction.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,
    /// Directory for the store, which is deleted afterwards [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

const STEPS: u64 = 100;
const FEATURES: usize = 8;
const WORKLOADS: u64 = 50;

pub(crate) fn run(arguments: &BenchArguments) -> anyhow::Result<()> {
    let place = match &arguments.directory {
        Some(path) => tempfile::tempdir_in(path),
        None => tempfile::tempdir(),
    };
    let place = place.context("cannot make a directory for the store")?;
    let path = place.path().join("trajectories.db");
    let mut store = TrajectoryStore::open_or_create(&path)?;
    let start = Instant::now();
    write(&mut store, arguments)?;
    let written_s = start.elapsed().as_secs_f64();

    let start = Instant::now();
    let (mut read, mut sum) = (0_u64, 0.0);
    for trajectory in store.list(&Filter::default())? {
        store.transitions(trajectory.id, &mut |transition| {
            read += 1;
            sum += transition.reward + f64::from(transition.observation[0]);
            Ok(())
        })?;
    }
    std::hint::black_box(sum);
    let read_s = start.elapsed().as_secs_f64();

    let one = Filter { workload: Some("workload/7".to_owned()), policy: None };
    let start = Instant::now();
    std::hint::black_box(store.best(&one, 20)?);
    let best_ms = start.elapsed().as_secs_f64() * 1e3;
    let start = Instant::now();
    std::hint::black_box(store.recent_rewards(&one, 100)?);
    let recent_ms = start.elapsed().as_secs_f64() * 1e3;

    let bytes = std::fs::metadata(&path).context("cannot measure the store")?.len();
    print_record(
        arguments.output,
        &json!({
            "transitions_per_s": {
                "write": arguments.transitions as f64 / written_s,
                "read": read as f64 / read_s,
            },
            "best_20_ms": best_ms,
            "recent_100_ms": recent_ms,
            "bytes_per_transition": bytes as f64 / arguments.transitions as f64,
        }),
    );
    Ok(())
}

fn write(store: &mut TrajectoryStore, arguments: &BenchArguments) -> anyhow::Result<()> {
    let mut rng = SeedTree::new(1).stream("transitions");
    let mut transition = Transition {
        at_ms: 0,
        observation: vec![0.0; FEATURES],
        action: vec![0.0],
        reward: 0.0,
        probability: Some(1.0),
    };
    let mut writer = store.write()?;
    let mut open = None;
    for number in 0..arguments.transitions {
        if number > 0 && number % arguments.batch == 0 {
            writer.commit()?;
            writer = store.write()?;
        }
        let id = match open {
            Some(id) if number % STEPS != 0 => id,
            before => {
                if let Some(id) = before {
                    writer.end(id, End::Truncated, &transition.observation)?;
                }
                writer.begin(&origin(number / STEPS % WORKLOADS))?
            }
        };
        open = Some(id);
        transition.at_ms = 15_000 * number as i64;
        transition.observation.fill_with(|| rng.uniform() as f32);
        transition.action[0] = rng.below(7) as f32;
        transition.reward = rng.uniform();
        writer.append(id, &transition)?;
    }
    Ok(writer.commit()?)
}

fn origin(workload: u64) -> Origin {
    let feature =
        |number: usize| FeatureField::new(&format!("feature {number}"), "a number", (0.0, 1.0));
    let action = ActionField::choice("step", "one of seven", (0..7).map(|step| step.to_string()));
    Origin {
        workload: format!("workload/{workload}"),
        policy: "bench".to_owned(),
        schema: ControlSchema {
            features: FeatureSchema {
                id: "bench/features-v1".to_owned(),
                features: (0..FEATURES).map(feature).collect(),
                history: 1,
            },
            action: ActionSchema { id: "bench/actions-v1".to_owned(), parts: vec![action] },
            bounds: Vec::new(),
        },
        recorded_ms: 0,
    }
}
