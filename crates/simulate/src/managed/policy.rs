//! The policy: who acts, what is recorded, and when the agent trains.

use homeostat_aware::{Actor, Lifecycle, Profile, Stage, StageChange, Verdict};
use homeostat_core::trajectory::Transition;
use homeostat_core::{AgentId, ControlSchema, Persist, SeedTree, SimTime, Snapshot};
use homeostat_decide::{
    AllocationBounds, AllocationTarget, Features, Observation, Policy, Proposal, Propose,
};
use homeostat_env::EnvSpec;
use homeostat_lab::Result;
use homeostat_nn::Kernel;
use homeostat_rl::{AgentContext, OfflineEvaluation, Workspace, evaluate, recorded_env};

use super::agent::{Agent, choose};
use super::config::{ManagedConfig, of_profile};
use super::episodes::Episodes;

/// A policy under its life cycle. HPA and VPA, or another fallback, see every observation, so that their
/// history is current whenever they act.
pub struct ManagedPolicy {
    config: ManagedConfig,
    bounds: AllocationBounds,
    lifecycle: Lifecycle,
    fallback: Box<dyn Policy>,
    agent: Agent,
    /// The policy that serves, and the one that is being evaluated.
    served: Option<homeostat_rl::Policy>,
    features: Features,
    /// The decision whose reward is not known yet.
    pending: Option<Pending>,
    episodes: Episodes,
    stages: Vec<StageEntry>,
    evaluation: Option<OfflineEvaluation>,
    workspace: Workspace,
    /// Why the agent has stopped learning for good; the fallback acts.
    failure: Option<homeostat_rl::Error>,
}

/// A change of stage, and when.
#[derive(Debug, Clone, PartialEq)]
pub struct StageEntry {
    /// When.
    pub at: SimTime,
    /// The change and its cause.
    pub change: StageChange,
}

struct Pending {
    at: SimTime,
    features: [f32; Features::COUNT],
    action: AllocationTarget,
    actor: Actor,
}

impl ManagedPolicy {
    /// A policy at the beginning of its life. An error for settings that cannot work.
    pub fn new(
        config: ManagedConfig,
        fallback: Box<dyn Policy>,
        bounds: AllocationBounds,
        seeds: &SeedTree,
    ) -> Result<Self> {
        config.validate()?;
        let schema = ControlSchema {
            features: Features::schema(),
            action: AllocationTarget::schema(),
            bounds: bounds.fields(),
        };
        let spec: EnvSpec = recorded_env(&schema)?;
        let context = AgentContext { agent: AgentId::new(0), spec, seeds: seeds.child("agent") };
        let lifecycle = Lifecycle::new(config.profile.clone()).map_err(of_profile)?;
        Ok(Self {
            agent: Agent::new(&config.learner, config.noise, &context)?,
            episodes: Episodes::new(&context.spec, config.episodes_kept, config.profile.bootstrap)?,
            features: Features::new(bounds),
            workspace: Workspace::new(Kernel::best()),
            config,
            bounds,
            lifecycle,
            fallback,
            served: None,
            pending: None,
            stages: Vec::new(),
            evaluation: None,
            failure: None,
        })
    }

    /// The same agent, in the same stage and with what it has learnt, for another target: under this
    /// profile and beside this fallback.
    pub fn moved(
        &self,
        profile: Profile,
        fallback: Box<dyn Policy>,
        seeds: &SeedTree,
    ) -> Result<Self> {
        let mut lifecycle = self.lifecycle.clone();
        lifecycle.set_profile(profile.clone()).map_err(of_profile)?;
        let config = ManagedConfig { profile, ..self.config.clone() };
        let mut moved = Self::new(config, fallback, self.bounds, seeds)?;
        let mut snapshot = Snapshot::default();
        self.agent.save("agent", &mut snapshot);
        self.episodes.save("episodes", &mut snapshot);
        moved.agent.load("agent", &snapshot)?;
        moved.episodes.load("episodes", &snapshot)?;
        moved.served.clone_from(&self.served);
        moved.lifecycle = lifecycle;
        Ok(moved)
    }

    /// The stage.
    pub fn stage(&self) -> Stage {
        self.lifecycle.stage()
    }

    /// The life cycle.
    pub fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// Every change of stage so far.
    pub fn stages(&self) -> &[StageEntry] {
        &self.stages
    }

    /// What evaluation found of the newest policy.
    pub fn evaluation(&self) -> Option<&OfflineEvaluation> {
        self.evaluation.as_ref()
    }

    /// Why the agent has stopped learning for good, if it has.
    pub fn failure(&self) -> Option<&homeostat_rl::Error> {
        self.failure.as_ref()
    }

    /// The agent's present policy.
    pub fn policy(&self) -> homeostat_rl::Policy {
        self.agent.policy()
    }

    fn actor(&self) -> Actor {
        match (&self.failure, self.lifecycle.actor()) {
            (Some(_), _) => Actor::Fallback,
            (None, Actor::Policy) if self.served.is_none() => Actor::Fallback,
            (None, actor) => actor,
        }
    }

    /// Records the last decision with its reward; trains and ends the episode where that is due.
    fn take_in(
        &mut self,
        pending: Pending,
        obs: &Observation,
        features: &[f32; Features::COUNT],
    ) -> homeostat_rl::Result<()> {
        let reward = self.config.reward.of(features, obs, &self.bounds);
        if pending.actor == Actor::Learner {
            self.agent.record(reward, features, &mut self.workspace)?;
        }
        let transition = Transition {
            at_ms: (pending.at.seconds() * 1e3) as i64,
            observation: pending.features.to_vec(),
            action: pending.action.numbers().to_vec(),
            reward,
            probability: None,
        };
        self.episodes.push(transition, features)?;
        if self.lifecycle.stage() == Stage::Online {
            let steps = self.config.online_steps;
            self.agent.learn(steps, self.episodes.data(), &mut self.workspace)?;
        }
        if self.episodes.open_len() >= self.config.episode {
            self.end_episode(obs.now)?;
        }
        Ok(())
    }

    fn end_episode(&mut self, now: SimTime) -> homeostat_rl::Result<()> {
        let reward = self.episodes.finish()?;
        if matches!(self.lifecycle.stage(), Stage::Initialised | Stage::Offline)
            && self.config.profile.bootstrap
        {
            self.train_offline(now)?;
        }
        if self.lifecycle.stage() == Stage::Offline && self.served.is_none() {
            // Whatever the fallback's rewards are, there is no policy yet.
            return Ok(());
        }
        // A mean of numbers that the dataset accepted.
        if let Ok(Some(change)) = self.lifecycle.episode(reward) {
            self.enter(now, change)?;
        }
        Ok(())
    }

    /// Trains on what the fallback did, and evaluates the result.
    fn train_offline(&mut self, now: SimTime) -> homeostat_rl::Result<()> {
        let (count, first) = (self.episodes.len(), self.config.bootstrap_episodes);
        let steps = match count {
            count if count < first => return Ok(()),
            count if count == first => self.config.bootstrap_steps,
            _ => self.config.offline_steps,
        };
        self.agent.learn(steps, self.episodes.data(), &mut self.workspace)?;
        let policy = self.agent.policy();
        let found = evaluate(&policy, &self.episodes.held_out(), &self.config.evaluation)?;
        // Where actions are far from what was recorded, an estimate extrapolates: it counts as nothing.
        let is_near = found.distance <= self.config.max_distance;
        // Both estimates err together, so the interval of their difference is narrower than their own.
        let fallback = found.behaviour.value;
        let policy_low = if is_near { fallback + found.gain.low } else { f64::MIN };
        let verdict = Verdict { policy_low, fallback };
        self.evaluation = Some(found);
        self.served = Some(policy);
        if let Some(change) = self.lifecycle.evaluated(verdict) {
            self.enter(now, change)?;
        }
        Ok(())
    }

    fn enter(&mut self, now: SimTime, change: StageChange) -> homeostat_rl::Result<()> {
        let latest = self.config.profile.episodes;
        match (change.from, change.to) {
            // The agent goes on from what it was bootstrapped with.
            (Stage::Offline, Stage::Online) => {
                self.episodes.keep(self.config.episodes_kept, false)?
            }
            // Only the latest episodes know what has changed.
            (Stage::Serving, Stage::Online) => self.episodes.keep(latest, false)?,
            (Stage::Online, Stage::Serving) => self.served = Some(self.agent.policy()),
            (Stage::Online | Stage::Serving, Stage::Offline) => {
                self.served = None;
                self.episodes.keep(0, true)?;
            }
            _ => {}
        }
        self.stages.push(StageEntry { at: now, change });
        Ok(())
    }
}

impl Policy for ManagedPolicy {
    fn name(&self) -> &str {
        "aware"
    }

    fn propose(&mut self, obs: &Observation) -> Proposal {
        let features = self.features.observe(obs);
        let of_fallback = self.fallback.propose(obs);
        if let Some(pending) = self.pending.take()
            && self.failure.is_none()
            && let Err(error) = self.take_in(pending, obs, &features)
        {
            self.failure = Some(error);
        }
        let actor = self.actor();
        let chosen = match (actor, &self.served) {
            (Actor::Learner, _) => self.agent.explore(&features, &mut self.workspace),
            (Actor::Policy, Some(policy)) => Ok(choose(policy, &features, &mut self.workspace)),
            (Actor::Fallback | Actor::Policy, _) => {
                let target = of_fallback.setting().unwrap_or(obs.allocation);
                Ok(AllocationTarget::of(&target, &self.bounds))
            }
        };
        let (actor, action) = match chosen {
            Ok(action) => (actor, action),
            Err(error) => {
                self.failure = Some(error);
                let target = of_fallback.setting().unwrap_or(obs.allocation);
                (Actor::Fallback, AllocationTarget::of(&target, &self.bounds))
            }
        };
        self.pending = Some(Pending { at: obs.now, features, action, actor });
        if actor == Actor::Fallback {
            of_fallback
        } else {
            action.propose(&obs.allocation, &self.bounds)
        }
    }
}

impl Persist for ManagedPolicy {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let lifecycle = serde_json::to_vec(&self.lifecycle).expect("plain data");
        out.put_u8(&format!("{name}/lifecycle"), lifecycle);
        self.fallback.save(&format!("{name}/fallback"), out);
        self.agent.save(&format!("{name}/agent"), out);
        let served = self.served.as_ref().map(homeostat_rl::Policy::to_bytes).unwrap_or_default();
        out.put_u8(&format!("{name}/served"), served);
        self.features.save(&format!("{name}/features"), out);
        self.episodes.save(&format!("{name}/episodes"), out);
        let pending = self.pending.as_ref();
        let numbers = pending.map(|one| [one.features.as_slice(), &one.action.numbers()].concat());
        out.put_f32(&format!("{name}/pending"), numbers.unwrap_or_default());
        let actor = |actor| match actor {
            Actor::Fallback => 0,
            Actor::Learner => 1,
            Actor::Policy => 2,
        };
        let facts = pending.map(|one| vec![one.at.nanos(), actor(one.actor)]);
        out.put_u64(&format!("{name}/pending_facts"), facts.unwrap_or_default());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        let unfit = |array: &str| homeostat_core::Error::SnapshotMissing {
            name: format!("{name}/{array}"),
        };
        let lifecycle = from.any_u8s(&format!("{name}/lifecycle"))?;
        self.lifecycle = serde_json::from_slice(lifecycle).map_err(|_| unfit("lifecycle"))?;
        self.fallback.load(&format!("{name}/fallback"), from)?;
        self.agent.load(&format!("{name}/agent"), from)?;
        self.served = match from.any_u8s(&format!("{name}/served"))? {
            [] => None,
            bytes => Some(homeostat_rl::Policy::from_bytes(bytes).map_err(|_| unfit("served"))?),
        };
        self.features.load(&format!("{name}/features"), from)?;
        self.episodes.load(&format!("{name}/episodes"), from)?;
        let numbers = from.any_f32s(&format!("{name}/pending"))?;
        self.pending = match *from.any_u64s(&format!("{name}/pending_facts"))? {
            [at, actor] if numbers.len() == Features::COUNT + AllocationTarget::COUNT => {
                let (features, action) = numbers.split_at(Features::COUNT);
                Some(Pending {
                    at: SimTime::from_nanos(at),
                    features: std::array::from_fn(|k| features[k]),
                    action: AllocationTarget::from_numbers(action),
                    actor: [Actor::Fallback, Actor::Learner, Actor::Policy][actor.min(2) as usize],
                })
            }
            _ => None,
        };
        Ok(())
    }
}
