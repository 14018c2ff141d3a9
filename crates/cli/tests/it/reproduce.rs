//! `homeostat reproduce`: its names, what it writes, and the page in a real browser.

use homeostat_experiments::reproduce::{
    aware_experiments, firm_experiments, flash_experiments, simppo_experiments,
};
use homeostat_report::{Cell, Finding, Line, Picture, Spread, Table, write_finding};

use crate::browser::Browser;
use crate::homeostat::{Workplace, published};

/// A name with markup that must be escaped.
const BAD: &str = "<script>window.hacked=1</script>";

fn spread(mean: f64, interval: f64) -> Cell {
    Spread { mean, interval: Some(interval), min: mean - interval, max: mean + interval }.into()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A learning curve that falls at 400 and 800 and is known the better the longer it goes on.
fn curve(name: &str, end: f64, wobble: f64) -> Line {
    let point = |place: u32| {
        let x = 7.5 + 15.0 * f64::from(place);
        let since = x % 400.0;
        let mean = end - 0.5 * (-since / 90.0).exp() + wobble * (x / 23.0).sin();
        (x, mean, 0.02 + 0.09 * (-since / 150.0).exp())
    };
    Line { name: name.to_owned(), points: (0..80).map(point).collect() }
}

/// Everything that experiments bring, at its widest.
fn finding() -> Finding {
    let policies = ["s-rl, alone", "s-rl", "il-rl", "simppo", BAD];
    let curves = policies.iter().enumerate();
    let lines =
        curves.map(|(place, name)| curve(name, 0.9 - 0.1 * place as f64, 0.01 * place as f64));
    let mut wide = Table {
        title: "p99 over that of s-rl alone, by function".to_owned(),
        columns: names(&["function", "s-rl alone, ms"]),
        rows: Vec::new(),
    };
    wide.columns.extend((1..=9).map(|place| format!("policy number {place}, put together")));
    for (place, function) in ["image-resize", "primes", "sentiment-analysis"].iter().enumerate() {
        let mut row = vec![(*function).into(), Cell::Number(812.37 * (1.0 + place as f64))];
        row.extend((1..=9).map(|policy| Cell::Number(f64::from(policy) * 1.234_56)));
        wide.rows.push(row);
    }
    let row = |place: usize, name: &str| {
        let place = place as f64;
        let paper = if place == 1.0 { "55.9 % below".into() } else { Cell::Nothing };
        let change = format!("{:+} functions", 5 - 2 * place as i64);
        vec![
            name.into(),
            change.into(),
            spread(0.91 - 0.1 * place, 0.02),
            spread(2.0 + 13.0 * place, 1.5),
            paper,
            spread(41_250.0 + 999.0 * place, 1_320.0),
        ]
    };
    let together = Table {
        title: format!("training at 76 % load; paper: 16.6 % when five come, {BAD}"),
        columns: names(&[
            "method",
            "change",
            "reward of a step at the end",
            "below s-rl alone, %",
            "paper",
            "container-s",
        ]),
        rows: policies.iter().enumerate().map(|(place, name)| row(place, name)).collect(),
    };
    Finding {
        name: "simppo/fig-4.9".to_owned(),
        title: "functions that come and go, with base models".to_owned(),
        seeds: (1..=10).collect(),
        is_quick: true,
        tables: vec![together, wide],
        pictures: vec![Picture {
            title: "reward while functions come and go".to_owned(),
            x: "episode".to_owned(),
            y: "reward of a step, mean of agents".to_owned(),
            marks: vec![
                (400.0, "+5 functions come".to_owned()),
                (440.0, BAD.to_owned()),
                (800.0, "-5 functions".to_owned()),
                (1200.0, "and the experiment comes to its end".to_owned()),
            ],
            lines: lines.collect(),
        }],
        notes: vec![
            "Twelve functions at first; every 400 episodes five come or five go.".to_owned(),
            BAD.to_owned(),
        ],
        facts: serde_json::Map::new(),
    }
}

#[test]
fn a_finding_is_one_page_with_everything_in_it() {
    let place = Workplace::new();
    write_finding(&finding(), &place.path("page.html")).unwrap();
    let page = String::from_utf8(place.read("page.html")).unwrap();
    for outside in ["http:", "https:", "src=", "@import", "url(", "<script"] {
        assert!(!page.contains(outside), "{outside} has no place in it");
    }
    // In the key, at its marks, in descriptions, tables and notes.
    assert!(page.matches("&lt;script&gt;window.hacked=1").count() > 9);
    assert_eq!(page.matches("class=\"band ").count(), 5);
    assert!(page.len() < 80_000, "{} bytes", page.len());
    // Same finding, same bytes; and nothing else is left behind.
    write_finding(&finding(), &place.path("again.html")).unwrap();
    assert_eq!(place.read("again.html"), page.as_bytes());
    assert!(!place.path("page.partial").exists());
    let nowhere = write_finding(&finding(), &place.path("nowhere/page.html")).unwrap_err();
    assert!(nowhere.to_string().contains("nowhere/page.html"), "{nowhere}");
}

#[test]
fn a_browser_shows_a_finding_on_phone_and_desk_by_day_and_by_night() {
    let Some(browser) = Browser::find() else { return };
    let place = Workplace::new();
    write_finding(&finding(), &place.path("page.html")).unwrap();
    browser.check(&place, "page.html", LOOK, |found| {
        assert_eq!(found["plots"], 1, "{found}");
        assert_eq!(found["labels"], 4, "{found}");
        assert_eq!(found["outside"], 0, "labels stay on the page: {found}");
        assert_eq!(found["met"], 0, "labels do not meet: {found}");
        assert_eq!(found["left"], 0, "numbers are on the right: {found}");
        // The wide table scrolls on a phone, and its names stay.
        assert_eq!(found["scrolled"], found["width"] == 390, "{found}");
        assert_eq!(found["pinned"], true, "{found}");
    });
}

/// Where labels and numbers are, and what a table that scrolls does.
const LOOK: &str = "
  const boxes = [...document.querySelectorAll('.event-name')].map(text => text.getBoundingClientRect());
  found.labels = boxes.length;
  found.outside = boxes.filter(box => box.left < 0 || box.right > innerWidth).length;
  found.met = boxes.filter((box, place) => boxes.slice(place + 1).some(other =>
    box.left < other.right && other.left < box.right && box.top < other.bottom - 2 && other.top < box.bottom - 2)).length;
  found.left = [...document.querySelectorAll('td.number')]
    .filter(cell => getComputedStyle(cell).textAlign !== 'right').length;
  const frame = [...document.querySelectorAll('.frame')].pop();
  const name = frame.querySelector('tbody th');
  const before = name.getBoundingClientRect().left;
  frame.scrollLeft = 60;
  found.scrolled = frame.scrollLeft > 0;
  found.pinned = Math.abs(name.getBoundingClientRect().left - before) < 1;
";

#[test]
fn an_experiment_leaves_figures_and_a_page() {
    let place = Workplace::new();
    let call = "reproduce simppo/fig-4.14 --quick --seeds 1,2 --output csv";
    let called = place.call(call);
    assert_eq!(called.code, Some(0), "{}", called.stderr);
    let mut lines = called.stdout.lines();
    assert_eq!(
        lines.next(),
        Some(
            "table,agents,ms of a step of all agents,ms of a step of all agents interval,\
             paper's ms,actions per second,actions per second interval"
        )
    );
    assert_eq!(lines.clone().count(), 2, "{}", called.stdout);
    for (line, agents) in lines.zip(["12", "50"]) {
        let start = format!(
            "\"actions in training on one core, environment and learning included\",{agents},"
        );
        assert!(line.starts_with(&start), "{line}");
    }
    let path = "runs/reproduce-simppo-fig-4.14";
    for said in [format!("figures in {path}.json"), format!("page in {path}.html")] {
        assert!(called.stderr.contains(&said), "{}", called.stderr);
    }
    let figures: serde_json::Value =
        serde_json::from_slice(&place.read(&format!("{path}.json"))).unwrap();
    assert_eq!((&figures["name"], &figures["is_quick"]), (&"simppo/fig-4.14".into(), &true.into()));
    let page = String::from_utf8(place.read(&format!("{path}.html"))).unwrap();
    assert!(page.contains("<h1>Actions per second</h1>"), "{page}");
    assert!(page.contains("homeostat reproduce simppo/fig-4.14 --quick --seeds 1..2"), "{page}");
    // A second time, beside the first.
    place.done("reproduce simppo/fig-4.14 --quick --seeds 1");
    assert!(place.path(&format!("{path}-2.json")).exists());
    assert!(place.path(&format!("{path}-2.html")).exists());
}

#[test]
fn help_lists_every_experiment() {
    let help = Workplace::new().done("reproduce --help");
    // Long descriptions are wrapped.
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let listed = simppo_experiments()
        .chain(aware_experiments())
        .chain(firm_experiments())
        .chain(flash_experiments());
    for (name, asks) in listed {
        assert!(words.contains(&format!("- {name}: {asks}")), "{name}:\n{help}");
    }
    assert!(help.contains("s-rl") && help.contains("--output csv"), "{help}");
}

#[test]
fn wrong_calls_end_before_any_work() {
    let place = Workplace::new();
    let check = |arguments: &str, expect: &str| {
        let called = place.call(arguments);
        assert_eq!(called.code, Some(2), "{arguments}: {}", called.stderr);
        assert!(called.stderr.contains(expect), "{arguments}: {}", called.stderr);
    };
    check("reproduce simppo/fig-4.61", "tip: ");
    check("reproduce simppo/fig-4.61", "'simppo/fig-4.6'");
    check("reproduce simppo/fig-4.6 --episodes 100", "--episodes applies to s-rl only");
    check("reproduce simppo/fig-4.6 --out page.html", "it names the JSON");
    check("reproduce simppo/fig-4.6 --seeds 4..2", "not a range");
    check("reproduce firm/real-faults", "name its directory with --data DIR");
    check("reproduce firm/real-faults --data . --seeds 1..3", "leave out --seeds");
    check("reproduce muserve/power --data .", "muserve/power reads no data");
    check("reproduce firm/training --data .", "firm/training reads no data");
    check(
        "reproduce simppo/fig-4.6 --data .",
        "--data applies to experiments on published data only",
    );
    check("reproduce simppo/fig-4.6 --encoder .", "--encoder applies to muserve/predictor only");
    assert!(!place.path("runs").exists(), "a refused call leaves nothing");
}

#[test]
fn data_that_is_missing_is_one_error_that_names_the_file() {
    let place = Workplace::new();
    let called = place.call("reproduce firm/real-faults --data nowhere");
    assert_ne!(called.code, Some(0));
    assert!(
        called.stderr.contains("nowhere/nezha_rca/trainticket_2023.tar.zst"),
        "{}",
        called.stderr
    );
    assert!(!place.path("runs").exists(), "a failed call leaves nothing");
}

#[test]
fn recorded_faults_are_localised_with_settings_of_other_systems() {
    let Some(data) =
        published("nezha_rca").and(published("petshop_rca")).and(published("rcd_sockshop"))
    else {
        return;
    };
    let data = data.parent().unwrap().display().to_string();
    let call = format!("reproduce firm/real-faults --data {data} --output json --out figures.json");
    let figures = Workplace::new().call(&call).json();
    for set in ["nezha_train_ticket", "petshop", "sock_shop", "sock_shop_60s_late"] {
        let of = &figures[set];
        let [top1, top3, avg5] =
            ["top1", "top3", "avg5"].map(|key| of[key].as_f64().unwrap_or(f64::NAN));
        assert!(0.0 < top1 && top1 <= top3 && top1 <= avg5 && avg5 <= 1.0, "{set}: {of:#}");
        assert!(of["ms_per_case"].as_f64().unwrap() > 0.0, "{set}: {of:#}");
    }
    // PetShop names no resource; the same seedless computation gives these counts everywhere.
    assert!(figures["petshop"]["resource_top1"].is_null(), "{figures:#}");
    let counts = ["nezha_train_ticket", "petshop", "sock_shop"].map(|set| {
        let of = &figures[set];
        (of["top1"].as_f64().unwrap() * of["cases"].as_f64().unwrap()).round()
    });
    assert_eq!(counts, [19.0, 52.0, 50.0]);
    assert_eq!(figures["designs"]["used"]["top1"], figures["nezha_train_ticket"]["top1"]);
}

#[test]
fn execution_times_are_predicted_with_and_without_an_embedding() {
    let sets = ("sizeless_replication_python", "cloudbandit_multicloud");
    let Some(data) = published(sets.0).and(published(sets.1)) else { return };
    let data = data.parent().unwrap().display().to_string();
    let call = format!("reproduce flash/sizeless --quick --data {data} --output json --out f.json");
    let figures = Workplace::new().call(&call).json();
    let error = |of: &serde_json::Value, set: &str, method: &str| {
        of[set]["1-shot"][method]["test_mape"]["mean"].as_f64().unwrap_or(f64::NAN)
    };
    for set in ["sizeless", "cloudbandit"] {
        let plain = error(&figures, set, "plain");
        // Both protocols judge the plain base learner on the same halves.
        assert_eq!(plain, error(&figures["strict"], set, "plain"));
        let errors =
            [plain, error(&figures, set, "flash"), error(&figures["strict"], set, "flash")];
        assert!(errors.iter().all(|error| *error > 0.0 && *error < 0.7), "{set}: {errors:?}");
    }
    // Clusters differ: who predicts the measured time for all of them is far off.
    let (plain, unchanged) = ("plain", "unchanged");
    assert!(error(&figures, "cloudbandit", plain) < error(&figures, "cloudbandit", unchanged));
}

#[test]
fn power_is_compared_at_equal_attainment_without_published_data() {
    let place = Workplace::new();
    let call = "reproduce muserve/power --quick --seeds 1..2 --output json --out power.json";
    let figures = place.call(call).json();
    for over in ["alpaserve", "alpaserve_scaling"] {
        for axis in ["slo_scale", "rate", "devices"] {
            let settings = figures["power_ratio"][over][axis].as_array().unwrap();
            assert!(settings.len() >= 2, "{figures:#}");
            for setting in settings {
                let ratio = setting["ratio"]["mean"].as_f64().unwrap();
                assert!((0.8..3.0).contains(&ratio), "{over} {axis}: {setting:#}");
                let attainment = setting["attainment"]["mu_serve"]["mean"].as_f64().unwrap();
                assert!((0.9..=1.0).contains(&attainment), "{over} {axis}: {setting:#}");
            }
        }
    }
    // Lower clocks never cost energy where the SLOs leave room for them.
    let loose =
        figures["power_ratio"]["alpaserve"]["slo_scale"].as_array().unwrap().last().unwrap();
    assert!(loose["ratio"]["mean"].as_f64().unwrap() > 1.0, "{loose:#}");
    assert!(figures["paper"]["power_ratio"].is_object(), "{figures:#}");
}

#[test]
fn clocks_follow_the_load_and_savings_the_length_of_answers() {
    let place = Workplace::new();
    let call = "reproduce muserve/sensitivity --quick --seeds 1..2 --output json --out s.json";
    let figures = place.call(call).json();
    let clock = |part: usize| figures["clock_trace"][part]["clock_mhz"]["mean"].as_f64().unwrap();
    assert!(clock(1) > clock(0), "the clock rises with the load: {:#}", figures["clock_trace"]);
    let models = figures["insensitive_operators"].as_array().unwrap();
    assert_eq!(models.len(), 15);
    for model in models {
        let part = model["insensitive_ratio"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&part), "{model:#}");
        assert!(model["saving_pct"]["mean"].as_f64().unwrap() > 0.0, "{model:#}");
    }
    let lengths = figures["saving_pct_by_output_length"].as_array().unwrap();
    let busy = |place: usize| lengths[place]["busy_pct"]["mean"].as_f64().unwrap();
    assert!(busy(lengths.len() - 1) > busy(0), "longer answers keep devices busier");
}

#[test]
fn shortest_first_gains_with_every_kind_of_batching() {
    let Some(data) = published("ssjf_output_length_predictions") else { return };
    let data = data.parent().unwrap().display().to_string();
    let call = format!(
        "reproduce muserve/batching --quick --seeds 1..2 --data {data} --output json --out b.json"
    );
    let figures = Workplace::new().call(&call).json();
    let settings = figures["by_setting"].as_array().unwrap();
    assert_eq!(settings.len(), 6);
    for setting in settings {
        let gain = |order: &str| setting["jct_gain_pct"][order]["mean"].as_f64().unwrap();
        assert!(0.0 < gain("ssjf") && gain("ssjf") < gain("oracle"), "{setting:#}");
    }
    let refused = Workplace::new().call("reproduce muserve/batching --quick");
    assert!(refused.stderr.contains("name its directory with --data DIR"), "{}", refused.stderr);
}

#[test]
fn the_study_of_microservices_prints_critical_paths_that_move() {
    let place = Workplace::new();
    let called = place.call("reproduce firm/characterisation --quick --seeds 1..3 --output json");
    assert_eq!(called.code, Some(0), "{}", called.stderr);
    let finding = called.json();
    assert_eq!(
        (&finding["is_quick"], finding["seeds"].as_array().unwrap().len()),
        (&true.into(), 3)
    );
    let rows = finding["tables"][0]["rows"].as_array().unwrap();
    for (row, contended) in rows[1..].iter().zip(["media-service", "user-service", "text-service"])
    {
        assert_eq!(row[0], contended);
    }
    assert!(finding["path_ratio"]["train-ticket"]["p99"]["mean"].as_f64().unwrap() > 1.0);
    assert!(place.path("runs/reproduce-firm-characterisation.html").exists());
}
