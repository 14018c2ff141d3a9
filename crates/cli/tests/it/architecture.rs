//! The invariants of ARCHITECTURE.md that a machine can check.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use cargo_metadata::{DependencyKind, MetadataCommand, Package};
use homeostat_lab::Environments;

use crate::homeostat::{files_below, root};

/// Layer of each crate. A new crate is added here, and to ARCHITECTURE.md.
const LAYERS: [(&str, u8); 39] = [
    ("homeostat-core", 0),
    ("homeostat-anomalies", 1),
    ("homeostat-decide", 1),
    ("homeostat-des", 1),
    ("homeostat-env", 1),
    ("homeostat-load", 1),
    ("homeostat-nn", 1),
    ("homeostat-spans", 1),
    ("homeostat-rl", 2),
    ("homeostat-sim-deploy", 2),
    ("homeostat-sim-faas", 2),
    ("homeostat-sim-gpu", 2),
    ("homeostat-sim-link", 2),
    ("homeostat-sim-node", 2),
    ("homeostat-sim-mesh", 2),
    ("homeostat-autoscaler", 3),
    ("homeostat-aware", 3),
    ("homeostat-firm", 3),
    ("homeostat-flash", 3),
    ("homeostat-muserve", 3),
    ("homeostat-placement", 3),
    ("homeostat-simppo", 3),
    ("homeostat-lab", 4),
    ("homeostat-test-skip", 4),
    ("homeostat-testbed", 4),
    ("homeostat-trajectories", 4),
    ("homeostat-wire", 4),
    ("homeostat-calibrate", 5),
    ("homeostat-learn", 5),
    ("homeostat-simulate", 5),
    ("homeostat-train", 5),
    ("homeostat-report", 6),
    ("homeostat-experiments", 7),
    ("homeostat-cli", 8),
    ("homeostat-gateway", 8),
    ("homeostat-governor", 8),
    ("homeostat-gpu-profile", 8),
    ("homeostat-operator", 8),
    ("homeostat-py", 8),
];

/// The highest layer that does no I/O.
const LAST_PURE_LAYER: u8 = 3;

/// What layers 0-3 may use from outside: numbers, text, threads and the types of Kubernetes, no I/O.
const PURE_DEPENDENCIES: [&str; 17] = [
    "good_lp",
    "k8s-openapi",
    "kube",
    "rand_chacha",
    "rand_core",
    "rand_distr",
    "rayon",
    "safetensors",
    "schemars",
    "serde",
    "serde_json",
    "sha2",
    "strsim",
    "thiserror",
    "toml",
    "unicode-normalization",
    "unicode-properties",
];

/// Words that layers 0-3 must not contain. Reading from what is handed in (`BufRead`) is
/// no I/O of their own.
const IMPURE: [&str; 14] = [
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
    "Timestamp::now",
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
    // Examples are programs of users: they have no layer.
    let is_ours = |package: &Package| package.manifest_path.starts_with(root().join("crates"));
    metadata.packages.into_iter().filter(is_ours).collect()
}

/// What a package depends on along edges of these kinds, one a line.
fn tree_of(package: &str, edges: &[&str], format: &str) -> String {
    let tree = std::process::Command::new(env!("CARGO"))
        .args(["tree", "--package", package, "--edges", &edges.join(",")])
        .args(["--prefix", "none", "--format", format, "--offline"])
        // Features of this package alone, whatever the caller's builds unify.
        .env_remove("CARGO_RESOLVER_FEATURE_UNIFICATION")
        .current_dir(root())
        .output()
        .unwrap();
    String::from_utf8(tree.stdout).unwrap()
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

/// The operator ships policies: neither it nor its tests depend on a simulator.
#[test]
fn the_operator_links_no_simulator() {
    let tree = tree_of("homeostat-operator", &["normal", "build", "dev"], "{p}");
    let packages: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(packages.contains("homeostat-rl"), "policies need their networks: {tree}");
    for name in packages {
        assert!(!name.starts_with("homeostat-sim-"), "the operator depends on {name}");
    }
}

/// The operator's decisions need no cluster: `kube` has a client, which only a feature of the crates
/// that do I/O switches on.
#[test]
fn the_autoscaler_links_no_client_and_no_runtime() {
    let tree = tree_of("homeostat-autoscaler", &["normal"], "{lib}");
    let linked: BTreeSet<&str> = tree.lines().collect();
    assert!(linked.contains("kube_core"), "not the tree of the autoscaler: {tree}");
    for io in ["hyper", "kube_client", "kube_runtime", "mio", "reqwest", "tokio", "tonic"] {
        assert!(!linked.contains(io), "the autoscaler links {io}");
    }
}

/// Settings reach a plant through a `Decision` alone: no public method of a simulator takes a setting,
/// or an amount of one, or has the name of a setter. Every simulator of a system applies decisions.
#[test]
fn simulators_apply_decisions_only() {
    let settings = [
        "Allocation",
        "Millicores",
        "Bytes",
        "ContainerLimits",
        "ClockSetting",
        "Megahertz",
        "BitsPerSecond",
    ];
    let setters = ["set_", "apply", "grant", "resize", "scale"];
    let mut simulators = BTreeMap::new();
    for (file, text) in sources(|_| true) {
        let file_name = file.to_string_lossy();
        let Some((_, inside)) = file_name.split_once("/crates/sim-") else { continue };
        let simulator = inside.split('/').next().unwrap_or_default();
        let applies = simulators.entry(simulator.to_owned()).or_insert(0);
        let code = &text[..text.find("#[cfg(test)]").unwrap_or(text.len())];
        *applies += code.matches("decision: &Decision").count();
        for function in code.split("pub fn ").skip(1) {
            let signature = function.split(['{', ';']).next().unwrap_or_default();
            let parameters = signature.split("->").next().unwrap_or_default();
            if !parameters.contains("&mut self") || parameters.contains("&Decision") {
                continue;
            }
            let file = file.display();
            for setting in settings {
                assert!(!parameters.contains(setting), "{file} is set by a {setting}: {signature}");
            }
            let is_setter = setters.iter().any(|setter| signature.starts_with(setter));
            assert!(!is_setter, "{file} is set without a decision: {signature}");
        }
    }
    assert!(simulators.len() >= 4, "{simulators:?}");
    for (name, applies) in simulators {
        assert!(applies > 0, "sim-{name} applies no decision");
    }
}

/// On a cluster, too, one place carries decisions out: the updater, from the status that the
/// recommender wrote. (The webhook gives new pods the size of the same status.)
#[test]
fn the_updater_alone_changes_a_workload() {
    let directory = root().join("crates/operator/src");
    let mut callers = Vec::new();
    for file in files_below(&directory).iter().filter(|file| file.ends_with(".rs")) {
        let text = std::fs::read_to_string(directory.join(file)).unwrap();
        let changes = [".set_replicas(", "PodStep::Resize(name)"];
        if code_lines(&text).any(|(_, line)| changes.iter().any(|change| line.contains(change))) {
            callers.push(file.clone());
        }
    }
    callers.sort();
    assert_eq!(callers, ["controllers/updater/update.rs", "update/apply.rs"]);
}

/// One place changes the clock of a GPU, and what it takes is a `Decision`.
#[test]
fn the_clock_of_a_gpu_is_set_by_a_decision_alone() {
    let directory = root().join("crates/governor/src");
    let mut setters = Vec::new();
    for file in files_below(&directory).iter().filter(|file| file.ends_with(".rs")) {
        let text = std::fs::read_to_string(directory.join(file)).unwrap();
        setters.extend(text.matches(".set_gpu_locked_clocks(").map(|_| file.clone()));
    }
    assert_eq!(setters, ["nvml.rs"]);
    let text = std::fs::read_to_string(directory.join("nvml.rs")).unwrap();
    let before = text.split(".set_gpu_locked_clocks(").next().unwrap_or_default();
    let function = before.rsplit("fn ").next().unwrap_or_default();
    assert!(function.starts_with("apply(&mut self, decision: &Decision<GpuClock>)"), "{function}");
}

/// A simulator of one's own takes little: the example, with its training and its comparison.
#[test]
fn the_example_simulator_has_fewer_than_250_lines() {
    let directory = root().join("examples/rust/src");
    let lines = |file: &str| std::fs::read_to_string(directory.join(file)).unwrap().lines().count();
    let all: usize = ["main.rs", "queue.rs", "queue.toml"].map(lines).iter().sum();
    assert!(all < 250, "{all} lines");
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
fn unsafe_code_lives_in_the_kernels_and_the_driver_alone() {
    for (file, text) in sources(|_| true) {
        let name = file.to_string_lossy();
        if name.contains("nn/src/kernel") || name.contains("gpu-profile/src/driver") {
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

/// Simulators are known by the list in `lab`: their ids and sections appear in their own crates, in
/// presets and in experiments, and nowhere else.
#[test]
fn simulators_are_known_by_the_list_alone() {
    let knows = [
        "crates/env/src/",
        "crates/sim-",
        "crates/experiments/src/",
        "crates/rl/src/presets.rs",
        "crates/simppo/src/method.rs",
        // `deploy/NAME` is there how Kubernetes abbreviates a Deployment; the operator links no simulator.
        "crates/operator/src/commands/",
        "python/homeostat/course.py",
    ];
    let mut files = sources(|_| true);
    let python = root().join("crates/py/python/homeostat");
    for file in files_below(&python).iter().filter(|file| file.ends_with(".py")) {
        files.push((python.join(file), std::fs::read_to_string(python.join(file)).unwrap()));
    }
    for (file, text) in files {
        let name = file.to_string_lossy();
        if knows.iter().any(|known| name.contains(known)) || name.ends_with("tests.rs") {
            continue;
        }
        for simulator in Environments::builtin().iter() {
            let prefix = simulator.prefix();
            let literals = [
                format!("\"{prefix}/"),
                format!("\"{prefix}."),
                format!("\"{prefix}\""),
                format!(" {prefix}/"),
            ];
            // Help and documentation may give examples.
            let lines = code_lines(&text).filter(|(_, line)| !line.contains("after_help"));
            for (number, line) in lines.filter(|(_, line)| !line.contains("``")) {
                let found = literals.iter().find(|literal| line.contains(literal.as_str()));
                assert_eq!(found, None, "{name}:{number} knows a simulator: {line}");
            }
        }
    }
}

/// Source files of the crates whose layer is wanted, tests inside them included.
fn sources(is_wanted: impl Fn(u8) -> bool) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for (name, layer) in LAYERS {
        if !is_wanted(layer) {
            continue;
        }
        let directory =
            root().join("crates").join(name.trim_start_matches("homeostat-")).join("src");
        for file in files_below(&directory) {
            let path = directory.join(&file);
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
