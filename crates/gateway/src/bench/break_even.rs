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
const LOADS: [f64; 7] = [0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95];
const ORDERS: [&str; 3] = ["fcfs", "aged", "shortest-first"];
/// The 95 % quantile of Student's distribution for so many repetitions less one.
const STUDENT: [f64; 10] = [f64::NAN, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26];

/// A request: seconds after the first one, and its true length, which its `max_tokens` gives away.
type Job = (f64, u32);

/// Gains by load: how much earlier requests complete than in order of arrival, in percent.
pub(super) async fn measure(repetitions: u32, seconds: u32) -> anyhow::Result<Value> {
    let slots = Arc::new(Semaphore::new(SLOTS));
    let backend = Backend::start(Work::Slots(slots, PER_TOKEN)).await?;
    let mut loads = Map::new();
    for load in LOADS {
        let mut gains = [Vec::new(), Vec::new()];
        let (mut tails, mut waits) = ([Vec::new(), Vec::new()], Vec::new());
        for repetition in 0..repetitions {
            let jobs = jobs(load, seconds, repetition);
            let mut figures = Vec::new();
            for order in ORDERS {
                let more = format!(
                    "max_parallel = {SLOTS}\n[queue]\norder = \"{order}\"\nhead_start_s = 0.3\nmax_waiting = 100000\n\
                     [prediction]\ntrain_every = 1000000000\n"
                );
                let gateway = GatewayProcess::start(&backend, &more)?;
                figures.push(play(gateway.address, &jobs).await?);
            }
            let service =
                jobs.iter().map(|(_, tokens)| f64::from(*tokens)).sum::<f64>() / jobs.len() as f64;
            waits.push(1.0 - service * PER_TOKEN.as_secs_f64() / figures[0].0);
            for place in 0..2 {
                gains[place].push(100.0 * (1.0 - figures[place + 1].0 / figures[0].0));
                tails[place].push(figures[place + 1].1 / figures[0].1);
            }
        }
        let mut of_load = Map::new();
        of_load.insert("waiting_share_fcfs".to_owned(), interval(&waits));
        for (place, order) in ORDERS[1..].iter().enumerate() {
            of_load
                .insert(format!("gain_pct_{}", order.replace('-', "_")), interval(&gains[place]));
            of_load
                .insert(format!("p99_ratio_{}", order.replace('-', "_")), interval(&tails[place]));
        }
        loads.insert(format!("load_{load}"), of_load.into());
    }
    Ok(loads.into())
}

fn jobs(load: f64, seconds: u32, repetition: u32) -> Vec<Job> {
    let mut rng = SeedTree::new(u64::from(repetition) + 1).stream("gateway/break-even");
    let mut exponential = |mean: f64| -mean * (1.0 - rng.uniform()).ln();
    let service = MEAN_TOKENS * PER_TOKEN.as_secs_f64();
    let gap = service / (load * SLOTS as f64);
    let mut at = 0.0;
    let mut jobs = Vec::new();
    loop {
        at += exponential(gap);
        if at > f64::from(seconds) {
            return jobs;
        }
        jobs.push((at, exponential(MEAN_TOKENS).ceil().max(1.0) as u32));
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
fn interval(values: &[f64]) -> Value {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance =
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let student = STUDENT.get(values.len() - 1).copied().unwrap_or(2.0);
    let half = student * (variance / count).sqrt();
    let round = |value: f64| {
        if value.is_finite() { json!((value * 100.0).round() / 100.0) } else { Value::Null }
    };
    json!({ "mean": round(mean), "half_width": round(half) })
}
