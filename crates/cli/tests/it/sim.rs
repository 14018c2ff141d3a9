//! Simulations from the command line.

use std::io::Read;

use crate::homeostat::{Workplace, files_below, refused};

const SHORT: &str = "--duration 100s --set faas.functions=3 -q";

#[test]
fn a_simulation_prints_its_figures_and_keeps_a_directory() {
    let place = Workplace::new();
    let called =
        place.call(&format!("sim faas --policy ensure --seeds 1..3 {SHORT} --output json"));
    assert_eq!(called.code, Some(0), "{}", called.stderr);
    let figures = called.json();
    assert_eq!((&figures["policy"], &figures["seeds"]), (&"ensure".into(), &3.into()));
    assert!(figures["requests"].as_f64().unwrap() > 100.0, "{figures}");
    assert!(figures["miss_interval"].is_f64(), "{figures}");
    assert_eq!(
        files_below(&place.path("runs/sim-ensure")),
        ["config.toml", "run.json", "run.lock", "summary.json", "windows.jsonl"]
    );
    // Ten windows of each of three functions, of the first seed.
    let windows = String::from_utf8(place.read("runs/sim-ensure/windows.jsonl")).unwrap();
    assert_eq!(windows.lines().count(), 30);
    let first: serde_json::Value = serde_json::from_str(windows.lines().next().unwrap()).unwrap();
    assert!(!first["decided"]["reasons"].as_array().unwrap().is_empty(), "{first}");
}

#[test]
fn the_same_seed_makes_the_same_files_on_any_number_of_threads() {
    let place = Workplace::new();
    for threads in [1, 2] {
        place.done(&format!(
            "sim faas --policy kpa --seeds 4..7 {SHORT} --threads {threads} --run-dir runs/{threads}"
        ));
    }
    for file in ["summary.json", "windows.jsonl", "run.json", "config.toml"] {
        assert_eq!(place.read(&format!("runs/1/{file}")), place.read(&format!("runs/2/{file}")));
    }
}

#[test]
fn a_recorded_run_is_played_again_with_another_policy() {
    let place = Workplace::new();
    place.done(&format!("sim faas --policy none --seeds 2 {SHORT} --alone"));
    let called = place.call("replay runs/sim-none --policy ensure -q --output json");
    assert_eq!(called.code, Some(0), "{}", called.stderr);
    let rows = called.json();
    assert_eq!((&rows[0]["policy"], &rows[1]["policy"]), (&"none".into(), &"ensure".into()));
    let arrivals = |run: &str| {
        let text = String::from_utf8(place.read(&format!("runs/{run}/windows.jsonl"))).unwrap();
        let line = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
        text.lines().map(|text| line(text)["arrivals_per_s"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(arrivals("sim-none"), arrivals("sim-ensure"), "the same requests");
}

#[test]
fn a_learned_policy_is_played_and_a_foreign_one_is_refused() {
    let place = Workplace::new();
    place.done(
        "train --preset s-rl --env faas/function-v2 --agents 3 --steps 500 --run-dir runs/a -q",
    );
    let called =
        place.call(&format!("sim faas --policy runs/a {SHORT} --per-function --output csv"));
    assert_eq!(called.code, Some(0), "{}", called.stderr);
    assert_eq!(called.stdout.lines().count(), 4, "{}", called.stdout);
    place.done("train ppo --steps 3000 --run-dir runs/pole -q");
    let refused = place.call(&format!("sim faas --policy runs/pole {SHORT}"));
    assert_eq!(refused.code, Some(1));
    let expect = "the schema classic/cartpole-v1 cannot be served";
    assert!(refused.stderr.contains(expect), "{}", refused.stderr);
}

#[test]
fn a_policy_that_learned_on_deployments_plays_beside_heuristics_on_the_same_requests() {
    let place = Workplace::new();
    let settings = "--set deploy.application=json-parse --set deploy.load=poisson";
    place.done(&format!(
        "train --preset s-rl --env deploy/service-v1 {settings} --steps 500 --run-dir runs/a -q"
    ));
    // What it observes and does is what the operator offers.
    let shown = place.done("policy show runs/a/policies/agent-0.policy");
    assert!(shown.contains("serves       sim, replay, operator"), "{shown}");
    let requests = |policy: &str| {
        let called = place.call(&format!(
            "sim deploy --policy {policy} --alone --duration 5m {settings} -q --output json"
        ));
        assert_eq!(called.code, Some(0), "{policy}: {}", called.stderr);
        called.json()["requests"].as_f64().unwrap()
    };
    let (learned, heuristic) = (requests("runs/a"), requests("hpa+vpa"));
    // Some requests are still inside when time is over.
    assert!((learned / heuristic - 1.0).abs() < 0.05, "{learned} {heuristic}");
    refused(&place, "sim deploy --policy on-demand", 1, "a Deployment does not scale itself");
    refused(&place, "sim deploy --policy hpa --load bursty", 2, "azure-high");
}

#[test]
fn a_generated_trace_is_played_on_demand() {
    let place = Workplace::new();
    place.done("trace generate --functions 12 --minutes 30 --seed 3 --out day.csv");
    let called =
        place.call("sim faas --policy on-demand --trace day.csv --duration 30m -q --output json");
    assert_eq!(called.code, Some(0), "{}", called.stderr);
    assert!(called.json()["cold_starts"].as_f64().unwrap() > 0.0);
    // Another table is no table of requests.
    let header = "HashOwner,HashApp,HashFunction,Count,Average,Minimum,Maximum";
    let percentiles = [0, 1, 25, 50, 75, 99, 100].map(|part| format!(",percentile_Average_{part}"));
    let row = "o,a,f,1,9,9,9,9,9,9,9,9,9,9";
    place.write("times.csv", format!("{header}{}\n{row}\n", percentiles.concat()));
    let call = "sim faas --policy on-demand --trace times.csv -q";
    refused(&place, call, 1, "it holds no requests");
}

#[test]
fn single_invocations_are_played_with_their_run_times() {
    let place = Workplace::new();
    let calls: String = (0..60).map(|call| format!("a,f,{}.5,0.2\n", 2 * call + 1)).collect();
    place.write("run.csv", format!("app,func,end_timestamp,duration\n{calls}"));
    place.done("sim faas --policy none --trace run.csv --duration 2m -q --run-dir runs/a");
    let call = "sim faas --policy none --trace run.csv --duration 2m -q --output json";
    // Each minute has its 30 calls; the last one may still run at the end.
    let requests = place.call(call).json()["requests"].as_f64().unwrap();
    assert!((59.0..=60.0).contains(&requests), "{requests}");
    let windows = String::from_utf8(place.read("runs/a/windows.jsonl")).unwrap();
    let first: serde_json::Value = serde_json::from_str(windows.lines().next().unwrap()).unwrap();
    assert!(
        (first["slo_ms"].as_f64().unwrap() - 1000.0).abs() < 1e-3,
        "five times 200 ms: {first}"
    );
}

#[test]
fn headers_as_other_tools_write_them_are_read() {
    let place = Workplace::new();
    place.write("day.csv", "\u{feff}HashOwner,HashApp,HashFunction,1_minute,2_minute\no,a,f,5,7\n");
    let call = "sim faas --policy none --trace day.csv --duration 2m -q --output json";
    assert_eq!(place.call(call).json()["requests"], 12.0);
}

#[test]
fn a_simulation_lasts_as_long_as_it_was_told_and_no_longer_than_its_trace() {
    let place = Workplace::new();
    let call = "sim faas --policy none --set faas.functions=3";
    refused(&place, &format!("{call} --duration 5s"), 2, "5s is not a whole number of windows");
    refused(&place, &format!("{call} --duration 95s"), 2, "write 90s or 100s");
    place.write("three.csv", "HashOwner,HashApp,HashFunction,1,2,3\no,a,f,5,7,6\n");
    let call = "sim faas --policy none --trace three.csv";
    refused(&place, &format!("{call} --duration 10h"), 2, "the trace lasts 180s");
    assert!(!place.path("runs").exists(), "a refused call leaves nothing");
    // Without a duration, all of a short trace is played.
    let called = place.call(call);
    assert!(called.stderr.contains("1 seed of 180s"), "{}", called.stderr);
}

#[test]
fn a_setting_that_the_simulator_does_not_read_is_refused() {
    let place = Workplace::new();
    let call = "sim faas --policy none --set ppo.clip=0.1";
    refused(&place, call, 2, "a simulation does not read it: its settings start with `faas.`");
    assert!(!place.path("runs").exists(), "a refused call leaves nothing");
}

#[test]
fn the_cluster_fits_the_trace_and_functions_without_room_are_counted() {
    let place = Workplace::new();
    place.done("trace generate --functions 600 --minutes 5 --seed 3 --out day.csv");
    let call = "sim faas --policy none --trace day.csv --duration 5m --output json";
    let fitting = place.call(call);
    assert_eq!(fitting.code, Some(0), "{}", fitting.stderr);
    assert!(fitting.stderr.contains("nodes of 6 cores and 32Gi"), "{}", fitting.stderr);
    assert_eq!(fitting.json()["functions_without_room"], 0, "{}", fitting.stdout);
    let small = place.call(&format!("{call} --nodes 1 --slo 3"));
    assert!(small.stderr.contains("cluster: 1 node of 6 cores"), "{}", small.stderr);
    assert!(small.stderr.contains("warning: "), "{}", small.stderr);
    assert!(small.json()["functions_without_room"].as_u64().unwrap() > 0, "{}", small.stdout);
    // The SLO is a multiple of the mean run time.
    let slo = |run: &str| {
        let text = String::from_utf8(place.read(&format!("runs/{run}/windows.jsonl"))).unwrap();
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        first["slo_ms"].as_f64().unwrap()
    };
    assert!((slo("sim-none") / slo("sim-none-2") - 5.0 / 3.0).abs() < 1e-3);
    // Played again on the same cluster.
    let again = place.call("replay runs/sim-none-2 --policy kpa");
    assert!(again.stderr.contains("cluster: 1 node of 6 cores"), "{}", again.stderr);
    refused(&place, &format!("{call} --slo 0.5"), 2, "is not a number from 1 to 1000");
    refused(&place, "sim faas --policy none --nodes 3", 2, "--trace");
}

#[test]
fn kpa_scales_to_zero_and_the_next_request_starts_a_container() {
    let place = Workplace::new();
    let counts = ["3", "0", "0", "0", "3", "0"].join(",");
    place.write("day.csv", format!("HashOwner,HashApp,HashFunction,1,2,3,4,5,6\no,a,f,{counts}\n"));
    let call = "sim faas --policy kpa --trace day.csv --duration 6m -q --output json";
    let kept = place.call(call).json();
    let to_zero = place.call(&format!("{call} --set faas.scale_to_zero=true")).json();
    assert_eq!((&kept["requests"], &to_zero["requests"]), (&6.0.into(), &6.0.into()));
    let seconds = |figures: &serde_json::Value| figures["container_s"].as_f64().unwrap();
    assert!(seconds(&to_zero) < 0.8 * seconds(&kept), "{to_zero} {kept}");
    assert!(to_zero["cold_starts"].as_f64() > kept["cold_starts"].as_f64(), "{to_zero}");
}

#[test]
fn many_windows_are_packed_and_read_again() {
    let place = Workplace::new();
    let minutes: Vec<String> = (1..=14).map(|minute| minute.to_string()).collect();
    let rows = (0..1200).map(|function| format!("o,a{function},f,1{}\n", ",0".repeat(13)));
    let rows: String = rows.collect();
    place.write("day.csv", format!("HashOwner,HashApp,HashFunction,{}\n{rows}", minutes.join(",")));
    let called = place.call("sim faas --policy none --trace day.csv --duration 14m --run-dir run");
    assert_eq!(called.code, Some(0), "{}", called.stderr);
    assert!(called.stderr.contains("gets 100,800 lines, packed"), "{}", called.stderr);
    assert!(!place.path("run/windows.jsonl").exists());
    let packed = place.read("run/windows.jsonl.gz");
    let mut plain = String::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut plain).unwrap();
    assert_eq!(plain.lines().count(), 100_800);
    assert!(packed.len() * 10 < plain.len(), "{} of {} bytes", packed.len(), plain.len());
    place.done("report run --out page.html");
    let page = String::from_utf8(place.read("page.html")).unwrap();
    assert!(page.contains("Over time"));
    // A file that was cut off is named.
    place.write("run/windows.jsonl.gz", &packed[..packed.len() / 2]);
    let called = place.call("report run --out cut.html");
    assert_eq!(called.code, Some(2), "{}", called.stderr);
    assert!(called.stderr.contains("windows.jsonl.gz cannot be used: line "), "{}", called.stderr);
}

#[test]
fn the_memory_of_a_trace_is_that_of_its_applications_and_is_replayed() {
    let place = Workplace::new();
    let minutes: Vec<String> = (1..=3).map(|minute| minute.to_string()).collect();
    let header = format!("HashOwner,HashApp,HashFunction,Trigger,{}", minutes.join(","));
    place.write("inv.csv", format!("{header}\no,shop,pay,http,60,60,60\n"));
    let memory = |app: &str| {
        format!(
            "HashOwner,HashApp,SampleCount,AverageAllocatedMb,AverageAllocatedMb_pct1,\
             AverageAllocatedMb_pct5,AverageAllocatedMb_pct25,AverageAllocatedMb_pct50,\
             AverageAllocatedMb_pct75,AverageAllocatedMb_pct95,AverageAllocatedMb_pct99,\
             AverageAllocatedMb_pct100\no,{app},1,900,900,900,900,900,900,900,900,900\n"
        )
    };
    place.write("mem.csv", memory("shop"));
    place.done("sim faas --policy none --trace inv.csv --memory mem.csv --duration 3m -q");
    let windows = String::from_utf8(place.read("runs/sim-none/windows.jsonl")).unwrap();
    let first: serde_json::Value = serde_json::from_str(windows.lines().next().unwrap()).unwrap();
    assert!((first["memory_mib"].as_f64().unwrap() - 900e6 / 1048576.0).abs() < 1.0, "{first}");
    place.done("replay runs/sim-none --policy kpa -q");
    // A table of other applications is not passed over in silence.
    place.write("other.csv", memory("office"));
    let refused = place.call("sim faas --policy none --trace inv.csv --memory other.csv -q");
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("none of its rows is of a function in"), "{}", refused.stderr);
}

#[test]
fn a_crossed_threshold_ends_with_99() {
    let place = Workplace::new();
    let called = place.call(&format!("sim faas --policy random {SHORT} --fail-if requests>1"));
    assert_eq!(called.code, Some(99), "{}", called.stderr);
    assert!(called.stderr.contains("threshold crossed: requests > 1, it is "), "{}", called.stderr);
}

#[test]
fn a_threshold_on_a_trace_without_requests_or_on_an_unknown_figure_does_not_pass() {
    let place = Workplace::new();
    place.write("none.csv", "HashOwner,HashApp,HashFunction,Trigger,1,2\no,a,f,http,0,0\n");
    let call = "sim faas --policy none --trace none.csv --duration 2m -q";
    let gate = format!("{call} --fail-if slo_violation_ratio>0.05");
    refused(&place, &gate, 1, "no request was played with seed 1: --fail-if has nothing to check");
    let without = place.call(call);
    assert_eq!(without.code, Some(0), "{}", without.stderr);
    assert!(without.stderr.contains("warning: no request was played"), "{}", without.stderr);
    let place = Workplace::new();
    refused(&place, "sim faas --policy none --fail-if slo_violation_rato>0.05", 2, "did you mean");
    assert!(!place.path("runs").exists(), "found before the run");
}

#[test]
fn impossible_simulations_are_refused_with_the_numbers_and_leave_nothing() {
    let place = Workplace::new();
    let check = |arguments: &str, code: i32, expect: &str| {
        refused(&place, arguments, code, expect);
    };
    check("sim faas", 2, "--policy");
    check("sim faas --policy hpaa", 2, "did you mean `hpa`?");
    check("sim faas --policy hpa --duration never", 2, "write 500ms, 90s, 20m, 2h or 1d");
    check("sim faas --policy hpa --seeds 5..1", 2, "is not a range");
    check("sim faas --policy hpa --load wild", 2, "faas.load");
    check("sim faas --policy hpa --set faas.functions=0", 2, "faas.functions = 0");
    check("sim faas --policy hpa --set faas.cores_per_node=0", 2, "faas.cores_per_node = 0");
    check(
        "sim faas --policy hpa --set faas.memory_per_node_gib=0.1",
        2,
        "faas.memory_per_node_gib",
    );
    check(
        "sim faas --policy hpa --set faas.most_memory_mib=65536",
        2,
        "a container must fit on a node of 32 GiB",
    );
    check(
        "sim faas --policy hpa --set faas.objective_over_isolated=0.5",
        1,
        "is below its mean service time",
    );
    check(
        "sim faas --policy none --load spike --set faas.window_s=86400 --set faas.steps=1000000",
        1,
        "load start_s must be",
    );
    check("replay nowhere --policy hpa --set faas.functions=3", 2, "unexpected argument '--set'");
    check("sim faas --policy hpa --trace nowhere.csv", 1, "nowhere.csv");
    check("replay nowhere --policy hpa", 2, "nowhere is not a run directory");
    assert!(!place.path("runs").exists(), "a refused call leaves nothing");
}

#[test]
fn governors_of_clocks_play_on_the_same_requests() {
    let place = Workplace::new();
    let played = |policy: &str| {
        let call =
            format!("sim gpu --policy {policy} --seeds 1..2 --duration 100s -q --output json");
        let called = place.call(&call);
        assert_eq!(called.code, Some(0), "{policy}: {}", called.stderr);
        called.json()
    };
    let (highest, miad) = (played("none"), played("miad"));
    let figure = |of: &serde_json::Value, name: &str| of[name].as_f64().unwrap();
    assert_eq!(figure(&highest, "clock_mhz"), 1380.0);
    assert!(figure(&highest, "slo_violation_ratio") <= 0.01, "{highest}");
    assert!(figure(&miad, "clock_mhz") < 1380.0, "{miad}");
    assert!(figure(&miad, "power_w") < figure(&highest, "power_w"), "{miad} {highest}");
    // A slower device answers a few requests later.
    let requests = figure(&miad, "requests") / figure(&highest, "requests");
    assert!((requests - 1.0).abs() < 0.05, "{requests}");
    // A hundred windows of each of four devices, of the first seed.
    let windows = String::from_utf8(place.read("runs/sim-gpu-miad/windows.jsonl")).unwrap();
    assert_eq!(windows.lines().count(), 400);
    let first: serde_json::Value = serde_json::from_str(windows.lines().next().unwrap()).unwrap();
    assert!(!first["decided"]["reasons"].as_array().unwrap().is_empty(), "{first}");
    let devices = place.done("sim gpu --policy miad --duration 20s -q --per-function --output csv");
    assert_eq!(devices.lines().count(), 5, "{devices}");
    refused(&place, "sim gpu --policy maid", 2, "did you mean `miad`?");
    refused(&place, "sim gpu --policy hpa -q", 2, "miad, miad-printed, none, random");
    refused(&place, "sim gpu --policy miad --alone", 1, "--alone applies to pods");
    refused(&place, "sim gpu --policy miad --fail-if watts>3", 2, "power_w");
    refused(&place, "replay runs/sim-gpu-miad --policy none", 2, "simulation of GPU clocks");
}

const SMALL_MESH: &str = "--set mesh.topology=hotel-reservation --set mesh.requests_per_s=60";

#[test]
fn containers_are_limited_by_rules_and_by_what_was_learned() {
    let place = Workplace::new();
    place.done(&format!("train --preset firm --env mesh/container-v1 --steps 70 --run-dir runs/a -q {SMALL_MESH} --set mesh.steps=30"));
    let mut limits = Vec::new();
    for policy in ["none", "aimd", "hpa", "runs/a"] {
        let called = place.call(&format!(
            "sim mesh --policy {policy} --seeds 1..2 --duration 40s -q --output json {SMALL_MESH}"
        ));
        assert_eq!(called.code, Some(0), "{}", called.stderr);
        let figures = called.json();
        assert!(figures["requests"].as_f64().unwrap() > 2000.0, "{figures}");
        assert!(figures["cpu_limit_cores_interval"].is_f64(), "{figures}");
        limits.push(figures["cpu_limit_cores"].as_f64().unwrap());
    }
    // Nothing is short of CPU here, so that HPA leaves replicas alone; the others change limits.
    assert!(limits[1] != limits[0] && limits[3] != limits[0], "{limits:?}");
    let services = place.done(&format!(
        "sim mesh --policy aimd --duration 10s -q --per-function --output csv {SMALL_MESH}"
    ));
    assert_eq!(services.lines().count(), 16, "{services}");
    refused(&place, "sim mesh --policy kpaa", 2, "aimd, hpa, hpa+vpa, vpa, none, random");
    place.done("train ppo --steps 3000 --run-dir runs/pole -q");
    refused(&place, "sim mesh --policy runs/pole -q", 1, "containers/limits-v1");
}

#[test]
fn a_campaign_says_what_is_injected_and_the_windows_show_it() {
    let place = Workplace::new();
    let campaign = "[[anomaly]]\nat_s = 2.0\nkind = \"cpu\"\nservice = \"geo\"\nintensity = 0.5\nduration_s = 4.0\n";
    place.write("anomalies.toml", campaign);
    let sim = format!("sim mesh --policy none --duration 10s {SMALL_MESH} -q --run-dir runs/c");
    place.done(&format!("{sim} --campaign anomalies.toml"));
    let windows = String::from_utf8(place.read("runs/c/windows.jsonl")).unwrap();
    let mut injected = Vec::new();
    for line in windows.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        if line["injected_cpu"].as_f64().unwrap() > 0.0 {
            injected.push((line["name"].clone(), line["t_s"].as_f64().unwrap()));
        }
    }
    let expect: Vec<_> = (3..=6).map(|second| ("geo".into(), f64::from(second))).collect();
    assert_eq!(injected, expect);
    place.write("elsewhere.toml", campaign.replace("geo", "gateway"));
    let wrong = format!("sim mesh --policy none -q {SMALL_MESH} --campaign");
    refused(&place, &format!("{wrong} elsewhere.toml"), 1, "service = gateway: the system has");
    refused(&place, &format!("{wrong} absent.toml"), 1, "cannot read the campaign absent.toml");
    let pods = "sim faas --policy hpa --campaign anomalies.toml -q";
    refused(&place, pods, 1, "--campaign applies to mesh");
    refused(&place, "sim gpu --policy miad --campaign anomalies.toml -q", 1, "no anomalies");
}
