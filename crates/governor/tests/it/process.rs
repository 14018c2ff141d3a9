//! The program with the real binding of NVML, on the fake one: what it changes, and that all of it is
//! restored.

use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::Value;

use crate::machine::{GPU, Governor, Machine, until};
use crate::scripted_gateway::{Conduct, ScriptedGateway};

const DEVICE: &str = "[[devices]]\ngpu = \"0\"\nmodels = [\"m\"]\n";

fn scene() -> Option<(Machine, ScriptedGateway)> {
    let machine = Machine::new()?;
    let gateway = ScriptedGateway::start(machine.path("gpu0.max"));
    Some((machine, gateway))
}

fn lowered(machine: &Machine) -> Governor {
    let settings = machine.path("governor.toml");
    let governor = machine.start(&settings, &["--act"]);
    until(
        || (1..1900).contains(&machine.state("gpu0.max")),
        || format!("not lowered: {:?} {}", machine.calls(), governor.log()),
    );
    governor
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: g\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn a_dry_run_decides_and_changes_nothing() {
    let Some((machine, gateway)) = scene() else { return };
    let settings = machine.write_settings(&gateway.source(), DEVICE);
    let mut governor = machine.start(&settings, &[]);
    governor.until_decision("to lower", |line| line["decided_mhz"] == 1920);
    let line = governor.decisions().pop().unwrap();
    assert_eq!((&line["from_mhz"], &line["acting"]), (&1980.into(), &false.into()));
    governor.signal(Signal::TERM);
    assert_eq!(governor.end().code(), Some(0));
    assert_eq!(machine.calls(), Vec::<String>::new());
    assert!(!machine.path("leases").exists());
}

#[test]
fn an_acting_governor_lowers_the_clock_and_every_way_to_stop_it_restores_the_device() {
    let Some((machine, gateway)) = scene() else { return };
    machine.write_settings(&gateway.source(), &format!("{DEVICE}power_limit_w = 500.0\n"));
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut governor = lowered(&machine);
        assert_eq!(machine.state("gpu0.power"), 500_000);
        let lease = std::fs::read_to_string(machine.lease(0)).unwrap();
        let lease: Value = serde_json::from_str(&lease).unwrap();
        assert_eq!(lease["owner"]["pid"], governor.pid());
        assert_eq!(lease["power_limit_mw"], 700_000);
        governor.signal(signal);
        assert_eq!(governor.end().code(), Some(0), "{}", governor.log());
        assert_eq!((machine.state("gpu0.max"), machine.state("gpu0.power")), (0, 700_000));
        assert!(!machine.lease(0).exists());
    }
    // A limit is a range: an idle device may go below it. The other device is not touched.
    let calls = machine.calls();
    assert!(calls.iter().any(|call| call == "lock 0 345 1920"), "{calls:?}");
    assert!(calls.iter().all(|call| call.split(' ').nth(1) == Some("0")), "{calls:?}");
}

#[test]
fn a_killed_governor_is_restored_by_command_and_by_the_next_start() {
    let Some((machine, gateway)) = scene() else { return };
    let settings =
        machine.write_settings(&gateway.source(), &format!("{DEVICE}power_limit_w = 500.0\n"));
    let leases = machine.path("leases");
    let restore = ["restore", "--lease-directory", leases.to_str().unwrap()];
    let mut governor = lowered(&machine);
    let (code, _, error) = machine.output(&restore);
    assert_eq!(code, Some(1));
    assert!(error.contains(&format!("is governed by process {}", governor.pid())), "{error}");
    governor.signal(Signal::KILL);
    governor.end();
    assert!(machine.state("gpu0.max") > 0 && machine.lease(0).exists(), "kill -9 restores nothing");

    let (code, text, error) = machine.output(&restore);
    assert_eq!((code, text.as_str()), (Some(0), &*format!("{}: restored\n", GPU[0])), "{error}");
    assert_eq!((machine.state("gpu0.max"), machine.state("gpu0.power")), (0, 700_000));
    let (code, text, _) = machine.output(&restore);
    assert_eq!((code, text.as_str()), (Some(0), "nothing to restore\n"));

    let mut governor = lowered(&machine);
    governor.signal(Signal::KILL);
    governor.end();
    // The next one governs another device, and still restores the one that was left.
    machine.write_settings(&gateway.source(), &DEVICE.replace("\"0\"", "\"1\""));
    let next = machine.start(&settings, &["--act"]);
    until(|| !machine.lease(0).exists(), || next.log());
    assert_eq!((machine.state("gpu0.max"), machine.state("gpu0.power")), (0, 700_000));
    let left = format!("left {} without restoring it", GPU[0]);
    until(|| next.log().contains(&left), || next.log());
}

#[test]
fn a_device_has_one_governor() {
    let Some((machine, gateway)) = scene() else { return };
    let settings = machine.write_settings(&gateway.source(), DEVICE);
    let first = lowered(&machine);
    let before = machine.calls().iter().filter(|call| call.starts_with("unlock")).count();
    let mut second = machine.start(&settings, &["--act"]);
    assert_eq!(second.end().code(), Some(1));
    let refusal = format!("{} is governed by process {}: stop that one first", GPU[0], first.pid());
    until(|| second.log().contains(&refusal), || second.log());
    let after = machine.calls().iter().filter(|call| call.starts_with("unlock")).count();
    assert_eq!(before, after, "the second one did not touch the device");
    // A dry run beside the owner is allowed.
    let dry = machine.start(&settings, &[]);
    dry.until_decision("in a dry run", |line| line["acting"] == false);
}

#[test]
fn without_permission_it_refuses_with_the_fix_and_leaves_no_lease() {
    let Some((machine, gateway)) = scene() else { return };
    let settings = machine.write_settings(&gateway.source(), DEVICE);
    machine.set_state("denied", 1);
    let mut governor = machine.start(&settings, &["--act"]);
    assert_eq!(governor.end().code(), Some(1));
    let expected = "no permission to unlock its clock: run the governor as root";
    until(|| governor.log().contains(expected), || governor.log());
    assert!(!machine.lease(0).exists());
    assert_eq!(machine.calls(), ["unlock 0 0 0"]);
    machine.set_state("denied", 0);
    machine.set_state("gpu0.unsupported", 1);
    let mut governor = machine.start(&settings, &["--act"]);
    assert_eq!(governor.end().code(), Some(1));
    until(|| governor.log().contains("this GPU cannot unlock its clock"), || governor.log());
}

#[test]
fn permission_that_is_lost_on_the_way_ends_the_governor_and_its_lease_stays() {
    let Some((machine, gateway)) = scene() else { return };
    machine.write_settings(&gateway.source(), DEVICE);
    let mut governor = lowered(&machine);
    machine.set_state("denied", 1);
    // The clock has to rise now, and cannot.
    gateway.set(Conduct::Serve { load: 3.0 });
    assert_eq!(governor.end().code(), Some(1));
    until(|| governor.log().contains("gave up on"), || governor.log());
    assert!(machine.lease(0).exists(), "what is not restored keeps its lease");
    machine.set_state("denied", 0);
    let leases = machine.path("leases");
    let (code, ..) = machine.output(&["restore", "--lease-directory", leases.to_str().unwrap()]);
    assert_eq!((code, machine.state("gpu0.max")), (Some(0), 0));
}

#[test]
fn a_lost_gpu_ends_the_governor_and_the_others_are_restored() {
    let Some((machine, gateway)) = scene() else { return };
    machine.write_settings(
        &gateway.source(),
        &format!(
            "{DEVICE}{}",
            DEVICE.replace("\"0\"", GPU[1]).replace(GPU[1], &format!("\"{}\"", GPU[1]))
        ),
    );
    let mut governor = lowered(&machine);
    until(|| machine.state("gpu1.max") > 0, || governor.log());
    machine.set_state("gpu1.lost", 1);
    assert_eq!(governor.end().code(), Some(1));
    until(|| governor.log().contains(&format!("gave up on {}", GPU[1])), || governor.log());
    assert_eq!(machine.state("gpu0.max"), 0);
    assert!(!machine.lease(0).exists() && machine.lease(1).exists());
}

#[test]
fn the_clock_follows_the_load_and_returns_when_latencies_are_lost() {
    let Some((machine, gateway)) = scene() else { return };
    machine.write_settings(&gateway.source(), DEVICE);
    let governor = lowered(&machine);
    // 20 ms and 80 ms at 1980 MHz: the SLO of 150 ms and its margin are reached near 1350 MHz.
    governor.until_decision("near the SLO", |line| {
        line["decided_mhz"].as_u64().is_some_and(|clock| clock < 1600)
            && line["reason_kinds"].to_string().contains("balanced")
    });
    let settled = machine.state("gpu0.max");
    assert!((1200..1600).contains(&settled), "{settled}");
    let seen = governor.decisions().len();
    gateway.set(Conduct::Serve { load: 2.0 });
    governor.until_decision("after the burst", |line| line["decided_mhz"] == 1980);
    let decisions = governor.decisions();
    let near = decisions[seen..]
        .iter()
        .position(|line| line["models"][0]["slack"].as_f64().is_some_and(|slack| slack < 0.05));
    let near = seen + near.expect("the burst is seen");
    assert_eq!(decisions[near]["decided_mhz"], 1980, "in the period that sees it");

    gateway.set(Conduct::Serve { load: 1.0 });
    for conduct in [
        Conduct::Hang,
        Conduct::Refuse,
        Conduct::Say("ttft_seconds_bucket{le=\"+Inf\",model=\"m\"} NaN\n".to_owned()),
        Conduct::Say("ttft_seconds_bucket{le=\"+Inf\",model=\"m\"} 1e300\n".to_owned()),
        Conduct::Say("<html>".to_owned()),
    ] {
        governor.until_decision("lower", |line| line["decided_mhz"].as_u64() < Some(1900));
        gateway.set(conduct.clone());
        governor.until_decision(&format!("at the highest after {conduct:?}"), |line| {
            line["decided_mhz"] == 1980
                && line["reason_kinds"].to_string().contains("latency_unknown")
        });
        gateway.set(Conduct::Serve { load: 1.0 });
    }
}

#[test]
fn a_busy_device_whose_requests_do_not_finish_is_not_idle() {
    let Some((machine, gateway)) = scene() else { return };
    machine.write_settings(&gateway.source(), DEVICE);
    let governor = lowered(&machine);
    gateway.set(Conduct::Idle);
    governor.until_decision("at the highest", |line| {
        line["decided_mhz"] == 1980 && line["reason_kinds"].to_string().contains("latency_unknown")
    });
    machine.set_state("gpu0.busy", 0);
    governor.until_decision("at the lowest", |line| {
        line["decided_mhz"].as_u64() < Some(1500)
            && line["reason_kinds"].to_string().contains("idle")
    });
}

#[test]
fn a_pause_file_holds_the_clock() {
    let Some((machine, gateway)) = scene() else { return };
    machine.write_settings(&gateway.source(), DEVICE);
    let governor = lowered(&machine);
    std::fs::write(machine.path("pause"), "").unwrap();
    gateway.set(Conduct::Serve { load: 3.0 });
    governor.until_decision("held", |line| {
        line["reason_kinds"].to_string().contains("paused")
            && line["proposed_mhz"].as_u64() > Some(1980)
    });
    let held = machine.state("gpu0.max");
    assert!((1..1980).contains(&held));
    std::fs::remove_file(machine.path("pause")).unwrap();
    governor.until_decision("free again", |line| line["decided_mhz"] == 1980);
}

#[test]
fn status_and_metrics_say_what_is_happening() {
    let Some((machine, gateway)) = scene() else { return };
    let settings = machine.write_settings(&gateway.source(), DEVICE);
    let governor = lowered(&machine);
    let address = governor.address();
    let metrics = get(&address, "/metrics");
    for metric in [
        "homeostat_governor_clock_limit_hertz{gpu=\"GPU-00000000-0000-0000-0000-000000000000\"} ",
        "homeostat_governor_power_watts{gpu=",
        "homeostat_governor_energy_joules_total{gpu=",
        "homeostat_governor_slack_ratio{gpu=\"GPU-00000000-0000-0000-0000-000000000000\",model=\"m\"} 0.",
        "reason=\"headroom\"} ",
        "homeostat_governor_acting 1",
        "# EOF",
    ] {
        assert!(metrics.contains(metric), "{metric}: {metrics}");
    }
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, text.replace("127.0.0.1:0", &address)).unwrap();
    let settings = settings.to_str().unwrap();
    let (code, json, _) = machine.output(&["status", "--settings", settings, "--output", "json"]);
    assert_eq!(code, Some(0));
    let status: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&status["acting"], &status["devices"][0]["gpu"]), (&true.into(), &GPU[0].into()));
    assert!(status["devices"][0]["decision"]["reasons"][0].is_string());
    let (_, text, _) = machine.output(&["status", "--settings", settings]);
    assert!(text.starts_with("acting; latencies are ") && text.contains("m: "), "{text}");
}

#[test]
fn a_prometheus_is_asked_with_the_age_of_its_samples() {
    let Some((machine, gateway)) = scene() else { return };
    let settings = machine.write_settings(&gateway.prometheus(), DEVICE);
    let scalar = |value: &str| {
        Conduct::Say(format!(
            r#"{{"status":"success","data":{{"resultType":"scalar","result":[1,"{value}"]}}}}"#
        ))
    };
    // The same answer to every query: an age and a latency of 0.1 s.
    gateway.set(scalar("0.1"));
    let governor = machine.start(&settings, &[]);
    governor.until_decision("with the latency", |line| line["models"][0]["latency_ms"] == 100.0);
    gateway.set(scalar("0.7"));
    governor.until_decision("without a recent latency", |line| line["latency_known"] == false);
}
