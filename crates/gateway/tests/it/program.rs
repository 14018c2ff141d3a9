//! The program: its commands, new settings while it runs, TLS, and its end.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::process::{LISTEN, Process, program};
use crate::setup::Scripted;

fn output(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = program().args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn help_says_when_ordering_cannot_help_and_the_default_settings_are_checked() {
    let (code, help, _) = output(&["--help"]);
    assert_eq!(code, Some(0));
    assert!(help.contains("When requests do not queue, ordering cannot help"), "{help}");
    assert!(help.contains("homeostat bench gateway"), "{help}");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("gateway.toml");
    let (_, settings, _) = output(&["settings"]);
    std::fs::write(
        &file,
        format!("{settings}\n[[upstreams]]\nname = \"a\"\nurl = \"http://127.0.0.1:1/v1\"\n"),
    )
    .unwrap();
    let (code, checked, _) = output(&["check", file.to_str().unwrap()]);
    assert_eq!(code, Some(0));
    assert!(checked.contains("1 upstreams, 0 keys, no errors"), "{checked}");
    std::fs::write(&file, "[queue]\norder = \"longest\"\n").unwrap();
    let (code, _, error) = output(&["check", file.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(error.contains("longest") && error.contains("gateway.toml"), "{error}");
}

#[test]
fn the_benchmark_has_all_its_figures() {
    let arguments = ["bench", "--rate", "100", "--seconds", "1", "--streams", "20"];
    let (code, text, error) =
        output(&[&arguments[..], &["--repetitions", "1", "--output", "json"]].concat());
    assert_eq!(code, Some(0), "{error}");
    let figures: serde_json::Value = serde_json::from_str(&text).unwrap();
    for figure in [
        "/overhead_ms/p50",
        "/overhead_ms/p99",
        "/requests_per_s",
        "/cpu_us_per_request",
        "/rss_mb",
        "/break_even/at_0.9/waiting_share_fcfs/mean",
        "/break_even/at_0.9/gain_pct_aged/mean",
        "/break_even/at_0.9/gain_pct_shortest_first/mean",
    ] {
        assert!(figures.pointer(figure).is_some_and(serde_json::Value::is_f64), "{figure}: {text}");
    }
    assert_eq!(figures["connections"], 20);
    assert!(figures["break_even"].get("load_aged").is_some());
}

#[test]
fn a_key_is_printed_once_with_the_hash_that_admits_it() {
    let (_, text, _) = output(&["key", "team \"a\""]);
    let key = text.lines().nth(1).unwrap();
    let hash: String =
        homeostat_gateway::admission::hash(key).iter().map(|byte| format!("{byte:02x}")).collect();
    let table: toml::Table = text.split_once("Settings:\n").unwrap().1.parse().unwrap();
    assert_eq!(table["keys"][0]["sha256"].as_str(), Some(hash.as_str()));
    assert_eq!(table["keys"][0]["name"].as_str(), Some("team \"a\""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_takes_all_files_that_it_may_and_says_when_they_are_too_few() {
    let upstream = Scripted::start().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("gateway.toml");
    let listen = format!("{LISTEN}max_connections = 10000\n");
    std::fs::write(&file, format!("{listen}{}", upstream.settings("a", 2))).unwrap();
    let told = |files: u64| {
        let limits =
            format!("ulimit -Sn 100; ulimit -Hn {files}; exec \"$0\" run --settings \"$1\"");
        let mut child = std::process::Command::new("bash")
            .args(["-c", &limits, env!("CARGO_BIN_EXE_homeostat-gateway")])
            .arg(&file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id()));
        child.kill().unwrap();
        let told = child.wait_with_output().unwrap().stderr;
        (String::from_utf8(told).unwrap(), limits.unwrap_or_default())
    };
    let (warning, limits) = told(900);
    assert!(warning.contains("900 files may be open"), "{warning}");
    assert!(warning.contains("418 streams"), "{warning}");
    if let Some(line) = limits.lines().find(|line| line.starts_with("Max open files")) {
        assert!(!line.contains(" 100 "), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_settings_are_used_without_a_restart_and_wrong_ones_change_nothing() {
    let upstream = Scripted::start().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("gateway.toml");
    let alias = |name: &str| format!("[[models]]\nname = \"{name}\"\nserve = [\"m\"]\n");
    let write = |more: &str| {
        std::fs::write(&file, format!("{LISTEN}{}{more}", upstream.settings("a", 2))).unwrap()
    };
    write("");
    let process = Process::start(&file);
    write(&alias("first"));
    process.signal(rustix::process::Signal::HUP);
    process.until("/v1/models", "\"first\"");
    write(&format!("{}[wrong]\n", alias("second")));
    process.signal(rustix::process::Signal::HUP);
    std::thread::sleep(Duration::from_millis(300));
    assert!(process.get("/v1/models").contains("\"first\""));
    // The change of a file is noticed without a signal.
    write(&alias("third"));
    process.until("/v1/models", "\"third\"");
    let mut process = process;
    process.signal(rustix::process::Signal::TERM);
    assert_eq!(process.child.wait().unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_outlives_a_kill_and_a_file_that_is_no_budget_is_refused() {
    let upstream = Scripted::start().await;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let hash = homeostat_gateway::admission::hash("secret");
    let hash = homeostat_gateway::admission::hexadecimal(&hash);
    let key = format!("[[keys]]\nname = \"k\"\nsha256 = \"{hash}\"\ntokens_per_day = 5\n");
    let budget_file = format!("budget_file = {:?}\n", path("budgets.json").to_str().unwrap());
    let settings = format!("{budget_file}{LISTEN}{}{key}", upstream.settings("a", 2));
    std::fs::write(path("gateway.toml"), settings).unwrap();
    let post = async |process: &Process| {
        let body = crate::setup::chat("answer 4", "");
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\nconnection: close\r\n\
             authorization: Bearer secret\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        crate::setup::exchange(&process.address, head.as_bytes()).await
    };
    let process = Process::start(&path("gateway.toml"));
    assert_eq!(post(&process).await.status, 200);
    let end = Instant::now() + Duration::from_secs(15);
    while !std::fs::read_to_string(path("budgets.json")).unwrap().contains(&hash) {
        assert!(Instant::now() < end, "the budget is not written");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // SIGKILL.
    drop(process);
    let process = Process::start(&path("gateway.toml"));
    assert_eq!(post(&process).await.error(), (429, "insufficient_quota".to_owned()));
    drop(process);
    std::fs::write(path("budgets.json"), "[]").unwrap();
    let (code, _, error) = output(&["run", "--settings", path("gateway.toml").to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(error.contains("budgets.json") && error.contains("remove it"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_use_tls_and_a_renewed_certificate_is_served_without_a_restart() {
    let upstream = Scripted::start().await;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let renew = || {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(path("key.pem"), made.signing_key.serialize_pem()).unwrap();
        std::fs::write(path("cert.pem"), made.cert.pem()).unwrap();
        made.cert.der().clone()
    };
    let first = renew();
    let tls = format!(
        "certificate = {:?}\nkey = {:?}\n",
        path("cert.pem").to_str().unwrap(),
        path("key.pem").to_str().unwrap()
    );
    std::fs::write(path("gateway.toml"), format!("{LISTEN}{tls}{}", upstream.settings("a", 2)))
        .unwrap();
    let process = Process::start(&path("gateway.toml"));
    assert!(models_over_tls(&process.address, &first).await.unwrap().contains("\"m\""));
    let second = renew();
    let end = Instant::now() + Duration::from_secs(15);
    while models_over_tls(&process.address, &second).await.is_err() {
        assert!(Instant::now() < end, "the renewed certificate is not served");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(models_over_tls(&process.address, &first).await.is_err());
}

/// Trusts this certificate alone.
async fn models_over_tls(
    address: &str,
    trusted: &tokio_rustls::rustls::pki_types::CertificateDer<'static>,
) -> std::io::Result<String> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(std::sync::Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(address).await?;
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let mut stream = connector.connect("localhost".try_into().unwrap(), stream).await?;
    stream.write_all(b"GET /v1/models HTTP/1.1\r\nhost: g\r\nconnection: close\r\n\r\n").await?;
    let mut bytes = Vec::new();
    // The peer may close without a goodbye once it has said everything.
    let _ = stream.read_to_end(&mut bytes).await;
    Ok(String::from_utf8(bytes).unwrap())
}
