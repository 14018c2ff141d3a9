//! The life cycle of a learned policy on a cluster: HPA and VPA act until a policy is proven, and again
//! when it fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use homeostat_autoscaler::api::{
    LearningStatus, MultidimPodAutoscaler, MultidimPodAutoscalerCheckpoint,
    MultidimPodAutoscalerStatus,
};
use homeostat_core::trajectory::Record;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::cluster;
use super::operator::{Operator, OperatorConfig, eventually};
use super::policies::{self, KEY};
use super::shop::{Shop, spec};

/// An object that learns; its pods keep their size.
pub(crate) fn learning(target: &str, config_map: &str, aware: Value) -> Value {
    let mut object = spec(target, "Auto");
    object["constraints"]["containerControlledResources"] = json!([]);
    let policy_file = json!({ "configMap": config_map, "key": KEY });
    let mut settings = json!({ "episodeLength": "2s", "episodes": 2 });
    for (name, value) in aware.as_object().expect("settings") {
        settings[name] = value.clone();
    }
    object["recommenders"] =
        json!([{ "name": "aware", "policyFile": policy_file, "aware": settings }]);
    object
}

fn start(shop: &Shop, decisions: &Path, copy: &'static str) -> Operator {
    let decisions = decisions.to_str().expect("text");
    let arguments = ["--no-webhook", "--decisions-dir", decisions];
    Operator::start(shop.cluster, &shop.namespace, &OperatorConfig { arguments: &arguments, copy })
}

pub(crate) async fn status_of(shop: &Shop, name: &str) -> MultidimPodAutoscalerStatus {
    let api: Api<MultidimPodAutoscaler> = shop.api();
    api.get(name).await.expect("it is there").status.unwrap_or_default()
}

/// Waits for a stage, and returns what the status says of it.
pub(crate) async fn stage(shop: &Shop, name: &str, stage: &str) -> LearningStatus {
    eventually(&format!("{name} to be in the stage {stage}"), async || {
        status_of(shop, name).await.learning.filter(|learning| learning.stage == stage)
    })
    .await
}

/// Notes of the events about stages, with their types.
async fn stage_events(shop: &Shop, name: &str) -> Vec<(String, String)> {
    let events: Api<Event> = shop.api();
    let all = events.list(&ListParams::default()).await.expect("listed").items;
    let is_it = |event: &Event| {
        let about = event.regarding.as_ref().and_then(|about| about.name.as_deref());
        about == Some(name) && event.reason.as_deref() == Some("StageChanged")
    };
    let all = all.into_iter().filter(is_it);
    all.map(|event| (event.type_.unwrap_or_default(), event.note.unwrap_or_default())).collect()
}

pub(crate) fn recorded(directory: &Path) -> Vec<Vec<Record>> {
    let mut files: Vec<PathBuf> = fs::read_dir(directory)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    files.sort();
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("a file");
        text.lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
    };
    files.iter().map(read).collect()
}

#[tokio::test]
async fn a_policy_serves_once_it_is_proven_survives_a_crash_and_gives_way_when_it_fails() {
    let Some(shop) = Shop::open("aware").await else { return };
    let decisions = cluster::fresh_folder("aware-decisions");
    shop.deployment("checkout", 2).await;
    for place in 0..2 {
        shop.uses(&format!("checkout-{place}"), "250m", "128Mi").await;
    }
    let file =
        policies::config_map("checkout-policy", policies::that_doubles(policies::found(0.81)));
    let maps: Api<ConfigMap> = shop.api();
    maps.create(&PostParams::default(), &file).await.expect("created");
    let mut object = learning("checkout", "checkout-policy", json!({ "servingReward": "0.75" }));
    object["goals"] =
        json!({ "metrics": [{ "resource": { "name": "cpu", "averageUtilization": 50 } }] });
    shop.autoscaler("checkout", object).await.expect("taken");
    let operator = start(&shop, &decisions, "");

    let learning = stage(&shop, "checkout", "Offline").await;
    assert_eq!(learning.actor, "hpa+vpa");
    assert_eq!(shop.replicas("checkout").await, 2, "HPA is content with 50 %");
    let learning = stage(&shop, "checkout", "Serving").await;
    assert_eq!(learning.actor, "policy");
    let evaluation = learning.evaluation.expect("the file has one");
    assert_eq!((&evaluation.lower_bound[..], evaluation.is_admitted), ("0.8100", true));
    eventually("the policy to add pods", async || {
        (shop.replicas("checkout").await >= 4).then_some(())
    })
    .await;
    assert_eq!(operator.metric("homeostat_operator_object_stage", "stage=\"Serving\""), 1.0);
    assert_eq!(operator.metric("homeostat_operator_object_stage", "stage=\"Offline\""), 0.0);
    let columns = table(&shop).await;
    assert!(columns.contains(&"Serving".to_owned()), "kubectl get mpa shows {columns:?}");

    // A crash. The next process goes on in the stage of the checkpoint.
    operator.kill();
    let operator = start(&shop, &decisions, "-again");
    eventually("a decision of the next process", async || {
        (operator.metric("homeostat_operator_decisions_total", "") > 2.0).then_some(())
    })
    .await;
    assert_eq!(stage(&shop, "checkout", "Serving").await.actor, "policy");
    let began = |events: &[(String, String)]| {
        events.iter().filter(|(_, note)| note.starts_with("Initialised")).count()
    };
    assert_eq!(began(&stage_events(&shop, "checkout").await), 1);

    // The workload changes: what was learned is not good enough for it.
    for place in 0..2 {
        shop.uses(&format!("checkout-{place}"), "5m", "8Mi").await;
    }
    let learning = stage(&shop, "checkout", "Offline").await;
    assert_eq!(learning.actor, "hpa+vpa");
    assert!(learning.reason.contains("is below 0.750"), "{}", learning.reason);
    let events = stage_events(&shop, "checkout").await;
    let failed = events.iter().find(|(_, note)| note.starts_with("Serving -> Offline"));
    assert_eq!(failed.expect("an event").0, "Warning", "{events:?}");
    assert!(operator.metric("homeostat_operator_stage_changes_total", "stage=\"Offline\"") >= 1.0);

    // What was decided is there to learn from, with who decided.
    let trajectories = recorded(&decisions);
    let mut policies = Vec::new();
    for records in &trajectories {
        let [Record::Trajectory(origin), steps @ .., Record::End { .. }] = &records[..] else {
            panic!("no trajectory: {records:?}")
        };
        assert_eq!(origin.workload, "aware/checkout");
        assert!(!steps.is_empty());
        for step in steps {
            let Record::Transition(step) = step else { panic!("no transition: {step:?}") };
            assert_eq!((step.observation.len(), step.action.len()), (7, 3));
            assert!((0.0..=1.0).contains(&step.reward), "{}", step.reward);
        }
        policies.push(origin.policy.clone());
    }
    assert!(policies.iter().any(|policy| policy == "hpa+vpa"), "{policies:?}");
    assert!(policies.iter().any(|policy| policy.starts_with("sha256:")), "{policies:?}");
    assert!(operator.metric("homeostat_operator_recorded_decisions_total", "") > 0.0);
}

/// The cells of the first object, as the API server makes them for `kubectl get mpa`.
async fn table(shop: &Shop) -> Vec<String> {
    let path = format!(
        "/apis/homeostat.dev/v1alpha1/namespaces/{}/multidimpodautoscalers",
        shop.namespace
    );
    let request = http::Request::get(path)
        .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .expect("a request");
    let table: Value = shop.client.request(request).await.expect("a table");
    let cells = table["rows"][0]["cells"].as_array().expect("cells").iter();
    cells.map(|cell| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned)).collect()
}

#[tokio::test]
async fn a_policy_in_shadow_decides_beside_hpa_and_vpa_and_explain_shows_both() {
    let Some(shop) = Shop::open("aware-shadow").await else { return };
    let decisions = cluster::fresh_folder("aware-shadow-decisions");
    shop.deployment("checkout", 2).await;
    for place in 0..2 {
        shop.uses(&format!("checkout-{place}"), "250m", "128Mi").await;
    }
    let file =
        policies::config_map("checkout-policy", policies::that_doubles(policies::found(0.9)));
    let maps: Api<ConfigMap> = shop.api();
    maps.create(&PostParams::default(), &file).await.expect("created");
    let mut object = learning("checkout", "checkout-policy", json!({ "mode": "Shadow" }));
    object["goals"] =
        json!({ "metrics": [{ "resource": { "name": "cpu", "averageUtilization": 50 } }] });
    shop.autoscaler("checkout", object).await.expect("taken");
    let operator = start(&shop, &decisions, "");
    let policy = eventually("the policy to decide", async || {
        status_of(&shop, "checkout").await.alternatives?.policy
    })
    .await;
    assert!(policy.replicas > 2, "it learned to add pods: {policy:?}");
    // Long enough to serve, if it could.
    eventually("four episodes", async || (recorded(&decisions).len() >= 4).then_some(())).await;
    let status = status_of(&shop, "checkout").await;
    let learning = status.learning.expect("it learns");
    assert_eq!((&learning.stage[..], &learning.actor[..]), ("Offline", "hpa+vpa"));
    assert_eq!(shop.replicas("checkout").await, 2);
    assert!(operator.metric("homeostat_operator_object_replicas", "kind=\"policy\"") > 2.0);
    shop.condition("checkout", "Learning", "AsPlanned").await;

    let said = Command::new(env!("CARGO_BIN_EXE_homeostat-operator"))
        .args(["explain", "checkout", "--namespace", &shop.namespace])
        .env("KUBECONFIG", shop.cluster.admin_kubeconfig())
        .output()
        .expect("it runs");
    let said = String::from_utf8(said.stdout).expect("text");
    for expect in [
        "Learning: stage Offline",
        "in shadow mode the policy never acts",
        "HPA: 2 pods",
        "The learned policy, which does not act: ",
        "may serve: its value is at least 0.9000, that of hpa+vpa is 0.8000",
    ] {
        assert!(said.contains(expect), "{expect:?} is not in\n{said}");
    }
}

#[tokio::test]
async fn whatever_is_wrong_with_a_policy_a_condition_says_so_and_hpa_acts() {
    let Some(shop) = Shop::open("aware-wrong").await else { return };
    let decisions = cluster::fresh_folder("aware-wrong-decisions");
    let maps: Api<ConfigMap> = shop.api();
    let good = || policies::that_doubles(policies::found(0.9));
    let cases = [
        ("unproven", policies::that_doubles(None), json!({}), "PolicyNotAdmitted", "no evaluation"),
        (
            "worse",
            policies::that_doubles(policies::found(0.75)),
            json!({ "activationMargin": "0.04" }),
            "PolicyNotAdmitted",
            "at least 0.750, the fallback's is 0.800, and the margin is 0.04",
        ),
        ("foreign", policies::of_a_cart_pole(), json!({}), "PolicyUnusable", "this version serves"),
        ("broken", b"no policy".to_vec(), json!({}), "PolicyUnusable", "not a policy file"),
        (
            "strict",
            good(),
            json!({ "onlineReward": "0.99", "patience": 2 }),
            "ThresholdsNotMet",
            "after 2 episodes the mean of recent rewards",
        ),
    ];
    for (name, file, aware, ..) in &cases {
        shop.deployment(name, 2).await;
        for place in 0..2 {
            shop.uses(&format!("{name}-{place}"), "480m", "128Mi").await;
        }
        let file = policies::config_map(name, file.clone());
        maps.create(&PostParams::default(), &file).await.expect("created");
        let mut object = learning(name, name, aware.clone());
        object["goals"] =
            json!({ "metrics": [{ "resource": { "name": "cpu", "averageUtilization": 50 } }] });
        shop.autoscaler(name, object).await.expect("taken");
    }
    let operator = start(&shop, &decisions, "");
    for (name, _, _, reason, expect) in &cases {
        let message = shop.condition(name, "Learning", reason).await;
        assert!(message.contains(expect), "{name}: {message}");
        eventually(&format!("HPA to act on {name}"), async || {
            (shop.replicas(name).await == 4).then_some(())
        })
        .await;
        let status = status_of(&shop, name).await;
        assert_eq!(status.learning.expect("it learns").actor, "hpa+vpa", "{name}");
        shop.condition(name, "Ready", "AsPlanned").await;
    }

    // A checkpoint of another version: the life cycle begins again, and nothing else is lost.
    operator.kill();
    let checkpoints: Api<MultidimPodAutoscalerCheckpoint> = shop.api();
    let params = PatchParams::default();
    let change = json!({ "spec": { "learning": "{\"of\":\"another version\"}" } });
    checkpoints.patch("worse", &params, &Patch::Merge(change)).await.expect("patched");
    let _operator = start(&shop, &decisions, "-again");
    let note = shop.event("worse", "CheckpointUnreadable").await;
    assert!(note.contains("the life cycle cannot be read and begins again"), "{note}");
    shop.condition("worse", "Learning", "PolicyNotAdmitted").await;
}

#[tokio::test]
async fn decisions_that_cannot_be_recorded_are_counted_and_a_condition_says_so() {
    let Some(shop) = Shop::open("aware-lost").await else { return };
    let decisions = cluster::fresh_folder("aware-lost-decisions");
    shop.deployment("checkout", 2).await;
    for place in 0..2 {
        shop.uses(&format!("checkout-{place}"), "250m", "128Mi").await;
    }
    shop.autoscaler("checkout", learning("checkout", "none", json!({}))).await.expect("taken");
    let config = OperatorConfig { arguments: &["--no-webhook"], copy: "-without" };
    let operator = Operator::start(shop.cluster, &shop.namespace, &config);
    let message = shop.condition("checkout", "Learning", "NotRecorded").await;
    assert!(message.contains("--decisions-dir"), "{message}");
    operator.terminate();

    let operator = start(&shop, &decisions, "");
    eventually("an episode", async || (!recorded(&decisions).is_empty()).then_some(())).await;
    shop.condition("checkout", "Learning", "AsPlanned").await;
    fs::remove_dir_all(&decisions).expect("removed");
    let message = shop.condition("checkout", "Learning", "DecisionsLost").await;
    assert!(message.contains("No such file"), "{message}");
    assert!(operator.metric("homeostat_operator_lost_decisions_total", "") > 0.0);
    // The operator goes on, and recovers by itself.
    fs::create_dir_all(&decisions).expect("made");
    shop.condition("checkout", "Learning", "AsPlanned").await;
    eventually("an episode", async || (!recorded(&decisions).is_empty()).then_some(())).await;
}
