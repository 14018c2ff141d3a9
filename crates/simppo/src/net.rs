//! A pair of networks and the agents that it plays for.

use homeostat_core::{AgentId, Persist, SeedTree, Snapshot};
use homeostat_env::{Action, EnvSpec};
use homeostat_rl::{AgentContext, Learner, Outcome, Ppo, PpoConfig, Workspace};

use crate::lane::{Lane, Rules};
use crate::{Error, Result, TaskType};

/// One pair of networks and those it plays for.
pub(crate) struct Net {
    pub(crate) ppo: Ppo,
    pub(crate) origin: Origin,
    pub(crate) seats: Vec<Seat>,
    /// Scratch of a step: who chooses, what they see, what they do.
    pub(crate) chosen: Vec<usize>,
    pub(crate) actions: Vec<Action>,
    ppo_lanes: Vec<usize>,
    obs: Vec<f32>,
    /// Figures of an update in the last step.
    pub(crate) learned: Option<Vec<(&'static str, f64)>>,
    /// Why it learns no more.
    pub(crate) stopped: Option<String>,
}

/// What a pair of networks was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Its first agent, which its errors name.
    pub(crate) agent: AgentId,
    /// The kind of that agent, and of all the others where networks are shared by kind.
    pub(crate) kind: TaskType,
    /// How many times the minibatch of one agent in one world it takes.
    pub(crate) rows: usize,
}

/// One agent of a network in one copy of the world.
pub(crate) struct Seat {
    pub(crate) world: usize,
    pub(crate) place: usize,
    pub(crate) ppo_lane: usize,
}

/// What all networks of a team have in common.
pub(crate) struct Form<'a> {
    pub(crate) ppo: &'a PpoConfig,
    pub(crate) spec: &'a EnvSpec,
    /// Figures that critics see beyond a state.
    pub(crate) extra: usize,
}

impl Net {
    /// Fresh networks that play for nobody yet.
    pub(crate) fn new(form: &Form<'_>, origin: Origin, seeds: SeedTree) -> Result<Self> {
        let config = PpoConfig {
            num_envs: 1,
            minibatch: form.ppo.minibatch * origin.rows,
            ..form.ppo.clone()
        };
        let context = AgentContext { agent: origin.agent, spec: form.spec.clone(), seeds };
        let mut ppo = Ppo::with_critic_extra(&config, &context, form.extra)?;
        // Agents open the lanes they need.
        ppo.close_lane(0);
        Ok(Self {
            ppo,
            origin,
            seats: Vec::new(),
            chosen: Vec::new(),
            actions: Vec::new(),
            ppo_lanes: Vec::new(),
            obs: Vec::new(),
            learned: None,
            stopped: None,
        })
    }

    /// Chooses for all whose turn it is.
    pub(crate) fn choose(&mut self, lanes: &[Lane], rules: &Rules, workspace: &mut Workspace) {
        self.chosen.clear();
        self.ppo_lanes.clear();
        self.obs.clear();
        if self.stopped.is_some() {
            return;
        }
        for (number, seat) in self.seats.iter().enumerate() {
            if lanes[seat.world].is_turn_of(seat.place) {
                self.chosen.push(number);
                self.ppo_lanes.push(seat.ppo_lane);
                lanes[seat.world].row(seat.place, rules, &mut self.obs);
            }
        }
        self.actions.resize(self.chosen.len(), rules.hold.clone());
        if self.chosen.is_empty() {
            return;
        }
        let chosen = self.ppo.act_in(&self.ppo_lanes, &self.obs, &mut self.actions, workspace);
        self.stop_on(chosen.map_err(Error::from));
    }

    /// Takes in what came of its choices.
    pub(crate) fn take_in(&mut self, lanes: &[Lane], rules: &Rules, workspace: &mut Workspace) {
        self.learned = None;
        if self.stopped.is_none() {
            let taken = self.try_take_in(lanes, rules, workspace);
            self.stop_on(taken);
        }
    }

    fn try_take_in(
        &mut self,
        lanes: &[Lane],
        rules: &Rules,
        workspace: &mut Workspace,
    ) -> Result<()> {
        for number in &self.chosen {
            let Seat { world, place, ppo_lane } = self.seats[*number];
            let last = &lanes[world].last[place];
            self.obs.clear();
            lanes[world].last_row(place, rules, &mut self.obs);
            let outcome = Outcome {
                reward: last.paid,
                terminated: last.terminated,
                truncated: last.truncated,
                next_obs: &self.obs,
            };
            self.ppo.record(ppo_lane, outcome, workspace)?;
        }
        Ok(())
    }

    /// Learns, if it has seen enough.
    pub(crate) fn learn(&mut self, progress: f64, workspace: &mut Workspace) {
        match self.ppo.learn(progress, workspace) {
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
        let Origin { agent, kind, rows } = self.origin;
        out.put_u64(
            &format!("{name}/origin"),
            [u64::from(agent.number()), kind as u64, rows as u64],
        );
        let stopped = self.stopped.as_deref().unwrap_or_default();
        out.put_u8(&format!("{name}/stopped"), stopped.as_bytes());
        self.ppo.save(name, out);
    }

    /// What [`Net::save`] wrote.
    pub(crate) fn load(form: &Form<'_>, name: &str, from: &Snapshot) -> Result<Self> {
        let origin = from.u64s(&format!("{name}/origin"), 3)?;
        let origin = Origin {
            agent: AgentId::new(origin[0] as u32),
            kind: TaskType::from_index(origin[1]),
            rows: origin[2] as usize,
        };
        // Every stream is restored below.
        let mut this = Self::new(form, origin, SeedTree::new(0))?;
        this.ppo.load(name, from)?;
        let stopped = String::from_utf8_lossy(from.any_u8s(&format!("{name}/stopped"))?);
        this.stopped = (!stopped.is_empty()).then(|| stopped.into_owned());
        Ok(this)
    }
}
