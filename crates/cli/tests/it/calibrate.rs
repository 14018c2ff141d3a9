//! Real processes in real control groups. Where those cannot be made, the tests that need
//! them say so and pass.

use std::path::Path;
use std::time::Duration;

use homeostat_calibrate::{Workplace as Cores, compare_shares, share_cases};
use homeostat_lab::Error;
use homeostat_test_skip::skip;

use crate::homeostat::{Called, Workplace, files_below};

/// The cores of this machine, or nothing and a word about it.
fn cores() -> Option<Cores> {
    match Cores::new(Path::new(env!("CARGO_BIN_EXE_homeostat")), None) {
        Ok(cores) => Some(cores),
        Err(error @ Error::Groups { .. }) => {
            skip(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_simulated_split_agrees_with_the_kernels_within_5_percent() {
    let Some(cores) = cores() else { return };
    for case in share_cases(cores.cores()) {
        // Other tests run beside this one. They do not change what the split should be, but a
        // moment in which the kernel moves workers about may spoil one window.
        let attempts = (0..3).map(|attempt| {
            let window = Duration::from_millis(1500 << attempt);
            compare_shares(&cores, &case, window).unwrap()
        });
        let mut seen = Vec::new();
        let agrees = attempts.into_iter().any(|report| {
            seen.push(format!("{report:?}"));
            report.deviation < 0.05
        });
        assert!(agrees, "{}", seen.join("\n"));
    }
}

#[test]
fn a_short_calibration_reports_everything_and_leaves_nothing_behind() {
    let Some(cores) = cores() else { return };
    drop(cores);
    let place = Workplace::new();
    let called = place.call(
        "calibrate node --seconds 0.05 --repetitions 1 --cores 1 --categories cpu,memory \
         --parts contention,starts,paging --output json --out node.toml",
    );
    assert_eq!(called.code, Some(0), "{}", called.stderr);
    let report = called.json();
    let categories = report["contention"]["categories"].as_array().unwrap();
    assert_eq!(categories.len(), 2);
    for category in categories {
        let alone = &category["points"][0];
        assert_eq!(alone["busy"], 1);
        assert!((alone["capacity"]["value"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{alone}");
        assert!(category["linear"]["x"]["value"].is_f64(), "{category}");
    }
    assert_eq!(report["contention"]["mixes"].as_array().unwrap().len(), 2);
    let starts = &report["starts"];
    assert!(starts["alone"]["cpu_s"]["value"].as_f64().unwrap() > 0.0, "{starts}");
    let has_paging = report["paging"]["slope"]["value"].is_f64();
    assert!(has_paging || called.stderr.contains("skipped paging"), "{}", called.stderr);
    let file = String::from_utf8(place.read("node.toml")).unwrap();
    for part in ["[faas]\nstrain_cpu = [", "strain_memory = [", "# A start of "] {
        assert!(file.contains(part), "{file}");
    }
    // A simulator accepts what was measured.
    let checked = place.call("config show --env faas/function-v2 --config node.toml");
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert!(checked.stdout.contains("file node.toml"), "{}", checked.stdout);
    assert_eq!(files_below(&place.path("")), ["node.toml"]);
}

#[test]
fn a_signal_ends_a_calibration_in_order() {
    let Some(cores) = cores() else { return };
    drop(cores);
    let place = Workplace::new();
    let mut command = place.command("calibrate node --categories cpu --parts contention");
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let process = command.spawn().unwrap();
    let id = process.id();
    std::thread::sleep(Duration::from_millis(700));
    let told = std::process::Command::new("kill").arg(id.to_string()).status().unwrap();
    assert!(told.success());
    let called = Called::new(process.wait_with_output().unwrap());
    assert_eq!(called.code, Some(1), "{}", called.stderr);
    assert!(called.stderr.contains("it was interrupted"), "{}", called.stderr);
    assert_eq!(groups_of(id), Vec::<String>::new());
}

/// Control groups that this process of ours has left.
fn groups_of(process: u32) -> Vec<String> {
    let name = format!("homeostat-calibrate-{process}-");
    let tops = std::fs::read_dir("/sys/fs/cgroup").unwrap().flatten().map(|entry| entry.path());
    let all = tops.chain([Path::new("/sys/fs/cgroup").to_owned()]);
    let inside = all.filter_map(|directory| std::fs::read_dir(directory).ok()).flatten().flatten();
    let names = inside.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|found| found.starts_with(&name)).collect()
}

#[test]
fn wrong_flags_are_answered_with_the_value_and_the_fix() {
    let place = Workplace::new();
    for (arguments, expect) in [
        ("--categories disk", "`disk` is no kind of work: use cpu, cache, memory or io"),
        ("--categories paging", "categories are cpu, cache, memory and io"),
        ("--parts network", "`network` is no part: use contention, starts, paging or shares"),
        ("--seconds 0", "seconds = 0 (from flag --seconds) is out of range"),
        ("--seconds=-1", "seconds = -1 (from flag --seconds) is out of range"),
        ("--seconds NaN", "a window lasts 0.05 to 60 seconds"),
        ("--repetitions 0", "it must lie from 1 to 100"),
        ("--cores 100000", "cores = 100000 (from flag --cores) is out of range"),
    ] {
        let called = place.call(&format!("calibrate node {arguments}"));
        assert_eq!(called.code, Some(2), "{arguments}: {}", called.stderr);
        assert!(called.stderr.contains(expect), "{arguments}: {}", called.stderr);
        assert_eq!(called.stdout, "");
    }
}

#[test]
fn workers_are_not_offered_to_people() {
    let place = Workplace::new();
    let help = place.done("calibrate --help");
    assert!(help.contains("node") && !help.contains("worker"), "{help}");
    let answer = place.done("calibrate worker --kind io --seconds 0.01");
    let count: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert!(count["units"].as_u64().unwrap() > 0, "{count}");
}
