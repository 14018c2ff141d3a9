//! `homeostat size` on measurements, good and bad.

use std::fmt::Write;

use crate::homeostat::Workplace;

const HEADER: &str = "function,memory_mb,duration_ms,user_cpu_ms,system_cpu_ms,heap_used_mb\n";

/// A function that computes for 200 ms and waits for 50, on a platform where a core comes with
/// 1769 MB.
fn duration_ms(memory_mb: f64) -> f64 {
    200.0 / (memory_mb / 1769.0).min(1.0) + 50.0
}

fn row(name: &str, memory_mb: f64, duration_ms: f64) -> String {
    format!("{name},{memory_mb},{duration_ms},185,15,60\n")
}

#[test]
fn a_function_is_sized_from_one_measurement() {
    let place = Workplace::new();
    place.write("one.csv", format!("{HEADER}{}", row("checkout", 512.0, duration_ms(512.0))));
    let called = place.call("size one.csv --output json");
    let json = called.json();
    let function = &json[0];
    assert_eq!(function["function"], "checkout");
    assert_eq!(function["warnings"].as_array().map(Vec::len), Some(0), "{function:#}");
    let sizes = function["sizes"].as_array().unwrap();
    assert_eq!(sizes.len(), 6);
    for size in sizes {
        let [memory, found, low, high] = ["memory_mb", "duration_ms", "low_ms", "high_ms"]
            .map(|key| size[key].as_f64().unwrap());
        let expect = duration_ms(memory);
        assert!((found / expect - 1.0).abs() < 0.25, "{memory} MB: {found}, not {expect}");
        assert!(low <= found && found <= high && size["cost_per_million"].as_f64().unwrap() > 0.0);
    }
    assert!(function["recommended_memory_mb"].as_f64().is_some());
    // The same call, the same bytes; and a limit that only large sizes keep.
    assert_eq!(place.done("size one.csv --output json"), called.stdout);
    let limited = place.call("size one.csv --output json --max-ms 350").json();
    assert!(limited[0]["recommended_memory_mb"].as_f64().unwrap() >= 1024.0, "{limited:#}");
    let table = place.done("size one.csv");
    assert!(table.contains("measured") && table.contains("yes"), "{table}");
}

#[test]
fn a_platform_of_its_own_is_warned_of_and_learnt_from_its_history() {
    let place = Workplace::new();
    // Times do not depend on the memory size here.
    let flat = format!("{HEADER}{}{}", row("flat", 128.0, 220.0), row("flat", 2048.0, 215.0));
    place.write("flat.csv", flat);
    let called = place.call("size flat.csv");
    assert_eq!(called.code, Some(0), "{}", called.stderr);
    assert!(called.stderr.contains("warning: flat: out of distribution"), "{}", called.stderr);
    let mut history = HEADER.to_owned();
    for function in 0..16 {
        let time = 20.0 * f64::from(1 + function);
        for (place, memory) in [128.0, 512.0, 1024.0, 2048.0].into_iter().enumerate() {
            let time = time * (1.0 + 0.01 * ((place + function as usize) % 3) as f64);
            let cpu = 0.9 * time;
            writeln!(history, "f{function},{memory},{time},{cpu},3,40").unwrap();
        }
    }
    place.write("history.csv", history);
    place.write("new.csv", format!("{HEADER}new,128,100,90,3,40\n"));
    let json = place.call("size new.csv --history history.csv --output json").json();
    let sizes = json[0]["sizes"].as_array().unwrap();
    assert_eq!(sizes.len(), 4, "the sizes of the history: {json:#}");
    for size in sizes {
        let found = size["duration_ms"].as_f64().unwrap();
        assert!((90.0..112.0).contains(&found), "{size:#}");
    }
}

#[test]
fn bad_input_is_one_error_that_names_it() {
    let place = Workplace::new();
    let check = |arguments: &str, content: &str, expect: &str| {
        place.write("bad.csv", content);
        let called = place.call(arguments);
        assert!(matches!(called.code, Some(1 | 2)), "{arguments}: {}", called.stderr);
        let errors: Vec<&str> =
            called.stderr.lines().filter(|line| line.starts_with("error")).collect();
        assert_eq!(errors.len(), 1, "{}", called.stderr);
        assert!(called.stderr.contains(expect), "{arguments}: {}", called.stderr);
        assert!(called.stdout.is_empty(), "{}", called.stdout);
    };
    let good = format!("{HEADER}{}", row("f", 512.0, 100.0));
    check("size nowhere.csv", &good, "nowhere.csv");
    check("size bad.csv", "time,latency\n1,2\n", "there is no column memory_mb");
    check("size bad.csv", HEADER, "no rows below its header");
    check("size bad.csv", &format!("{HEADER}f,512,NaN,1,1,1\n"), "line 2: duration_ms is `NaN`");
    check("size bad.csv --history bad.csv", &good, "at least 12 functions");
    check("size bad.csv --sizes 0", &good, "memory sizes in MB are above zero");
    check("size bad.csv --cost-weight 2", &good, "it lies from 0 to 1");
    check("size bad.csv --max-ms -1", &good, "--max-ms");
    check("size bad.csv --price-per-million NaN", &good, "a price is a number from zero up");
}
