//! The page that `homeostat report` writes, as text and in a real browser.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::compare::simulated;
use crate::homeostat::Workplace;

const SHORT: &str = "--duration 300s --seeds 1..2";

/// Two simulations and a training, and a name that wants to be a script.
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
        "The answer",
        "<strong>none</strong> missed ",
        "Differences from none, seed by seed",
        "How they learnt",
        "How late answers were",
        "Which functions keep their objectives",
        "What it took",
        "Over time",
        "Last decisions and their reasons",
        "What was played",
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
    assert!(page.contains("These runs played different worlds"));
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
    assert!(called.stderr.contains("a is not a run folder"), "{}", called.stderr);
    assert!(!place.path("report.html").exists());
}

#[test]
fn a_browser_shows_the_page_on_phone_and_desk_by_day_and_by_night() {
    let Some(browser) = browser() else {
        #[expect(clippy::disallowed_macros, reason = "a test says why it did nothing")]
        {
            println!("skipped: no chromium here; run ./test, or set HOMEOSTAT_TEST_BROWSER");
        }
        return;
    };
    let place = Workplace::new();
    let runs = runs(&place);
    place.done(&format!("report {runs} --out page.html"));
    let page = String::from_utf8(place.read("page.html")).unwrap();
    let probed = page.replacen("<head>", &format!("<head>{LISTEN}"), 1);
    place.write("probed.html", probed.replacen("</body>", &format!("{PROBE}</body>"), 1));
    let mut backgrounds = Vec::new();
    for (width, scheme) in [(390, "1"), (390, "0"), (1200, "1"), (1200, "0")] {
        let found = look(&browser, &place, width, scheme);
        assert_eq!(found["errors"], serde_json::json!([]), "{found}");
        assert_eq!(found["fetched"], 0, "{found}");
        assert_eq!(found["hacked"], false, "{found}");
        assert_eq!(found["width"], width, "{found}");
        assert!(found["scroll"].as_i64() <= Some(width), "the page scrolls sideways: {found}");
        assert_eq!(found["functions"], serde_json::json!([3, 1]), "all, then the chosen: {found}");
        assert!(found["plots"].as_i64() > Some(20), "{found}");
        assert_eq!(found["flat"], 0, "pictures have a size: {found}");
        backgrounds.push(found["background"].clone());
    }
    assert_eq!(backgrounds[0], backgrounds[2]);
    assert_eq!(backgrounds[1], backgrounds[3]);
    assert_ne!(backgrounds[0], backgrounds[1], "night looks like day");
}

/// Before anything else on the page: what goes wrong is written down.
const LISTEN: &str = "<script>
const errors = [];
addEventListener('error', event => errors.push(String(event.message)));
addEventListener('securitypolicyviolation', event => errors.push(event.violatedDirective));
</script>";

/// After everything else: opens all folds, looks, chooses a function, and tells the frame.
const PROBE: &str = "<script>
addEventListener('load', () => {
  document.querySelectorAll('details').forEach(fold => fold.open = true);
  const visible = () => [...document.querySelectorAll('details.function')]
    .filter(fold => fold.getBoundingClientRect().height > 0).length;
  const plots = [...document.querySelectorAll('svg.plot')];
  const found = {
    width: innerWidth,
    scroll: document.documentElement.scrollWidth,
    plots: plots.length,
    flat: plots.filter(plot => plot.getBoundingClientRect().width < 100).length,
    background: getComputedStyle(document.body).backgroundColor,
    fetched: performance.getEntriesByType('resource').length,
    hacked: 'hacked' in window,
    functions: [visible()],
  };
  const select = document.querySelector('.chooser select');
  select.selectedIndex = 2;
  select.dispatchEvent(new Event('change'));
  found.functions.push(visible());
  found.errors = errors;
  parent.postMessage(JSON.stringify(found), '*');
});
</script>";

/// Opens the page in a frame of this width: windows of a browser are never as narrow as a
/// phone. The scheme is Chromium's number: 0 is dark, 1 is light.
fn look(browser: &Path, place: &Workplace, width: i64, scheme: &str) -> Value {
    place.write(
        "frame.html",
        format!(
            "<!doctype html><body><script>addEventListener('message', event => \
             document.body.dataset.found = encodeURIComponent(event.data))</script>\
             <iframe src=\"probed.html\" style=\"border:0;width:{width}px;height:900px\"></iframe>"
        ),
    );
    let profile = tempfile::tempdir().unwrap();
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--window-size=1400,1000", "--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", place.path("frame.html").display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
            panic!("{} did not end within two minutes", browser.display());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let output = child.wait_with_output().unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, rest) = dom.split_once("data-found=\"").unwrap_or_else(|| panic!("no answer: {dom}"));
    serde_json::from_str(&decoded(rest.split('"').next().unwrap())).unwrap()
}

/// The reverse of `encodeURIComponent`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).unwrap()
}

/// The browser that `./test` installed, or the machine's own.
fn browser() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("HOMEOSTAT_TEST_BROWSER") {
        return Some(path.into());
    }
    let folders = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut places =
        std::env::split_paths(&folders).flat_map(|folder| names.map(|name| folder.join(name)));
    places.find(|path| path.is_file())
}
