//! SLO attainment and power of a deployment, by simulation.

use homeostat_core::{Bounds, SeedTree, SimDuration, SimTime};
use homeostat_decide::{
    ClockBounds, ClockProposal, GpuObservation, Guards, GuardsConfig, Megahertz, PreparedProposal,
    decide,
};
use homeostat_sim_gpu::{Deployment, Request, Serving};

use crate::{Result, Workload};

/// Recorded requests, so that layouts are compared on the same ones.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestTrace {
    /// Requests in the order of their arrival.
    pub requests: Vec<Request>,
    /// Until when they arrive.
    pub horizon: SimTime,
}

/// The outcome for the requests of one model.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ModelOutcome {
    /// Requests that arrived.
    pub requests: u64,
    /// Those answered within the SLO.
    pub within_slo: u64,
}

/// The outcome of a trace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// For each model.
    pub models: Vec<ModelOutcome>,
    /// Mean power of each executor while requests arrived, W.
    pub executor_w: Vec<f64>,
    /// Part of that time in which each executor was busy.
    pub busy: Vec<f64>,
}

impl RequestTrace {
    /// Requests for about this many iterations of the simulator.
    pub fn draw(workload: &Workload, iterations: f64, seeds: &SeedTree) -> Result<Self> {
        let per_second: f64 = workload
            .models
            .iter()
            .map(|demand| {
                let iterations: f64 = demand.mean_request().iter().map(|(times, _)| times).sum();
                demand.rate * iterations
            })
            .sum();
        let seconds = (iterations / per_second).clamp(0.05, 1e6);
        let horizon = SimTime::ZERO + SimDuration::from_seconds(seconds)?;
        Ok(Self { requests: workload.requests(horizon, seeds)?, horizon })
    }
}

impl ModelOutcome {
    /// Part of the requests answered within the SLO; one if there were none.
    pub fn attainment(&self) -> f64 {
        if self.requests == 0 { 1.0 } else { self.within_slo as f64 / self.requests as f64 }
    }

    /// Requests beyond the SLO, refused or unanswered.
    pub fn violations(&self) -> u64 {
        self.requests - self.within_slo
    }
}

impl Outcome {
    /// Plays a trace, with the clocks of the executors in MHz; without them at their highest.
    pub fn simulate(
        deployment: Deployment,
        trace: &RequestTrace,
        clocks: Option<&[u32]>,
    ) -> Result<Self> {
        let slos: Vec<SimDuration> = deployment.models.iter().map(|model| model.slo).collect();
        let mut serving = Serving::new(deployment)?;
        for (executor, clock) in clocks.unwrap_or_default().iter().enumerate() {
            set_clock(&mut serving, executor, *clock)?;
        }
        let mut models = vec![ModelOutcome::default(); slos.len()];
        for request in &trace.requests {
            models[request.model as usize].requests += 1;
            serving.submit(*request)?;
        }
        serving.advance(trace.horizon);
        let seconds = trace.horizon.seconds();
        let executors = 0..serving.executors();
        let executor_w = executors.clone().map(|one| serving.energy_j(one) / seconds).collect();
        let busy = executors.map(|one| serving.busy(one).seconds() / seconds).collect();
        // A request that is unanswered after the longest SLO has violated its own.
        let longest = slos.iter().copied().max().unwrap_or_default();
        serving.advance(trace.horizon + longest);
        for answer in serving.take_finished() {
            let model = answer.model as usize;
            models[model].within_slo += u64::from(answer.latency <= slos[model]);
        }
        Ok(Self { models, executor_w, busy })
    }

    /// Part of all requests answered within their SLO.
    pub fn attainment(&self) -> f64 {
        let sum = |of: fn(&ModelOutcome) -> u64| self.models.iter().map(of).sum::<u64>();
        let (requests, within) = (sum(|model| model.requests), sum(|model| model.within_slo));
        if requests == 0 { 1.0 } else { within as f64 / requests as f64 }
    }

    /// Mean power of all executors, W.
    pub fn power_w(&self) -> f64 {
        self.executor_w.iter().sum()
    }

    /// Whether the attainment is at least `goal` in all, and no model violates its SLO more often than
    /// the goal allows or than it does in `reference`.
    pub fn keeps(&self, goal: f64, reference: &Self) -> bool {
        self.attainment() >= goal && self.strained(goal, reference).is_empty()
    }

    /// The models that violate their SLO more often than the goal allows and than in `reference`.
    pub fn strained(&self, goal: f64, reference: &Self) -> Vec<usize> {
        let is_strained = |model: &usize| {
            let (own, reference) = (&self.models[*model], &reference.models[*model]);
            let allowed = ((1.0 - goal) * own.requests as f64).ceil() as u64;
            own.violations() > allowed.max(reference.violations())
        };
        (0..self.models.len()).filter(is_strained).collect()
    }
}

/// Decides the clock of an executor, within the range of its device.
fn set_clock(serving: &mut Serving, executor: usize, mhz: u32) -> Result<()> {
    let [low, high] = serving.executor(executor).device.clocks.map(Megahertz);
    let bounds = ClockBounds { range: Bounds::try_new(low, high)?, step: 0 };
    let mut guards = Guards::try_new(GuardsConfig::bounds_only(bounds))?;
    let seen = GpuObservation::new(serving.now(), Megahertz(serving.clock(executor)));
    let proposal = ClockProposal { mhz: mhz.into(), reasons: Vec::new() };
    let decision = decide(&mut PreparedProposal::new(proposal), &mut guards, &seen);
    serving.apply(executor, &decision);
    Ok(())
}
