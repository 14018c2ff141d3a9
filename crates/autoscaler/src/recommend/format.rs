//! Reasons as text, in the terms of the object's SLO.

use homeostat_decide::Reason;

use crate::api::{Goal, Plan};

/// A reason as text. Policies know latency only, so a throughput reaches them as its inverse; the
/// text names the throughput.
pub(super) fn reason_text(reason: &Reason, plan: &Plan, objective: Option<f64>) -> String {
    match (reason, &plan.goal) {
        (Reason::Latency { .. }, Some(Goal::Throughput { threshold, .. })) => {
            let measured = objective.unwrap_or(0.0);
            let side = if measured < *threshold { "below" } else { "within" };
            format!("throughput {measured:.1}/s is {side} the SLO of {threshold}/s")
        }
        (Reason::NoRequests, Some(Goal::Throughput { .. })) => {
            "no throughput was measured".to_owned()
        }
        _ => reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_core::{Fraction, SimDuration, Slo};
    use serde_json::json;

    #[test]
    fn the_reason_of_a_throughput_names_no_latency() {
        let spec = json!({
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
            "constraints": {"global": {"maxReplicas": 10}},
            "goals": {"slo": {"throughput": {"threshold": "120", "query": "q"}}},
        });
        let plan = Plan::try_new(&serde_json::from_value(spec).expect("valid")).expect("valid");
        let second = SimDuration::from_secs(1);
        let slo = Slo::try_new(Fraction::from_percent(99), second).expect("valid");
        let reason = Reason::Latency { latency: second, slo };
        let words = |measured| reason_text(&reason, &plan, Some(measured));
        assert_eq!(words(90.0), "throughput 90.0/s is below the SLO of 120/s");
        assert_eq!(words(120.0), "throughput 120.0/s is within the SLO of 120/s");
    }
}
