//! Environments by id, from every crate that has some. Here settings reach the worlds that
//! take any.

use homeostat_env::{Env, EnvSpec, Error as EnvError, MultiAgentEnv, unknown_id};
use homeostat_sim_faas::{FaasConfig, FaasPlan};
use homeostat_simppo::Kind;

use crate::Result;

/// The world that the setting `faas.chains` is for.
pub(crate) const CHAINS: &str = "faas/chain-v1";

/// The worlds of one set of settings.
#[derive(Debug, Clone)]
pub struct Worlds {
    faas_config: FaasConfig,
    /// Made when the first world needs it: profiling every function takes a moment.
    faas: Option<FaasPlan>,
}

impl Worlds {
    /// The worlds that environment `id` needs, with these settings.
    pub fn new(id: &str, faas: &FaasConfig) -> Result<Self> {
        let plan = if is_faas(id) { Some(faas.build()?) } else { None };
        if let Some(plan) = plan.as_ref().filter(|_| id == CHAINS) {
            plan.chained()?;
        }
        Ok(Self { faas_config: faas.clone(), faas: plan })
    }

    /// The worlds that environment `id` needs, with default settings.
    pub fn default_for(id: &str) -> Result<Self> {
        Self::new(id, &FaasConfig::default())
    }

    /// A new environment of one agent. The agent's number matters to worlds that give each
    /// agent a task of its own.
    pub fn make(&self, id: &str, agent: u32) -> Result<Box<dyn Env>, EnvError> {
        if let Some(env) =
            self.faas.as_ref().and_then(|plan| homeostat_sim_faas::make(id, plan, agent))
        {
            return Ok(env);
        }
        if self.make_multi_agent(id).is_ok() {
            return Err(EnvError::ManyAgents { id: id.to_owned() });
        }
        match homeostat_env::make(id) {
            Err(EnvError::UnknownId { .. }) => Err(self.unknown(id)),
            other => other,
        }
    }

    /// A new environment of many agents.
    pub fn make_multi_agent(&self, id: &str) -> Result<Box<dyn MultiAgentEnv>, EnvError> {
        let faas =
            self.faas.as_ref().and_then(|plan| homeostat_sim_faas::make_multi_agent(id, plan));
        match faas {
            Some(env) => Ok(env),
            None => homeostat_env::make_multi_agent(id).map_err(|_| self.unknown(id)),
        }
    }

    /// Whether an environment is shared by many agents; known without making it.
    pub fn is_shared(id: &str) -> bool {
        homeostat_sim_faas::is_shared(id) || homeostat_env::make_multi_agent(id).is_ok()
    }

    /// What every environment is, ordered by id.
    pub fn specs(&self) -> Vec<EnvSpec> {
        let mut specs = homeostat_env::specs();
        specs.extend(homeostat_sim_faas::specs(&self.faas_config));
        specs.sort_by(|a, b| a.id.cmp(&b.id));
        specs
    }

    /// The kind of each task of a shared world, found by probing its functions; nothing where
    /// there are no functions to probe.
    pub fn kinds(&self, id: &str) -> Result<Vec<Kind>> {
        let Some(plan) = &self.faas else { return Ok(Vec::new()) };
        let plan = if id == CHAINS { plan.chained()? } else { plan };
        let contention = plan.platform().contention;
        let kinds = plan.functions().map(|(profile, _)| Kind::probe(profile, contention));
        Ok(kinds.collect::<Result<_, _>>()?)
    }

    /// The serverless plan, if there is one.
    pub fn faas(&self) -> Option<&FaasPlan> {
        self.faas.as_ref()
    }

    fn unknown(&self, id: &str) -> EnvError {
        let names: Vec<_> = self.specs().iter().map(|spec| spec.id.to_string()).collect();
        unknown_id(id, names.iter().map(String::as_str))
    }
}

/// Whether an id is of the family that takes the `[faas]` settings.
pub(crate) fn is_faas(id: &str) -> bool {
    id.starts_with("faas/")
}
