//! The API server that all tests of this process share.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use homeostat_testbed::{Cluster, ClusterConfig};

/// The shared cluster; none if there are no binaries.
pub(crate) fn shared() -> Option<&'static Cluster> {
    static CLUSTER: OnceLock<Option<&'static Cluster>> = OnceLock::new();
    *CLUSTER.get_or_init(|| Some(start("shared", &binaries()?, &[])))
}

/// Starts a cluster that stays until the end of the program.
pub(crate) fn start(name: &str, binaries: &Path, arguments: &[&str]) -> &'static Cluster {
    let (name, binaries) = (name.to_owned(), binaries.to_owned());
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    let (sender, receiver) = std::sync::mpsc::channel();
    // The servers die with the thread that started them: it stays until the end.
    std::thread::spawn(move || {
        let folder = fresh_folder(&name);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let config = ClusterConfig {
            binaries: &binaries,
            folder: &folder,
            api_server_arguments: &arguments,
        };
        sender.send(config.build()).expect("somebody waits");
        loop {
            std::thread::park();
        }
    });
    Box::leak(Box::new(receiver.recv().expect("the cluster starts")))
}

/// A cluster of one test, which does to it whatever it wants.
pub(crate) struct OwnCluster(pub(crate) &'static Cluster);

impl OwnCluster {
    /// A new one; none if there are no binaries.
    pub(crate) fn start(name: &str) -> Option<Self> {
        Some(Self(start(name, &binaries()?, &[])))
    }
}

impl Drop for OwnCluster {
    fn drop(&mut self) {
        self.0.api_server.kill();
        self.0.etcd.kill();
    }
}

/// The folder of Kubernetes' binaries; says loudly if there is none.
pub(crate) fn binaries() -> Option<PathBuf> {
    let binaries = std::env::var_os("HOMEOSTAT_TEST_KUBERNETES");
    if binaries.is_none() {
        eprintln!(
            "SKIPPED: no Kubernetes; set HOMEOSTAT_TEST_KUBERNETES=$(tests/cluster/kubernetes)"
        );
    }
    binaries.map(PathBuf::from)
}

/// A folder of this process; those of processes that are gone are taken away.
pub(crate) fn fresh_folder(name: &str) -> PathBuf {
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clusters");
    fs::create_dir_all(&all).expect("a folder");
    for old in fs::read_dir(&all).expect("it is there").flatten() {
        let is_alive = Path::new("/proc").join(old.file_name()).exists();
        if !is_alive {
            // Somebody else may be taking it away as well.
            let _ = fs::remove_dir_all(old.path());
        }
    }
    let folder = all.join(std::process::id().to_string()).join(name);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}
