//! Chooses the pods that are resized or evicted next. PodDisruptionBudgets apply in addition: the API
//! server refuses an eviction that would violate one.

use homeostat_core::{Bytes, Millicores, SimDuration, SimTime};
use homeostat_decide::{CanaryConfig, Share};

use super::blocked::Blocked;
use super::sizes::{Sizes, WantedSizes, fits, within_tolerance};
use crate::api::{Mode, Plan, UpdateMode};

/// While the webhook seems to be down, one eviction is tried at this interval.
const RETRY_AFTER: SimDuration = SimDuration::from_secs(60);

const HOUR: SimDuration = SimDuration::from_secs(3600);

/// A failed pod that is unready for this long does not recover by itself.
const MAX_FAILED_TIME: SimDuration = SimDuration::from_secs(60);

/// A pod that is unready for this long is neither just starting nor overloaded for a moment.
const MAX_UNREADY_TIME: SimDuration = SimDuration::from_secs(300);

/// A pod as the choice sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct PodView {
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created: SimTime,
    /// Since when it has been ready; none if it is not.
    pub ready_since: Option<SimTime>,
    /// Since when it has not been ready, if it is not.
    pub unready_since: Option<SimTime>,
    /// Whether it is unready because it failed, not because it starts or is overloaded.
    pub has_failed: bool,
    /// Whether it is already being resized or deleted.
    pub is_changing: bool,
    /// Whether the admission webhook sized it when it was created.
    pub was_sized: bool,
    /// Whether the server or its node refuses to resize it in place.
    pub cannot_resize: bool,
    /// What its containers request.
    pub sizes: Sizes,
}

/// The progress of the rollout of one recommendation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rollout {
    /// Evictions of the last hour.
    pub evictions: Vec<SimTime>,
    /// Since when the canaries have had the wanted size, in mode `Canary`.
    pub canary_since: Option<SimTime>,
}

/// A change of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodStep {
    /// Resize it in place.
    Resize(String),
    /// Evict it, so that a new pod replaces it.
    Evict(String),
}

/// The inputs of the choice.
pub struct NextPods<'a> {
    /// The time.
    pub now: SimTime,
    /// Minute of the week, from Monday 00:00 UTC.
    pub minute_of_week: u32,
    /// The plan.
    pub plan: &'a Plan,
    /// The wanted sizes.
    pub wanted: &'a WantedSizes,
    /// The pods.
    pub pods: &'a [PodView],
    /// The desired number of pods.
    pub replicas: u32,
    /// Whether the server can resize pods in place.
    pub can_resize: bool,
    /// Whether there is a webhook that the API server does not know yet.
    pub is_webhook_unknown: bool,
    /// Whether the SLO is met; none if that is not known.
    pub is_slo_met: Option<bool>,
    /// The progress so far.
    pub rollout: &'a Rollout,
}

impl NextPods<'_> {
    /// The number of pods that have the wanted size and stay.
    pub fn updated(&self) -> u32 {
        let is_done = |pod: &&PodView| !pod.is_changing && pod.is_updated(self.wanted);
        self.pods.iter().filter(is_done).count() as u32
    }

    /// Since when the canaries have had the wanted size, in mode `Canary`: none before the first pod
    /// has it and after the last one does. Observations of another size do not count.
    pub fn canary_since(&self) -> Option<SimTime> {
        let is_outdated = !self.outdated().is_empty();
        let is_over = !is_outdated && self.underway() == 0;
        if self.plan.mode != Mode::Canary || self.updated() == 0 || is_over {
            return None;
        }
        // Pods that are merely replaced are no canaries.
        self.rollout.canary_since.or(is_outdated.then_some(self.now))
    }

    /// Whether a container of a pod would get less than it has.
    fn shrinks(&self) -> bool {
        let is_less = |wanted: Option<u64>, has: u64| {
            wanted.is_some_and(|wanted| *within_tolerance(wanted).end() < has)
        };
        self.outdated().iter().any(|pod| {
            self.wanted.iter().any(|(name, wanted)| {
                pod.sizes.get(name).is_some_and(|(cpu, memory)| {
                    is_less(wanted.cpu.map(Millicores::millicores), cpu.millicores())
                        || is_less(wanted.memory.map(Bytes::bytes), memory.bytes())
                })
            })
        })
    }

    fn outdated(&self) -> Vec<&PodView> {
        let is_outdated = |pod: &&PodView| !pod.is_changing && !pod.is_updated(self.wanted);
        self.pods.iter().filter(is_outdated).collect()
    }

    /// Outdated pods that are down: changing them disrupts nothing, and their size may be the cause.
    fn down(&self) -> u32 {
        self.outdated().iter().filter(|pod| pod.is_down(self.now)).count() as u32
    }

    /// Pods that are being changed, or do not exist yet.
    fn underway(&self) -> u32 {
        let changing = self.pods.iter().filter(|pod| pod.is_changing).count() as u32;
        changing + self.replicas.saturating_sub(self.pods.len() as u32)
    }
}

impl PodView {
    /// Whether it serves no requests and does not recover by itself.
    fn is_down(&self, now: SimTime) -> bool {
        let long = if self.has_failed { MAX_FAILED_TIME } else { MAX_UNREADY_TIME };
        self.unready_since.is_some_and(|since| since + long <= now)
    }

    /// Whether it has the wanted size. A pod whose node refuses a resize requests the wanted size,
    /// but has the old one.
    fn is_updated(&self, wanted: &WantedSizes) -> bool {
        fits(&self.sizes, wanted) && !self.cannot_resize
    }
}

/// The pods to change next, and why the others have to wait.
pub fn next_pods(inputs: &NextPods<'_>) -> (Vec<PodStep>, Option<Blocked>) {
    let plan = inputs.plan;
    let mut outdated = inputs.outdated();
    if outdated.is_empty() {
        return (Vec::new(), None);
    }
    let can_resize = outdated.iter().any(|pod| !pod.cannot_resize);
    // While the others are resized, a pod that is down and cannot be resized would wait.
    let is_lost = |pod: &&PodView| pod.cannot_resize && pod.is_down(inputs.now);
    let some_are_lost = outdated.iter().any(is_lost);
    let by_eviction = match (plan.update_mode, inputs.can_resize) {
        (UpdateMode::Initial, _) => return (Vec::new(), Some(Blocked::InitialOnly)),
        (UpdateMode::InPlace, false) => return (Vec::new(), Some(Blocked::CannotResize)),
        (UpdateMode::InPlace, true) if !can_resize => {
            return (Vec::new(), Some(Blocked::ResizeRefused));
        }
        (UpdateMode::Recreate, _) | (UpdateMode::InPlaceOrRecreate, false) => true,
        // Pods that can be resized come first; the remaining ones are evicted.
        (UpdateMode::InPlaceOrRecreate, true) => !can_resize || some_are_lost,
        (UpdateMode::InPlace, true) => false,
    };
    if !by_eviction {
        outdated.retain(|pod| !pod.cannot_resize);
    } else if inputs.can_resize && plan.update_mode == UpdateMode::InPlaceOrRecreate && can_resize {
        outdated.retain(is_lost);
    }
    if !matches!(plan.mode, Mode::Auto | Mode::Canary) {
        return (Vec::new(), Some(Blocked::Mode));
    }
    if !plan.is_maintenance(inputs.minute_of_week) {
        return (Vec::new(), Some(Blocked::OutsideMaintenance));
    }
    let Room { pods: max, serving, mut blocked } = match room(inputs, by_eviction) {
        Ok(room) => room,
        Err(blocked) => return (Vec::new(), Some(blocked)),
    };

    // A pod that is not ready serves no requests: replacing it costs nothing.
    let is_old_enough = |pod: &&&PodView| {
        pod.ready_since.is_none_or(|since| since + plan.disruption.min_pod_age <= inputs.now)
    };
    let mut candidates: Vec<&&PodView> = outdated.iter().filter(is_old_enough).collect();
    if candidates.is_empty() {
        return (Vec::new(), Some(Blocked::TooYoung));
    }
    candidates.sort_by_key(|pod| {
        (pod.ready_since, !pod.is_down(inputs.now), pod.unready_since, &pod.name)
    });
    let down = candidates.iter().filter(|pod| pod.ready_since.is_none()).count() as u32;
    let max = max.min(down.saturating_add(serving));
    if max == 0 {
        return (Vec::new(), Some(blocked));
    }
    if candidates.len() < outdated.len() && candidates.len() as u32 <= max {
        blocked = Blocked::TooYoung;
    }
    let step = |pod: &&&PodView| {
        let name = pod.name.clone();
        if by_eviction { PodStep::Evict(name) } else { PodStep::Resize(name) }
    };
    let is_cut = candidates.len() as u32 > max;
    let steps = candidates.iter().take(max as usize).map(step).collect();
    (steps, (is_cut || blocked == Blocked::TooYoung).then_some(blocked))
}

/// How many pods may be changed now.
struct Room {
    pods: u32,
    /// How many of them may be serving requests.
    serving: u32,
    /// What blocks further pods.
    blocked: Blocked,
}

fn room(inputs: &NextPods<'_>, by_eviction: bool) -> Result<Room, Blocked> {
    let NextPods { now, plan, pods, rollout, .. } = *inputs;
    let max = pods_of(plan.disruption.max_unavailable, inputs.replicas);
    let ready = pods.iter().filter(|pod| pod.ready_since.is_some() && !pod.is_changing).count();
    let unavailable = inputs.replicas.saturating_sub(ready as u32);
    let mut blocked = Blocked::Unavailable { max };
    let serving = max.saturating_sub(unavailable);
    let mut room = max.saturating_sub(unavailable.saturating_sub(inputs.down()));
    if room == 0 {
        return Err(blocked);
    }
    if by_eviction {
        if inputs.is_webhook_unknown {
            return Err(Blocked::WebhookUnknown);
        }
        let recent: Vec<_> = rollout.evictions.iter().filter(|at| **at + HOUR > now).collect();
        let allowed = plan.disruption.evictions_per_hour;
        let left = allowed.saturating_sub(recent.len() as u32);
        if left < room {
            let oldest = recent.iter().min().map_or(HOUR, |at| (**at + HOUR).saturating_since(now));
            blocked = Blocked::EvictionRate { max: allowed, remaining: oldest };
            room = left;
        }
        if room == 0 {
            return Err(blocked);
        }
        // A slow webhook may have missed a single pod. It is down only if it missed the latest ones;
        // then one eviction is tried from time to time.
        let first = recent.iter().min();
        let latest = |is_unsized: bool| {
            let new = pods.iter().filter(|pod| first.is_some_and(|at| pod.created > **at));
            let is_so =
                |pod: &&PodView| is_unsized == (!pod.was_sized && !fits(&pod.sizes, inputs.wanted));
            new.filter(is_so).map(|pod| pod.created).max()
        };
        if latest(true) > latest(false) {
            let last = recent.iter().max().map(|at| **at);
            if last.is_some_and(|last| now < last + RETRY_AFTER) {
                return Err(Blocked::NotSizedAtCreation);
            }
            room = room.min(1);
        }
    }
    if plan.mode == Mode::Canary {
        let CanaryConfig { share, watch, .. } = plan.canary;
        // A pod that is being replaced is already a canary, although its size is not visible yet.
        let begun = inputs.updated() + inputs.underway();
        let first = pods_of(share, inputs.replicas);
        if begun < first {
            room = room.min(first - begun);
            blocked = Blocked::Canary { remaining: watch };
        } else {
            // Larger sizes cannot be the cause of a violation, and may be the remedy.
            if inputs.is_slo_met == Some(false) && inputs.shrinks() {
                return Err(Blocked::CanaryFailed);
            }
            let until = inputs.canary_since().unwrap_or(now) + watch;
            if now < until {
                return Err(Blocked::Canary { remaining: until.saturating_since(now) });
            }
        }
    }
    Ok(Room { pods: room, serving, blocked })
}

pub(super) fn pods_of(share: Share, pods: u32) -> u32 {
    u32::try_from(share.of(pods.into())).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::cell::Cell;
    use std::collections::BTreeMap;

    fn plan(policy: Value, mode: &str) -> Plan {
        let spec = json!({
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "checkout"},
            "mode": mode,
            "policy": policy,
            "constraints": {"global": {"maxReplicas": 100}},
        });
        Plan::try_new(&serde_json::from_value(spec).expect("valid")).expect("valid")
    }

    fn sizes(millicores: u64) -> Sizes {
        let size = (Millicores::new(millicores), Bytes::from_mib(128));
        BTreeMap::from([("app".to_owned(), size)])
    }

    fn wanted(millicores: u64) -> WantedSizes {
        let size = (Millicores::new(millicores), Bytes::from_mib(128));
        BTreeMap::from([("app".to_owned(), size.into())])
    }

    fn at(seconds: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_secs(100_000 + seconds)
    }

    /// Ten pods, the first `updated` of them with the wanted size already.
    fn pods(updated: usize) -> Vec<PodView> {
        let pod = |place| PodView {
            name: format!("pod-{place}"),
            created: SimTime::ZERO,
            was_sized: false,
            cannot_resize: false,
            ready_since: Some(SimTime::ZERO),
            unready_since: None,
            has_failed: false,
            is_changing: false,
            sizes: sizes(if place < updated { 250 } else { 500 }),
        };
        (0..10).map(pod).collect()
    }

    /// What is next for pods that should have 250m. By default the server cannot resize pods and
    /// knows the webhook, and the SLO is met; `change` may change that.
    fn next_after(
        plan: &Plan,
        pods: &[PodView],
        rollout: &Rollout,
        change: impl Fn(&mut NextPods<'_>),
    ) -> (Vec<PodStep>, Option<Blocked>) {
        let mut inputs = NextPods {
            now: at(0),
            minute_of_week: 0,
            plan,
            wanted: &wanted(250),
            pods,
            replicas: 10,
            can_resize: false,
            is_webhook_unknown: false,
            is_slo_met: Some(true),
            rollout,
        };
        change(&mut inputs);
        next_pods(&inputs)
    }

    fn next(plan: &Plan, pods: &[PodView], rollout: &Rollout) -> (usize, String) {
        let (steps, blocked) = next_after(plan, pods, rollout, |_| {});
        (steps.len(), blocked.map(|blocked| blocked.to_string()).unwrap_or_default())
    }

    #[test]
    fn no_more_pods_change_at_once_than_may_be_unavailable() {
        let plan = plan(json!({"disruption": {"maxUnavailable": "20%"}}), "Auto");
        let mut pods = pods(0);
        let limit = "at most 2 pods may be unavailable at once";
        assert_eq!(next(&plan, &pods, &Rollout::default()), (2, limit.to_owned()));
        pods[7].ready_since = None;
        assert_eq!(next(&plan, &pods, &Rollout::default()), (1, limit.to_owned()));
        pods[8].is_changing = true;
        assert_eq!(next(&plan, &pods, &Rollout::default()), (0, limit.to_owned()));
    }

    #[test]
    fn failed_pods_do_not_block_their_own_replacement() {
        let disruption = json!({"maxUnavailable": "20%"});
        let in_place = plan(json!({"updateMode": "InPlace", "disruption": disruption}), "Auto");
        let plan = plan(json!({"disruption": disruption}), "Auto");
        let (mut pods, mut refused) = (pods(0), pods(0));
        let steps = |pods: &[PodView]| next_after(&plan, pods, &Rollout::default(), |_| {}).0;
        let evict = |place: usize| PodStep::Evict(format!("pod-{place}"));
        let fails = |pod: &mut PodView| {
            (pod.ready_since, pod.unready_since) = (None, Some(SimTime::ZERO));
        };
        fails(&mut pods[7]);
        assert_eq!(steps(&pods), [evict(7), evict(0)]);
        // A pod that has just crashed and restarts is unavailable too, but is not replaced yet.
        (pods[3].ready_since, pods[3].unready_since) = (None, Some(at(0)));
        pods[3].has_failed = true;
        assert_eq!(steps(&pods), [evict(7)]);
        pods.iter_mut().for_each(fails);
        assert_eq!(steps(&pods), [evict(0), evict(1)]);
        // Those two are being replaced: the others wait for the result.
        pods[..2].iter_mut().for_each(|pod| pod.is_changing = true);
        assert_eq!(steps(&pods), []);
        // Pods that cannot be resized are replaced before others are resized, if the update mode
        // allows; otherwise no serving pod changes while the maximum is down.
        for pod in &mut refused[..2] {
            fails(pod);
            pod.cannot_resize = true;
        }
        let resizes = |inputs: &mut NextPods<'_>| inputs.can_resize = true;
        let steps = |plan: &Plan| next_after(plan, &refused, &Rollout::default(), resizes).0;
        assert_eq!(steps(&plan), [evict(0), evict(1)]);
        assert_eq!(steps(&in_place), []);
    }

    #[test]
    fn while_new_pods_have_the_old_size_one_eviction_is_tried_at_an_interval() {
        let plan = plan(json!({"disruption": {"maxUnavailable": "5"}}), "Auto");
        let mut pods = pods(0);
        let evicted = |ago: u64| Rollout {
            evictions: vec![SimTime::ZERO + SimDuration::from_secs(100_000 - ago)],
            ..Rollout::default()
        };
        pods[3].created = SimTime::ZERO + SimDuration::from_secs(99_995);
        let silent = "new pods after an eviction have the old size: is the admission webhook up?";
        assert_eq!(next(&plan, &pods, &evicted(30)), (0, silent.to_owned()));
        assert_eq!(next(&plan, &pods, &evicted(90)).0, 1);
        // A later one was sized: the webhook missed only the other.
        pods[4].created = at(0);
        pods[4].was_sized = true;
        pods[4].sizes = sizes(250);
        assert_eq!(next(&plan, &pods, &evicted(30)).0, 5);
    }

    #[test]
    fn no_pod_is_evicted_before_the_server_knows_the_webhook() {
        let plan = plan(json!({}), "Auto");
        let (pods, rollout) = (pods(0), Rollout::default());
        let unknown = |inputs: &mut NextPods<'_>| inputs.is_webhook_unknown = true;
        let none = next_after(&plan, &pods, &rollout, unknown);
        assert_eq!(none, (Vec::new(), Some(Blocked::WebhookUnknown)));
        // A resize in place does not need it.
        let resizes = |inputs: &mut NextPods<'_>| {
            unknown(inputs);
            inputs.can_resize = true;
        };
        let (steps, _) = next_after(&plan, &pods, &rollout, resizes);
        assert!(matches!(steps[0], PodStep::Resize(_)));
    }

    #[test]
    fn a_pod_that_is_not_ready_is_first() {
        let plan = plan(json!({"disruption": {"maxUnavailable": "5"}}), "Auto");
        let mut pods = pods(0);
        pods[6].ready_since = None;
        let rollout = Rollout::default();
        let (steps, _) = next_after(&plan, &pods, &rollout, |inputs| inputs.can_resize = true);
        assert_eq!(steps[0], PodStep::Resize("pod-6".to_owned()));
        assert_eq!(steps.len(), 4);
    }

    #[test]
    fn only_pods_that_cannot_be_resized_are_evicted_and_only_if_the_update_mode_allows() {
        let steps = |update_mode: &str, pods: &[PodView]| {
            let disruption = json!({"maxUnavailable": "5"});
            let policy = json!({"updateMode": update_mode, "disruption": disruption});
            let plan = plan(policy, "Auto");
            let rollout = Rollout::default();
            next_after(&plan, pods, &rollout, |inputs| inputs.can_resize = true)
        };
        let mut pods = pods(9);
        // The node refused the size that the spec of the first already has.
        pods[0].cannot_resize = true;
        let resized = vec![PodStep::Resize("pod-9".to_owned())];
        assert_eq!(steps("InPlaceOrRecreate", &pods), (resized.clone(), None));
        assert_eq!(steps("InPlace", &pods), (resized, None));
        pods[9].sizes = sizes(250);
        let evicted = vec![PodStep::Evict("pod-0".to_owned())];
        assert_eq!(steps("InPlaceOrRecreate", &pods), (evicted, None));
        assert_eq!(steps("InPlace", &pods), (Vec::new(), Some(Blocked::ResizeRefused)));
    }

    #[test]
    fn evictions_are_limited_per_hour() {
        let policy = json!({"disruption": {"maxUnavailable": "50%", "evictionsPerHour": 3}});
        let plan = plan(policy, "Auto");
        let rollout = |seconds: &[u64]| Rollout {
            evictions: seconds
                .iter()
                .map(|ago| SimTime::ZERO + SimDuration::from_secs(100_000 - ago))
                .collect(),
            canary_since: None,
        };
        assert_eq!(next(&plan, &pods(0), &rollout(&[3700])).0, 3);
        assert_eq!(next(&plan, &pods(0), &rollout(&[3500, 10])).0, 1);
        let full = next(&plan, &pods(0), &rollout(&[3500, 10, 5]));
        assert_eq!(full, (0, "at most 3 evictions per hour, the next in 100s".to_owned()));
    }

    #[test]
    fn a_canary_is_first_and_is_observed() {
        let policy = json!({"disruption": {"maxUnavailable": "50%"}, "canary": {"pods": "2", "watch": "5m"}});
        let plan = plan(policy, "Canary");
        assert_eq!(next(&plan, &pods(0), &Rollout::default()).0, 2);
        assert_eq!(next(&plan, &pods(1), &Rollout::default()).0, 1);
        let mut leaving = pods(0);
        leaving[0].is_changing = true;
        leaving.remove(1);
        assert_eq!(next(&plan, &leaving, &Rollout::default()).0, 0);
        let since = |seconds: u64| Rollout {
            canary_since: Some(SimTime::ZERO + SimDuration::from_secs(100_000 - seconds)),
            ..Rollout::default()
        };
        let watched = "the canaries are observed for another 200s";
        assert_eq!(next(&plan, &pods(2), &since(100)), (0, watched.to_owned()));
        assert_eq!(next(&plan, &pods(2), &since(300)).0, 5);
    }

    #[test]
    fn an_slo_violation_stops_smaller_sizes_after_the_canary_and_not_larger_ones() {
        let policy = json!({"disruption": {"maxUnavailable": "50%"}, "canary": {"pods": "2", "watch": "5m"}});
        let plan = plan(policy, "Canary");
        let watched = Rollout { canary_since: Some(SimTime::ZERO), ..Rollout::default() };
        let next = |pods: &[PodView]| {
            next_after(&plan, pods, &watched, |inputs| inputs.is_slo_met = Some(false))
        };
        assert_eq!(next(&pods(2)), (Vec::new(), Some(Blocked::CanaryFailed)));
        let mut smaller = pods(2);
        for pod in &mut smaller[2..] {
            pod.sizes = sizes(100);
        }
        assert_eq!(next(&smaller).0.len(), 5);
    }

    #[test]
    fn another_size_in_the_middle_of_a_rollout_is_observed_again() {
        let policy = json!({"disruption": {"maxUnavailable": "50%"}, "canary": {"pods": "2", "watch": "5m"}});
        let plan = plan(policy, "Canary");
        let began = SimTime::ZERO + SimDuration::from_secs(90_000);
        let earlier = Rollout { canary_since: Some(began), ..Rollout::default() };
        let since = |pods: &[PodView], rollout: &Rollout| {
            let since = Cell::new(None);
            next_after(&plan, pods, rollout, |inputs| since.set(inputs.canary_since()));
            since.get()
        };
        // No pod has it: the observed ones had another size.
        let mut none_yet = pods(0);
        assert_eq!(next(&plan, &none_yet, &earlier).0, 2);
        assert_eq!(since(&none_yet, &earlier), None);
        none_yet[0].is_changing = true;
        none_yet[1].is_changing = true;
        let watched = "the canaries are observed for another 300s";
        assert_eq!(next(&plan, &none_yet, &earlier), (0, watched.to_owned()));
        // The first pod has it, then others, then all.
        assert_eq!(since(&pods(1), &Rollout::default()), Some(at(0)));
        assert_eq!(since(&pods(5), &earlier), Some(began));
        assert_eq!(since(&pods(10), &earlier), None);
        let mut one_leaves = pods(10);
        one_leaves[3].is_changing = true;
        assert_eq!(since(&one_leaves, &Rollout::default()), None);
    }

    #[test]
    fn the_reason_why_nothing_changes_is_given() {
        let check = |policy: Value, mode: &str, expect: &str| {
            let (steps, blocked) = next(&plan(policy, mode), &pods(0), &Rollout::default());
            assert_eq!(steps, 0);
            assert!(blocked.contains(expect), "{blocked}");
        };
        check(json!({}), "Recommend", "the mode changes nothing");
        check(json!({"updateMode": "Initial"}), "Auto", "new pods only");
        check(json!({"updateMode": "InPlace"}), "Auto", "cannot resize");
        let window = json!([{"days": ["Tue"], "from": "02:00", "to": "04:00"}]);
        check(json!({"maintenance": window}), "Auto", "maintenance window");
        check(json!({"disruption": {"minPodAge": "100d"}}), "Auto", "younger than minPodAge");
    }

    #[test]
    fn a_small_difference_is_no_reason_to_restart() {
        let plan = plan(json!({}), "Auto");
        let mut pods = pods(10);
        pods[0].sizes = sizes(260);
        assert_eq!(next(&plan, &pods, &Rollout::default()), (0, String::new()));
    }
}
