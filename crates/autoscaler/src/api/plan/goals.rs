//! The SLO, the metrics and the load of a spec.

use homeostat_core::{Fraction, SimDuration, Slo};
use homeostat_decide::{HpaMetric, ServiceTime};

use super::{Goal, InFlightQuery, LoadPlan, PlanError, Result, read_duration, read_positive};
use crate::api::spec::{
    ControlledResource, MetricGoal, MultidimPodAutoscalerSpec, ServiceTimeSpec, SloGoal,
};

pub(super) fn read_goal(slo: &SloGoal) -> Result<Goal> {
    match (&slo.latency, &slo.throughput) {
        (Some(latency), None) => {
            let field = "spec.goals.slo.latency";
            let percent = read_positive(&format!("{field}.percentile"), &latency.percentile)?;
            let threshold = read_duration(&format!("{field}.threshold"), &latency.threshold)?;
            let slo = Fraction::from_ratio(percent / 100.0)
                .and_then(|percentile| Slo::try_new(percentile, threshold))
                .map_err(|refused| PlanError::new(field, refused.to_string()))?;
            Ok(Goal::Latency { slo, query: latency.query.clone() })
        }
        (None, Some(throughput)) => {
            let field = "spec.goals.slo.throughput.threshold";
            let threshold = read_positive(field, &throughput.threshold)?;
            Ok(Goal::Throughput { threshold, query: throughput.query.clone() })
        }
        (None, None) => Err(PlanError::new(
            "spec.goals.slo",
            "neither latency nor throughput; name one, or leave slo out",
        )),
        (Some(_), Some(_)) => {
            Err(PlanError::new("spec.goals.slo", "both latency and throughput; keep one"))
        }
    }
}

pub(super) fn read_load(spec: &MultidimPodAutoscalerSpec) -> Result<LoadPlan> {
    let Some(load) = &spec.load else { return Ok(LoadPlan::default()) };
    let has_throughput = spec.goals.slo.as_ref().is_some_and(|slo| slo.throughput.is_some());
    if load.request_rate_query.is_none() && !has_throughput {
        let problem = "missing; add it, or a throughput SLO, which says the same";
        return Err(PlanError::new("spec.load.requestRateQuery", problem));
    }
    let in_flight = match (&load.requests_in_flight_query, &load.mean_latency_query) {
        (Some(_), Some(_)) => {
            let problem = "both requestsInFlightQuery and meanLatencyQuery; keep one";
            return Err(PlanError::new("spec.load", problem));
        }
        (Some(count), None) => Some(InFlightQuery::Count(count.clone())),
        (None, latency) => latency.clone().map(InFlightQuery::MeanLatency),
    };
    let service_time = load.service_time.as_ref().map(read_service_time).transpose()?;
    Ok(LoadPlan { request_rate: load.request_rate_query.clone(), in_flight, service_time })
}

fn read_service_time(time: &ServiceTimeSpec) -> Result<ServiceTime> {
    let field = "spec.load.serviceTime";
    let cpu = read_duration(&format!("{field}.cpu"), &time.cpu)?;
    let io = read_duration(&format!("{field}.io"), &time.io)?;
    if cpu == SimDuration::ZERO {
        let problem = "a request without CPU time; set what was profiled, or leave serviceTime out";
        return Err(PlanError::new(format!("{field}.cpu"), problem));
    }
    Ok(ServiceTime { cpu, io })
}

/// Metrics of the pods' usage, and queries with their target per pod.
type Metrics = (Vec<HpaMetric>, Vec<(String, f64)>);

pub(super) fn read_metrics(metrics: &[MetricGoal]) -> Result<Metrics> {
    let (mut resources, mut queries) = (Vec::new(), Vec::new());
    for (place, metric) in metrics.iter().enumerate() {
        let field = format!("spec.goals.metrics[{place}]");
        match (&metric.resource, &metric.prometheus) {
            (Some(resource), None) => {
                let target_percent = resource.average_utilization;
                if target_percent == 0 {
                    let field = format!("{field}.resource.averageUtilization");
                    return Err(PlanError::new(field, "0 is not a valid target; at least 1"));
                }
                resources.push(match resource.name {
                    ControlledResource::Cpu => HpaMetric::CpuUtilization { target_percent },
                    ControlledResource::Memory => HpaMetric::MemoryUtilization { target_percent },
                });
            }
            (None, Some(prometheus)) => {
                let field = format!("{field}.prometheus.averageValue");
                let target = read_positive(&field, &prometheus.average_value)?;
                queries.push((prometheus.query.clone(), target));
            }
            (None, None) => {
                return Err(PlanError::new(field, "neither resource nor prometheus; name one"));
            }
            (Some(_), Some(_)) => {
                let problem = "both resource and prometheus; split it into two metrics";
                return Err(PlanError::new(field, problem));
            }
        }
    }
    Ok((resources, queries))
}
