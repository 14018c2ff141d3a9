//! Recommenders that learn: learners over gRPC and policy files, for a workload on a real API server.
//! A bad learner does not harm the workload.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::time::Duration;

use homeostat_autoscaler::api::MultidimPodAutoscaler;
use homeostat_env::Action;
use homeostat_testbed::free_port;
use homeostat_wire::{ClientConfig, EnvironmentClient, EnvironmentError, Opening, Stepped};
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

use super::operator::{Operator, OperatorConfig, eventually};
use super::policies::{config_map, homeostat, of_steps};
use super::shop::{Shop, spec};

/// A workload with an object for a learner, and an operator that serves learners.
struct School {
    shop: Shop,
    operator: Operator,
    address: SocketAddr,
}

impl School {
    /// Two pods that use half of their requests.
    async fn open(name: &str, external: Value) -> Option<Self> {
        let shop = Shop::open(name).await?;
        shop.deployment("checkout", 2).await;
        for pod in ["checkout-0", "checkout-1"] {
            shop.uses(pod, "250m", "128Mi").await;
        }
        let mut object = spec("checkout", "Auto");
        object["recommenders"] = json!([{ "name": "external", "external": external }]);
        // Only the learner changes anything here.
        object["constraints"]["global"]["minReplicas"] = json!(2);
        shop.autoscaler("checkout", object).await.expect("taken");
        let address: SocketAddr = format!("127.0.0.1:{}", free_port()).parse().expect("valid");
        let listen = address.to_string();
        let config = OperatorConfig {
            arguments: &["--no-webhook", "--listen-learners", &listen],
            ..OperatorConfig::default()
        };
        let operator = Operator::start(shop.cluster, &shop.namespace, &config);
        Some(Self { shop, operator, address })
    }

    fn environment(&self) -> String {
        format!("{}/checkout", self.shop.namespace)
    }

    /// Keeps the usage of pods fresh while a blocking function runs.
    async fn beside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let mut work = tokio::task::spawn_blocking(work);
        loop {
            tokio::select! {
                done = &mut work => return done.expect("it does not panic"),
                () = tokio::time::sleep(Duration::from_secs(2)) => {
                    for pod in ["checkout-0", "checkout-1"] {
                        self.shop.uses(pod, "250m", "128Mi").await;
                    }
                }
            }
        }
    }

    async fn events(&self, reason: &str) -> Vec<Event> {
        let api: Api<Event> = self.shop.api();
        let all = api.list(&ListParams::default()).await.expect("listed");
        all.items.into_iter().filter(|event| event.reason.as_deref() == Some(reason)).collect()
    }
}

fn client(address: SocketAddr) -> EnvironmentClient {
    let config = ClientConfig {
        url: format!("http://{address}"),
        authorities: None,
        server_name: None,
        token: None,
        deadline: Duration::from_secs(30),
    };
    EnvironmentClient::new(&config).expect("a client")
}

/// `homeostat env serve` as a process of its own, and its address.
fn serve_simulated_environments() -> (Child, SocketAddr) {
    let mut command = homeostat();
    command.args(["env", "serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
    output.read_line(&mut line).expect("text");
    let address = line.trim().strip_prefix("listening on http://").expect("an address");
    (child, address.parse().expect("an address"))
}

/// Opens a session as soon as the environment exists.
fn begin(client: &mut EnvironmentClient, environment: &str) -> Opening {
    for _ in 0..300 {
        match client.init(environment) {
            Ok(opening) => return opening,
            Err(EnvironmentError::Away(_) | EnvironmentError::NotFound(_)) => {
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("{environment} does not open")
}

/// An agent that is independent of its environment: one episode of fixed actions.
fn play(address: SocketAddr, environment: &str, actions: &[usize]) -> (Opening, Vec<Stepped>) {
    let mut client = client(address);
    let opening = begin(&mut client, environment);
    let state = client.reset(&opening.session, Some(1)).expect("a state");
    assert!(opening.observation.contains_observation(&state), "{state:?}");
    let steps = actions.iter().map(|action| {
        let step = client.step(&opening.session, &Action::Discrete(*action)).expect("a step");
        assert!(opening.observation.contains_observation(&step.state), "{:?}", step.state);
        assert!(step.reward.is_finite());
        step
    });
    let steps = steps.collect();
    (opening, steps)
}

#[tokio::test]
async fn a_learner_acts_in_a_workload_as_in_a_simulated_environment() {
    let Some(school) = School::open("learner", json!({})).await else { return };
    let (mut simulator, simulated) = serve_simulated_environments();
    // One pod more, then nothing.
    let actions = [5, 0];
    let (opening, steps) =
        tokio::task::spawn_blocking(move || play(simulated, "faas/function-v2", &actions))
            .await
            .expect("played");
    let (address, environment) = (school.address, school.environment());
    let (real, real_steps) = school.beside(move || play(address, &environment, &actions)).await;
    assert_eq!((&real.observation, &real.action), (&opening.observation, &opening.action));
    let names = |opening: &Opening| -> Vec<String> {
        opening.observation_fields.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&real), names(&opening));
    assert_eq!(real_steps.len(), steps.len());
    eventually("the pod that the learner added", async || {
        (school.shop.replicas("checkout").await == 3).then_some(())
    })
    .await;
    simulator.kill().expect("it runs");
    simulator.wait().expect("it ends");
}

#[tokio::test]
async fn while_the_learner_does_not_answer_joint_recommends_and_the_condition_says_so() {
    let external = json!({ "timeout": "300ms" });
    let Some(school) = School::open("silent-learner", external).await else { return };
    let message = school.shop.condition("checkout", "Ready", "RecommenderUnavailable").await;
    assert!(message.contains("no learner has opened a session; joint recommends"), "{message}");

    // It acts once, and then does not answer the next state.
    let (address, environment) = (school.address, school.environment());
    school
        .beside(move || {
            let mut client = client(address);
            let session = begin(&mut client, &environment).session;
            client.reset(&session, None).expect("a state");
            client.step(&session, &Action::Discrete(0)).expect("a step");
        })
        .await;
    eventually("the missing answer in the condition", async || {
        for pod in ["checkout-0", "checkout-1"] {
            school.shop.uses(pod, "250m", "128Mi").await;
        }
        let api: Api<MultidimPodAutoscaler> = school.shop.api();
        let status = api.get("checkout").await.expect("it is there").status?;
        let ready = status.conditions.into_iter().find(|found| found.type_ == "Ready")?;
        ready.message.contains("the learner").then_some(())
    })
    .await;
    assert!(school.shop.replicas("checkout").await >= 2);
    assert!(!school.events("RecommenderUnavailable").await.is_empty(), "no event tells of it");
    let metrics = school.operator.get("/metrics").expect("an answer");
    assert!(metrics.contains("reason=\"RecommenderUnavailable\""), "{metrics}");
}

#[tokio::test]
async fn invalid_actions_and_a_million_pods_do_no_harm() {
    let external = json!({ "actions": "Allocation", "timeout": "1s" });
    let Some(school) = School::open("mad-learner", external).await else { return };
    let (address, environment) = (school.address, school.environment());
    school
        .beside(move || {
            let mut client = client(address);
            let session = begin(&mut client, &environment).session;
            client.reset(&session, None).expect("a state");
            for nonsense in [
                Action::Continuous(vec![f32::NAN, 1.0, 1.0]),
                Action::Continuous(vec![3.0, -1.0, f32::INFINITY]),
                Action::Discrete(3),
            ] {
                let error = client.step(&session, &nonsense).expect_err("it is refused");
                assert!(matches!(error, EnvironmentError::NoAction(_)), "{error}");
                client.reset(&session, None).expect("a state");
            }
        })
        .await;
    let message = school.shop.condition("checkout", "Ready", "RecommenderInvalid").await;
    assert!(message.contains("three numbers from 0 on") || message.contains("not replicas"));
    assert!(!school.events("RecommenderInvalid").await.is_empty(), "no event tells of it");
    let metrics = school.operator.get("/metrics").expect("an answer");
    assert!(metrics.contains("reason=\"RecommenderInvalid\""), "{metrics}");

    // A million pods are limited to the maximum of the object and to its rate.
    let (address, environment) = (school.address, school.environment());
    school
        .beside(move || {
            let mut client = client(address);
            let session = begin(&mut client, &environment).session;
            client.reset(&session, None).expect("a state");
            let million = Action::Continuous(vec![1e6, 1e6, 1e6]);
            client.step(&session, &million).expect("it is an allocation");
        })
        .await;
    let replicas = school.shop.replicas("checkout").await;
    assert!((2..=10).contains(&replicas), "{replicas} pods");
    school.shop.condition("checkout", "ScalingLimited", "Limited").await;

    // No pods are limited to the minimum of the object.
    let (address, environment) = (school.address, school.environment());
    school
        .beside(move || {
            let mut client = client(address);
            let session = begin(&mut client, &environment).session;
            client.reset(&session, None).expect("a state");
            for _ in 0..3 {
                let none = Action::Continuous(vec![0.0, 0.0, 0.0]);
                client.step(&session, &none).expect("it is an allocation");
            }
        })
        .await;
    assert!(school.shop.replicas("checkout").await >= 2);
}

#[tokio::test]
async fn a_policy_file_recommends_and_joint_does_until_there_is_one() {
    let Some(shop) = Shop::open("policy-file").await else { return };
    shop.deployment("checkout", 2).await;
    for pod in ["checkout-0", "checkout-1"] {
        shop.uses(pod, "250m", "128Mi").await;
    }
    let mut object = spec("checkout", "Recommend");
    let file = json!({ "configMap": "checkout-policy", "key": "policy" });
    object["recommenders"] = json!([{ "name": "policy", "policyFile": file }]);
    shop.autoscaler("checkout", object.clone()).await.expect("taken");
    let no_webhook = OperatorConfig { arguments: &["--no-webhook"], ..OperatorConfig::default() };
    let _operator = Operator::start(shop.cluster, &shop.namespace, &no_webhook);
    let message = shop.condition("checkout", "Ready", "RecommenderUnavailable").await;
    assert!(message.contains("kubectl create configmap checkout-policy"), "{message}");

    let maps: Api<ConfigMap> = shop.api();
    let map = config_map("checkout-policy", of_steps());
    maps.create(&PostParams::default(), &map).await.expect("created");
    // A change of the object triggers a reconcile.
    object["constraints"]["global"]["maxReplicas"] = json!(9);
    object["recommenders"][0]["policyFile"]["key"] = json!("absent");
    shop.autoscaler("checkout", object.clone()).await.expect("taken");
    eventually("the keys of the ConfigMap", async || {
        let api: Api<MultidimPodAutoscaler> = shop.api();
        let status = api.get("checkout").await.expect("it is there").status?;
        let ready = status.conditions.into_iter().find(|found| found.type_ == "Ready")?;
        ready.message.contains("has the keys [policy]").then_some(())
    })
    .await;
    object["recommenders"][0]["policyFile"]["key"] = json!("policy");
    shop.autoscaler("checkout", object).await.expect("taken");
    let message = shop.condition("checkout", "Ready", "AsPlanned").await;
    assert_eq!(message, "policy recommends");
    let api: Api<MultidimPodAutoscaler> = shop.api();
    let status = api.get("checkout").await.expect("it is there").status.expect("it has one");
    let reasons = &status.decisions[0].reasons;
    assert!(reasons.iter().any(|reason| reason.starts_with("action: ")), "{reasons:?}");
}
