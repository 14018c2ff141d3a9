//! One load under one arm.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use homeostat_testbed::{
    IngressConfig, IngressMetrics, RealCluster, Workload, define_by, free_port,
    webhook_configuration,
};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde_json::Value;

use crate::arm::{Arm, Operator, install};
use crate::calibrate::Size;
use crate::figures::{Figures, Span};
use crate::pods::{PodSample, Watching, is_ready};
use crate::settings::{Arguments, LoadName, Settings};

/// Name of the workload.
pub(crate) const NAME: &str = "work";
/// A run whose generator fell behind is tried again this often.
const REPEATS: u32 = 2;

/// One run to be made.
pub(crate) struct RunPlan {
    pub(crate) run: u32,
    pub(crate) load: LoadName,
    pub(crate) arm: Arm,
}

impl RunPlan {
    /// All of them. The order of the arms rotates, so that none is always first or last.
    pub(crate) fn all(arguments: &Arguments) -> Vec<Self> {
        let mut all = Vec::new();
        for run in 0..arguments.runs {
            for (place, &load) in arguments.loads.iter().enumerate() {
                let mut arms = arguments.arms.clone();
                let turns = (run as usize + place) % arms.len();
                arms.rotate_left(turns);
                all.extend(arms.into_iter().map(|arm| Self { run, load, arm }));
            }
        }
        all
    }
}

/// What came of a run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RunResult {
    pub(crate) run: u32,
    pub(crate) load: LoadName,
    pub(crate) arm: Arm,
    /// How often it was tried before because the generator fell behind.
    pub(crate) repeated: u32,
    pub(crate) is_valid: bool,
    #[serde(flatten)]
    pub(crate) figures: Figures,
    /// Evictions that our operator has on record.
    pub(crate) evictions: u32,
    pub(crate) machine: Machine,
    /// Pods, ready pods and requested cores, once a second.
    pub(crate) timeline: Vec<PodSample>,
    /// What our operator decided, latest first.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(crate) decisions: Value,
}

/// What the machine went through during a run.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Machine {
    /// Share of time in which the processors did something.
    pub(crate) busy: f64,
    /// Share of time that the hypervisor gave to others.
    pub(crate) steal: f64,
    /// Load average of the last minute at the end.
    pub(crate) load_average: f64,
}

/// What people give the bench.
#[derive(Clone, Copy)]
pub(crate) struct Programs<'a> {
    /// The operator's program.
    pub(crate) operator: &'a Path,
    /// The policy file of the arm `policy`.
    pub(crate) policy: Option<&'a Path>,
}

/// Everything that a run needs.
pub(crate) struct Bench<'a> {
    pub(crate) cluster: &'a RealCluster,
    pub(crate) client: Client,
    pub(crate) metrics: Arc<IngressMetrics>,
    pub(crate) settings: &'a Settings,
    pub(crate) programs: Programs<'a>,
    pub(crate) iterations: u64,
    pub(crate) webhook_port: u16,
}

impl<'a> Bench<'a> {
    /// Installs the custom resource definitions and the webhook.
    pub(crate) async fn new(
        cluster: &'a RealCluster,
        metrics: Arc<IngressMetrics>,
        settings: &'a Settings,
        programs: Programs<'a>,
        iterations: u64,
    ) -> Self {
        let client = cluster.cluster.client().await;
        define_by(&client, programs.operator).await;
        let webhook_port = free_port();
        let configuration = webhook_configuration("homeostat", webhook_port);
        let api = Api::all(client.clone());
        api.create(&PostParams::default(), &configuration).await.expect("created");
        Self { cluster, client, metrics, settings, programs, iterations, webhook_port }
    }

    /// Runs a plan, again if the generator fell behind.
    pub(crate) async fn run_until_valid(&self, plan: &RunPlan, size: &Size) -> RunResult {
        let mut repeated = 0;
        loop {
            let result = RunResult { repeated, ..self.run(plan, size, repeated).await };
            eprintln!("bench: {}", result.line());
            if result.is_valid || repeated == REPEATS {
                return result;
            }
            eprintln!("bench: the generator fell behind: this run is made again");
            repeated += 1;
        }
    }

    async fn run(&self, plan: &RunPlan, size: &Size, repeated: u32) -> RunResult {
        let RunPlan { run, load, arm } = *plan;
        let name = format!("{load:?}-{}-{run}-{repeated}", arm.name()).to_lowercase();
        let settings = self.settings;
        let workload = Workload {
            namespace: &name,
            name: NAME,
            replicas: settings.min_replicas,
            cpu: &size.cpu,
            memory: &size.memory,
            iterations: self.iterations,
            has_cpu_limit: settings.has_cpu_limits,
        };
        workload.create(&self.client).await;
        self.wait_for_pods(&name, settings.min_replicas).await;
        self.metrics.begin(&name);
        let operator = Operator {
            programs: self.programs,
            namespace: &name,
            name: NAME,
            run: &name,
            webhook_port: self.webhook_port,
        };
        let server = install(arm, self.cluster, &operator, settings).await;

        let (load_shape, change) = load.load(settings.seconds);
        let arrivals =
            load_shape.after(settings.warm_up_s).arrivals(settings.seed + u64::from(run));
        let span = Span {
            from_s: settings.warm_up_s,
            until_s: settings.warm_up_s + settings.seconds,
            change_s: settings.warm_up_s + change,
            threshold_s: settings.threshold_ms as f64 / 1e3,
        };
        let started = Instant::now();
        let watching = Watching::start(&self.client, &name, started);
        let before = Processors::now();
        let ingress = IngressConfig {
            kubeconfig: self.cluster.cluster.admin_kubeconfig(),
            namespace: name.clone(),
            service: NAME.to_owned(),
            run: name.clone(),
            metrics: self.metrics.clone(),
        };
        let ingress = ingress.start(arrivals);
        let until = started + Duration::from_secs_f64(span.until_s);
        tokio::time::sleep_until(until.into()).await;
        let seen = watching.finish().await;
        let machine = before.until(&Processors::now());
        let answered = tokio::task::spawn_blocking(move || ingress.finish()).await;
        let answered = answered.expect("it does not panic");
        let object = if server.is_some() { self.our_object(&name).await } else { Value::Null };
        drop(server);
        self.remove(&name).await;

        let figures = Figures::of(span, &answered, &seen);
        let mut timeline: Vec<PodSample> = Vec::new();
        for moment in &seen.moments {
            if timeline.last().is_none_or(|last| moment.at_s.floor() > last.at_s.floor()) {
                timeline.push(*moment);
            }
        }
        let status = &object["status"];
        let evictions = status["rollout"]["evictions"].as_array().map_or(0, Vec::len) as u32;
        let decisions = status["decisions"].clone();
        RunResult {
            run,
            load,
            arm,
            repeated,
            is_valid: figures.is_valid(),
            figures,
            evictions,
            machine,
            timeline,
            decisions,
        }
    }

    /// Waits until so many pods are ready.
    pub(crate) async fn wait_for_pods(&self, namespace: &str, wanted: u32) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let started = Instant::now();
        loop {
            let all = pods.list(&ListParams::default()).await.expect("listed").items;
            if all.iter().filter(|pod| is_ready(pod)).count() as u32 >= wanted {
                return;
            }
            let states: Vec<_> = all.iter().map(|pod| (pod.name_any(), &pod.status)).collect();
            assert!(started.elapsed() < Duration::from_secs(60), "pods do not start: {states:#?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Our object of a namespace.
    pub(crate) async fn our_object(&self, namespace: &str) -> Value {
        let path = format!(
            "/apis/homeostat.dev/v1alpha1/namespaces/{namespace}/multidimpodautoscalers/{NAME}"
        );
        let request = http::Request::get(path).body(Vec::new()).expect("a request");
        self.client.request(request).await.expect("it is there")
    }

    /// Takes a namespace away and waits until none of its pods takes a processor's time.
    pub(crate) async fn remove(&self, namespace: &str) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.delete(namespace, &DeleteParams::default()).await.expect("deleted");
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        // There is no load any longer: the pods may go at once, and what the node is slow to
        // let go is taken off its list.
        for grace in [1, 0, 0] {
            let at_once = DeleteParams::default().grace_period(grace);
            let _ = pods.delete_collection(&at_once, &ListParams::default()).await;
            let asked = Instant::now();
            while asked.elapsed() < Duration::from_secs(60) {
                if pods.list(&ListParams::default()).await.expect("listed").items.is_empty() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            eprintln!("bench: pods of {namespace} are still there");
        }
        panic!("pods of {namespace} stay");
    }
}

/// Time that all processors spent, in the kernel's ticks.
struct Processors {
    all: f64,
    idle: f64,
    steal: f64,
}

impl Processors {
    fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let first = text.lines().next().unwrap_or_default();
        let ticks: Vec<f64> =
            first.split_whitespace().skip(1).filter_map(|number| number.parse().ok()).collect();
        let at = |place: usize| ticks.get(place).copied().unwrap_or(0.0);
        Self { all: ticks.iter().take(8).sum(), idle: at(3) + at(4), steal: at(7) }
    }

    fn until(&self, later: &Self) -> Machine {
        let all = (later.all - self.all).max(1.0);
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().and_then(|number| number.parse().ok());
        Machine {
            busy: 1.0 - (later.idle - self.idle) / all,
            steal: (later.steal - self.steal) / all,
            load_average: load.unwrap_or(f64::NAN),
        }
    }
}
