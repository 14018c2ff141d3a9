//! What the updater remembers of one object.

use std::collections::{BTreeMap, BTreeSet};

use homeostat_autoscaler::api::Rollout as RolloutStatus;
use homeostat_autoscaler::update::{PodView, Sizes, WantedSizes, fits};
use homeostat_autoscaler::workload::{ContainerRecord, PodRecord, ResizeState};
use homeostat_core::{SimDuration, SimTime};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::update::Refusal;
use crate::controllers::countdown::without_countdown;

/// A message whose remaining seconds have changed is written again after this time.
const REWRITE_AFTER: SimDuration = SimDuration::from_secs(60);

/// The cache shows a change of a pod within this time, or the change had no effect.
const SEEN_AFTER: SimDuration = SimDuration::from_secs(30);

/// A resize that a node has deferred, or has not finished, for this long has failed.
const MAX_DEFERRED: SimDuration = SimDuration::from_secs(300);

/// State of one object. It may be lost, since the status and the cluster tell what was done; but
/// the caches lag behind both, and without this state a change would be made twice.
#[derive(Default)]
pub(super) struct Slot {
    /// Time and replicas of the last recommendation that was applied: two recommendations of the
    /// same second may differ.
    pub(super) scaled_for: Option<(SimTime, u32)>,
    /// What was done, even if it could not be written.
    pub(super) known: Option<Part>,
    /// What was written last, and when.
    pub(super) written: Option<(Part, SimTime)>,
    /// Pods that were evicted or resized, by uid, and when.
    pub(super) changed: BTreeMap<String, SimTime>,
    /// When and why the server last refused a step.
    pub(super) refused_at: Option<(SimTime, Refusal)>,
    pub(super) not_resizable: NotResizable,
}

/// Pods that the server refuses to resize to these sizes, by uid.
#[derive(Default)]
pub(super) struct NotResizable {
    pub(super) sizes: WantedSizes,
    pub(super) pods: BTreeSet<String>,
}

impl Slot {
    /// The pods as they will be when the cache shows all changes.
    pub(super) fn views(
        &mut self,
        pods: &[PodRecord],
        wanted: &WantedSizes,
        now: SimTime,
    ) -> Vec<PodView> {
        if self.not_resizable.sizes != *wanted {
            self.not_resizable = NotResizable { sizes: wanted.clone(), pods: BTreeSet::new() };
        }
        self.changed.retain(|_, at| now < *at + SEEN_AFTER);
        let not_resizable = &self.not_resizable.pods;
        let changed = &mut self.changed;
        let view = |pod: &PodRecord| {
            let sizes = sizes(pod);
            let fits = fits(&sizes, wanted);
            if pod.is_leaving || fits {
                changed.remove(&pod.uid);
            }
            let is_stuck = match pod.resize {
                Some(ResizeState::Infeasible) => fits,
                Some(ResizeState::Deferred { since } | ResizeState::Underway { since }) => {
                    fits && since + MAX_DEFERRED <= now
                }
                None => false,
            };
            // A resize to an outdated size may be replaced by one to this size.
            let is_underway = matches!(pod.resize, Some(ResizeState::Underway { .. }));
            PodView {
                name: pod.name.clone(),
                created: pod.started,
                ready_since: pod.ready_since,
                unready_since: pod.unready_since,
                has_failed: pod.has_failed,
                is_changing: pod.is_leaving
                    || (is_underway && fits && !is_stuck)
                    || changed.contains_key(&pod.uid),
                was_sized: pod.was_sized,
                cannot_resize: is_stuck || not_resizable.contains(&pod.uid),
                sizes,
            }
        };
        pods.iter().map(view).collect()
    }

    /// Whether a part differs from what was written last.
    pub(super) fn is_change(&self, part: &Part, now: SimTime) -> bool {
        self.written.as_ref().is_none_or(|(written, at)| {
            written.without_countdown() != part.without_countdown()
                || (written != part && *at + REWRITE_AFTER <= now)
        })
    }
}

/// The updater's part of a status.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Part {
    pub(super) last_scale_time: Option<Time>,
    pub(super) rollout: RolloutStatus,
}

impl Part {
    fn without_countdown(&self) -> Self {
        let mut part = self.clone();
        part.rollout.acting = part.rollout.acting.as_ref().map(without_countdown);
        part
    }
}

fn sizes(pod: &PodRecord) -> Sizes {
    let size = |container: &ContainerRecord| {
        let cpu = container.cpu_request.unwrap_or_default();
        (container.name.clone(), (cpu, container.memory_request.unwrap_or_default()))
    };
    pod.containers.iter().map(size).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_autoscaler::api::{Acting, ConditionReason};
    use homeostat_core::{Bytes, Millicores};

    fn pod(uid: &str, millicores: u64) -> PodRecord {
        let container = ContainerRecord {
            name: "app".to_owned(),
            cpu_request: Some(Millicores::new(millicores)),
            memory_request: Some(Bytes::from_mib(64)),
            cpu_limit: None,
            memory_limit: None,
            oom_killed_at: None,
        };
        PodRecord {
            name: "checkout-0".to_owned(),
            uid: uid.to_owned(),
            started: SimTime::ZERO,
            ready_since: Some(SimTime::ZERO),
            unready_since: None,
            has_failed: false,
            is_leaving: false,
            was_sized: false,
            resize: None,
            containers: vec![container],
        }
    }

    fn wanted() -> WantedSizes {
        let size = (Millicores::new(250), Bytes::from_mib(64));
        WantedSizes::from([("app".to_owned(), size.into())])
    }

    fn at(seconds: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_secs(seconds)
    }

    #[test]
    fn a_change_counts_before_the_cache_shows_it() {
        let wanted = wanted();
        let mut slot = Slot::default();
        let is_changing = |slot: &mut Slot, pod: PodRecord, seconds: u64| {
            slot.views(&[pod], &wanted, at(seconds))[0].is_changing
        };
        assert!(!is_changing(&mut slot, pod("a", 500), 0));
        slot.changed.insert("a".to_owned(), at(0));
        assert!(is_changing(&mut slot, pod("a", 500), 1));
        // Another pod of the same name, as in a StatefulSet, was not changed.
        assert!(!is_changing(&mut slot, pod("b", 500), 2));
        // A pod that was resized shows it; one that never does is tried again.
        assert!(!is_changing(&mut slot, pod("a", 250), 3));
        slot.changed.insert("a".to_owned(), at(3));
        assert!(!is_changing(&mut slot, pod("a", 500), 33));
    }

    #[test]
    fn an_infeasible_resize_fails_at_once_and_a_deferred_one_after_a_while() {
        let wanted = wanted();
        let mut slot = Slot::default();
        let mut is_stuck = |millicores: u64, resize: ResizeState, seconds: u64| {
            let pod = PodRecord { resize: Some(resize), ..pod("a", millicores) };
            slot.views(&[pod], &wanted, at(seconds))[0].cannot_resize
        };
        assert!(is_stuck(250, ResizeState::Infeasible, 1));
        // The node refused another size than the one that is wanted now.
        assert!(!is_stuck(500, ResizeState::Infeasible, 1));
        assert!(!is_stuck(250, ResizeState::Deferred { since: at(0) }, 299));
        assert!(is_stuck(250, ResizeState::Deferred { since: at(0) }, 300));
        // A memory limit below the usage is never reached.
        assert!(!is_stuck(250, ResizeState::Underway { since: at(0) }, 299));
        assert!(is_stuck(250, ResizeState::Underway { since: at(0) }, 300));
    }

    #[test]
    fn a_resize_to_an_outdated_size_is_replaced() {
        let is_changing = |millicores: u64| {
            let resize = Some(ResizeState::Underway { since: at(0) });
            let pod = PodRecord { resize, ..pod("a", millicores) };
            Slot::default().views(&[pod], &wanted(), at(1))[0].is_changing
        };
        assert!(is_changing(250));
        assert!(!is_changing(500));
    }

    #[test]
    fn remaining_seconds_are_written_once_a_minute_and_pods_at_once() {
        let part = |updated: u32, seconds: u64| {
            let message = format!("the canaries are observed for another {seconds}s");
            let reason = ConditionReason::CanaryWatched.to_string();
            let acting = Some(Acting { is_acting: false, reason, message });
            let rollout = RolloutStatus { updated, acting, ..RolloutStatus::default() };
            Part { rollout, ..Part::default() }
        };
        let slot = Slot { written: Some((part(1, 290), at(0))), ..Slot::default() };
        assert!(!slot.is_change(&part(1, 285), at(5)));
        assert!(slot.is_change(&part(2, 285), at(5)));
        assert!(slot.is_change(&part(1, 230), at(60)));
        assert!(!slot.is_change(&part(1, 290), at(60)));
    }
}
