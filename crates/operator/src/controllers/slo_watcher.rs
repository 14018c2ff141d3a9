//! The SLO watcher: queries latency more often than the recommender resyncs, and triggers a
//! reconcile when an SLO is violated or the violation gets worse. Latency rises long before usage in
//! a burst, and a burst does not wait for the next resync.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt, stream};
use homeostat_autoscaler::api::{Goal, Mode, Plan, Recommender};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Duration, Instant, MissedTickBehavior};

use super::context::{Context, Key, key_of};
use super::measurements::ask_one;
use crate::supervisor::Heartbeat;

/// Rounds of queries between two resyncs.
const ROUNDS_PER_RESYNC: u32 = 3;

/// A lower bound of the period, for very short intervals.
const MIN_PERIOD: Duration = Duration::from_millis(100);

/// Few concurrent queries: the recommender sends its own.
const MAX_CONCURRENT_QUERIES: usize = 4;

/// A latency SLO.
struct Watched {
    query: String,
    /// In seconds.
    threshold: f64,
}

/// Time between two rounds of queries.
fn period(interval: Duration) -> Duration {
    (interval / ROUNDS_PER_RESYNC).max(MIN_PERIOD)
}

/// A round begins, or a query is answered or times out, within this time.
pub(crate) fn slo_watcher_deadline(interval: Duration) -> Duration {
    period(interval) * 2 + Duration::from_secs(60)
}

/// Queries latency SLOs as long as the process runs. It needs a Prometheus server.
pub async fn watch_slos(ctx: Arc<Context>, reconciles: UnboundedSender<Key>, heartbeat: Heartbeat) {
    let period = period(ctx.options.interval);
    // Shifted by half a period, so that no round coincides with a resync.
    let mut ticks = tokio::time::interval_at(Instant::now() + period / 2, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The highest latency since the SLO was last met; the threshold while it is met.
    let mut highest: BTreeMap<Key, f64> = BTreeMap::new();
    loop {
        ticks.tick().await;
        heartbeat.beat();
        if !ctx.is_leader() {
            highest.clear();
            continue;
        }
        let watched = watched(&ctx);
        highest.retain(|key, _| watched.contains_key(key));
        let queries = watched.into_iter().map(|(key, Watched { query, threshold })| {
            let ctx = ctx.clone();
            async move {
                let answer = ask_one(&ctx, &key.0, &query).await;
                (key, threshold, answer)
            }
        });
        let mut answers = stream::iter(queries).buffer_unordered(MAX_CONCURRENT_QUERIES);
        while let Some((key, threshold, answer)) = answers.next().await {
            heartbeat.beat();
            // The next resync judges what is missing or invalid.
            let latency = answer.ok().map(|reading| reading.value).filter(|one| one.is_finite());
            let Some(latency) = latency else { continue };
            let before = highest.get(&key).copied().unwrap_or(threshold);
            let is_met = latency <= threshold;
            highest.insert(key.clone(), if is_met { threshold } else { before.max(latency) });
            if latency > before {
                // Without a receiver the process is about to end.
                let _ = reconciles.send(key);
            }
        }
    }
}

/// The SLOs of objects that act at once. Learners act at their own pace.
fn watched(ctx: &Context) -> BTreeMap<Key, Watched> {
    let objects = ctx.objects.state();
    let readable = objects.iter().filter_map(|guarded| guarded.0.as_ref().ok());
    let watched = readable.filter_map(|object| {
        let plan = Plan::try_new(&object.spec).ok()?;
        let acts = matches!(plan.mode, Mode::Auto | Mode::Canary);
        let Some(Goal::Latency { slo, query }) = plan.goal else { return None };
        let threshold = slo.threshold().seconds();
        (acts && plan.recommender == Recommender::Joint)
            .then(|| (key_of(object), Watched { query, threshold }))
    });
    watched.collect()
}
