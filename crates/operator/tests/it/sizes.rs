//! How recommended sizes are applied: by the webhook to new pods, and by eviction to running pods on a
//! server that cannot resize.

use homeostat_autoscaler::api::MultidimPodAutoscaler;
use homeostat_operator::webhook::Certificates;
use homeostat_testbed::free_port;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{LimitRange, Pod, Secret};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;

use super::operator::{Operator, OperatorConfig, eventually};
use super::shop::{Shop, spec};

/// Requests of a pod's only container.
async fn requests(shop: &Shop, pod: &str) -> (String, String) {
    let pods: Api<Pod> = shop.api();
    let pod = pods.get(pod).await.expect("it is there");
    let container = pod.spec.expect("it has one").containers.remove(0);
    let requests = container.resources.and_then(|all| all.requests).expect("it has requests");
    (requests["cpu"].0.clone(), requests["memory"].0.clone())
}

/// Waits for a recommendation of another size and returns it.
async fn recommended(shop: &Shop, name: &str) -> (String, String) {
    let api: Api<MultidimPodAutoscaler> = shop.api();
    eventually("a recommendation", async || {
        let status = api.get(name).await.expect("there").status?;
        let target = status.recommendation?.container_recommendations.first()?.target.clone();
        let (cpu, memory) = (target.cpu?.0, target.memory?.0);
        (memory != "256Mi").then_some((cpu, memory))
    })
    .await
}

#[tokio::test]
async fn a_new_pod_gets_its_size_over_real_tls_and_starts_without_the_webhook_too() {
    let Some(shop) = Shop::open("webhook").await else { return };
    shop.deployment("checkout", 1).await;
    shop.uses("checkout-0", "400m", "400Mi").await;
    let port = free_port().to_string();
    let configuration: MutatingWebhookConfiguration = serde_json::from_value(json!({
        "metadata": { "name": "webhook-test" },
        "webhooks": [{
            "name": "pods.homeostat.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Ignore", "timeoutSeconds": 5,
            "namespaceSelector": { "matchLabels": { "shop": shop.namespace } },
            "clientConfig": { "url": format!("https://127.0.0.1:{port}/mutate") },
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] }],
        }],
    }))
    .expect("valid");
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(shop.client.clone());
    configurations.create(&PostParams::default(), &configuration).await.expect("created");
    let mut object = spec("checkout", "Auto");
    object["policy"] = json!({ "updateMode": "Initial" });
    shop.autoscaler("checkout", object).await.expect("taken");
    let listen = format!("127.0.0.1:{port}");
    let arguments = [
        "--listen",
        &listen,
        "--webhook-name",
        "127.0.0.1",
        "--webhook-configuration",
        "webhook-test",
    ];
    let config = OperatorConfig { arguments: &arguments, copy: "" };
    let operator = Operator::start(shop.cluster, &shop.namespace, &config);
    let wanted = recommended(&shop, "checkout").await;
    let authority = async || {
        let found = configurations.get("webhook-test").await.expect("there");
        found.webhooks?.first()?.client_config.ca_bundle.clone()
    };
    eventually("the server to know the authority", authority).await;
    eventually("a certificate", async || operator.get("/readyz").filter(|text| text == "ok\n"))
        .await;
    // The server needs some time to know a new authority, and admits pods meanwhile.
    let mut made = 0;
    eventually("a pod to be sized", async || {
        made += 1;
        let name = format!("checkout-new-{made}");
        shop.pod("checkout", &name).await;
        (requests(&shop, &name).await == wanted).then_some(())
    })
    .await;

    // Without any pod, as between two pods of a StatefulSet, the next one is sized as well.
    let pods: Api<Pod> = shop.api();
    let (delete, every) = (DeleteParams::default(), ListParams::default());
    pods.delete_collection(&delete, &every).await.expect("deleted");
    shop.condition("checkout", "Ready", "NoPods").await;
    shop.pod("checkout", "checkout-next").await;
    assert_eq!(requests(&shop, "checkout-next").await, recommended(&shop, "checkout").await);

    // An expired certificate is renewed, and the API server gets the new authority.
    let secrets: Api<Secret> = shop.api();
    let old = authority().await;
    let ended = json!({ "stringData": { "ends": "1000" } });
    let params = PatchParams::default();
    secrets.patch("homeostat-webhook", &params, &Patch::Merge(ended)).await.expect("patched");
    eventually("a new certificate", async || {
        authority().await.filter(|new| Some(new) != old.as_ref())
    })
    .await;

    operator.kill();
    shop.pod("checkout", "checkout-alone").await;
    assert_eq!(requests(&shop, "checkout-alone").await.1, "256Mi");
}

#[tokio::test]
async fn pods_of_the_wrong_size_are_evicted_within_max_unavailable() {
    let Some(shop) = Shop::open("evictions").await else { return };
    shop.deployment("checkout", 5).await;
    for place in 0..5 {
        shop.uses(&format!("checkout-{place}"), "300m", "400Mi").await;
    }
    let mut object = spec("checkout", "Auto");
    object["policy"] = json!({ "disruption": { "maxUnavailable": "2", "minPodAge": "1s" } });
    object["constraints"]["global"] = json!({ "minReplicas": 5, "maxReplicas": 5 });
    shop.autoscaler("checkout", object).await.expect("taken");
    let config = OperatorConfig { arguments: &["--no-webhook"], copy: "" };
    let _operator = Operator::start(shop.cluster, &shop.namespace, &config);
    let pods: Api<Pod> = shop.api();
    let count = async || pods.list(&ListParams::default()).await.expect("listed").items.len();
    eventually("two evictions", async || (count().await == 3).then_some(())).await;
    // No controller replaces pods here: two are unavailable, which is the maximum.
    let message = shop.condition("checkout", "Acting", "DisruptionLimited").await;
    assert!(message.contains("at most 2 pods may be unavailable at once"), "{message}");
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    assert_eq!(count().await, 3);
    let api: Api<MultidimPodAutoscaler> = shop.api();
    let rollout =
        api.get("checkout").await.expect("there").status.and_then(|status| status.rollout);
    assert_eq!(rollout.map(|rollout| rollout.evictions.len()), Some(2));
}

#[tokio::test]
async fn no_size_is_recommended_that_a_limit_range_would_reject() {
    let Some(shop) = Shop::open("limited").await else { return };
    shop.deployment("checkout", 2).await;
    for place in 0..2 {
        shop.uses(&format!("checkout-{place}"), "300m", "400Mi").await;
    }
    let range = json!({
        "metadata": { "name": "small" },
        "spec": { "limits": [{ "type": "Container", "max": { "memory": "300Mi" } }] },
    });
    let range: LimitRange = serde_json::from_value(range).expect("valid");
    shop.api().create(&PostParams::default(), &range).await.expect("created");
    shop.autoscaler("checkout", spec("checkout", "Recommend")).await.expect("taken");
    let config = OperatorConfig { arguments: &["--no-webhook"], copy: "" };
    let _operator = Operator::start(shop.cluster, &shop.namespace, &config);
    assert_eq!(recommended(&shop, "checkout").await.1, "300Mi");
}

#[tokio::test]
async fn resources_that_are_not_controlled_keep_the_size_of_the_template() {
    let Some(shop) = Shop::open("controlled").await else { return };
    shop.deployment("checkout", 2).await;
    for place in 0..2 {
        shop.uses(&format!("checkout-{place}"), "300m", "400Mi").await;
    }
    let mut object = spec("checkout", "Auto");
    object["policy"] = json!({ "disruption": { "minPodAge": "1s" } });
    object["constraints"]["containerControlledResources"] = json!(["cpu"]);
    shop.autoscaler("checkout", object).await.expect("taken");
    let config = OperatorConfig { arguments: &["--no-webhook"], copy: "" };
    let _operator = Operator::start(shop.cluster, &shop.namespace, &config);
    let api: Api<MultidimPodAutoscaler> = shop.api();
    let target = eventually("a recommendation", async || {
        let status = api.get("checkout").await.expect("there").status?;
        Some(status.recommendation?.container_recommendations.first()?.target.clone())
    })
    .await;
    assert!(target.cpu.is_some() && target.memory.is_none(), "{target:?}");
    // Usage of twice the requested memory is no reason to change pods that are not controlled.
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    assert_eq!(requests(&shop, "checkout-0").await.1, "256Mi");
    assert_eq!(requests(&shop, "checkout-1").await.1, "256Mi");
}

#[tokio::test]
async fn an_exhausted_budget_is_reported_at_once_and_delays_nothing_else() {
    let Some(shop) = Shop::open("budget").await else { return };
    shop.deployment("checkout", 2).await;
    let uses = async |cpu: &str| {
        for place in 0..2 {
            shop.uses(&format!("checkout-{place}"), cpu, "400Mi").await;
        }
    };
    uses("300m").await;
    // No controller computes budgets here, so this one allows nothing.
    let kind = GroupVersionKind::gvk("policy", "v1beta1", "PodDisruptionBudget");
    let budgets: Api<DynamicObject> =
        Api::namespaced_with(shop.client.clone(), &shop.namespace, &ApiResource::from_gvk(&kind));
    let budget = serde_json::from_value(json!({
        "apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "strict" },
        "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": "checkout" } } },
    }));
    budgets.create(&PostParams::default(), &budget.expect("valid")).await.expect("created");
    let mut object = spec("checkout", "Auto");
    object["policy"] = json!({ "disruption": { "minPodAge": "1s" } });
    shop.autoscaler("checkout", object).await.expect("taken");
    let config = OperatorConfig { arguments: &["--no-webhook"], copy: "" };
    let operator = Operator::start(shop.cluster, &shop.namespace, &config);
    let message = shop.condition("checkout", "Acting", "DisruptionLimited").await;
    assert!(message.contains("budget"), "{message}");
    // A burst is still answered.
    uses("490m").await;
    eventually("more pods", async || (shop.replicas("checkout").await > 2).then_some(())).await;
    assert!(!operator.log().contains("did not answer"), "{}", operator.log());
    // A refused eviction does not count.
    let api: Api<MultidimPodAutoscaler> = shop.api();
    eventually("no eviction to be counted", async || {
        let status = api.get("checkout").await.expect("there").status?;
        status.rollout?.evictions.is_empty().then_some(())
    })
    .await;
}

/// Stores certificates in the secret of the operator.
async fn store(shop: &Shop, made: &Certificates) {
    let secret: Secret = serde_json::from_value(json!({
        "metadata": { "name": "homeostat-webhook" },
        "stringData": {
            "ca.crt": made.authorities, "tls.crt": made.certificate, "tls.key": made.key,
            "ends": made.ends.to_string(),
        },
    }))
    .expect("valid");
    let secrets: Api<Secret> = shop.api();
    secrets.create(&PostParams::default(), &secret).await.expect("created");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_renewed() {
    let Some(shop) = Shop::open("renamed").await else { return };
    let names = ["earlier.shop.svc".to_owned()];
    store(&shop, &Certificates::make(&names, Timestamp::now(), None).expect("made")).await;
    let listen = format!("127.0.0.1:{}", free_port());
    let arguments = ["--listen", &listen, "--webhook-name", "127.0.0.1"];
    let config = OperatorConfig { arguments: &arguments, copy: "" };
    let _operator = Operator::start(shop.cluster, &shop.namespace, &config);
    let note = shop.event("homeostat-webhook", "CertificateRenewed").await;
    assert!(note.contains("certificate was not valid for 127.0.0.1"), "{note}");
}

#[tokio::test]
async fn an_expired_certificate_is_renewed_before_the_first_pod_needs_it() {
    let Some(shop) = Shop::open("ended").await else { return };
    shop.deployment("checkout", 1).await;
    let port = free_port();
    shop.webhook(&[port]).await;
    let names = ["127.0.0.1".to_owned()];
    let now = Timestamp::now();
    let long_ago = now - SignedDuration::from_hours(24 * 100);
    let ended = Certificates::make(&names, long_ago, None).expect("made");
    assert!(ended.ends < now.as_second());
    store(&shop, &ended).await;
    let mut object = spec("checkout", "Auto");
    let size = json!({ "cpu": "600m", "memory": "300Mi" });
    object["policy"] = json!({ "updateMode": "Initial" });
    object["constraints"]["container"] =
        json!([{ "name": "app", "requests": { "minAllowed": size, "maxAllowed": size } }]);
    shop.autoscaler("checkout", object).await.expect("taken");
    let listen = format!("127.0.0.1:{port}");
    let arguments =
        ["--listen", &listen, "--webhook-name", "127.0.0.1", "--webhook-configuration", "ended"];
    let config = OperatorConfig { arguments: &arguments, copy: "" };
    let operator = Operator::start(shop.cluster, &shop.namespace, &config);
    let note = shop.event("homeostat-webhook", "CertificateRenewed").await;
    assert!(note.contains("certificate expired at"), "{note}");
    let mut made = 0;
    eventually("a pod to be sized", async || {
        made += 1;
        let name = format!("checkout-new-{made}");
        shop.pod("checkout", &name).await;
        (requests(&shop, &name).await.0 == "600m").then_some(())
    })
    .await;
    eventually("the expiry of the certificate in a condition", async || {
        let message = shop.condition("checkout", "Acting", "NotInMode").await;
        message.contains("the webhook's certificate expired at").then_some(())
    })
    .await;
    let ends = operator.metric("homeostat_operator_certificate_expiry_seconds", "");
    assert!(ends > now.as_second() as f64, "{ends}");
}
