//! From which load on the order of requests matters: a backend with slots, requests that arrive at
//! random, and the same requests in every order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use homeostat_core::SeedTree;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::backend::{Backend, Work};
use super::client::{Client, chat};
use super::process::GatewayProcess;

const SLOTS: usize = 8;
/// A timer of the runtime counts whole milliseconds: a token must be as long.
const PER_TOKEN: Duration = Duration::from_millis(1);
/// Mean of an exponential distribution, as lengths of chats roughly have.
const MEAN_TOKENS: f64 = 60.0;
/// Longer answers are cut. It is what the gateway expects of a model that it does not know, so that
/// `max_tokens`, where it is smaller, is the expected length.
const MAX_TOKENS: u32 = 200;
const LOADS: [f64; 7] = [0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95];
const ORDERS: [&str; 3] = ["fcfs", "aged", "shortest-first"];
/// The 95 % quantile of Student's distribution for so many repetitions less one.
const STUDENT: [f64; 10] = [f64::NAN, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26];

/// A request: seconds after the first one, and its true length, which its `max_tokens` gives away.
type Job = (f64, u32);

/// A server with slots behind a gateway with one of the orders.
struct Queue {
    gateway: GatewayProcess,
    _backend: Backend,
}

/// What came out for one load, by repetition.
#[derive(Default)]
struct OfLoad {
    waiting_share: Vec<f64>,
    gains: [Vec<f64>; 2],
    tails: [Vec<f64>; 2],
}

/// Gains by load: how much earlier requests complete than in order of arrival, in percent; and the
/// lowest load from which on the gain is above zero, with its whole interval, at all loads. All loads
/// and orders play at the same time: together they take about one core, clients and servers included.
pub(super) async fn measure(repetitions: u32, seconds: u32) -> anyhow::Result<Value> {
    let mut queues = Vec::new();
    for _ in LOADS {
        let mut of_load = Vec::new();
        for order in ORDERS {
            of_load.push(Queue::start(order).await?);
        }
        queues.push(of_load);
    }
    let mut loads: [OfLoad; LOADS.len()] = Default::default();
    for repetition in 0..repetitions {
        let mut playing = JoinSet::new();
        let mut services = Vec::new();
        for (place, load) in LOADS.into_iter().enumerate() {
            let jobs: Arc<[Job]> = jobs(load, seconds, repetition).into();
            let tokens = jobs.iter().map(|(_, tokens)| f64::from(*tokens)).sum::<f64>();
            services.push(tokens / jobs.len() as f64 * PER_TOKEN.as_secs_f64());
            for (order, queue) in queues[place].iter().enumerate() {
                let (address, jobs) = (queue.gateway.address, jobs.clone());
                playing.spawn(async move { ((place, order), play(address, &jobs).await) });
            }
        }
        let mut figures = [[(f64::NAN, f64::NAN); ORDERS.len()]; LOADS.len()];
        while let Some(played) = playing.join_next().await {
            let ((place, order), played) = played?;
            figures[place][order] = played?;
        }
        for (place, of_load) in loads.iter_mut().enumerate() {
            let [(fcfs_mean, fcfs_p99), others @ ..] = figures[place];
            of_load.waiting_share.push(1.0 - services[place] / fcfs_mean);
            for (order, (mean, p99)) in others.into_iter().enumerate() {
                of_load.gains[order].push(100.0 * (1.0 - mean / fcfs_mean));
                of_load.tails[order].push(p99 / fcfs_p99);
            }
        }
    }
    let mut figures = Map::new();
    for (order, name) in ORDERS[1..].iter().enumerate() {
        let helps = |of_load: &OfLoad| lower_bound(&of_load.gains[order]) > 0.0;
        let first = loads.iter().rposition(|of_load| !helps(of_load)).map_or(0, |last| last + 1);
        let load = LOADS.get(first).map_or(Value::Null, |load| json!(load));
        figures.insert(format!("load_{}", name.replace('-', "_")), load);
    }
    for (load, of_load) in LOADS.into_iter().zip(&loads) {
        let mut shown = Map::new();
        shown.insert("waiting_share_fcfs".to_owned(), interval(&of_load.waiting_share));
        for (order, name) in ORDERS[1..].iter().enumerate() {
            let name = name.replace('-', "_");
            shown.insert(format!("gain_pct_{name}"), interval(&of_load.gains[order]));
            shown.insert(format!("p99_ratio_{name}"), interval(&of_load.tails[order]));
        }
        figures.insert(format!("at_{load}"), shown.into());
    }
    Ok(figures.into())
}

impl Queue {
    async fn start(order: &str) -> anyhow::Result<Self> {
        let slots = Arc::new(Semaphore::new(SLOTS));
        let backend = Backend::start(Work::Slots(slots, PER_TOKEN)).await?;
        let settings = format!(
            "max_parallel = {SLOTS}\n[queue]\norder = \"{order}\"\nhead_start_s = 0.3\nmax_waiting = 100000\n"
        );
        Ok(Self { gateway: GatewayProcess::start(&backend, &settings)?, _backend: backend })
    }
}

/// Of a length, in tokens: its mean, cut and rounded up as it is.
fn mean_tokens() -> f64 {
    let stays = (-1.0 / MEAN_TOKENS).exp();
    (1.0 - stays.powi(MAX_TOKENS as i32)) / (1.0 - stays)
}

fn jobs(load: f64, seconds: u32, repetition: u32) -> Vec<Job> {
    let mut rng = SeedTree::new(u64::from(repetition) + 1).stream("gateway/break-even");
    let mut exponential = |mean: f64| -mean * (1.0 - rng.uniform()).ln();
    let service = mean_tokens() * PER_TOKEN.as_secs_f64();
    let gap = service / (load * SLOTS as f64);
    let mut at = 0.0;
    let mut jobs = Vec::new();
    loop {
        at += exponential(gap);
        if at > f64::from(seconds) {
            return jobs;
        }
        jobs.push((at, (exponential(MEAN_TOKENS).ceil() as u32).clamp(1, MAX_TOKENS)));
    }
}

/// Mean and 99 % quantile of the time from when a request is due until it is answered.
async fn play(address: std::net::SocketAddr, jobs: &[Job]) -> anyhow::Result<(f64, f64)> {
    let start = Instant::now() + Duration::from_millis(100);
    let mut requests = JoinSet::new();
    for (at, tokens) in jobs.iter().copied() {
        requests.spawn(async move {
            let due = start + Duration::from_secs_f64(at);
            tokio::time::sleep_until(due.into()).await;
            let mut client = Client::connect(address).await?;
            client.chat(&chat(&format!(",\"max_tokens\":{tokens}"))).await?;
            anyhow::Ok(due.elapsed().as_secs_f64())
        });
    }
    let mut seconds = Vec::with_capacity(jobs.len());
    while let Some(ended) = requests.join_next().await {
        seconds.push(ended??);
    }
    seconds.sort_unstable_by(f64::total_cmp);
    let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
    let last = seconds.len() - 1;
    Ok((mean, seconds[(0.99 * last as f64).round() as usize]))
}

/// Mean and half width of the 95 % interval.
fn mean_and_half_width(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance =
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let student = STUDENT.get(values.len() - 1).copied().unwrap_or(2.0);
    (mean, student * (variance / count).sqrt())
}

/// Not a number for one value, which has no interval: it is above nothing then.
fn lower_bound(values: &[f64]) -> f64 {
    let (mean, half_width) = mean_and_half_width(values);
    mean - half_width
}

fn interval(values: &[f64]) -> Value {
    let (mean, half_width) = mean_and_half_width(values);
    let round = |value: f64| {
        if value.is_finite() { json!((value * 100.0).round() / 100.0) } else { Value::Null }
    };
    json!({ "mean": round(mean), "half_width": round(half_width) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_at_the_load_that_was_asked_for() {
        let jobs: Vec<Job> = (0..20).flat_map(|repetition| jobs(0.7, 100, repetition)).collect();
        let tokens = jobs.iter().map(|(_, tokens)| f64::from(*tokens)).sum::<f64>();
        let load = tokens * PER_TOKEN.as_secs_f64() / (2000.0 * SLOTS as f64);
        assert!((load - 0.7).abs() < 0.01, "{load}");
        assert!(jobs.iter().all(|(_, tokens)| (1..=MAX_TOKENS).contains(tokens)));
    }

    #[test]
    fn one_repetition_has_no_interval() {
        assert!(lower_bound(&[5.0]).is_nan());
        assert!((lower_bound(&[5.0, 6.0, 7.0]) - (6.0 - 4.30 / 3.0_f64.sqrt())).abs() < 1e-9);
    }
}
