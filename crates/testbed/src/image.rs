//! Images without a registry: static binaries of the project's own, in the form that
//! `ctr images import` reads.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

/// The image of the service.
pub const SERVICE_IMAGE: &str = "homeostat.invalid/work-service:1";
/// The image that holds the place of a pod.
pub(crate) const PAUSE_IMAGE: &str = "homeostat.invalid/pause:1";

/// The service's source: the bench may run where the project's directory is not.
const SERVICE_SOURCE: &str = include_str!("bin/work-service.rs");

/// Compiles the service into a static binary, which needs nothing but itself.
pub(crate) fn compile_service(directory: &Path) -> PathBuf {
    let source = directory.join("work-service.rs");
    std::fs::write(&source, SERVICE_SOURCE).expect("the directory can be written");
    let binary = directory.join("work-service");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let done = Command::new(rustc)
        .args(["--edition", "2024", "-O", "-C", "target-feature=+crt-static"])
        .args(["-C", "strip=symbols", "-o"])
        .arg(&binary)
        .arg(&source)
        .output()
        .expect("rustc starts");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{} does not compile: {said}", source.display());
    binary
}

/// How many iterations of the service's work take a millisecond on this machine.
pub fn iterations_per_millisecond(service: &Path) -> u64 {
    let output = Command::new(service).arg("calibrate").output().expect("it starts");
    let text = String::from_utf8(output.stdout).expect("it prints a number");
    text.trim().parse().expect("it prints a number")
}

/// An image of one static binary and nothing else.
#[derive(Clone, Copy)]
pub struct Image<'a> {
    /// Its name, with a tag.
    pub name: &'a str,
    /// The binary, which keeps its name at the image's root.
    pub binary: &'a Path,
    /// Its default command.
    pub argument: &'a str,
    /// The user and group that run it, such as `65532:65532`; root if empty.
    pub user: &'a str,
}

/// An archive of images; a binary that several have is kept once.
pub(crate) fn archive(images: &[Image<'_>]) -> Vec<u8> {
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut manifest = Vec::new();
    for image in images {
        let program = image.binary.file_name().and_then(|name| name.to_str()).expect("a name");
        let layer = tar(&[(program, &std::fs::read(image.binary).expect("it was compiled"))]);
        let layer_digest = digest(&layer);
        let layer_name = format!("{layer_digest}/layer.tar");
        files.insert(layer_name.clone(), layer);
        let config = serde_json::json!({
            "architecture": "amd64", "os": "linux",
            "config": {
                "Entrypoint": [format!("/{program}")], "Cmd": [image.argument], "User": image.user,
            },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer_digest}")] },
        })
        .to_string()
        .into_bytes();
        let config_name = format!("{}.json", digest(&config));
        manifest.push(serde_json::json!({
            "Config": config_name, "RepoTags": [image.name], "Layers": [layer_name],
        }));
        files.insert(config_name, config);
    }
    let manifest = serde_json::Value::Array(manifest).to_string().into_bytes();
    files.insert("manifest.json".to_owned(), manifest);
    let files: Vec<_> = files.iter().map(|(name, data)| (&name[..], &data[..])).collect();
    tar(&files)
}

fn digest(data: &[u8]) -> String {
    Sha256::digest(data).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

/// Plain files that every user may run, in blocks of 512 bytes.
fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, data) in files {
        let mut head = [0_u8; 512];
        let mut put = |at: usize, text: &str| {
            head[at..at + text.len()].copy_from_slice(text.as_bytes());
        };
        put(0, name);
        put(100, "0000755\0");
        put(108, "0000000\0");
        put(116, "0000000\0");
        put(124, &format!("{:011o}\0", data.len()));
        put(136, "00000000000\0");
        put(148, "        ");
        put(156, "0");
        put(257, "ustar\x0000");
        let sum: u32 = head.iter().map(|&byte| u32::from(byte)).sum();
        head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        out.extend(head);
        out.extend(*data);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.resize(out.len() + 1024, 0);
    out
}
