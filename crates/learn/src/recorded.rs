//! Recorded decisions from a store or from exported records, and the environment they are of.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use homeostat_core::ControlSchema;
use homeostat_core::trajectory::{Origin, Record};
use homeostat_env::{Card, EnvSpec, Space};
use homeostat_rl::{OfflineDataset, Recorded, Recording};
use homeostat_trajectories::{Filter, TrajectoryStore};

/// Where the decisions come from.
#[derive(Args, Clone)]
pub(crate) struct SourceOptions {
    /// Trajectory store (SQLite), or the JSON lines that `homeostat trajectories export` and
    /// `homeostat sim --record` write; - is standard input.
    #[arg(value_name = "FILE")]
    pub(crate) source: PathBuf,
    /// Only decisions of this workload.
    #[arg(long)]
    pub(crate) workload: Option<String>,
    /// Only decisions of this policy, such as hpa+vpa.
    #[arg(long)]
    pub(crate) behaviour: Option<String>,
}

/// Trajectories of one schema.
pub(crate) struct Recordings {
    pub(crate) schema: ControlSchema,
    pub(crate) trajectories: Vec<Recording>,
}

/// The first bytes of a database.
const SQLITE: &[u8] = b"SQLite format 3\0";

impl SourceOptions {
    /// Reads everything that the options select.
    pub(crate) fn read(&self) -> anyhow::Result<Recordings> {
        let named = || self.source.display().to_string();
        let found = match is_store(&self.source).with_context(named)? {
            true => self.read_store()?,
            false => self.read_records().with_context(named)?,
        };
        let Some((first, _)) = found.first() else {
            bail!(
                "{} has no decisions of this choice: `homeostat trajectories list` shows what a store has",
                named()
            );
        };
        let schema = first.schema.clone();
        for (origin, _) in &found {
            ensure!(
                origin.schema == schema,
                "{} has decisions of several schemas ({} and {}): choose by --workload or --behaviour",
                named(),
                schema_name(&schema),
                schema_name(&origin.schema)
            );
        }
        let trajectories = found.into_iter().map(|(_, recording)| recording).collect();
        Ok(Recordings { schema, trajectories })
    }

    fn selects(&self, origin: &Origin) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        is(&self.workload, &origin.workload) && is(&self.behaviour, &origin.policy)
    }

    fn read_store(&self) -> anyhow::Result<Vec<(Origin, Recording)>> {
        let store = TrajectoryStore::open(&self.source)?;
        let filter = Filter { workload: self.workload.clone(), policy: self.behaviour.clone() };
        let mut found = Vec::new();
        for trajectory in store.list(&filter)? {
            let mut transitions = Vec::new();
            store.transitions(trajectory.id, &mut |transition| {
                transitions.push(transition);
                Ok(())
            })?;
            let end = trajectory.end.zip(store.last_observation(trajectory.id)?);
            let workload = trajectory.workload;
            found.push((store.origin(trajectory.id)?, Recording { workload, transitions, end }));
        }
        Ok(found)
    }

    fn read_records(&self) -> anyhow::Result<Vec<(Origin, Recording)>> {
        let from: Box<dyn BufRead> = if self.source.as_os_str() == "-" {
            Box::new(std::io::stdin().lock())
        } else {
            Box::new(BufReader::new(File::open(&self.source)?))
        };
        let mut found: Vec<(Origin, Recording)> = Vec::new();
        let mut is_open = false;
        for (number, line) in (1..).zip(from.lines()) {
            let line = line?;
            let record = serde_json::from_str(&line).with_context(|| format!("line {number}"))?;
            let last = found.last_mut().filter(|_| is_open).map(|(_, recording)| recording);
            match (record, last) {
                (Record::Trajectory(origin), _) => {
                    let workload = origin.workload.clone();
                    found
                        .push((origin, Recording { workload, transitions: Vec::new(), end: None }));
                    is_open = true;
                }
                (Record::Transition(transition), Some(last)) => last.transitions.push(transition),
                (Record::End { how, observation }, Some(last)) => {
                    last.end = Some((how, observation));
                    is_open = false;
                }
                (_, None) => bail!("line {number}: no trajectory has begun"),
            }
        }
        found.retain(|(origin, _)| self.selects(origin));
        Ok(found)
    }
}

fn is_store(path: &Path) -> std::io::Result<bool> {
    if path.as_os_str() == "-" {
        return Ok(false);
    }
    let mut head = Vec::new();
    File::open(path)?.take(SQLITE.len() as u64).read_to_end(&mut head)?;
    Ok(head == SQLITE)
}

fn schema_name(schema: &ControlSchema) -> String {
    format!("{} with {}", schema.features.id, schema.action.id)
}

impl Recordings {
    /// The environment that the decisions are of.
    pub(crate) fn spec(&self) -> anyhow::Result<EnvSpec> {
        let ControlSchema { features, action, .. } = &self.schema;
        let count = features.history.max(1);
        let end = |end: Option<f32>, open: f32| end.unwrap_or(open);
        let low = features.features.iter().map(|field| end(field.low, f32::NEG_INFINITY));
        let high = features.features.iter().map(|field| end(field.high, f32::INFINITY));
        let repeated = |ends: Vec<f32>| ends.repeat(count);
        let observation =
            Space::Box { low: repeated(low.collect()), high: repeated(high.collect()) };
        if let Some(choice) = action.parts.iter().find(|part| !part.choices.is_empty()) {
            bail!(
                "the offline algorithms learn continuous actions, and `{}` of {} is a choice: record \
                 decisions as pods/ratios-v1, as `homeostat sim --record` does",
                choice.name,
                action.id
            );
        }
        Ok(EnvSpec {
            id: "recorded/decisions-v1".parse().context("the id is well-formed")?,
            observation,
            action: Space::uniform_box(action.parts.len(), -1.0, 1.0),
            time_limit: None,
            card: Card {
                summary: "Recorded decisions.",
                observation: Vec::new(),
                action: Vec::new(),
                reward: "as recorded",
                termination: "as recorded",
                source: "a trajectory store",
            },
            control: Some(self.schema.clone().into()),
        })
    }
}

/// The transitions of these trajectories; the last one of an open trajectory is left out.
pub(crate) fn dataset(
    spec: &EnvSpec,
    trajectories: &[&Recording],
) -> homeostat_rl::Result<OfflineDataset> {
    use homeostat_core::trajectory::End;
    let mut data = OfflineDataset::new(spec)?;
    for recording in trajectories {
        for (index, transition) in recording.transitions.iter().enumerate() {
            let following = recording.transitions.get(index + 1);
            let (next_obs, terminated) = match (following, &recording.end) {
                (Some(next), _) => (&next.observation, false),
                (None, Some((how, last))) => (last, *how == End::Terminated),
                (None, None) => break,
            };
            data.push(&Recorded {
                obs: &transition.observation,
                action: &transition.action,
                reward: transition.reward,
                next_obs,
                terminated,
            })?;
        }
    }
    Ok(data)
}
