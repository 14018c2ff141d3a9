//! Reasons in the words of the object that they are about.

use homeostat_decide::Reason;

use crate::api::{Goal, Plan};

/// A reason in words. Policies know latency only, so a throughput reaches them turned round;
/// people read it as they wrote it.
pub(super) fn in_words(reason: &Reason, plan: &Plan, objective: Option<f64>) -> String {
    match (reason, &plan.goal) {
        (Reason::Latency { .. }, Some(Goal::Throughput { threshold, .. })) => {
            let measured = objective.unwrap_or(0.0);
            let side = if measured < *threshold { "below" } else { "within" };
            format!("throughput {measured:.1}/s is {side} the objective of {threshold}/s")
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
    fn a_throughput_is_never_called_a_latency() {
        let spec = json!({
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
            "constraints": {"global": {"maxReplicas": 10}},
            "goals": {"slo": {"throughput": {"threshold": "120", "query": "q"}}},
        });
        let plan = Plan::try_new(&serde_json::from_value(spec).expect("valid")).expect("valid");
        let second = SimDuration::from_secs(1);
        let slo = Slo::try_new(Fraction::from_percent(99), second).expect("valid");
        let reason = Reason::Latency { latency: second, slo };
        let words = |measured| in_words(&reason, &plan, Some(measured));
        assert_eq!(words(90.0), "throughput 90.0/s is below the objective of 120/s");
        assert_eq!(words(120.0), "throughput 120.0/s is within the objective of 120/s");
    }
}
