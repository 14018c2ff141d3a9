//! The requests of a plan, in order of arrival: a source of its own for each model.

use homeostat_core::{SeedTree, SimTime, Stream};
use homeostat_load::Arrivals;

use crate::serving::Request;
use crate::{Error, GpuPlan, Result};

pub(crate) struct PlannedLoad {
    sources: Vec<Source>,
}

struct Source {
    arrivals: Arrivals,
    lengths: Stream,
    next: Option<SimTime>,
    prompt_tokens: f64,
    /// Zero for a model that does not generate.
    output_tokens: f64,
    sigma: f64,
}

impl PlannedLoad {
    /// Requests to the models on these devices, numbered as in their deployment.
    pub(crate) fn new(plan: &GpuPlan, devices: &[usize], seeds: &SeedTree) -> Result<Self> {
        let mut sources = Vec::new();
        for (planned, _) in plan.models_on(devices) {
            let own = seeds.child(&format!("gpu/{}", planned.model.name));
            let shape = plan.shape(planned.rate);
            let mut arrivals = Arrivals::new(&shape, own.stream("arrivals")).map_err(|error| {
                Error::setting("gpu.load", plan.config().load.name(), &error.to_string())
            })?;
            let generates = planned.model.is_autoregressive;
            sources.push(Source {
                next: arrivals.next_arrival(),
                arrivals,
                lengths: own.stream("lengths"),
                prompt_tokens: plan.config().prompt_tokens,
                output_tokens: if generates { plan.config().output_tokens } else { 0.0 },
                sigma: plan.config().length_sigma,
            });
        }
        Ok(Self { sources })
    }
}

impl Iterator for PlannedLoad {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let due = |(place, source): (usize, &Source)| Some((source.next?, place));
        let (arrival, place) = self.sources.iter().enumerate().filter_map(due).min()?;
        let source = &mut self.sources[place];
        source.next = source.arrivals.next_arrival();
        let (prompt, output) = (source.prompt_tokens, source.output_tokens);
        let (prompt, output) = (source.length(prompt), source.length(output));
        Some(Request { arrival, model: place as u32, prompt, output, rank: 0.0 })
    }
}

impl Source {
    fn length(&mut self, mean: f64) -> u32 {
        if mean <= 0.0 {
            return 0;
        }
        let sigma = self.sigma;
        let factor = (sigma * self.lengths.normal() - sigma * sigma / 2.0).exp();
        // The longest request fits into every cache.
        (mean * factor).round().clamp(1.0, 1000.0) as u32
    }
}
