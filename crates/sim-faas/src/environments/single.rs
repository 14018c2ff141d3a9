//! Environments of one learner: alone on the platform, or among functions that heuristics control.

use homeostat_core::{Persist, Snapshot, Stream};
use homeostat_decide::{Features, Policy, PolicyConfig, ScalingAction};
use homeostat_env::{Action, Dynamics, EnvSpec, Info, Outcome, Picture};

use super::cards;
use super::config::FaasPlan;
use super::heuristic;
use super::tenants::Tenants;
use super::{picture, text_view};

/// A function and its learner, alone or among other functions.
pub(crate) struct SingleLearner {
    plan: FaasPlan,
    agent: u32,
    has_company: bool,
    episodes: u64,
    stage: Option<Stage>,
}

/// One episode's platform; the learner is the first tenant.
struct Stage {
    tenants: Tenants,
    /// The policies of the tenants behind the first.
    controllers: Vec<Box<dyn Policy>>,
}

impl SingleLearner {
    /// `faas/function-v2`: there is no other function.
    pub(crate) fn alone(plan: FaasPlan, agent: u32) -> Self {
        Self { plan, agent, has_company: false, episodes: 0, stage: None }
    }

    /// `faas/shared-v2`: the other functions are controlled by a heuristic.
    pub(crate) fn in_company(plan: FaasPlan, agent: u32) -> Self {
        Self { has_company: true, ..Self::alone(plan, agent) }
    }

    fn stage(&self, seed: u64) -> Stage {
        let mut tenants = Tenants::new(&self.plan, seed);
        let own = self.plan.function_of(self.agent);
        tenants.join(own);
        let others = if self.has_company { self.plan.config.functions - 1 } else { 0 };
        let others = (1..=others).map(|other| (own + other) % self.plan.profiles.len());
        let mut controllers = Vec::new();
        for function in others {
            tenants.join(function);
            controllers.push(self.controller(function));
        }
        Stage { tenants, controllers }
    }

    fn controller(&self, function: usize) -> Box<dyn Policy> {
        heuristic(&self.plan.config.tenants, &self.plan, &self.plan.profiles[function])
            .and_then(PolicyConfig::build)
            .expect("the plan was validated")
    }

    fn playing(&self) -> &Stage {
        self.stage.as_ref().expect("an episode resets the environment before it plays")
    }
}

impl Stage {
    /// Runs a window; then the heuristics decide, at the same moment as the learner will.
    fn advance(&mut self) {
        self.tenants.advance();
        for (place, policy) in self.controllers.iter_mut().enumerate() {
            let controlled = self.tenants.control(place + 1, policy.as_mut());
            controlled.expect("a tenant's function is there, and bounds keep its CPU above zero");
        }
    }
}

impl Dynamics for SingleLearner {
    fn spec(&self) -> EnvSpec {
        let config = &self.plan.config;
        if self.has_company { cards::shared(config) } else { cards::function(config) }
    }

    fn reset(&mut self, rng: &mut Stream) {
        let mut stage = self.stage(rng.next_u64());
        // The first decision needs something to look at.
        stage.advance();
        self.stage = Some(stage);
        self.episodes += 1;
    }

    fn step(&mut self, action: &Action, _rng: &mut Stream) -> Outcome {
        let index = action.discrete().expect("the action is of the space");
        let action = ScalingAction::from_index(index).expect("the action is of the space");
        let stage = self.stage.as_mut().expect("an episode resets the environment before it plays");
        stage.tenants.act(0, action);
        stage.advance();
        Outcome { reward: stage.tenants.reward(0), terminated: false }
    }

    fn observe(&self, obs: &mut [f32]) {
        obs.copy_from_slice(&self.playing().tenants.present[0].obs);
    }

    fn render(&self) -> String {
        self.stage.as_ref().map_or(String::new(), |stage| text_view::draw(&stage.tenants))
    }

    fn picture(&self) -> Option<Picture> {
        self.stage.as_ref().map(|stage| picture::draw(&stage.tenants))
    }

    fn info(&self) -> Info {
        let tenant = &self.playing().tenants.present[0];
        tenant.window.as_ref().map_or(Info::new(), super::info_of)
    }

    // Alone on the platform a step takes 16 microseconds: measured, two threads gained nothing.
    fn is_worth_a_thread(&self) -> bool {
        self.has_company
    }

    fn episode_limit(&self) -> Option<u32> {
        self.plan
            .config
            .curriculum
            .then(|| super::curriculum(self.episodes, self.plan.config.steps))
    }
}

impl Persist for SingleLearner {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_u64(&format!("{name}/episodes"), [self.episodes, u64::from(self.stage.is_some())]);
        let Some(stage) = &self.stage else { return };
        stage.tenants.save(&format!("{name}/tenants"), out);
        for (place, controller) in stage.controllers.iter().enumerate() {
            controller.save(&format!("{name}/controller/{place}"), out);
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        let facts = from.u64s(&format!("{name}/episodes"), 2)?;
        self.episodes = facts[0];
        self.stage = None;
        if facts[1] == 0 {
            return Ok(());
        }
        let mut stage = self.stage(0);
        stage.tenants.load(&format!("{name}/tenants"), from)?;
        for (place, controller) in stage.controllers.iter_mut().enumerate() {
            controller.load(&format!("{name}/controller/{place}"), from)?;
        }
        self.stage = Some(stage);
        Ok(())
    }
}

/// Utilisation, SLO preservation and allocation of one function [Table 4.1].
pub(crate) fn observation_space() -> homeostat_env::Space {
    let (low, high) = Features::RANGES.into_iter().unzip();
    homeostat_env::Space::Box { low, high }
}
