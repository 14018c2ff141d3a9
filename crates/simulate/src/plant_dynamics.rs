//! A plant with one target as an environment: what an autoscaler observes and sets in each window,
//! a learner does too.

use homeostat_core::{ControlSchema, Persist, Result as CoreResult, Snapshot, Stream};
use homeostat_decide::{
    AllocationBounds, Features, Guards, RewardPreset, ScalingAction, SimulatedPlant,
};
use homeostat_env::{Action, Card, Dynamics, EnvSpec, Field, Outcome, Space};

/// What an environment says of itself.
#[derive(Debug, Clone)]
pub struct PlantCard {
    /// The environment's id.
    pub id: &'static str,
    /// One sentence about it.
    pub summary: &'static str,
    /// Windows of an episode.
    pub steps: u32,
    /// What a window is worth.
    pub reward: RewardPreset,
}

/// The dynamics of an environment around a plant's only target. Actions pass through
/// [`decide()`](homeostat_decide::decide()), as those of every autoscaler do.
pub struct PlantDynamics<P> {
    card: PlantCard,
    make: Box<dyn Fn(Stream) -> P + Send>,
    plant: P,
    guards: Guards,
    features: Features,
    obs: [f32; Features::COUNT],
    last_action: ScalingAction,
}

impl<P: SimulatedPlant> PlantDynamics<P> {
    /// An environment of plants that `make` makes, each with random numbers of its own.
    pub fn new(
        card: PlantCard,
        make: impl Fn(Stream) -> P + Send + 'static,
    ) -> homeostat_decide::Result<Self> {
        let plant = make(Stream::from_seed(0));
        let bounds: AllocationBounds = *plant.bounds();
        let mut features = Features::new(bounds);
        Ok(Self {
            obs: features.observe(plant.observe(0)),
            guards: Guards::bounds_only(bounds)?,
            last_action: ScalingAction::Hold,
            make: Box::new(make),
            card,
            features,
            plant,
        })
    }
}

impl<P: SimulatedPlant + Persist + Send> Dynamics for PlantDynamics<P> {
    fn spec(&self) -> EnvSpec {
        let (low, high) = Features::RANGES.into_iter().unzip();
        let field = |name: &str, meaning: &str| Field {
            name: name.to_owned().into(),
            meaning: meaning.to_owned().into(),
        };
        let (features, action) = (Features::schema(), ScalingAction::schema());
        let observation = features.features.iter().map(|one| field(&one.name, &one.meaning));
        let choices = action.parts.iter().map(|one| field(&one.name, &one.meaning));
        EnvSpec {
            id: self.card.id.parse().expect("the id is well-formed"),
            observation: Space::Box { low, high },
            action: Space::Discrete(ScalingAction::ALL.len()),
            time_limit: Some(self.card.steps),
            card: Card {
                summary: self.card.summary,
                observation: observation.collect(),
                action: choices.collect(),
                reward: "of the window, less a penalty for an action that the target cannot take \
                         or that undoes the one before",
                termination: "when the plant refuses a decision or cannot go on",
                source: "a plant of this program",
            },
            control: Some(
                ControlSchema { features, action, bounds: self.plant.bounds().fields() }.into(),
            ),
        }
    }

    fn reset(&mut self, rng: &mut Stream) {
        self.plant = (self.make)(Stream::from_seed(rng.next_u64()));
        let bounds = *self.plant.bounds();
        self.features = Features::new(bounds);
        self.guards = Guards::bounds_only(bounds).expect("accepted when this was made");
        self.obs = self.features.observe(self.plant.observe(0));
        self.last_action = ScalingAction::Hold;
    }

    fn step(&mut self, action: &Action, _rng: &mut Stream) -> Outcome {
        let action = action.discrete().and_then(ScalingAction::from_index);
        let action = action.unwrap_or(ScalingAction::Hold);
        let taken = action.take(&mut self.plant, 0, &mut self.guards, self.last_action);
        self.last_action = action;
        let terminated = taken.is_err() || self.plant.advance().is_err();
        let penalty = taken.unwrap_or(0.0);
        self.obs = self.features.observe(self.plant.observe(0));
        let reward =
            self.card.reward.of(&self.obs, self.plant.observe(0), self.plant.bounds()) - penalty;
        Outcome { reward, terminated }
    }

    fn observe(&self, obs: &mut [f32]) {
        obs.copy_from_slice(&self.obs);
    }

    fn render(&self) -> String {
        let seen = self.plant.observe(0);
        let latency = seen.latency.map_or_else(|| "-".to_owned(), |latency| latency.to_string());
        format!("{}: {}, latency {latency}", self.plant.name(0), seen.allocation)
    }
}

impl<P: SimulatedPlant + Persist + Send> Persist for PlantDynamics<P> {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.plant.save(&format!("{name}/plant"), out);
        self.guards.save(&format!("{name}/guards"), out);
        self.features.save(&format!("{name}/features"), out);
        out.put_f32(&format!("{name}/obs"), self.obs);
        out.put_u64(&format!("{name}/last_action"), [self.last_action.index() as u64]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.plant.load(&format!("{name}/plant"), from)?;
        self.guards.load(&format!("{name}/guards"), from)?;
        self.features.load(&format!("{name}/features"), from)?;
        from.copy_f32s(&format!("{name}/obs"), &mut self.obs)?;
        let last = from.u64s(&format!("{name}/last_action"), 1)?[0];
        self.last_action = ScalingAction::from_index(last as usize).unwrap_or(ScalingAction::Hold);
        Ok(())
    }
}
