//! Controller manager, scheduler and hollow nodes: pods are created, run, are evicted and deleted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt};
use homeostat_autoscaler::api::MultidimPodAutoscaler;
use homeostat_test_skip::skip;
use homeostat_testbed::{Cluster, ControlPlaneConfig, HollowNodes, free_port};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::cluster;
use super::operator::{Operator, OperatorConfig};
use super::shop::{Shop, spec};

/// A hollow kubelet sends at most five requests per second: more of them start pods faster.
const NODES: u32 = 8;

/// Patience on a machine that is busy with other work.
const LONG: Duration = Duration::from_secs(180);

/// The cluster that the tests here share; none if there are no binaries or no rights.
fn shared() -> Option<&'static Cluster> {
    static CLUSTER: OnceLock<&'static Cluster> = OnceLock::new();
    let binaries = cluster::binaries()?;
    if !is_root() {
        skip("hollow nodes need root, for their network namespaces");
        return None;
    }
    Some(CLUSTER.get_or_init(|| {
        let cluster = cluster::start(binaries.clone(), cluster::fresh_folder("hollow"), Vec::new());
        let (sender, receiver) = std::sync::mpsc::channel();
        // The servers end with the thread that started them, so it runs until the end.
        std::thread::spawn(move || {
            let plane = ControlPlaneConfig {
                controller_manager_arguments: &["--concurrent-replicaset-syncs=20"],
                scheduler_arguments: &["--kube-api-qps=200", "--kube-api-burst=400"],
            };
            let plane = plane.build(cluster, &binaries);
            let nodes = HollowNodes::start(cluster, &binaries, NODES);
            sender.send(()).expect("the receiver waits");
            loop {
                std::thread::park();
                // It is never unparked, so that both keep running.
                let _ = (&plane, &nodes);
            }
        });
        receiver.recv().expect("they start");
        cluster
    }))
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// A namespace on the hollow cluster, whose nodes are ready.
async fn open(name: &str) -> Option<Shop> {
    let shop = Shop::open_on(shared()?, name).await;
    let nodes: Api<Node> = Api::all(shop.client.clone());
    within(LONG, "the nodes to be ready", async || {
        let nodes = nodes.list(&ListParams::default()).await.ok()?.items;
        let is_ready = |node: &&Node| {
            let conditions =
                node.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.into_iter().any(|found| found.type_ == "Ready" && found.status == "True")
        };
        (nodes.iter().filter(is_ready).count() == NODES as usize).then_some(())
    })
    .await;
    Some(shop)
}

async fn within<T>(most: Duration, what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(started.elapsed() < most, "waited {most:?} for: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Creates an object of a kind for which there may be no type.
async fn create(shop: &Shop, kind: (&str, &str, &str), plural: &str, object: Value) {
    let kind = GroupVersionKind::gvk(kind.0, kind.1, kind.2);
    let resource = ApiResource::from_gvk_with_plural(&kind, plural);
    let api: Api<DynamicObject> =
        Api::namespaced_with(shop.client.clone(), &shop.namespace, &resource);
    let mut object = object;
    object["apiVersion"] = json!(kind.api_version());
    object["kind"] = json!(kind.kind);
    let object: DynamicObject = serde_json::from_value(object).expect("valid");
    api.create(&PostParams::default(), &object).await.expect("created");
}

/// A template of pods with small requests: a hollow node has one core.
fn template(app: &str, cpu: &str, memory: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": app } },
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "app", "image": "example.invalid/app:1",
                "resources": { "requests": { "cpu": cpu, "memory": memory } },
            }],
        },
    })
}

/// Pods of a workload that are ready and not being deleted.
async fn ready(shop: &Shop, app: &str) -> Vec<Pod> {
    let pods: Api<Pod> = shop.api();
    let list = pods.list(&ListParams::default().labels(&format!("app={app}"))).await;
    list.expect("listed").items.into_iter().filter(is_ready).collect()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_ready =
        conditions.into_iter().any(|found| found.type_ == "Ready" && found.status == "True");
    is_ready && pod.metadata.deletion_timestamp.is_none()
}

/// Waits for a number of ready pods, while all pods use this much CPU.
async fn settle(shop: &Shop, app: &str, cpu: &str, pods: usize) {
    within(LONG, &format!("{app} to have {pods} pods"), async || {
        let found = ready(shop, app).await;
        for pod in &found {
            shop.uses(&pod.name_any(), cpu, "8Mi").await;
        }
        let all: Api<Pod> = shop.api();
        let list = all.list(&ListParams::default().labels(&format!("app={app}"))).await;
        let all = list.expect("listed").items.len();
        (found.len() == pods && all == pods).then_some(())
    })
    .await;
}

#[tokio::test]
async fn workloads_of_every_kind_grow_and_shrink_through_their_scale() {
    let Some(shop) = open("kinds").await else { return };
    let kinds = [
        (("apps", "v1", "Deployment"), "deployments"),
        (("apps", "v1", "StatefulSet"), "statefulsets"),
        (("", "v1", "ReplicationController"), "replicationcontrollers"),
    ];
    for ((group, version, kind), plural) in kinds {
        let app = kind.to_lowercase();
        let mut spec_of = json!({
            "replicas": 2,
            "selector": { "matchLabels": { "app": app } },
            "template": template(&app, "10m", "8Mi"),
        });
        if kind == "ReplicationController" {
            spec_of["selector"] = json!({ "app": app });
        }
        if kind == "StatefulSet" {
            spec_of["serviceName"] = json!(app);
            spec_of["podManagementPolicy"] = json!("Parallel");
        }
        let object = json!({ "metadata": { "name": app }, "spec": spec_of });
        create(&shop, (group, version, kind), plural, object).await;
        let mut object = spec(&app, "Auto");
        let api_version =
            if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        object["scaleTargetRef"]["apiVersion"] = json!(api_version);
        object["scaleTargetRef"]["kind"] = json!(kind);
        object["goals"] =
            json!({ "metrics": [{ "resource": { "name": "cpu", "averageUtilization": 50 } }] });
        object["constraints"] = json!({
            "containerControlledResources": [],
            "global": {
                "minReplicas": 1, "maxReplicas": 6,
                "behavior": { "scaleDown": { "stabilizationWindowSeconds": 0 } },
            },
        });
        shop.autoscaler(&app, object).await.expect("taken");
    }
    let config = OperatorConfig { arguments: &["--no-webhook"], copy: "" };
    let operator = Operator::start(shop.cluster, &shop.namespace, &config);
    let apps = kinds.map(|((_, _, kind), _)| kind.to_lowercase());
    for (cpu, pods) in [("9m", 6), ("1m", 1)] {
        let all = apps.iter().map(|app| settle(&shop, app, cpu, pods));
        futures::future::join_all(all).await;
    }
    assert!(operator.metric("homeostat_operator_rescales_total", "up") >= 3.0);
    assert!(operator.metric("homeostat_operator_rescales_total", "down") >= 3.0);
}

/// What a watch of all pods observed.
#[derive(Default)]
struct Seen {
    pods: BTreeMap<String, (String, bool)>,
    /// The minimum number of ready pods of each workload, from when it is first read.
    fewest: BTreeMap<String, usize>,
    /// Memory requests of the deleted pods, by uid.
    gone: BTreeMap<String, String>,
}

impl Seen {
    fn observe(&mut self, pod: &Pod, is_gone: bool) {
        let uid = pod.metadata.uid.clone().expect("it has one");
        let app = pod.labels()["app"].clone();
        if is_gone || pod.metadata.deletion_timestamp.is_some() {
            self.gone.insert(uid.clone(), memory(pod));
        }
        if is_gone {
            self.pods.remove(&uid);
        } else {
            self.pods.insert(uid, (app.clone(), is_ready(pod)));
        }
        let ready = self.ready(&app);
        if let Some(fewest) = self.fewest.get_mut(&app) {
            *fewest = ready.min(*fewest);
        }
    }

    fn ready(&self, app: &str) -> usize {
        self.pods.values().filter(|(of, is_ready)| of == app && *is_ready).count()
    }
}

fn memory(pod: &Pod) -> String {
    let container = &pod.spec.as_ref().expect("it has one").containers[0];
    let requests = container.resources.as_ref().and_then(|all| all.requests.as_ref());
    requests.expect("it has requests")["memory"].0.clone()
}

/// A workload whose pods get another size.
struct Resized {
    app: &'static str,
    pods: usize,
    /// Maximum of unavailable pods, by the PodDisruptionBudget.
    budget: usize,
    /// Maximum of unavailable pods, by the object.
    limit: usize,
}

impl Resized {
    async fn create(&self, shop: &Shop) {
        let labels = json!({ "matchLabels": { "app": self.app } });
        let deployment = json!({
            "metadata": { "name": self.app },
            "spec": {
                "replicas": self.pods, "selector": labels,
                "template": template(self.app, "2m", "8Mi"),
            },
        });
        create(shop, ("apps", "v1", "Deployment"), "deployments", deployment).await;
        let budget = json!({
            "metadata": { "name": self.app },
            "spec": { "maxUnavailable": self.budget, "selector": labels },
        });
        let kind = ("policy", "v1beta1", "PodDisruptionBudget");
        create(shop, kind, "poddisruptionbudgets", budget).await;
    }

    /// Waits until all pods are ready and have this much memory.
    async fn settle(&self, shop: &Shop, size: &str) -> Vec<Pod> {
        within(LONG, &format!("{} pods of {} with {size}", self.pods, self.app), async || {
            let pods = ready(shop, self.app).await;
            let sized = pods.iter().filter(|pod| memory(pod) == size).count();
            (sized == self.pods && pods.len() == self.pods).then_some(pods)
        })
        .await
    }

    async fn resize(&self, shop: &Shop) {
        let mut object = spec(self.app, "Auto");
        object["policy"] = json!({ "disruption": {
            "maxUnavailable": self.limit.to_string(), "minPodAge": "1s",
            "evictionsPerHour": self.pods + self.budget,
        }});
        let size = json!({ "cpu": "4m", "memory": "12Mi" });
        object["constraints"] = json!({
            "global": { "minReplicas": self.pods, "maxReplicas": self.pods },
            "container": [{ "name": "app", "requests": { "minAllowed": size, "maxAllowed": size } }],
        });
        shop.autoscaler(self.app, object).await.expect("taken");
    }

    async fn check(&self, shop: &Shop, seen: &Seen) {
        let fewest = seen.fewest[self.app];
        let most_away = self.budget.min(self.limit);
        let app = self.app;
        assert!(fewest + most_away >= self.pods, "{app}: only {fewest} were ready at some moment");
        let api: Api<MultidimPodAutoscaler> = shop.api();
        let status = api.get(app).await.expect("there").status.expect("written");
        let rollout = status.rollout.expect("written");
        assert_eq!((rollout.updated, rollout.outdated), (self.pods as u32, 0), "{app}");
        // Every eviction is recorded, also those of the killed leader, and maybe some that it did
        // not make.
        let known = rollout.evictions.len();
        assert!((self.pods..=self.pods + self.limit).contains(&known), "{app}: {known}");
    }
}

#[tokio::test]
async fn two_hundred_pods_are_resized_within_their_budget_although_the_leader_is_killed() {
    const WORKLOADS: [Resized; 2] = [
        // The PodDisruptionBudget is stricter than the object, and the other way round.
        Resized { app: "checkout", pods: 150, budget: 30, limit: 40 },
        Resized { app: "cart", pods: 50, budget: 20, limit: 10 },
    ];
    const PODS: usize = 200;
    let Some(shop) = open("two-hundred").await else { return };
    let ports = [free_port(), free_port()];
    shop.webhook(&ports).await;
    let began = Instant::now();
    for workload in &WORKLOADS {
        workload.create(&shop).await;
    }
    let seen = Arc::new(Mutex::new(Seen::default()));
    let watched = tokio::spawn(watch(shop.api(), seen.clone()));
    for workload in &WORKLOADS {
        let pods = workload.settle(&shop, "8Mi").await;
        let uses = pods.iter().map(|pod| async { shop.uses(&pod.name_any(), "1m", "9Mi").await });
        futures::stream::iter(uses).buffer_unordered(8).collect::<Vec<()>>().await;
        within(LONG, "the watch", async || {
            let mut seen = seen.lock().expect("no poisoned lock");
            let is_there = seen.ready(workload.app) == workload.pods;
            seen.fewest.insert(workload.app.to_owned(), workload.pods);
            is_there.then_some(())
        })
        .await;
    }
    println!("{PODS} pods run after {:.1?}", began.elapsed());

    for workload in &WORKLOADS {
        workload.resize(&shop).await;
    }
    let start = |copy: &str, port: u16| {
        let listen = format!("127.0.0.1:{port}");
        let arguments = [
            "--listen",
            &listen,
            "--webhook-name",
            "127.0.0.1",
            "--identity",
            copy,
            "--webhook-configuration",
            "two-hundred",
        ];
        let config = OperatorConfig { arguments: &arguments, copy };
        Operator::start(shop.cluster, &shop.namespace, &config)
    };
    let began = Instant::now();
    let first = start("first", ports[0]);
    let holder = async || shop.leader().await;
    within(LONG, "the first to lead", async || holder().await.filter(|name| name == "first")).await;
    let second = start("second", ports[1]);
    within(LONG, "a quarter to be evicted", async || {
        (seen.lock().expect("no poisoned lock").gone.len() >= PODS / 4).then_some(())
    })
    .await;
    first.kill();
    let killed = Instant::now();
    within(LONG, "the second to lead", async || holder().await.filter(|name| name == "second"))
        .await;
    let followed = killed.elapsed();
    for workload in &WORKLOADS {
        workload.settle(&shop, "12Mi").await;
    }
    let took = began.elapsed();
    println!("{PODS} pods resized after {took:.1?}, leader followed after {followed:.1?}");
    assert!(followed < Duration::from_secs(15), "{followed:?}");

    // Longer than the interval of the updater: it has nothing left to do.
    tokio::time::sleep(Duration::from_secs(6)).await;
    watched.abort();
    let seen = std::mem::take(&mut *seen.lock().expect("no poisoned lock"));
    // Every pod of the old size was evicted, and none of the new size. A few are created while no
    // webhook answers in time: they start with the old size and are evicted once more.
    let old = seen.gone.values().filter(|memory| *memory == "8Mi").count();
    assert_eq!(old, seen.gone.len());
    assert!((PODS..=PODS + PODS / 10).contains(&old), "{old} pods went");
    for workload in &WORKLOADS {
        workload.check(&shop, &seen).await;
    }
    assert_eq!(second.metric("homeostat_operator_leads", ""), 1.0);
}

async fn watch(pods: Api<Pod>, seen: Arc<Mutex<Seen>>) {
    let mut events = std::pin::pin!(watcher(pods, watcher::Config::default()));
    while let Ok(Some(event)) = events.try_next().await {
        let mut seen = seen.lock().expect("no poisoned lock");
        match event {
            watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => {
                seen.observe(&pod, false)
            }
            watcher::Event::Delete(pod) => seen.observe(&pod, true),
            watcher::Event::Init | watcher::Event::InitDone => {}
        }
    }
}
