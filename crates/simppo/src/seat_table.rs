//! The step that agents of one environment take together: actions in, then observations, the
//! virtual agent and rewards out. Training runs one table for each copy of the environment; a
//! coordinator runs one for agents on a network.

use homeostat_core::{AgentId, Snapshot};
use homeostat_env::{Action, MultiAgentEnv, ServiceTotals};

use crate::outlook::{self, AgentGroup, StateLayout};
use crate::turns::TurnQueue;
use crate::{Method, Order, Result, TaskType};

/// What stays the same for all copies of the environment.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) method: Method,
    pub(crate) layout: StateLayout,
    /// Figures of a state.
    pub(crate) width: usize,
    /// Figures that critics see beyond.
    pub(crate) extra: usize,
    /// The type of each task.
    pub(crate) task_types: Vec<TaskType>,
    /// Agents that a sum is measured against.
    pub(crate) per: f64,
    pub(crate) hold: Action,
}

impl Rules {
    fn task_type_of(&self, env: &dyn MultiAgentEnv, agent: AgentId) -> TaskType {
        let task = env.task(agent).unwrap_or(0);
        self.task_types.get(task).copied().unwrap_or(TaskType::Cpu)
    }

    /// Agents of one copy, row by row.
    fn group<'a>(
        &self,
        states: &'a [f32],
        actions: &'a [Action],
        task_types: &'a [TaskType],
    ) -> AgentGroup<'a> {
        let Self { layout, width, per, .. } = *self;
        AgentGroup { layout, states, width, actions, task_types, per }
    }
}

/// What one copy of the environment hands to its agents and takes from them. Rows follow the order
/// of the agents. It is apart from the environment, so that all learners may read it at once.
pub(crate) struct SeatTable {
    /// The living agents, and their observations now.
    pub(crate) agents: Vec<AgentId>,
    pub(crate) task_types: Vec<TaskType>,
    states: Vec<f32>,
    seen: Vec<f32>,
    pub(crate) actions: Vec<Action>,
    /// Whose turn it is, where agents take turns.
    turn: Option<usize>,
    queue: TurnQueue<AgentId>,
    /// What the last step led to, in the order of those who acted.
    pub(crate) last: Vec<LastStep>,
    last_states: Vec<f32>,
    last_seen: Vec<f32>,
    /// Whether an agent came, went, or began an episode in the last step.
    pub(crate) has_changed: bool,
    /// Whether the last step ended the episode of all.
    begins: bool,
    pub(crate) failure: Option<crate::Error>,
}

/// What one agent had of the last step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastStep {
    pub(crate) agent: AgentId,
    /// The environment's reward.
    pub(crate) own: f64,
    /// Its reward after sharing, which it learns from.
    pub(crate) shared: f64,
    pub(crate) terminated: bool,
    pub(crate) truncated: bool,
    /// Requests and containers, where the environment has them.
    pub(crate) service: ServiceTotals,
}

impl SeatTable {
    /// The table of an environment that was just reset.
    pub(crate) fn new(env: &dyn MultiAgentEnv, rules: &Rules) -> Self {
        let mut this = Self {
            agents: Vec::new(),
            task_types: Vec::new(),
            states: Vec::new(),
            seen: Vec::new(),
            actions: Vec::new(),
            turn: None,
            queue: TurnQueue::default(),
            last: Vec::new(),
            last_states: Vec::new(),
            last_seen: Vec::new(),
            has_changed: true,
            begins: true,
            failure: None,
        };
        this.observe(env, rules, true);
        this
    }

    /// Whether the last step ended the episode of all.
    pub(crate) fn begins(&self) -> bool {
        self.begins
    }

    pub(crate) fn bytes(&self) -> usize {
        let floats = [&self.states, &self.seen, &self.last_states, &self.last_seen];
        let floats: usize = floats.into_iter().map(Vec::len).sum();
        floats * size_of::<f32>() + self.actions.len() * size_of::<Action>()
    }

    /// Whether the agent at this place chooses now.
    pub(crate) fn is_turn_of(&self, place: usize) -> bool {
        self.turn.is_none_or(|turn| turn == place)
    }

    /// What the critic of the agent at this place sees now.
    pub(crate) fn row(&self, place: usize, rules: &Rules, out: &mut Vec<f32>) {
        out.extend_from_slice(&self.states[place * rules.width..][..rules.width]);
        out.extend_from_slice(&self.seen[place * rules.extra..][..rules.extra]);
    }

    /// What it saw at the end of the last step.
    pub(crate) fn last_row(&self, place: usize, rules: &Rules, out: &mut Vec<f32>) {
        out.extend_from_slice(&self.last_states[place * rules.width..][..rules.width]);
        out.extend_from_slice(&self.last_seen[place * rules.extra..][..rules.extra]);
    }

    /// Every seat holds, until an action is put in its place.
    pub(crate) fn hold(&mut self, rules: &Rules) {
        self.actions.iter_mut().for_each(|action| action.clone_from(&rules.hold));
    }

    /// Plays one step; an ended episode is followed by the next in the same step.
    pub(crate) fn play(&mut self, env: &mut dyn MultiAgentEnv, rules: &Rules) {
        self.failure = self.try_play(env, rules).err();
    }

    fn try_play(&mut self, env: &mut dyn MultiAgentEnv, rules: &Rules) -> Result<()> {
        let step = env.step(&self.actions)?;
        self.has_changed = !step.joined.is_empty();
        self.last.clear();
        self.last_states.clear();
        for agent in step.agents {
            self.has_changed |= agent.terminated || agent.truncated;
            self.last.push(LastStep {
                agent: agent.agent,
                own: agent.reward,
                shared: agent.reward,
                terminated: agent.terminated,
                truncated: agent.truncated,
                service: ServiceTotals::default(),
            });
            self.last_states.extend_from_slice(&agent.obs);
        }
        // Before a reset: it begins another episode.
        for last in &mut self.last {
            last.service = ServiceTotals::of_info(&env.info(last.agent));
        }
        let mut rewards: Vec<f64> = self.last.iter().map(|last| last.own).collect();
        outlook::share_rewards(rules.method.reward_sharing, &mut rewards);
        for (last, shared) in self.last.iter_mut().zip(rewards) {
            last.shared = shared;
        }
        let group = rules.group(&self.last_states, &self.actions, &self.task_types);
        group.observe_others(rules.method.critic_input, &mut self.last_seen);
        let turn = self.turn.map(|place| (place, self.agents[place]));
        self.begins = env.agents().is_empty();
        if self.begins {
            env.reset(None)?;
        }
        if self.has_changed {
            self.observe(env, rules, self.begins);
        } else {
            // No agent left: the last observations of the step are the present ones.
            self.states.clone_from(&self.last_states);
            self.seen.clone_from(&self.last_seen);
            self.take_turns(rules);
        }
        // An agent whose turn is over bootstraps from its next state. Places move when an agent
        // leaves, so the turn is found by agent.
        let next = self.turn.map(|place| self.agents[place]);
        if let Some((place, _)) = turn.filter(|(_, agent)| next != Some(*agent)) {
            self.last[place].truncated |= !self.last[place].terminated;
        }
        Ok(())
    }

    /// Reads the living agents and their observations.
    fn observe(&mut self, env: &dyn MultiAgentEnv, rules: &Rules, begins: bool) {
        let before = std::mem::take(&mut self.agents);
        let held = std::mem::take(&mut self.actions);
        self.agents = env.agents().to_vec();
        self.task_types.clear();
        self.states.clear();
        for agent in &self.agents {
            self.task_types.push(rules.task_type_of(env, *agent));
            let obs = env.observation(*agent).expect("a living agent has an observation");
            self.states.extend_from_slice(obs);
            // The last action is part of the picture, except at the beginning of an episode.
            let place = before.binary_search(agent).ok().filter(|_| !begins);
            self.actions.push(place.map_or_else(|| rules.hold.clone(), |k| held[k].clone()));
        }
        let group = rules.group(&self.states, &self.actions, &self.task_types);
        group.observe_others(rules.method.critic_input, &mut self.seen);
        self.take_turns(rules);
    }

    fn take_turns(&mut self, rules: &Rules) {
        if rules.method.order == Order::Together {
            return;
        }
        let rows = self.states.chunks_exact(rules.width);
        let kept: Vec<f32> = rows.map(|state| rules.layout.preservation(state)).collect();
        self.turn = self.queue.next(&self.agents, &kept);
    }

    pub(crate) fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_f32(&format!("{name}/seen"), self.seen.as_slice());
        let served = self.queue.served().iter().map(|agent| u64::from(agent.number()));
        out.put_u64(&format!("{name}/served"), served.collect::<Vec<_>>());
    }

    /// Restores what [`SeatTable::save`] wrote, after the environment was restored.
    pub(crate) fn load(
        &mut self,
        env: &dyn MultiAgentEnv,
        rules: &Rules,
        name: &str,
        from: &Snapshot,
    ) -> homeostat_core::Result<()> {
        self.observe(env, rules, true);
        // It depends on the actions before, which nothing else needs.
        from.copy_f32s(&format!("{name}/seen"), &mut self.seen)?;
        let served = from.any_u64s(&format!("{name}/served"))?.iter();
        let served: Vec<_> = served.map(|number| AgentId::new(*number as u32)).collect();
        // The agent that was served last is the one whose turn it is.
        self.turn = served.last().and_then(|agent| self.agents.binary_search(agent).ok());
        self.queue.restore(served);
        Ok(())
    }
}
