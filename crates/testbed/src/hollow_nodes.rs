//! Nodes without containers: real kubelets that only say that pods run.
//!
//! Their ports listen on all addresses, so each lives in a network namespace of its own. What
//! connects it to the cluster is a socket of the file system, which namespaces share.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use crate::cluster::Cluster;
use crate::server::Server;

/// Pods that one node takes.
pub const PODS_PER_HOLLOW_NODE: u32 = 110;

/// Hollow nodes of a cluster.
pub struct HollowNodes {
    /// The kubelets.
    pub kubelets: Vec<Server>,
}

impl HollowNodes {
    /// Starts so many; they are ready when the cluster says so. Needs root, for the namespaces.
    pub fn start(cluster: &Cluster, binaries: &Path, count: u32) -> Self {
        let socket = cluster.file("api.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let port = cluster.port();
        std::thread::spawn(move || forward(&listener, port));
        let kubelet = |place: u32| {
            let name = format!("hollow-{place}");
            // Whoever forwards goes with the kubelet, which takes the place of the shell.
            let script = "ip link set lo up && \
                 { setpriv --pdeathsig KILL socat TCP-LISTEN:$1,bind=127.0.0.1,fork,reuseaddr UNIX-CONNECT:$2 & \
                 shift 2; exec \"$@\"; }";
            let arguments = [
                "--net".to_owned(),
                "sh".to_owned(),
                "-c".to_owned(),
                script.to_owned(),
                "sh".to_owned(),
                port.to_string(),
                socket.display().to_string(),
                binaries.join("kubemark").display().to_string(),
                "--morph=kubelet".to_owned(),
                format!("--name={name}"),
                format!("--kubeconfig={}", cluster.admin_kubeconfig().display()),
            ];
            Server::start(Path::new("unshare"), arguments, &cluster.file(&format!("{name}.log")))
        };
        Self { kubelets: (0..count).map(kubelet).collect() }
    }
}

/// Connects everybody who comes to the API server, for as long as the program runs.
fn forward(listener: &UnixListener, port: u16) {
    for stream in listener.incoming() {
        // While the API server is away, its clients meet a closed door and come again.
        let (Ok(inside), Ok(outside)) = (stream, TcpStream::connect(("127.0.0.1", port))) else {
            continue;
        };
        std::thread::spawn(move || connect(&inside, &outside));
    }
}

fn connect(inside: &UnixStream, outside: &TcpStream) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut from, mut to) = (inside, outside);
            let _ = io::copy(&mut from, &mut to);
            let _ = outside.shutdown(Shutdown::Both);
        });
        let (mut from, mut to) = (outside, inside);
        // A connection that ends, in whatever way, ends on both sides.
        let _ = io::copy(&mut from, &mut to);
        let _ = inside.shutdown(Shutdown::Both);
    });
}
