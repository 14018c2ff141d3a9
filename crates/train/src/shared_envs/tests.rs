//! Independent learners in a choir, a shared environment that is easy to learn and whose singers
//! fail or leave on demand; and teams on the serverless platform.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use homeostat_env::{Action, EnvSpec};
use homeostat_env::{
    AgentStep, Card, Error as EnvError, Field, MultiStep, Result as EnvResult, Space,
};
use homeostat_lab::{Assignment, Environments, Settings, UserLayers};

use super::*;
use crate::trainer::Trainer;

const NUMBERS: usize = 3;
const TIME_LIMIT: u64 = 10;

/// Every agent observes a number and is rewarded for repeating it.
#[derive(Clone)]
struct Choir {
    spec: EnvSpec,
    singers: Vec<AgentId>,
    /// Who is paid NaN after the first episode.
    broken: Option<AgentId>,
    /// Who leaves in the middle of every episode.
    deserter: Option<AgentId>,
    /// Numbers other than 0 that the broken singer sang after it broke.
    wrong_notes: Arc<AtomicUsize>,
    seeds: SeedTree,
    elapsed: u64,
    alive: Vec<AgentId>,
    shown: Vec<[f32; 1]>,
    steps: Vec<AgentStep>,
}

impl Choir {
    fn of(singers: u32) -> Self {
        Self {
            spec: EnvSpec {
                control: None,
                id: "toy/choir-v1".parse().unwrap(),
                observation: Space::Discrete(NUMBERS),
                action: Space::Discrete(NUMBERS),
                time_limit: Some(TIME_LIMIT as u32),
                card: Card {
                    summary: "Several agents repeat what each is shown.",
                    observation: vec![Field::new("number", "0 to 2")],
                    action: vec![Field::new("number", "0 to 2")],
                    reward: "1 for repeating the number",
                    termination: "none",
                    source: "this test",
                },
            },
            singers: (0..singers).map(AgentId::new).collect(),
            broken: None,
            deserter: None,
            wrong_notes: Arc::default(),
            seeds: SeedTree::new(0),
            elapsed: 0,
            alive: Vec::new(),
            shown: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// What each singer is shown follows from the seed, the step and its own number.
    fn show(&mut self) {
        let show = |agent: &AgentId| {
            let mut draws = self.seeds.stream(&format!("{agent}/{}", self.elapsed));
            [draws.below(NUMBERS) as f32]
        };
        self.shown = self.alive.iter().map(show).collect();
    }
}

impl MultiAgentEnv for Choir {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn agents(&self) -> &[AgentId] {
        &self.alive
    }

    fn possible_agents(&self) -> Option<&[AgentId]> {
        Some(&self.singers)
    }

    fn reset(&mut self, seed: Option<u64>) -> EnvResult<()> {
        if let Some(seed) = seed {
            self.seeds = SeedTree::new(seed);
            self.elapsed = 0;
        }
        self.alive.clone_from(&self.singers);
        self.show();
        Ok(())
    }

    fn observation(&self, agent: AgentId) -> Option<&[f32]> {
        let place = self.alive.binary_search(&agent).ok()?;
        Some(&self.shown[place])
    }

    fn step(&mut self, actions: &[Action]) -> EnvResult<MultiStep<'_>> {
        if actions.len() != self.alive.len() {
            let (expected, got) = (self.alive.len(), actions.len());
            return Err(EnvError::ActionCount { env: self.spec.id.to_string(), expected, got });
        }
        self.elapsed += 1;
        let shown = self.shown.clone();
        self.show();
        let is_broken = self.elapsed > TIME_LIMIT;
        let truncated = self.elapsed.is_multiple_of(TIME_LIMIT);
        let is_half = self.elapsed.is_multiple_of(TIME_LIMIT / 2);
        self.steps.clear();
        for (place, agent) in self.alive.iter().enumerate() {
            let sung = actions[place].discrete().unwrap();
            let mut reward = if sung as f32 == shown[place][0] { 1.0 } else { 0.0 };
            if self.broken == Some(*agent) && is_broken {
                // The note of the step that breaks it was chosen before.
                let is_late = self.elapsed > TIME_LIMIT + 1;
                self.wrong_notes.fetch_add(usize::from(sung != 0 && is_late), Ordering::Relaxed);
                reward = f64::NAN;
            }
            let obs = self.shown[place].to_vec();
            let terminated = self.deserter == Some(*agent) && is_half && !truncated;
            self.steps.push(AgentStep { agent: *agent, obs, reward, terminated, truncated });
        }
        let is_alive = |step: &&AgentStep| !step.terminated && !step.truncated;
        self.alive = self.steps.iter().filter(is_alive).map(|step| step.agent).collect();
        self.show();
        Ok(MultiStep { agents: &self.steps, joined: &[] })
    }
}

impl Persist for Choir {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_u64(&format!("{name}/elapsed"), [self.elapsed]);
        let alive: Vec<_> = self.alive.iter().map(|agent| u64::from(agent.number())).collect();
        out.put_u64(&format!("{name}/alive"), alive);
    }

    /// The seed is that of the reset before.
    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.elapsed = from.u64s(&format!("{name}/elapsed"), 1)?[0];
        let alive = from.any_u64s(&format!("{name}/alive"))?.iter();
        self.alive = alive.map(|number| AgentId::new(*number as u32)).collect();
        self.show();
        Ok(())
    }
}

fn config(num_envs: usize, steps: u64) -> RunConfig {
    let settings = [
        ("run.steps", steps.to_string()),
        ("run.preset", "off".to_owned()),
        ("ppo.num_envs", num_envs.to_string()),
        ("ppo.steps_per_update", "20".to_owned()),
        ("ppo.minibatch", "20".to_owned()),
        ("ppo.hidden", "[16]".to_owned()),
        ("ppo.actor_learning_rate", "1e-2".to_owned()),
        ("ppo.critic_learning_rate", "1e-2".to_owned()),
    ];
    let flags = settings.map(|(key, value)| Assignment::set(key, value));
    Settings::resolve(&Environments::builtin(), &UserLayers::of_flags(flags))
        .unwrap()
        .validate()
        .unwrap()
}

fn trainer(config: &RunConfig, choir: &Choir) -> Trainer {
    let group = SharedEnvs::new(config, &|| Ok(Box::new(choir.clone()))).unwrap();
    Trainer::with_group(config, Box::new(group))
}

#[test]
fn every_agent_learns_beside_the_others() {
    let config = config(4, 8_000);
    let mut trainer = trainer(&config, &Choir::of(5));
    let (rounds, time) = trainer.round(8_000);
    assert_eq!(rounds.len(), 5);
    for round in rounds {
        assert_eq!((round.step, round.episodes, round.round_length), (8_000, 800, Some(10.0)));
        assert!(round.recent_return.unwrap() > 9.5, "{round:?}");
        assert!(round.figures.iter().all(|(_, value)| value.is_finite()), "{round:?}");
    }
    assert!(trainer.is_done());
    assert!(!time.env.is_zero() && !time.inference.is_zero() && !time.update.is_zero());
}

#[test]
fn an_agent_depends_on_its_number_and_not_on_the_others() {
    let config = config(2, 400);
    let policy = |singers: u32| {
        let mut trainer = trainer(&config, &Choir::of(singers));
        trainer.round(400);
        trainer.policies()[1].1.to_bytes()
    };
    assert_eq!(policy(2), policy(5));
}

#[test]
fn an_agent_that_fails_holds_still_and_the_others_go_on() {
    let config = config(1, 400);
    let choir = Choir { broken: Some(AgentId::new(1)), ..Choir::of(3) };
    let mut trainer = trainer(&config, &choir);
    let (rounds, _) = trainer.round(400);
    let steps: Vec<_> = rounds.iter().map(|round| round.step).collect();
    assert_eq!(steps, [400, TIME_LIMIT, 400]);
    let reason = rounds[1].stopped.as_deref().unwrap();
    assert!(reason.contains("agent-1") && reason.contains("reward"), "{reason}");
    assert!(rounds[0].stopped.is_none() && rounds[2].stopped.is_none());
    assert_eq!(choir.wrong_notes.load(Ordering::Relaxed), 0);
    let sound: Vec<_> = trainer.policies().iter().map(|(agent, _)| agent.number()).collect();
    assert_eq!(sound, [0, 2]);
}

#[test]
fn a_run_ends_when_everybody_has_failed() {
    let config = config(2, 1_000);
    let choir = Choir { broken: Some(AgentId::new(0)), ..Choir::of(1) };
    let mut trainer = trainer(&config, &choir);
    trainer.round(500);
    assert!(trainer.is_done());
    assert!(trainer.policies().is_empty());
}

#[test]
fn an_agent_that_leaves_every_copy_is_back_in_the_next_episode() {
    for num_envs in [1, 2] {
        let config = config(num_envs, 100);
        let choir = Choir { deserter: Some(AgentId::new(1)), ..Choir::of(3) };
        let mut trainer = trainer(&config, &choir);
        let (rounds, _) = trainer.round(100);
        let figures: Vec<_> =
            rounds.iter().map(|round| (round.step, round.episodes, round.round_length)).collect();
        assert_eq!(figures, [(100, 10, Some(10.0)), (50, 10, Some(5.0)), (100, 10, Some(10.0))]);
    }
}

#[test]
fn a_run_goes_on_in_the_middle_of_an_episode_bit_for_bit() {
    for (num_envs, deserter) in [(1, Some(AgentId::new(2))), (3, None)] {
        let config = config(num_envs, 300);
        let choir = Choir { deserter, broken: Some(AgentId::new(1)), ..Choir::of(4) };
        let mut unbroken = trainer(&config, &choir);
        unbroken.round(48 * num_envs as u64);
        let checkpoint = unbroken.checkpoint();
        let (expect, _) = unbroken.round(300);
        let mut resumed = trainer(&config, &choir);
        resumed.load(&checkpoint).unwrap();
        let (got, _) = resumed.round(300);
        assert_eq!(got, expect);
        assert!(resumed.checkpoint().to_bytes() == unbroken.checkpoint().to_bytes());
    }
}

fn shared_envs(config: &RunConfig) -> Result<SharedEnvs> {
    SharedEnvs::new(config, &|| Ok(config.env_factory.make_multi_agent(&config.env)?))
}

fn team(settings: &str) -> (RunConfig, SharedEnvs) {
    let flag = |setting: &str| {
        let (key, value) = setting.split_once('=').unwrap();
        Assignment::set(key, value)
    };
    let flags = settings.split_whitespace().map(flag);
    let settings =
        Settings::resolve(&Environments::builtin(), &UserLayers::of_flags(flags)).unwrap();
    let config = settings.validate().unwrap();
    let group = shared_envs(&config).unwrap();
    (config, group)
}

const SMALL: &str = "run.algorithm=simppo faas.functions=3 faas.steps=6 run.steps=600 \
                     ppo.steps_per_update=10 ppo.hidden=[8]";

#[test]
fn an_agent_that_fails_is_stopped_and_the_others_go_on() {
    let (_, mut group) = team(SMALL);
    group.advance(60, 600);
    let mut state = Snapshot::default();
    group.save(&mut state);
    let weights = "team/net/1/actor/0/weight";
    let count = state.any_f32s(weights).unwrap().len();
    state.put_f32(weights, vec![f32::NAN; count]);
    group.load(&state).unwrap();
    group.advance(120, 600);
    assert!(!group.has_stopped());
    let (rounds, _) = group.close_round();
    let steps: Vec<_> = rounds.iter().map(|round| (round.step, round.episodes)).collect();
    assert_eq!(steps, [(120, 20), (60, 10), (120, 20)]);
    let reason = rounds[1].stopped.as_deref().unwrap();
    assert!(reason.starts_with("agent-1 stopped at step 60: policy output"), "{reason}");
    let sound: Vec<u32> = group.policies().iter().map(|(agent, _)| agent.number()).collect();
    assert_eq!(sound, [0, 2]);
    let mut again = Snapshot::default();
    group.save(&mut again);
    let (_, mut resumed) = team(SMALL);
    resumed.load(&again).unwrap();
    assert_eq!(resumed.stats()[1].stopped.as_deref(), Some(reason));
}

#[test]
fn nobody_goes_on_in_a_world_that_fails() {
    // Agents come and go in two copies: a setting that is refused before it gets here.
    let (mut config, _) = team(&format!("{SMALL} faas.churn=0.5"));
    config.team.as_mut().unwrap().method.num_envs = 2;
    let mut group = shared_envs(&config).unwrap();
    group.advance(600, 600);
    assert!(group.has_stopped());
    let (rounds, _) = group.close_round();
    let reason = rounds.iter().rev().find_map(|round| round.stopped.as_deref()).unwrap();
    assert!(reason.contains("use num_envs = 1"), "{reason}");
}
