//! Everything of a real cluster with one real node: servers, node, metrics API, Prometheus.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cluster::{API_SERVER_SERVICE, Cluster, ClusterConfig};
use crate::control_plane::{ControlPlane, ControlPlaneConfig};
use crate::image::compile_service;
use crate::metrics_api::{aggregation_arguments, serve_metrics_api};
use crate::own_machine::NODE_ADDRESS;
use crate::real_node::RealNode;
use crate::server::{Server, free_port};

/// How a real cluster is started.
pub struct RealClusterConfig<'a> {
    /// Directory of Kubernetes' binaries.
    pub binaries: &'a Path,
    /// An empty directory for certificates, data and logs.
    pub directory: &'a Path,
    /// Further arguments of the controller manager, such as the periods of the stock HPA.
    pub controller_manager_arguments: &'a [&'a str],
    /// Time between two looks of the metrics API at the kubelet.
    pub metrics_interval: Duration,
    /// Time between two looks of Prometheus at the ingress.
    pub scrape_interval: Duration,
}

impl RealClusterConfig<'_> {
    /// Starts everything and waits until pods can run. Servers die with the thread that this
    /// is called on.
    pub fn build(&self) -> RealCluster {
        let service = compile_service(self.directory);
        let arguments = aggregation_arguments(self.directory);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let config = ClusterConfig {
            binaries: self.binaries,
            directory: self.directory,
            api_server_arguments: &arguments,
            has_service_accounts: true,
        };
        let cluster = config.build();
        let api_server_service = api_server_service(&cluster);
        let control_plane = ControlPlaneConfig {
            controller_manager_arguments: self.controller_manager_arguments,
            ..ControlPlaneConfig::default()
        };
        let control_plane = control_plane.build(&cluster, self.binaries);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let node = runtime.block_on(async {
            let node = RealNode::start(&cluster, self.binaries, &service).await;
            serve_metrics_api(&cluster, self.metrics_interval).await;
            node
        });
        let ingress_port = free_port();
        let (prometheus, prometheus_url) = self.prometheus(&cluster, ingress_port);
        RealCluster {
            service,
            ingress_port,
            prometheus_url,
            prometheus,
            node,
            control_plane,
            api_server_service,
            cluster,
        }
    }

    fn prometheus(&self, cluster: &Cluster, ingress_port: u16) -> (Server, String) {
        let interval = self.scrape_interval.as_millis();
        let config = format!(
            "global: {{scrape_interval: {interval}ms, scrape_timeout: {interval}ms}}\n\
             scrape_configs: [{{job_name: ingress, static_configs: [{{targets: [\"127.0.0.1:{ingress_port}\"]}}]}}]\n"
        );
        let file = cluster.file("prometheus.yml");
        fs::write(&file, config).expect("written");
        let port = free_port();
        let arguments = [
            format!("--config.file={}", file.display()),
            format!("--storage.tsdb.path={}", cluster.file("prometheus").display()),
            format!("--web.listen-address={NODE_ADDRESS}:{port}"),
        ];
        let log = cluster.file("prometheus.log");
        let server = Server::start(Path::new("prometheus"), arguments, &log);
        (server, format!("http://{NODE_ADDRESS}:{port}"))
    }
}

/// What kube-proxy would do, for the one service that pods ask by its address. The API server
/// itself finds pods behind services without it.
fn api_server_service(cluster: &Cluster) -> Server {
    let arguments = [
        format!("TCP-LISTEN:443,bind={API_SERVER_SERVICE},fork,reuseaddr"),
        format!("TCP:127.0.0.1:{}", cluster.port()),
    ];
    Server::start(Path::new("socat"), arguments, &cluster.file("api-server-service.log"))
}

/// A real cluster with one real node; everything ends when it is dropped.
pub struct RealCluster {
    /// The service's binary.
    pub service: PathBuf,
    /// The port of loopback at which Prometheus asks the ingress.
    pub ingress_port: u16,
    /// The address at which Prometheus answers on this machine, for pods too.
    pub prometheus_url: String,
    /// Prometheus.
    pub prometheus: Server,
    /// The node.
    pub node: RealNode,
    /// Controller manager and scheduler.
    pub control_plane: ControlPlane,
    /// Where pods reach the API server.
    pub api_server_service: Server,
    /// API server and etcd.
    pub cluster: Cluster,
}
