//! Options for the SLO and bounds of a workload without an object.

use clap::Args;
use homeostat_autoscaler::api::{LoadMetrics, cores, memory_bytes};
use homeostat_autoscaler::history::{BoundsSpec, SloSpec, WorkloadSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// SLO and bounds.
#[derive(Args)]
#[command(next_help_heading = "SLO and bounds")]
pub(crate) struct WantedArguments {
    /// Maximum latency, such as 250ms.
    #[arg(long, value_name = "TIME", value_parser = latency, requires = "latency_query")]
    latency: Option<String>,
    /// Its percentile.
    #[arg(long, value_name = "PERCENT", default_value = "99", value_parser = percentile)]
    percentile: String,
    /// Prometheus query that returns the latency at that percentile in seconds, as one number.
    /// $namespace and $workload are replaced.
    #[arg(long, value_name = "QUERY", requires = "latency")]
    latency_query: Option<String>,
    /// Minimum of requests answered per second.
    #[arg(
        long, value_name = "NUMBER", value_parser = rate, requires = "throughput_query",
        conflicts_with = "latency"
    )]
    throughput: Option<String>,
    /// Prometheus query that returns the requests answered per second, as one number.
    #[arg(long, value_name = "QUERY", requires = "throughput")]
    throughput_query: Option<String>,
    /// Prometheus query that returns the requests that arrive per second, as one number, for policy
    /// files that read the load.
    #[arg(long, value_name = "QUERY")]
    request_rate_query: Option<String>,
    /// Prometheus query that returns the mean latency in seconds, as one number: requests in flight
    /// are the request rate times this.
    #[arg(long, value_name = "QUERY", conflicts_with = "requests_in_flight_query")]
    mean_latency_query: Option<String>,
    /// Prometheus query that returns the requests in flight, as one number.
    #[arg(long, value_name = "QUERY")]
    requests_in_flight_query: Option<String>,
    /// Target of the CPU utilisation in percent of the requests, as in HPA. By default 70, or
    /// learnt from the SLO if there is one.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    cpu_target: Option<u32>,
    /// Minimum number of pods. By default that of the workload's HPA, else 2, or 1 for a single pod.
    #[arg(long, value_name = "PODS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    min_replicas: Option<u32>,
    /// Maximum number of pods. By default that of the workload's HPA, else twice the current
    /// number, and at least 4.
    #[arg(long, value_name = "PODS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_replicas: Option<u32>,
    /// Minimum CPU of a container, such as 50m.
    #[arg(long, value_name = "CPU", value_parser = cpu)]
    min_cpu: Option<String>,
    /// Maximum CPU of a container.
    #[arg(long, value_name = "CPU", value_parser = cpu)]
    max_cpu: Option<String>,
    /// Minimum memory of a container, such as 64Mi.
    #[arg(long, value_name = "MEMORY", value_parser = memory)]
    min_memory: Option<String>,
    /// Maximum memory of a container.
    #[arg(long, value_name = "MEMORY", value_parser = memory)]
    max_memory: Option<String>,
}

impl WantedArguments {
    pub(crate) fn workload_spec(&self) -> WorkloadSpec {
        let latency = self.latency.clone().zip(self.latency_query.clone());
        let latency = latency.map(|(threshold, query)| {
            let percentile = self.percentile.clone();
            SloSpec::Latency { percentile, threshold, query }
        });
        let throughput = self.throughput.clone().zip(self.throughput_query.clone());
        let throughput =
            throughput.map(|(threshold, query)| SloSpec::Throughput { threshold, query });
        WorkloadSpec {
            goal: latency.or(throughput),
            bounds: BoundsSpec {
                min_replicas: self.min_replicas,
                max_replicas: self.max_replicas,
                min_cpu: self.min_cpu.clone(),
                max_cpu: self.max_cpu.clone(),
                min_memory: self.min_memory.clone(),
                max_memory: self.max_memory.clone(),
            },
            cpu_target: self.cpu_target,
            load: self.load(),
        }
    }

    fn load(&self) -> Option<LoadMetrics> {
        let load = LoadMetrics {
            request_rate_query: self.request_rate_query.clone(),
            mean_latency_query: self.mean_latency_query.clone(),
            requests_in_flight_query: self.requests_in_flight_query.clone(),
            service_time: None,
        };
        (load != LoadMetrics::default()).then_some(load)
    }
}

fn latency(text: &str) -> Result<String, String> {
    super::prometheus::time(text).map(|_| text.to_owned())
}

fn percentile(text: &str) -> Result<String, String> {
    match text.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent < 100.0 => Ok(text.to_owned()),
        _ => Err("it must lie between 0 and 100, such as 99 or 99.9".to_owned()),
    }
}

fn rate(text: &str) -> Result<String, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(text.to_owned()),
        _ => Err("it must be a number above 0".to_owned()),
    }
}

fn cpu(text: &str) -> Result<String, String> {
    let read = cores(&Quantity(text.to_owned()));
    read.map(|_| text.to_owned()).map_err(|refused| refused.to_string())
}

fn memory(text: &str) -> Result<String, String> {
    let read = memory_bytes(&Quantity(text.to_owned()));
    read.map(|_| text.to_owned()).map_err(|refused| refused.to_string())
}
