//! The API server that all tests of this process share.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use homeostat_test_skip::skip;
use homeostat_testbed::{Cluster, ClusterConfig};

/// The shared cluster; none if there are no binaries.
pub(crate) fn shared() -> Option<&'static Cluster> {
    static CLUSTER: OnceLock<&'static Cluster> = OnceLock::new();
    let binaries = binaries()?;
    Some(CLUSTER.get_or_init(|| start(binaries, fresh_folder("shared"), Vec::new())))
}

/// A cluster whose API server logs every request of service accounts in `audit.log`; none if there
/// are no binaries.
pub(crate) fn audited(name: &str) -> Option<&'static Cluster> {
    let (binaries, folder) = (binaries()?, fresh_folder(name));
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n\
                  rules: [{level: Metadata, userGroups: [\"system:serviceaccounts\"]}]\n";
    let policy_file = folder.join("audit-policy.yaml");
    fs::write(&policy_file, policy).expect("written");
    let arguments = vec![
        format!("--audit-policy-file={}", policy_file.display()),
        format!("--audit-log-path={}", folder.join("audit.log").display()),
    ];
    Some(start(binaries, folder, arguments))
}

/// Starts a cluster that runs until the end of the process.
pub(crate) fn start(
    binaries: PathBuf,
    folder: PathBuf,
    arguments: Vec<String>,
) -> &'static Cluster {
    let (sender, receiver) = std::sync::mpsc::channel();
    // The servers end with the thread that started them, so it runs until the end.
    std::thread::spawn(move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let config = ClusterConfig {
            binaries: &binaries,
            directory: &folder,
            api_server_arguments: &arguments,
            has_service_accounts: false,
        };
        sender.send(config.build()).expect("the receiver waits");
        loop {
            std::thread::park();
        }
    });
    Box::leak(Box::new(receiver.recv().expect("the cluster starts")))
}

/// A cluster for a single test that disrupts it.
pub(crate) struct OwnCluster(pub(crate) &'static Cluster);

impl OwnCluster {
    /// A new one; none if there are no binaries.
    pub(crate) fn start(name: &str) -> Option<Self> {
        Some(Self(start(binaries()?, fresh_folder(name), Vec::new())))
    }
}

impl Drop for OwnCluster {
    fn drop(&mut self) {
        self.0.api_server.kill();
        self.0.etcd.kill();
    }
}

/// The directory of the Kubernetes binaries; none, with a message, if it is not set.
pub(crate) fn binaries() -> Option<PathBuf> {
    let binaries = std::env::var_os("HOMEOSTAT_TEST_KUBERNETES");
    if binaries.is_none() {
        skip("no Kubernetes; set HOMEOSTAT_TEST_KUBERNETES=$(tests/cluster/kubernetes)");
    }
    binaries.map(PathBuf::from)
}

/// A directory of this process; those of processes that have ended are removed.
pub(crate) fn fresh_folder(name: &str) -> PathBuf {
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clusters");
    fs::create_dir_all(&all).expect("a folder");
    for old in fs::read_dir(&all).expect("it is there").flatten() {
        let is_alive = Path::new("/proc").join(old.file_name()).exists();
        if !is_alive {
            // Another process may remove it as well.
            let _ = fs::remove_dir_all(old.path());
        }
    }
    let folder = all.join(std::process::id().to_string()).join(name);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}
