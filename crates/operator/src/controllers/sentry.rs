//! The sentry: asks how objectives stand more often than the recommender looks, and has it look
//! at once at one that breaks or gets worse. Latency tells of a burst long before use does, and
//! a burst does not wait for the next look.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt, stream};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Duration, Instant, MissedTickBehavior};

use super::context::{Context, Key, key_of};
use super::gather::ask_one;
use crate::api::{Goal, Mode, Plan, Recommender};

/// Times that it asks between two looks.
const TIMES: u32 = 3;

/// Whoever looks all the time is not asked for more often than this.
const LEAST_PERIOD: Duration = Duration::from_millis(100);

/// Questions at the same time: the recommender has its own to ask.
const AT_ONCE: usize = 4;

/// An objective that is watched: the query, and the most seconds that it may say.
struct Watched {
    query: String,
    threshold: f64,
}

/// Asks for as long as the program runs.
pub async fn stand_sentry(ctx: Arc<Context>, looks: UnboundedSender<Key>) {
    if ctx.options.prometheus.is_none() {
        return;
    }
    // Between two looks, and not at the same time as one.
    let period = (ctx.options.interval / TIMES).max(LEAST_PERIOD);
    let mut ticks = tokio::time::interval_at(Instant::now() + period / 2, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The worst that was seen since the objective was kept; the threshold while it is.
    let mut worst: BTreeMap<Key, f64> = BTreeMap::new();
    loop {
        ticks.tick().await;
        if !ctx.is_leader() {
            worst.clear();
            continue;
        }
        let watched = watched(&ctx);
        worst.retain(|key, _| watched.contains_key(key));
        let questions = watched.into_iter().map(|(key, Watched { query, threshold })| {
            let ctx = ctx.clone();
            async move { (key, threshold, ask_one(&ctx, &query).await) }
        });
        let mut answers = stream::iter(questions).buffer_unordered(AT_ONCE);
        while let Some((key, threshold, answer)) = answers.next().await {
            // What is missing or makes no sense, the next look judges.
            let latency = answer.ok().map(|reading| reading.value).filter(|one| one.is_finite());
            let Some(latency) = latency else { continue };
            let before = worst.get(&key).copied().unwrap_or(threshold);
            let is_kept = latency <= threshold;
            worst.insert(key.clone(), if is_kept { threshold } else { before.max(latency) });
            if latency > before {
                // Nobody listens any longer: the program ends.
                let _ = looks.send(key);
            }
        }
    }
}

/// Objectives that something would be done for at once. Those who learn have their own pace.
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
