//! The custom resource definitions: the checked-in files match the types, and the server refuses
//! invalid objects.

use homeostat_autoscaler::api::MultidimPodAutoscaler;
use homeostat_operator::install::definitions;
use kube::Api;
use serde_json::{Value, json};

use super::chart::chart_file;
use super::operator::{Operator, OperatorConfig, eventually};
use super::shop::{Shop, spec};

#[test]
fn the_definitions_that_are_checked_in_are_those_of_the_types() {
    let kept = std::fs::read_to_string(chart_file("crds/crds.yaml")).unwrap_or_default();
    assert!(
        kept == definitions(),
        "the definitions of the chart are not what the types say: \
         homeostat operator crd > deploy/chart/homeostat/crds/crds.yaml"
    );
}

#[tokio::test]
async fn the_server_refuses_what_the_schema_can_tell() {
    let Some(shop) = Shop::open("schema").await else { return };
    let refusals: [(&str, Value, &str); 6] = [
        ("/mode", json!("Automatic"), "spec.mode"),
        ("/constraints/global/maxReplicas", json!(0), "maxReplicas"),
        ("/constraints/global/maxReplicas", json!("ten"), "maxReplicas"),
        ("/scaleTargetRef/name", json!(""), "scaleTargetRef.name"),
        ("/policy", json!({"disruption": {"maxUnavailable": "a few"}}), "maxUnavailable"),
        ("/recommenders", json!([{"name": "oracle"}]), "recommenders"),
    ];
    for (pointer, value, expect) in refusals {
        let mut wrong = spec("checkout", "Recommend");
        let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
        wrong.pointer_mut(parent).expect("it exists")[field] = value.clone();
        let refused = shop.autoscaler("wrong", wrong).await;
        let refused = refused.err().unwrap_or_else(|| panic!("{pointer} = {value} was taken"));
        assert!(refused.to_string().contains(expect), "{refused}");
    }
    shop.autoscaler("right", spec("checkout", "Recommend")).await.expect("it makes sense");
}

#[tokio::test]
async fn deprecated_fields_are_used_if_the_new_ones_are_absent_and_refused_beside_them() {
    let Some(shop) = Shop::open("deprecated").await else { return };
    shop.deployment("checkout", 1).await;
    shop.uses("checkout-0", "200m", "100Mi").await;
    let write = async |policy: Value| {
        let mut object = spec("checkout", "Recommend");
        object["policy"] = policy;
        shop.autoscaler("checkout", object).await.expect("the schema has both fields");
    };
    let old = json!({ "breaker": { "watch": "2m" }, "disruption": { "leastPodAge": "5s" } });
    write(old).await;
    let config = OperatorConfig { arguments: &["--no-webhook"], copy: "" };
    let _operator = Operator::start(shop.cluster, &shop.namespace, &config);
    let used = "spec.policy.breaker is deprecated, use autoRollback; \
                spec.policy.disruption.leastPodAge is deprecated, use minPodAge";
    eventually("the deprecated fields in a condition", async || {
        let message = shop.condition("checkout", "Ready", "AsPlanned").await;
        message.contains(used).then_some(())
    })
    .await;
    // The API server would drop a field that is not in the schema.
    let api: Api<MultidimPodAutoscaler> = shop.api();
    let policy = api.get("checkout").await.expect("there").spec.policy;
    assert_eq!(policy.breaker.map(|breaker| breaker.watch).as_deref(), Some("2m"));
    assert_eq!(policy.auto_rollback, None);

    write(json!({ "breaker": { "watch": "2m" }, "autoRollback": { "watch": "3m" } })).await;
    let message = shop.condition("checkout", "Ready", "InvalidSpec").await;
    assert!(message.contains("spec.policy.breaker: deprecated and in conflict"), "{message}");

    // What the API server wrote into objects of the release before, beside a new field.
    let defaulted = json!({
        "breaker": { "watch": "5m", "hold": "30m" }, "autoRollback": { "watch": "3m" },
        "disruption": { "leastPodAge": "1m", "minPodAge": "2m" },
    });
    write(defaulted).await;
    eventually("no deprecated field in a condition", async || {
        let message = shop.condition("checkout", "Ready", "AsPlanned").await;
        (!message.contains("deprecated")).then_some(())
    })
    .await;
}
