//! The static file of the image, as it runs in it: nothing else in its root, which cannot be
//! written, and no root. The recipe itself needs a registry of images and is not built here.
//!
//! `deploy/image/static dev` builds the file; without `HOMEOSTAT_TEST_STATIC`, or without root to
//! change the root, the test says that it was skipped.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

use super::operator::{Operator, eventually};
use super::rights::{install, token};
use super::shop::{Shop, spec};

/// The operator as one static file; none, loudly, if it was not built.
pub(crate) fn static_file() -> Option<PathBuf> {
    let file = std::env::var_os("HOMEOSTAT_TEST_STATIC");
    if file.is_none() {
        eprintln!("SKIPPED: no static file; set HOMEOSTAT_TEST_STATIC=$(deploy/image/static dev)");
    }
    file.map(PathBuf::from)
}

#[tokio::test]
async fn the_static_file_alone_in_a_root_that_cannot_be_written_works_without_root() {
    let Some(file) = static_file() else { return };
    if fs::metadata("/proc/self").expect("we run").uid() != 0 {
        eprintln!("SKIPPED: only root can change the root of a process");
        return;
    }
    let Some(shop) = Shop::open("image").await else { return };
    install(shop.cluster, &shop.client, "image-operator", Some("image")).await;
    shop.deployment("checkout", 1).await;
    shop.uses("checkout-0", "200m", "100Mi").await;
    shop.autoscaler("checkout", spec("checkout", "Recommend")).await.expect("taken");

    // What a kubelet puts into every container, and the file itself.
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
        // Without TLS nobody's certificate is needed; nobody answers either.
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
