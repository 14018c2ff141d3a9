//! A real API server with its etcd, for as long as this process lives.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// A running API server.
pub(crate) struct Cluster {
    folder: PathBuf,
    port: u16,
    authority: Issuer<'static, KeyPair>,
    authority_pem: String,
    servers: Vec<Child>,
}

impl Cluster {
    /// The cluster that all tests of this process share; none if there are no binaries.
    pub(crate) fn shared() -> Option<&'static Self> {
        static CLUSTER: OnceLock<Option<Cluster>> = OnceLock::new();
        CLUSTER
            .get_or_init(|| {
                let Some(binaries) = std::env::var_os("HOMEOSTAT_TEST_KUBERNETES") else {
                    eprintln!(
                        "SKIPPED: no Kubernetes; set HOMEOSTAT_TEST_KUBERNETES=$(tests/cluster/kubernetes)"
                    );
                    return None;
                };
                let (sender, receiver) = std::sync::mpsc::channel();
                // The servers die with the thread that started them: it stays until the end.
                std::thread::spawn(move || {
                    sender.send(Self::start(Path::new(&binaries))).expect("somebody waits");
                    loop {
                        std::thread::park();
                    }
                });
                Some(receiver.recv().expect("the cluster starts"))
            })
            .as_ref()
    }

    fn start(binaries: &Path) -> Self {
        let folder = fresh_folder();
        let (authority, authority_pem) = authority();
        let servers = Vec::new();
        let mut this = Self { port: free_port(), folder, authority, authority_pem, servers };
        fs::write(this.file("ca.crt"), &this.authority_pem).expect("written");
        this.certificate(
            "server",
            &["127.0.0.1", "localhost", "kubernetes.default.svc"],
            "server",
            &[],
        );
        let service_accounts = KeyPair::generate().expect("a key");
        fs::write(this.file("sa.key"), service_accounts.serialize_pem()).expect("written");
        fs::write(this.file("sa.pub"), service_accounts.public_key_pem()).expect("written");

        let (client_port, peer_port) = (free_port(), free_port());
        let client_url = format!("http://127.0.0.1:{client_port}");
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let arguments = [
            format!("--data-dir={}", this.file("etcd").display()),
            format!("--listen-client-urls={client_url}"),
            format!("--advertise-client-urls={client_url}"),
            format!("--listen-peer-urls={peer_url}"),
            format!("--initial-advertise-peer-urls={peer_url}"),
            format!("--initial-cluster=default={peer_url}"),
            "--unsafe-no-fsync".to_owned(),
        ];
        this.spawn(Path::new("etcd"), "etcd", &arguments);
        let file = |name: &str| this.file(name).display().to_string();
        let arguments = [
            format!("--etcd-servers={client_url}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", this.port),
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
            "--disable-admission-plugins=ServiceAccount".to_owned(),
        ];
        this.spawn(&binaries.join("kube-apiserver"), "apiserver", &arguments);
        this.wait_until_ready();
        this
    }

    /// A file of the cluster's folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A kubeconfig for a user of these groups; `system:masters` may do everything.
    pub(crate) fn kubeconfig(&self, user: &str, groups: &[&str]) -> PathBuf {
        let path = self.file(&format!("{user}.kubeconfig"));
        if path.exists() {
            return path;
        }
        self.certificate(user, &[], user, groups);
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

    /// A client that may do everything.
    pub(crate) async fn client(&self) -> Client {
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let path = self.kubeconfig("admin", &["system:masters"]);
        let kubeconfig = Kubeconfig::read_from(path).expect("it can be read");
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("valid");
        Client::try_from(config).expect("a client")
    }

    fn certificate(&self, file: &str, names: &[&str], user: &str, groups: &[&str]) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name.push(DnType::CommonName, user);
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.authority).expect("signed");
        fs::write(self.file(&format!("{file}.crt")), certificate.pem()).expect("written");
        fs::write(self.file(&format!("{file}.key")), key.serialize_pem()).expect("written");
    }

    /// Starts a server that dies with the thread that calls this.
    fn spawn(&mut self, program: &Path, name: &str, arguments: &[String]) {
        let log = fs::File::create(self.file(&format!("{name}.log"))).expect("a log");
        let server = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a handle"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", program.display()));
        self.servers.push(server);
    }

    fn wait_until_ready(&self) {
        let started = Instant::now();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        loop {
            let is_up = TcpStream::connect(("127.0.0.1", self.port)).is_ok();
            if is_up && runtime.block_on(self.is_ready()) {
                return;
            }
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "the API server is not ready after a minute: see {}",
                self.file("apiserver.log").display()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    async fn is_ready(&self) -> bool {
        let client = self.client().await;
        let request = http::Request::get("/readyz").body(Vec::new()).expect("a request");
        client.request_text(request).await.is_ok_and(|answer| answer == "ok")
    }
}

/// A folder for this process; those of processes that are gone are taken away.
fn fresh_folder() -> PathBuf {
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clusters");
    fs::create_dir_all(&all).expect("a folder");
    for old in fs::read_dir(&all).expect("it is there").flatten() {
        let is_alive = Path::new("/proc").join(old.file_name()).exists();
        if !is_alive {
            // Somebody else may be taking it away as well.
            let _ = fs::remove_dir_all(old.path());
        }
    }
    let folder = all.join(std::process::id().to_string());
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn authority() -> (Issuer<'static, KeyPair>, String) {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.distinguished_name.push(DnType::CommonName, "test authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate().expect("a key");
    let pem = params.self_signed(&key).expect("signed").pem();
    (Issuer::new(params, key), pem)
}

/// A port that nobody has now.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}
