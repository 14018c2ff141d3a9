//! The simulators that a program knows. This is the one place that lists them: settings, the
//! command line, Python and reports take environments from here.

use std::fmt;
use std::sync::Arc;

use homeostat_decide::PlantSimulator;
use homeostat_env::{RenamedSetting, Simulator};

use crate::{Error, Result, nearest};

/// The settings of runs and algorithms.
const RUN_REFERENCE: &str = include_str!("default.toml");

/// A list of simulators.
///
/// A program adds its own to the ones of this project:
///
/// ```
/// # use homeostat_env::CLASSIC as MY_SIMULATOR;
/// use homeostat_lab::Environments;
///
/// let environments = Environments::builtin().with(&MY_SIMULATOR);
/// ```
#[derive(Clone)]
pub struct Environments {
    entries: Arc<[Entry]>,
}

#[derive(Clone, Copy)]
struct Entry {
    simulator: &'static dyn Simulator,
    /// The same value, where `homeostat sim` can play it.
    plants: Option<&'static dyn PlantSimulator>,
}

impl Environments {
    /// The simulators of this project.
    pub fn builtin() -> Self {
        Self { entries: Arc::new([]) }
            .with(&homeostat_env::CLASSIC)
            .with(&homeostat_env::TOY)
            .with_plants(&homeostat_sim_faas::SIMULATOR)
            .with_plants(&homeostat_sim_deploy::SIMULATOR)
            .with_plants(&homeostat_sim_mesh::SIMULATOR)
            .with(&homeostat_sim_link::SIMULATOR)
            .with(&homeostat_sim_node::SIMULATOR)
            .with_plants(&homeostat_sim_gpu::SIMULATOR)
    }

    /// The same with another simulator. It takes the place of one with the same prefix.
    pub fn with(self, simulator: &'static dyn Simulator) -> Self {
        self.with_entry(Entry { simulator, plants: None })
    }

    /// [`Environments::with`] for a simulator that offers plants, which simulations can play under
    /// any policy of its domain.
    pub fn with_plants<T: Simulator + PlantSimulator>(self, simulator: &'static T) -> Self {
        self.with_entry(Entry { simulator, plants: Some(simulator) })
    }

    fn with_entry(self, entry: Entry) -> Self {
        let prefix = entry.simulator.prefix();
        let others = self.entries.iter().filter(|other| other.simulator.prefix() != prefix);
        Self { entries: others.copied().chain([entry]).collect() }
    }

    fn prefixes_with_plants(&self) -> impl Iterator<Item = &'static str> {
        let with_plants = self.entries.iter().filter(|entry| entry.plants.is_some());
        with_plants.map(|entry| entry.simulator.prefix())
    }

    /// What offers the plants of the simulator with this prefix. Refuses a prefix without any.
    pub fn plants(&self, prefix: &str) -> Result<&'static dyn PlantSimulator> {
        let found = self.entries.iter().find(|entry| entry.simulator.prefix() == prefix);
        found.and_then(|entry| entry.plants).ok_or_else(|| {
            let known: Vec<_> = self.prefixes_with_plants().collect();
            Error::OutOfRange {
                key: "simulator".to_owned(),
                value: prefix.to_owned(),
                source_text: "SIMULATOR".to_owned(),
                expected: format!(
                    "policies can be played on {}{}",
                    known.join(", "),
                    nearest(prefix, known.iter().copied())
                ),
            }
        })
    }

    /// Every simulator.
    pub fn iter(&self) -> impl Iterator<Item = &'static dyn Simulator> {
        self.entries.iter().map(|entry| entry.simulator)
    }

    /// The simulator of the environment with this id.
    pub fn of(&self, id: &str) -> Option<&'static dyn Simulator> {
        let prefix = id.split_once('/')?.0;
        self.iter().find(|simulator| simulator.prefix() == prefix)
    }

    /// The commented reference of every setting, those of the simulators included.
    pub fn reference(&self) -> String {
        let sections = self.iter().map(|simulator| simulator.default_toml());
        let sections = sections.filter(|section| !section.is_empty());
        [RUN_REFERENCE].into_iter().chain(sections).collect::<Vec<_>>().join("\n")
    }

    /// Whether the environment with this id uses the setting `section.name`.
    pub(crate) fn uses(&self, id: &str, section: &str, name: &str) -> bool {
        let simulator = self.of(id);
        simulator.is_some_and(|simulator| simulator.prefix() == section && simulator.uses(id, name))
    }

    pub(crate) fn renamed_settings(&self) -> impl Iterator<Item = &'static RenamedSetting> {
        self.iter().flat_map(|simulator| simulator.renamed_settings())
    }
}

impl fmt::Debug for Environments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|simulator| simulator.prefix())).finish()
    }
}
