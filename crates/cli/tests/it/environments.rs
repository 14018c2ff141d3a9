//! `env serve` as a process: a learner plays in it, strangers do not, and Ctrl-C ends it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use homeostat_env::Action;
use homeostat_wire::{ClientConfig, EnvironmentClient, EnvironmentError, Token};

use crate::homeostat::{Workplace, refused};

const SECRET: &str = "a-secret-of-the-tests";

/// A server of environments; it is killed with the test.
struct Served {
    process: Child,
    url: String,
}

impl Served {
    fn start(place: &Workplace, more: &str) -> Self {
        let mut command = place.command(&format!("env serve --listen 127.0.0.1:0 {more}"));
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line:?}"));
        Self { url: url.trim().to_owned(), process }
    }

    fn config(&self) -> ClientConfig {
        ClientConfig {
            url: self.url.clone(),
            authorities: None,
            server_name: None,
            token: None,
            deadline: Duration::from_secs(30),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // One that has ended already cannot be killed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_learner_plays_in_a_world_of_another_process() {
    let place = Workplace::new();
    let mut served = Served::start(&place, "--max-sessions 1");
    let mut learner = EnvironmentClient::new(&served.config()).unwrap();
    let opening = learner.init("faas/function-v2").unwrap();
    let state = learner.reset(&opening.session, Some(1)).unwrap();
    assert!(opening.observation.contains_observation(&state), "{state:?}");
    let stepped = learner.step(&opening.session, &Action::Discrete(5)).unwrap();
    assert!(stepped.reward.is_finite());
    let full = learner.init("faas/function-v2").unwrap_err();
    assert!(matches!(full, EnvironmentError::Full(_)), "{full:?}");

    let id = served.process.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    assert_eq!(served.process.wait().unwrap().code(), Some(0));
}

#[test]
fn over_tls_only_those_who_know_the_token_play() {
    let place = Workplace::new();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    place.write("cert.pem", made.cert.pem());
    place.write("key.pem", made.signing_key.serialize_pem());
    place.write("token", SECRET);
    let served = Served::start(&place, "--tls-cert cert.pem --tls-key key.pem --token-file token");
    assert!(served.url.starts_with("https://"), "{}", served.url);
    let trusting =
        ClientConfig { authorities: Some(made.cert.pem().into_bytes()), ..served.config() };
    let stranger = EnvironmentClient::new(&trusting).unwrap().init("classic/cartpole-v1");
    assert!(matches!(stranger, Err(EnvironmentError::Denied(_))), "{stranger:?}");
    let known = ClientConfig { token: Token::new(SECRET).ok(), ..trusting };
    EnvironmentClient::new(&known).unwrap().init("classic/cartpole-v1").unwrap();
}

#[test]
fn wrong_calls_are_refused_with_the_way_out() {
    let place = Workplace::new();
    let check = |arguments: &str, code: i32, expect: &str| {
        refused(&place, arguments, code, expect);
    };
    check("env serve --listen 0.0.0.0:0", 2, "neither TLS nor a token");
    check("env serve --listen here", 2, "invalid value 'here'");
    check("env serve --token-file nowhere", 1, "failed to read nowhere");
    check("env serve --tls-key key.pem", 2, "--tls-cert");
}
