//! The recommender of a spec.

use homeostat_core::SimDuration;

use super::{PlanError, Recommender, Result, read_duration};
use crate::api::spec::{RecommenderName, RecommenderRef};

/// A shorter time limit would exclude every learner.
const MIN_TIMEOUT: SimDuration = SimDuration::from_millis(10);
/// The object is not reconciled while its learner computes.
const MAX_TIMEOUT: SimDuration = SimDuration::from_secs(30);

pub(super) fn read_recommender(recommenders: &[RecommenderRef]) -> Result<Recommender> {
    let field = "spec.recommenders";
    let given = match recommenders {
        [] => return Ok(Recommender::Joint),
        [one] => one,
        more => {
            let problem = format!("{} recommenders; at most one", more.len());
            return Err(PlanError::new(field, problem));
        }
    };
    let needless = |given: bool, part: &str, name: &str| {
        let problem = format!("{part} is only for the recommender {name:?}; remove it");
        if given { Err(PlanError::new(format!("{field}[0].{part}"), problem)) } else { Ok(()) }
    };
    if given.name != RecommenderName::Policy {
        needless(given.policy_file.is_some(), "policyFile", "policy")?;
    }
    if given.name != RecommenderName::External {
        needless(given.external.is_some(), "external", "external")?;
    }
    let missing = |part: &str| PlanError::new(format!("{field}[0].{part}"), "missing; add it");
    Ok(match given.name {
        RecommenderName::Joint => Recommender::Joint,
        RecommenderName::HpaVpa => Recommender::HpaVpa,
        RecommenderName::Policy => {
            Recommender::Policy(given.policy_file.clone().ok_or_else(|| missing("policyFile"))?)
        }
        RecommenderName::External => {
            let external = given.external.clone().unwrap_or_default();
            let field = format!("{field}[0].external.timeout");
            let timeout = read_duration(&field, &external.timeout)?;
            if !(MIN_TIMEOUT..=MAX_TIMEOUT).contains(&timeout) {
                let problem = format!("{} is not between 10ms and 30s", external.timeout);
                return Err(PlanError::new(field, problem));
            }
            Recommender::External(external.actions, timeout)
        }
    })
}
