//! What turns objects into pods that have a place: controller manager and scheduler.

use std::path::Path;

use crate::cluster::Cluster;
use crate::server::{Server, free_port};

/// How the control plane of a cluster is started.
#[derive(Default)]
pub struct ControlPlaneConfig<'a> {
    /// Further arguments of the controller manager, such as the periods of the stock HPA.
    pub controller_manager_arguments: &'a [&'a str],
    /// Further arguments of the scheduler.
    pub scheduler_arguments: &'a [&'a str],
}

impl ControlPlaneConfig<'_> {
    /// Starts both; they work as soon as they have read what there is.
    pub fn build(&self, cluster: &Cluster, binaries: &Path) -> ControlPlane {
        let kubeconfig = format!("--kubeconfig={}", cluster.admin_kubeconfig().display());
        // Only one copy of each runs, and nothing queries them.
        let both = |port: u16| {
            [
                kubeconfig.clone(),
                "--leader-elect=false".to_owned(),
                "--bind-address=127.0.0.1".to_owned(),
                "--port=0".to_owned(),
                format!("--secure-port={port}"),
            ]
        };
        let start = |name: &str, own: &[String], further: &[&str]| {
            let further = further.iter().map(|&argument| argument.to_owned());
            let arguments = both(free_port()).into_iter().chain(own.iter().cloned()).chain(further);
            Server::start(&binaries.join(name), arguments, &cluster.file(&format!("{name}.log")))
        };
        let file = |name: &str| cluster.file(name).display().to_string();
        let own = [
            format!("--service-account-private-key-file={}", file("sa.key")),
            format!("--root-ca-file={}", file("ca.crt")),
            // The default of 20 requests a second is for clusters where many share the server.
            "--kube-api-qps=200".to_owned(),
            "--kube-api-burst=400".to_owned(),
        ];
        let controller_manager =
            start("kube-controller-manager", &own, self.controller_manager_arguments);
        let scheduler = start("kube-scheduler", &[], self.scheduler_arguments);
        ControlPlane { controller_manager, scheduler }
    }
}

/// Controller manager and scheduler of a cluster.
pub struct ControlPlane {
    /// Deployments, replica sets, disruption budgets, the stock HPA and more.
    pub controller_manager: Server,
    /// Gives pods a node.
    pub scheduler: Server,
}
