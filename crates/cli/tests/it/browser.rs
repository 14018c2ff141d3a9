//! A real browser that opens a page and reports what it finds.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use homeostat_test_skip::skip;
use serde_json::{Value, json};

use crate::homeostat::Workplace;

/// Chromium.
pub(crate) struct Browser {
    program: PathBuf,
}

impl Browser {
    /// The browser that `./test` installed, or the machine's own; says so if there is none.
    pub(crate) fn find() -> Option<Self> {
        let chosen = std::env::var_os("HOMEOSTAT_TEST_BROWSER").map(PathBuf::from);
        let program = chosen.or_else(|| {
            let directories = std::env::var_os("PATH")?;
            let names = ["chromium", "chromium-browser", "google-chrome"];
            let mut places = std::env::split_paths(&directories)
                .flat_map(|directory| names.map(|name| directory.join(name)));
            places.find(|path| path.is_file())
        });
        if program.is_none() {
            skip("no chromium; run ./test, or set HOMEOSTAT_TEST_BROWSER");
        }
        program.map(|program| Self { program })
    }

    /// Opens a page of the workplace on a phone and a desk, by day and by night. Expects no
    /// error, no request, no script from a name, no scrolling sideways and pictures with a size;
    /// `script` adds to `found` what `expect` looks at.
    pub(crate) fn check(
        &self,
        place: &Workplace,
        page: &str,
        script: &str,
        expect: impl Fn(&Value),
    ) {
        let page = String::from_utf8(place.read(page)).unwrap();
        // Where a page forbids all scripts, those of its names could not show that they run.
        let page = page.replacen("style-src 'unsafe-inline'\"", OPENED, 1);
        let page = page.replacen("<head>", &format!("<head>{LISTEN}"), 1);
        let probe = PROBE.replacen("MORE", script, 1);
        place.write("probed.html", page.replacen("</body>", &format!("{probe}</body>"), 1));
        let mut backgrounds = Vec::new();
        for (width, scheme) in [(390, "1"), (390, "0"), (1200, "1"), (1200, "0")] {
            let found = self.look(place, width, scheme);
            assert_eq!(found["errors"], json!([]), "{found}");
            assert_eq!(found["fetched"], 0, "{found}");
            assert_eq!(found["hacked"], false, "{found}");
            assert_eq!(found["width"], width, "{found}");
            assert!(found["scroll"].as_i64() <= Some(width), "the page scrolls sideways: {found}");
            assert_eq!(found["flat"], 0, "pictures have a size: {found}");
            expect(&found);
            backgrounds.push(found["background"].clone());
        }
        assert_eq!(backgrounds[0], backgrounds[2]);
        assert_eq!(backgrounds[1], backgrounds[3]);
        assert_ne!(backgrounds[0], backgrounds[1], "night looks like day");
    }

    /// Opens the probed page in a frame of this width: windows of a browser are never as narrow
    /// as a phone. The scheme is Chromium's number: 0 is dark, 1 is light.
    fn look(&self, place: &Workplace, width: i64, scheme: &str) -> Value {
        place.write(
            "frame.html",
            format!(
                "<!doctype html><body><script>addEventListener('message', event => \
                 document.body.dataset.found = encodeURIComponent(event.data))</script>\
                 <iframe src=\"probed.html\" style=\"border:0;width:{width}px;height:900px\"></iframe>"
            ),
        );
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new(&self.program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"])
            .args(["--no-first-run", "--disable-background-networking"])
            .args(["--disable-component-update", "--disable-sync"])
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
                panic!("{} did not end within two minutes", self.program.display());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let output = child.wait_with_output().unwrap();
        let dom = String::from_utf8_lossy(&output.stdout).into_owned();
        let (_, rest) =
            dom.split_once("data-found=\"").unwrap_or_else(|| panic!("no answer: {dom}"));
        serde_json::from_str(&decoded(rest.split('"').next().unwrap())).unwrap()
    }
}

/// The policy of a page without scripts, opened for those of the test.
const OPENED: &str = "style-src 'unsafe-inline'; script-src 'unsafe-inline'\"";

/// Before anything else on the page: what goes wrong is written down.
const LISTEN: &str = "<script>
const errors = [];
addEventListener('error', event => errors.push(String(event.message)));
addEventListener('securitypolicyviolation', event => errors.push(event.violatedDirective));
</script>";

/// After everything else: opens all folds, collects, and reports to the frame.
const PROBE: &str = "<script>
addEventListener('load', () => {
  document.querySelectorAll('details').forEach(fold => fold.open = true);
  const plots = [...document.querySelectorAll('svg.plot')];
  const found = {
    width: innerWidth,
    scroll: document.documentElement.scrollWidth,
    plots: plots.length,
    flat: plots.filter(plot => plot.getBoundingClientRect().width < 100).length,
    background: getComputedStyle(document.body).backgroundColor,
    fetched: performance.getEntriesByType('resource').length,
    hacked: 'hacked' in window,
  };
  MORE
  found.errors = errors;
  parent.postMessage(JSON.stringify(found), '*');
});
</script>";

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
