//! A team on a cluster: objects whose policy files read one another, and three services under real
//! load on one real node that policies of `simppo+` scale, trained in simulation.

use std::process::Command;

use homeostat_autoscaler::api::{MultidimPodAutoscaler, MultidimPodAutoscalerStatus};
use homeostat_operator::install::definitions;
use homeostat_testbed::{
    IngressConfig, IngressMetrics, Load, RealCluster, Workload, define, free_port,
    iterations_per_millisecond, webhook_configuration,
};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::operator::{Operator, OperatorConfig, eventually, eventually_within};
use super::policies::{
    KEY, config_map, of_simppo_plus, of_simppo_plus_in_a_team, of_steps_in_a_team,
};
use super::real_shop::{PATIENCE, is_ready, on_a_real_node};
use super::shop::{Shop, spec};

const POLICY: &str = "team-policy";

fn recommenders() -> Value {
    json!([{ "name": "policy", "policyFile": { "configMap": POLICY, "key": KEY } }])
}

/// What the policy of an object read last, by the name of a feature.
fn feature(status: &MultidimPodAutoscalerStatus, name: &str) -> Option<f64> {
    let reasons = &status.decisions.first()?.reasons;
    let read = reasons.iter().find_map(|reason| reason.strip_prefix("the policy read "))?;
    let mut features = read.split(", ").filter_map(|one| one.rsplit_once(' '));
    features.find(|(found, _)| *found == name)?.1.parse().ok()
}

#[tokio::test]
async fn a_policy_reads_the_other_objects_of_its_team_and_no_others() {
    let Some(shop) = Shop::open("team").await else { return };
    let maps = Api::namespaced(shop.client.clone(), &shop.namespace);
    let map = config_map(POLICY, of_steps_in_a_team());
    maps.create(&PostParams::default(), &map).await.expect("created");
    // Cart and checkout share a pool; search and mail are the team of all others.
    let members =
        [("cart", Some("pool")), ("checkout", Some("pool")), ("search", None), ("mail", None)];
    let used = |name: &str| match name {
        "cart" => "100m",
        "checkout" => "200m",
        "search" => "300m",
        _ => "400m",
    };
    let measure = async || {
        for (name, _) in members {
            shop.uses(&format!("{name}-0"), used(name), "128Mi").await;
        }
    };
    for (name, team) in members {
        shop.deployment(name, 1).await;
        let mut object = spec(name, "Recommend");
        object["recommenders"] = recommenders();
        object["team"] = json!(team);
        shop.autoscaler(name, object).await.expect("taken");
    }
    measure().await;
    let config = OperatorConfig { arguments: &["--no-webhook"], ..OperatorConfig::default() };
    let operator = Operator::start(shop.cluster, &shop.namespace, &config);
    let objects: Api<MultidimPodAutoscaler> = shop.api();
    let read = async |name: &str| {
        let status = objects.get(name).await.expect("it is there").status?;
        feature(&status, "team RU_cpu")
    };
    // Each sees the use of the other member, of 500m.
    for (name, expect) in [("cart", 0.4), ("checkout", 0.2), ("search", 0.8), ("mail", 0.6)] {
        eventually(&format!("what {name} sees of its team"), async || {
            measure().await;
            (read(name).await? == expect).then_some(())
        })
        .await;
    }
    // A member that is deleted leaves the team.
    objects.delete("checkout", &Default::default()).await.expect("deleted");
    eventually("a team of one", async || {
        measure().await;
        (read("cart").await? == 0.0).then_some(())
    })
    .await;
    drop(operator);
}

const THIS: &str = "team::three_services_on_a_real_node_are_scaled_by_policies_of_simppo_plus";
const SHOP: &str = "shop";
/// Name, requests per second, and milliseconds of work of each.
const SERVICES: [(&str, f64, u64); 3] =
    [("cart", 10.0, 5), ("checkout", 8.0, 10), ("search", 4.0, 15)];
/// No set-point, so that whatever the policy chooses is another size.
const CPU: &str = "350m";

#[test]
fn three_services_on_a_real_node_are_scaled_by_policies_of_simppo_plus() {
    on_a_real_node(THIS, scale_a_team);
}

async fn scale_a_team(real: &RealCluster) {
    let client = real.cluster.client().await;
    define(&client, &definitions()).await;
    let per_millisecond = iterations_per_millisecond(&real.service);
    for (place, (name, _, milliseconds)) in SERVICES.into_iter().enumerate() {
        let workload = Workload {
            namespace: SHOP,
            name,
            replicas: 1,
            cpu: CPU,
            memory: "64Mi",
            iterations: milliseconds * per_millisecond,
            has_cpu_limit: false,
        };
        match place {
            0 => workload.create(&client).await,
            _ => workload.add(&client).await,
        }
    }
    let metrics = IngressMetrics::serve(real.ingress_port);
    let ingresses = SERVICES.map(|(name, rate, _)| {
        let ingress = IngressConfig {
            kubeconfig: real.cluster.admin_kubeconfig(),
            namespace: SHOP.to_owned(),
            service: name.to_owned(),
            run: name.to_owned(),
            metrics: metrics.clone(),
        };
        ingress.start(Load::steady(rate, 600.0).arrivals(1))
    });
    let port = free_port();
    let configuration = webhook_configuration("homeostat", port);
    let params = PostParams::default();
    Api::all(client.clone()).create(&params, &configuration).await.expect("created");
    let maps = Api::namespaced(client.clone(), SHOP);
    let map = maps.create(&params, &config_map(POLICY, of_simppo_plus())).await.expect("created");
    let objects: Api<MultidimPodAutoscaler> = Api::namespaced(client.clone(), SHOP);
    for (name, _, _) in SERVICES {
        objects.create(&params, &autoscaler(name)).await.expect("taken");
    }
    let listen = format!("127.0.0.1:{port}");
    let arguments = [
        "--prometheus",
        &real.prometheus_url,
        "--prometheus-any-namespace",
        "--listen",
        &listen,
        "--webhook-name",
        "127.0.0.1",
    ];
    let config = OperatorConfig { arguments: &arguments, copy: "" };
    let _operator = Operator::start(&real.cluster, SHOP, &config);

    for (name, _, _) in SERVICES {
        eventually_within(
            PATIENCE,
            &format!("a policy that sees the load of {name}"),
            async || {
                let status = objects.get(name).await.expect("it is there").status?;
                (feature(&status, "load")? > 0.0).then_some(())
            },
        )
        .await;
        eventually_within(PATIENCE, &format!("a pod of {name} with a set-point"), async || {
            pods(&client, name).await.iter().any(has_a_set_point).then_some(())
        })
        .await;
        // While a pod is replaced its metrics are missing, and decisions hold without the policy.
        let expected = ["by policy", "the policy read SP", "set-point: ", "request rate"];
        eventually_within(PATIENCE, &format!("explained decisions for {name}"), async || {
            let said = explained(real, name);
            expected.iter().all(|part| said.contains(part)).then_some(())
        })
        .await;
    }
    // The same services, by agents that read what their team does.
    let team =
        ConfigMap { metadata: map.metadata, ..config_map(POLICY, of_simppo_plus_in_a_team()) };
    maps.replace(POLICY, &params, &team).await.expect("replaced");
    for (name, _, _) in SERVICES {
        eventually_within(PATIENCE, &format!("the load of the team of {name}"), async || {
            let status = objects.get(name).await.expect("it is there").status?;
            (feature(&status, "team load")? > 0.0).then_some(())
        })
        .await;
    }
    for ingress in ingresses {
        let answered = ingress.stop();
        assert!(answered.iter().any(|one| one.is_ok), "requests are answered");
    }
}

fn autoscaler(name: &str) -> MultidimPodAutoscaler {
    let rate = |series: &str| {
        format!("sum(rate(ingress_request_duration_seconds_{series}{{run=\"{name}\"}}[10s]))")
    };
    let latency = format!(
        "histogram_quantile(0.99, sum by (le) \
         (rate(ingress_request_duration_seconds_bucket{{run=\"{name}\"}}[10s])))"
    );
    serde_json::from_value(json!({
        "apiVersion": "homeostat.dev/v1alpha1", "kind": "MultidimPodAutoscaler",
        "metadata": { "name": name },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
            "mode": "Auto",
            "goals": { "slo": { "latency": {
                // Lax, since other tests may keep the machine busy.
                "percentile": "99", "threshold": "4s", "query": latency,
            }}},
            "load": {
                "requestRateQuery": rate("count"),
                "meanLatencyQuery": format!("{} / {}", rate("sum"), rate("count")),
            },
            "constraints": {
                "global": { "minReplicas": 1, "maxReplicas": 2 },
                "containerControlledResources": ["cpu"],
                "container": [{ "name": "*", "requests": {
                    "minAllowed": { "cpu": "125m" }, "maxAllowed": { "cpu": "500m" },
                }}],
            },
            "policy": { "disruption": { "minPodAge": "2s" } },
            "recommenders": recommenders(),
        },
    }))
    .expect("valid")
}

async fn pods(client: &Client, name: &str) -> Vec<Pod> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), SHOP);
    let mut pods = pods
        .list(&ListParams::default().labels(&format!("app={name}")))
        .await
        .expect("listed")
        .items;
    pods.retain(is_ready);
    pods
}

/// Whether the webhook sized a pod, as one of the set-points inside the bounds.
fn has_a_set_point(pod: &Pod) -> bool {
    let container = pod.spec.as_ref().and_then(|spec| spec.containers.first());
    let resources = container.and_then(|container| container.resources.as_ref());
    let cpu = resources.and_then(|resources| resources.requests.as_ref()?.get("cpu"));
    let is_set_point = cpu.is_some_and(|cpu| ["125m", "250m", "500m"].contains(&&cpu.0[..]));
    is_set_point && pod.annotations().contains_key("homeostat.dev/sized-by")
}

fn explained(real: &RealCluster, name: &str) -> String {
    let answer = Command::new(env!("CARGO_BIN_EXE_homeostat-operator"))
        .args(["explain", name, "-n", SHOP])
        .env("KUBECONFIG", real.cluster.admin_kubeconfig())
        .output()
        .expect("it starts");
    String::from_utf8(answer.stdout).expect("text")
}
