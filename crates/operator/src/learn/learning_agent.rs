//! The life cycle of one object's learned policy: what is observed and decided goes to an agent of
//! [`homeostat_aware`], and who acts comes from it.

use homeostat_autoscaler::api::{
    ConditionReason, EvaluationStatus, LearningMode, LearningPlan, LearningStatus,
};
use homeostat_autoscaler::learn::{Advice, ServedPolicy, Transition};
use homeostat_autoscaler::recommend::{Outcome, time};
use homeostat_aware::{
    Actor, Agent, Behaviour, Decided, Episode, EpisodeConfig, Exploration, Profile, StageChange,
    Verdict,
};
use homeostat_core::{ControlSchema, SimDuration, SimTime};
use homeostat_decide::{AllocationBounds, Features, MetricsTrust, PodInterface, Ratios};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::policy_file::PolicyFileError;

/// The name of the fallback, as a recommender and as a behaviour policy.
pub const FALLBACK: &str = "hpa+vpa";

/// What was found where the policy file should be; none if the spec names none.
pub type FoundPolicy<'a> = Option<&'a Result<ServedPolicy, PolicyFileError>>;

/// The agent of one object.
#[derive(Debug)]
pub struct LearningAgent {
    plan: LearningPlan,
    workload: String,
    state: State,
    /// The policy file of the last reconcile, if it can be served.
    policy: Option<Usable>,
    problem: Option<Problem>,
    /// Why nothing is learned now, such as in the mode `Recommend`.
    idle: Option<String>,
    news: News,
}

/// What survives a restart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct State {
    agent: Agent,
    /// When the stage began, in seconds since 1970.
    since_s: Option<u64>,
    /// Why the stage before ended.
    reason: String,
}

/// A policy file that can be served, with its evaluation.
#[derive(Debug, Clone)]
struct Usable {
    served: ServedPolicy,
    /// SHA-256 of the file: the same policy under another version stays the same.
    hash: String,
    verdict: Option<Verdict>,
}

/// Why the object does not learn as its spec asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The reason of the condition `Learning`.
    pub reason: ConditionReason,
    /// Its message.
    pub message: String,
}

/// What happened since it was last asked.
#[derive(Debug, Default)]
pub struct News {
    /// Episodes that ended, to be recorded.
    pub episodes: Vec<Episode>,
    /// Stages that ended.
    pub changes: Vec<StageChange>,
}

/// Whether and how decisions are applied, for what is learned from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// They are.
    Yes,
    /// They are not, for this reason: what follows is the consequence of something else.
    No(&'static str),
}

impl LearningAgent {
    /// A new agent of an object, or the one that `saved` describes. The error says why `saved` cannot be
    /// read; the agent is then a new one.
    pub fn new(
        workload: &str,
        plan: &LearningPlan,
        interval: SimDuration,
        saved: Option<&str>,
    ) -> Result<(Self, Option<String>), homeostat_aware::Error> {
        let restored = saved.map(serde_json::from_str::<State>);
        let (restored, unreadable) = match restored {
            Some(Ok(state)) => (Some(state), None),
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, None),
        };
        let fresh = || -> Result<State, homeostat_aware::Error> {
            let agent = Agent::new(profile(plan), cut(plan, interval))?;
            let reason = "nothing has been observed yet".to_owned();
            Ok(State { agent, since_s: None, reason })
        };
        let state = match restored {
            Some(state) => state,
            None => fresh()?,
        };
        let mut agent = Self {
            plan: plan.clone(),
            workload: workload.to_owned(),
            state,
            policy: None,
            problem: None,
            idle: None,
            news: News::default(),
        };
        agent.set_plan(plan, interval)?;
        Ok((agent, unreadable))
    }

    /// Changes the settings; it stays in its stage.
    pub fn set_plan(
        &mut self,
        plan: &LearningPlan,
        interval: SimDuration,
    ) -> Result<(), homeostat_aware::Error> {
        self.state.agent.set_profile(profile(plan), cut(plan, interval))?;
        self.plan = plan.clone();
        Ok(())
    }

    /// What a restart needs.
    pub fn saved(&self) -> String {
        serde_json::to_string(&self.state).expect("plain data")
    }

    /// Takes in what was observed, and returns the advice for this decision.
    pub fn observe(
        &mut self,
        now: SimTime,
        transition: Option<&Transition>,
        applied: Applied,
        found: FoundPolicy<'_>,
    ) -> Option<Advice> {
        self.idle = match (applied, transition) {
            (Applied::No(why), _) => Some(why.to_owned()),
            (Applied::Yes, Some(transition)) if transition.is_measured => None,
            (Applied::Yes, _) => Some("the metrics are not fresh and valid".to_owned()),
        };
        match transition.filter(|_| self.idle.is_none()) {
            Some(Transition { state, reward, .. }) => {
                let observed = self.state.agent.observed(ms(now), state, *reward);
                self.news.episodes.extend(observed.episode);
                self.changed(now, observed.change);
            }
            None => self.news.episodes.extend(self.state.agent.interrupted()),
        }
        // Without pods nothing could be served.
        if let Some(transition) = transition {
            self.look_at_policy(found, &transition.bounds);
        }
        if self.plan.mode == LearningMode::Shadow {
            let change = self.state.agent.withdraw();
            self.changed(now, change);
        } else if let Some(Usable { hash, verdict: Some(verdict), .. }) = self.policy.clone() {
            let change = self.state.agent.evaluated(&hash, verdict);
            self.changed(now, change);
        }
        self.advice()
    }

    /// Notes what was decided.
    pub fn decided(&mut self, now: SimTime, transition: &Transition, outcome: &Outcome) {
        if self.idle.is_some() || outcome.verdict.trust != MetricsTrust::Full {
            self.news.episodes.extend(self.state.agent.interrupted());
            return;
        }
        let acts = self.state.agent.actor() == Actor::Policy && outcome.absence.is_none();
        let (actor, policy) = match &self.policy {
            Some(usable) if acts => (Actor::Policy, usable.hash.clone()),
            _ => (Actor::Fallback, FALLBACK.to_owned()),
        };
        let decision = &outcome.decision;
        let decided = Decided {
            at_ms: ms(now),
            observation: transition.state.to_vec(),
            // As in simulations, what was proposed is recorded, and guards belong to the workload.
            action: Ratios::between(decision.from(), decision.proposed()).numbers().to_vec(),
            // Neither HPA and VPA nor a policy that does not explore draws its actions.
            probability: None,
            behaviour: Behaviour {
                actor,
                policy,
                workload: self.workload.clone(),
                schema: ControlSchema {
                    features: Features::schema(),
                    action: Ratios::schema(),
                    bounds: transition.bounds.fields(),
                },
            },
        };
        self.news.episodes.extend(self.state.agent.decided(decided));
    }

    /// What happened since this was last called.
    pub fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// Why the object does not learn as its spec asks.
    pub fn problem(&self) -> Option<Problem> {
        let lifecycle = self.state.agent.lifecycle();
        let stuck = lifecycle.waiting().filter(|_| lifecycle.is_stuck()).map(|waiting| Problem {
            reason: ConditionReason::ThresholdsNotMet,
            message: format!(
                "after {} episodes {waiting}: check the thresholds of the spec; {FALLBACK} acts",
                self.plan.patience
            ),
        });
        self.problem.clone().or(stuck)
    }

    /// The part of the object's status.
    pub fn status(&self) -> LearningStatus {
        let lifecycle = self.state.agent.lifecycle();
        let waiting = lifecycle.waiting().map(|waiting| waiting.to_string());
        let shadow = (self.plan.mode == LearningMode::Shadow)
            .then(|| "in shadow mode the policy never acts".to_owned());
        let acts = self.acting().is_some();
        let (mean, deviation) = lifecycle.recent();
        LearningStatus {
            stage: format!("{:?}", lifecycle.stage()),
            since: self
                .state
                .since_s
                .map(|since| time(SimTime::ZERO + SimDuration::from_secs(since))),
            reason: self.state.reason.clone(),
            waiting_for: self.idle.clone().or(shadow).or(waiting),
            actor: if acts { "policy" } else { FALLBACK }.to_owned(),
            recent_reward: (lifecycle.episodes() > 0)
                .then(|| format!("{mean:.3} +- {deviation:.3}")),
            evaluation: self.evaluation(),
        }
    }

    fn evaluation(&self) -> Option<EvaluationStatus> {
        let usable = self.policy.as_ref()?;
        let verdict = usable.verdict?;
        Some(EvaluationStatus {
            policy: usable.served.version.clone(),
            lower_bound: format!("{:.4}", verdict.policy_low),
            fallback: format!("{:.4}", verdict.fallback),
            margin: format!("{}", self.plan.activation_margin),
            is_admitted: self.admits(verdict),
        })
    }

    fn admits(&self, verdict: Verdict) -> bool {
        verdict.policy_low >= verdict.fallback - self.plan.activation_margin
    }

    /// The policy that acts: the life cycle says so, and this very file was admitted.
    fn acting(&self) -> Option<&Usable> {
        let usable = self.policy.as_ref()?;
        let may_act = self.plan.mode == LearningMode::Serve
            && self.state.agent.actor() == Actor::Policy
            && usable.verdict.is_some_and(|verdict| self.admits(verdict));
        may_act.then_some(usable)
    }

    fn advice(&self) -> Option<Advice> {
        if let Some(usable) = self.acting() {
            return Some(Advice::Serve(usable.served.clone()));
        }
        if self.state.agent.actor() == Actor::Policy {
            let none = || "there is no policy file".to_owned();
            let why = self.problem.as_ref().map_or_else(none, |problem| problem.message.clone());
            return Some(Advice::Unavailable { why });
        }
        self.policy.as_ref().map(|usable| Advice::Shadow(usable.served.clone()))
    }

    /// Checks the policy file, if it is a new one.
    fn look_at_policy(&mut self, found: FoundPolicy<'_>, bounds: &AllocationBounds) {
        let unusable =
            |message: String| Problem { reason: ConditionReason::PolicyUnusable, message };
        self.problem = None;
        match found {
            None => self.policy = None,
            Some(Err(error)) => {
                self.policy = None;
                // Before the first policy is written, none is there.
                let is_missed = !matches!(error, PolicyFileError::Missing { .. })
                    || self.state.agent.actor() == Actor::Policy;
                self.problem = is_missed.then(|| unusable(error.to_string()));
            }
            Some(Ok(served)) => {
                let known = self.policy.take().filter(|known| known.served == *served);
                match known.map_or_else(|| usable(served, bounds), Ok) {
                    Ok(usable) => {
                        self.problem = self.not_admitted(&usable);
                        self.policy = Some(usable);
                    }
                    Err(why) => self.problem = Some(unusable(why)),
                }
            }
        }
    }

    fn not_admitted(&self, usable: &Usable) -> Option<Problem> {
        let version = &usable.served.version;
        let message = match usable.verdict {
            None => format!(
                "{version} carries no evaluation, so that it may not serve: write it with `homeostat learn`"
            ),
            Some(verdict) if !self.admits(verdict) => format!(
                "{version} may not serve: {verdict}, and the margin is {}",
                self.plan.activation_margin
            ),
            Some(_) => return None,
        };
        Some(Problem { reason: ConditionReason::PolicyNotAdmitted, message })
    }

    fn changed(&mut self, now: SimTime, change: Option<StageChange>) {
        let Some(change) = change else { return };
        self.state.since_s = Some(now.nanos() / 1_000_000_000);
        self.state.reason = change.cause.to_string();
        self.news.changes.push(change);
    }
}

/// A policy file whose features and actions this version knows.
fn usable(served: &ServedPolicy, bounds: &AllocationBounds) -> Result<Usable, String> {
    let policy = &served.policy;
    PodInterface::for_schema(policy.schema(), *bounds)
        .map_err(|error| format!("{}: {error}", served.version))?;
    let is_finite =
        |verdict: &Verdict| verdict.policy_low.is_finite() && verdict.fallback.is_finite();
    let verdict = policy
        .provenance()
        .evaluation
        .as_ref()
        .map(|found| Verdict { policy_low: found.policy_low, fallback: found.behaviour });
    let hash = Sha256::digest(policy.to_bytes());
    Ok(Usable {
        served: served.clone(),
        hash: format!(
            "sha256:{}",
            hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        ),
        verdict: verdict.filter(is_finite),
    })
}

fn profile(plan: &LearningPlan) -> Profile {
    Profile {
        bootstrap: true,
        online_reward: plan.online_reward,
        serving_reward: plan.serving_reward,
        serving_deviation: plan.serving_deviation,
        // The operator never explores: there is no online stage to leave.
        online_floor: None,
        episodes: plan.episodes,
        // On a cluster nothing explores: policies are trained on what was recorded.
        exploration: Exploration::Never,
        activation_margin: Some(plan.activation_margin),
        patience: plan.patience,
    }
}

/// Three missing decisions in a row end an episode.
fn cut(plan: &LearningPlan, interval: SimDuration) -> EpisodeConfig {
    let ms = |duration: SimDuration| (duration.seconds() * 1e3) as i64;
    EpisodeConfig { length_ms: ms(plan.episode_length), max_gap_ms: 3 * ms(interval) }
}

fn ms(at: SimTime) -> i64 {
    i64::try_from(at.nanos() / 1_000_000).unwrap_or(i64::MAX)
}
