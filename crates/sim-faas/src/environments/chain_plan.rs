//! The chains of the settings: declared, validated, profiled from end to end.

use std::sync::Arc;

use super::config::FaasPlan;
use crate::chain::ChainGraph;
use crate::config::{NodeConfig, PlatformConfig};
use crate::objective::Objective;
use crate::profile::FunctionProfile;
use crate::{Error, Result};

/// A photo is stored, made small, classified and archived; a document is decoded, set and
/// judged at the same time, and both go into one page.
const DEFAULT: [&str; 2] = [
    "uploader > image-resize > image-inference > compression",
    "base64 > markdown2html, sentiment-analysis > html-gen",
];

/// Chains of one platform at most.
const MAX_CHAINS: usize = 1000;

/// A chain of the settings, ready to be played.
#[derive(Debug, Clone)]
pub struct PlannedChain {
    /// As it was declared.
    pub name: String,
    /// Its stages and which follows which.
    pub graph: ChainGraph,
    /// Its SLO, from end to end.
    pub objective: Objective,
    /// Its requests per second on average.
    pub per_second: f64,
    /// Place of its first stage among the functions of the plan; the others follow.
    pub first_function: usize,
}

pub(super) fn default_chains() -> Vec<String> {
    DEFAULT.map(str::to_owned).to_vec()
}

/// What the settings declare. Refuses chains that cannot be played, by what is wrong with them.
pub(super) fn graphs(chains: &[String]) -> Result<Vec<ChainGraph>> {
    let refuse = |value: String, expected: String| {
        Err(Error::OutOfRange { what: "faas.chains".to_owned(), value, expected })
    };
    if chains.is_empty() || chains.len() > MAX_CHAINS {
        let expected = format!("there must be 1 to {MAX_CHAINS}, as [\"{}\"]", DEFAULT[0]);
        return refuse(format!("a list of {}", chains.len()), expected);
    }
    let mut graphs = Vec::new();
    for (place, text) in chains.iter().enumerate() {
        let number = place + 1;
        let graph = match text.parse::<ChainGraph>() {
            Ok(graph) => graph,
            Err(Error::Chain { reason, .. }) => {
                return refuse(format!("{chains:?}"), format!("in chain {number}, {reason}"));
            }
            Err(other) => return Err(other),
        };
        if let Some(stranger) = graph.names().find(|name| crate::by_name(name).is_none()) {
            let names: Vec<_> = crate::names().collect();
            let expected = format!(
                "in chain {number}, there is no function {stranger}: there are {}",
                names.join(", ")
            );
            return refuse(format!("{chains:?}"), expected);
        }
        graphs.push(graph);
    }
    Ok(graphs)
}

impl FaasPlan {
    /// The chains over the functions; none, unless this is [`FaasPlan::chained`].
    pub fn chains(&self) -> &[PlannedChain] {
        &self.chains
    }

    /// The same settings with the stages of `faas.chains` for functions, one after another,
    /// and as many nodes as they need. Profiles the chains when it is called first.
    pub fn chained(&self) -> Result<&Self> {
        if let Some(made) = self.chained.get() {
            return Ok(made);
        }
        let made = self.make_chained()?;
        Ok(self.chained.get_or_init(|| made))
    }

    fn make_chained(&self) -> Result<Self> {
        let graphs = graphs(&self.config.chains)?;
        let stages: usize = graphs.iter().map(ChainGraph::len).sum();
        let node: NodeConfig = self.platform.nodes[0];
        let nodes = stages.div_ceil(self.config.functions_per_node);
        let platform = PlatformConfig { nodes: vec![node; nodes], ..self.platform.clone() };
        let config = super::FaasConfig { functions: stages, ..(*self.config).clone() };
        let (mut chains, mut profiles, mut objectives) = (Vec::new(), Vec::new(), Vec::new());
        for (name, graph) in self.config.chains.iter().zip(graphs) {
            let first_function = profiles.len();
            for name in graph.names() {
                let place = self.profiles.iter().position(|profile| profile.name == name);
                let place = place.expect("chains are of the catalogue");
                profiles.push(self.profiles[place].clone());
                objectives.push(self.objectives[place]);
            }
            let own = &profiles[first_function..];
            let relaxation = config.objective_over_isolated;
            let objective = Objective::profile_chain(&graph, own, &platform, relaxation)?;
            let per_second = rate(own, config.demand_cores);
            config.load_at(per_second).validate()?;
            chains.push(PlannedChain {
                name: name.clone(),
                graph,
                objective,
                per_second,
                first_function,
            });
        }
        Ok(Self {
            config: Arc::new(config),
            platform,
            profiles: profiles.into(),
            objectives: objectives.into(),
            chains: chains.into(),
            // Not its own: a plan that holds itself is never freed.
            chained: Arc::default(),
            ..self.clone()
        })
    }
}

/// Requests per second at which the stages have this CPU demand on average.
fn rate(profiles: &[FunctionProfile], demand_cores: f64) -> f64 {
    let cpu: f64 = profiles.iter().map(|profile| profile.cpu.seconds()).sum();
    demand_cores * profiles.len() as f64 / cpu
}
