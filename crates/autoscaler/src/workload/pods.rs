//! The few fields of pods that the operator needs.

use std::collections::BTreeMap;

use homeostat_core::{Bytes, Millicores, SimDuration, SimTime};
use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api::{cores, memory_bytes};

/// The annotation that the admission webhook sets on pods that it sized; its value is the name of the
/// autoscaler object.
pub const SIZED_ANNOTATION: &str = "homeostat.dev/sized-by";

/// The fields of a pod that the operator needs.
#[derive(Debug, Clone, PartialEq)]
pub struct PodRecord {
    /// Its name.
    pub name: String,
    /// Distinguishes it from other pods of the same name.
    pub uid: String,
    /// When it was started, or created if it has not started.
    pub started: SimTime,
    /// Since when it has been ready; none if it is not.
    pub ready_since: Option<SimTime>,
    /// Since when it has not been ready, if it is not.
    pub unready_since: Option<SimTime>,
    /// Whether it is unready because a container terminated or no node has room for it. A pod that
    /// starts, or is overloaded for a moment, has not failed.
    pub has_failed: bool,
    /// Whether it is being deleted.
    pub is_leaving: bool,
    /// Whether the admission webhook sized it when it was created.
    pub was_sized: bool,
    /// The state of a resize in place, if there is one.
    pub resize: Option<ResizeState>,
    /// Its containers.
    pub containers: Vec<ContainerRecord>,
}

/// The state of a resize in place. The pod's spec has the new size from the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResizeState {
    /// The node is applying it.
    Underway {
        /// Since when.
        since: SimTime,
    },
    /// The node has no room now, and retries.
    Deferred {
        /// Since when.
        since: SimTime,
    },
    /// The node is too small.
    Infeasible,
}

/// The fields of a container that the operator needs.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerRecord {
    /// Its name.
    pub name: String,
    /// Its CPU request, if any.
    pub cpu_request: Option<Millicores>,
    /// Its memory request, if any.
    pub memory_request: Option<Bytes>,
    /// Its CPU limit, if any.
    pub cpu_limit: Option<Millicores>,
    /// Its memory limit, if any.
    pub memory_limit: Option<Bytes>,
    /// When it last had an out-of-memory kill.
    pub oom_killed_at: Option<SimTime>,
}

/// Reads a pod; none if it has terminated or has no name.
pub fn record(pod: &Pod) -> Option<PodRecord> {
    let name = pod.metadata.name.clone()?;
    let status = pod.status.as_ref();
    if matches!(status.and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed")) {
        return None;
    }
    let created = pod.metadata.creation_timestamp.as_ref().map_or(SimTime::ZERO, time);
    let started = status.and_then(|status| status.start_time.as_ref()).map_or(created, time);
    let since = |kind: &str, is_so: &str| {
        let mut conditions = status?.conditions.iter().flatten();
        let found = conditions.find(|found| found.type_ == kind && found.status == is_so)?;
        Some(found.last_transition_time.as_ref().map_or(started, time))
    };
    let unscheduled_since = since("PodScheduled", "False");
    let unready_since = unscheduled_since.or_else(|| since("Ready", "False"));
    let has_failed = unscheduled_since.is_some()
        || unready_since.is_some_and(|since| has_ended_since(pod, since));
    let kills = oom_kills(pod);
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| {
        let oom_killed_at = kills.get(container.name.as_str()).copied();
        ContainerRecord { oom_killed_at, ..container_record(container) }
    });
    let annotations = pod.metadata.annotations.as_ref();
    Some(PodRecord {
        name,
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        resize: resize_state(pod),
        started,
        ready_since: since("Ready", "True"),
        unready_since,
        has_failed,
        is_leaving: pod.metadata.deletion_timestamp.is_some(),
        was_sized: annotations.is_some_and(|all| all.contains_key(SIZED_ANNOTATION)),
        containers: containers.collect(),
    })
}

/// Reads a container of a pod's spec.
pub fn container_record(container: &Container) -> ContainerRecord {
    let resources = container.resources.as_ref();
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    let limits = resources.and_then(|resources| resources.limits.as_ref());
    let cpu = |amounts: Option<&Amounts>| {
        amounts.and_then(|amounts| amounts.get("cpu")).and_then(|cpu| cores(cpu).ok())
    };
    let memory = |amounts: Option<&Amounts>| {
        amounts.and_then(|amounts| amounts.get("memory")).and_then(|bytes| memory_bytes(bytes).ok())
    };
    ContainerRecord {
        name: container.name.clone(),
        cpu_request: cpu(requests),
        memory_request: memory(requests),
        cpu_limit: cpu(limits),
        memory_limit: memory(limits),
        oom_killed_at: None,
    }
}

fn resize_state(pod: &Pod) -> Option<ResizeState> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = |kind: &str| {
        conditions.iter().find(|condition| condition.type_ == kind && condition.status == "True")
    };
    if let Some(pending) = condition("PodResizePending") {
        let since = pending.last_transition_time.as_ref().map_or(SimTime::ZERO, time);
        let is_infeasible = pending.reason.as_deref() == Some("Infeasible");
        let deferred = ResizeState::Deferred { since };
        return Some(if is_infeasible { ResizeState::Infeasible } else { deferred });
    }
    let underway = condition("PodResizeInProgress")?;
    let since = underway.last_transition_time.as_ref().map_or(SimTime::ZERO, time);
    Some(ResizeState::Underway { since })
}

/// Whether a container terminated since a pod became unready, or shortly before.
fn has_ended_since(pod: &Pod, unready: SimTime) -> bool {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let states = statuses.flat_map(|status| [&status.state, &status.last_state]);
    let ends = states.filter_map(|state| state.as_ref()?.terminated.as_ref()?.finished_at.as_ref());
    ends.into_iter().any(|end| time(end) + MAX_REPORT_DELAY >= unready)
}

/// A container terminates at most this long before its pod becomes unready.
const MAX_REPORT_DELAY: SimDuration = SimDuration::from_secs(10);

type Amounts = BTreeMap<String, Quantity>;

fn oom_kills(pod: &Pod) -> BTreeMap<&str, SimTime> {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    statuses
        .filter_map(|status| {
            let ended = status.last_state.as_ref()?.terminated.as_ref()?;
            let is_oom = ended.reason.as_deref() == Some("OOMKilled");
            is_oom.then(|| {
                (status.name.as_str(), ended.finished_at.as_ref().map_or(SimTime::ZERO, time))
            })
        })
        .collect()
}

fn time(time: &Time) -> SimTime {
    SimTime::from_nanos(u64::try_from(time.0.as_nanosecond()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "checkout-1", "creationTimestamp": "2026-11-01T10:00:00Z",
                "managedFields": [], "annotations": {"long": "text"}},
            "spec": {"containers": [
                {"name": "app", "image": "checkout", "env": [{"name": "A", "value": "b"}],
                 "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}}},
                {"name": "proxy", "image": "proxy"}]},
            "status": {"phase": "Running", "startTime": "2026-11-01T10:00:05Z",
                "conditions": [{"type": "Ready", "status": "True",
                    "lastTransitionTime": "2026-11-01T10:00:20Z"}],
                "containerStatuses": [{"name": "app", "image": "", "imageID": "", "ready": true,
                    "restartCount": 1, "lastState": {"terminated": {"exitCode": 137,
                        "reason": "OOMKilled", "finishedAt": "2026-11-01T10:00:15Z"}}}]},
        }))
        .expect("valid")
    }

    #[test]
    fn the_needed_fields_are_read() {
        let pod = record(&pod()).expect("it runs");
        assert_eq!(pod.name, "checkout-1");
        let ready = pod.ready_since.expect("it is ready");
        assert_eq!(ready.saturating_since(pod.started).seconds(), 15.0);
        assert_eq!(pod.containers[0].cpu_request, Some(Millicores::new(500)));
        assert!(pod.containers[0].oom_killed_at.is_some());
        assert_eq!(pod.containers[1].cpu_request, None);
    }

    #[test]
    fn conditions_show_the_state_of_a_resize() {
        let check = |kind: &str, reason: &str, expect: Option<ResizeState>| {
            let mut pod = pod();
            let condition = serde_json::from_value(json!({"type": kind, "status": "True",
                "reason": reason, "lastTransitionTime": "1970-01-01T00:00:07Z"}));
            let conditions = &mut pod.status.as_mut().expect("it has one").conditions;
            conditions.get_or_insert_default().push(condition.expect("valid"));
            assert_eq!(record(&pod).expect("it runs").resize, expect, "{kind} {reason}");
        };
        let since = SimTime::ZERO + homeostat_core::SimDuration::from_secs(7);
        check("PodResizePending", "Deferred", Some(ResizeState::Deferred { since }));
        check("PodResizePending", "Infeasible", Some(ResizeState::Infeasible));
        check("PodResizeInProgress", "", Some(ResizeState::Underway { since }));
        check("PodScheduled", "", None);
    }

    #[test]
    fn a_pod_has_failed_if_a_container_terminated_and_not_if_it_is_busy_or_starts() {
        let failed = |kind: &str, since: &str| {
            let mut pod = pod();
            let condition = serde_json::from_value(
                json!({"type": kind, "status": "False", "lastTransitionTime": since}),
            );
            let status = pod.status.as_mut().expect("it has one");
            status.conditions = Some(vec![condition.expect("valid")]);
            let pod = record(&pod).expect("it runs");
            assert!(pod.unready_since.is_some());
            pod.has_failed
        };
        // Its container was killed at 10:00:15.
        assert!(failed("Ready", "2026-11-01T10:00:05Z"));
        assert!(failed("Ready", "2026-11-01T10:00:16Z"));
        assert!(!failed("Ready", "2026-11-01T12:00:00Z"));
        assert!(failed("PodScheduled", "2026-11-01T12:00:00Z"));
    }

    #[test]
    fn a_terminated_pod_does_not_count() {
        let mut ended = pod();
        ended.status.as_mut().expect("it has one").phase = Some("Failed".to_owned());
        assert_eq!(record(&ended), None);
    }
}
