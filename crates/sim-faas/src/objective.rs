//! The SLO of a function, as the SIMPPO chapter sets it: the 99th percentile of its
//! latency when it has the platform to itself, and 15 % more. That of a chain is the same of
//! its latency from end to end.

use homeostat_core::{Fraction, SeedTree, SimDuration, Slo};
use homeostat_decide::Allocation;
use homeostat_des::Histogram;
use homeostat_load::{Arrivals, LoadShape};

use crate::chain::ChainGraph;
use crate::config::{ChainSetup, FunctionSetup, PlatformConfig, Scaling, Source};
use crate::platform::Platform;
use crate::profile::FunctionProfile;
use crate::{Error, Result};

/// Room for fluctuations above the latency of a function alone, as the paper has it.
pub(crate) const RELAXATION: f64 = 1.15;
const PERCENTILE: Fraction = Fraction::from_percent(99);

/// Requests of a profiling run: two hundred of them are beyond the 99th percentile.
const REQUESTS: u64 = 20_000;

/// CPU demand of the profiling load in cores, or a tenth of all cores where that is less, and
/// containers that serve it: enough that almost no request waits.
const DEMAND: f64 = 1.0;
const CONTAINERS: u32 = 16;

/// The SLO of a function or a chain, and the latency it follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Objective {
    /// The SLO.
    pub slo: Slo,
    /// The latency it was made from.
    pub isolated_latency: SimDuration,
}

impl Objective {
    /// Profiles a function alone on an empty platform of this kind, with containers to spare,
    /// and allows it `relaxation` times as long. Refuses an SLO that is shorter than the
    /// mean service time: it would always be violated.
    pub fn profile(
        profile: &FunctionProfile,
        config: &PlatformConfig,
        relaxation: f64,
    ) -> Result<Self> {
        let cores: f64 = config.nodes.iter().map(|node| node.cores).sum();
        let per_second = DEMAND.min(0.1 * cores) / profile.cpu.seconds().max(1e-6);
        let seeds = SeedTree::new(0).child("profiling").child(&profile.name);
        let arrivals = Arrivals::new(&LoadShape::Poisson { per_second }, seeds.stream("arrivals"))?;
        let mut platform = Platform::new(config.clone(), &seeds)?;
        let one_core = homeostat_core::Millicores::new(1000);
        let never = SimDuration::from_secs(3600);
        let id = platform.add_function(FunctionSetup {
            slo: Slo::try_new(PERCENTILE, never)?,
            isolated_latency: never,
            allocation: Allocation { replicas: CONTAINERS, cpu: one_core, memory: profile.memory },
            scaling: Scaling::Managed,
            arrivals: Some(Source::Shape(arrivals)),
            profile: profile.clone(),
        })?;
        platform.run_for(SimDuration::from_seconds(REQUESTS as f64 / per_second)?);
        let latency = platform.totals(id).latency;
        Self::relaxed(&profile.name, &latency, profile.cpu + profile.io, relaxation)
    }

    /// The same of a chain, from end to end; `profiles` are those of its stages, by place.
    pub fn profile_chain(
        graph: &ChainGraph,
        profiles: &[FunctionProfile],
        config: &PlatformConfig,
        relaxation: f64,
    ) -> Result<Self> {
        let name = graph.names().collect::<Vec<_>>().join(", ");
        let cores: f64 = config.nodes.iter().map(|node| node.cores).sum();
        let cpu: f64 = profiles.iter().map(|profile| profile.cpu.seconds()).sum();
        let per_second = DEMAND.min(0.1 * cores) / cpu.max(1e-6);
        let seeds = SeedTree::new(0).child("profiling").child(&name);
        let arrivals = Arrivals::new(&LoadShape::Poisson { per_second }, seeds.stream("arrivals"))?;
        let mut platform = Platform::new(config.clone(), &seeds)?;
        let one_core = homeostat_core::Millicores::new(1000);
        let never = Slo::try_new(PERCENTILE, SimDuration::from_secs(3600))?;
        // Every stage has its containers, however small the nodes are.
        let room: u64 = config.nodes.iter().map(|node| node.memory.bytes()).sum();
        let each: u64 = profiles.iter().map(|profile| profile.memory.bytes()).sum();
        let replicas = (room / each.max(1)).clamp(1, CONTAINERS.into()) as u32;
        let mut functions = Vec::new();
        for profile in profiles {
            functions.push(platform.add_function(FunctionSetup {
                slo: never,
                isolated_latency: never.threshold(),
                allocation: Allocation { replicas, cpu: one_core, memory: profile.memory },
                scaling: Scaling::Managed,
                arrivals: None,
                profile: profile.clone(),
            })?);
        }
        let id = platform.add_chain(ChainSetup {
            name: name.clone(),
            graph: graph.clone(),
            functions,
            slo: never,
            isolated_latency: never.threshold(),
            arrivals: Some(Source::Shape(arrivals)),
        })?;
        platform.run_for(SimDuration::from_seconds(REQUESTS as f64 / per_second)?);
        let latency = platform.chain_totals(id).latency;
        let services: Vec<_> = profiles.iter().map(|profile| profile.cpu + profile.io).collect();
        Self::relaxed(&name, &latency, graph.longest(&services), relaxation)
    }

    /// The SLO that follows from latencies alone on the platform.
    fn relaxed(
        name: &str,
        latency: &Histogram,
        service: SimDuration,
        relaxation: f64,
    ) -> Result<Self> {
        let isolated_latency = latency.quantile(PERCENTILE).ok_or(Error::OutOfRange {
            what: format!("the profiling run of {name}"),
            value: "0 answers".to_owned(),
            expected: "the function must answer within its timeout".to_owned(),
        })?;
        let threshold = SimDuration::from_seconds(isolated_latency.seconds() * relaxation)?;
        if threshold < service {
            let function = name.to_owned();
            return Err(Error::ObjectiveBelowService { function, threshold, service });
        }
        Ok(Self { slo: Slo::try_new(PERCENTILE, threshold)?, isolated_latency })
    }
}
