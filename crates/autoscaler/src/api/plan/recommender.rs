//! The recommender of a spec.

use homeostat_core::SimDuration;

use super::{LearningPlan, PlanError, Recommender, Result, read_duration};
use crate::api::learning_spec::LearningSpec;
use crate::api::spec::{PolicyFileRef, RecommenderName, RecommenderRef};

/// A shorter time limit would exclude every learner.
const MIN_TIMEOUT: SimDuration = SimDuration::from_millis(10);
/// The object is not reconciled while its learner computes.
const MAX_TIMEOUT: SimDuration = SimDuration::from_secs(30);

/// An episode needs several decisions.
const MIN_EPISODE: SimDuration = SimDuration::from_secs(1);
/// The decisions of the open episode are part of every checkpoint.
const MAX_EPISODE: SimDuration = SimDuration::from_secs(4 * 3600);
/// The largest reward: SLO met, and everything in use.
const MAX_REWARD: f64 = 1.0;

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
    if !matches!(given.name, RecommenderName::Policy | RecommenderName::Aware) {
        needless(given.policy_file.is_some(), "policyFile", "policy")?;
    }
    if given.name != RecommenderName::External {
        needless(given.external.is_some(), "external", "external")?;
    }
    if given.name != RecommenderName::Aware {
        needless(given.aware.is_some(), "aware", "aware")?;
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
        RecommenderName::Aware => {
            let spec = given.aware.clone().unwrap_or_default();
            let policy_file = given.policy_file.clone();
            let plan = read_learning(&format!("{field}[0].aware"), &spec, policy_file)?;
            Recommender::Aware(Box::new(plan))
        }
    })
}

fn read_learning(
    field: &str,
    spec: &LearningSpec,
    policy_file: Option<PolicyFileRef>,
) -> Result<LearningPlan> {
    let refused = |name: &str, problem: String| PlanError::new(format!("{field}.{name}"), problem);
    let number = |name: &str, text: &str| match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(refused(name, format!("{text:?} is not a number"))),
    };
    let amount = |name: &str, text: &str| match number(name, text)? {
        value if value >= 0.0 => Ok(value),
        _ => Err(refused(name, format!("{text} is below 0"))),
    };
    let reward = |name: &str, text: &str| match number(name, text)? {
        value if value <= MAX_REWARD => Ok(value),
        _ => {
            let problem = format!("{text} can never be reached: a reward is at most {MAX_REWARD}");
            Err(refused(name, problem))
        }
    };
    let episode_length = read_duration(&format!("{field}.episodeLength"), &spec.episode_length)?;
    if !(MIN_EPISODE..=MAX_EPISODE).contains(&episode_length) {
        let problem = format!("{} is not between 1s and 4h", spec.episode_length);
        return Err(refused("episodeLength", problem));
    }
    if spec.episodes < 2 {
        let problem = format!("{} have no deviation; at least 2", spec.episodes);
        return Err(refused("episodes", problem));
    }
    if spec.patience < spec.episodes {
        let problem = format!(
            "{} is below the {} episodes over which the mean is taken; raise it",
            spec.patience, spec.episodes
        );
        return Err(refused("patience", problem));
    }
    Ok(LearningPlan {
        policy_file,
        mode: spec.mode,
        episode_length,
        episodes: spec.episodes as usize,
        online_reward: reward("onlineReward", &spec.online_reward)?,
        serving_reward: reward("servingReward", &spec.serving_reward)?,
        serving_deviation: amount("servingDeviation", &spec.serving_deviation)?,
        activation_margin: amount("activationMargin", &spec.activation_margin)?,
        patience: spec.patience as usize,
    })
}
