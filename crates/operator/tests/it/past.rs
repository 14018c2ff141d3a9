//! `recommend` and `replay` on a cluster without the operator, with a real Prometheus that has two days
//! of history.

use std::f64::consts::TAU;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};

use homeostat_testbed::{Cluster, ClusterConfig, Recorded, RecordedPrometheus, free_port};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::cluster::{binaries, fresh_folder};
use super::policies::{of_simppo_plus, of_steps_in_a_team};
use super::shop::{Shop, spec};

const MINUTE: u64 = 60;
const HOURS: u64 = 48;
/// The pods of `checkout`: containers of 500m and 512Mi, and of 100m and 64Mi.
const PODS: [&str; 3] =
    ["checkout-7d4b9c8f6b-x2k4f", "checkout-7d4b9c8f6b-b5d6f", "checkout-7d4b9c8f6b-zz9kq"];
/// The pods of `cart`, which is deployed later and does as `checkout` does.
const CART_PODS: [&str; 2] = ["cart-6c9d8f7b5d-k8s2x", "cart-6c9d8f7b5d-w4z7q"];
/// Its second container has a name that YAML reads as a boolean.
const CONTAINERS: [(&str, f64, f64, f64); 2] = [("app", 0.5, 512.0, 0.1), ("on", 0.1, 64.0, 0.01)];
const MIB: f64 = (1 << 20) as f64;

/// A cluster and a Prometheus.
struct Scene {
    cluster: Cluster,
    prometheus: RecordedPrometheus,
}

impl Scene {
    fn call(&self, words: &[&str]) -> (String, String, Option<i32>) {
        let Output { stdout, stderr, status } = program(&self.cluster, words);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (text(stdout), text(stderr), status.code())
    }

    fn ask(&self, words: &[&str]) -> String {
        let (stdout, stderr, code) = self.call(words);
        assert_eq!(code, Some(0), "{words:?}: {stderr}");
        stdout
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.ask(words)).expect("JSON")
    }

    fn refused(&self, words: &[&str]) -> String {
        let (stdout, stderr, code) = self.call(words);
        assert_eq!((stdout.as_str(), code), ("", Some(1)), "{words:?}: {stderr}");
        stderr
    }
}

/// Cores that a pod's first container uses: between 50m and 350m over a day.
fn app_cores(at: u64) -> f64 {
    let day = (at % 86_400) as f64 / 86_400.0;
    0.2 - 0.15 * (TAU * day).cos()
}

/// Latency is over 250 ms in one hour of each day.
fn latency(at: u64) -> f64 {
    if at % 86_400 < 3600 { 0.4 } else { 0.1 }
}

fn remembered(now: u64) -> Recorded {
    let times: Vec<u64> =
        (0..=HOURS * 60).map(|minute| now - HOURS * 3600 + minute * MINUTE).collect();
    let (mut cpu, mut memory, mut requests) = (Vec::new(), Vec::new(), Vec::new());
    for pod in PODS.into_iter().chain(CART_PODS) {
        for (container, cores, mebibytes, part) in CONTAINERS {
            let labels = format!(r#"namespace="shop",pod="{pod}",container="{container}""#);
            let mut total = 0.0;
            let counter = times.iter().map(|&at| {
                total += MINUTE as f64 * if container == "app" { app_cores(at) } else { part };
                (at, total)
            });
            cpu.push((labels.clone(), counter.collect()));
            let used = times.iter().map(|&at| (at, mebibytes * 0.4 * MIB)).collect();
            memory.push((labels.clone(), used));
            for (resource, amount) in [("cpu", cores), ("memory", mebibytes * MIB)] {
                let labels = format!(r#"{labels},resource="{resource}""#);
                requests.push((labels, times.iter().map(|&at| (at, amount)).collect()));
            }
        }
    }
    let mut recorded = Recorded::default();
    recorded.family("container_cpu_usage_seconds_total", "counter", &cpu);
    recorded.family("container_memory_working_set_bytes", "gauge", &memory);
    recorded.family("kube_pod_container_resource_requests", "gauge", &requests);
    let mut gauge = |name: &str, figure: &dyn Fn(u64) -> f64| {
        let of = |app: &str| {
            (format!(r#"app="{app}""#), times.iter().map(|&at| (at, figure(at))).collect())
        };
        recorded.family(name, "gauge", &["checkout", "cart"].map(of));
    };
    gauge("p99_seconds", &latency);
    gauge("mean_seconds", &|at| latency(at) / 4.0);
    // A request takes 20 ms of CPU.
    gauge("requests_per_second", &|at| app_cores(at) / 0.02);
    recorded
}

fn workload(kind: &str, name: &str, replicas: u32) -> Value {
    let labels = json!({ "app": name });
    let containers: Vec<Value> = CONTAINERS
        .iter()
        .map(|(container, cores, mebibytes, _)| {
            let amounts = json!({ "cpu": cores.to_string(), "memory": format!("{mebibytes}Mi") });
            let resources = json!({ "requests": amounts, "limits": amounts });
            json!({ "name": container, "image": "example.invalid/app:1", "resources": resources })
        })
        .collect();
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": labels }, "serviceName": "none",
            "template": { "metadata": { "labels": labels }, "spec": { "containers": containers } },
        },
    })
}

async fn fill(client: &Client) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = json!({ "metadata": { "name": "shop" } });
    let namespace = serde_json::from_value(namespace).expect("valid");
    namespaces.create(&PostParams::default(), &namespace).await.expect("created");
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "shop");
    for (name, replicas) in [("checkout", 3), ("asleep", 0), ("new", 2)] {
        let deployment = serde_json::from_value(workload("Deployment", name, replicas));
        let deployment = deployment.expect("valid");
        deployments.create(&PostParams::default(), &deployment).await.expect("created");
    }
    let stateful_sets: Api<StatefulSet> = Api::namespaced(client.clone(), "shop");
    let stateful_set = serde_json::from_value(workload("StatefulSet", "null", 1)).expect("valid");
    stateful_sets.create(&PostParams::default(), &stateful_set).await.expect("created");
}

#[test]
fn the_history_of_a_cluster_without_the_operator_is_replayed() {
    let Some(binaries) = binaries() else { return };
    let folder = fresh_folder("past");
    let config = ClusterConfig {
        binaries: &binaries,
        directory: &folder,
        api_server_arguments: &[],
        has_service_accounts: false,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let remembers = folder.join("prometheus");
    std::fs::create_dir_all(&remembers).expect("a folder");
    let cluster = config.build();
    let scene = Scene { cluster, prometheus: remembered(now).start(&remembers) };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let client = runtime.block_on(scene.cluster.client());
    runtime.block_on(fill(&client));
    let url = scene.prometheus.url();

    recommends(&scene, &url, &runtime, &client);
    replays(&scene, &url);
    let cart = serde_json::from_value(workload("Deployment", "cart", 2)).expect("valid");
    let deployments: Api<Deployment> = Api::namespaced(client, "shop");
    let params = PostParams::default();
    runtime.block_on(deployments.create(&params, &cart)).expect("created");
    replays_policies(&scene, &url, &folder);
    reports_errors(&scene, &url);
}

fn recommends(scene: &Scene, url: &str, runtime: &tokio::runtime::Runtime, client: &Client) {
    let asked = ["recommend", "-n", "shop", "--prometheus", url, "--history", "2d", "--output"];
    let answer = scene.json(&[&asked[..], &["json"]].concat());
    let of = |name: &str| {
        let all = answer["workloads"].as_array().expect("a list");
        all.iter().find(|one| one["name"] == name).expect(name).clone()
    };
    assert_eq!(answer["source"], "prometheus");
    let checkout = of("checkout");
    assert_eq!(checkout["known"]["confidence"], "fair", "{checkout:#}");
    // The 99th percentile of the usage of all pods is about a core, which needs three pods at 70 % of
    // 600m each; memory is twice the usage.
    assert_eq!(checkout["replicas"], json!({ "now": 3, "recommended": 3 }), "{checkout:#}");
    let container = &checkout["containers"][0];
    assert_eq!(container["memory"]["now"], "512Mi");
    let recommended = container["memory"]["recommended"].as_str().expect("an amount");
    let mebibytes: f64 = recommended.trim_end_matches("Mi").parse().expect("mebibytes");
    assert!((205.0..300.0).contains(&mebibytes), "{recommended}");
    assert!(of("asleep")["problem"].as_str().expect("one").contains("scaled to 0"));
    assert!(of("new")["problem"].as_str().expect("one").contains("has no CPU usage"));

    let table = scene.ask(&[&asked[..], &["table"]].concat());
    let line = table.lines().find(|line| line.contains("deployment/checkout")).expect("a line");
    assert!(line.contains("512Mi->") && line.contains("2d (fair)"), "{table}");
    assert!(table.contains("no SLO is set: usage alone decides"), "{table}");

    // The server accepts the patches, and the container's name is `on`, not `true`.
    let patches = scene.ask(&[&asked[..], &["patches"]].concat());
    let documents: Vec<Value> = serde_saphyr::from_multiple(&patches).expect("YAML");
    assert_eq!(documents.len(), 1, "{patches}");
    assert_eq!(documents[0]["spec"]["template"]["spec"]["containers"][1]["name"], "on");
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "shop");
    let patch = Patch::Strategic(&documents[0]);
    let params = PatchParams::default();
    let patched = deployments.patch("checkout", &params, &patch);
    let patched = runtime.block_on(patched).expect("the server takes it");
    let pod = patched.spec.template.spec.expect("a template");
    let resources = pod.containers[0].resources.clone().expect("sized");
    let request = &resources.requests.expect("requests")["memory"].0;
    assert_eq!(request, recommended);
    assert_eq!(&resources.limits.expect("limits")["memory"].0, recommended, "as before: equal");
    assert_eq!(pod.containers.len(), 2);
}

fn replays(scene: &Scene, url: &str) {
    let query = "max(p99_seconds{app=\"$workload\"})";
    let asked = [
        "replay",
        "--prometheus",
        url,
        "--last",
        "1d",
        "deploy/checkout",
        "-n",
        "shop",
        "--latency",
        "250ms",
        "--latency-query",
        query,
        "--min-replicas",
        "1",
        "--max-replicas",
        "9",
    ];
    let answer = scene.json(&[&asked[..], &["--output", "json"]].concat());
    let number = |pointer: &str| {
        answer
            .pointer(pointer)
            .and_then(Value::as_f64)
            .unwrap_or_else(|| panic!("{pointer}: {answer:#}"))
    };
    let hours = number("/recorded/hours");
    assert!((23.9..24.1).contains(&hours), "{hours}");
    // Three pods of 600m and 576Mi, all day.
    assert!((number("/recorded/core_hours") / (hours * 1.8) - 1.0).abs() < 1e-6);
    assert!((number("/recorded/gib_hours") / (hours * 3.0 * 576.0 / 1024.0) - 1.0).abs() < 1e-6);
    // Three pods with a mean of 200m and 10m.
    assert!((number("/used_core_hours") / (hours * 0.63) - 1.0).abs() < 0.01, "{answer:#}");
    // One hour in 24 the SLO was violated.
    let violated = number("/recorded/slo_violation_ratio");
    assert!((violated * 24.0 - 1.0).abs() < 0.05, "{violated}");
    // The names of the release before are still there.
    for (old, new) in [
        ("moments", "samples"),
        ("kept", "slo_met"),
        ("broken", "slo_violated"),
        ("unknown", "slo_unknown"),
    ] {
        assert_eq!(number(&format!("/recorded/{old}")), number(&format!("/recorded/{new}")));
    }
    assert_eq!(number("/recorded/short_of_cpu"), 0.0);
    // The number follows the load, so less is requested than with three pods all day; the effect on
    // latency is unknown.
    assert!(number("/ours/core_hours") < number("/recorded/core_hours"));
    assert!(number("/ours/core_hours") > number("/used_core_hours"));
    assert!(number("/ours/slo_unknown") > 0.0);
    for who in ["ours", "hpa", "vpa"] {
        let sum: f64 = ["slo_met", "slo_violated", "slo_unknown"]
            .iter()
            .map(|part| number(&format!("/{who}/{part}")))
            .sum();
        assert_eq!(sum, number("/recorded/samples"), "{who}");
    }
    assert_eq!(number("/hpa/resizes"), 0.0);
    assert_eq!(number("/vpa/scalings"), 0.0);
    let changes = answer["changes"].as_array().expect("a list");
    assert!(changes.iter().all(|change| change["from"] != change["to"]) && !changes.is_empty());

    let text = scene.ask(&asked);
    assert!(text.contains("HAPPENED") && text.contains("Open loop:"), "{text}");
    assert!(text.contains("latency with other sizes was not observed"), "{text}");
}

/// A policy file recommends for several workloads, and each may read the others.
fn replays_policies(scene: &Scene, url: &str, directory: &Path) {
    let file = |name: &str, bytes: Vec<u8>| {
        let path = directory.join(name);
        std::fs::write(&path, bytes).expect("written");
        path.display().to_string()
    };
    let ask = |policy: &str, load: &[&str]| {
        let asked = ["replay", "--prometheus", url, "--last", "3h", "-n", "shop"];
        let slo = ["--latency", "250ms", "--latency-query", "max(p99_seconds{app=\"$workload\"})"];
        let rest = ["--policy", policy, "--output", "json", "deploy/checkout", "deploy/cart"];
        let answer = scene.json(&[&asked[..], &slo, load, &rest].concat());
        answer["workloads"].as_array().expect("a list").clone()
    };
    let reasons = |workload: &Value| -> Vec<String> {
        let changes = workload["changes"].as_array().expect("a list");
        let reasons = changes.iter().flat_map(|change| change["reasons"].as_array());
        reasons.flatten().map(|reason| reason.as_str().expect("text").to_owned()).collect()
    };

    let simppo = file("simppo.policy", of_simppo_plus());
    let load = [
        "--request-rate-query",
        "max(requests_per_second{app=\"$workload\"})",
        "--mean-latency-query",
        "max(mean_seconds{app=\"$workload\"})",
    ];
    let both = ask(&simppo, &load);
    assert_eq!(both.len(), 2);
    for workload in &both {
        assert_eq!(workload["recommender"], "policy");
        assert_eq!(workload["substituted"], Value::Null, "{workload:#}");
        let said = reasons(workload);
        assert!(said.iter().any(|reason| reason.starts_with("the policy read SP")), "{said:?}");
        assert!(said.iter().any(|reason| reason.starts_with("set-point: ")), "{said:?}");
    }
    // Without its figures, joint stands in, and the answer says why.
    for workload in ask(&simppo, &[]) {
        let substituted = &workload["substituted"];
        assert_eq!(substituted["samples"], workload["ours"]["samples"], "{workload:#}");
        let why = substituted["why"].as_str().expect("text");
        assert!(why.contains("set spec.load.requestRateQuery; joint recommends"), "{why}");
    }

    // A policy that reads its team sees the other workload.
    let team = file("team.policy", of_steps_in_a_team());
    for workload in ask(&team, &[]) {
        let said = reasons(&workload);
        let sees_use = |reason: &String| {
            let read = reason.split("team RU_cpu ").nth(1).and_then(|rest| rest.split(',').next());
            read.and_then(|read| read.parse::<f64>().ok()).is_some_and(|used| used > 0.0)
        };
        assert!(said.iter().any(sees_use), "{said:?}");
    }
}

fn reports_errors(scene: &Scene, url: &str) {
    let check = |words: &[&str], expect: &str| {
        let said = scene.refused(words);
        assert!(said.contains(expect), "{words:?}: {said}");
        assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{said:?}");
    };
    check(&["recommend", "-n", "shop"], "install the metrics server");
    check(
        &["recommend", "deploy/chekout", "-n", "shop", "--prometheus", url],
        "did you mean deployment/checkout?",
    );
    check(&["recommend", "checkout", "--prometheus", url], "there are no workloads; see -n and -A");
    let no_server = format!("http://127.0.0.1:{}", free_port());
    check(&["recommend", "-n", "shop", "--prometheus", &no_server], "prometheus does not answer");
    let asked = ["replay", "deploy/checkout", "-n", "shop", "--prometheus", url];
    check(&[&asked[..], &["--cpu-query", "rate("]].concat(), "parse error");
    check(&[&asked[..], &["--cpu-query", "up{a=\"\u{1b}[2J"]].concat(), "\\u{1b}[2J");
    check(
        &["replay", "mpa/checkout", "-n", "shop", "--prometheus", url],
        "no definition of MultidimPodAutoscaler",
    );
    check(&[&asked[..], &["--policy", "/none.policy"]].concat(), "failed to read /none.policy");
    check(
        &["replay", "cronjob/a", "-n", "shop", "--prometheus", url],
        "use deploy, sts, rs or mpa",
    );
}

fn program(cluster: &Cluster, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_homeostat-operator"))
        .args(words)
        .env("KUBECONFIG", cluster.admin_kubeconfig())
        .output()
        .expect("it starts")
}

#[tokio::test]
async fn a_recommendation_from_the_metrics_server_is_called_a_guess() {
    let Some(shop) = Shop::open("guess").await else { return };
    shop.deployment("checkout", 2).await;
    for place in 0..2 {
        shop.uses(&format!("checkout-{place}"), "450m", "100Mi").await;
    }
    let asked = ["recommend", "deploy/checkout", "-n", "guess"];
    let answer = program(shop.cluster, &[&asked[..], &["--output", "json"]].concat());
    let said = String::from_utf8_lossy(&answer.stderr).into_owned();
    assert!(said.contains("metrics.k8s.io knows only the current usage"), "{said}");
    let answer: Value = serde_json::from_slice(&answer.stdout).expect("JSON");
    let checkout = &answer["workloads"][0];
    assert_eq!(checkout["known"]["confidence"], "a guess");
    // 900m at 70 % of 500m each; memory is not reduced without history.
    assert_eq!(checkout["replicas"], json!({ "now": 2, "recommended": 3 }), "{checkout:#}");
    assert_eq!(checkout["containers"][0]["memory"]["recommended"], "256Mi", "{checkout:#}");
    let table = program(shop.cluster, &asked).stdout;
    let table = String::from_utf8(table).expect("text");
    assert!(table.contains("one sample (a guess)") && table.contains("2->3"), "{table}");
}

#[tokio::test]
async fn control_characters_in_a_status_are_escaped() {
    let Some(shop) = Shop::open("nasty").await else { return };
    let nasty = "x\u{1b}[2J\u{9b}31m\u{202e}\r\ny\u{2028}";
    shop.autoscaler("checkout", spec("checkout", "Recommend")).await.expect("taken");
    let allocation = json!({ "replicas": 1, "cpu": "100m", "memory": "64Mi" });
    let status = json!({ "status": {
        "summary": { "replicas": nasty, "cpu": nasty, "memory": nasty },
        "recommendation": { "containerRecommendations": [{
            "containerName": nasty, "target": {}, "lowerBound": {}, "upperBound": {},
            "uncappedTarget": {} }] },
        "alternatives": { "vpaTarget": {}, "reasons": [nasty] },
        "currentMetrics": [{ "name": nasty, "value": nasty, "source": nasty, "problem": nasty }],
        "decisions": [{ "at": "2026-11-16T00:00:00Z", "recommender": nasty, "from": allocation,
            "proposed": allocation, "applied": allocation, "reasons": [nasty, nasty] }],
        "conditions": [{ "type": "Ready", "status": "True", "reason": "AsPlanned",
            "message": nasty, "lastTransitionTime": "2026-11-16T00:00:00Z" }],
    }});
    let api: Api<homeostat_autoscaler::api::MultidimPodAutoscaler> = shop.api();
    let params = PatchParams::default();
    api.patch_status("checkout", &params, &Patch::Merge(status)).await.expect("taken");
    for verb in ["explain", "history"] {
        for output in ["text", "json"] {
            let words = [verb, "checkout", "-n", "nasty", "--output", output];
            let answer = program(shop.cluster, &words);
            let text = String::from_utf8(answer.stdout).expect("text");
            assert!(text.contains("[2J"), "{verb} {output}: {text}");
            let is_bad =
                |c: char| c != '\n' && (c.is_control() || matches!(c, '\u{2028}' | '\u{202e}'));
            assert!(!text.contains(is_bad), "{verb} {output}: {text:?}");
            if output == "json" {
                let value: Value = serde_json::from_str(&text).expect("JSON");
                let decisions = if verb == "explain" { &value["decisions"] } else { &value };
                assert_eq!(decisions[0]["reasons"][0], nasty);
            }
        }
    }
}
