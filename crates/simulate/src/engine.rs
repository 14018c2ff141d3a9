//! A simulated system and its controllers, played window by window.

use std::borrow::Cow;
use std::sync::Arc;

use homeostat_core::{SeedTree, SimDuration};
use homeostat_decide::{
    AllocationBounds, Decision, Features, Guards, PlantSource, Policy, ScaledBy, SimulatedPlant,
    TargetWindow, TeamMember, TeamSnapshot, TeamState, decide,
};
use homeostat_lab::Result;
use homeostat_simppo::TurnQueue;

use super::controllers::{Controllers, OutOfTurn};
use super::outcome::{Figures, FunctionOutcome, SimulationOutcome, WindowMeans};

/// A system and the policies that control it.
///
/// Ten minutes of the serverless platform under the Horizontal Pod Autoscaler:
///
/// ```
/// use std::sync::Arc;
///
/// use homeostat_core::SimDuration;
/// use homeostat_rl::Sampling;
/// use homeostat_sim_faas::FaasConfig;
/// use homeostat_simulate::{Controllers, Scenario, Simulation};
///
/// # fn main() -> homeostat_lab::Result<()> {
/// let simulation = Simulation {
///     system: Arc::new(FaasConfig::default().build()?),
///     scenario: Scenario::Together,
///     controllers: Controllers::parse("hpa", Sampling::Greedy)?,
///     duration: SimDuration::from_secs(600),
/// };
/// let mut decisions = 0;
/// let outcome = simulation.run(1, &mut |window| {
///     // Every window ends with a decision and its reasons.
///     assert!(!window.decision.reasons().is_empty());
///     decisions += 1;
///     Ok(())
/// })?;
/// assert_eq!(decisions, simulation.windows() * outcome.functions.len() as u64);
/// assert!((0.0..=1.0).contains(&outcome.total.slo_violation_ratio));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Simulation {
    /// The system, its targets and their load.
    pub system: Arc<dyn PlantSource>,
    /// Whether its targets share it.
    pub scenario: Scenario,
    /// The policies that control them.
    pub controllers: Controllers,
    /// Simulated time, rounded up to whole windows.
    pub duration: SimDuration,
}

/// Whether targets share a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// All targets in one.
    Together,
    /// Each target in one of its own.
    Alone,
}

/// One window of one target, with the decision at its end.
#[derive(Debug)]
pub struct WindowRecord<'a> {
    /// The target's number.
    pub function: usize,
    /// Its name.
    pub name: &'a str,
    /// What truly happened.
    pub window: &'a TargetWindow,
    /// What its controller decided.
    pub decision: &'a Decision,
    /// The features that a learned policy reads of this window.
    pub features: &'a [f32; Features::COUNT],
    /// The reward of this window, which follows from the decision before.
    pub reward: f64,
    /// The bounds of every target.
    pub bounds: &'a AllocationBounds,
}

/// One target under control.
struct Controlled {
    /// Number over all plants of the simulation.
    number: usize,
    policy: Box<dyn Policy>,
    guards: Guards,
    features: Features,
    /// What the others of its team see of it.
    member: TeamMember,
    means: WindowMeans,
    /// Decisions that the system had no room for.
    ungranted: u64,
}

impl Simulation {
    /// Plays one seed. `record` is called with every window; its error ends the run.
    pub fn run(
        &self,
        seed: u64,
        record: &mut dyn FnMut(WindowRecord<'_>) -> Result<()>,
    ) -> Result<SimulationOutcome> {
        let mut outcomes = Vec::new();
        let (mut cpu_s, mut cores, mut refused, mut ungranted) = (0.0, 0.0, 0, 0);
        let targets = 0..self.system.targets();
        let groups: Vec<Vec<usize>> = match self.scenario {
            Scenario::Together => vec![targets.collect()],
            Scenario::Alone => targets.map(|number| vec![number]).collect(),
        };
        for numbers in groups {
            let played = self.play(seed, &numbers, record)?;
            cpu_s += played.outcomes.iter().map(|outcome| outcome.figures.cpu_s).sum::<f64>();
            cores += played.cores;
            refused += played.refused;
            ungranted += played.ungranted;
            outcomes.extend(played.outcomes);
        }
        Ok(SimulationOutcome {
            seed,
            duration_s: self.played().seconds(),
            total: Figures::together(&outcomes),
            node_use: cpu_s / (cores * self.played().seconds()),
            refused,
            ungranted,
            functions: outcomes,
        })
    }

    /// Windows that are played: the duration in whole ones.
    pub fn windows(&self) -> u64 {
        self.duration.nanos().div_ceil(self.system.window().nanos()).max(1)
    }

    /// How long is played.
    pub fn played(&self) -> SimDuration {
        self.system.window() * self.windows()
    }

    fn play(
        &self,
        seed: u64,
        numbers: &[usize],
        record: &mut dyn FnMut(WindowRecord<'_>) -> Result<()>,
    ) -> Result<Played> {
        let seeds = SeedTree::new(seed).child(&format!("platform/{}", numbers[0]));
        let scaled_by = self.controllers.scaled_by();
        let mut plant = self.system.make(numbers, &seeds, scaled_by)?;
        let mut controlled = Vec::new();
        for (target, number) in numbers.iter().enumerate() {
            let heuristic = |name: &str| plant.heuristic(name, target);
            let bounds = *plant.bounds();
            controlled.push(Controlled {
                number: *number,
                policy: self.controllers.build(*number, &heuristic, bounds, &seeds)?,
                guards: Guards::bounds_only(bounds)?,
                features: Features::new(bounds),
                member: TeamMember::new(bounds),
                means: WindowMeans::default(),
                ungranted: 0,
            });
        }
        let takes_turns =
            matches!(self.controllers, Controllers::Learned { takes_turns: true, .. });
        let needs_team = self.controllers.needs_team();
        let mut queue = TurnQueue::default();
        for _ in 0..self.windows() {
            plant.advance()?;
            let (mut preservations, mut encoded) = (Vec::new(), Vec::new());
            for (target, one) in controlled.iter_mut().enumerate() {
                let features = one.features.observe(plant.observe(target));
                one.means.add(&features, plant.reward(target));
                preservations.push(features[0]);
                encoded.push(features);
            }
            let team = needs_team.then(|| {
                let members = controlled.iter_mut().enumerate();
                let members = members
                    .map(|(target, one)| (target, one.member.observe(plant.observe(target))));
                TeamSnapshot::new(members.collect())
            });
            let turn = if takes_turns { queue.next(numbers, &preservations) } else { None };
            for (target, one) in controlled.iter_mut().enumerate() {
                let acts = !takes_turns || turn == Some(target);
                let others = team.as_ref().map(|team| team.others(&target));
                let end = WindowEnd { target, others, acts };
                let decision = one.control(plant.as_mut(), scaled_by, end)?;
                record(WindowRecord {
                    function: one.number,
                    name: plant.name(target),
                    window: plant.window(target).expect("a window has just been played"),
                    decision: &decision,
                    features: &encoded[target],
                    reward: plant.reward(target),
                    bounds: plant.bounds(),
                })?;
            }
        }
        Ok(Played::new(plant.as_mut(), &controlled))
    }
}

/// The end of one window of one target.
struct WindowEnd {
    target: usize,
    /// The others of its team, if its policy reads them.
    others: Option<TeamState>,
    /// Whether it is its turn.
    acts: bool,
}

impl Controlled {
    /// Decision and action.
    fn control(
        &mut self,
        plant: &mut dyn SimulatedPlant,
        scaled_by: ScaledBy,
        WindowEnd { target, others, acts }: WindowEnd,
    ) -> Result<Decision> {
        let mut seen = Cow::Borrowed(plant.observe(target));
        if others.is_some() {
            seen.to_mut().team = others;
        }
        let decision = match acts {
            true => decide(self.policy.as_mut(), &mut self.guards, &seen),
            false => decide(&mut OutOfTurn(self.policy.as_mut()), &mut self.guards, &seen),
        };
        if scaled_by == ScaledBy::Controllers {
            let granted = plant.apply(target, &decision)?;
            self.ungranted += u64::from(granted != *decision.applied());
        }
        Ok(decision)
    }
}

/// The result of one plant.
struct Played {
    outcomes: Vec<FunctionOutcome>,
    cores: f64,
    refused: u64,
    ungranted: u64,
}

impl Played {
    fn new(plant: &mut dyn SimulatedPlant, controlled: &[Controlled]) -> Self {
        let outcomes = controlled
            .iter()
            .enumerate()
            .map(|(target, one)| FunctionOutcome::new(one.number, plant, target, &one.means));
        Self {
            outcomes: outcomes.collect(),
            cores: plant.cores(),
            refused: controlled.iter().map(|one| one.guards.refusals()).sum(),
            ungranted: controlled.iter().map(|one| one.ungranted).sum(),
        }
    }
}
