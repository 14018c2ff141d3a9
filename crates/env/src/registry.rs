//! Environments by id.

use crate::worlds::{acrobot, cartpole, grid_world, identity, mountain_car, pendulum};
use crate::{Env, EnvSpec, Episode, Error, Result};

type Maker = fn() -> Box<dyn Env>;

/// Every environment of this crate.
const MAKERS: [Maker; 8] = [
    || Box::new(Episode::new(acrobot::Acrobot::default())),
    || Box::new(Episode::new(cartpole::CartPole::default())),
    || Box::new(Episode::new(grid_world::GridWorld::default())),
    || Box::new(Episode::new(identity::Identity::discrete())),
    || Box::new(Episode::new(identity::Identity::multi_discrete())),
    || Box::new(Episode::new(identity::Identity::continuous())),
    || Box::new(Episode::new(mountain_car::MountainCar::default())),
    || Box::new(Episode::new(pendulum::Pendulum::default())),
];

/// A new environment with this id, to be reset before its first step.
pub fn make(id: &str) -> Result<Box<dyn Env>> {
    let mut names = Vec::new();
    for maker in MAKERS {
        let env = maker();
        let name = env.spec().id.to_string();
        if name == id {
            return Ok(env);
        }
        names.push(name);
    }
    // Who writes a part of the id, most often the bare name, means that one.
    let likeness = |name: &str| {
        if name.contains(id) { 1.0 } else { strsim::jaro_winkler(id, name) }
    };
    let nearest = names.into_iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let hint = nearest
        .filter(|name| !id.is_empty() && likeness(name) > 0.7)
        .map_or(String::new(), |name| format!(", did you mean `{name}`?"));
    Err(Error::UnknownId { id: id.to_owned(), hint })
}

/// What every environment of this crate is, ordered by id.
pub fn specs() -> Vec<EnvSpec> {
    let mut specs: Vec<_> = MAKERS.iter().map(|maker| maker().spec().clone()).collect();
    specs.sort_by(|a, b| a.id.cmp(&b.id));
    specs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_makes_its_environment() {
        let ids: Vec<_> = specs().iter().map(|spec| spec.id.to_string()).collect();
        let mut unique = ids.clone();
        unique.dedup();
        assert_eq!(unique.len(), MAKERS.len(), "{ids:?}");
        for id in ids {
            assert_eq!(make(&id).unwrap().spec().id.to_string(), id);
        }
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
