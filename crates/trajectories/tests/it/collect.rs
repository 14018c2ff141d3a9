//! The collector: what it takes, what it refuses, and what it offers.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use homeostat_trajectories::{Filter, export_records};

use crate::setup::{Place, origin, record};

const TOKEN: &str = "a token of sufficient length";

struct Collector {
    process: Child,
    address: String,
}

impl Collector {
    fn start(place: &Place, arguments: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_homeostat-trajectories"))
            .args(["collect", "--listen", "127.0.0.1:0", "--store", "store.db"])
            .args(arguments.split_whitespace())
            .current_dir(place.path(""))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { process, address }
    }

    /// Status and body of an answer.
    fn ask(&self, method: &str, path: &str, token: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        // A refusal may arrive before everything was sent.
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let status = String::from_utf8_lossy(&answer[9..12]).parse().unwrap();
        (status, answer[end + 4..].to_vec())
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Lines of two trajectories.
fn lines() -> Vec<u8> {
    let place = Place::new();
    let mut store = place.store();
    record(&mut store, &origin("shop/checkout", "hpa+vpa"), &[0.5, 0.75]);
    record(&mut store, &origin("shop/cart", "hpa+vpa"), &[0.25]);
    let mut text = Vec::new();
    export_records(&mut store, &Filter::default(), &mut text).unwrap();
    text
}

fn count(place: &Place) -> usize {
    place.store().list(&Filter::default()).unwrap().len()
}

#[test]
fn what_is_sent_twice_is_stored_once_also_after_kill_9() {
    let place = Place::new();
    let collector = Collector::start(&place, "");
    let post =
        |collector: &Collector, text: &[u8]| collector.ask("POST", "/v1/trajectories", "", text).0;
    assert_eq!(post(&collector, &lines()), 200);
    assert_eq!(post(&collector, &lines()), 200);
    assert_eq!(count(&place), 2);
    drop(collector);
    let collector = Collector::start(&place, "");
    assert_eq!(post(&collector, &lines()), 200);
    assert_eq!(count(&place), 2);
}

#[test]
fn what_cannot_be_stored_is_refused_for_good_and_nothing_of_it_is_kept() {
    let place = Place::new();
    let collector = Collector::start(&place, "");
    let refused = |text: &[u8], expect: &str| {
        let (status, why) = collector.ask("POST", "/v1/trajectories", "", text);
        let why = String::from_utf8(why).unwrap();
        assert_eq!(status, 400, "{why}");
        assert!(why.contains(expect), "{why}");
        assert_eq!(count(&place), 0);
    };
    refused(b"minutes of a meeting\n", "line 1: ");
    let text = String::from_utf8(lines()).unwrap();
    let (_, without_origin) = text.split_once('\n').unwrap();
    refused(without_origin.as_bytes(), "no trajectory has begun");
    let wrong = text.replacen("\"reward\":0.25", "\"reward\":1e999", 1);
    refused(wrong.as_bytes(), "line ");
    let wrong = text.replacen("\"action\":[1.0]", "\"action\":[1.0,2.0]", 1);
    refused(wrong.as_bytes(), "an action has 2 numbers");
    let (status, _) = collector.ask("POST", "/v1/trajectories", "", &vec![b'x'; 17 << 20]);
    assert_eq!(status, 413);
}

#[test]
fn only_who_has_the_token_may_write_and_read() {
    let place = Place::new();
    fs::write(place.path("token"), format!("{TOKEN}\n")).unwrap();
    fs::create_dir_all(place.path("policies/shop")).unwrap();
    fs::write(place.path("policies/shop/checkout.policy"), b"the policy").unwrap();
    fs::write(place.path("secret.policy"), b"secret").unwrap();
    let collector = Collector::start(&place, "--token-file token --policies policies");
    let get = |path: &str, token: &str| collector.ask("GET", path, token, b"");
    for token in ["", "a token of sufficient lengtH", "a token of sufficient length and more"] {
        assert_eq!(get("/v1/policies/shop/checkout", token).0, 401);
        assert_eq!(collector.ask("POST", "/v1/trajectories", token, &lines()).0, 401);
    }
    assert_eq!(count(&place), 0);
    assert_eq!(get("/v1/policies/shop/checkout", TOKEN), (200, b"the policy".to_vec()));
    for path in [
        "/v1/policies/shop/cart",
        "/v1/policies/../secret",
        "/v1/policies/shop/../../secret",
        "/v1/policies/..%2fsecret/x",
        "/v1/policies/shop",
        "/etc/passwd",
    ] {
        assert_eq!(get(path, TOKEN).0, 404, "{path}");
    }
    assert_eq!(get("/healthz", "").0, 200);
}

#[test]
fn beyond_this_machine_a_token_and_tls_are_required() {
    let place = Place::new();
    fs::write(place.path("token"), TOKEN).unwrap();
    fs::write(place.path("short"), "12345").unwrap();
    let refused = |arguments: &str, expect: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_homeostat-trajectories"))
            .args(["collect", "--store", "store.db"])
            .args(arguments.split_whitespace())
            .current_dir(place.path(""))
            .output()
            .unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && told.contains(expect), "{arguments}: {told}");
    };
    refused("--listen 0.0.0.0:0", "give --token-file");
    refused("--listen 0.0.0.0:0 --token-file token", "give --tls-cert and --tls-key");
    refused("--token-file short", "at least 16 characters");
    refused("--token-file nothing", "cannot read nothing");
    refused("--tls-cert token --tls-key token", "token is no certificate");
}
