use super::*;
use crate::measure::{Problem, Source};
use serde_json::{Value, json};

pub(super) const MIB: u64 = 1 << 20;

fn engine(goals: Value, replicas: (u32, u32)) -> Engine {
    let global = json!({"minReplicas": replicas.0, "maxReplicas": replicas.1});
    constrained(goals, json!({"global": global}))
}

/// A quarter of a second at the 99th percentile.
fn latency_goal() -> Value {
    json!({"slo": {"latency": {"percentile": "99", "threshold": "250ms", "query": "q"}}})
}

pub(super) fn constrained(goals: Value, constraints: Value) -> Engine {
    let spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "checkout"},
        "mode": "Auto",
        "goals": goals,
        "constraints": constraints,
    });
    let plan = Plan::try_new(&serde_json::from_value(spec).expect("valid")).expect("valid");
    Engine::new(plan, TrustConfig::default()).expect("it makes sense")
}

/// Two days after pods started, unless they are young.
pub(super) fn at(seconds: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_secs(2 * 86_400 + seconds)
}

/// A container that requests and uses so many millicores and mebibytes.
pub(super) fn container(
    seconds: u64,
    name: &str,
    request: (u64, u64),
    used: (u64, u64),
) -> ContainerInputs {
    let reading = |value: f64| Some(Reading { value, at: at(seconds), source: Source::MetricsApi });
    ContainerInputs {
        name: name.to_owned(),
        cpu_request: Millicores::new(request.0),
        memory_request: Bytes::from_mib(request.1),
        cpu: reading(used.0 as f64 / 1e3),
        memory: reading((used.1 * MIB) as f64),
    }
}

fn inputs(seconds: u64, started: SimTime, pods: Vec<Vec<ContainerInputs>>) -> Inputs {
    let pods = pods.into_iter().enumerate().map(|(place, containers)| PodInputs {
        name: format!("pod-{place}"),
        started,
        is_ready: true,
        served_throughout: None,
        containers,
    });
    let pods: Vec<_> = pods.collect();
    Inputs {
        now: at(seconds),
        window: SimDuration::from_secs(15),
        replicas: pods.len() as u32,
        pods,
        oom_kills: BTreeMap::new(),
        use_problem: None,
        objective: None,
        queries: Vec::new(),
    }
}

pub(super) fn recommend(engine: &mut Engine, inputs: &Inputs) -> Outcome {
    engine.recommend(inputs, None, None).expect("there are pods")
}

#[test]
fn a_rollout_that_is_underway_is_not_judged_by_the_mean_of_its_pods() {
    let mut engine = engine(json!({}), (10, 10));
    let mut sizes = vec![512; 10];
    let look = |engine: &mut Engine, seconds: u64, sizes: &[u64]| {
        let pod = |&size: &u64| vec![container(seconds, "app", (500, size), (200, 200))];
        let inputs = inputs(seconds, SimTime::ZERO, sizes.iter().map(pod).collect());
        recommend(engine, &inputs).containers["app"].1.bytes().div_ceil(MIB)
    };
    let target = look(&mut engine, 0, &sizes);
    assert!((200..300).contains(&target), "{target}");
    for place in 0..10 {
        sizes[place] = target;
        // A copy that begins to lead half-way goes on as well.
        let mut memory = Snapshot::default();
        engine.save("engine", &mut memory);
        engine.load("engine", &memory).expect("just saved");
        assert_eq!(look(&mut engine, 60 + place as u64 * 15, &sizes), target, "{sizes:?}");
    }
}

#[test]
fn pods_that_differ_from_what_they_were_told_keep_the_largest_of_what_they_have() {
    let mut engine = engine(json!({}), (4, 4));
    // Nobody has had time to learn anything, so what there is stays.
    let pod = |size: u64| vec![container(0, "app", (500, size), (200, 200))];
    let pods = [256, 256, 356, 356].map(pod).to_vec();
    let outcome = recommend(&mut engine, &inputs(0, at(0), pods));
    assert_eq!(outcome.decision.from().memory, Bytes::from_mib(356));
    assert!(outcome.containers["app"].1 >= Bytes::from_mib(356), "{:?}", outcome.containers);
}

#[test]
fn what_is_not_requested_is_given_by_use_and_left_alone_until_that_is_known() {
    let look = |used: Option<u64>| {
        let mut engine = engine(json!({}), (2, 10));
        let mut container = container(0, "app", (0, 0), (used.unwrap_or(0), 300));
        if used.is_none() {
            (container.cpu, container.memory) = (None, None);
        }
        recommend(&mut engine, &inputs(0, at(0), vec![vec![container]; 2]))
    };
    let outcome = look(None);
    assert_eq!(outcome.containers["app"], (Millicores::ZERO, Bytes::ZERO));
    assert!(!outcome.is_limited, "{:?}", outcome.reasons);
    let outcome = look(Some(210));
    let (cpu, memory) = outcome.containers["app"];
    // As full as it may be: at seven tenths.
    assert!((290..=330).contains(&cpu.millicores()), "{cpu}");
    assert!(memory >= Bytes::from_mib(300), "{memory}");
    assert_eq!(outcome.decision.applied().replicas, 2);
    let words = outcome.reasons.join("; ");
    assert!(words.contains("they request no CPU so far"), "{words}");
}

#[test]
fn a_kill_for_want_of_memory_is_heard_of_once_figures_are_believed_again() {
    let mut engine = engine(json!({}), (3, 3));
    let mut look = |seconds: u64, oom_kills: u32, is_silent: bool| {
        let mut pod = vec![container(seconds, "app", (200, 260), (50, 190))];
        if is_silent {
            pod[0].cpu = None;
        }
        let oom_kills = BTreeMap::from([("app".to_owned(), oom_kills)]);
        let inputs = Inputs { oom_kills, ..inputs(seconds, at(0), vec![pod; 3]) };
        recommend(&mut engine, &inputs).containers["app"].1
    };
    let present = Bytes::from_mib(260);
    for seconds in (0..600).step_by(15) {
        assert_eq!(look(seconds, 0, false), present);
    }
    assert_eq!(look(600, 1, true), present);
    assert_eq!(look(615, 0, true), present);
    // Pods are replaced one by one, so it lasts.
    for seconds in [630, 645, 900] {
        let larger = look(seconds, 0, false);
        assert!(larger > present, "{larger} at {seconds}");
    }
}

#[test]
fn whoever_recommends_nothing_goes_down_while_the_objective_is_broken() {
    let mut spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "checkout"},
        "mode": "Auto",
        "goals": latency_goal(),
        "constraints": {"global": {"minReplicas": 1, "maxReplicas": 20}},
    });
    spec["recommenders"] = json!([{"name": "hpa+vpa"}]);
    let plan = Plan::try_new(&serde_json::from_value(spec).expect("valid")).expect("valid");
    let mut engine = Engine::new(plan, TrustConfig::default()).expect("it makes sense");
    for seconds in (0..1800).step_by(15) {
        // Something else is slow: pods have little to do.
        let pod = vec![container(seconds, "app", (500, 512), (50, 100))];
        let mut inputs = inputs(seconds, SimTime::ZERO, vec![pod; 8]);
        let source = Source::Prometheus;
        inputs.objective = Some(Ok(Reading { value: 0.9, at: at(seconds), source }));
        let outcome = recommend(&mut engine, &inputs);
        assert_eq!(outcome.decision.applied().replicas, 8, "{:?}", outcome.reasons);
        assert_eq!(outcome.containers["app"], (Millicores::new(500), Bytes::from_mib(512)));
    }
}

#[test]
fn no_container_gets_less_while_the_objective_is_broken() {
    let mut engine = engine(latency_goal(), (2, 2));
    let mut least = (u64::MAX, u64::MAX);
    for seconds in (0..3600).step_by(15) {
        let pod = vec![
            container(seconds, "app", (100, 512), (99, 300)),
            container(seconds, "sidecar", (200, 512), (5, 50)),
        ];
        let mut inputs = inputs(seconds, at(0), vec![pod; 2]);
        let source = Source::Prometheus;
        inputs.objective = Some(Ok(Reading { value: 0.9, at: at(seconds), source }));
        let outcome = recommend(&mut engine, &inputs);
        let (cpu, memory) = outcome.containers["sidecar"];
        least = (least.0.min(cpu.millicores()), least.1.min(memory.bytes() / MIB));
    }
    assert_eq!(least, (200, 512));
}

#[test]
fn containers_of_a_pod_whose_size_stays_keep_theirs_until_history_is_sure() {
    let mut engine = engine(json!({}), (1, 10));
    for seconds in (0..600).step_by(15) {
        let pod = vec![
            container(seconds, "app", (500, 512), (200, 100)),
            container(seconds, "sidecar", (100, 128), (60, 60)),
        ];
        let outcome = recommend(&mut engine, &inputs(seconds, at(0), vec![pod.clone(), pod]));
        let size = |name: &str| outcome.containers[name];
        assert_eq!(size("app"), (Millicores::new(500), Bytes::from_mib(512)));
        assert_eq!(size("sidecar"), (Millicores::new(100), Bytes::from_mib(128)));
    }
}

/// Name of a container, what it requests, and what it uses.
type Described<'a> = (&'a str, (u64, u64), (u64, u64));

/// Looks at pods a minute apart, and says what their containers should request in the end, in
/// millicores and mebibytes.
fn after_minutes(
    engine: &mut Engine,
    (minutes, pods): (u64, usize),
    containers: &[Described<'_>],
    killed: Option<&str>,
) -> BTreeMap<String, (u64, u64)> {
    let mut told = BTreeMap::new();
    for seconds in (0..minutes).map(|minute| minute * 60) {
        let pod = containers
            .iter()
            .map(|(name, request, used)| container(seconds, name, *request, *used));
        let pod: Vec<_> = pod.collect();
        let oom_kills = killed.iter().map(|name| ((*name).to_owned(), 1)).collect();
        let inputs = Inputs { oom_kills, ..inputs(seconds, SimTime::ZERO, vec![pod; pods]) };
        told = recommend(engine, &inputs).containers;
    }
    let in_units = |(cpu, memory): (Millicores, Bytes)| (cpu.millicores(), memory.bytes() / MIB);
    told.into_iter().map(|(name, size)| (name, in_units(size))).collect()
}

fn beside_a_proxy_that_is_not_sized(goals: Value, min_replicas: u32) -> Engine {
    let container = json!([{"name": "proxy", "mode": "Off"}]);
    let global = json!({"minReplicas": min_replicas, "maxReplicas": 4});
    constrained(goals, json!({"container": container, "global": global}))
}

#[test]
fn what_a_container_requests_and_does_not_use_is_not_taken_from_another() {
    let mut engine = beside_a_proxy_that_is_not_sized(json!({}), 2);
    let pod = [("app", (200, 256), (60, 200)), ("proxy", (100, 128), (5, 60))];
    let told = after_minutes(&mut engine, (14 * 60, 2), &pod, None);
    let (cpu, memory) = told["app"];
    assert!((60..100).contains(&cpu), "{told:?}");
    assert!((200..=256).contains(&memory), "{told:?}");
    assert_eq!(told["proxy"], (100, 128));
}

#[test]
fn a_small_container_beside_a_large_one_that_is_idle_comes_back_when_load_does() {
    for latency in [0.1, 0.9] {
        let mut engine = beside_a_proxy_that_is_not_sized(latency_goal(), 1);
        let mut app = 23;
        // A day of looks; its limit is twice its request, and that is what it uses.
        for seconds in (0..86_400).step_by(60) {
            let pod = vec![
                container(seconds, "app", (app, 256), (2 * app, 200)),
                container(seconds, "proxy", (1000, 128), (10, 60)),
            ];
            let mut inputs = inputs(seconds, SimTime::ZERO, vec![pod]);
            let source = Source::Prometheus;
            inputs.objective = Some(Ok(Reading { value: latency, at: at(seconds), source }));
            app = recommend(&mut engine, &inputs).containers["app"].0.millicores();
        }
        assert!(app > 100, "{app} at {latency} s");
    }
}

#[test]
fn containers_are_not_divided_anew_downwards_while_the_objective_is_silent() {
    let mut engine = beside_a_proxy_that_is_not_sized(latency_goal(), 1);
    for seconds in (0..86_400).step_by(60) {
        let pod = vec![
            container(seconds, "app", (500, 256), (60, 200)),
            container(seconds, "helper", (100, 256), (300, 200)),
            container(seconds, "proxy", (100, 128), (60, 60)),
        ];
        let mut inputs = inputs(seconds, SimTime::ZERO, vec![pod; 2]);
        inputs.objective = Some(Err(Problem::Missing { source: Source::Prometheus }));
        let told = recommend(&mut engine, &inputs).containers;
        assert!(told["app"].0 >= Millicores::new(500), "{told:?}");
    }
}

#[test]
fn a_container_that_is_not_sized_and_killed_makes_no_other_larger() {
    let mut engine = beside_a_proxy_that_is_not_sized(json!({}), 2);
    let pod = [("app", (200, 512), (100, 450)), ("proxy", (100, 64), (5, 60))];
    let told = after_minutes(&mut engine, (12, 2), &pod, Some("proxy"));
    assert!(told["app"].1 <= 600, "{told:?}");
}

#[test]
fn a_container_that_was_killed_gets_no_less_however_little_it_seemed_to_use() {
    let mut engine = engine(json!({}), (20, 20));
    // What one of twenty died of is no part of what nine of ten need.
    let pod = [("app", (500, 1024), (200, 1536)), ("sidecar", (50, 512), (5, 20))];
    let told = after_minutes(&mut engine, (3, 20), &pod, Some("sidecar"));
    assert!(told["app"].1 > 1024, "{told:?}");
    assert!(told["sidecar"].1 >= 512, "{told:?}");
}

#[test]
fn full_pods_whose_size_nobody_may_change_stay_as_many_as_they_may_be() {
    let goals = json!({"metrics": [{"resource": {"name": "cpu", "averageUtilization": 50}}]});
    let mut engine = constrained(
        goals,
        json!({
            "containerControlledResources": [],
            "global": {
                "minReplicas": 1, "maxReplicas": 6,
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
            },
        }),
    );
    for look in 0..4 {
        let pod = vec![container(look * 15, "app", (10, 8), (9, 8))];
        let outcome = recommend(&mut engine, &inputs(look * 15, SimTime::ZERO, vec![pod; 6]));
        assert_eq!(outcome.decision.applied().replicas, 6, "{:?}", outcome.reasons);
    }
}

#[test]
fn a_night_with_few_requests_takes_nothing_back() {
    let goals = json!({"slo": {"throughput": {"threshold": "100", "query": "q"}}});
    let check = |used: u64, expect: bool| {
        let mut engine = engine(goals.clone(), (1, 20));
        let mut look = |seconds: u64, pods: usize, used: u64, rate: f64| {
            let pod = vec![container(seconds, "app", (500, 512), (used, 300))];
            let mut inputs = inputs(seconds, at(0), vec![pod; pods]);
            let source = Source::Prometheus;
            inputs.objective = Some(Ok(Reading { value: rate, at: at(seconds), source }));
            recommend(&mut engine, &inputs)
        };
        look(0, 8, 200, 120.0);
        look(15, 4, 200, 120.0);
        let outcome = look(30, 4, used, 40.0);
        assert_eq!(outcome.is_reached, Some(false));
        assert_eq!(outcome.is_kept, expect.then_some(false));
        assert_eq!(outcome.is_reverted, expect, "{:?}", outcome.reasons);
        assert!(outcome.decision.applied().replicas >= 4);
    };
    check(50, false);
    // Pods that have all hands full are another thing.
    check(490, true);
}
