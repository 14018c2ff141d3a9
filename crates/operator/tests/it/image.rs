//! The static file of the image in the same environment: alone in a read-only root file system, and
//! not as root. The Containerfile itself needs a registry and is not built here.
//!
//! `deploy/image/static dev` builds the file; without `HOMEOSTAT_TEST_STATIC`, or without root to
//! change the root, the test says that it was skipped.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

use homeostat_test_skip::skip;

use super::operator::{Operator, eventually};
use super::rights::{install, token};
use super::shop::{Shop, spec};

/// The operator as one static file; none, with a message, if it was not built.
pub(crate) fn static_file() -> Option<PathBuf> {
    let file = std::env::var_os("HOMEOSTAT_TEST_STATIC");
    if file.is_none() {
        skip("no static file; set HOMEOSTAT_TEST_STATIC=$(deploy/image/static dev)");
    }
    file.map(PathBuf::from)
}

#[tokio::test]
async fn the_static_file_works_alone_in_a_read_only_root_without_privileges() {
    let Some(file) = static_file() else { return };
    if fs::metadata("/proc/self").expect("we run").uid() != 0 {
        skip("only root can change the root of a process");
        return;
    }
    let Some(shop) = Shop::open("image").await else { return };
    install(shop.cluster, &shop.client, "image-operator", Some("image")).await;
    shop.deployment("checkout", 1).await;
    shop.uses("checkout-0", "200m", "100Mi").await;
    shop.autoscaler("checkout", spec("checkout", "Recommend")).await.expect("taken");

    // What a kubelet mounts into every container, and the file itself.
    let root = shop.cluster.file("image-root");
    let account = root.join("var/run/secrets/kubernetes.io/serviceaccount");
    fs::create_dir_all(&account).expect("made");
    fs::copy(file, root.join("homeostat-operator")).expect("copied");
    fs::copy(shop.cluster.file("ca.crt"), account.join("ca.crt")).expect("copied");
    fs::write(account.join("namespace"), "image-operator").expect("written");
    let token = token(&shop.client, "image-operator").await;
    fs::write(account.join("token"), token).expect("written");

    let alone = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && \
                 exec chroot --userspec=65532:65532 \"$0\" /homeostat-operator \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", alone])
        .arg(&root)
        .args(["run", "--interval=1s", "--only-namespace=image", "--namespace=image-operator"])
        // Without TLS no certificate is needed; the server does not exist either.
        .args(["--no-webhook", "--prometheus=http://127.0.0.1:1"])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("POD_NAME", "image-0")
        .env("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        .env("KUBERNETES_SERVICE_PORT", shop.cluster.port().to_string());
    let operator = Operator::spawn(shop.cluster, "image", &mut command);
    eventually("it to be ready", async || operator.get("/readyz").filter(|text| text == "ok\n"))
        .await;
    shop.condition("checkout", "Ready", "AsPlanned").await;
    let status = fs::read_to_string(format!("/proc/{}/status", operator.id())).expect("it runs");
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    assert_eq!(line("Uid:"), Some("65532\t65532\t65532\t65532"));
    assert_eq!(line("CapEff:"), Some("0000000000000000"));
    let log = operator.log();
    assert!(!log.contains("WARN"), "{log}");
}
