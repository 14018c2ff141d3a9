//! Objective and bounds of a workload that has no object.

use clap::Args;
use homeostat_operator::api::{cores, memory_bytes};
use homeostat_operator::history::{BoundWishes, GoalWishes, Wishes};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Objective and bounds.
#[derive(Args)]
#[command(next_help_heading = "Objective and bounds")]
pub(crate) struct WantedArguments {
    /// Latency that is to be kept, such as 250ms.
    #[arg(long, value_name = "TIME", value_parser = latency, requires = "latency_query")]
    latency: Option<String>,
    /// Its percentile.
    #[arg(long, value_name = "PERCENT", default_value = "99", value_parser = percentile)]
    percentile: String,
    /// Prometheus query for the latency at that percentile in seconds: one number, with
    /// $namespace and $workload to be filled in.
    #[arg(long, value_name = "QUERY", requires = "latency")]
    latency_query: Option<String>,
    /// Requests per second that are to be kept.
    #[arg(
        long, value_name = "NUMBER", value_parser = rate, requires = "throughput_query",
        conflicts_with = "latency"
    )]
    throughput: Option<String>,
    /// Prometheus query for the requests answered per second: one number.
    #[arg(long, value_name = "QUERY", requires = "throughput")]
    throughput_query: Option<String>,
    /// Target of CPU use in percent of the requests, as of HPA. Without one it is 70, and with
    /// an objective it is learnt from it.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    cpu_target: Option<u32>,
    /// Fewest pods. If it is left out: that of the workload's HPA; else 2 where there are 2.
    #[arg(long, value_name = "PODS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    min_replicas: Option<u32>,
    /// Most pods. If it is left out: that of the workload's HPA; else twice what there are, and
    /// 4 at least.
    #[arg(long, value_name = "PODS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_replicas: Option<u32>,
    /// Least CPU of a container, such as 50m.
    #[arg(long, value_name = "CPU", value_parser = cpu)]
    min_cpu: Option<String>,
    /// Most CPU of a container.
    #[arg(long, value_name = "CPU", value_parser = cpu)]
    max_cpu: Option<String>,
    /// Least memory of a container, such as 64Mi.
    #[arg(long, value_name = "MEMORY", value_parser = memory)]
    min_memory: Option<String>,
    /// Most memory of a container.
    #[arg(long, value_name = "MEMORY", value_parser = memory)]
    max_memory: Option<String>,
}

impl WantedArguments {
    pub(crate) fn wishes(&self) -> Wishes {
        let latency = self.latency.clone().zip(self.latency_query.clone());
        let latency = latency.map(|(threshold, query)| {
            let percentile = self.percentile.clone();
            GoalWishes::Latency { percentile, threshold, query }
        });
        let throughput = self.throughput.clone().zip(self.throughput_query.clone());
        let throughput =
            throughput.map(|(threshold, query)| GoalWishes::Throughput { threshold, query });
        Wishes {
            goal: latency.or(throughput),
            bounds: BoundWishes {
                min_replicas: self.min_replicas,
                max_replicas: self.max_replicas,
                min_cpu: self.min_cpu.clone(),
                max_cpu: self.max_cpu.clone(),
                min_memory: self.min_memory.clone(),
                max_memory: self.max_memory.clone(),
            },
            cpu_target: self.cpu_target,
        }
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
