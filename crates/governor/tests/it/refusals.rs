//! Bad settings and machines without GPUs: one clear error each, and nothing is changed.

use crate::machine::{GPU, Machine};
use crate::scripted_gateway::{Conduct, ScriptedGateway};

#[test]
fn every_wrong_setting_is_one_error_with_a_fix_and_touches_no_device() {
    let Some(machine) = Machine::new() else { return };
    let gateway = ScriptedGateway::start(machine.path("gpu0.max"));
    let check = |devices: &str, expected: &str| {
        let settings = machine.write_settings(&gateway.source(), devices);
        for arguments in [["check", "--settings"].as_slice(), &["run", "--act", "--settings"]] {
            let arguments: Vec<&str> =
                arguments.iter().copied().chain([settings.to_str().unwrap()]).collect();
            let (code, _, error) = machine.output(&arguments);
            assert_eq!(code, Some(1), "{devices}: {error}");
            let (_, error) = error.split_once("error: ").unwrap();
            assert!(error.contains(expected), "{devices}: {error}");
        }
    };
    let device =
        |gpu: &str, more: &str| format!("[[devices]]\ngpu = \"{gpu}\"\nmodels = [\"m\"]\n{more}\n");
    check(&device("7", ""), "devices.gpu = 7: there is no such GPU; there are 0 = GPU-0000");
    check(&device("GPU-ff", ""), "devices.gpu = GPU-ff: there is no such GPU");
    check(&format!("{}{}", device("0", ""), device("0", "")), "name each GPU once");
    check(
        &format!("{}{}", device("0", ""), device(GPU[0], "")),
        "another [[devices]] is the same GPU",
    );
    check(
        &format!("{}{}", device(GPU[0], ""), device("0", "")),
        "another [[devices]] is the same GPU",
    );
    check(
        &device("0", "max_mhz = 2500"),
        "max_mhz = 2500: the GPU supports 345 to 1980 MHz; the nearest clock is 1980",
    );
    check(&device("0", "min_mhz = 1001"), "the nearest clock is 1005");
    check(
        &device("0", "power_limit_w = 900.0"),
        "power_limit_w = 900: the GPU supports 200 to 700 W",
    );
    check(&device("0", "min_mzh = 500"), "did you mean `min_mhz`?");
    check("", "devices = []: name at least one GPU");
    assert_eq!(machine.calls(), Vec::<String>::new());
    assert!(!machine.path("leases").exists());
}

#[test]
fn check_lists_devices_and_reads_the_source_once() {
    let Some(machine) = Machine::new() else { return };
    let (code, json, error) = machine.output(&["check", "--output", "json"]);
    assert_eq!(code, Some(0), "{error}");
    let found: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(found["driver"], "999.00");
    let gpus = found["gpus"].as_array().unwrap();
    assert_eq!(gpus[0]["uuid"], GPU[0]);
    assert_eq!(gpus[0]["bounds_mhz"], serde_json::json!([345, 1980]));
    assert_eq!((&gpus[0]["step_mhz"], &gpus[1]["step_mhz"]), (&15.into(), &15.into()));
    // More than the binding can list: every second of them.
    assert_eq!(gpus[1]["bounds_mhz"], serde_json::json!([135, 1530]));
    let (_, text, _) = machine.output(&["check"]);
    assert!(text.contains("clocks from 345 to 1980 MHz, 110 of them; steps of 15 MHz"), "{text}");

    let gateway = ScriptedGateway::start(machine.path("gpu0.max"));
    let device = "[[devices]]\ngpu = \"0\"\nmodels = [\"m\"]\n";
    let settings = machine.write_settings(&gateway.source(), device);
    let check = || machine.output(&["check", "--settings", settings.to_str().unwrap()]);
    let (code, text, _) = check();
    assert_eq!(code, Some(0));
    assert!(text.ends_with("settings: no errors\n"), "{text}");
    gateway.set(Conduct::Say("ttft_seconds_bucket{le=\"+Inf\",model=\"mm\"} 1\n".to_owned()));
    let (_, text, _) = check();
    assert!(
        text.contains(
            "ttft_seconds has no requests of m: misspelt, or none finished yet; it has mm"
        ),
        "{text}"
    );
    gateway.set(Conduct::Hang);
    let (code, _, error) = check();
    assert_eq!(code, Some(1));
    assert!(error.contains("/metrics: it did not answer within 0.5 s"), "{error}");
}

/// However the service ends, what it left is restored; its commands are the program's.
#[test]
fn the_unit_of_systemd_restores_after_every_end() {
    let Some(machine) = Machine::new() else { return };
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/systemd/homeostat-governor.service");
    let unit = std::fs::read_to_string(file).unwrap();
    for (key, expected) in [("ExecStart=", "run"), ("ExecStopPost=", "restore")] {
        let line = unit.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some("/usr/local/bin/homeostat-governor"));
        let verb = words.next().unwrap();
        assert_eq!(verb, expected);
        let (code, help, _) = machine.output(&[verb, "--help"]);
        assert_eq!(code, Some(0));
        for flag in words.filter(|word| word.starts_with("--")) {
            assert!(help.contains(flag), "{verb} has no {flag}");
        }
    }
    let leases = homeostat_governor::DEFAULT_LEASE_DIRECTORY.strip_prefix("/run/").unwrap();
    assert!(unit.contains(&format!("RuntimeDirectory={leases}\nRuntimeDirectoryPreserve=yes")));
}

#[test]
fn without_a_driver_the_program_starts_and_says_what_is_missing() {
    let Some(machine) = Machine::new() else { return };
    let (code, settings, _) = machine.output(&["settings"]);
    assert_eq!(code, Some(0));
    assert!(settings.contains("[[devices]]"));
    let (code, help, _) = machine.output(&["--help"]);
    assert_eq!(code, Some(0));
    assert!(help.contains("It changes nothing without --act"), "{help}");
    machine.set_state("not-loaded", 1);
    let (code, _, error) = machine.output(&["check"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("NVIDIA's driver is not loaded: `modprobe nvidia`"), "{error}");
    // In place of the library: whatever this machine has must not be loaded.
    let place = machine.path("no-library");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("libnvidia-ml.so.1"), "no library").unwrap();
    let output = machine.program().arg("check").env("LD_LIBRARY_PATH", &place).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        error.contains("NVML cannot be loaded") && error.contains("NVIDIA's driver; install it"),
        "{error}"
    );
    let (code, _, error) = machine.output(&["status"]);
    if code != Some(0) {
        assert!(error.contains("no governor answers: GET http://127.0.0.1:9092/status"), "{error}");
    }
}
