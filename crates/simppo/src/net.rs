//! A learner and the seats that it plays for.

use homeostat_core::{AgentId, SeedTree, Snapshot};
use homeostat_env::{Action, EnvSpec};
use homeostat_rl::{AgentContext, Learner, Outcome, Policy, Ppo, PpoConfig, Workspace};

use crate::seat_table::{Rules, SeatTable};
use crate::{Error, Learners, Result, TaskType};

/// One learner and the seats that it plays for.
pub(crate) struct Net {
    learner: SeatLearner,
    pub(crate) origin: Origin,
    pub(crate) seats: Vec<Seat>,
    /// Scratch of a step: the seats that choose, their rows and actions.
    pub(crate) chosen: Vec<usize>,
    pub(crate) actions: Vec<Action>,
    rows: Vec<usize>,
    obs: Vec<f32>,
    /// Steps in which it had a seat, those of all copies together.
    step: u64,
    /// Figures of an update in the last step.
    pub(crate) learned: Option<Vec<(&'static str, f64)>>,
    /// Why it learns no more.
    pub(crate) stopped: Option<String>,
}

/// What chooses and learns.
enum SeatLearner {
    /// Plays for seats that come and go, of one agent or of several.
    Coordinated(Box<Ppo>),
    /// Plays for one agent, with one seat in each copy of the environment.
    Independent(Box<dyn Learner>),
}

/// What a learner was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Its first agent, which its errors name.
    pub(crate) agent: AgentId,
    /// The task type of that agent, and of all the others where networks are shared by type.
    pub(crate) task_type: TaskType,
    /// How many times the minibatch of one agent in one environment it takes.
    pub(crate) rows: usize,
}

/// One agent of a learner in one copy of the environment.
pub(crate) struct Seat {
    pub(crate) env: usize,
    pub(crate) place: usize,
    /// Which row of the learner it fills.
    pub(crate) row: usize,
}

/// What all learners of a training have in common.
pub(crate) struct Form<'a> {
    pub(crate) learners: &'a Learners,
    pub(crate) spec: &'a EnvSpec,
    /// Figures that critics see beyond an observation.
    pub(crate) extra: usize,
}

impl Net {
    /// A fresh learner without a seat.
    pub(crate) fn new(form: &Form<'_>, origin: Origin, seeds: SeedTree) -> Result<Self> {
        let context = AgentContext { agent: origin.agent, spec: form.spec.clone(), seeds };
        let learner = match form.learners {
            Learners::Coordinated { ppo, .. } => {
                let config = PpoConfig {
                    num_envs: 1,
                    minibatch: ppo.minibatch * origin.rows,
                    ..ppo.clone()
                };
                let mut ppo = Ppo::with_critic_extra(&config, &context, form.extra)?;
                // Agents open the rows they need.
                ppo.remove_env(0);
                SeatLearner::Coordinated(Box::new(ppo))
            }
            Learners::Independent(algorithm) => {
                SeatLearner::Independent(algorithm.build(&context)?)
            }
        };
        Ok(Self {
            learner,
            origin,
            seats: Vec::new(),
            chosen: Vec::new(),
            actions: Vec::new(),
            rows: Vec::new(),
            obs: Vec::new(),
            step: 0,
            learned: None,
            stopped: None,
        })
    }

    /// The networks, where the learner's agents may share weights with others.
    pub(crate) fn ppo(&self) -> Option<&Ppo> {
        match &self.learner {
            SeatLearner::Coordinated(ppo) => Some(ppo),
            SeatLearner::Independent(_) => None,
        }
    }

    pub(crate) fn ppo_mut(&mut self) -> Option<&mut Ppo> {
        match &mut self.learner {
            SeatLearner::Coordinated(ppo) => Some(ppo),
            SeatLearner::Independent(_) => None,
        }
    }

    fn learner(&self) -> &dyn Learner {
        match &self.learner {
            SeatLearner::Coordinated(ppo) => ppo.as_ref(),
            SeatLearner::Independent(learner) => learner.as_ref(),
        }
    }

    fn learner_mut(&mut self) -> &mut dyn Learner {
        match &mut self.learner {
            SeatLearner::Coordinated(ppo) => ppo.as_mut(),
            SeatLearner::Independent(learner) => learner.as_mut(),
        }
    }

    /// Rows for an agent, one in each copy of the environment.
    pub(crate) fn open_rows(&mut self, envs: usize) -> Vec<usize> {
        match self.ppo_mut() {
            Some(ppo) => (0..envs).map(|_| ppo.add_env()).collect(),
            None => (0..envs).collect(),
        }
    }

    /// Gives back the rows of an agent that left for good.
    pub(crate) fn close_rows(&mut self, rows: &[usize]) {
        if let Some(ppo) = self.ppo_mut() {
            rows.iter().for_each(|row| ppo.remove_env(*row));
        }
    }

    /// Rows that it has, open or not.
    pub(crate) fn rows(&self) -> usize {
        self.learner().num_envs()
    }

    pub(crate) fn policy(&self) -> Policy {
        self.learner().policy()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.learner().bytes()
    }

    /// Chooses for every seat whose turn it is.
    pub(crate) fn choose(
        &mut self,
        tables: &[SeatTable],
        rules: &Rules,
        workspace: &mut Workspace,
    ) {
        self.chosen.clear();
        self.rows.clear();
        self.obs.clear();
        if self.stopped.is_some() {
            return;
        }
        for (number, seat) in self.seats.iter().enumerate() {
            if tables[seat.env].is_turn_of(seat.place) {
                self.chosen.push(number);
                self.rows.push(seat.row);
                tables[seat.env].row(seat.place, rules, &mut self.obs);
            }
        }
        self.actions.resize(self.chosen.len(), rules.hold.clone());
        if self.chosen.is_empty() {
            return;
        }
        let Self { learner, rows, obs, actions, .. } = self;
        let chosen = match learner {
            SeatLearner::Coordinated(ppo) => ppo.act_in(rows, obs, actions, workspace),
            SeatLearner::Independent(learner) => learner.act(obs, actions, workspace),
        };
        self.stop_on(chosen.map_err(Error::from));
    }

    /// Records the outcome of its choices.
    pub(crate) fn take_in(
        &mut self,
        tables: &[SeatTable],
        rules: &Rules,
        workspace: &mut Workspace,
    ) {
        self.learned = None;
        if self.stopped.is_none() {
            let taken = self.try_take_in(tables, rules, workspace);
            self.stop_on(taken);
        }
        if self.stopped.is_none() && !self.seats.is_empty() {
            self.step += tables.len() as u64;
        }
    }

    fn try_take_in(
        &mut self,
        tables: &[SeatTable],
        rules: &Rules,
        workspace: &mut Workspace,
    ) -> Result<()> {
        for index in 0..self.chosen.len() {
            let Seat { env, place, row } = self.seats[self.chosen[index]];
            let last = &tables[env].last[place];
            let mut obs = std::mem::take(&mut self.obs);
            obs.clear();
            tables[env].last_row(place, rules, &mut obs);
            let outcome = Outcome {
                reward: last.shared,
                terminated: last.terminated,
                truncated: last.truncated,
                next_obs: &obs,
            };
            let recorded = self.learner_mut().record(row, outcome, workspace);
            self.obs = obs;
            recorded?;
        }
        Ok(())
    }

    /// Whether [`Net::learn`] may have something to do.
    pub(crate) fn is_due(&self) -> bool {
        self.stopped.is_none() && self.learner().is_due()
    }

    /// Learns, if it has seen enough. Schedules follow its own steps: those of a newcomer begin
    /// with it.
    pub(crate) fn learn(&mut self, total_steps: u64, workspace: &mut Workspace) {
        let progress = (self.step as f64 / total_steps.max(1) as f64).min(1.0);
        match self.learner_mut().learn(progress, workspace) {
            Ok(learned) => self.learned = learned.map(|learned| learned.figures),
            Err(error) => self.stop_on(Err(error.into())),
        }
    }

    fn stop_on(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.stopped = Some(error.to_string());
        }
    }

    pub(crate) fn save(&self, name: &str, out: &mut Snapshot) {
        let Origin { agent, task_type, rows } = self.origin;
        out.put_u64(
            &format!("{name}/origin"),
            [u64::from(agent.number()), task_type as u64, rows as u64, self.step],
        );
        let stopped = self.stopped.as_deref().unwrap_or_default();
        out.put_u8(&format!("{name}/stopped"), stopped.as_bytes());
        self.learner().save(name, out);
    }

    /// What [`Net::save`] wrote.
    pub(crate) fn load(form: &Form<'_>, name: &str, from: &Snapshot) -> Result<Self> {
        let origin = from.u64s(&format!("{name}/origin"), 4)?;
        let step = origin[3];
        let origin = Origin {
            agent: AgentId::new(origin[0] as u32),
            task_type: TaskType::from_index(origin[1]),
            rows: origin[2] as usize,
        };
        // Every stream is restored below.
        let mut this = Self { step, ..Self::new(form, origin, SeedTree::new(0))? };
        this.learner_mut().load(name, from)?;
        let stopped = String::from_utf8_lossy(from.any_u8s(&format!("{name}/stopped"))?);
        this.stopped = (!stopped.is_empty()).then(|| stopped.into_owned());
        Ok(this)
    }
}
