//! The recommender: looks at every object at an interval, and at once when one was written.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, RwLock};

use futures::{StreamExt, stream};
use homeostat_core::{Persist, SimDuration, SimTime, Snapshot};
use k8s_openapi::api::core::v1::LimitRange;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use tokio::sync::SemaphorePermit;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Duration, Instant, MissedTickBehavior};

use super::context::{Context, Key, Slots, key_of, now};
use super::follow::all_of;
use super::gather::{Answers, Usage, ask, gather};
use super::oom_kills::OomKills;
use super::report::{About, time};
use super::standing::{OtherAutoscalers, Refused, Standing, list_all, standing};
use crate::api::{
    ConditionReason, ConditionType, Mode, MultidimPodAutoscaler, MultidimPodAutoscalerCheckpoint,
    MultidimPodAutoscalerCheckpointSpec, MultidimPodAutoscalerStatus, Plan, PlanError,
    Recommender as PlanRecommender, ScaleTargetRef,
};
use crate::cluster::LimitRanges;
use crate::guard::{PAUSE_ANNOTATION, Pause};
use crate::learn::{Advice, Moment, PolicyFile};
use crate::recommend::{Engine, Outcome, from_text, to_text};
use crate::telemetry::Outage;

/// Who owns the recommender's part of a status.
const FIELD_MANAGER: &str = "homeostat-recommender";

/// A status that says nothing new is written again after this long, so that its age shows
/// that somebody looks.
const REWRITE_AFTER: SimDuration = SimDuration::from_secs(60);

/// What was written shows in the cache by then.
const SEEN_AFTER: SimDuration = SimDuration::from_secs(3);

/// A look that takes longer has lost its server, and is begun anew.
const MOST_TIME: Duration = Duration::from_secs(60);

/// For this long a condition tells that the API server was away.
const TOLD_FOR: SignedDuration = SignedDuration::from_mins(10);

/// Recommends for every object.
pub struct Recommender {
    ctx: Arc<Context>,
    slots: Slots<Slot>,
    /// None before the first pass.
    surroundings: RwLock<Option<Arc<Surroundings>>>,
    /// Who looks around now: others wait and see what was seen.
    looking_around: tokio::sync::Mutex<()>,
}

/// What one look at the cluster gives for all objects.
struct Surroundings {
    /// The namespaces in which there were objects.
    namespaces: BTreeSet<String>,
    usage: Usage,
    others: OtherAutoscalers,
    /// Or why they could not be listed yet.
    limit_ranges: Result<Arc<LimitRanges>, String>,
}

/// What is remembered of one object.
#[derive(Default)]
struct Slot {
    /// Of which object and which version of its spec.
    of: Option<(Option<String>, Option<i64>)>,
    engine: Option<Engine>,
    policy_file: Option<PolicyFile>,
    oom_kills: OomKills,
    written: Option<(MultidimPodAutoscalerStatus, SimTime)>,
    checkpointed_at: Option<SimTime>,
    /// The last silence of the API server that people were told of.
    told: Option<Outage>,
}

impl Recommender {
    /// One that remembers nothing yet.
    pub fn new(ctx: Arc<Context>) -> Arc<Self> {
        Arc::new(Self {
            ctx,
            slots: Slots::default(),
            surroundings: RwLock::default(),
            looking_around: tokio::sync::Mutex::default(),
        })
    }

    /// Looks at objects for as long as the program runs.
    pub async fn run(self: Arc<Self>, mut changes: UnboundedReceiver<Key>) {
        let mut ticks = tokio::time::interval(self.ctx.options.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut leads = self.ctx.leads.from_now_on();
        let mut pass = None;
        loop {
            tokio::select! {
                // Nobody has looked since the leader before was lost.
                () = leads.changed() => ticks.reset_immediately(),
                _ = ticks.tick() => {
                    if self.ctx.is_leader() && pass.as_ref().is_none_or(|pass: &tokio::task::JoinHandle<()>| pass.is_finished()) {
                        let this = self.clone();
                        pass = Some(tokio::spawn(async move { this.pass().await }));
                    } else if !self.ctx.is_leader() {
                        // Whoever leads next goes on from the checkpoints; ours are of the past.
                        self.forget();
                    }
                }
                key = changes.recv() => {
                    let Some(key) = key else { return };
                    if self.ctx.is_leader() {
                        let this = self.clone();
                        tokio::spawn(async move { this.look(&key).await });
                    }
                }
            }
        }
    }

    /// Looks at every object once.
    pub async fn pass(self: &Arc<Self>) {
        let started = Instant::now();
        let keys: Vec<Key> =
            self.ctx.objects.state().iter().map(|object| key_of(&**object)).collect();
        self.look_around().await;
        self.slots.retain(|key| {
            let is_there = self.ctx.object(key).is_some();
            if !is_there {
                self.ctx.telemetry.forget(key);
            }
            is_there
        });
        self.ctx.learners.retain(|key| self.ctx.object(key).is_some());
        let objects = keys.len();
        let mut looks = Vec::new();
        for key in keys {
            // Nobody waits for a learner of somebody else, which may take longer than a pass.
            let is_waited_for = !self.asks_others(&key);
            if !is_waited_for && self.slots.of(&key).try_lock().is_err() {
                continue;
            }
            let this = self.clone();
            let look = tokio::spawn(async move {
                let looking = this.clone();
                if tokio::spawn(async move { looking.look(&key).await }).await.is_err() {
                    this.ctx.telemetry.panicked();
                }
            });
            if is_waited_for {
                looks.push(look);
            }
        }
        futures::future::join_all(looks).await;
        self.ctx.telemetry.passed(objects, started.elapsed());
    }

    /// Whether an object has a recommender outside of this program.
    fn asks_others(&self, key: &Key) -> bool {
        let object = self.ctx.object(key);
        let object = object.as_ref().and_then(|guarded| guarded.0.as_ref().ok());
        let plan = object.and_then(|object| Plan::try_new(&object.spec).ok());
        plan.is_some_and(|plan| matches!(plan.recommender, PlanRecommender::External(..)))
    }

    /// Writes down what is remembered of every object, before the program ends. Nothing is decided
    /// from here on: nobody would remember it.
    pub async fn checkpoint_all(&self) {
        // Whoever does not act forgets: so they are taken first.
        let slots = self.slots.all();
        self.ctx.stop_acting();
        let write = async |(key, slot): (Key, Arc<tokio::sync::Mutex<Slot>>)| {
            let Some(object) = self.ctx.object(&key) else { return };
            let memory = slot.lock().await.engine.as_ref().map(|engine| memory_of(engine, now()));
            if let (Ok(object), Some(memory)) = (&object.0, memory) {
                self.checkpoint(object, memory).await;
            }
        };
        // Little time is left, and another copy waits.
        let at_once = self.ctx.options.concurrency;
        stream::iter(slots).for_each_concurrent(at_once, write).await;
    }

    fn forget(&self) {
        self.slots.retain(|_| false);
        *self.surroundings.write().expect("nobody panics while holding it") = None;
        self.ctx.telemetry.forget_all();
    }

    /// Asks once for what all objects need.
    async fn look_around(&self) {
        let objects = self.ctx.objects.state();
        let namespaces: BTreeSet<String> =
            objects.iter().map(|object| key_of(&**object).0).collect();
        let before = self.surroundings.read().expect("nobody panics while holding it").clone();
        let (others, limit_ranges) =
            before.map(|before| (before.others.clone(), before.limit_ranges.clone())).unzip();
        let surroundings = Surroundings {
            usage: Usage::of(&self.ctx, &namespaces).await,
            others: OtherAutoscalers::of(&self.ctx, others.unwrap_or_default()).await,
            // A server that does not answer has deleted none.
            limit_ranges: match (limit_ranges_of(&self.ctx).await, limit_ranges) {
                (Err(_), Some(Ok(before))) => Ok(before),
                (asked, _) => asked,
            },
            namespaces,
        };
        *self.surroundings.write().expect("nobody panics while holding it") =
            Some(Arc::new(surroundings));
    }

    /// What is known around an object. The first object of a namespace is not looked at with
    /// what was asked before it: use would seem to be silent.
    async fn surroundings_of(&self, (namespace, _): &Key) -> Option<Arc<Surroundings>> {
        let known = || self.surroundings.read().expect("nobody panics while holding it").clone();
        // The first pass looks at everything.
        let is_known = |around: &Arc<Surroundings>| around.namespaces.contains(namespace);
        let around = known()?;
        if is_known(&around) {
            return Some(around);
        }
        let _turn = self.looking_around.lock().await;
        if !known().as_ref().is_some_and(is_known) {
            self.look_around().await;
        }
        known()
    }

    async fn look(&self, key: &Key) {
        if tokio::time::timeout(MOST_TIME, self.look_at(key)).await.is_err() {
            self.ctx.telemetry.server_silent("look", MOST_TIME);
        }
    }

    async fn look_at(&self, key: &Key) {
        let Some(surroundings) = self.surroundings_of(key).await else { return };
        let slot = self.slots.of(key);
        let mut slot = slot.lock().await;
        let Some(guarded) = self.ctx.object(key) else { return };
        if guarded.meta().deletion_timestamp.is_some() {
            return;
        }
        let outage = self.ctx.telemetry.outage().filter(|outage| is_recent(outage.ended));
        let about = |previous| About {
            generation: guarded.meta().generation,
            previous,
            now: now(),
            outage,
        };
        let plan = guarded.0.as_ref().ok().map(|object| Plan::try_new(&object.spec));
        let answers = match &plan {
            Some(Ok(plan)) if plan.mode != Mode::Off => Some(ask(&self.ctx, plan).await),
            _ => None,
        };
        let mut turn = Some(self.turn().await);
        let started = Instant::now();
        match &guarded.0 {
            Ok(object) => {
                let plan = plan.expect("it was read");
                let previous = object.status.clone().unwrap_or_default();
                let about = about(&previous);
                let asked = (plan, answers, &mut turn);
                let recommended =
                    self.recommend(object, asked, &surroundings, &mut slot, about.now).await;
                let status = match recommended {
                    Ok(news) => {
                        about.recommended(&news.plan, &news.standing, &news.inputs, &news.outcome)
                    }
                    Err(refused) => about.refused(&refused),
                };
                self.ctx.telemetry.looked_at(key, object, &status);
                self.write(object, &mut slot, status, about.now).await;
                self.tell_of_outage(object, &mut slot, outage).await;
            }
            Err(invalid) => {
                let previous = MultidimPodAutoscalerStatus::default();
                let about = about(&previous);
                let refused = Refused::new(ConditionReason::InvalidSpec, invalid.error.clone());
                let status = about.refused(&refused);
                if slot.written.as_ref().is_none_or(|(written, _)| !says_the_same(written, &status))
                {
                    self.ctx.write_status(key, FIELD_MANAGER, &status).await;
                    self.show_conditions(key, &status);
                    slot.written = Some((status, about.now));
                }
            }
        }
        self.ctx.telemetry.reconciled(started.elapsed());
    }

    async fn recommend<'a>(
        &'a self,
        object: &MultidimPodAutoscaler,
        (plan, answers, turn): (
            Result<Plan, PlanError>,
            Option<Answers>,
            &mut Option<SemaphorePermit<'a>>,
        ),
        surroundings: &Surroundings,
        slot: &mut Slot,
        now: SimTime,
    ) -> Result<News, Refused> {
        let plan =
            plan.map_err(|error| Refused::new(ConditionReason::InvalidSpec, error.to_string()))?;
        let standing = standing(&self.ctx, &surroundings.others, object, &plan).await?;
        let namespace = object.namespace().unwrap_or_default();
        let confines = match &surroundings.limit_ranges {
            Ok(ranges) => ranges.confines(&namespace, &standing.pods),
            Err(why) if matches!(plan.mode, Mode::Auto | Mode::Canary) => {
                let message =
                    format!("LimitRanges cannot be listed, and pods might be refused: {why}");
                return Err(Refused::new(ConditionReason::ServerUnavailable, message));
            }
            Err(_) => BTreeMap::new(),
        };
        self.prepare(object, &plan, slot).await?;
        let oom_kills = slot.oom_kills.count(&standing.pods, now);
        let inputs = gather(
            &self.ctx,
            (&namespace, &standing.scaled),
            &standing.pods,
            &surroundings.usage,
            answers.unwrap_or_default(),
            (oom_kills, now),
        );
        let pause = self.pause(object).await;
        let engine = slot.engine.as_mut().expect("it was prepared");
        engine.confine(confines);
        let learns = !matches!(plan.recommender, PlanRecommender::Joint | PlanRecommender::HpaVpa);
        let advice = match engine.show(&inputs).filter(|_| learns) {
            Some(moment) => {
                // Nobody else waits for this object's learner.
                *turn = None;
                let file = &mut slot.policy_file;
                let advice = self.advice(object, &plan, file, moment, now).await;
                *turn = Some(self.turn().await);
                advice
            }
            None => None,
        };
        let outcome = engine.recommend(&inputs, pause, advice.as_ref()).ok_or_else(|| {
            let message = format!("{:?} has no pods to learn from yet", plan.target.name);
            Refused::new(ConditionReason::NoPods, message)
        })?;
        let interval = self.ctx.options.checkpoint_interval;
        // The first look has nothing to lose. Each object has its own moment of the interval, or
        // thousands would be written at once.
        let last = *slot.checkpointed_at.get_or_insert_with(|| earlier(now, interval, object));
        if now.saturating_since(last).seconds() >= interval.as_secs_f64() {
            slot.checkpointed_at = Some(now);
            let memory = memory_of(engine, now);
            self.checkpoint(object, memory).await;
        }
        Ok(News { plan, standing, inputs, outcome })
    }

    /// Makes the engine of a plan: of a new version of the object it remembers what the one
    /// before did, of an object not seen before what the checkpoint says.
    async fn prepare(
        &self,
        object: &MultidimPodAutoscaler,
        plan: &Plan,
        slot: &mut Slot,
    ) -> Result<(), Refused> {
        let of = Some((object.uid(), object.meta().generation));
        if slot.of == of && slot.engine.is_some() {
            return Ok(());
        }
        let unavailable = |why: String| Refused::new(ConditionReason::RecommenderUnavailable, why);
        let mut engine = Engine::new(plan.clone(), self.ctx.options.trust)
            .map_err(|error| unavailable(error.to_string()))?;
        // Taken out first: an engine is not looked at by two, and does not wait for servers.
        let before = slot.engine.take();
        let is_same = slot.of.as_ref().is_some_and(|(uid, _)| *uid == object.uid());
        let memory = match before.filter(|_| is_same) {
            Some(before) => is_of(plan, before.plan().recommender.name(), &before.plan().target)
                .then(|| {
                    let mut memory = Snapshot::default();
                    before.save("engine", &mut memory);
                    memory
                }),
            None => self.read_checkpoint(object, plan).await?,
        };
        if let Some(memory) = memory
            && let Err(error) = engine.load("engine", &memory)
        {
            // What was remembered no longer fits: better to begin anew than not at all.
            let note = format!("what was remembered cannot be read, beginning anew: {error}");
            self.ctx.tell(object, true, "CheckpointUnreadable", &note).await;
            engine = Engine::new(plan.clone(), self.ctx.options.trust)
                .map_err(|error| unavailable(error.to_string()))?;
        }
        slot.engine = Some(engine);
        slot.of = of;
        Ok(())
    }

    /// Who has one may ask the API server.
    async fn turn(&self) -> SemaphorePermit<'_> {
        self.ctx.turns.acquire().await.expect("it is never closed")
    }

    /// What a recommender that learns says of a moment; none for those that do not.
    async fn advice(
        &self,
        object: &MultidimPodAutoscaler,
        plan: &Plan,
        policy_file: &mut Option<PolicyFile>,
        moment: Moment,
        now: SimTime,
    ) -> Option<Advice> {
        match &plan.recommender {
            PlanRecommender::Joint | PlanRecommender::HpaVpa => None,
            PlanRecommender::Policy(at) => {
                if policy_file.as_ref().is_none_or(|file| file.at() != at) {
                    *policy_file = Some(PolicyFile::new(at.clone()));
                }
                let file = policy_file.as_mut().expect("it was made above");
                let namespace = object.namespace().unwrap_or_default();
                file.refresh(&self.ctx.client, &namespace, now).await;
                Some(file.advise(&moment.state))
            }
            PlanRecommender::External(actions, timeout) => {
                let patience = std::time::Duration::from_nanos(timeout.nanos());
                match self.ctx.learners.desk(&key_of(object), *actions, patience) {
                    Ok(desk) => Some(desk.ask(moment, *timeout).await),
                    Err(nobody) => Some(Advice::Unavailable { why: nobody.to_string() }),
                }
            }
        }
    }

    async fn pause(&self, object: &MultidimPodAutoscaler) -> Option<Pause> {
        let value = object.annotations().get(PAUSE_ANNOTATION)?;
        match Pause::read(value) {
            Ok(pause) => Some(pause),
            Err(unknown) => {
                self.ctx.tell(object, true, "UnknownPause", &unknown.to_string()).await;
                Some(Pause::All)
            }
        }
    }

    async fn write(
        &self,
        object: &MultidimPodAutoscaler,
        slot: &mut Slot,
        status: MultidimPodAutoscalerStatus,
        now: SimTime,
    ) {
        let is_old = |at: SimTime| now.saturating_since(at) >= REWRITE_AFTER;
        // Somebody else wrote into it: the updater must not go on acting on that.
        let is_foreign = |written: &MultidimPodAutoscalerStatus, at: SimTime| {
            let is_seen = now.saturating_since(at) >= SEEN_AFTER;
            let seen = object.status.as_ref();
            is_seen && seen.is_some_and(|seen| acted_on(seen) != acted_on(written))
        };
        let is_news = slot.written.as_ref().is_none_or(|(written, at)| {
            is_old(*at)
                || is_foreign(written, *at)
                || without_times(written) != without_times(&status)
        });
        if !is_news || !self.ctx.write_status(&key_of(object), FIELD_MANAGER, &status).await {
            return;
        }
        let previous = slot.written.take().map(|(written, _)| written);
        let previous = previous.or_else(|| object.status.clone()).unwrap_or_default();
        self.tell_of_conditions(object, &previous, &status).await;
        slot.written = Some((status, now));
    }

    /// Conditions as metrics. One that nobody tells of has none.
    fn show_conditions(&self, key: &Key, status: &MultidimPodAutoscalerStatus) {
        for kind in ConditionType::ALL {
            let name = kind.to_string();
            let condition = status.conditions.iter().find(|condition| condition.type_ == name);
            self.ctx.telemetry.condition(key, kind, condition);
        }
    }

    /// An event for every condition that turned or has another reason.
    async fn tell_of_conditions(
        &self,
        object: &MultidimPodAutoscaler,
        previous: &MultidimPodAutoscalerStatus,
        status: &MultidimPodAutoscalerStatus,
    ) {
        self.show_conditions(&key_of(object), status);
        for condition in &status.conditions {
            let before = previous.conditions.iter().find(|before| before.type_ == condition.type_);
            let turned = before.is_none_or(|before| {
                before.status != condition.status || before.reason != condition.reason
            });
            if turned {
                self.ctx.telemetry.condition_turned(condition);
            }
            // To be limited is everyday life, of which only a change taken back is worth a word;
            // a mode is what people chose.
            let is_everyday = condition.type_ == ConditionType::Unlimited.to_string()
                && condition.reason != ConditionReason::Reverted.to_string()
                || condition.reason == ConditionReason::NotInMode.to_string();
            let is_good_from_the_start = before.is_none()
                && condition.status != "False"
                && condition.reason != ConditionReason::RecommenderUnavailable.to_string();
            if turned && !is_everyday && !is_good_from_the_start {
                let note = format!("{}: {}", condition.type_, condition.message);
                let stands_in = condition.type_ == ConditionType::Ready.to_string()
                    && condition.reason != ConditionReason::AsPlanned.to_string();
                let is_warning = condition.status == "False" || stands_in;
                self.ctx.tell(object, is_warning, &condition.reason, &note).await;
            }
        }
    }

    /// While the API server is away nobody can be told of it; afterwards everybody is.
    async fn tell_of_outage(
        &self,
        object: &MultidimPodAutoscaler,
        slot: &mut Slot,
        outage: Option<Outage>,
    ) {
        let Some(outage) = outage.filter(|outage| slot.told.as_ref() != Some(outage)) else {
            return;
        };
        slot.told = Some(outage);
        let note = format!(
            "the API server did not answer for {}s: nothing was changed meanwhile",
            outage.lasted.as_secs()
        );
        let reason = ConditionReason::ServerUnavailable.to_string();
        self.ctx.tell(object, true, &reason, &note).await;
    }

    async fn checkpoint(
        &self,
        object: &MultidimPodAutoscaler,
        spec: MultidimPodAutoscalerCheckpointSpec,
    ) {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<MultidimPodAutoscalerCheckpoint> =
            Api::namespaced(self.ctx.client.clone(), &namespace);
        let mut checkpoint = MultidimPodAutoscalerCheckpoint::new(&object.name_any(), spec);
        // It goes with its object. It does not hold the object up: that would take the right to
        // change finalizers on clusters that check it.
        let owner: Option<OwnerReference> = object.owner_ref(&());
        checkpoint.metadata = ObjectMeta {
            name: Some(object.name_any()),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        };
        // Whoever leads now has its own.
        if !self.ctx.leads.is_held() {
            return;
        }
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let written = api.patch(&object.name_any(), &params, &Patch::Apply(&checkpoint)).await;
        if let Err(error) = written {
            self.ctx.telemetry.server_error("checkpoint", &error);
        }
    }

    async fn read_checkpoint(
        &self,
        object: &MultidimPodAutoscaler,
        plan: &Plan,
    ) -> Result<Option<Snapshot>, Refused> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<MultidimPodAutoscalerCheckpoint> =
            Api::namespaced(self.ctx.client.clone(), &namespace);
        let found = match api.get_opt(&object.name_any()).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.ctx.telemetry.server_error("checkpoint", &error);
                // The answer is no, and will be next time: the object works without its past.
                let is_final = matches!(&error, kube::Error::SerdeError(_))
                    || matches!(&error, kube::Error::Api(no) if (400..429).contains(&no.code));
                if is_final {
                    let note = format!("the checkpoint cannot be read, beginning anew: {error}");
                    self.ctx.tell(object, true, "CheckpointUnreadable", &note).await;
                    return Ok(None);
                }
                // Beginning anew would soon write over what is remembered: better to ask again.
                let message = format!("what was remembered cannot be read now: {error}");
                return Err(Refused::new(ConditionReason::ServerUnavailable, message));
            }
        };
        // One of an object of the same name that is gone is not ours.
        let is_ours =
            found.owner_references().iter().any(|owner| Some(&owner.uid) == object.uid().as_ref());
        let target = found.spec.scale_target_ref.as_ref().unwrap_or(&plan.target);
        if !is_ours || !is_of(plan, &found.spec.recommender, target) {
            return Ok(None);
        }
        match from_text(&found.spec.memory) {
            Ok(memory) => Ok(Some(memory)),
            Err(error) => {
                let note = format!("the checkpoint cannot be read, beginning anew: {error}");
                self.ctx.tell(object, true, "CheckpointUnreadable", &note).await;
                Ok(None)
            }
        }
    }
}

/// The LimitRanges that there are, or why they cannot be listed.
async fn limit_ranges_of(ctx: &Context) -> Result<Arc<LimitRanges>, String> {
    let api = all_of::<LimitRange>(&ctx.client, ctx.options.only_namespace.as_deref());
    let list = list_all(ctx, &api, "list limit ranges").await?;
    Ok(Arc::new(LimitRanges::new(list)))
}

/// Whether what a recommender remembers of a workload is of this plan. What one workload uses says
/// nothing of another.
fn is_of(plan: &Plan, recommender: &str, target: &ScaleTargetRef) -> bool {
    recommender == plan.recommender.name() && *target == plan.target
}

/// A moment of the interval before now, another one for each object.
fn earlier(now: SimTime, interval: Duration, object: &MultidimPodAutoscaler) -> SimTime {
    let mut hasher = DefaultHasher::new();
    object.uid().hash(&mut hasher);
    let ago = interval.as_nanos() as u64 / 1000 * (hasher.finish() % 1000);
    SimTime::from_nanos(now.nanos().saturating_sub(ago))
}

fn is_recent(at: Timestamp) -> bool {
    Timestamp::now().duration_since(at) < TOLD_FOR
}

/// What an engine remembers, to be written down.
fn memory_of(engine: &Engine, now: SimTime) -> MultidimPodAutoscalerCheckpointSpec {
    let mut memory = Snapshot::default();
    engine.save("engine", &mut memory);
    MultidimPodAutoscalerCheckpointSpec {
        taken_at: time(now),
        recommender: engine.plan().recommender.name().to_owned(),
        scale_target_ref: Some(engine.plan().target.clone()),
        memory: to_text(&memory),
    }
}

/// What a look at an object brought.
struct News {
    plan: Plan,
    standing: Standing,
    inputs: crate::recommend::Inputs,
    outcome: Outcome,
}

/// Whether two statuses have the same conditions, since whenever that is.
fn says_the_same(a: &MultidimPodAutoscalerStatus, b: &MultidimPodAutoscalerStatus) -> bool {
    let said = |status: &MultidimPodAutoscalerStatus| {
        let words = |one: &Condition| {
            (one.type_.clone(), one.status.clone(), one.reason.clone(), one.message.clone())
        };
        status.conditions.iter().map(words).collect::<Vec<_>>()
    };
    said(a) == said(b)
}

/// What the updater and the webhook act on.
fn acted_on(status: &MultidimPodAutoscalerStatus) -> impl PartialEq + '_ {
    let replicas = (status.current_replicas, status.desired_replicas);
    (replicas, &status.recommendation, &status.selector)
}

/// A status without the times and figures that change with every look.
fn without_times(status: &MultidimPodAutoscalerStatus) -> MultidimPodAutoscalerStatus {
    let mut status = status.clone();
    status.recommended_at = None;
    for metric in &mut status.current_metrics {
        metric.measured_at = None;
        metric.value = None;
    }
    if let Some(decision) = status.decisions.first_mut() {
        decision.at = time(SimTime::ZERO);
        decision.reasons.iter_mut().for_each(without_digits);
    }
    if let Some(alternatives) = &mut status.alternatives {
        alternatives.reasons.iter_mut().for_each(without_digits);
    }
    for condition in &mut status.conditions {
        without_digits(&mut condition.message);
    }
    status
}

/// Words tell of seconds that remain and of use that varies: only other words are news.
fn without_digits(text: &mut String) {
    text.retain(|c| !c.is_ascii_digit());
}
