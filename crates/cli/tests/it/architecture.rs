//! The invariants of ARCHITECTURE.md that a machine can check.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cargo_metadata::{DependencyKind, MetadataCommand, Package};

use crate::homeostat::{files_below, root};

/// Layer of each crate. A new crate is added here, and to ARCHITECTURE.md.
const LAYERS: [(&str, u8); 15] = [
    ("homeostat-core", 0),
    ("homeostat-decide", 1),
    ("homeostat-des", 1),
    ("homeostat-env", 1),
    ("homeostat-load", 1),
    ("homeostat-nn", 1),
    ("homeostat-rl", 2),
    ("homeostat-sim-faas", 2),
    ("homeostat-simppo", 3),
    ("homeostat-lab", 4),
    ("homeostat-testbed", 4),
    ("homeostat-wire", 4),
    ("homeostat-cli", 5),
    ("homeostat-operator", 5),
    ("homeostat-py", 5),
];

/// The highest layer that does no I/O.
const LAST_PURE_LAYER: u8 = 3;

/// What layers 0-3 may use from outside: numbers, text and threads, no I/O.
const PURE_DEPENDENCIES: [&str; 10] = [
    "rand_chacha",
    "rand_core",
    "rand_distr",
    "rayon",
    "safetensors",
    "serde",
    "serde_json",
    "sha2",
    "strsim",
    "thiserror",
];

/// Words that layers 0-3 must not contain. Reading from what is handed in (`BufRead`) is
/// no I/O of their own.
const IMPURE: [&str; 13] = [
    "std::fs",
    "std::net",
    "stdin(",
    "stdout(",
    "stderr(",
    "std::env",
    "std::process",
    "println!",
    "eprintln!",
    "Instant",
    "SystemTime",
    "thread_rng",
    "HashMap",
];

fn packages() -> Vec<Package> {
    let metadata = MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .other_options(vec!["--offline".to_owned()])
        .exec()
        .unwrap();
    metadata.packages
}

fn layers() -> BTreeMap<&'static str, u8> {
    LAYERS.into_iter().collect()
}

/// Dependencies that are shipped, not those of tests.
fn dependencies(package: &Package) -> impl Iterator<Item = &str> {
    package
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind == DependencyKind::Normal)
        .map(|dependency| dependency.name.as_str())
}

#[test]
fn every_crate_has_a_layer() {
    let found: Vec<String> = packages().iter().map(|package| package.name.to_string()).collect();
    for name in &found {
        assert!(layers().contains_key(name.as_str()), "{name} has no layer in this test");
    }
    assert_eq!(found.len(), LAYERS.len(), "a crate of this test is gone");
}

#[test]
fn arrows_point_down_only() {
    let layers = layers();
    for package in packages() {
        let own = layers[package.name.as_str()];
        for dependency in dependencies(&package) {
            if let Some(layer) = layers.get(dependency) {
                assert!(
                    *layer < own,
                    "{} (layer {own}) must not depend on {dependency} (layer {layer})",
                    package.name
                );
            }
        }
    }
}

#[test]
fn pure_layers_use_nothing_that_does_io() {
    let layers = layers();
    for package in packages() {
        if layers[package.name.as_str()] > LAST_PURE_LAYER {
            continue;
        }
        for dependency in dependencies(&package).filter(|name| !layers.contains_key(name)) {
            assert!(
                PURE_DEPENDENCIES.contains(&dependency),
                "{} must not use {dependency}",
                package.name
            );
        }
    }
}

#[test]
fn pure_layers_do_no_io_and_read_no_clock() {
    for (file, text) in sources(|layer| layer <= LAST_PURE_LAYER) {
        for (number, line) in code_lines(&text) {
            for word in IMPURE {
                let is_excused = line.contains("clippy::disallowed_types")
                    || line.contains("std::collections::HashMap::from");
                assert!(
                    is_excused || !line.contains(word),
                    "{}:{number} has {word}: {line}",
                    file.display()
                );
            }
        }
    }
}

#[test]
fn unsafe_code_lives_in_the_kernels_alone() {
    for (file, text) in sources(|_| true) {
        if file.to_string_lossy().contains("nn/src/kernel") {
            continue;
        }
        for (number, line) in code_lines(&text) {
            let is_unsafe = line.contains("unsafe ") || line.contains("unsafe{");
            assert!(!is_unsafe, "{}:{number} is unsafe: {line}", file.display());
        }
    }
}

#[test]
fn the_architecture_page_names_every_crate() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for package in packages() {
        let name = package.name.trim_start_matches("homeostat-").to_owned();
        assert!(page.contains(&format!("`{name}`")), "ARCHITECTURE.md does not mention `{name}`");
    }
}

/// Source files of the crates whose layer is wanted, tests inside them included.
fn sources(is_wanted: impl Fn(u8) -> bool) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for (name, layer) in LAYERS {
        if !is_wanted(layer) {
            continue;
        }
        let folder = root().join("crates").join(name.trim_start_matches("homeostat-")).join("src");
        for file in files_below(&folder) {
            let path = folder.join(&file);
            if file.ends_with(".rs") {
                found.push((path.clone(), std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(!found.is_empty());
    found
}

/// Lines that are not comments, up to the unit tests at the bottom of a file.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let end = text.find("#[cfg(test)]").unwrap_or(text.len());
    let lines = text[..end].lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| !line.starts_with("//"))
}
