//! The updater: applies the recommendation in an object's status to its workload, within the limits
//! of disruption.

mod slot;
mod update;

use std::sync::Arc;

use homeostat_autoscaler::api::Plan;
use kube::Resource;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::{Duration, MissedTickBehavior};

use self::slot::Slot;
use self::update::Update;
use super::context::{Context, Key, Slots, key_of, now};
use crate::supervisor::Heartbeat;

/// Pods become ready and maintenance windows open without a change of the object, so all objects
/// are updated at this interval.
const INTERVAL: Duration = Duration::from_secs(5);

/// An update that takes longer is waiting for a server that does not answer, and is cancelled.
const MAX_UPDATE_TIME: Duration = Duration::from_secs(60);

/// Several intervals: the updater only starts updates, and does not wait for them.
pub(crate) const UPDATER_DEADLINE: Duration = Duration::from_secs(30);

/// Applies recommendations.
pub struct Updater {
    ctx: Arc<Context>,
    slots: Slots<Slot>,
}

impl Updater {
    /// An updater without state.
    pub fn new(ctx: Arc<Context>) -> Arc<Self> {
        Arc::new(Self { ctx, slots: Slots::default() })
    }

    /// Applies recommendations when a status changes and at an interval, as long as the process
    /// runs.
    pub async fn run(self: Arc<Self>, mut changes: UnboundedReceiver<Key>, heartbeat: Heartbeat) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut updates = JoinSet::new();
        loop {
            heartbeat.beat();
            let keys = tokio::select! {
                Some(update) = updates.join_next() => {
                    // A panic while one object is updated must not stop the updates of the others.
                    if update.is_err() {
                        self.ctx.telemetry.panicked();
                    }
                    continue;
                }
                _ = ticks.tick() => {
                    let objects = self.ctx.objects.state();
                    objects.iter().map(|object| key_of(&**object)).collect()
                }
                key = changes.recv() => {
                    let Some(key) = key else { return };
                    vec![key]
                }
            };
            if !self.ctx.is_leader() {
                // The state would be outdated after the changes of another leader.
                self.slots.retain(|_| false);
                continue;
            }
            for key in keys {
                let this = self.clone();
                updates.spawn(async move {
                    if tokio::time::timeout(MAX_UPDATE_TIME, this.update(&key)).await.is_err() {
                        this.ctx.telemetry.server_timed_out("update", MAX_UPDATE_TIME);
                    }
                });
            }
        }
    }

    async fn update(&self, key: &Key) {
        let slot = self.slots.of(key);
        // Another update of the object is running, and the next one follows soon.
        let Ok(mut slot) = slot.try_lock() else { return };
        let Some(guarded) = self.ctx.object(key) else {
            self.slots.retain(|other| other != key);
            return;
        };
        let Ok(object) = &guarded.0 else { return };
        let (Some(status), Ok(plan)) = (&object.status, Plan::try_new(&object.spec)) else {
            return;
        };
        if object.meta().deletion_timestamp.is_some() {
            return;
        }
        let update = Update { ctx: &self.ctx, object, status, plan: &plan, now: now() };
        if update.is_about_to_be_recommended() {
            return;
        }
        let part = update.apply(&mut slot).await;
        slot.known = Some(part.clone());
        if slot.is_change(&part, update.now) && update.write(&part).await {
            slot.written = Some((part, update.now));
        }
    }
}
