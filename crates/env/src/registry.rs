//! The environments of this crate by id.

use std::sync::Arc;

use toml::Table;

use crate::envs::{acrobot, cartpole, grid_world, identity, mountain_car, pendulum, roll_call};
use crate::{ConfiguredSimulator, Env, EnvSpec, Episode, Error, MultiAgentEnv, Result, Simulator};

/// Every environment of this crate with one agent.
const SINGLE: [fn() -> Box<dyn Env>; 8] = [
    || Box::new(Episode::new(acrobot::Acrobot::default())),
    || Box::new(Episode::new(cartpole::CartPole::default())),
    || Box::new(Episode::new(grid_world::GridWorld::default())),
    || Box::new(Episode::new(identity::Identity::discrete())),
    || Box::new(Episode::new(identity::Identity::multi_discrete())),
    || Box::new(Episode::new(identity::Identity::continuous())),
    || Box::new(Episode::new(mountain_car::MountainCar::default())),
    || Box::new(Episode::new(pendulum::Pendulum::default())),
];

/// Every environment of this crate that many agents share.
const SHARED: [fn() -> Box<dyn MultiAgentEnv>; 1] = [|| Box::new(roll_call::RollCall::default())];

/// The control tasks of Gymnasium.
pub static CLASSIC: BuiltIn = BuiltIn { prefix: "classic" };

/// Small environments that test learners.
pub static TOY: BuiltIn = BuiltIn { prefix: "toy" };

/// The environments of this crate whose ids have one prefix. They have no settings.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn {
    prefix: &'static str,
}

impl Simulator for BuiltIn {
    fn prefix(&self) -> &'static str {
        self.prefix
    }

    fn configure(&self, _section: &Table) -> Result<Arc<dyn ConfiguredSimulator>> {
        Ok(Arc::new(*self))
    }
}

impl ConfiguredSimulator for BuiltIn {
    fn specs(&self) -> Vec<EnvSpec> {
        specs().into_iter().filter(|spec| spec.id.namespace() == self.prefix).collect()
    }

    fn is_shared(&self, id: &str) -> bool {
        make_multi_agent(id).is_ok()
    }

    fn make(&self, id: &str, _agent: u32) -> Result<Box<dyn Env>> {
        make(id)
    }

    fn make_multi_agent(&self, id: &str) -> Result<Box<dyn MultiAgentEnv>> {
        make_multi_agent(id)
    }
}

/// A new environment with this id. Reset it before the first step.
pub fn make(id: &str) -> Result<Box<dyn Env>> {
    if let Some(env) = SINGLE.iter().map(|make| make()).find(|env| env.spec().id.to_string() == id)
    {
        return Ok(env);
    }
    match make_multi_agent(id) {
        Ok(_) => Err(Error::ManyAgents { id: id.to_owned() }),
        Err(unknown) => Err(unknown),
    }
}

/// A new environment with this id that many agents share. Reset it before the first step.
pub fn make_multi_agent(id: &str) -> Result<Box<dyn MultiAgentEnv>> {
    let found = SHARED.iter().map(|make| make()).find(|env| env.spec().id.to_string() == id);
    found.ok_or_else(|| unknown(id))
}

/// The error for an id that is not among `names`; it suggests the most similar one.
pub fn unknown_id<'a>(id: &str, names: impl Iterator<Item = &'a str>) -> Error {
    // A part of an id, most often the bare name, is a match.
    let likeness = |name: &str| {
        if name.contains(id) { 1.0 } else { strsim::jaro_winkler(id, name) }
    };
    let nearest = names.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let hint = nearest
        .filter(|name| !id.is_empty() && likeness(name) > 0.7)
        .map_or(String::new(), |name| format!(", did you mean `{name}`?"));
    Error::UnknownId { id: id.to_owned(), hint }
}

/// The specs of all environments of this crate, ordered by id.
pub fn specs() -> Vec<EnvSpec> {
    let single = SINGLE.iter().map(|make| make().spec().clone());
    let shared = SHARED.iter().map(|make| make().spec().clone());
    let mut specs: Vec<_> = single.chain(shared).collect();
    specs.sort_by(|a, b| a.id.cmp(&b.id));
    specs
}

fn unknown(id: &str) -> Error {
    let names: Vec<_> = specs().into_iter().map(|spec| spec.id.to_string()).collect();
    unknown_id(id, names.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_makes_its_environment() {
        let ids: Vec<_> = specs().iter().map(|spec| spec.id.to_string()).collect();
        let mut unique = ids.clone();
        unique.dedup();
        assert_eq!(unique.len(), SINGLE.len() + SHARED.len(), "{ids:?}");
        for id in ids {
            let spec = match make_multi_agent(&id) {
                Ok(shared) => {
                    assert!(matches!(make(&id), Err(Error::ManyAgents { .. })));
                    shared.spec().clone()
                }
                Err(_) => make(&id).unwrap().spec().clone(),
            };
            assert_eq!(spec.id.to_string(), id);
        }
    }

    #[test]
    fn every_environment_belongs_to_one_simulator() {
        let of = |simulator: &BuiltIn| simulator.specs().len();
        assert_eq!(of(&CLASSIC) + of(&TOY), specs().len());
        let toys = TOY.configure(&Table::new()).unwrap();
        assert!(toys.is_shared("toy/roll-call-v1") && !toys.is_shared("toy/identity-v1"));
        assert_eq!(toys.downcast::<BuiltIn>().unwrap().prefix, "toy");
    }

    #[test]
    fn an_unknown_id_is_answered_with_the_nearest() {
        let check = |id: &str, expect: &str| {
            let error = make(id).err().unwrap().to_string();
            assert_eq!(error.contains("did you mean"), !expect.is_empty(), "{error}");
            assert!(error.contains(expect), "{error}");
        };
        check("cartpole", "did you mean `classic/cartpole-v1`?");
        check("classic/cart-pole-v1", "did you mean `classic/cartpole-v1`?");
        check("classic/pendulum-v0", "did you mean `classic/pendulum-v1`?");
        check("qqq", "");
        check("", "");
    }
}
