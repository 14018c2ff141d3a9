//! Which pods are resized or evicted next. Budgets of the cluster come on top: the API server
//! refuses an eviction that would break one.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use homeostat_core::{Bytes, Millicores, SimDuration, SimTime};

use crate::api::{ConditionType, Mode, MultidimPodAutoscalerStatus, Plan, UpdateMode};

/// While the webhook seems to be down, an eviction is tried this long after the last one.
const TRIED_AGAIN_AFTER: SimDuration = SimDuration::from_secs(60);

const HOUR: SimDuration = SimDuration::from_secs(3600);

/// A pod that failed and is not ready for this long does not get up by itself.
const FAILED_FOR_LONG: SimDuration = SimDuration::from_secs(60);

/// A pod that is not ready for this long does not merely start, or have too much to do for a moment.
const UNREADY_FOR_LONG: SimDuration = SimDuration::from_secs(300);

/// A request this near to the recommendation counts as the same: nobody restarts for a percent.
pub const TOLERANCE: f64 = 0.05;

/// CPU and memory that each container has.
pub type Sizes = BTreeMap<String, (Millicores, Bytes)>;

/// What each container should have; one that is not named is left as it is.
pub type WantedSizes = BTreeMap<String, WantedSize>;

/// What a container should have; a resource that is not wanted is left as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WantedSize {
    /// CPU.
    pub cpu: Option<Millicores>,
    /// Memory.
    pub memory: Option<Bytes>,
}

impl From<(Millicores, Bytes)> for WantedSize {
    fn from((cpu, memory): (Millicores, Bytes)) -> Self {
        Self { cpu: Some(cpu), memory: Some(memory) }
    }
}

/// What is known of a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct PodView {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created: SimTime,
    /// Since when it has been ready; none if it is not.
    pub ready_since: Option<SimTime>,
    /// Since when it has not been ready, if it is not.
    pub unready_since: Option<SimTime>,
    /// Whether it is not ready because it failed, and does not merely start or have too much to do.
    pub has_failed: bool,
    /// Whether it is being resized or deleted already.
    pub is_changing: bool,
    /// Whether the admission webhook sized it when it was made.
    pub was_sized: bool,
    /// Whether it cannot be resized where it is: the server or its node says no.
    pub cannot_resize: bool,
    /// What its containers request.
    pub sizes: Sizes,
}

/// What has been done so far of one recommendation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rollout {
    /// Evictions of the last hour.
    pub evictions: Vec<SimTime>,
    /// Since when the first pods have had the size that was wanted last, in mode `Canary`.
    pub canary_since: Option<SimTime>,
}

/// What is to be done with a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodStep {
    /// Resized where it is.
    Resize(String),
    /// Evicted, so that it is made anew.
    Evict(String),
}

/// Why nothing more is done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    /// The mode changes nothing.
    Mode,
    /// Only pods that start are sized.
    InitialOnly,
    /// The server cannot resize, and evictions are not wanted.
    CannotResize,
    /// The remaining pods cannot be resized where they are, and evictions are not wanted.
    ResizeRefused,
    /// A maintenance window is waited for.
    OutsideMaintenance,
    /// As many pods as may be are away.
    Unavailable {
        /// How many may be.
        most: u32,
    },
    /// As many evictions as may be in an hour were done.
    EvictionRate {
        /// How many may be.
        most: u32,
        /// When the next one may be, from now.
        remaining: SimDuration,
    },
    /// Pods are too young.
    TooYoung,
    /// The first pods are watched.
    Canary {
        /// For how long still.
        remaining: SimDuration,
    },
    /// The objective broke under the first pods.
    CanaryFailed,
    /// The server does not know the webhook yet: who is evicted would come back as before.
    WebhookUnknown,
    /// Pods that were made after an eviction have their old size: another one would do nothing
    /// but harm.
    NotSizedAtBirth,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mode => write!(f, "the mode changes nothing"),
            Self::InitialOnly => write!(f, "update mode Initial sizes new pods only"),
            Self::CannotResize => {
                write!(f, "the server cannot resize pods, and update mode InPlace evicts none")
            }
            Self::ResizeRefused => write!(
                f,
                "the remaining pods cannot be resized where they are, and update mode InPlace evicts none"
            ),
            Self::OutsideMaintenance => write!(f, "a maintenance window is waited for"),
            Self::Unavailable { most } => write!(f, "{most} pods at most may be away at once"),
            Self::EvictionRate { most, remaining } => write!(
                f,
                "{most} evictions at most in an hour, the next in {:.0}s",
                remaining.seconds()
            ),
            Self::TooYoung => write!(f, "the remaining pods are younger than leastPodAge"),
            Self::Canary { remaining } => {
                write!(f, "the first pods are watched for another {:.0}s", remaining.seconds())
            }
            Self::CanaryFailed => write!(f, "the objective broke under the first pods"),
            Self::WebhookUnknown => write!(
                f,
                "the server does not know the admission webhook yet, and evicted pods would come \
                 back with their old size: is there a webhook configuration?"
            ),
            Self::NotSizedAtBirth => write!(
                f,
                "pods come back from eviction with their old size: is the admission webhook up?"
            ),
        }
    }
}

/// Everything that the choice depends on.
pub struct NextPods<'a> {
    /// Now.
    pub now: SimTime,
    /// Minute of the week, from Monday 00:00 UTC.
    pub minute_of_week: u32,
    /// The plan.
    pub plan: &'a Plan,
    /// What containers should request.
    pub wanted: &'a WantedSizes,
    /// The pods.
    pub pods: &'a [PodView],
    /// Pods that there should be.
    pub replicas: u32,
    /// Whether the server can resize pods in place.
    pub can_resize: bool,
    /// Whether a webhook of ours is not known to the server yet.
    pub is_webhook_unknown: bool,
    /// Whether the objective is kept; none if it is not known.
    pub is_kept: Option<bool>,
    /// What has been done so far.
    pub rollout: &'a Rollout,
}

impl NextPods<'_> {
    /// Pods that have the recommended size and stay.
    pub fn updated(&self) -> u32 {
        let is_done = |pod: &&PodView| !pod.is_changing && pod.is_updated(self.wanted);
        self.pods.iter().filter(is_done).count() as u32
    }

    /// Since when the first pods have the wanted size, in mode `Canary`: none before anybody has
    /// it and once everybody does. Pods that were watched with another size prove nothing.
    pub fn canary_since(&self) -> Option<SimTime> {
        let is_outdated = !self.outdated().is_empty();
        let is_over = !is_outdated && self.underway() == 0;
        if self.plan.mode != Mode::Canary || self.updated() == 0 || is_over {
            return None;
        }
        // Where only pods come and go, nobody is the first.
        self.rollout.canary_since.or(is_outdated.then_some(self.now))
    }

    /// Whether somebody would get less than it has.
    fn shrinks(&self) -> bool {
        let is_less = |wanted: Option<u64>, has: u64| {
            wanted.is_some_and(|wanted| *around(wanted).end() < has)
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

    /// Pods of another size that are down: to change them takes nothing away, and that size may be
    /// why.
    fn down(&self) -> u32 {
        self.outdated().iter().filter(|pod| pod.is_down(self.now)).count() as u32
    }

    /// Pods that are on their way to another size, or do not exist yet.
    fn underway(&self) -> u32 {
        let changing = self.pods.iter().filter(|pod| pod.is_changing).count() as u32;
        changing + self.replicas.saturating_sub(self.pods.len() as u32)
    }
}

impl PodView {
    /// Whether it serves nobody, and will not by itself.
    fn is_down(&self, now: SimTime) -> bool {
        let long = if self.has_failed { FAILED_FOR_LONG } else { UNREADY_FOR_LONG };
        self.unready_since.is_some_and(|since| since + long <= now)
    }

    /// A pod whose node refuses a resize asks for the new size and has the old one.
    fn is_updated(&self, wanted: &WantedSizes) -> bool {
        fits(&self.sizes, wanted) && !self.cannot_resize
    }
}

/// The pods that are next, and what stops the others.
pub fn next_pods(inputs: &NextPods<'_>) -> (Vec<PodStep>, Option<Blocked>) {
    let plan = inputs.plan;
    let mut outdated = inputs.outdated();
    if outdated.is_empty() {
        return (Vec::new(), None);
    }
    let can_resize = outdated.iter().any(|pod| !pod.cannot_resize);
    // Who is down and cannot be resized would be waited for while others are.
    let is_lost = |pod: &&PodView| pod.cannot_resize && pod.is_down(inputs.now);
    let some_are_lost = outdated.iter().any(is_lost);
    let by_eviction = match (plan.update_mode, inputs.can_resize) {
        (UpdateMode::Initial, _) => return (Vec::new(), Some(Blocked::InitialOnly)),
        (UpdateMode::InPlace, false) => return (Vec::new(), Some(Blocked::CannotResize)),
        (UpdateMode::InPlace, true) if !can_resize => {
            return (Vec::new(), Some(Blocked::ResizeRefused));
        }
        (UpdateMode::Recreate, _) | (UpdateMode::InPlaceOrRecreate, false) => true,
        // Who can be resized comes first; evictions are for those who are left.
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
    let Room { pods: most, serving, mut blocked } = match room(inputs, by_eviction) {
        Ok(room) => room,
        Err(blocked) => return (Vec::new(), Some(blocked)),
    };

    // A pod that is not ready serves nobody: it costs nothing to make it anew.
    let is_old_enough = |pod: &&&PodView| {
        pod.ready_since.is_none_or(|since| since + plan.disruption.least_pod_age <= inputs.now)
    };
    let mut candidates: Vec<&&PodView> = outdated.iter().filter(is_old_enough).collect();
    if candidates.is_empty() {
        return (Vec::new(), Some(Blocked::TooYoung));
    }
    candidates.sort_by_key(|pod| {
        (pod.ready_since, !pod.is_down(inputs.now), pod.unready_since, &pod.name)
    });
    let down = candidates.iter().filter(|pod| pod.ready_since.is_none()).count() as u32;
    let most = most.min(down.saturating_add(serving));
    if most == 0 {
        return (Vec::new(), Some(blocked));
    }
    if candidates.len() < outdated.len() && candidates.len() as u32 <= most {
        blocked = Blocked::TooYoung;
    }
    let step = |pod: &&&PodView| {
        let name = pod.name.clone();
        if by_eviction { PodStep::Evict(name) } else { PodStep::Resize(name) }
    };
    let is_cut = candidates.len() as u32 > most;
    let steps = candidates.iter().take(most as usize).map(step).collect();
    (steps, (is_cut || blocked == Blocked::TooYoung).then_some(blocked))
}

/// How many pods may be changed now.
struct Room {
    pods: u32,
    /// How many of them that serve.
    serving: u32,
    /// What will stop the next one.
    blocked: Blocked,
}

fn room(inputs: &NextPods<'_>, by_eviction: bool) -> Result<Room, Blocked> {
    let NextPods { now, plan, pods, rollout, .. } = *inputs;
    let most = plan.disruption.max_unavailable.of(inputs.replicas);
    let ready = pods.iter().filter(|pod| pod.ready_since.is_some() && !pod.is_changing).count();
    let away = inputs.replicas.saturating_sub(ready as u32);
    let mut blocked = Blocked::Unavailable { most };
    let serving = most.saturating_sub(away);
    let mut room = most.saturating_sub(away.saturating_sub(inputs.down()));
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
            blocked = Blocked::EvictionRate { most: allowed, remaining: oldest };
            room = left;
        }
        if room == 0 {
            return Err(blocked);
        }
        // A single pod may have slipped past a webhook that was slow; only while the latest ones
        // do is it down, and then one is tried now and then.
        let first = recent.iter().min();
        let latest = |is_unsized: bool| {
            let came_back = pods.iter().filter(|pod| first.is_some_and(|at| pod.created > **at));
            let is_so =
                |pod: &&PodView| is_unsized == (!pod.was_sized && !fits(&pod.sizes, inputs.wanted));
            came_back.filter(is_so).map(|pod| pod.created).max()
        };
        if latest(true) > latest(false) {
            let last = recent.iter().max().map(|at| **at);
            if last.is_some_and(|last| now < last + TRIED_AGAIN_AFTER) {
                return Err(Blocked::NotSizedAtBirth);
            }
            room = room.min(1);
        }
    }
    if plan.mode == Mode::Canary {
        let (share, watch) = plan.canary;
        // One that is being made anew is a canary already, though nobody sees its size yet.
        let begun = inputs.updated() + inputs.underway();
        let first = share.of(inputs.replicas);
        if begun < first {
            room = room.min(first - begun);
            blocked = Blocked::Canary { remaining: watch };
        } else {
            // What only grows cannot have broken it, and may be the cure.
            if inputs.is_kept == Some(false) && inputs.shrinks() {
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

/// Whether pods that start get the recommended size: always in mode `Auto`; in mode `Canary`
/// only the first ones, until those were watched and the objective held.
pub fn sizes_new_pods(plan: &Plan, status: &MultidimPodAutoscalerStatus, now: SimTime) -> bool {
    match plan.mode {
        Mode::Off | Mode::Recommend => false,
        Mode::Auto => true,
        Mode::Canary => {
            let (share, watch) = plan.canary;
            let rollout = status.rollout.clone().unwrap_or_default();
            let pods = status.desired_replicas.unwrap_or(rollout.updated + rollout.outdated);
            let kept = ConditionType::ObjectiveKept.to_string();
            let is_broken = status
                .conditions
                .iter()
                .any(|condition| condition.type_ == kept && condition.status == "False");
            let is_watched = rollout.canary_since.as_ref().is_some_and(|since| {
                let since = u64::try_from(since.0.as_nanosecond()).unwrap_or(0);
                now < SimTime::from_nanos(since) + watch
            });
            // Without a canary the size has proved itself: what breaks now is not its doing.
            let is_proven = rollout.canary_since.is_none();
            is_proven || rollout.updated < share.of(pods) || (!is_watched && !is_broken)
        }
    }
}

/// The sizes around a recommended one that count as the same.
pub fn tolerated((cpu, memory): (Millicores, Bytes)) -> ((Millicores, Bytes), (Millicores, Bytes)) {
    let (low_cpu, high_cpu) = around(cpu.millicores()).into_inner();
    let (low_memory, high_memory) = around(memory.bytes()).into_inner();
    let size = |cpu, memory| (Millicores::new(cpu), Bytes::new(memory));
    (size(low_cpu, low_memory), size(high_cpu, high_memory))
}

fn around(amount: u64) -> RangeInclusive<u64> {
    let low = (amount as f64 * (1.0 - TOLERANCE)).ceil() as u64;
    low..=(amount as f64 * (1.0 + TOLERANCE)) as u64
}

/// Whether what a pod requests is near enough to what it should.
pub fn fits(sizes: &Sizes, wanted: &WantedSizes) -> bool {
    let is_near = |wanted: Option<u64>, amount: u64| {
        wanted.is_none_or(|wanted| around(wanted).contains(&amount))
    };
    wanted.iter().all(|(name, wanted)| {
        sizes.get(name).is_none_or(|(cpu, memory)| {
            is_near(wanted.cpu.map(Millicores::millicores), cpu.millicores())
                && is_near(wanted.memory.map(Bytes::bytes), memory.bytes())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::cell::Cell;

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

    /// What is next for pods that should have 250m, after a change of what is otherwise so: the
    /// server resizes nobody and knows the webhook, and the objective is kept.
    fn next_after(
        change: impl Fn(&mut NextPods<'_>),
        (plan, pods, rollout): (&Plan, &[PodView], &Rollout),
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
            is_kept: Some(true),
            rollout,
        };
        change(&mut inputs);
        next_pods(&inputs)
    }

    fn next(plan: &Plan, pods: &[PodView], rollout: &Rollout) -> (usize, String) {
        let (steps, blocked) = next_after(|_| {}, (plan, pods, rollout));
        (steps.len(), blocked.map(|blocked| blocked.to_string()).unwrap_or_default())
    }

    #[test]
    fn no_more_pods_go_at_once_than_may_be_away() {
        let plan = plan(json!({"disruption": {"maxUnavailable": "20%"}}), "Auto");
        let mut pods = pods(0);
        let limit = "2 pods at most may be away at once";
        assert_eq!(next(&plan, &pods, &Rollout::default()), (2, limit.to_owned()));
        pods[7].ready_since = None;
        assert_eq!(next(&plan, &pods, &Rollout::default()), (1, limit.to_owned()));
        pods[8].is_changing = true;
        assert_eq!(next(&plan, &pods, &Rollout::default()), (0, limit.to_owned()));
    }

    #[test]
    fn pods_that_fail_do_not_stand_in_the_way_of_their_cure() {
        let disruption = json!({"maxUnavailable": "20%"});
        let in_place = plan(json!({"updateMode": "InPlace", "disruption": disruption}), "Auto");
        let plan = plan(json!({"disruption": disruption}), "Auto");
        let (mut pods, mut refused) = (pods(0), pods(0));
        let steps = |pods: &[PodView]| next_after(|_| {}, (&plan, pods, &Rollout::default())).0;
        let evict = |place: usize| PodStep::Evict(format!("pod-{place}"));
        let fails = |pod: &mut PodView| {
            (pod.ready_since, pod.unready_since) = (None, Some(SimTime::ZERO));
        };
        fails(&mut pods[7]);
        assert_eq!(steps(&pods), [evict(7), evict(0)]);
        // One that has just ended, and starts again, is away as well, but it is not its turn.
        (pods[3].ready_since, pods[3].unready_since) = (None, Some(at(0)));
        pods[3].has_failed = true;
        assert_eq!(steps(&pods), [evict(7)]);
        pods.iter_mut().for_each(fails);
        assert_eq!(steps(&pods), [evict(0), evict(1)]);
        // Those two are made anew: the others wait for what comes of it.
        pods[..2].iter_mut().for_each(|pod| pod.is_changing = true);
        assert_eq!(steps(&pods), []);
        // Who cannot be resized is made anew before others are resized, where that is wanted; else
        // who serves stays while as many as may be are down.
        for pod in &mut refused[..2] {
            fails(pod);
            pod.cannot_resize = true;
        }
        let resizes = |inputs: &mut NextPods<'_>| inputs.can_resize = true;
        let steps = |plan: &Plan| next_after(resizes, (plan, &refused, &Rollout::default())).0;
        assert_eq!(steps(&plan), [evict(0), evict(1)]);
        assert_eq!(steps(&in_place), []);
    }

    #[test]
    fn while_the_latest_pods_come_back_with_their_old_size_one_is_tried_now_and_then() {
        let plan = plan(json!({"disruption": {"maxUnavailable": "5"}}), "Auto");
        let mut pods = pods(0);
        let evicted = |ago: u64| Rollout {
            evictions: vec![SimTime::ZERO + SimDuration::from_secs(100_000 - ago)],
            ..Rollout::default()
        };
        pods[3].created = SimTime::ZERO + SimDuration::from_secs(99_995);
        let silent =
            "pods come back from eviction with their old size: is the admission webhook up?";
        assert_eq!(next(&plan, &pods, &evicted(30)), (0, silent.to_owned()));
        assert_eq!(next(&plan, &pods, &evicted(90)).0, 1);
        // One that came later was sized: the other only slipped through.
        pods[4].created = at(0);
        pods[4].was_sized = true;
        pods[4].sizes = sizes(250);
        assert_eq!(next(&plan, &pods, &evicted(30)).0, 5);
    }

    #[test]
    fn nobody_is_evicted_before_the_server_knows_the_webhook() {
        let plan = plan(json!({}), "Auto");
        let (pods, rollout) = (pods(0), Rollout::default());
        let unknown = |inputs: &mut NextPods<'_>| inputs.is_webhook_unknown = true;
        let nobody = next_after(unknown, (&plan, &pods, &rollout));
        assert_eq!(nobody, (Vec::new(), Some(Blocked::WebhookUnknown)));
        // Who is resized where it is does not need it.
        let resizes = |inputs: &mut NextPods<'_>| {
            unknown(inputs);
            inputs.can_resize = true;
        };
        let (steps, _) = next_after(resizes, (&plan, &pods, &rollout));
        assert!(matches!(steps[0], PodStep::Resize(_)));
    }

    #[test]
    fn a_pod_that_does_not_serve_goes_first() {
        let plan = plan(json!({"disruption": {"maxUnavailable": "5"}}), "Auto");
        let mut pods = pods(0);
        pods[6].ready_since = None;
        let rollout = Rollout::default();
        let (steps, _) = next_after(|inputs| inputs.can_resize = true, (&plan, &pods, &rollout));
        assert_eq!(steps[0], PodStep::Resize("pod-6".to_owned()));
        assert_eq!(steps.len(), 4);
    }

    #[test]
    fn only_who_cannot_be_resized_is_evicted_and_only_where_that_is_wanted() {
        let steps = |update_mode: &str, pods: &[PodView]| {
            let disruption = json!({"maxUnavailable": "5"});
            let policy = json!({"updateMode": update_mode, "disruption": disruption});
            let plan = plan(policy, "Auto");
            let rollout = Rollout::default();
            next_after(|inputs| inputs.can_resize = true, (&plan, pods, &rollout))
        };
        let mut pods = pods(9);
        // The node refused what the spec of the first says already.
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
    fn evictions_are_counted_by_the_hour() {
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
        assert_eq!(full, (0, "3 evictions at most in an hour, the next in 100s".to_owned()));
    }

    #[test]
    fn a_canary_goes_first_and_is_watched() {
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
        let watched = "the first pods are watched for another 200s";
        assert_eq!(next(&plan, &pods(2), &since(100)), (0, watched.to_owned()));
        assert_eq!(next(&plan, &pods(2), &since(300)).0, 5);
    }

    #[test]
    fn a_broken_objective_stops_what_shrinks_after_the_canary_and_not_what_grows() {
        let policy = json!({"disruption": {"maxUnavailable": "50%"}, "canary": {"pods": "2", "watch": "5m"}});
        let plan = plan(policy, "Canary");
        let watched = Rollout { canary_since: Some(SimTime::ZERO), ..Rollout::default() };
        let next = |pods: &[PodView]| {
            next_after(|inputs| inputs.is_kept = Some(false), (&plan, pods, &watched))
        };
        assert_eq!(next(&pods(2)), (Vec::new(), Some(Blocked::CanaryFailed)));
        let mut smaller = pods(2);
        for pod in &mut smaller[2..] {
            pod.sizes = sizes(100);
        }
        assert_eq!(next(&smaller).0.len(), 5);
    }

    #[test]
    fn another_size_in_the_middle_of_a_rollout_is_watched_anew() {
        let policy = json!({"disruption": {"maxUnavailable": "50%"}, "canary": {"pods": "2", "watch": "5m"}});
        let plan = plan(policy, "Canary");
        let began = SimTime::ZERO + SimDuration::from_secs(90_000);
        let earlier = Rollout { canary_since: Some(began), ..Rollout::default() };
        let since = |pods: &[PodView], rollout: &Rollout| {
            let since = Cell::new(None);
            next_after(|inputs| since.set(inputs.canary_since()), (&plan, pods, rollout));
            since.get()
        };
        // Nobody has it: those who were watched had another size.
        let mut none_yet = pods(0);
        assert_eq!(next(&plan, &none_yet, &earlier).0, 2);
        assert_eq!(since(&none_yet, &earlier), None);
        none_yet[0].is_changing = true;
        none_yet[1].is_changing = true;
        let watched = "the first pods are watched for another 300s";
        assert_eq!(next(&plan, &none_yet, &earlier), (0, watched.to_owned()));
        // The first has it, the others follow, everybody has it.
        assert_eq!(since(&pods(1), &Rollout::default()), Some(at(0)));
        assert_eq!(since(&pods(5), &earlier), Some(began));
        assert_eq!(since(&pods(10), &earlier), None);
        let mut one_leaves = pods(10);
        one_leaves[3].is_changing = true;
        assert_eq!(since(&one_leaves, &Rollout::default()), None);
    }

    #[test]
    fn what_holds_everything_up_is_said() {
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
        check(json!({"disruption": {"leastPodAge": "100d"}}), "Auto", "younger than leastPodAge");
    }

    #[test]
    fn a_percent_is_no_reason_to_restart() {
        let plan = plan(json!({}), "Auto");
        let mut pods = pods(10);
        pods[0].sizes = sizes(260);
        assert_eq!(next(&plan, &pods, &Rollout::default()), (0, String::new()));
    }

    #[test]
    fn what_is_not_wanted_of_a_container_may_be_anything() {
        let size = |cpu, memory| (Millicores::new(cpu), Bytes::from_mib(memory));
        let has = |cpu, memory| Sizes::from([("app".to_owned(), size(cpu, memory))]);
        let cpu = WantedSize { cpu: Some(Millicores::new(250)), memory: None };
        let only_cpu = WantedSizes::from([("app".to_owned(), cpu)]);
        assert!(fits(&has(250, 128), &only_cpu));
        // Somebody raised it in the template.
        assert!(fits(&has(250, 4096), &only_cpu));
        assert!(!fits(&has(500, 128), &only_cpu));
        assert!(fits(&has(500, 4096), &WantedSizes::new()));
    }
}
