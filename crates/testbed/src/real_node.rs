//! One real node: kubelet, containerd, runc and a bridge, inside a machine of its own.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use kube::Api;

use crate::cluster::Cluster;
use crate::image::{Image, PAUSE_IMAGE, SERVICE_IMAGE, archive};
use crate::own_machine::{NODE_ADDRESS, own_control_group};
use crate::server::Server;

/// The name of the only node.
pub(crate) const NODE_NAME: &str = "node";
/// The port at which the kubelet answers without authentication; it is reachable only inside the
/// network namespace.
pub(crate) const KUBELET_READ_ONLY_PORT: u16 = 10255;

const SOCKET: &str = "/run/containerd/c.sock";

/// A node that runs real pods.
pub struct RealNode {
    /// What runs containers.
    pub containerd: Server,
    /// What runs pods.
    pub kubelet: Server,
}

impl RealNode {
    /// Starts one that has the images of the service, and waits until it is ready.
    pub async fn start(cluster: &Cluster, binaries: &Path, service: &Path) -> Self {
        let group = own_control_group().expect("this runs inside a machine of its own");
        fs::write("/run/containerd/config.toml", containerd_config()).expect("written");
        fs::create_dir_all("/run/containerd/cni").expect("a directory");
        fs::write("/run/containerd/cni/10.conflist", network_config()).expect("written");
        let log = cluster.file("containerd.log");
        let arguments = ["--config", "/run/containerd/config.toml"];
        let containerd = Server::start(Path::new("containerd"), arguments, &log);
        let image = |name, argument| Image { name, binary: service, argument, user: "" };
        import(&[image(SERVICE_IMAGE, "serve"), image(PAUSE_IMAGE, "pause")], &log);

        let config = cluster.file("kubelet.yaml");
        fs::write(&config, kubelet_config(&group)).expect("written");
        let arguments = [
            format!("--config={}", config.display()),
            format!("--kubeconfig={}", cluster.admin_kubeconfig().display()),
            "--container-runtime=remote".to_owned(),
            format!("--container-runtime-endpoint=unix://{SOCKET}"),
            "--root-dir=/var/lib/kubelet".to_owned(),
            format!("--hostname-override={NODE_NAME}"),
            format!("--node-ip={NODE_ADDRESS}"),
        ];
        let log = cluster.file("kubelet.log");
        let kubelet = Server::start(&binaries.join("kubelet"), arguments, &log);
        wait_until_ready(cluster, &log).await;
        Self { containerd, kubelet }
    }

    /// Makes images known to it, as if they had been pulled.
    pub fn import(&self, images: &[Image<'_>]) {
        import(images, self.containerd.log());
    }
}

/// Tries until containerd listens.
fn import(images: &[Image<'_>], log: &Path) {
    let file = Path::new("/run/containerd/images.tar");
    fs::write(file, archive(images)).expect("written");
    let started = Instant::now();
    loop {
        let done = Command::new("ctr")
            .args(["--address", SOCKET, "--namespace", "k8s.io"])
            .args(["images", "import", "--snapshotter", "native"])
            .arg(file)
            .output()
            .expect("ctr starts");
        if done.status.success() {
            // It lies in memory, and containerd has its own copy.
            return fs::remove_file(file).expect("it was written");
        }
        let why = String::from_utf8_lossy(&done.stderr);
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "containerd takes no image: {why}; see {}",
            log.display()
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

async fn wait_until_ready(cluster: &Cluster, log: &Path) {
    let nodes: Api<Node> = Api::all(cluster.client().await);
    let started = Instant::now();
    loop {
        let node = nodes.get_opt(NODE_NAME).await.ok().flatten();
        let is_tainted = |node: &Node| {
            node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).is_some_and(|t| !t.is_empty())
        };
        let conditions = node.as_ref().and_then(|node| node.status.as_ref()?.conditions.as_ref());
        let is_ready = conditions.is_some_and(|all| {
            all.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        });
        if is_ready && !node.as_ref().is_some_and(is_tainted) {
            return;
        }
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "the node is not ready after a minute: see {}",
            log.display()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Images are copied instead of stacked: that works on every file system, and they are small.
fn containerd_config() -> String {
    format!(
        r#"version = 2
root = "/run/containerd/root"
state = "/run/containerd/state"
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
  path = "/run/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/run/containerd/cni"
"#
    )
}

fn network_config() -> String {
    serde_json::json!({
        "cniVersion": "0.4.0", "name": "pods",
        "plugins": [{
            "type": "bridge", "bridge": "pods0", "isDefaultGateway": true, "ipMasq": false,
            "ipam": {
                "type": "host-local", "ranges": [[{ "subnet": "10.98.0.0/16" }]],
                "dataDir": "/run/containerd/addresses",
            },
        }],
    })
    .to_string()
}

/// Nothing is evicted or collected when the disk fills: these tests are not about that.
fn kubelet_config(group: &str) -> String {
    serde_json::json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "authentication": { "anonymous": { "enabled": true }, "webhook": { "enabled": false } },
        "authorization": { "mode": "AlwaysAllow" },
        "cgroupDriver": "cgroupfs", "cgroupRoot": format!("/{group}"),
        "failSwapOn": false, "makeIPTablesUtilChains": false,
        "readOnlyPort": KUBELET_READ_ONLY_PORT,
        "evictionHard": { "memory.available": "1Mi" },
        "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
        "kubeAPIQPS": 100, "kubeAPIBurst": 200, "eventRecordQPS": 0,
    })
    .to_string()
}
