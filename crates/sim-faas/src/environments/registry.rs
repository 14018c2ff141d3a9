//! The environments of this crate by id.

use homeostat_env::{Env, EnvSpec, Episode, MultiAgentEnv};

use super::cards;
use super::chain::Chains;
use super::config::{FaasConfig, FaasPlan};
use super::course::Course;
use super::fleet::Fleet;
use super::single::SingleLearner;

/// The environment that the setting `faas.chains` is for.
pub(crate) const CHAIN: &str = "faas/chain-v2";

/// A new environment of one learner, or nothing if the id is none of them. The number of the
/// agent chooses the function where the settings say "each".
pub fn make(id: &str, plan: &FaasPlan, agent: u32) -> Option<Box<dyn Env>> {
    Some(match id {
        "faas/function-v2" => Box::new(Episode::new(SingleLearner::alone(plan.clone(), agent))),
        "faas/shared-v2" => Box::new(Episode::new(SingleLearner::in_company(plan.clone(), agent))),
        "faas/course-v2" => Box::new(Episode::new(Course::new(plan.course().clone()))),
        _ => return None,
    })
}

/// A new environment of many learners, or nothing if the id is none of them, or if its chains
/// cannot be profiled: [`FaasPlan::chained`] says why.
pub fn make_multi_agent(id: &str, plan: &FaasPlan) -> Option<Box<dyn MultiAgentEnv>> {
    Some(match id {
        "faas/fleet-v3" => Box::new(Fleet::with_steps(plan.clone())),
        "faas/fleet-set-points-v1" => Box::new(Fleet::with_set_points(plan.clone())),
        "faas/fleet-set-points-team-v1" => Box::new(Fleet::with_team_set_points(plan.clone())),
        CHAIN => Box::new(Chains::new(plan.chained().ok()?.clone())),
        _ => return None,
    })
}

/// Whether an environment of this crate has many learners.
pub(crate) fn is_shared(id: &str) -> bool {
    const FLEETS: [&str; 3] =
        ["faas/fleet-v3", "faas/fleet-set-points-v1", "faas/fleet-set-points-team-v1"];
    id == CHAIN || FLEETS.contains(&id)
}

/// What every environment of this crate is, ordered by id.
pub fn specs(config: &FaasConfig) -> Vec<EnvSpec> {
    vec![
        cards::chain(config),
        cards::course(config),
        cards::fleet(config),
        cards::set_point_team_fleet(config),
        cards::set_point_fleet(config),
        cards::function(config),
        cards::shared(config),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_are_those_that_many_learners_play() {
        let plan = FaasConfig::default().build().unwrap();
        for spec in specs(plan.config()) {
            let id = spec.id.to_string();
            assert_eq!(is_shared(&id), make_multi_agent(&id, &plan).is_some(), "{id}");
            assert_eq!(is_shared(&id), make(&id, &plan, 0).is_none(), "{id}");
        }
    }
}
