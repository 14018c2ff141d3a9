//! `homeostat spans`: critical paths of files, as table, JSON, CSV and page.

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::homeostat::{Workplace, published, refused};

/// `requests` requests, one per second: `shop` calls `db`, then `mail`. From the sixth on, `db`
/// takes 40 ms longer.
fn zipkin(requests: u64) -> String {
    let mut spans: Vec<Value> = Vec::new();
    for request in 0..requests {
        let slow = if request >= 5 { 40_000 } else { 0 };
        let start = 1_700_000_000_000_000 + request * 1_000_000;
        let mut span = |id: u64, service: &str, name: &str, from: u64, to: u64| {
            let mut span = json!({
                "traceId": format!("{:x}", request + 1),
                "id": id.to_string(),
                "name": name,
                "timestamp": start + from,
                "duration": to - from,
                "localEndpoint": { "serviceName": service },
            });
            if id > 1 {
                span["parentId"] = json!("1");
            }
            spans.push(span);
        };
        span(1, "shop", "checkout", 0, 100_000 + slow);
        span(2, "db", "query", 10_000, 60_000 + slow);
        span(3, "mail", "<script>hacked = 1</script>\u{1b}[31m", 70_000 + slow, 90_000 + slow);
    }
    Value::Array(spans).to_string()
}

#[test]
fn a_critical_path_is_shown_as_table_json_or_csv() {
    let place = Workplace::new();
    place.write("spans.json", zipkin(4));
    let table = place.done("spans critical-path spans.json");
    for part in [
        "4 requests of 1 operations, 12 spans in 4 traces",
        "shop checkout: 4 requests, 0 errors, mean 100 ms",
        "STEP",
        "  query",
        "50.0",
    ] {
        assert!(table.contains(part), "{part} is missing:\n{table}");
    }
    assert!(!table.contains('\u{1b}'), "a name must not reach the terminal as a command: {table}");
    let json = place.call("spans critical-path spans.json --output json").json();
    assert_eq!((&json["spans"], &json["requests"]), (&12.into(), &4.into()));
    let steps = json["operations"][0]["steps"].as_array().unwrap();
    let shares: Vec<f64> = steps.iter().map(|step| step["share_ratio"].as_f64().unwrap()).collect();
    assert_eq!(shares, [0.3, 0.5, 0.2]);
    let csv = place.done("spans critical-path spans.json --output csv");
    assert!(csv.starts_with("root_service,root_operation,requests,depth,service,"), "{csv}");
    assert_eq!(csv.lines().count(), 4, "{csv}");
    let none = place.call("spans critical-path spans.json --operation cart --output json").json();
    assert_eq!((&none["requests"], &none["operations"]), (&0.into(), &json!([])));
}

#[test]
fn two_ranges_of_time_show_the_step_that_changed() {
    let place = Workplace::new();
    place.write("spans.json", zipkin(10));
    let compare = "spans critical-path spans.json --compare +0s..+5s +5s..+1h";
    let table = place.done(compare);
    assert!(table.contains("before: 5 requests, mean 100 ms"), "{table}");
    assert!(table.contains("after:  5 requests, mean 140 ms"), "{table}");
    let json = place.call(&format!("{compare} --output json")).json();
    let change = &json["operations"][0]["steps"][0];
    assert_eq!((&change["operation"], &change["change_ms"]), (&"query".into(), &40.0.into()));
    assert_eq!(json["requests"], json!([5, 5]));
}

#[test]
fn wrong_spans_and_ranges_are_refused_with_the_place() {
    let place = Workplace::new();
    place.write("spans.json", zipkin(1));
    place.write("cut.json", &zipkin(1)[..50]);
    place.write("text", "hello");
    let spans = "spans critical-path";
    refused(&place, &format!("{spans} cut.json"), 1, "EOF while parsing");
    refused(&place, &format!("{spans} text"), 1, "neither JSON nor an OTLP message");
    refused(&place, &format!("{spans} absent.json"), 1, "absent.json");
    refused(&place, &format!("{spans} spans.json --format jaeger"), 1, "give --format zipkin");
    refused(&place, &format!("{spans} spans.json --compare 1..2 x"), 2, "not a range");
    refused(&place, &format!("{spans} spans.json --compare +1s..+2s"), 2, "--compare");
}

#[test]
fn what_is_wrong_with_spans_is_told() {
    let place = Workplace::new();
    place.write("spans.json", zipkin(1));
    let twice = place.call("spans critical-path spans.json spans.json --output json");
    assert_eq!(twice.json()["defects"]["duplicate"], 3);
    assert!(twice.stderr.contains("spans dropped or repaired: duplicate 3"), "{}", twice.stderr);
    let few = place.call("spans critical-path spans.json --max-spans 2 --output json --quiet");
    assert_eq!((&few.json()["defects"]["over_limit"], few.stderr.as_str()), (&1.into(), ""));
}

#[test]
fn a_page_has_flame_graphs_and_runs_nothing_from_a_file() {
    let place = Workplace::new();
    place.write("spans.json", zipkin(10));
    place.done("spans critical-path spans.json --report page.html");
    place.done("spans critical-path spans.json --compare +0s..+5s +5s..+1h --report two.html");
    for (name, flames) in [("page.html", 1), ("two.html", 2)] {
        let page = String::from_utf8(place.read(name)).unwrap();
        assert!(!page.contains("<script"), "{page}");
        assert_eq!(page.matches("class=\"plot flame\"").count(), flames, "{page}");
    }
    let Some(browser) = Browser::find() else { return };
    browser.check(
        &place,
        "page.html",
        "found.bars = document.querySelectorAll('.flame rect').length;",
        |found| assert_eq!(found["bars"], 3),
    );
}

#[test]
fn real_traces_of_a_social_network_have_critical_paths() {
    let Some(file) = published("deathstarbench_jaeger/traces-1695947455229.json.zst") else {
        return;
    };
    let place = Workplace::new();
    let called = place.call(&format!("spans critical-path {} --output json", file.display()));
    let json = called.json();
    assert_eq!((&json["spans"], &json["traces"]), (&660.into(), &20.into()), "{}", called.stderr);
    let operation = &json["operations"][0];
    assert_eq!(operation["operation"], "/wrk2-api/post/compose");
    assert_eq!(operation["requests"], 20);
    let steps = operation["steps"].as_array().unwrap();
    let shares: f64 = steps.iter().filter_map(|step| step["share_ratio"].as_f64()).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    let has = |name: &str| steps.iter().any(|step| step["operation"] == name);
    // A post is stored before the timelines are written, in every request.
    for step in ["store_post_client", "write_user_timeline_client", "write_home_timeline_client"] {
        assert!(has(step), "{step} is missing: {json:#}");
    }
}
