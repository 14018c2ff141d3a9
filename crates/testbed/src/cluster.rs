//! An API server with its etcd.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rcgen::KeyPair;

use crate::authority::Authority;
use crate::server::{Server, free_port};

/// The address of the API server's service: the first of the range of services.
pub(crate) const API_SERVER_SERVICE: &str = "10.0.0.1";

/// How a cluster is started.
pub struct ClusterConfig<'a> {
    /// Directory of Kubernetes' binaries.
    pub binaries: &'a Path,
    /// An empty directory for certificates, data and logs.
    pub directory: &'a Path,
    /// Further arguments of the API server.
    pub api_server_arguments: &'a [&'a str],
    /// Whether pods get the token of an account. Without a controller manager nothing makes
    /// accounts, and no pod could be created.
    pub has_service_accounts: bool,
}

impl ClusterConfig<'_> {
    /// Starts it and waits until it is ready.
    pub fn build(&self) -> Cluster {
        let authority = Authority::new(self.directory);
        let directory = self.directory.to_owned();
        let file = |name: &str| directory.join(name).display().to_string();
        let names = ["127.0.0.1", API_SERVER_SERVICE, "localhost", "kubernetes.default.svc"];
        authority.issue("server", "server", &[], &names);
        let service_accounts = KeyPair::generate().expect("a key");
        fs::write(file("sa.key"), service_accounts.serialize_pem()).expect("written");
        fs::write(file("sa.pub"), service_accounts.public_key_pem()).expect("written");

        let (port, client_port, peer_port) = (free_port(), free_port(), free_port());
        let client_url = format!("http://127.0.0.1:{client_port}");
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let arguments = [
            format!("--data-dir={}", file("etcd")),
            format!("--listen-client-urls={client_url}"),
            format!("--advertise-client-urls={client_url}"),
            format!("--listen-peer-urls={peer_url}"),
            format!("--initial-advertise-peer-urls={peer_url}"),
            format!("--initial-cluster=default={peer_url}"),
            "--unsafe-no-fsync".to_owned(),
        ];
        let etcd = Server::start(Path::new("etcd"), arguments, &directory.join("etcd.log"));
        let arguments = [
            format!("--etcd-servers={client_url}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            "--insecure-port=0".to_owned(),
            format!("--tls-cert-file={}", file("server.crt")),
            format!("--tls-private-key-file={}", file("server.key")),
            format!("--client-ca-file={}", file("ca.crt")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", file("sa.pub")),
            format!("--service-account-signing-key-file={}", file("sa.key")),
            "--authorization-mode=RBAC".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--allow-privileged=true".to_owned(),
        ];
        let no_accounts = "--disable-admission-plugins=ServiceAccount";
        let no_accounts = (!self.has_service_accounts).then_some(no_accounts);
        let further = self.api_server_arguments.iter().copied().chain(no_accounts);
        let further = further.map(str::to_owned);
        let program = self.binaries.join("kube-apiserver");
        let log = directory.join("apiserver.log");
        let api_server = Server::start(&program, arguments.into_iter().chain(further), &log);
        let cluster =
            Cluster { directory, port, etcd_port: client_port, authority, etcd, api_server };
        cluster.wait_until_ready();
        cluster
    }
}

/// A running API server.
pub struct Cluster {
    directory: PathBuf,
    port: u16,
    etcd_port: u16,
    authority: Authority,
    /// Its database.
    pub etcd: Server,
    /// The API server itself.
    pub api_server: Server,
}

impl Cluster {
    /// A file of the cluster's directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Where the API server listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where etcd listens, which also takes JSON.
    pub fn etcd_port(&self) -> u16 {
        self.etcd_port
    }

    /// The certificate authority of this cluster.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// A kubeconfig for a user of these groups; `system:masters` may do everything.
    pub fn kubeconfig(&self, user: &str, groups: &[&str]) -> PathBuf {
        let path = self.file(&format!("{user}.kubeconfig"));
        if path.exists() {
            return path;
        }
        self.authority.issue(user, user, groups, &[]);
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
             clusters: [{{name: test, cluster: {{server: \"https://127.0.0.1:{}\", certificate-authority: {}}}}}]\n\
             users: [{{name: user, user: {{client-certificate: {}, client-key: {}}}}}]\n\
             contexts: [{{name: test, context: {{cluster: test, user: user}}}}]\n",
            self.port,
            self.file("ca.crt").display(),
            self.file(&format!("{user}.crt")).display(),
            self.file(&format!("{user}.key")).display(),
        );
        fs::write(&path, text).expect("written");
        path
    }

    /// The kubeconfig of a cluster administrator.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.kubeconfig("admin", &["system:masters"])
    }

    /// A client that may do everything.
    pub async fn client(&self) -> Client {
        client_of(&self.admin_kubeconfig()).await
    }

    /// Waits until the API server answers that it is ready; for threads without a runtime.
    pub fn wait_until_ready(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(self.ready());
    }

    /// Waits until the API server answers that it is ready.
    pub async fn ready(&self) {
        let started = Instant::now();
        loop {
            let is_up = TcpStream::connect(("127.0.0.1", self.port)).is_ok();
            if is_up && self.is_ready().await {
                return;
            }
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "the API server is not ready after a minute: see {}",
                self.api_server.log().display()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn is_ready(&self) -> bool {
        let client = self.client().await;
        let request = http::Request::get("/readyz").body(Vec::new()).expect("a request");
        client.request_text(request).await.is_ok_and(|answer| answer == "ok")
    }
}

/// A client with the identity of a kubeconfig. It lives as long as the runtime it was made on.
pub async fn client_of(kubeconfig: &Path) -> Client {
    // Another part of the program may have installed it already.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("it can be read");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("valid");
    Client::try_from(config).expect("a client")
}
