//! The definitions of the objects: made from the types, checked in, and what the server says
//! to objects that make no sense.

use homeostat_operator::api::definitions;
use serde_json::{Value, json};

use super::chart::chart_file;
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
