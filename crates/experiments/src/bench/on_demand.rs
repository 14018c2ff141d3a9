//! One function that scales itself, as the usual simulators of serverless platforms have it:
//! Poisson arrivals, a constant time of service, a container for each request that finds none
//! idle, and removal after a while without requests. Cores and memory are never short, so
//! that nothing is left but what those simulators model too.
//!
//! `bench/peers/sim` runs the same on SimFaaS.

use std::time::Instant;

use homeostat_core::{Bytes, Fraction, Millicores, SeedTree, SimDuration, SimTime, Slo};
use homeostat_decide::Allocation;
use homeostat_lab::{Error, Result};
use homeostat_load::{Arrivals, LoadShape};
use homeostat_sim_faas::{
    Contention, FunctionProfile, FunctionSetup, Platform, PlatformConfig, Scaling, Source, Timings,
    Varying, by_name,
};
use serde::Serialize;

/// What to simulate.
#[derive(Debug, Clone)]
pub struct OnDemandBench {
    /// Requests per second.
    pub rate: f64,
    /// Time of a request in a container that is there.
    pub service: SimDuration,
    /// Time of a request whose container must start first, its service included.
    pub cold: SimDuration,
    /// How long an idle container is kept.
    pub keep_alive: SimDuration,
    /// Requests to expect: the simulated time is this many over the rate.
    pub requests: u64,
    /// Seed of the arrivals.
    pub seed: u64,
}

/// What came out. All but the two times follow from the seed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OnDemandReport {
    /// Requests per second of wall-clock time.
    pub requests_per_s: f64,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Simulated seconds.
    pub simulated_s: f64,
    /// Requests that arrived.
    pub requests: u64,
    /// Containers started for each request.
    pub cold_start_probability: f64,
    /// Mean number of containers over the simulated time.
    pub mean_containers: f64,
    /// Mean number of those that serve or start.
    pub mean_busy: f64,
    /// Requests that waited for longer than a start: above zero only at the limit of
    /// containers.
    pub held_up: u64,
    /// Containers at most.
    pub most_containers: u32,
}

/// Containers at most: the default of SimFaaS.
const MAX_CONTAINERS: u32 = 1000;

impl OnDemandBench {
    /// Runs it.
    pub fn run(&self) -> Result<OnDemandReport> {
        self.validate()?;
        let memory = Bytes::from_mib(128);
        let at_once = Varying { mean: SimDuration::ZERO, deviation: SimDuration::ZERO };
        let config = PlatformConfig {
            contention: Contention::IDEAL,
            // The time of a start is all in the profile.
            timings: Timings { start_warm: at_once, start_cold: at_once, ..Timings::default() },
            timeout: self.cold + SimDuration::from_secs(3600),
            // A core and its memory for each container, so that none ever waits for another.
            ..PlatformConfig::uniform(
                1,
                MAX_CONTAINERS.into(),
                Bytes::from_mib(128 * u64::from(MAX_CONTAINERS)),
            )
        };
        let seeds = SeedTree::new(self.seed);
        let mut platform = Platform::new(config, &seeds)?;
        let shape = LoadShape::Poisson { per_second: self.rate };
        let arrivals = Arrivals::new(&shape, seeds.stream("arrivals"))
            .map_err(homeostat_sim_faas::Error::from)?;
        let start_cpu = SimDuration::from_nanos(self.cold.nanos() - self.service.nanos());
        let function = platform.add_function(FunctionSetup {
            profile: FunctionProfile {
                cpu: self.service,
                payload_share: Fraction::ZERO,
                memory,
                start_cpu,
                ..by_name("primes").expect("it is in the catalogue")
            },
            // Requests are served in the order they came and each that waits has a container
            // on its way, so only a missing container holds one up for longer than a cold
            // start. The microsecond is for rounding.
            slo: Slo::try_new(
                Fraction::from_percent(99),
                self.cold + SimDuration::from_nanos(1000),
            )?,
            isolated_latency: self.service,
            allocation: Allocation { replicas: 0, cpu: Millicores::new(1000), memory },
            scaling: Scaling::OnDemand { keep_alive: self.keep_alive, most: MAX_CONTAINERS },
            arrivals: Some(Source::Shape(arrivals)),
        })?;
        let duration = SimDuration::from_seconds(self.requests as f64 / self.rate)?;
        let start = Instant::now();
        platform.run_until(SimTime::ZERO + duration);
        let seconds = start.elapsed().as_secs_f64();
        let totals = platform.totals(function);
        let simulated_s = duration.seconds();
        Ok(OnDemandReport {
            requests_per_s: totals.arrived as f64 / seconds,
            seconds,
            simulated_s,
            requests: totals.arrived,
            cold_start_probability: totals.cold_starts as f64 / totals.arrived.max(1) as f64,
            mean_containers: totals.container_s / simulated_s,
            mean_busy: totals.cpu_s / simulated_s,
            held_up: totals.slo_violations,
            most_containers: MAX_CONTAINERS,
        })
    }

    /// Refuses what cannot be run.
    fn validate(&self) -> Result<()> {
        let refuse = |key: &str, value: String, expected: &str| {
            Err(Error::OutOfRange {
                key: key.to_owned(),
                value,
                source_text: format!("flag --{key}"),
                expected: expected.to_owned(),
            })
        };
        if !(self.rate.is_finite() && self.rate > 0.0 && self.rate < 1e9) {
            return refuse("rate", self.rate.to_string(), "it must be above 0 and below 1e9");
        }
        if self.service == SimDuration::ZERO {
            return refuse("service-ms", "0".to_owned(), "it must be above 0");
        }
        if self.cold < self.service {
            let cold = (self.cold.seconds() * 1e3).to_string();
            return refuse("cold-ms", cold, "it includes the service and cannot be shorter");
        }
        if self.requests == 0 {
            return refuse("requests", "0".to_owned(), "it must be at least 1");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(rate: f64, keep_alive_s: u64) -> OnDemandBench {
        OnDemandBench {
            rate,
            service: SimDuration::from_millis(100),
            cold: SimDuration::from_millis(300),
            keep_alive: SimDuration::from_secs(keep_alive_s),
            requests: 20_000,
            seed: 1,
        }
    }

    /// Without a limit, requests in service are those of M/D/infinity: the rate times the time
    /// that each keeps a container, its start included.
    #[test]
    fn busy_containers_are_the_rate_times_the_service() {
        for rate in [1.0, 10.0, 100.0] {
            let report = bench(rate, 10).run().unwrap();
            let each = 0.1 + 0.2 * report.cold_start_probability;
            // One count of 20 000 varies by 0.7 %.
            let arrived = report.requests as f64 / report.simulated_s;
            assert!((report.mean_busy / (arrived * each) - 1.0).abs() < 1e-3, "{rate}: {report:?}");
            assert!((arrived / rate - 1.0).abs() < 0.03, "{rate}: {report:?}");
            assert!(report.mean_containers > report.mean_busy && report.held_up == 0);
        }
    }

    #[test]
    fn a_container_that_is_kept_for_ever_starts_once_and_one_that_is_not_every_time() {
        let seldom = bench(0.01, 1_000_000).run().unwrap();
        assert!(seldom.cold_start_probability < 1e-3, "{seldom:?}");
        let never_kept = bench(0.01, 0).run().unwrap();
        assert!(never_kept.cold_start_probability > 0.99, "{never_kept:?}");
    }

    #[test]
    fn the_limit_of_containers_is_seen() {
        let crowd = OnDemandBench { service: SimDuration::from_secs(30), ..bench(100.0, 10) };
        let crowd = OnDemandBench { cold: SimDuration::from_secs(31), ..crowd };
        assert!(crowd.run().unwrap().held_up > 0);
    }
}
