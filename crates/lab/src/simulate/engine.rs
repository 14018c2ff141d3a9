//! Functions, their controllers and a platform, played window by window.

use homeostat_core::{SeedTree, SimDuration};
use homeostat_decide::{Decision, GuardrailMemory, Guardrails, Policy, decide};
use homeostat_sim_faas::{FaasPlan, FunctionId, Tenants, Window};
use homeostat_simppo::TurnQueue;

use super::controllers::{Controllers, KEEP_ALIVE};
use super::outcome::{Figures, FunctionOutcome, SimulationOutcome, WindowMeans};
use super::trace::TraceScenario;
use crate::Result;

/// What is played.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// The platform, its functions and their load.
    pub plan: FaasPlan,
    /// Which functions, together or alone.
    pub scenario: Scenario,
    /// Who controls them.
    pub controllers: Controllers,
    /// How long.
    pub duration: SimDuration,
}

/// Which functions are played.
#[derive(Debug, Clone)]
pub enum Scenario {
    /// The plan's functions on one platform.
    Together,
    /// Each of the plan's functions on a platform of its own.
    Alone,
    /// The functions of a trace on one platform.
    Trace(TraceScenario),
}

/// One window of one function, with the decision at its end.
#[derive(Debug)]
pub struct WindowRecord<'a> {
    /// The function's number.
    pub function: usize,
    /// Its name.
    pub name: &'a str,
    /// What truly happened.
    pub window: &'a Window,
    /// What its controller decided.
    pub decision: &'a Decision,
}

/// One function under control.
struct Controlled {
    id: FunctionId,
    /// Number over all platforms of the simulation.
    number: usize,
    policy: Box<dyn Policy>,
    memory: GuardrailMemory,
    means: WindowMeans,
    /// Decisions that the nodes had no room for.
    ungranted: u64,
}

impl Simulation {
    /// Plays one seed. `record` is shown every window; an error of it ends the run.
    pub fn run(
        &self,
        seed: u64,
        record: &mut dyn FnMut(WindowRecord<'_>) -> Result<()>,
    ) -> Result<SimulationOutcome> {
        let functions = self.plan.config().functions;
        let mut outcomes = Vec::new();
        let (mut cpu_s, mut cores, mut refused, mut ungranted) = (0.0, 0.0, 0, 0);
        let platforms: Vec<Vec<usize>> = match &self.scenario {
            Scenario::Together => vec![(0..functions).collect()],
            Scenario::Alone => (0..functions).map(|number| vec![number]).collect(),
            Scenario::Trace(trace) => vec![(0..trace.functions()).collect()],
        };
        for numbers in platforms {
            let stage = self.play(seed, &numbers, record)?;
            cpu_s += stage.outcomes.iter().map(|outcome| outcome.figures.cpu_s).sum::<f64>();
            cores += self.plan.platform().nodes.iter().map(|node| node.cores).sum::<f64>();
            refused += stage.refused;
            ungranted += stage.ungranted;
            outcomes.extend(stage.outcomes);
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
        self.duration.nanos().div_ceil(self.plan.window().nanos()).max(1)
    }

    /// How long is played.
    pub fn played(&self) -> SimDuration {
        self.plan.window() * self.windows()
    }

    fn play(
        &self,
        seed: u64,
        numbers: &[usize],
        record: &mut dyn FnMut(WindowRecord<'_>) -> Result<()>,
    ) -> Result<Played> {
        let seeds = SeedTree::new(seed).child(&format!("platform/{}", numbers[0]));
        let mut tenants = Tenants::new(&self.plan, seeds.seed("world"));
        for number in numbers {
            match &self.scenario {
                Scenario::Trace(trace) => {
                    let setup = trace.setup(*number, &self.plan, &seeds)?;
                    tenants.join_with(match self.controllers {
                        Controllers::OnDemand => {
                            setup.on_demand(KEEP_ALIVE, self.plan.bounds().replicas.high())
                        }
                        _ => setup,
                    })?;
                }
                _ => {
                    let function = *number % self.plan.functions().count();
                    match self.controllers {
                        Controllers::OnDemand => tenants.join_on_demand(function, KEEP_ALIVE),
                        _ => tenants.join(function),
                    }
                }
            }
        }
        let ids: Vec<_> = tenants.ids().collect();
        let mut controlled = Vec::new();
        for (id, number) in ids.into_iter().zip(numbers) {
            let profile = tenants.platform().profile(id);
            controlled.push(Controlled {
                id,
                number: *number,
                policy: self.controllers.build(*number, profile, &self.plan, &seeds)?,
                memory: GuardrailMemory::default(),
                means: WindowMeans::default(),
                ungranted: 0,
            });
        }
        let guardrails = Guardrails::bounds_only(*self.plan.bounds())?;
        let takes_turns =
            matches!(self.controllers, Controllers::Learned { takes_turns: true, .. });
        let mut queue = TurnQueue::default();
        for _ in 0..self.windows() {
            tenants.advance();
            let kept = |place| tenants.features(place)[0];
            let turn = match takes_turns {
                true => queue.next(numbers, &(0..numbers.len()).map(kept).collect::<Vec<_>>()),
                false => None,
            };
            for (place, function) in controlled.iter_mut().enumerate() {
                let acts = !takes_turns || turn == Some(place);
                self.control(&mut tenants, place, function, acts, &guardrails, record)?;
            }
        }
        Ok(self.collect(tenants, controlled))
    }

    /// The end of one window of one function: figures, decision, action.
    fn control(
        &self,
        tenants: &mut Tenants,
        place: usize,
        function: &mut Controlled,
        acts: bool,
        guardrails: &Guardrails,
        record: &mut dyn FnMut(WindowRecord<'_>) -> Result<()>,
    ) -> Result<()> {
        let seen = tenants.seen(place).expect("a window has just been played").clone();
        let reward =
            self.plan.config().reward.of(tenants.features(place), &seen, self.plan.bounds());
        function.means.add(tenants.features(place), reward);
        let decision = decide(function.policy.as_mut(), guardrails, &mut function.memory, &seen);
        let window = tenants.window(place).expect("a window has just been played").clone();
        let platform = tenants.platform();
        if acts && !matches!(self.controllers, Controllers::OnDemand) {
            let granted = platform.grant(function.id, decision.applied)?;
            function.ungranted += u64::from(granted != decision.applied);
        }
        record(WindowRecord {
            function: function.number,
            name: platform.name(function.id),
            window: &window,
            decision: &decision,
        })
    }

    fn collect(&self, mut tenants: Tenants, controlled: Vec<Controlled>) -> Played {
        let platform = tenants.platform();
        let (mut refused, mut ungranted) = (0, 0);
        let outcomes = controlled.into_iter().map(|function| {
            refused += function.memory.refusals();
            ungranted += function.ungranted;
            let totals = platform.final_totals(function.id);
            let name = platform.name(function.id).to_owned();
            let slo = platform.slo(function.id);
            FunctionOutcome::new(function.number, &name, slo, &totals, &function.means)
        });
        let outcomes = outcomes.collect();
        Played { outcomes, refused, ungranted }
    }
}

struct Played {
    outcomes: Vec<FunctionOutcome>,
    refused: u64,
    ungranted: u64,
}
