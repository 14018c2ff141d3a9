//! What a workload's pods cost, and how they end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How often the pods are counted.
const TICK: Duration = Duration::from_millis(100);

/// One moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct PodSample {
    /// In seconds since the run began.
    pub(crate) at_s: f64,
    /// Pods that have a node and have not finished.
    pub(crate) pods: u32,
    /// Those that are ready.
    pub(crate) ready: u32,
    /// CPU that those with a node request.
    pub(crate) cores: f64,
}

/// What was seen of the pods.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) moments: Vec<PodSample>,
    /// When pods began to end, in seconds since the run began.
    pub(crate) endings: BTreeMap<String, f64>,
    /// When how many pods were taken away by scaling in.
    pub(crate) scaled_in: Vec<(f64, u32)>,
    /// Restarts of containers.
    pub(crate) restarts: BTreeMap<String, i32>,
}

/// Watches the pods of a namespace.
pub(crate) struct Watching {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Seen>,
}

impl Watching {
    pub(crate) fn start(client: &Client, namespace: &str, started: Instant) -> Self {
        let (stop, stopped) = oneshot::channel();
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
        let task = tokio::spawn(follow(pods, deployments, started, stopped));
        Self { stop, task }
    }

    pub(crate) async fn finish(self) -> Seen {
        // One that has ended already needs no stopping.
        let _ = self.stop.send(());
        self.task.await.expect("it does not panic")
    }
}

async fn follow(
    pods: Api<Pod>,
    deployments: Api<Deployment>,
    started: Instant,
    mut stopped: oneshot::Receiver<()>,
) -> Seen {
    let mut news = std::pin::pin!(watch(pods, watcher::Config::default()).default_backoff());
    let wanted = watch(deployments, watcher::Config::default()).default_backoff();
    let mut wanted = std::pin::pin!(wanted.applied_objects());
    let mut tick = tokio::time::interval(TICK);
    let mut known: BTreeMap<String, Pod> = BTreeMap::new();
    let mut replicas: Option<u32> = None;
    let mut seen = Seen::default();
    loop {
        let at_s = || started.elapsed().as_secs_f64();
        tokio::select! {
            _ = &mut stopped => return seen,
            _ = tick.tick() => seen.moments.push(moment(&known, at_s())),
            Some(Ok(deployment)) = wanted.next() => {
                let now = deployment.spec.replicas.unwrap_or(0) as u32;
                if let Some(fewer) = replicas.and_then(|before| before.checked_sub(now)) {
                    seen.scaled_in.push((at_s(), fewer));
                }
                replicas = Some(now);
            }
            Some(Ok(event)) = news.next() => match event {
                Event::Apply(pod) | Event::InitApply(pod) => {
                    let name = pod.name_any();
                    if pod.metadata.deletion_timestamp.is_some() {
                        seen.endings.entry(name.clone()).or_insert_with(at_s);
                    }
                    seen.restarts.insert(name.clone(), restarts(&pod));
                    known.insert(name, pod);
                }
                Event::Delete(pod) => {
                    seen.endings.entry(pod.name_any()).or_insert_with(at_s);
                    known.remove(&pod.name_any());
                }
                Event::Init | Event::InitDone => {}
            },
        }
    }
}

fn moment(pods: &BTreeMap<String, Pod>, at_s: f64) -> PodSample {
    let mut moment = PodSample { at_s, pods: 0, ready: 0, cores: 0.0 };
    for pod in pods.values().filter(|pod| holds_a_place(pod)) {
        moment.pods += 1;
        moment.ready += u32::from(is_ready(pod));
        moment.cores += requested_cores(pod);
    }
    moment
}

fn holds_a_place(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let has_node = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    has_node && !matches!(phase, Some("Succeeded" | "Failed"))
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.is_some_and(|all| {
            all.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        })
}

fn requested_cores(pod: &Pod) -> f64 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let requests =
        containers.filter_map(|container| container.resources.as_ref()?.requests.as_ref());
    requests.filter_map(|requests| cores(&requests.get("cpu")?.0)).sum()
}

/// Cores of an amount such as `250m` or `1.5`.
fn cores(amount: &str) -> Option<f64> {
    match amount.strip_suffix('m') {
        Some(millicores) => millicores.parse::<f64>().ok().map(|millicores| millicores / 1e3),
        None => amount.parse().ok(),
    }
}

fn restarts(pod: &Pod) -> i32 {
    let containers =
        pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    containers.map(|container| container.restart_count).sum()
}
