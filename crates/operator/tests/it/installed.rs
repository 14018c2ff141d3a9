//! The chart, installed by Helm on one real node: the operator in pods of its own, with its account,
//! its rights, its certificate and its service, as a reader of the book installs it.
//!
//! The image contains only the static file, as in the Containerfile. The node has no network that
//! enforces policies, and no kube-proxy: the API server's service is forwarded to it.

use std::fs;
use std::path::Path;
use std::process::Command;

use homeostat_testbed::{Image, RealCluster};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::chart::{Helm, chart_file, helm};
use super::image::static_file;
use super::operator::eventually_within;
use super::real_shop::{PATIENCE, RealShop, SHOP, is_ready, is_true, on_a_real_node};

const THIS: &str = "installed::from_helm_install_to_a_service_that_meets_its_slo";
/// Namespace and name of the installation.
const OPERATOR: &str = "homeostat";

#[test]
fn from_helm_install_to_a_service_that_meets_its_slo() {
    let (Some(helm), Some(file)) = (helm(), static_file()) else { return };
    on_a_real_node(THIS, async |real| follow_the_book(real, &helm, &file).await);
}

async fn follow_the_book(real: &RealCluster, helm: &Helm, file: &Path) {
    let image = Image {
        name: "homeostat.invalid/homeostat-operator:test",
        binary: file,
        argument: "run",
        user: "65532:65532",
    };
    real.node.import(&[image]);
    let shop = RealShop::open(real).await;
    let release = Release { helm, real };
    release.run(
        "install",
        &[
            "--create-namespace",
            "--set=image.repository=homeostat.invalid/homeostat-operator,image.tag=test",
            // Its series have no label of a namespace.
            &format!(
                "--set=prometheus.url={},prometheus.anyNamespace=true,interval=2s",
                real.prometheus_url
            ),
            "--timeout=120s",
        ],
    );
    let pods: Api<Pod> = Api::namespaced(shop.client.clone(), OPERATOR);
    let copies = async || pods.list(&ListParams::default()).await.expect("listed").items;
    assert_eq!(copies().await.iter().filter(|pod| is_ready(pod)).count(), 2);
    assert_eq!(check_privileges(), 2, "processes of the operator");

    // The first object recommends, gives reasons, and changes nothing.
    shop.autoscaler("Recommend").await;
    let said = eventually_within(PATIENCE, "a recommendation of more pods", async || {
        let status = shop.status().await;
        let is_ready = is_true(&status, "Ready") && status.desired_replicas > Some(2);
        // The updater is a task of its own, and may be later.
        let said = is_ready.then(|| explain(real));
        said.filter(|said| !said.contains("the updater has not processed it yet"))
    })
    .await;
    for expect in [
        "shop/shop scales Deployment shop, mode Recommend",
        "Why, ",
        "the number of replicas follows the load",
        "Kubernetes' own autoscalers, each alone:",
        "metrics.k8s.io",
        "prometheus",
        "mode Recommend changes nothing",
    ] {
        assert!(said.contains(expect), "{expect:?} is missing:\n{said}");
    }
    assert_eq!(shop.serving().await.len(), 2);

    // In mode Auto the number of pods, sized by the webhook, grows until the SLO is met.
    let mode = json!({ "spec": { "mode": "Auto" } });
    let patched = shop.objects().patch(SHOP, &PatchParams::default(), &Patch::Merge(mode)).await;
    patched.expect("taken");
    shop.is_relieved().await;
    let is_sized = |pod: &Pod| pod.annotations().contains_key("homeostat.dev/sized-by");
    assert!(shop.serving().await.iter().any(is_sized), "the webhook has sized no pod");

    // The leader is deleted: another replica takes over.
    let leases: Api<Lease> = Api::namespaced(shop.client.clone(), OPERATOR);
    let leader = async || {
        let leases = leases.list(&ListParams::default()).await.expect("listed").items;
        leases.into_iter().find_map(|lease| lease.spec?.holder_identity).filter(|it| !it.is_empty())
    };
    let first = leader().await.expect("a leader");
    assert!(copies().await.iter().any(|pod| pod.name_any() == first), "{first} is no pod");
    pods.delete(&first, &DeleteParams::default()).await.expect("deleted");
    eventually_within(PATIENCE, "another leader", async || {
        leader().await.filter(|leader| *leader != first)
    })
    .await;
    for pod in copies().await {
        let containers = pod.status.and_then(|status| status.container_statuses);
        let restarts: i32 = containers.iter().flatten().map(|one| one.restart_count).sum();
        assert_eq!(restarts, 0, "it fell over by itself");
    }

    // Without the operator the service does not change.
    let before = shop.serving().await.len();
    release.run("uninstall", &[]);
    eventually_within(PATIENCE, "no replica any more", async || {
        copies().await.is_empty().then_some(())
    })
    .await;
    assert_eq!(shop.serving().await.len(), before);
    assert!(shop.objects().get_opt(SHOP).await.expect("asked").is_some());
    shop.close();
}

/// What Helm installed.
struct Release<'a> {
    helm: &'a Helm,
    real: &'a RealCluster,
}

impl Release<'_> {
    fn run(&self, command: &str, further: &[&str]) {
        let chart = chart_file("");
        let kubeconfig = format!("--kubeconfig={}", self.real.cluster.admin_kubeconfig().display());
        let namespace = format!("--namespace={OPERATOR}");
        let mut arguments = vec![command, OPERATOR];
        if command == "install" {
            arguments.push(chart.to_str().expect("text"));
        }
        arguments.extend([&kubeconfig, &namespace, "--wait"]);
        arguments.extend(further);
        self.helm.run(&arguments).expect(command);
    }
}

/// Checks the privileges of the operator's processes, and counts them: this machine has no others.
fn check_privileges() -> usize {
    let processes = fs::read_dir("/proc").expect("listed").flatten().map(|entry| entry.path());
    let is_ours = |process: &std::path::PathBuf| {
        fs::read_link(process.join("exe")).is_ok_and(|exe| exe.ends_with("homeostat-operator"))
    };
    let ours: Vec<_> = processes.filter(is_ours).collect();
    for process in &ours {
        let status = fs::read_to_string(process.join("status")).expect("it runs");
        let line =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        assert_eq!(line("Uid:"), Some("65532\t65532\t65532\t65532"));
        assert_eq!(line("CapEff:"), Some("0000000000000000"));
        assert_eq!(line("NoNewPrivs:"), Some("1"));
        assert_eq!(line("Seccomp:"), Some("2"), "a filter of system calls");
        let mounts = fs::read_to_string(process.join("mountinfo")).expect("it runs");
        let root = mounts.lines().find(|line| line.split(' ').nth(4) == Some("/")).expect("a root");
        let options = root.split(' ').nth(5).expect("options");
        assert!(options.split(',').any(|option| option == "ro"), "{root}");
    }
    ours.len()
}

fn explain(real: &RealCluster) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_homeostat-operator"))
        .args(["explain", SHOP, "--namespace", SHOP])
        .env("KUBECONFIG", real.cluster.admin_kubeconfig())
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}
