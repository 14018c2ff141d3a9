//! Nodes without containers: real kubelets that only say that pods run.
//!
//! Their ports listen on all addresses, and all of them make their socket under the same name in
//! `/tmp`, so each lives in namespaces of its own. What connects it to the cluster is a socket
//! of the file system, which network namespaces share.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use crate::cluster::Cluster;
use crate::server::Server;

/// Pods that one node takes.
pub const PODS_PER_HOLLOW_NODE: u32 = 110;

/// Gives a kubelet a network and a `/tmp` of its own, in which the cluster's directory ($1) and the
/// directory of binaries ($2) stay where they are. It finds its name ($5) in a file: there is no
/// name server, and waiting for one takes a quarter of a minute. The process that forwards its port ($3)
/// to the socket ($4) goes with the kubelet, which takes the place of the shell.
const SCRIPT: &str = r#"
set -e
ip link set lo up
ip address add 10.88.0.1/32 dev lo
ip route add default dev lo
mount -t tmpfs tmpfs /mnt
printf '127.0.0.1 localhost\n10.88.0.1 %s\n' "$5" > /mnt/hosts
: > /mnt/resolv.conf
mount --bind /mnt/hosts /etc/hosts
mount --bind /mnt/resolv.conf /etc/resolv.conf
mkdir /mnt/directory /mnt/binaries
mount --bind "$1" /mnt/directory
mount --bind "$2" /mnt/binaries
mount -t tmpfs tmpfs /tmp
mkdir -p "$1" "$2"
mount --bind /mnt/directory "$1"
mount --bind /mnt/binaries "$2"
setpriv --pdeathsig KILL socat "TCP-LISTEN:$3,bind=127.0.0.1,fork,reuseaddr" "UNIX-CONNECT:$4" &
shift 5
# The pretended runtime writes into a map from many goroutines, and ends if two do so at once.
export GOMAXPROCS=1
exec "$@"
"#;

/// Hollow nodes of a cluster.
pub struct HollowNodes {
    /// The kubelets.
    pub kubelets: Vec<Server>,
}

impl HollowNodes {
    /// Starts so many; they are ready when the cluster says so. Needs root, for the namespaces.
    pub fn start(cluster: &Cluster, binaries: &Path, count: u32) -> Self {
        let directory = cluster.file("");
        let socket = cluster.file("api.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let port = cluster.port();
        std::thread::spawn(move || forward(&listener, port));
        let kubelet = |place: u32| {
            let name = format!("hollow-{place}");
            let arguments = [
                "--net".to_owned(),
                "--mount".to_owned(),
                "sh".to_owned(),
                "-c".to_owned(),
                SCRIPT.to_owned(),
                "sh".to_owned(),
                directory.display().to_string(),
                binaries.display().to_string(),
                port.to_string(),
                socket.display().to_string(),
                name.clone(),
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

/// Forwards every connection to the API server, for as long as the program runs.
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
