//! A system with one target as a simulator of its own: an environment to learn in, and a plant for
//! autoscalers, from one description.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use homeostat_core::{Persist, SeedTree, SimDuration, Stream};
use homeostat_decide::{
    Error, PlantSimulator, PlantSource, Result, ScaledBy, SimulatedPlant, SimulatedSystem,
};
use homeostat_env::{
    ConfiguredSimulator, Dynamics, Env, EnvSpec, Episode, Error as EnvError, SettingsTable,
    Simulator, read_settings, unknown_id,
};
use serde::de::DeserializeOwned;

use crate::plant_dynamics::{PlantCard, PlantDynamics};

/// The settings of a system with one target, such as a queue, and how to make it.
pub trait SingleTargetSystem:
    DeserializeOwned + Clone + fmt::Debug + Send + Sync + 'static
{
    /// The system.
    type Plant: SimulatedPlant + Persist + Send + 'static;

    /// Its environment; the first part of the id is the simulator's prefix.
    const CARD: PlantCard;

    /// The commented reference of its settings, a section with the name of the prefix.
    const DEFAULT_TOML: &'static str;

    /// Length of a window.
    fn window(&self) -> SimDuration;

    /// A system whose randomness is this stream's.
    fn plant(&self, rng: Stream) -> Self::Plant;
}

/// The simulator of a [`SingleTargetSystem`].
#[derive(Debug)]
pub struct SingleTarget<S>(PhantomData<fn() -> S>);

impl<S> SingleTarget<S> {
    /// The value that a program lists.
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<S> Default for SingleTarget<S> {
    fn default() -> Self {
        Self::new()
    }
}

/// Settings that have been read.
#[derive(Debug, Clone)]
struct Configured<S>(S);

impl<S: SingleTargetSystem> Configured<S> {
    fn dynamics(&self) -> Result<PlantDynamics<S::Plant>> {
        let system = self.0.clone();
        PlantDynamics::new(S::CARD, move |rng| system.plant(rng))
    }
}

impl<S: SingleTargetSystem> Simulator for SingleTarget<S> {
    fn prefix(&self) -> &'static str {
        S::CARD.id.split_once('/').map_or(S::CARD.id, |(prefix, _)| prefix)
    }

    fn default_toml(&self) -> &'static str {
        S::DEFAULT_TOML
    }

    fn configure(
        &self,
        section: &SettingsTable,
    ) -> homeostat_env::Result<Arc<dyn ConfiguredSimulator>> {
        Ok(Arc::new(Configured(read_settings::<S>(section)?)))
    }
}

impl<S: SingleTargetSystem> ConfiguredSimulator for Configured<S> {
    fn specs(&self) -> Vec<EnvSpec> {
        self.dynamics().iter().map(Dynamics::spec).collect()
    }

    fn make(&self, id: &str, _agent: u32) -> homeostat_env::Result<Box<dyn Env>> {
        if id != S::CARD.id {
            return Err(unknown_id(id, [S::CARD.id].into_iter()));
        }
        let refused = |error: Error| EnvError::CannotBeMade { reason: error.to_string() };
        Ok(Box::new(Episode::new(self.dynamics().map_err(refused)?)))
    }
}

impl<S: SingleTargetSystem> PlantSimulator for SingleTarget<S> {
    fn env(&self) -> &'static str {
        S::CARD.id
    }

    fn system(&self, configured: &dyn Any) -> Result<SimulatedSystem> {
        let configured: Option<&Configured<S>> = configured.downcast_ref();
        let configured = configured.ok_or_else(|| Error::plant("settings of another simulator"))?;
        Ok(SimulatedSystem::Pods(Arc::new(configured.clone())))
    }
}

impl<S: SingleTargetSystem> PlantSource for Configured<S> {
    fn targets(&self) -> usize {
        1
    }

    fn window(&self) -> SimDuration {
        self.0.window()
    }

    fn load(&self) -> String {
        "its own".to_owned()
    }

    fn make(
        &self,
        _targets: &[usize],
        seeds: &SeedTree,
        scaled_by: ScaledBy,
    ) -> Result<Box<dyn SimulatedPlant>> {
        if scaled_by == ScaledBy::Itself {
            return Err(Error::plant("this system does not scale itself: choose another policy"));
        }
        Ok(Box::new(self.0.plant(seeds.stream("plant"))))
    }
}
