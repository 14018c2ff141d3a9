//! A coordinator that hosts a platform, and its agents, as processes: they die, stall and come
//! back, and the others go on.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::homeostat::{Workplace, refused};
use crate::processes::Process;

struct Team {
    place: Workplace,
    heartbeat_ms: u64,
    functions: usize,
    pace_ms: u64,
    step_deadline_ms: u64,
    /// Where the coordinator listens; any port at first, the same one ever after.
    address: String,
}

impl Team {
    fn new(functions: usize, heartbeat_ms: u64) -> Self {
        Self {
            place: Workplace::new(),
            heartbeat_ms,
            functions,
            pace_ms: 50,
            step_deadline_ms: 300,
            address: "127.0.0.1:0".to_owned(),
        }
    }

    fn coordinator(&mut self) -> Process {
        let mut coordinator = Process::start(&mut self.place.command(&format!(
            "coordinator --listen {} --heartbeat {}ms --state state --output json \
             --report-every 100ms --set faas.functions={} --pace {}ms --step-deadline {}ms",
            self.address, self.heartbeat_ms, self.functions, self.pace_ms, self.step_deadline_ms,
        )));
        let listening = coordinator.wait_for("listening", |_| true);
        self.address = listening["address"].as_str().unwrap().to_owned();
        coordinator
    }

    fn agent(&self, name: &str) -> Process {
        Process::start(&mut self.place.command(&format!(
            "agent --coordinator http://{} --name {name} --output json --report-every 200ms \
             --checkpoint-every 500ms --deadline 5s",
            self.address,
        )))
    }
}

fn number(event: &Value, field: &str) -> u64 {
    event[field].as_u64().unwrap_or_else(|| panic!("no {field} in {event}"))
}

fn members(coordinator: &mut Process, expect: u64) -> Value {
    let first = coordinator.listen().len();
    coordinator.wait_from(first, "status", |status| number(status, "members") == expect)
}

/// Waits until the platform has played so many further steps; the status after them.
fn further_steps(coordinator: &mut Process, steps: u64) -> Value {
    let first = coordinator.listen().len();
    let begun = number(&coordinator.wait_from(first, "status", |_| true), "step");
    coordinator.wait_from(first, "status", |status| number(status, "step") >= begun + steps)
}

#[test]
fn fifty_agents_on_one_platform_survive_the_coordinator_and_each_other() {
    const AGENTS: usize = 50;
    const HEARTBEAT_MS: u64 = 1000;
    let mut team = Team { pace_ms: 250, step_deadline_ms: 1000, ..Team::new(AGENTS, HEARTBEAT_MS) };
    let mut coordinator = team.coordinator();
    let mut agents: Vec<Process> =
        (0..AGENTS).map(|agent| team.agent(&format!("agent-{agent}"))).collect();
    members(&mut coordinator, AGENTS as u64);
    for agent in &mut agents {
        agent.wait_for("status", |status| status["members"] == AGENTS as u64);
    }
    // Every agent has a seat of its own.
    let seat = |agent: &mut Process| number(&agent.wait_for("seated", |_| true), "seat");
    let mut seats: Vec<u64> = agents.iter_mut().map(seat).collect();
    let given = seats.clone();
    seats.sort_unstable();
    assert!(seats.into_iter().eq(0..AGENTS as u64));

    // The coordinator dies: its state is on the disk, and every agent waits.
    coordinator.kill();
    for agent in &mut agents {
        agent.wait_for("away", |_| true);
    }

    // It comes back with platform and team, and hears all agents within two heartbeats.
    let mut coordinator = team.coordinator();
    let restored = coordinator.wait_for("restored", |_| true);
    assert_eq!(number(&restored, "members"), AGENTS as u64);
    assert!(number(&restored, "step") > 0, "{restored}");
    let complete =
        coordinator.wait_for("status", |status| number(status, "heard") == AGENTS as u64);
    let listening = coordinator.wait_for("listening", |_| true);
    let took = number(&complete, "at_ms") - number(&listening, "at_ms");
    assert!(took <= 2 * HEARTBEAT_MS, "the last agent came back after {took} ms");
    let mut lost = 0;
    for agent in &mut agents {
        lost += number(&agent.wait_for("rejoined", |_| true), "lost");
    }
    assert!(lost <= AGENTS as u64, "each lost the action on its way at most, all {lost}");
    let status = further_steps(&mut coordinator, 4);
    assert_eq!(number(&status, "members"), AGENTS as u64);
    assert!(number(&status, "accepted") >= 4 * AGENTS as u64, "{status}");

    // Ten agents die: their seats hold, these ten fall silent, and the others go on.
    for agent in &mut agents[..10] {
        agent.kill();
    }
    members(&mut coordinator, 40);
    let silent: Vec<&str> = coordinator
        .events
        .iter()
        .filter(|event| event["event"] == "timed_out")
        .map(|event| event["agent"].as_str().unwrap())
        .collect();
    assert_eq!(silent.len(), 10, "{silent:?}");
    for agent in 0..10 {
        assert!(silent.contains(&format!("agent-{agent}").as_str()), "{silent:?}");
    }
    let missed = number(&further_steps(&mut coordinator, 2), "missed");
    assert!(missed >= 20, "{missed} actions missed of ten agents");

    // Started again, they go on from their checkpoints, under their names, on their seats.
    for (number_of_agent, agent) in agents.iter_mut().enumerate().take(3) {
        let name = format!("agent-{number_of_agent}");
        *agent = team.agent(&name);
        assert!(number(&agent.wait_for("resumed", |_| true), "step") > 0);
        coordinator.wait_for("joined", |event| {
            event["agent"] == name.as_str() && event["is_rejoin"] == true
        });
        let seat = number(&agent.wait_for("seated", |_| true), "seat");
        assert_eq!(seat, given[number_of_agent]);
    }
    members(&mut coordinator, 43);

    // Ctrl-C: an agent that leaves is out at once, not after the timeout.
    agents[20].signal("INT");
    let (code, errors) = agents[20].finish();
    assert_eq!(code, Some(0), "{errors}");
    coordinator.wait_for("left", |event| event["agent"] == "agent-20");
    coordinator.signal("INT");
    let (code, errors) = coordinator.finish();
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(number(coordinator.newest("stopped").unwrap(), "members"), 42);
}

#[test]
fn a_stalled_agent_holds_up_no_other_and_garbage_reaches_none() {
    let mut team = Team::new(3, 400);
    let mut coordinator = team.coordinator();
    let mut agents = ["a", "b", "stalls"].map(|name| team.agent(name));
    members(&mut coordinator, 3);
    for agent in &mut agents {
        agent.wait_for("status", |status| number(status, "step") > 2);
    }

    let stalled = Instant::now();
    agents[2].signal("STOP");
    coordinator.wait_for("timed_out", |event| event["agent"] == "stalls");
    // Not before the timeout of 1.2 s, less the time since it was last heard.
    let took = stalled.elapsed();
    assert!(took >= Duration::from_millis(700), "silent after {took:?}");
    assert!(took < Duration::from_secs(10), "silent after {took:?}");
    members(&mut coordinator, 2);

    let noise: Vec<u8> =
        (0..200_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for bytes in
        [&noise[..], b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff"]
    {
        let mut stream = TcpStream::connect(&team.address).unwrap();
        // It may hang up before it has heard everything.
        let _ = stream.write_all(bytes);
    }
    for agent in &mut agents[..2] {
        let first = agent.listen().len();
        let status = agent.wait_from(first, "status", |status| status["members"] == 2);
        agent.wait_from(first, "status", |later| {
            number(later, "answered") >= number(&status, "answered") + 5
        });
        let is_alone = agent.events.iter().any(|event| event["event"] == "away");
        assert!(!is_alone, "the others lost their coordinator");
    }

    agents[2].signal("CONT");
    coordinator.wait_for("returned", |event| event["agent"] == "stalls");
    members(&mut coordinator, 3);
    let missed = number(&further_steps(&mut coordinator, 1), "missed");
    assert!(missed >= 5, "{missed} actions missed while it stalled");

    // The coordinator itself stalls for longer than its timeout: the agents wait, and none falls
    // silent for a silence that was the coordinator's own.
    coordinator.signal("STOP");
    std::thread::sleep(Duration::from_millis(2500));
    let first = coordinator.listen().len();
    coordinator.signal("CONT");
    let status = coordinator.wait_from(first, "status", |status| number(status, "clock_jumps") > 0);
    assert_eq!(number(&status, "members"), 3, "{status}");
    for agent in &mut agents {
        let first = agent.listen().len();
        let status = agent.wait_from(first, "status", |_| true);
        agent.wait_from(first, "status", |later| {
            number(later, "answered") > number(&status, "answered")
        });
    }
    let is_silent = coordinator.listen()[first..].iter().any(|event| event["event"] == "timed_out");
    assert!(!is_silent, "no agent was silent");
}

#[test]
fn the_last_to_register_a_name_has_it() {
    let mut team = Team::new(2, 400);
    let mut coordinator = team.coordinator();
    let mut first = team.agent("a");
    first.wait_for("joined", |_| true);
    let mut second = Process::start(&mut team.place.command(&format!(
        "agent --coordinator http://{} --name a --output json --report-every 200ms \
         --run-dir elsewhere",
        team.address,
    )));
    second.wait_for("joined", |_| true);
    let (code, errors) = first.finish();
    assert_eq!(code, Some(1));
    assert!(errors.contains("another agent has registered under this name"), "{errors}");
    members(&mut coordinator, 1);
    assert!(second.is_running());
}

#[test]
fn an_agent_whose_coordinator_is_late_waits_for_it() {
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut team = Team { address: free.to_string(), ..Team::new(2, 400) };
    let mut agent = team.agent("early");
    agent.wait_for("away", |_| true);
    let _coordinator = team.coordinator();
    agent.wait_for("joined", |_| true);
    agent.wait_for("status", |status| number(status, "step") > 3);
}

#[test]
fn over_tls_the_token_of_a_file_or_of_the_environment_lets_in() {
    const SECRET: &str = "a-secret-of-the-tests-alone";
    let place = Workplace::new();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    place.write("cert.pem", made.cert.pem());
    place.write("key.pem", made.signing_key.serialize_pem());
    place.write("token", format!("{SECRET}\n"));
    place.write("wrong", "another-secret-of-the-tests");
    let mut coordinator = Process::start(&mut place.command(
        "coordinator --listen 127.0.0.1:0 --heartbeat 400ms --tls-cert cert.pem \
         --tls-key key.pem --token-file token --output json --report-every 200ms \
         --set faas.functions=2",
    ));
    let listening = coordinator.wait_for("listening", |_| true);
    assert_eq!((&listening["tls"], &listening["token"]), (&true.into(), &true.into()));
    let port = listening["address"].as_str().unwrap().split(':').nth(1).unwrap().to_owned();
    let command = |name: &str, more: &str| {
        place.command(&format!(
            "agent --coordinator https://localhost:{port} --name {name} \
             --steps 5 --output json --deadline 5s {more}"
        ))
    };
    let mut by_file = Process::start(&mut command("file", "--tls-ca cert.pem --token-file token"));
    let mut by_variable = Process::start(
        command("variable", "--tls-ca cert.pem").env("HOMEOSTAT_COORDINATOR_TOKEN", SECRET),
    );
    for agent in [&mut by_file, &mut by_variable] {
        let (code, errors) = agent.finish();
        assert_eq!(code, Some(0), "{errors}");
        assert_eq!(number(agent.newest("stopped").unwrap(), "answered"), 5);
    }
    let refused = |mut command: std::process::Command, expect: &str| {
        let mut agent = Process::start(&mut command);
        let (code, errors) = agent.finish();
        assert_eq!(code, Some(1), "{errors}");
        assert!(errors.contains(expect), "{errors}");
        assert!(!errors.contains(SECRET), "{errors}");
    };
    refused(command("wrong", "--tls-ca cert.pem --token-file wrong"), "not the right one");
    refused(command("none", "--tls-ca cert.pem"), "asks for a token");
    let stranger = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    place.write("stranger.pem", stranger.cert.pem());
    refused(
        command("wary", "--tls-ca stranger.pem --token-file token"),
        "invalid peer certificate",
    );
    coordinator.wait_for("status", |status| number(status, "unauthenticated") == 2);
    let told = format!("{:?}", coordinator.events);
    assert!(!told.contains(SECRET), "{told}");
}

#[test]
fn wrong_calls_are_refused_with_the_way_out() {
    let place = Workplace::new();
    place.write("token", "long-enough-to-be-a-token");
    place.write("short", "short");
    let check = |arguments: &str, code: i32, expect: &str| {
        refused(&place, arguments, code, expect);
    };
    check("coordinator --listen 0.0.0.0:0", 2, "neither TLS nor a token");
    check("coordinator --listen 0.0.0.0:0 --token-file token", 2, "no TLS");
    check("coordinator --listen here", 2, "invalid value 'here'");
    check("coordinator --heartbeat 1s --timeout 1s", 2, "timeout must be from two heartbeats (2s)");
    check("coordinator --token-file short", 2, "fewer than 16 characters");
    check("coordinator --token-file nowhere", 1, "failed to read nowhere");
    check("coordinator --tls-cert token", 2, "--tls-key");
    check("coordinator --listen 127.0.0.1:0 --tls-cert token --tls-key token", 2, "cannot use TLS");
    let agent = "agent --name a --coordinator";
    check(&format!("{agent} http://10.0.0.1:7700"), 2, "neither TLS nor a token");
    check(&format!("{agent} https://10.0.0.1:7700 --token-file token"), 2, "--tls-ca");
    check(&format!("{agent} 127.0.0.1:7700"), 2, "is not an address of a server");
    check("agent --name a/b --coordinator http://127.0.0.1:7700", 2, "is no name of an agent");
    let here = format!("{agent} http://127.0.0.1:7700");
    check(&format!("{here} --env faas/function-v2"), 2, "an environment that many agents share");
    check("coordinator --env faas/function-v2", 2, "faas/function-v2 has a single agent");
    check("coordinator --set faas.churn=0.5", 2, "a fixed set of agents");
    check("coordinator --set faas.functions=0", 2, "faas.functions");
    check(&format!("{here} --preset s-rl --set ppo.num_envs=2"), 2, "it must be 1");
    assert!(!place.path("runs").exists(), "a refused call leaves nothing");
    std::fs::create_dir(place.path("full")).unwrap();
    place.write("full/letters", "");
    check("coordinator --listen 127.0.0.1:0 --state full", 2, "full is not empty");
}
