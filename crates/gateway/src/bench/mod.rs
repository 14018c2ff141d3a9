//! How much time and memory the gateway costs, and from which load on its order helps.

mod backend;
mod break_even;
mod client;
mod process;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::backend::{Backend, Work};
use self::client::{Client, chat};
use self::process::GatewayProcess;

/// Figures: `overhead_ms.{p50,p99}`: quantiles of the latency through the gateway less those without
/// it, at a fixed rate; `requests_per_s` as fast as 32 connections can; `cpu_us_per_request` of the
/// gateway alone; `connections`: streams open at once; `rss_mb`: peak memory of the gateway then;
/// `break_even`: how much earlier requests complete with `shortest-first` and `aged` than with `fcfs`, by
/// load of a server with 8 slots, and the lowest load from which on they do.
#[derive(Args)]
pub(crate) struct BenchArguments {
    /// Requests per second for the overhead.
    #[arg(long, default_value_t = 3000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: u32,
    /// Seconds of each measurement of time.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Streams to open at once; each takes two files of the gateway.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    streams: u32,
    /// Measure the break-even only.
    #[arg(long)]
    break_even: bool,
    /// Repetitions of the break-even, each with other requests.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: u32,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Output {
    /// Aligned columns.
    #[default]
    Table,
    /// JSON.
    Json,
}

/// Connections of the client; requests that find none idle wait, and the wait counts.
const CONNECTIONS: usize = 32;

pub(crate) fn run(arguments: &BenchArguments) -> anyhow::Result<()> {
    // The break-even has a connection for each request that waits, on a slow machine thousands.
    process::allow_files(4 * u64::from(arguments.streams) + 16_384);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let figures = runtime.block_on(async {
        let mut figures = match arguments.break_even {
            true => json!({}),
            false => measure(arguments).await?,
        };
        figures["break_even"] =
            break_even::measure(arguments.repetitions, arguments.seconds).await?;
        anyhow::Ok(figures)
    })?;
    match arguments.output {
        Output::Json => crate::print(&format!("{figures:#}\n")),
        Output::Table => crate::print(&table(&figures, "")),
    }
    Ok(())
}

fn table(figures: &Value, prefix: &str) -> String {
    let line = |(name, value): (&String, &Value)| match value {
        Value::Object(_) => table(value, &format!("{prefix}{name}.")),
        value => format!("{:40} {value}\n", format!("{prefix}{name}")),
    };
    figures.as_object().into_iter().flatten().map(line).collect()
}

async fn measure(arguments: &BenchArguments) -> anyhow::Result<Value> {
    let (release, released) = watch::channel(false);
    let backend = Backend::start(Work::AtOnce(released)).await?;
    let slots = format!("max_parallel = {}\n", u32::MAX / 2);
    let gateway = GatewayProcess::start(&backend, &slots)?;
    let time = Duration::from_secs(arguments.seconds.into());
    let request: Arc<[u8]> = chat("").into();
    // Caches, pools and branch predictors: what a process does in its first second is not measured.
    for address in [gateway.address, backend.address] {
        at_rate(address, &request, arguments.rate, Duration::from_secs(1)).await?;
    }
    let direct = at_rate(backend.address, &request, arguments.rate, time).await?;
    let through = at_rate(gateway.address, &request, arguments.rate, time).await?;
    let cpu_before = gateway.cpu_seconds()?;
    let (count, seconds) = as_fast_as_possible(gateway.address, &request, time).await?;
    let cpu = gateway.cpu_seconds()? - cpu_before;
    let streams = open_streams(&gateway, &backend, arguments.streams as usize, release).await?;
    let milliseconds = |seconds: f64| (seconds * 1e6).round() / 1e3;
    Ok(json!({
        "overhead_ms": {
            "p50": milliseconds(through.quantile(0.5) - direct.quantile(0.5)),
            "p99": milliseconds(through.quantile(0.99) - direct.quantile(0.99)),
        },
        "latency_ms": {
            "p50": milliseconds(through.quantile(0.5)), "p99": milliseconds(through.quantile(0.99)),
        },
        "direct_ms": {
            "p50": milliseconds(direct.quantile(0.5)), "p99": milliseconds(direct.quantile(0.99)),
        },
        "requests_per_s": (count as f64 / seconds).round(),
        "cpu_us_per_request": (cpu * 1e6 / count as f64).round(),
        "connections": streams,
        "rss_mb": (gateway.peak_bytes()? as f64 / 1e6).round(),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
    }))
}

/// Sorted seconds.
struct Latencies(Vec<f64>);

impl Latencies {
    fn quantile(&self, share: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        self.0.get((share * last as f64).round() as usize).copied().unwrap_or(f64::NAN)
    }
}

/// Sends at fixed times whatever happens: a latency counts from when a request was due, so that a
/// server that stalls cannot hide it.
async fn at_rate(
    address: std::net::SocketAddr,
    request: &Arc<[u8]>,
    rate: u32,
    time: Duration,
) -> anyhow::Result<Latencies> {
    let start = Instant::now() + Duration::from_millis(20);
    let period = Duration::from_secs(1) / rate;
    let total = u64::from(rate) * time.as_secs();
    let next = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let latencies = Arc::new(Mutex::new(Vec::with_capacity(total as usize)));
    let mut clients = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (request, next, latencies) = (request.clone(), next.clone(), latencies.clone());
        let mut client = Client::connect(address).await?;
        clients.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= total {
                    return anyhow::Ok(());
                }
                let due = start + period * u32::try_from(number)?;
                sleep_until(due).await;
                client.chat(&request).await?;
                let seconds = due.elapsed().as_secs_f64();
                latencies.lock().map_err(|_| anyhow::anyhow!("a client panicked"))?.push(seconds);
            }
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended?.context("a request of the benchmark failed")?;
    }
    let mut latencies =
        std::mem::take(&mut *latencies.lock().map_err(|_| anyhow::anyhow!("a client panicked"))?);
    latencies.sort_unstable_by(f64::total_cmp);
    Ok(Latencies(latencies))
}

/// The runtime's timers count whole milliseconds: the rest is spent yielding.
async fn sleep_until(due: Instant) {
    let margin = Duration::from_millis(2);
    if let Some(wait) = due.checked_duration_since(Instant::now()).filter(|wait| *wait > margin) {
        tokio::time::sleep(wait - margin).await;
    }
    while Instant::now() < due {
        tokio::task::yield_now().await;
    }
}

async fn as_fast_as_possible(
    address: std::net::SocketAddr,
    request: &Arc<[u8]>,
    time: Duration,
) -> anyhow::Result<(u64, f64)> {
    let start = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let request = request.clone();
        let mut client = Client::connect(address).await?;
        clients.spawn(async move {
            let mut count = 0;
            while start.elapsed() < time {
                client.chat(&request).await?;
                count += 1;
            }
            anyhow::Ok(count)
        });
    }
    let mut count = 0;
    while let Some(ended) = clients.join_next().await {
        count += ended??;
    }
    Ok((count, start.elapsed().as_secs_f64()))
}

/// Opens streams until there are enough or the gateway has no files left, then lets all of them end.
async fn open_streams(
    gateway: &GatewayProcess,
    backend: &Backend,
    wanted: usize,
    release: watch::Sender<bool>,
) -> anyhow::Result<usize> {
    let request: Arc<[u8]> = chat(",\"stream\":true").into();
    let before = backend.requests.load(Ordering::Relaxed);
    let mut clients = Vec::with_capacity(wanted);
    let can_open = gateway.files()?.saturating_sub(200) / 2;
    while clients.len() < wanted.min(can_open as usize) {
        let mut opening = JoinSet::new();
        for _ in 0..100.min(wanted.min(can_open as usize) - clients.len()) {
            let (request, address) = (request.clone(), gateway.address);
            opening.spawn(async move {
                let mut client = Client::connect(address).await?;
                client.open_stream(&request).await?;
                anyhow::Ok(client)
            });
        }
        for client in opening.join_all().await {
            clients.push(client.context("a stream was not opened")?);
        }
    }
    let count = (backend.requests.load(Ordering::Relaxed) - before) as usize;
    anyhow::ensure!(
        count == clients.len(),
        "{count} streams reached the backend, not {}",
        clients.len()
    );
    release.send_replace(true);
    for client in &mut clients {
        client.finish_stream().await.context("a stream did not end")?;
    }
    Ok(count)
}
