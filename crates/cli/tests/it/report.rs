//! The page that `homeostat report` writes, as text and in a real browser.

use crate::browser::Browser;
use crate::compare::simulated;
use crate::homeostat::Workplace;

const SHORT: &str = "--duration 300s --seeds 1..2";

/// Two simulations and a training, and a name with markup that must be escaped.
fn runs(place: &Workplace) -> &'static str {
    simulated(place, "none", "none", SHORT);
    simulated(place, "hpa+vpa", "both", SHORT);
    for file in ["none/summary.json", "none/windows.jsonl", "both/summary.json"] {
        let text = String::from_utf8(place.read(file)).unwrap();
        assert!(text.contains("primes"));
        place.write(file, text.replace("primes", "<script>window.hacked=1</script>"));
    }
    place.done(
        "train q-learning --env toy/identity-v1 --steps 8192 --agents 3 --quiet --run-dir learnt",
    );
    "none both learnt"
}

#[test]
fn a_report_is_one_file_with_everything_in_it() {
    let place = Workplace::new();
    let runs = runs(&place);
    assert_eq!(place.done(&format!("report {runs} --out page.html")), "page.html\n");
    let page = String::from_utf8(place.read("page.html")).unwrap();
    for part in [
        "<h1>none and hpa+vpa</h1>",
        "Result",
        "<strong>none</strong> violated the SLO in ",
        "Differences from none, seed by seed",
        "Learning curves",
        "Latency",
        "Which functions meet their SLO",
        "Resource cost",
        "Over time",
        "Last decisions and their reasons",
        "Runs and settings",
        "homeostat sim faas --policy hpa+vpa --seeds 1..2 --duration 300s --config both/config.toml",
        "homeostat train --config learnt/config.toml",
        "Settings of both",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    // Every function is there without a script, and nothing is fetched.
    assert_eq!(page.matches("<details class=\"function\"").count(), 3);
    for outside in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside} would be fetched");
    }
    assert_eq!(page.matches("<script>").count(), 1, "names are no scripts");
    assert!(page.contains("&lt;script&gt;window.hacked=1"));
    assert!(page.matches("<title>").count() > 20 && page.contains("<desc>"));
    assert!(page.len() < 400_000, "{} bytes", page.len());
    // Same runs, same bytes.
    place.done(&format!("report {runs} --out again.html"));
    assert_eq!(place.read("again.html"), page.as_bytes());
}

#[test]
fn nine_runs_look_different_and_the_best_is_named() {
    let place = Workplace::new();
    let policies = [
        "none",
        "random",
        "hpa",
        "vpa",
        "hpa+vpa",
        "kpa",
        "ensure",
        "ensure-util",
        "on-demand",
        "aimd",
    ];
    let flags = "--duration 200s --seeds 1..3 --set faas.functions=3 -q";
    for policy in policies {
        place.done(&format!("sim faas --policy {policy} {flags} --run-dir {policy}"));
    }
    place.done(&format!("report {} --out page.html", policies.join(" ")));
    let page = String::from_utf8(place.read("page.html")).unwrap();
    let (_, key) = page.split_once("<ul class=\"key\">").unwrap();
    let rows = key.split("</ul>").next().unwrap().split("<li>").skip(1);
    let looks: std::collections::BTreeSet<&str> = rows
        .map(|row| row.split("<line class=\"line ").nth(1).unwrap().split('"').next().unwrap())
        .collect();
    assert_eq!(looks.len(), policies.len(), "{looks:?}");
    // The best by the figures of the runs themselves.
    let rows = place.call("runs list . --output json").json();
    let ratio = |policy: &&str| {
        let row =
            rows.as_array().unwrap().iter().find(|row| row["policy"] == *policy).unwrap().clone();
        row["slo_violation_ratio"].as_f64().unwrap()
    };
    let best = policies.iter().min_by(|a, b| ratio(a).total_cmp(&ratio(b))).unwrap();
    let claims = [
        format!("<strong>{best} has the fewest SLO violations</strong>"),
        format!("<strong>No clear winner</strong>: {best} has the fewest"),
    ];
    assert!(claims.iter().any(|claim| page.contains(claim)), "{best} is not named");
    assert!(page.contains("is the geometric mean over functions"));
    // The expanded function has the largest share of SLO violations in the first seed.
    let summaries: Vec<serde_json::Value> = policies
        .iter()
        .map(|policy| {
            serde_json::from_slice(&place.read(&format!("{policy}/summary.json"))).unwrap()
        })
        .collect();
    let share = |function: usize| {
        let figures =
            summaries.iter().map(|run| &run["outcomes"][0]["functions"][function]["figures"]);
        let (mut violated, mut requests) = (0.0, 0.0);
        for figures in figures {
            let count = figures["requests"].as_f64().unwrap();
            violated += figures["slo_violation_ratio"].as_f64().unwrap() * count;
            requests += count;
        }
        violated / requests
    };
    let worst = (0..3).max_by(|a, b| share(*a).total_cmp(&share(*b))).unwrap();
    let open = format!("<details class=\"function\" id=\"function-{worst}\" open>");
    assert!(page.contains(&open), "{open}");
}

#[test]
fn the_command_of_a_learned_policy_names_its_file() {
    let place = Workplace::new();
    place.done("train ppo --env faas/function-v2 --steps 100 --set run.log_every=50 --quiet --run-dir learnt");
    place.done("sim faas --policy learnt/policies/agent-0.policy --duration 100s --set faas.functions=3 -q --run-dir played");
    place.done("report played");
    let page = String::from_utf8(place.read("report.html")).unwrap();
    let command = "homeostat sim faas --policy learnt/policies/agent-0.policy --seeds 1 --duration 100s --config played/config.toml";
    assert!(page.contains(command));
    place.done(
        &command.replace("homeostat ", "").replace(" --config", " -q --run-dir again --config"),
    );
    assert_eq!(place.read("again/windows.jsonl"), place.read("played/windows.jsonl"));
}

#[test]
fn a_title_is_only_a_title() {
    let place = Workplace::new();
    simulated(&place, "none", "a", "--duration 50s");
    let mut command = place.command("report a --title");
    assert!(command.arg("<img onerror=x> & more").output().unwrap().status.success());
    let page = String::from_utf8(place.read("report.html")).unwrap();
    assert!(page.contains("<h1>&lt;img onerror=x&gt; &amp; more</h1>"));
    // One run alone and one seed alone: figures, and no claims.
    assert!(!page.contains(" ± ") && !page.contains("Differences from"));
}

#[test]
fn runs_of_different_worlds_are_shown_without_verdicts() {
    let place = Workplace::new();
    simulated(&place, "none", "a", SHORT);
    simulated(&place, "kpa", "b", &format!("{SHORT} --load bursty"));
    place.done("report a b");
    let page = String::from_utf8(place.read("report.html")).unwrap();
    assert!(page.contains("These runs have different settings"));
    assert!(page.contains("load is fluctuating, bursty"));
    assert!(!page.contains("class=\"better\"") && !page.contains("class=\"worse\""));
}

#[test]
fn a_broken_run_leaves_no_page() {
    let place = Workplace::new();
    simulated(&place, "none", "a", "--duration 50s");
    let windows = String::from_utf8(place.read("a/windows.jsonl")).unwrap();
    place.write("a/windows.jsonl", format!("{windows}{{\"t_s\": 1"));
    let called = place.call("report a");
    assert_eq!(called.code, Some(2), "{}", called.stderr);
    let line = windows.lines().count() + 1;
    let expect = format!("its windows.jsonl cannot be used: line {line}");
    assert!(called.stderr.contains(&expect), "{}", called.stderr);
    std::fs::remove_file(place.path("a/summary.json")).unwrap();
    let called = place.call("report a");
    assert!(called.stderr.contains("a is not a run directory"), "{}", called.stderr);
    assert!(!place.path("report.html").exists());
}

#[test]
fn a_browser_shows_the_page_on_phone_and_desk_by_day_and_by_night() {
    let Some(browser) = Browser::find() else { return };
    let place = Workplace::new();
    let runs = runs(&place);
    place.done(&format!("report {runs} --out page.html"));
    browser.check(&place, "page.html", CHOOSE, |found| {
        assert_eq!(found["functions"], serde_json::json!([3, 1]), "all, then the chosen: {found}");
        assert!(found["plots"].as_i64() > Some(20), "{found}");
    });
}

/// Counts the functions that are shown, chooses one, and counts again.
const CHOOSE: &str = "
  const visible = () => [...document.querySelectorAll('details.function')]
    .filter(fold => fold.getBoundingClientRect().height > 0).length;
  found.functions = [visible()];
  const select = document.querySelector('.chooser select');
  select.selectedIndex = 2;
  select.dispatchEvent(new Event('change'));
  found.functions.push(visible());
";
