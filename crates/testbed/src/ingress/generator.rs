//! Sends the requests.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Endpoints;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::balance::Balancer;
use super::metrics::IngressMetrics;
use crate::cluster::client_of;

/// After this long a request is given up.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answered {
    /// When it should have been sent, in seconds of the run.
    pub intended_s: f64,
    /// From then until its answer, or [`PATIENCE`] if there was none: an outage is no good
    /// latency.
    pub latency_s: f64,
    /// Whether there was an answer.
    pub is_ok: bool,
    /// How much later than intended the generator itself came to it.
    pub send_delay_s: f64,
}

/// Where the requests go.
pub struct IngressConfig {
    /// For following endpoints.
    pub kubeconfig: PathBuf,
    /// Namespace of the service.
    pub namespace: String,
    /// Name of the service.
    pub service: String,
    /// Name of the run, which its latencies carry.
    pub run: String,
    /// Who tells Prometheus.
    pub metrics: Arc<IngressMetrics>,
}

impl IngressConfig {
    /// Starts to send at these times, in seconds from when a pod is ready, on a thread of its own.
    pub fn start(self, arrivals: Vec<f64>) -> Ingress {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stop = is_stopped.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            LocalSet::new().block_on(&runtime.expect("a runtime"), send(self, arrivals, &stop))
        });
        Ingress { thread, is_stopped }
    }
}

/// A load generator at work.
pub struct Ingress {
    thread: JoinHandle<Vec<Answered>>,
    is_stopped: Arc<AtomicBool>,
}

impl Ingress {
    /// Waits until all were sent and answered.
    pub fn finish(self) -> Vec<Answered> {
        self.thread.join().expect("it does not panic")
    }

    /// Sends no more.
    pub fn stop(self) -> Vec<Answered> {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.finish()
    }
}

/// How long a first pod is waited for.
const MAX_WAIT: Duration = Duration::from_secs(60);

async fn send(config: IngressConfig, arrivals: Vec<f64>, stop: &AtomicBool) -> Vec<Answered> {
    let balancer = Rc::new(RefCell::new(Balancer::default()));
    let (metrics, run) = (config.metrics.clone(), Rc::<str>::from(&config.run[..]));
    let following = tokio::task::spawn_local(follow(config, balancer.clone()));
    // A request that came before a pod is known would be refused under every autoscaler.
    let patient_until = Instant::now() + MAX_WAIT;
    while !balancer.borrow().has_pods() && Instant::now() < patient_until {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let started = Instant::now();
    let mut sent = Vec::with_capacity(arrivals.len());
    for intended_s in arrivals {
        let intended = started + Duration::from_secs_f64(intended_s);
        sleep_until(intended).await;
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let send_delay_s = intended.elapsed().as_secs_f64();
        let (balancer, metrics, run) = (balancer.clone(), metrics.clone(), run.clone());
        sent.push(tokio::task::spawn_local(async move {
            let is_ok = request(&balancer, intended + PATIENCE).await.is_some();
            let elapsed = intended.elapsed().as_secs_f64();
            let latency_s = if is_ok { elapsed } else { PATIENCE.as_secs_f64() };
            metrics.observe(&run, latency_s, is_ok);
            Answered { intended_s, latency_s, is_ok, send_delay_s }
        }));
    }
    let mut answered = Vec::with_capacity(sent.len());
    for request in sent {
        answered.push(request.await.expect("it does not panic"));
    }
    following.abort();
    answered
}

/// One request; none if it was not answered in time.
async fn request(balancer: &RefCell<Balancer>, until: Instant) -> Option<()> {
    let (address, connection) = balancer.borrow_mut().take()?;
    let exchanged = timeout_at(until, exchange(address, connection)).await;
    let connection = exchanged.ok().flatten();
    let is_ok = connection.is_some();
    balancer.borrow_mut().give_back(address, connection);
    is_ok.then_some(())
}

/// Asks over a connection, a new one if none is open; the connection if the answer was good.
async fn exchange(address: SocketAddr, connection: Option<TcpStream>) -> Option<TcpStream> {
    let mut stream = match connection {
        Some(stream) => stream,
        None => TcpStream::connect(address).await.ok()?,
    };
    stream.set_nodelay(true).ok()?;
    stream.write_all(b"GET /work HTTP/1.1\r\nHost: work\r\n\r\n").await.ok()?;
    let mut answer = Vec::with_capacity(128);
    while !answer.ends_with(b"\r\n\r\ndone\n") {
        if stream.read_buf(&mut answer).await.ok()? == 0 || answer.len() > 4096 {
            return None;
        }
    }
    answer.starts_with(b"HTTP/1.1 200").then_some(stream)
}

/// Keeps the balancer at the endpoints that are ready.
async fn follow(config: IngressConfig, balancer: Rc<RefCell<Balancer>>) {
    let client = client_of(&config.kubeconfig).await;
    let api: Api<Endpoints> = Api::namespaced(client, &config.namespace);
    let only = watcher::Config::default().fields(&format!("metadata.name={}", config.service));
    let news = watcher(api, only).default_backoff().applied_objects();
    let mut news = std::pin::pin!(news);
    while let Some(news) = news.next().await {
        // One that fails is tried again by the stream itself.
        let Ok(endpoints) = news else { continue };
        let mut ready = Vec::new();
        for subset in endpoints.subsets.iter().flatten() {
            let port = subset.ports.iter().flatten().next().map_or(0, |port| port.port);
            for address in subset.addresses.iter().flatten() {
                let ip: Option<IpAddr> = address.ip.parse().ok();
                ready.extend(ip.map(|ip| SocketAddr::new(ip, port as u16)));
            }
        }
        balancer.borrow_mut().set(&ready);
    }
}
