//! A coordinator and its agents as processes: they die, stall and come back, and the others go on.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::homeostat::{Workplace, refused};
use crate::processes::Process;

struct Team {
    place: Workplace,
    heartbeat_ms: u64,
    /// Where the coordinator listens; any port at first, the same one ever after.
    address: String,
}

impl Team {
    fn new(heartbeat_ms: u64) -> Self {
        Self { place: Workplace::new(), heartbeat_ms, address: "127.0.0.1:0".to_owned() }
    }

    fn coordinator(&mut self) -> Process {
        let mut coordinator = Process::start(&mut self.place.command(&format!(
            "coordinator --listen {} --heartbeat {}ms --state state --output json \
             --report-every 100ms",
            self.address, self.heartbeat_ms,
        )));
        let listening = coordinator.wait_for("listening", |_| true);
        self.address = listening["address"].as_str().unwrap().to_owned();
        coordinator
    }

    fn agent(&self, name: &str, pace_ms: u64) -> Process {
        Process::start(&mut self.place.command(&format!(
            "agent --coordinator http://{} --name {name} --pace {pace_ms}ms --output json \
             --report-every 200ms --checkpoint-every 500ms --deadline 5s",
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

#[test]
fn fifty_agents_survive_the_coordinator_and_each_other() {
    const AGENTS: usize = 50;
    const HEARTBEAT_MS: u64 = 1000;
    let mut team = Team::new(HEARTBEAT_MS);
    let mut coordinator = team.coordinator();
    let mut agents: Vec<Process> =
        (0..AGENTS).map(|agent| team.agent(&format!("agent-{agent}"), 250)).collect();
    members(&mut coordinator, AGENTS as u64);
    for agent in &mut agents {
        agent.wait_for("status", |status| status["members"] == AGENTS as u64);
    }

    // The coordinator dies: everybody goes on deciding.
    coordinator.kill();
    let steps = |agents: &mut Vec<Process>| -> Vec<u64> {
        let step = |agent: &mut Process| number(agent.newest("status").unwrap(), "step");
        agents.iter_mut().map(step).collect()
    };
    for agent in &mut agents {
        agent.wait_for("away", |_| true);
    }
    let before = steps(&mut agents);
    std::thread::sleep(Duration::from_secs(2));
    for (agent, (before, after)) in before.iter().zip(steps(&mut agents)).enumerate() {
        assert!(after >= before + 3, "agent {agent} went from step {before} to {after} alone");
    }

    // It comes back knowing who was there, and hears all of them within two heartbeats.
    let mut coordinator = team.coordinator();
    let restored = coordinator.wait_for("restored", |_| true);
    assert_eq!(number(&restored, "members"), AGENTS as u64);
    let complete =
        coordinator.wait_for("status", |status| number(status, "heard") == AGENTS as u64);
    let listening = coordinator.wait_for("listening", |_| true);
    let took = number(&complete, "at_ms") - number(&listening, "at_ms");
    assert!(took <= 2 * HEARTBEAT_MS, "the last agent came back after {took} ms");
    assert_eq!(number(&complete, "members"), AGENTS as u64);
    for agent in &mut agents {
        agent.wait_for("rejoined", |_| true);
    }

    // What was lost is counted on both sides: by the agents what they could not deliver, by the
    // coordinator also what it had heard since its last checkpoint.
    let first = coordinator.listen().len();
    let status = coordinator.wait_from(first, "status", |_| true);
    let undelivered: u64 = agents
        .iter_mut()
        .map(|agent| number(&agent.wait_for("rejoined", |_| true), "undelivered"))
        .sum();
    let (missed, fleet) = (number(&status, "missed"), AGENTS as u64);
    assert!(undelivered >= 3 * fleet, "{undelivered} undelivered in two seconds");
    assert!(missed + fleet >= undelivered, "{missed} missed of {undelivered} undelivered");
    assert!(missed <= undelivered + 10 * fleet, "{missed} missed of {undelivered} undelivered");
    assert_eq!(status["refused"], serde_json::json!({}));

    // Ten agents die: these ten leave the team, and nobody else.
    for agent in &mut agents[..10] {
        agent.kill();
    }
    members(&mut coordinator, 40);
    let gone: Vec<&str> = coordinator
        .events
        .iter()
        .filter(|event| event["event"] == "timed_out")
        .map(|event| event["agent"].as_str().unwrap())
        .collect();
    assert_eq!(gone.len(), 10, "{gone:?}");
    for agent in 0..10 {
        assert!(gone.contains(&format!("agent-{agent}").as_str()), "{gone:?}");
    }

    // Started again, they go on from their checkpoints, under their names, in a new session.
    for (number_of_agent, agent) in agents.iter_mut().enumerate().take(3) {
        *agent = team.agent(&format!("agent-{number_of_agent}"), 250);
        assert!(number(&agent.wait_for("resumed", |_| true), "step") > 0);
        let name = format!("agent-{number_of_agent}");
        coordinator.wait_for("joined", |event| {
            event["agent"] == name.as_str() && event["is_rejoin"] == true
        });
    }
    members(&mut coordinator, 43);

    // Ctrl-C: whoever leaves is out at once, not after the timeout.
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
fn a_stalled_agent_leaves_the_team_and_garbage_reaches_nobody() {
    let mut team = Team::new(400);
    let mut coordinator = team.coordinator();
    let mut agents = ["a", "b", "stalls"].map(|name| team.agent(name, 50));
    members(&mut coordinator, 3);

    let stalled = Instant::now();
    agents[2].signal("STOP");
    coordinator.wait_for("timed_out", |event| event["agent"] == "stalls");
    // Not before the timeout of 1.2 s, less what had passed since it was last heard; long before
    // anything would be noticed by hand.
    let took = stalled.elapsed();
    assert!(took >= Duration::from_millis(700), "left after {took:?}");
    assert!(took < Duration::from_secs(10), "left after {took:?}");
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
            number(later, "delivered") >= number(&status, "delivered") + 5
        });
        let is_alone = agent.events.iter().any(|event| event["event"] == "away");
        assert!(!is_alone, "the others lost their coordinator");
    }

    agents[2].signal("CONT");
    coordinator.wait_for("returned", |event| event["agent"] == "stalls");
    members(&mut coordinator, 3);

    // The coordinator itself stalls for longer than its timeout: everybody goes on, and nobody is
    // evicted for a silence that was its own.
    coordinator.signal("STOP");
    let before = agents.each_mut().map(|agent| number(agent.newest("status").unwrap(), "step"));
    std::thread::sleep(Duration::from_millis(2500));
    let after = agents.each_mut().map(|agent| number(agent.newest("status").unwrap(), "step"));
    for (before, after) in before.iter().zip(after) {
        assert!(after >= before + 5, "from step {before} to {after} without a coordinator");
    }
    let first = coordinator.listen().len();
    coordinator.signal("CONT");
    let status = coordinator.wait_from(first, "status", |status| number(status, "clock_jumps") > 0);
    assert_eq!(number(&status, "members"), 3, "{status}");
    for agent in &mut agents {
        let first = agent.listen().len();
        let status = agent.wait_from(first, "status", |_| true);
        agent.wait_from(first, "status", |later| {
            number(later, "delivered") > number(&status, "delivered")
        });
    }
    let evicted = coordinator.listen()[first..].iter().any(|event| event["event"] == "timed_out");
    assert!(!evicted, "nobody was silent but the coordinator");
}

#[test]
fn the_last_to_register_a_name_has_it() {
    let mut team = Team::new(400);
    let mut coordinator = team.coordinator();
    let mut first = team.agent("a", 50);
    first.wait_for("joined", |_| true);
    let mut second = Process::start(&mut team.place.command(&format!(
        "agent --coordinator http://{} --name a --pace 50ms --output json --report-every 200ms \
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
fn an_agent_whose_coordinator_is_late_starts_alone() {
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut team = Team { address: free.to_string(), ..Team::new(400) };
    let mut agent = team.agent("early", 50);
    agent.wait_for("away", |_| true);
    agent.wait_for("status", |status| number(status, "step") > 3 && number(status, "learned") <= 1);
    let _coordinator = team.coordinator();
    agent.wait_for("joined", |_| true);
    agent.wait_for("status", |status| number(status, "learned") > 3);
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
         --tls-key key.pem --token-file token --output json --report-every 200ms",
    ));
    let listening = coordinator.wait_for("listening", |_| true);
    assert_eq!((&listening["tls"], &listening["token"]), (&true.into(), &true.into()));
    let port = listening["address"].as_str().unwrap().split(':').nth(1).unwrap().to_owned();
    let command = |name: &str, more: &str| {
        place.command(&format!(
            "agent --coordinator https://localhost:{port} --name {name} --pace 50ms \
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
        assert_eq!(number(agent.newest("stopped").unwrap(), "delivered"), 5);
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
    check(&format!("{agent} 127.0.0.1:7700"), 2, "is no address of a server");
    check("agent --name a/b --coordinator http://127.0.0.1:7700", 2, "is no name of an agent");
    let here = format!("{agent} http://127.0.0.1:7700");
    check(&format!("{here} --env faas/course-v2"), 2, "needs the observations and actions of");
    check(&format!("{here} --env classic/cartpole-v1"), 2, "needs the observations and actions of");
    check(&format!("{here} --function nonsense"), 2, "faas.function");
    check(&format!("{here} --preset s-rl --set ppo.num_envs=2"), 2, "it must be 1");
    assert!(!place.path("runs").exists(), "a refused call leaves nothing");
    std::fs::create_dir(place.path("full")).unwrap();
    place.write("full/letters", "");
    check("coordinator --listen 127.0.0.1:0 --state full", 2, "full holds other things");
}
