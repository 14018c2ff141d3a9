//! `homeostat trace`: looking at traces, fitting models, making traces.

use std::io::Write;

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::homeostat::Workplace;

const COUNTS: &str = "HashOwner,HashApp,HashFunction,Trigger,1,2,3,4\n\
                      o,a,f,http,3,0,0,1\n\
                      o,a,g,timer,1,1,1,1\n";

fn zipped(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in members {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn a_trace_is_described_as_table_json_or_csv() {
    let place = Workplace::new();
    place.write("trace.csv", COUNTS);
    let table = place.done("trace inspect trace.csv");
    for part in ["functions            2", "invocations          8", "FIGURE", "autocorrelation_60"]
    {
        assert!(table.contains(part), "{part} is missing:\n{table}");
    }
    let json = place.call("trace inspect trace.csv --output json").json();
    assert_eq!((&json["table"], &json["functions"]), (&"counts".into(), &2.into()));
    assert_eq!((&json["minutes"], &json["invocations"]), (&4.into(), &8.into()));
    assert_eq!((&json["silent_minutes"], &json["silent_functions"]), (&0.into(), &0.into()));
    assert_eq!(json["per_minute"]["p50"], 1.0);
    assert_eq!(
        (&json["idle_share"]["min"], &json["idle_share"]["max"]),
        (&0.0.into(), &0.5.into())
    );
    for figure in ["dispersion", "function_peak_to_mean", "autocorrelation_1", "autocorrelation_10"]
    {
        assert!(json[figure]["p99"].is_f64(), "{figure} is missing: {json}");
    }
    let csv = place.done("trace inspect trace.csv --output csv");
    assert!(csv.starts_with("table,functions,silent_functions,minutes,"), "{csv}");
    assert!(csv.contains(",per_minute_p50,") && csv.lines().count() == 2, "{csv}");
}

#[test]
fn packed_traces_and_the_other_tables_are_described_too() {
    let place = Workplace::new();
    place.write("packed", zipped(&[("day.csv", COUNTS.as_bytes())]));
    assert_eq!(place.call("trace inspect packed --output json").json()["invocations"], 8);
    place.write("calls.csv", "app,func,end_timestamp,duration\na,f,0.5,0.1\na,f,130,1\na,g,61,2\n");
    let calls = place.call("trace inspect calls.csv --output json").json();
    assert_eq!((&calls["functions"], &calls["minutes"]), (&2.into(), &3.into()));
    assert_eq!((&calls["invocations"], &calls["silent_minutes"]), (&3.into(), &1.into()));
}

#[test]
fn a_made_trace_is_described_fitted_and_made_again() {
    let place = Workplace::new();
    let made = "trace generate --functions 60 --minutes 480 --seed 3";
    let record = place.call(&format!("{made} --out made.csv --output json")).json();
    assert_eq!((&record["functions"], &record["minutes"]), (&60.into(), &480.into()));
    let seen = place.call("trace inspect made.csv --output json").json();
    assert_eq!(seen["invocations"], record["invocations"]);
    assert_eq!((&seen["functions"], &seen["silent_functions"]), (&60.into(), &0.into()));
    let fit = place.call("trace fit made.csv --out model.toml --output json").json();
    assert_eq!(fit["per_minute"].as_array().map(Vec::len), Some(11));
    assert!(fit["clock_share"].as_f64().is_some_and(|share| (0.2..0.8).contains(&share)), "{fit}");
    let table = place.done("trace fit made.csv");
    assert!(table.contains("duration_median_ms") && table.contains("random 95-100%"), "{table}");
    assert!(table.contains("Traces from the model (five seeds) beside this one:"), "{table}");
    let judged = fit["goodness_of_fit"].as_array().unwrap();
    let row = |figure: &str| judged.iter().find(|row| row["figure"] == figure).unwrap();
    let peak = row("peak_to_mean");
    assert_eq!(peak["trace"], seen["peak_to_mean"], "the whole trace, not a function");
    assert!(peak["model_min"].as_f64() <= peak["model_max"].as_f64() && peak["distance"].is_null());
    let idle = row("idle_share")["distance"].as_f64().unwrap();
    assert!((0.0..0.3).contains(&idle), "the model is of this trace: {idle}");
    place.done("trace generate --model model.toml --functions 10 --minutes 60 --out again.csv");
    assert_eq!(place.call("trace inspect again.csv --output json").json()["functions"], 10);
}

#[test]
fn a_fit_that_misses_the_bursts_of_the_whole_trace_says_so() {
    let place = Workplace::new();
    // All functions are called in the same minutes: no model of independent functions does that.
    let minutes: Vec<String> = (1..=60).map(|minute| minute.to_string()).collect();
    let counts: Vec<&str> =
        (0..60).map(|minute| if minute % 13 == 7 { "9" } else { "0" }).collect();
    let rows = (0..40).map(|function| format!("o,a{function},f,{}\n", counts.join(",")));
    let rows: String = rows.collect();
    place.write(
        "bursts.csv",
        format!("HashOwner,HashApp,HashFunction,{}\n{rows}", minutes.join(",")),
    );
    let called = place.call("trace fit bursts.csv");
    assert_eq!(called.code, Some(0), "{}", called.stderr);
    assert!(
        called.stderr.contains("warning: peak_to_mean of traces from the model is"),
        "{}",
        called.stderr
    );
    let quiet = place.call("trace fit bursts.csv --quiet");
    assert!(quiet.stderr.is_empty(), "{}", quiet.stderr);
}

#[test]
fn a_short_file_that_asks_for_endless_memory_is_refused() {
    let place = Workplace::new();
    let calls = (0..30_000).map(|function| {
        format!("a,f{function},{}.0,0.1\n", if function == 9 { 6_000_000 } else { 1 })
    });
    let calls: String = calls.collect();
    place.write("calls.csv", format!("app,func,end_timestamp,duration\n{calls}"));
    refused(&place, "trace inspect calls.csv", 1, "counts that are kept: split the trace");
}

#[test]
fn the_same_seed_makes_the_same_trace_and_more_functions_only_add_to_it() {
    let place = Workplace::new();
    let make = |functions: usize, seed: u64, out: &str| {
        place.done(&format!(
            "trace generate --functions {functions} --minutes 90 --seed {seed} --out {out}"
        ));
        place.read(out)
    };
    let first = make(20, 1, "a.csv");
    assert_eq!(first, make(20, 1, "b.csv"));
    assert_ne!(first, make(20, 2, "c.csv"));
    assert!(make(30, 1, "d.csv").starts_with(&first));
}

/// Calls, and expects this exit code and this message.
fn refused(place: &Workplace, arguments: &str, code: i32, expect: &str) {
    let called = place.call(arguments);
    assert_eq!(called.code, Some(code), "{arguments}: {}{}", called.stdout, called.stderr);
    assert!(called.stderr.contains(expect), "{arguments}: {}", called.stderr);
    assert!(called.stdout.is_empty(), "{arguments}: {}", called.stdout);
    assert!(!called.stderr.contains("panicked"), "{arguments}: {}", called.stderr);
}

#[test]
fn broken_traces_end_with_file_line_column_and_reason() {
    let place = Workplace::new();
    let header = "HashOwner,HashApp,HashFunction,1,2\n";
    for (content, expect) in [
        (String::new(), "cannot read bad.csv: trace line 1, column header: the file is empty"),
        (
            format!("{header}o,a,f,1,2\no,a,g,1,-2\n"),
            "cannot read bad.csv: trace line 3, column 2: `-2` is not a count (0, 1, 2, ...)",
        ),
        (format!("{header}o,a,f,1\n"), "trace line 2, column all: the line has 4 fields"),
        ("name,age\nann,7\n".to_owned(), "trace line 1, column header: this is no table of"),
        (
            "HashOwner,HashApp,HashFunction,1,2,4\n".to_owned(),
            "trace line 1, column 4: the minutes jump from 2 to 4",
        ),
        (
            format!("{header}{}\n", "9".repeat(2 << 20)),
            "trace line 2, column all: the line is longer than 1048576 bytes",
        ),
    ] {
        place.write("bad.csv", content);
        for verb in ["inspect", "fit"] {
            refused(&place, &format!("trace {verb} bad.csv"), 1, expect);
        }
    }
    place.write("late.csv", "app,func,end_timestamp,duration\n\na,f,1e9,1\n");
    refused(&place, "trace inspect late.csv", 1, "trace line 3, column end_timestamp: minute");
    refused(&place, "trace inspect missing.csv", 1, "cannot read missing.csv: No such file");
    refused(&place, "trace inspect .", 1, "cannot read .: Is a directory");
}

#[test]
fn broken_archives_are_refused_whole() {
    let place = Workplace::new();
    let whole = zipped(&[("day.csv", COUNTS.as_bytes())]);
    place.write("cut.zip", &whole[..whole.len() / 2]);
    let expect = "cannot read cut.zip: the zip archive is damaged or cut off";
    refused(&place, "trace inspect cut.zip", 1, expect);
    refused(&place, "trace fit cut.zip --out model.toml", 1, expect);
    assert!(!place.path("model.toml").exists(), "a refused call leaves nothing");
    place.write("two.zip", zipped(&[("a.csv", b"x"), ("b.csv", b"x")]));
    refused(&place, "trace inspect two.zip", 1, "several .csv files, unpack one: a.csv, b.csv");
}

#[test]
fn what_cannot_be_made_is_refused_and_leaves_nothing() {
    let place = Workplace::new();
    let check = |arguments: &str, code: i32, expect: &str| {
        refused(&place, &format!("trace generate --out made.csv {arguments}"), code, expect);
    };
    check("--functions 0", 2, "functions = 0 (from flag --functions) is out of range");
    check("--minutes 0", 2, "minutes = 0");
    check("--minutes 100000000", 2, "minutes = 100000000");
    check("--functions 18446744073709551615", 2, "functions = 18446744073709551615");
    check("--model nowhere.toml", 2, "cannot use file nowhere.toml");
    place.write("odd.toml", "clock_share = 2.0\n");
    check("--model odd.toml", 2, "cannot use file odd.toml");
    let model = place.done("trace generate --functions 5 --minutes 300 --out small.csv");
    assert!(model.contains("invocations"));
    place.done("trace fit small.csv --out good.toml --quiet");
    let good = String::from_utf8(place.read("good.toml")).unwrap();
    let wrong = |from: &str, to: &str| {
        let start = good.find(from).unwrap_or_else(|| panic!("{from} is not in {good}"));
        let end = start + good[start..].find('\n').unwrap();
        place.write("odd.toml", format!("{}{to}{}", &good[..start], &good[end..]));
    };
    wrong("clock_share", "clock_share = 2.0");
    check("--model odd.toml", 2, "load clock_share must be from 0 to 1, got 2");
    wrong("per_minute", "per_minute = [3.0, 1.0]");
    check("--model odd.toml", 2, "load number of quantiles must be 11, got 2");
    wrong("clock_share", "clok_share = 0.5");
    check("--model odd.toml", 2, "unknown field `clok_share`");
    assert!(!place.path("made.csv").exists() && !place.path("made.partial").exists());
    refused(&place, "trace generate --out none/made.csv", 1, "cannot write none/made.csv");
    // No function was ever called.
    place.write("silent.csv", "HashOwner,HashApp,HashFunction,1,2\no,a,f,0,0\n");
    refused(&place, "trace fit silent.csv", 2, "at least one, called at least once");
}

#[test]
fn a_file_is_replaced_only_on_demand() {
    let place = Workplace::new();
    place.write("day.csv", "precious");
    let call = "trace generate --functions 2 --minutes 5 --out day.csv";
    refused(&place, call, 2, "the file exists already");
    assert_eq!(place.read("day.csv"), b"precious");
    place.done(&format!("{call} --force"));
    refused(&place, "trace fit day.csv --out day.csv", 2, "replace it with --force");
}

#[test]
fn help_teaches_with_examples() {
    let place = Workplace::new();
    for verb in ["inspect", "fit", "generate"] {
        let help = place.done(&format!("trace {verb} --help"));
        assert!(help.contains(&format!("homeostat trace {verb} ")), "{help}");
    }
}
