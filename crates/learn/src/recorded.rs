//! Recorded decisions from a store or from exported records.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use homeostat_core::ControlSchema;
use homeostat_core::trajectory::{Origin, Record};
use homeostat_decide::{AllocationBounds, AllocationTarget, Features, Ratios};
use homeostat_rl::Recording;
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
    /// The policies that decided.
    pub(crate) behaviours: BTreeSet<String>,
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
        let behaviours = found.iter().map(|(origin, _)| origin.policy.clone()).collect();
        let trajectories = found.into_iter().map(|(_, recording)| recording).collect();
        Ok(Recordings { schema, behaviours, trajectories })
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
    /// The same decisions with the allocation that each asked for as its action, where they are recorded
    /// as factors on pods; other decisions as they are.
    pub(crate) fn into_allocations(mut self) -> Self {
        let ControlSchema { features, action, bounds } = &self.schema;
        let is_of_pods = *features == Features::schema() && *action == Ratios::schema();
        let Some(bounds) = AllocationBounds::from_fields(bounds).filter(|_| is_of_pods) else {
            return self;
        };
        let transitions = self.trajectories.iter_mut().flat_map(|one| &mut one.transitions);
        for transition in transitions {
            // Of another length it is refused later, with its place.
            if let Ok(features) = transition.observation.as_slice().try_into() {
                let target = AllocationTarget::of_factors(features, &transition.action, &bounds);
                transition.action = target.numbers().to_vec();
            }
        }
        self.schema.action = AllocationTarget::schema();
        self
    }
}
