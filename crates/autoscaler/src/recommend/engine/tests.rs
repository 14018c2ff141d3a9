use super::*;
use crate::measure::{Problem, Source};
use crate::recommend::LoadInputs;
use serde_json::{Value, json};

pub(super) const MIB: u64 = 1 << 20;

pub(super) fn engine(goals: Value, replicas: (u32, u32)) -> Engine {
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
    Engine::new(plan, TrustConfig::default()).expect("valid")
}

/// Two days after pods started, unless they are young.
pub(super) fn at(seconds: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_secs(2 * 86_400 + seconds)
}

/// A container with these requests and this usage, in millicores and mebibytes.
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

pub(super) fn inputs(seconds: u64, started: SimTime, pods: Vec<Vec<ContainerInputs>>) -> Inputs {
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
        load: LoadInputs::default(),
        team: None,
    }
}

pub(super) fn recommend(engine: &mut Engine, inputs: &Inputs) -> Outcome {
    engine.recommend(inputs, None, None).expect("there are pods")
}

#[test]
fn during_a_rollout_the_target_size_counts_and_not_the_mean_of_the_pods() {
    let mut engine = engine(json!({}), (10, 10));
    let mut sizes = vec![512; 10];
    let reconcile = |engine: &mut Engine, seconds: u64, sizes: &[u64]| {
        let pod = |&size: &u64| vec![container(seconds, "app", (500, size), (200, 200))];
        let inputs = inputs(seconds, SimTime::ZERO, sizes.iter().map(pod).collect());
        recommend(engine, &inputs).containers["app"].1.bytes().div_ceil(MIB)
    };
    let target = reconcile(&mut engine, 0, &sizes);
    assert!((200..300).contains(&target), "{target}");
    for place in 0..10 {
        sizes[place] = target;
        // A replica that becomes the leader half-way continues the same way.
        let mut memory = Snapshot::default();
        engine.save("engine", &mut memory);
        engine.load("engine", &memory).expect("just saved");
        assert_eq!(reconcile(&mut engine, 60 + place as u64 * 15, &sizes), target, "{sizes:?}");
    }
}

#[test]
fn pods_that_differ_keep_their_largest_size_if_none_has_the_target() {
    let mut engine = engine(json!({}), (4, 4));
    // There is no history yet, so the sizes stay.
    let pod = |size: u64| vec![container(0, "app", (500, size), (200, 200))];
    let pods = [256, 256, 356, 356].map(pod).to_vec();
    let outcome = recommend(&mut engine, &inputs(0, at(0), pods));
    assert_eq!(outcome.decision.from().memory, Bytes::from_mib(356));
    assert!(outcome.containers["app"].1 >= Bytes::from_mib(356), "{:?}", outcome.containers);
}

#[test]
fn a_missing_request_follows_from_usage_and_stays_missing_until_usage_is_known() {
    let reconcile = |used: Option<u64>| {
        let mut engine = engine(json!({}), (2, 10));
        let mut container = container(0, "app", (0, 0), (used.unwrap_or(0), 300));
        if used.is_none() {
            (container.cpu, container.memory) = (None, None);
        }
        recommend(&mut engine, &inputs(0, at(0), vec![vec![container]; 2]))
    };
    let outcome = reconcile(None);
    assert_eq!(outcome.containers["app"], (Millicores::ZERO, Bytes::ZERO));
    assert!(!outcome.is_limited, "{:?}", outcome.reasons);
    let outcome = reconcile(Some(210));
    let (cpu, memory) = outcome.containers["app"];
    // At a utilisation of 70 %.
    assert!((290..=330).contains(&cpu.millicores()), "{cpu}");
    assert!(memory >= Bytes::from_mib(300), "{memory}");
    assert_eq!(outcome.decision.applied().replicas, 2);
    let reasons = outcome.reasons.join("; ");
    assert!(reasons.contains("replicas request no CPU yet"), "{reasons}");
}

#[test]
fn an_oom_kill_counts_once_metrics_are_trusted_again() {
    let mut engine = engine(json!({}), (3, 3));
    let mut reconcile = |seconds: u64, oom_kills: u32, is_silent: bool| {
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
        assert_eq!(reconcile(seconds, 0, false), present);
    }
    assert_eq!(reconcile(600, 1, true), present);
    assert_eq!(reconcile(615, 0, true), present);
    // Pods are replaced one by one, so the kill counts for a while.
    for seconds in [630, 645, 900] {
        let larger = reconcile(seconds, 0, false);
        assert!(larger > present, "{larger} at {seconds}");
    }
}

#[test]
fn no_recommender_scales_down_while_the_slo_is_violated() {
    let mut spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "checkout"},
        "mode": "Auto",
        "goals": latency_goal(),
        "constraints": {"global": {"minReplicas": 1, "maxReplicas": 20}},
    });
    spec["recommenders"] = json!([{"name": "hpa+vpa"}]);
    let plan = Plan::try_new(&serde_json::from_value(spec).expect("valid")).expect("valid");
    let mut engine = Engine::new(plan, TrustConfig::default()).expect("valid");
    for seconds in (0..1800).step_by(15) {
        // Something else is slow: the pods are idle.
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
fn no_request_falls_while_the_slo_is_violated() {
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
fn containers_of_a_pod_whose_size_stays_keep_their_requests_until_the_history_is_long() {
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

/// The name of a container, its requests and its usage.
type Described<'a> = (&'a str, (u64, u64), (u64, u64));

/// Reconciles once a minute, and returns the last recommended requests in millicores and mebibytes.
fn after_minutes(
    engine: &mut Engine,
    minutes: u64,
    pods: usize,
    containers: &[Described<'_>],
    killed: Option<&str>,
) -> BTreeMap<String, (u64, u64)> {
    let mut sizes = BTreeMap::new();
    for seconds in (0..minutes).map(|minute| minute * 60) {
        let pod = containers
            .iter()
            .map(|(name, request, used)| container(seconds, name, *request, *used));
        let pod: Vec<_> = pod.collect();
        let oom_kills = killed.iter().map(|name| ((*name).to_owned(), 1)).collect();
        let inputs = Inputs { oom_kills, ..inputs(seconds, SimTime::ZERO, vec![pod; pods]) };
        sizes = recommend(engine, &inputs).containers;
    }
    let in_units = |(cpu, memory): (Millicores, Bytes)| (cpu.millicores(), memory.bytes() / MIB);
    sizes.into_iter().map(|(name, size)| (name, in_units(size))).collect()
}

fn beside_an_uncontrolled_proxy(goals: Value, min_replicas: u32) -> Engine {
    let container = json!([{"name": "proxy", "mode": "Off"}]);
    let global = json!({"minReplicas": min_replicas, "maxReplicas": 4});
    constrained(goals, json!({"container": container, "global": global}))
}

#[test]
fn an_unused_request_of_an_uncontrolled_container_is_not_taken_from_another() {
    let mut engine = beside_an_uncontrolled_proxy(json!({}), 2);
    let pod = [("app", (200, 256), (60, 200)), ("proxy", (100, 128), (5, 60))];
    let sizes = after_minutes(&mut engine, 14 * 60, 2, &pod, None);
    let (cpu, memory) = sizes["app"];
    assert!((60..100).contains(&cpu), "{sizes:?}");
    assert!((200..=256).contains(&memory), "{sizes:?}");
    assert_eq!(sizes["proxy"], (100, 128));
}

#[test]
fn a_small_container_beside_a_large_idle_one_grows_with_the_load() {
    for latency in [0.1, 0.9] {
        let mut engine = beside_an_uncontrolled_proxy(latency_goal(), 1);
        let mut app = 23;
        // A day of reconciles; its limit is twice its request, and it uses all of it.
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
fn no_request_falls_while_the_slo_is_not_measured() {
    let mut engine = beside_an_uncontrolled_proxy(latency_goal(), 1);
    for seconds in (0..86_400).step_by(60) {
        let pod = vec![
            container(seconds, "app", (500, 256), (60, 200)),
            container(seconds, "helper", (100, 256), (300, 200)),
            container(seconds, "proxy", (100, 128), (60, 60)),
        ];
        let mut inputs = inputs(seconds, SimTime::ZERO, vec![pod; 2]);
        inputs.objective = Some(Err(Problem::Missing { source: Source::Prometheus }));
        let sizes = recommend(&mut engine, &inputs).containers;
        assert!(sizes["app"].0 >= Millicores::new(500), "{sizes:?}");
    }
}

#[test]
fn the_containers_of_a_pod_get_what_was_decided_for_it() {
    let limits = json!([{"name": "app", "requests": {"maxAllowed": {"cpu": "300m"}}}]);
    let global = json!({"minReplicas": 2, "maxReplicas": 2});
    let mut engine = constrained(json!({}), json!({"container": limits, "global": global}));
    let pod = vec![
        container(0, "app", (250, 256), (250, 200)),
        container(0, "helper", (250, 256), (250, 200)),
    ];
    let outcome = recommend(&mut engine, &inputs(0, SimTime::ZERO, vec![pod; 2]));
    let [app, helper] = ["app", "helper"].map(|name| outcome.containers[name].0.millicores());
    let decided = outcome.decision.applied().cpu.millicores();
    assert!(decided > 650, "{}", outcome.decision);
    // What the one may not get, the other does.
    assert_eq!((app, helper), (300, decided - 300));
}

#[test]
fn an_oom_kill_of_an_uncontrolled_container_makes_no_other_larger() {
    let mut engine = beside_an_uncontrolled_proxy(json!({}), 2);
    let pod = [("app", (200, 512), (100, 450)), ("proxy", (100, 64), (5, 60))];
    let sizes = after_minutes(&mut engine, 12, 2, &pod, Some("proxy"));
    assert!(sizes["app"].1 <= 600, "{sizes:?}");
}

#[test]
fn the_memory_of_a_container_with_an_oom_kill_does_not_fall() {
    let mut engine = engine(json!({}), (20, 20));
    // The usage of one pod in twenty is above the 90th percentile.
    let pod = [("app", (500, 1024), (200, 1536)), ("sidecar", (50, 512), (5, 20))];
    let sizes = after_minutes(&mut engine, 3, 20, &pod, Some("sidecar"));
    assert!(sizes["app"].1 > 1024, "{sizes:?}");
    assert!(sizes["sidecar"].1 >= 512, "{sizes:?}");
}

#[test]
fn full_pods_of_a_fixed_size_stay_at_the_maximum_number() {
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
    for reconcile in 0..4 {
        let pod = vec![container(reconcile * 15, "app", (10, 8), (9, 8))];
        let outcome = recommend(&mut engine, &inputs(reconcile * 15, SimTime::ZERO, vec![pod; 6]));
        assert_eq!(outcome.decision.applied().replicas, 6, "{:?}", outcome.reasons);
    }
}

#[test]
fn a_throughput_that_falls_with_the_load_causes_no_rollback() {
    let goals = json!({"slo": {"throughput": {"threshold": "100", "query": "q"}}});
    let check = |used: u64, expect: bool| {
        let mut engine = engine(goals.clone(), (1, 20));
        let mut reconcile = |seconds: u64, pods: usize, used: u64, rate: f64| {
            let pod = vec![container(seconds, "app", (500, 512), (used, 300))];
            let mut inputs = inputs(seconds, at(0), vec![pod; pods]);
            let source = Source::Prometheus;
            inputs.objective = Some(Ok(Reading { value: rate, at: at(seconds), source }));
            recommend(&mut engine, &inputs)
        };
        reconcile(0, 8, 200, 120.0);
        reconcile(15, 4, 200, 120.0);
        let outcome = reconcile(30, 4, used, 40.0);
        assert_eq!(outcome.is_reached, Some(false));
        assert_eq!(outcome.is_slo_met, expect.then_some(false));
        assert_eq!(outcome.is_rolled_back, expect, "{:?}", outcome.reasons);
        assert!(outcome.decision.applied().replicas >= 4);
    };
    check(50, false);
    // Busy pods are the cause of a missed throughput.
    check(490, true);
}

#[test]
fn the_limits_of_changes_in_the_spec_hold() {
    let limited = |changes: Value| {
        let global = json!({"minReplicas": 2, "maxReplicas": 20});
        constrained(json!({}), json!({"global": global, "changes": changes}))
    };
    let busy = |engine: &mut Engine, seconds: u64, pods: usize| {
        // The memory is what its usage needs, so that the number alone changes.
        let pod = vec![container(seconds, "app", (500, 512), (500, 424))];
        recommend(engine, &inputs(seconds, SimTime::ZERO, vec![pod; pods])).decision
    };
    let guards = |decision: &Decision| -> Vec<GuardReason> {
        let reasons = decision.reasons().iter();
        let guards = reasons.filter_map(|reason| match reason {
            Reason::Guard(reason) => Some(*reason),
            _ => None,
        });
        guards.collect()
    };
    let is_cool_down = |reason: &GuardReason| matches!(reason, GuardReason::CoolDown { .. });
    let is_rate_limited = |reason: &GuardReason| matches!(reason, GuardReason::RateLimited { .. });
    let check = |changes: Value, is_expected: &dyn Fn(&GuardReason) -> bool, until: u64| {
        let mut engine = limited(changes);
        let first = busy(&mut engine, 0, 2);
        assert_eq!(first.applied().replicas, 3, "{first}");
        let held = busy(&mut engine, 15, 3);
        assert_eq!(held.applied().replicas, 3, "{held}");
        assert!(guards(&held).iter().any(is_expected), "{held}");
        let later = busy(&mut engine, until, 3);
        assert!(later.applied().replicas > 3, "{later}");
    };
    check(json!({"coolDown": {"up": "1m"}}), &is_cool_down, 60);
    check(json!({"rateLimit": {"changes": 1, "period": "30s"}}), &is_rate_limited, 45);

    let large = vec![container(0, "app", (500, 512), (200, 100))];
    let shrunk = |changes: Value| {
        let inputs = inputs(0, SimTime::ZERO, vec![large.clone(); 2]);
        recommend(&mut limited(changes), &inputs).decision
    };
    let free = shrunk(json!({})).applied().memory;
    assert!(free < Bytes::from_mib(300), "{free}");
    let limited = shrunk(json!({"maxSizeStep": "10%"}));
    assert_eq!(limited.applied().memory.bytes(), (512.0 * MIB as f64 * 0.9).ceil() as u64);
    let is_step = |reason: &GuardReason| matches!(reason, GuardReason::StepDownLimited { .. });
    assert!(guards(&limited).iter().any(is_step), "{limited}");
}
