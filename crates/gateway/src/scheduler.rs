//! Which request goes to which upstream, and when: a queue per model in front of upstreams that each
//! have a number of slots.
//!
//! One invariant holds after every call: no request waits for which a healthy upstream that it has
//! not tried has a free slot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use homeostat_core::SimTime;
use homeostat_muserve::schedule::{ModelQueues, QueueOrder, Ticket};
use tokio::sync::oneshot;

use crate::upstream::Upstream;

const NOT_POISONED: &str = "no code panics while it holds this lock";

/// Shared by all requests.
#[derive(Debug)]
pub struct Scheduler {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    queues: ModelQueues<Waiting>,
    max_waiting: usize,
    places: BTreeMap<UpstreamId, Place>,
    next_id: u64,
    /// Takes turns between equally loaded upstreams.
    turn: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct UpstreamId(u64);

#[derive(Debug)]
struct Place {
    upstream: Arc<Upstream>,
    models: BTreeSet<String>,
    is_healthy: bool,
    in_flight: usize,
}

#[derive(Debug)]
struct Waiting {
    grant: oneshot::Sender<Slot>,
    tried: Vec<String>,
}

/// What a request waits for.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    /// The served model.
    pub model: &'a str,
    /// When the request came.
    pub arrival: SimTime,
    /// Predicted length of the answer.
    pub expected_tokens: f64,
    /// What decides between upstreams with free slots.
    pub session: Option<u64>,
    /// Upstreams that failed it.
    pub tried: &'a [String],
}

/// Why a request cannot wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// No upstream has the model.
    UnknownModel,
    /// All upstreams with the model are unhealthy.
    NoneHealthy,
    /// The queue of the model is full.
    Full,
}

/// A slot of an upstream; dropping it lets the next request in.
#[derive(Debug)]
pub struct Slot {
    id: UpstreamId,
    upstream: Arc<Upstream>,
    scheduler: Arc<Scheduler>,
}

impl Slot {
    /// Where the request goes.
    pub fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.scheduler.release(self.id);
    }
}

/// A request's place in the queue; dropping it takes the request out.
#[derive(Debug)]
pub struct InQueue {
    granted: oneshot::Receiver<Slot>,
    ticket: Option<Ticket>,
    scheduler: Arc<Scheduler>,
}

impl InQueue {
    /// Waits for a slot. The scheduler keeps every request until it grants a slot, so there is always one.
    pub async fn slot(mut self) -> Slot {
        let slot = (&mut self.granted).await.expect("the scheduler drops no request that waits");
        self.ticket = None;
        slot
    }
}

impl Drop for InQueue {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            // A slot that was granted meanwhile is inside the receiver and is released with it.
            let waiting = self.scheduler.lock().queues.remove(&ticket);
            drop(waiting);
        }
    }
}

/// Load of one upstream, for metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// Its name.
    pub upstream: String,
    /// Requests that it answers.
    pub in_flight: usize,
    /// Whether it gets requests.
    pub is_healthy: bool,
}

impl Scheduler {
    /// No upstreams yet.
    pub fn new(order: QueueOrder, max_waiting: usize) -> Arc<Self> {
        let queues = ModelQueues::new(order);
        let places = BTreeMap::new();
        Arc::new(Self {
            state: Mutex::new(State { queues, max_waiting, places, next_id: 0, turn: 0 }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(NOT_POISONED)
    }

    /// Takes over new settings. Requests that wait keep their rank; an upstream that is gone answers the
    /// requests that it has.
    pub fn configure(
        self: &Arc<Self>,
        order: QueueOrder,
        max_waiting: usize,
        upstreams: Vec<Arc<Upstream>>,
    ) {
        let mut state = self.lock();
        if state.queues.order() != order {
            state.queues.set_order(order);
        }
        state.max_waiting = max_waiting;
        let mut before = std::mem::take(&mut state.places);
        for upstream in upstreams {
            let same = |place: &Place| place.upstream.is_same_server(&upstream);
            let id = before.iter().find(|(_, place)| same(place)).map(|(id, _)| *id);
            match id.and_then(|id| Some((id, before.remove(&id)?))) {
                Some((id, mut place)) => {
                    if let Some(models) = &upstream.settings.models {
                        place.models.clone_from(models);
                    }
                    place.upstream = upstream;
                    state.places.insert(id, place);
                }
                None => {
                    let id = UpstreamId(state.next_id);
                    state.next_id += 1;
                    let models = upstream.settings.models.clone().unwrap_or_default();
                    // A first check follows at once, and a request may come before its answer.
                    let is_healthy = upstream.settings.models.is_some();
                    state.places.insert(id, Place { upstream, models, is_healthy, in_flight: 0 });
                }
            }
        }
        self.grant(state);
    }

    /// What a health check found: models if it succeeded.
    pub fn set_health(
        self: &Arc<Self>,
        upstream: &Upstream,
        is_healthy: bool,
        models: Option<BTreeSet<String>>,
    ) {
        let mut state = self.lock();
        let place = state.places.values_mut().find(|place| place.upstream.is_same_server(upstream));
        if let Some(place) = place {
            place.is_healthy = is_healthy;
            if let Some(models) = models {
                place.models = models;
            }
        }
        self.grant(state);
    }

    /// Puts a request into the queue of its model, or takes a free slot at once.
    pub fn enqueue(self: &Arc<Self>, wanted: &Wanted<'_>) -> Result<InQueue, Refused> {
        let mut state = self.lock();
        let serving: Vec<UpstreamId> = state.serving(wanted.model).collect();
        if serving.is_empty() {
            return Err(Refused::UnknownModel);
        }
        let healthy: Vec<UpstreamId> =
            serving.into_iter().filter(|id| state.places[id].is_healthy).collect();
        if healthy.is_empty() {
            return Err(Refused::NoneHealthy);
        }
        let is_untried =
            |id: &UpstreamId| !wanted.tried.contains(&state.places[id].upstream.settings.name);
        let untried: Vec<UpstreamId> = healthy.iter().copied().filter(is_untried).collect();
        // With nothing else left, an upstream may be tried again.
        let (candidates, tried) = match untried.is_empty() {
            true => (healthy, Vec::new()),
            false => (untried, wanted.tried.to_vec()),
        };
        let (grant, granted) = oneshot::channel();
        let mut in_queue = InQueue { granted, ticket: None, scheduler: self.clone() };
        if let Some(id) = state.choose(&candidates, wanted.session) {
            let slot = state.take_slot(id, self);
            // Its receiver is at hand, so it cannot be refused.
            let _ = grant.send(slot);
            return Ok(in_queue);
        }
        if state.queues.len(wanted.model) >= state.max_waiting {
            return Err(Refused::Full);
        }
        let waiting = Waiting { grant, tried };
        let ticket =
            state.queues.push(wanted.model, wanted.arrival, wanted.expected_tokens, waiting);
        in_queue.ticket = Some(ticket);
        Ok(in_queue)
    }

    fn release(self: &Arc<Self>, id: UpstreamId) {
        let mut state = self.lock();
        if let Some(place) = state.places.get_mut(&id) {
            place.in_flight -= 1;
        }
        self.grant(state);
    }

    /// Lets requests in until no slot is free or no request waits.
    fn grant(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let mut undelivered = Vec::new();
        let ids: Vec<UpstreamId> = state.places.keys().copied().collect();
        for id in ids {
            loop {
                let State { queues, places, .. } = &mut *state;
                let place = &places[&id];
                if !place.has_room() || queues.is_empty() {
                    break;
                }
                let name = &place.upstream.settings.name;
                let is_eligible = |waiting: &Waiting| !waiting.tried.contains(name);
                let models = place.models.iter().map(String::as_str);
                let Some(waiting) = queues.pop_eligible(models, is_eligible) else { break };
                let slot = state.take_slot(id, self);
                // A request that was just cancelled gives its slot back, which needs the lock.
                undelivered.extend(waiting.grant.send(slot).err());
            }
        }
        drop(state);
        drop(undelivered);
    }

    /// The models that can be asked for now or later.
    pub fn models(&self) -> BTreeSet<String> {
        self.lock().places.values().flat_map(|place| place.models.iter().cloned()).collect()
    }

    /// Whether an upstream is healthy.
    pub fn is_ready(&self) -> bool {
        self.lock().places.values().any(|place| place.is_healthy)
    }

    /// Whether a healthy upstream has the model.
    pub fn is_served(&self, model: &str) -> bool {
        let state = self.lock();
        state.serving(model).any(|id| state.places[&id].is_healthy)
    }

    /// Requests that wait for each model.
    pub fn waiting(&self) -> BTreeMap<String, usize> {
        let models = self.models();
        let state = self.lock();
        models
            .into_iter()
            .map(|model| (state.queues.len(&model), model))
            .map(|(n, m)| (m, n))
            .collect()
    }

    /// The load of each upstream.
    pub fn loads(&self) -> Vec<Load> {
        let load = |place: &Place| Load {
            upstream: place.upstream.settings.name.clone(),
            in_flight: place.in_flight,
            is_healthy: place.is_healthy,
        };
        self.lock().places.values().map(load).collect()
    }

    /// The upstreams, to check them.
    pub fn upstreams(&self) -> Vec<Arc<Upstream>> {
        self.lock().places.values().map(|place| place.upstream.clone()).collect()
    }
}

impl Place {
    fn has_room(&self) -> bool {
        self.is_healthy && self.in_flight < self.upstream.settings.max_parallel
    }
}

impl State {
    fn serving<'a>(&'a self, model: &'a str) -> impl Iterator<Item = UpstreamId> + 'a {
        self.places.iter().filter(|(_, place)| place.models.contains(model)).map(|(id, _)| *id)
    }

    /// Of those with a free slot, the one of the session, else the least loaded.
    fn choose(&mut self, candidates: &[UpstreamId], session: Option<u64>) -> Option<UpstreamId> {
        let has_room = |id: &&UpstreamId| self.places[*id].has_room();
        if let Some(session) = session {
            // Rendezvous hashing over all candidates: an upstream that comes or goes moves few sessions.
            let own = candidates.iter().max_by_key(|id| mix(session ^ mix(id.0 + 1)))?;
            if self.places[own].has_room() {
                return Some(*own);
            }
        }
        self.turn += 1;
        let load = |id: &UpstreamId| {
            let place = &self.places[id];
            // Free slots decide; a share of slots compares upstreams of different sizes.
            let share = place.in_flight * 1_000_000 / place.upstream.settings.max_parallel;
            (share, mix(self.turn ^ mix(id.0)))
        };
        candidates.iter().filter(has_room).min_by_key(|id| load(id)).copied()
    }

    fn take_slot(&mut self, id: UpstreamId, scheduler: &Arc<Scheduler>) -> Slot {
        let place = self.places.get_mut(&id).expect("it was chosen from them");
        place.in_flight += 1;
        Slot { id, upstream: place.upstream.clone(), scheduler: scheduler.clone() }
    }
}

/// The finaliser of SplitMix64.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use homeostat_core::SimDuration;
    use proptest::prelude::*;

    use crate::settings::{self, Priority};

    fn upstream(name: &str, models: &[&str], max_parallel: usize) -> Arc<Upstream> {
        let settings = settings::Upstream {
            name: name.to_owned(),
            url: "http://127.0.0.1:1/v1".parse().unwrap(),
            max_parallel,
            models: Some(models.iter().map(|model| (*model).to_owned()).collect()),
            priority: Priority::None,
            api_key: None,
            ca_file: None,
        };
        Arc::new(Upstream::new(settings, Duration::from_secs(1)).unwrap())
    }

    fn scheduler(upstreams: &[(&str, &[&str], usize)]) -> Arc<Scheduler> {
        let scheduler = Scheduler::new(QueueOrder::ShortestFirst, 5);
        scheduler.configure(
            QueueOrder::ShortestFirst,
            5,
            upstreams.iter().map(|(name, models, slots)| upstream(name, models, *slots)).collect(),
        );
        scheduler
    }

    fn wanted(model: &str, expected_tokens: f64) -> Wanted<'_> {
        Wanted { model, arrival: SimTime::ZERO, expected_tokens, session: None, tried: &[] }
    }

    /// The slot if it was granted.
    fn granted(request: &mut InQueue) -> Option<Slot> {
        request.granted.try_recv().ok().inspect(|_| request.ticket = None)
    }

    fn name(slot: &Slot) -> &str {
        &slot.upstream().settings.name
    }

    #[test]
    fn the_shortest_waiting_request_gets_the_slot_that_becomes_free() {
        let scheduler = scheduler(&[("a", &["m", "n"], 1)]);
        let slot = granted(&mut scheduler.enqueue(&wanted("m", 9.0)).unwrap()).unwrap();
        let mut long = scheduler.enqueue(&wanted("m", 500.0)).unwrap();
        let mut short = scheduler.enqueue(&wanted("n", 5.0)).unwrap();
        assert!(granted(&mut long).is_none() && granted(&mut short).is_none());
        drop(slot);
        assert!(granted(&mut long).is_none());
        drop(granted(&mut short).unwrap());
        assert!(granted(&mut long).is_some());
    }

    #[test]
    fn a_full_queue_an_unknown_model_and_unhealthy_upstreams_are_told_apart() {
        let scheduler = scheduler(&[("a", &["m"], 1)]);
        let kept: Vec<InQueue> =
            (0..6).map(|_| scheduler.enqueue(&wanted("m", 1.0)).unwrap()).collect();
        let refused =
            |scheduler: &Arc<Scheduler>, model| scheduler.enqueue(&wanted(model, 1.0)).unwrap_err();
        assert_eq!(refused(&scheduler, "m"), Refused::Full);
        assert_eq!(refused(&scheduler, "x"), Refused::UnknownModel);
        drop(kept);
        let a = scheduler.upstreams()[0].clone();
        scheduler.set_health(&a, false, None);
        assert_eq!(refused(&scheduler, "m"), Refused::NoneHealthy);
    }

    #[test]
    fn a_retry_goes_elsewhere_and_only_without_elsewhere_to_the_same() {
        let scheduler = scheduler(&[("a", &["m"], 1), ("b", &["m"], 1)]);
        let tried = ["a".to_owned()];
        let retry = Wanted { tried: &tried, ..wanted("m", 1.0) };
        let slot = granted(&mut scheduler.enqueue(&retry).unwrap()).unwrap();
        assert_eq!(name(&slot), "b");
        let mut waits = scheduler.enqueue(&retry).unwrap();
        assert!(granted(&mut waits).is_none(), "a is free, but failed it");
        drop(slot);
        assert_eq!(name(&granted(&mut waits).unwrap()), "b");
        let tried = ["a".to_owned(), "b".to_owned()];
        let retry = Wanted { tried: &tried, ..wanted("m", 1.0) };
        assert!(granted(&mut scheduler.enqueue(&retry).unwrap()).is_some());
    }

    #[test]
    fn a_session_stays_with_its_upstream_while_that_has_room() {
        let scheduler = scheduler(&[("a", &["m"], 9), ("b", &["m"], 9), ("c", &["m"], 9)]);
        let of_session = |session| {
            let wanted = Wanted { session: Some(session), ..wanted("m", 1.0) };
            granted(&mut scheduler.enqueue(&wanted).unwrap()).unwrap()
        };
        let slots: Vec<Slot> = (0..9).map(|_| of_session(7)).collect();
        assert!(slots.iter().all(|slot| name(slot) == name(&slots[0])));
        assert_ne!(name(&of_session(7)), name(&slots[0]));
        let mut names: Vec<String> =
            (0..30).map(|session| name(&of_session(session)).to_owned()).collect();
        names.sort();
        names.dedup();
        assert!(names.len() > 1, "sessions spread");
    }

    #[test]
    fn new_settings_keep_requests_in_flight_and_let_waiting_ones_in() {
        let scheduler = scheduler(&[("a", &["m"], 1)]);
        let slot = granted(&mut scheduler.enqueue(&wanted("m", 1.0)).unwrap()).unwrap();
        let mut waits = scheduler.enqueue(&wanted("m", 1.0)).unwrap();
        scheduler.configure(QueueOrder::Fcfs, 5, vec![upstream("a", &["m"], 2)]);
        let second = granted(&mut waits).unwrap();
        assert_eq!(scheduler.loads()[0].in_flight, 2);
        scheduler.configure(QueueOrder::Fcfs, 5, vec![upstream("b", &["m"], 2)]);
        drop((slot, second));
        assert_eq!(scheduler.loads()[0].in_flight, 0);
    }

    proptest! {
        #[test]
        fn no_slot_leaks_and_no_request_waits_beside_a_free_slot(steps in prop::collection::vec((0u8..5, 0u8..3), 0..120)) {
            let scheduler = scheduler(&[("a", &["m"], 2), ("b", &["m", "n"], 1)]);
            let (mut waiting, mut running): (Vec<InQueue>, Vec<Slot>) = (Vec::new(), Vec::new());
            for (index, (step, choice)) in steps.into_iter().enumerate() {
                let choice = usize::from(choice);
                match step {
                    0 | 1 => {
                        let arrival = SimTime::ZERO + SimDuration::from_secs(index as u64);
                        let model = if choice == 0 { "n" } else { "m" };
                        let wanted = Wanted { arrival, ..wanted(model, choice as f64) };
                        waiting.extend(scheduler.enqueue(&wanted));
                    }
                    2 if choice < waiting.len() => drop(waiting.swap_remove(choice)),
                    3 if choice < running.len() => drop(running.swap_remove(choice)),
                    4 => {
                        let b = scheduler.upstreams()[1].clone();
                        scheduler.set_health(&b, choice > 0, None);
                    }
                    _ => {}
                }
                waiting.retain_mut(|request| match granted(request) {
                    Some(slot) => { running.push(slot); false }
                    None => true,
                });
                let in_flight: usize = scheduler.loads().iter().map(|load| load.in_flight).sum();
                prop_assert_eq!(in_flight, running.len());
                let queued: usize = scheduler.waiting().values().sum();
                prop_assert_eq!(queued, waiting.len());
                let state = scheduler.lock();
                for place in state.places.values().filter(|place| place.has_room()) {
                    for model in &place.models {
                        prop_assert_eq!(state.queues.len(model), 0);
                    }
                }
            }
        }
    }
}
