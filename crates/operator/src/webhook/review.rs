//! Sizes a pod that is about to be created.

use homeostat_autoscaler::api::{ConditionReason, ConditionType, MultidimPodAutoscaler, Plan};
use homeostat_autoscaler::update::{resources, sizes_new_pods, wanted_sizes};
use homeostat_autoscaler::workload::{SIZED_ANNOTATION, container_record, read_selector, selects};
use homeostat_core::SimTime;
use k8s_openapi::api::core::v1::Pod;
use kube::core::admission::AdmissionRequest;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

/// The JSON patch that gives a new pod its recommended size; none if no autoscaler sizes it.
pub fn review<'a>(
    request: &AdmissionRequest<Pod>,
    objects: impl Iterator<Item = &'a MultidimPodAutoscaler>,
    now: SimTime,
) -> Option<Vec<Value>> {
    let pod = request.object.as_ref()?;
    let namespace = request.namespace.as_deref().or(pod.metadata.namespace.as_deref())?;
    let is_ours = |object: &&MultidimPodAutoscaler| {
        let selector = object.status.as_ref().and_then(|status| status.selector.as_deref());
        object.namespace().as_deref() == Some(namespace)
            && object.meta().deletion_timestamp.is_none()
            && selector
                .and_then(|selector| read_selector(selector).ok())
                .is_some_and(|selector| selects(&selector, pod.metadata.labels.as_ref()))
    };
    let mut objects = objects.filter(is_ours).filter(|object| is_ready(object));
    let object = objects.next()?;
    let plan = Plan::try_new(&object.spec).ok()?;
    let status = object.status.as_ref()?;
    if !sizes_new_pods(&plan, status, now) {
        return None;
    }
    let wanted = wanted_sizes(status)?;
    let mut changes = Vec::new();
    let containers = pod.spec.as_ref().map_or(&[][..], |spec| &spec.containers);
    for (index, container) in containers.iter().enumerate() {
        let Some(&size) = wanted.get(&container.name) else { continue };
        let sized = resources(&container_record(container), size);
        // Claims and extended resources do not change.
        let mut merged =
            serde_json::to_value(container.resources.clone().unwrap_or_default()).ok()?;
        merge(&mut merged, &sized);
        let path = format!("/spec/containers/{index}/resources");
        changes.push(json!({ "op": "add", "path": path, "value": merged }));
    }
    if changes.is_empty() {
        return None;
    }
    if pod.metadata.annotations.is_none() {
        changes.push(json!({ "op": "add", "path": "/metadata/annotations", "value": {} }));
    }
    let path = format!("/metadata/annotations/{}", SIZED_ANNOTATION.replace('/', "~1"));
    changes.push(json!({ "op": "add", "path": path, "value": object.name_any() }));
    Some(changes)
}

/// Whether there is a recommendation, if only one from before a temporary problem.
fn is_ready(object: &MultidimPodAutoscaler) -> bool {
    let ready = ConditionType::Ready.to_string();
    let is_temporary =
        |reason: &str| ConditionReason::TEMPORARY.iter().any(|one| one.to_string() == reason);
    let conditions = object.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|condition| {
        condition.type_ == ready && (condition.status == "True" || is_temporary(&condition.reason))
    })
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_core::SimDuration;

    fn request(labels: Value, resources: Value) -> AdmissionRequest<Pod> {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "1", "name": "", "namespace": "shop", "operation": "CREATE",
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "userInfo": {},
                "object": {
                    "apiVersion": "v1", "kind": "Pod",
                    "metadata": {"generateName": "checkout-", "labels": labels},
                    "spec": {"containers": [
                        {"name": "sidecar", "image": "proxy"},
                        {"name": "app", "image": "checkout", "resources": resources}]},
                },
            },
        });
        let review: kube::core::admission::AdmissionReview<Pod> =
            serde_json::from_value(review).expect("valid");
        review.try_into().expect("it has a request")
    }

    fn object(mode: &str, rollout: Value) -> MultidimPodAutoscaler {
        serde_json::from_value(json!({
            "apiVersion": "homeostat.dev/v1alpha1", "kind": "MultidimPodAutoscaler",
            "metadata": {"name": "checkout", "namespace": "shop"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "checkout"},
                "mode": mode, "constraints": {"global": {"maxReplicas": 10}},
            },
            "status": {
                "selector": "app=checkout", "desiredReplicas": 4, "rollout": rollout,
                "recommendation": {"containerRecommendations": [{
                    "containerName": "app",
                    "target": {"cpu": "300m", "memory": "64Mi"},
                    "lowerBound": {}, "upperBound": {}, "uncappedTarget": {}}]},
                "conditions": [{"type": "Ready", "status": "True", "reason": "AsPlanned",
                    "message": "", "lastTransitionTime": "2026-11-16T00:00:00Z"}],
            },
        }))
        .expect("valid")
    }

    fn at(seconds: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_secs(1_794_787_200 + seconds)
    }

    #[test]
    fn a_new_pod_gets_the_recommended_size_and_keeps_the_rest() {
        let request = request(
            json!({"app": "checkout"}),
            json!({"requests": {"cpu": "200m", "memory": "128Mi", "example.org/gpu": "1"},
                   "limits": {"cpu": "400m", "example.org/gpu": "1"}}),
        );
        let object = object("Auto", json!({}));
        let changes = review(&request, [&object].into_iter(), at(0)).expect("it is sized");
        assert_eq!(changes[0]["path"], "/spec/containers/1/resources");
        let expect = json!({
            "requests": {"cpu": "300m", "memory": "64Mi", "example.org/gpu": "1"},
            "limits": {"cpu": "600m", "example.org/gpu": "1"},
        });
        assert_eq!(changes[0]["value"], expect);
        assert_eq!(changes[2]["path"], "/metadata/annotations/homeostat.dev~1sized-by");
    }

    #[test]
    fn a_resource_that_is_not_controlled_keeps_the_size_of_the_template() {
        let request = request(
            json!({"app": "checkout"}),
            json!({"requests": {"cpu": "200m", "memory": "4Gi"},
                   "limits": {"cpu": "400m", "memory": "4Gi"}}),
        );
        let sized = |target: Value| {
            let mut object = object("Auto", json!({}));
            let recommendation = object.status.as_mut().expect("written").recommendation.as_mut();
            let containers = &mut recommendation.expect("written").container_recommendations;
            containers[0].target = serde_json::from_value(target).expect("valid");
            review(&request, [&object].into_iter(), at(0))
        };
        let only_cpu = sized(json!({"cpu": "300m"})).expect("it is sized");
        let expect = json!({
            "requests": {"cpu": "300m", "memory": "4Gi"},
            "limits": {"cpu": "600m", "memory": "4Gi"},
        });
        assert_eq!(only_cpu[0]["value"], expect);
        assert_eq!(sized(json!({})), None);
    }

    #[test]
    fn pods_of_other_workloads_and_mode_recommend_change_nothing() {
        let ours = request(json!({"app": "checkout"}), json!({}));
        let others = request(json!({"app": "cart"}), json!({}));
        let auto = object("Auto", json!({}));
        let recommends = object("Recommend", json!({}));
        assert_eq!(review(&others, [&auto].into_iter(), at(0)), None);
        assert_eq!(review(&ours, [&recommends].into_iter(), at(0)), None);
        assert!(review(&ours, [&auto].into_iter(), at(0)).is_some());
    }

    #[test]
    fn while_canaries_are_observed_other_pods_start_with_the_old_size() {
        let ours = request(json!({"app": "checkout"}), json!({}));
        let sized = |rollout: Value, seconds: u64| {
            let canary = object("Canary", rollout);
            review(&ours, [&canary].into_iter(), at(seconds)).is_some()
        };
        let watched = json!({"updated": 1, "outdated": 3, "canarySince": "2026-11-16T00:00:00Z"});
        assert!(sized(json!({"updated": 0, "outdated": 4}), 0));
        assert!(!sized(watched.clone(), 100));
        assert!(sized(watched, 301));
        // A size that all pods have had for long is not the cause of a violation now.
        let mut proven = object("Canary", json!({"updated": 4, "outdated": 0}));
        let mut violated = proven.status.as_ref().expect("it has one").conditions[0].clone();
        (violated.type_, violated.status) = ("SloMet".to_owned(), "False".to_owned());
        proven.status.as_mut().expect("it has one").conditions.push(violated);
        assert!(review(&ours, [&proven].into_iter(), at(0)).is_some());
    }
}
