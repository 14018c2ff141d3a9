//! The operator with the process that keeps its decisions and offers it policies: either may die at any
//! time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use homeostat_testbed::free_port;
use serde_json::{Value, json};

use super::aware::{learning, recorded, stage, status_of};
use super::cluster;
use super::operator::{Operator, OperatorConfig, eventually};
use super::policies;
use super::shop::Shop;

const TOKEN: &str = "a token of sufficient length";

/// The program with the store, which the operator does not link. `cargo test --workspace` builds it
/// beside the operator.
fn trajectories() -> Command {
    let name = format!("homeostat-trajectories{}", std::env::consts::EXE_SUFFIX);
    let program = Path::new(env!("CARGO_BIN_EXE_homeostat-operator")).with_file_name(name);
    assert!(
        program.exists(),
        "{} is missing; build it first: cargo build -p homeostat-trajectories",
        program.display()
    );
    Command::new(program)
}

/// A collector; it is killed when this is dropped.
struct Collector(Child);

impl Collector {
    fn start(port: u16, folder: &Path) -> Self {
        let process = trajectories()
            .args(["collect", "--listen", &format!("127.0.0.1:{port}"), "--store"])
            .arg(folder.join("decisions.db"))
            .arg("--policies")
            .arg(folder.join("policies"))
            .arg("--token-file")
            .arg(folder.join("token"))
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        Self(process)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Trajectories in the store.
fn stored(folder: &Path) -> Vec<Value> {
    let listed = trajectories()
        .args(["list", "--output", "json", "--store"])
        .arg(folder.join("decisions.db"))
        .output()
        .expect("it runs");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    serde_json::from_slice(&listed.stdout).expect("JSON")
}

#[tokio::test]
async fn decisions_wait_for_the_collector_and_its_policy_serves_on_without_it() {
    let Some(shop) = Shop::open("collector").await else { return };
    let folder: PathBuf = cluster::fresh_folder("collector");
    let decisions = folder.join("spool");
    fs::write(folder.join("token"), format!("{TOKEN}\n")).expect("written");
    fs::create_dir_all(folder.join("policies/collector")).expect("made");
    let policy = folder.join("policies/collector/checkout.policy");
    fs::write(policy, policies::that_doubles(policies::found(0.9))).expect("written");
    shop.deployment("checkout", 2).await;
    for place in 0..2 {
        shop.uses(&format!("checkout-{place}"), "250m", "128Mi").await;
    }
    // The policy comes from the collector, so that the spec names no file.
    let mut object = learning("checkout", "none", json!({}));
    object["recommenders"][0].as_object_mut().expect("a recommender").remove("policyFile");
    shop.autoscaler("checkout", object).await.expect("taken");
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let (spool, token) = (decisions.to_str().expect("text"), folder.join("token"));
    let arguments = [
        "--no-webhook",
        "--decisions-dir",
        spool,
        "--collector",
        &url,
        "--collector-token-file",
        token.to_str().expect("text"),
    ];
    let config = OperatorConfig { arguments: &arguments, copy: "" };
    let operator = Operator::start(shop.cluster, &shop.namespace, &config);

    // It is away: nothing is lost, and the object says what waits.
    let message = shop.condition("checkout", "Learning", "RecordingDelayed").await;
    assert!(message.contains("episodes wait until the collector takes them"), "{message}");
    assert!(!recorded(&decisions).is_empty());
    assert_eq!(status_of(&shop, "checkout").await.learning.expect("it learns").actor, "hpa+vpa");

    let collector = Collector::start(port, &folder);
    eventually("every episode to be taken", async || recorded(&decisions).is_empty().then_some(()))
        .await;
    shop.condition("checkout", "Learning", "AsPlanned").await;
    assert!(stored(&folder).iter().all(|one| one["workload"] == "collector/checkout"));
    assert_eq!(stage(&shop, "checkout", "Serving").await.actor, "policy");

    // It dies: the policy goes on, and what is decided waits again.
    drop(collector);
    shop.condition("checkout", "Learning", "RecordingDelayed").await;
    assert_eq!(status_of(&shop, "checkout").await.learning.expect("it learns").actor, "policy");
    let known = stored(&folder).len();
    let _collector = Collector::start(port, &folder);
    eventually("the next episodes to be taken", async || {
        (stored(&folder).len() > known).then_some(())
    })
    .await;
    // What was sent twice is stored once.
    let all = stored(&folder);
    let keys = all.iter().map(|one| (one["policy"].to_string(), one["recorded_ms"].to_string()));
    let unique: std::collections::BTreeSet<_> = keys.collect();
    assert_eq!(unique.len(), all.len());
    assert_eq!(operator.metric("homeostat_operator_lost_decisions_total", ""), 0.0);
}
