//! `explain` and `history` as text.

use homeostat_autoscaler::api::{
    Alternatives, DecisionRecord, LearningStatus, MultidimPodAutoscaler,
    MultidimPodAutoscalerStatus, PodAllocation, ResourceAmounts,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::format::{age, plain, table};

/// Explains an object: the recommendation and its reasons, what Kubernetes' own autoscalers would do,
/// the measured metrics with their age, and the conditions.
pub fn explain(object: &MultidimPodAutoscaler, now: Timestamp) -> String {
    let spec = &object.spec;
    let status = object.status.clone().unwrap_or_default();
    let target = &spec.scale_target_ref;
    let mut text = format!(
        "{}/{} scales {} {}, mode {:?}\n",
        plain(&object.namespace().unwrap_or_default()),
        plain(&object.name_any()),
        plain(&target.kind),
        plain(&target.name),
        spec.mode,
    );
    text.push_str(&recommendation(object, &status));
    text.push_str(&reasons(&status, now));
    text.push_str(&learning(status.learning.as_ref(), now));
    text.push_str(&alternatives(status.alternatives.as_ref()));
    text.push_str(&measured(&status, now));
    text.push_str(&conditions(&status, now));
    text
}

/// The last decisions that changed something, oldest first.
pub fn history(object: &MultidimPodAutoscaler, now: Timestamp) -> String {
    let decisions = object.status.as_ref().map_or(&[][..], |status| &status.decisions);
    if decisions.is_empty() {
        return "there are no decisions yet\n".to_owned();
    }
    let mut rows = vec![["AGE", "BY", "PODS", "CPU", "MEMORY", "WHY"].map(str::to_owned).to_vec()];
    for decision in decisions.iter().rev() {
        let DecisionRecord { from, applied, .. } = decision;
        let change = |from: &str, to: &str| {
            if from == to { plain(to) } else { format!("{}->{}", plain(from), plain(to)) }
        };
        rows.push(vec![
            age(decision.at.0, now),
            plain(&decision.recommender),
            change(&from.replicas.to_string(), &applied.replicas.to_string()),
            change(&from.cpu.0, &applied.cpu.0),
            change(&from.memory.0, &applied.memory.0),
            plain(&decision.reasons.join("; ")),
        ]);
    }
    table(&rows)
}

fn recommendation(object: &MultidimPodAutoscaler, status: &MultidimPodAutoscalerStatus) -> String {
    let (Some(summary), Some(recommendation)) = (&status.summary, &status.recommendation) else {
        return "\nThere is no recommendation; the conditions below say why.\n".to_owned();
    };
    let global = &object.spec.constraints.global;
    let mut text = format!(
        "\n  pods    {}   (between {} and {})\n  CPU     {} per pod\n  memory  {} per pod\n",
        plain(&summary.replicas),
        global.min_replicas,
        global.max_replicas,
        plain(&summary.cpu),
        plain(&summary.memory),
    );
    let containers = &recommendation.container_recommendations;
    let mut rows = vec![
        ["  CONTAINER", "CPU", "TOLERATED", "MEMORY", "TOLERATED", "WITHOUT BOUNDS"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for container in containers {
        rows.push(vec![
            format!("  {}", plain(&container.container_name)),
            amount(container.target.cpu.as_ref()),
            between(&container.lower_bound.cpu, &container.upper_bound.cpu),
            amount(container.target.memory.as_ref()),
            between(&container.lower_bound.memory, &container.upper_bound.memory),
            if container.uncapped_target == container.target {
                "the same".to_owned()
            } else {
                both(&container.uncapped_target)
            },
        ]);
    }
    text.push('\n');
    text.push_str(&table(&rows));
    text
}

fn reasons(status: &MultidimPodAutoscalerStatus, now: Timestamp) -> String {
    let Some(decision) = status.decisions.first() else { return String::new() };
    let mut text =
        format!("\nWhy, {} ago by {}:\n", age(decision.at.0, now), plain(&decision.recommender));
    for reason in &decision.reasons {
        text.push_str(&format!("  - {}\n", plain(reason)));
    }
    if decision.proposed != decision.applied {
        text.push_str(&format!(
            "  It proposed {}; the guards limited it to {}.\n",
            allocation(&decision.proposed),
            allocation(&decision.applied)
        ));
    }
    text
}

fn alternatives(alternatives: Option<&Alternatives>) -> String {
    let Some(alternatives) = alternatives else { return String::new() };
    let pods = alternatives
        .hpa_replicas
        .map_or_else(|| "unknown".to_owned(), |pods| format!("{pods} pods"));
    let mut text = format!(
        "\nKubernetes' own autoscalers, each alone:\n  HPA: {pods}\n  VPA: {} per pod\n",
        both(&alternatives.vpa_target)
    );
    if let Some(policy) = &alternatives.policy {
        let policy = allocation(policy);
        text.push_str(&format!(
            "The learned policy, which does not act: {policy} (before guards)\n"
        ));
    }
    for reason in &alternatives.reasons {
        text.push_str(&format!("  - {}\n", plain(reason)));
    }
    text
}

fn learning(learning: Option<&LearningStatus>, now: Timestamp) -> String {
    let Some(learning) = learning else { return String::new() };
    let since = learning.since.as_ref();
    let since = since.map(|since| format!(" for {}", age(since.0, now))).unwrap_or_default();
    let mut text = format!(
        "\nLearning: stage {}{since}, {} acts\n  because {}\n",
        plain(&learning.stage),
        plain(&learning.actor),
        plain(&learning.reason)
    );
    if let Some(waiting) = &learning.waiting_for {
        text.push_str(&format!("  it waits: {}\n", plain(waiting)));
    }
    if let Some(reward) = &learning.recent_reward {
        text.push_str(&format!("  recent episodes of this stage: reward {}\n", plain(reward)));
    }
    if let Some(found) = &learning.evaluation {
        let verdict = if found.is_admitted { "may serve" } else { "may not serve" };
        text.push_str(&format!(
            "  {} {verdict}: its value is at least {}, that of hpa+vpa is {}, the margin is {}\n",
            plain(&found.policy),
            plain(&found.lower_bound),
            plain(&found.fallback),
            plain(&found.margin)
        ));
    }
    text
}

fn measured(status: &MultidimPodAutoscalerStatus, now: Timestamp) -> String {
    if status.current_metrics.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = status
        .current_metrics
        .iter()
        .map(|metric| {
            let at = metric.measured_at.as_ref();
            vec![
                format!("  {}", plain(&metric.name)),
                metric.value.as_deref().map_or_else(|| "-".to_owned(), plain),
                plain(&metric.source),
                at.map_or_else(|| "-".to_owned(), |at| format!("{} old", age(at.0, now))),
                metric.problem.as_deref().map(plain).unwrap_or_default(),
            ]
        })
        .collect();
    format!("\nMeasured:\n{}", table(&rows))
}

fn conditions(status: &MultidimPodAutoscalerStatus, now: Timestamp) -> String {
    let rows: Vec<Vec<String>> = status
        .conditions
        .iter()
        .map(|condition| {
            vec![
                format!("  {}", plain(&condition.type_)),
                plain(&condition.status),
                plain(&condition.reason),
                format!("for {}", age(condition.last_transition_time.0, now)),
                plain(&condition.message),
            ]
        })
        .collect();
    if rows.is_empty() {
        return "\nThere are no conditions yet: is the operator running?\n".to_owned();
    }
    format!("\nConditions:\n{}", table(&rows))
}

fn amount(amount: Option<&Quantity>) -> String {
    amount.map_or_else(|| "-".to_owned(), |amount| plain(&amount.0))
}

fn between(low: &Option<Quantity>, high: &Option<Quantity>) -> String {
    format!("{} to {}", amount(low.as_ref()), amount(high.as_ref()))
}

fn both(amounts: &ResourceAmounts) -> String {
    format!("{} CPU, {} memory", amount(amounts.cpu.as_ref()), amount(amounts.memory.as_ref()))
}

fn allocation(allocation: &PodAllocation) -> String {
    let PodAllocation { replicas, cpu, memory } = allocation;
    format!("{replicas} x {} {}", plain(&cpu.0), plain(&memory.0))
}
