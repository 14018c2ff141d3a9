//! The shared platform that a coordinator hosts: one environment, and the step that its agents
//! take together.

use homeostat_core::{AgentId, Snapshot};
use homeostat_env::{Action, MultiAgentEnv, Task};

use crate::coordination::{Seat, SeatObservation, StepOutcome};
use crate::outlook::{StateLayout, width_of};
use crate::seat_table::{Rules, SeatTable};
use crate::training::env_seeds;
use crate::{Error, Method, Refusal, RefusalKind, Result};

/// One environment, with the same step as in training.
pub(super) struct Platform {
    env: Box<dyn MultiAgentEnv>,
    rules: Rules,
    table: SeatTable,
    seats: Vec<AgentId>,
    /// The function of each seat.
    functions: Vec<String>,
    /// Steps that were played.
    pub(super) step: u64,
    /// Why no step can be played any more.
    pub(super) failure: Option<Error>,
}

impl Platform {
    /// A platform at the beginning of its first episode.
    pub(super) fn new(mut env: Box<dyn MultiAgentEnv>, tasks: &[Task], seed: u64) -> Result<Self> {
        env.reset(Some(env_seeds(seed, Some(0)).seed("lane/0")))?;
        let seats = env.agents().to_vec();
        if env.possible_agents() != Some(&seats) || seats.is_empty() {
            return Err(Error::Setting {
                setting: "the environment",
                need: "one with a fixed set of agents".to_owned(),
                value: format!("{}, whose agents come and go", env.spec().id),
            });
        }
        let spec = env.spec();
        let method = Method::default();
        let width = spec.observation.len();
        let rules = Rules {
            layout: StateLayout::of(spec),
            width,
            extra: width_of(method.critic_input, width),
            task_types: tasks.iter().map(|task| task.task_type).collect(),
            per: seats.len().max(2) as f64 - 1.0,
            hold: spec.action.hold(),
            method,
        };
        let function_of = |seat: &AgentId| {
            let task = env.task(*seat).and_then(|task| tasks.get(task));
            task.map_or_else(|| seat.to_string(), |task| task.name.clone())
        };
        let functions = seats.iter().map(function_of).collect();
        let table = SeatTable::new(env.as_ref(), &rules);
        Ok(Self { rules, table, functions, seats, step: 0, failure: None, env })
    }

    pub(super) fn env_id(&self) -> String {
        self.env.spec().id.to_string()
    }

    /// All seats with their functions.
    pub(super) fn seats(&self) -> impl Iterator<Item = (AgentId, &str)> {
        self.seats.iter().copied().zip(self.functions.iter().map(String::as_str))
    }

    pub(super) fn seat_count(&self) -> usize {
        self.seats.len()
    }

    pub(super) fn seat(&self, agent: AgentId) -> Option<Seat> {
        let index = self.seats.binary_search(&agent).ok()?;
        Some(Seat { agent, function: self.functions[index].clone() })
    }

    /// Refuses what is no action of the platform.
    pub(super) fn check(&self, action: &Action) -> Result<(), Refusal> {
        let spec = self.env.spec();
        let Err(error) = spec.require_action(action) else { return Ok(()) };
        let is_finite = match action {
            Action::Continuous(values) => values.iter().all(|value| value.is_finite()),
            Action::Discrete(_) | Action::MultiDiscrete(_) => true,
        };
        let kind = if is_finite { RefusalKind::UnknownAction } else { RefusalKind::NotFinite };
        Err(Refusal::new(kind, error.to_string()))
    }

    /// What a seat sees now; nothing if its function is not there at the moment.
    pub(super) fn observation(&self, seat: AgentId) -> Option<SeatObservation> {
        let place = self.table.agents.binary_search(&seat).ok()?;
        let mut state = Vec::new();
        self.table.row(place, &self.rules, &mut state);
        let others = state.split_off(self.rules.width);
        Some(SeatObservation { step: self.step, state, others })
    }

    /// What the last step led to for a seat that acted in it.
    pub(super) fn outcome(&self, seat: AgentId, members: usize) -> Option<StepOutcome> {
        let place = self.table.last.binary_search_by_key(&seat, |last| last.agent).ok()?;
        let last = &self.table.last[place];
        let mut state = Vec::new();
        self.table.last_row(place, &self.rules, &mut state);
        let others = state.split_off(self.rules.width);
        Some(StepOutcome {
            reward: last.own,
            team_reward: last.shared,
            members,
            terminated: last.terminated,
            truncated: last.truncated,
            state,
            others,
            next: self.observation(seat),
        })
    }

    /// The mean reward of the last step.
    pub(super) fn team_reward(&self) -> Option<f64> {
        self.table.last.first().map(|last| last.shared)
    }

    /// Plays one step; a seat without an action holds.
    pub(super) fn play(&mut self, actions: impl Iterator<Item = (AgentId, Action)>) {
        self.table.hold(&self.rules);
        for (seat, action) in actions {
            if let Ok(place) = self.table.agents.binary_search(&seat) {
                self.table.actions[place] = action;
            }
        }
        self.table.play(self.env.as_mut(), &self.rules);
        self.failure = self.table.failure.take();
        self.step += 1;
    }

    pub(super) fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_u8(&format!("{name}/id"), self.env_id().into_bytes());
        out.put_u64(&format!("{name}/step"), [self.step]);
        self.env.save(&format!("{name}/env"), out);
        self.table.save(&format!("{name}/table"), out);
    }

    pub(super) fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        let id = String::from_utf8_lossy(from.any_u8s(&format!("{name}/id"))?).into_owned();
        if id != self.env_id() {
            return Err(homeostat_core::Error::SnapshotMismatch {
                name: format!("{name}/id"),
                found: id,
                expected: self.env_id(),
            });
        }
        self.step = from.u64s(&format!("{name}/step"), 1)?[0];
        self.env.load(&format!("{name}/env"), from)?;
        self.table.load(self.env.as_ref(), &self.rules, &format!("{name}/table"), from)
    }
}
