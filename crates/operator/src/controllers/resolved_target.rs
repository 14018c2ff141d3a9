//! Resolves the target of an object: the workload exists, can be scaled, and has no other
//! autoscaler.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use homeostat_autoscaler::api::{
    ConditionReason, Mode, MultidimPodAutoscaler, Plan, ScaleTargetRef,
};
use homeostat_autoscaler::recommend::Refused;
use homeostat_autoscaler::workload::{PodRecord, Scaled, read_selector};
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, Selector};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::context::Context;
use super::watch::Guarded;
use crate::cluster::TargetError;

/// A workload that can be scaled, and its pods.
pub(super) struct ResolvedTarget {
    pub(super) scaled: Scaled,
    pub(super) pods: Vec<PodRecord>,
}

/// The HorizontalPodAutoscalers and VerticalPodAutoscalers of the cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct OtherAutoscalers {
    horizontal: Autoscalers,
    vertical: Autoscalers,
}

const HORIZONTAL: &str = "HorizontalPodAutoscaler";
const VERTICAL: &str = "VerticalPodAutoscaler";

impl OtherAutoscalers {
    /// Lists them. If those of a kind cannot be listed, the last list is used: no answer does not
    /// mean that they were deleted.
    pub(super) async fn of(ctx: &Context, before: Self) -> Self {
        let capabilities = ctx.capabilities();
        let mut horizontal = Ok(Vec::new());
        if let Some(version) = capabilities.autoscaling {
            let kind = GroupVersionKind::gvk("autoscaling", version, HORIZONTAL);
            horizontal = list(ctx, &kind).await;
        }
        let mut vertical = Ok(Vec::new());
        if capabilities.has_vpa {
            let kind = GroupVersionKind::gvk("autoscaling.k8s.io", "v1", VERTICAL);
            vertical = list(ctx, &kind).await;
        }
        before.after(horizontal, vertical)
    }

    /// The state after new lists, or after failures to list them.
    fn after(self, horizontal: Listed, vertical: Listed) -> Self {
        let vertical = vertical.map(|mut all| {
            // A VPA with mode `Off` only recommends.
            let mode = "/spec/updatePolicy/updateMode";
            all.retain(|one| one.data.pointer(mode).and_then(|mode| mode.as_str()) != Some("Off"));
            all
        });
        Self {
            horizontal: self.horizontal.after(horizontal, "scaleTargetRef"),
            vertical: self.vertical.after(vertical, "targetRef"),
        }
    }

    /// Refuses to act on a target that another autoscaler scales, or might scale.
    fn check_no_other_scales(
        &self,
        namespace: &str,
        target: &ScaleTargetRef,
    ) -> Result<(), Refused> {
        let key = (namespace.to_owned(), target.kind.clone(), target.name.clone());
        let name = &target.name;
        let mut unknown = None;
        for (kind, autoscalers) in [(HORIZONTAL, &self.horizontal), (VERTICAL, &self.vertical)] {
            match autoscalers {
                Autoscalers::Known(by_target) => {
                    let Some(other) = by_target.get(&key) else { continue };
                    let message = format!(
                        "{kind} {other:?} scales {name:?} as well and would conflict; \
                         delete it, or use mode Recommend"
                    );
                    return Err(Refused::new(ConditionReason::OtherAutoscaler, message));
                }
                Autoscalers::Unknown { why } => {
                    let message = format!(
                        "{kind}s cannot be listed, and one might scale {name:?} as well: {why}"
                    );
                    unknown
                        .get_or_insert(Refused::new(ConditionReason::ServerUnavailable, message));
                }
            }
        }
        unknown.map_or(Ok(()), Err)
    }
}

/// Autoscalers of one kind.
#[derive(Debug, Clone)]
enum Autoscalers {
    /// Their names by namespace, kind and name of what they scale.
    Known(Arc<BTreeMap<(String, String, String), String>>),
    /// They were never listed successfully.
    Unknown { why: String },
}

impl Default for Autoscalers {
    fn default() -> Self {
        Self::Unknown { why: "not listed yet".to_owned() }
    }
}

impl Autoscalers {
    /// The state after a new list, whose objects name their target in `field`, or after a failure.
    fn after(self, listed: Listed, field: &str) -> Self {
        let all = match (listed, self) {
            (Ok(all), _) => all,
            (Err(_), before @ Self::Known(_)) => return before,
            (Err(why), Self::Unknown { .. }) => return Self::Unknown { why },
        };
        let by_target = all.iter().filter_map(|one| {
            let target = |part: &str| {
                let pointer = format!("/spec/{field}/{part}");
                one.data.pointer(&pointer).and_then(|text| text.as_str()).map(str::to_owned)
            };
            let key = (one.namespace().unwrap_or_default(), target("kind")?, target("name")?);
            Some((key, one.name_any()))
        });
        Self::Known(Arc::new(by_target.collect()))
    }
}

/// The time limit of a list request.
const MAX_TIME: Duration = Duration::from_secs(15);

type Listed = Result<Vec<DynamicObject>, String>;

async fn list(ctx: &Context, kind: &GroupVersionKind) -> Listed {
    let resource = ApiResource::from_gvk(kind);
    let api: Api<DynamicObject> = match &ctx.options.only_namespace {
        Some(namespace) => Api::namespaced_with(ctx.client.clone(), namespace, &resource),
        None => Api::all_with(ctx.client.clone(), &resource),
    };
    list_all(ctx, &api, "list autoscalers").await
}

/// Lists all objects of a kind, or returns why they cannot be listed.
pub(super) async fn list_all<K>(
    ctx: &Context,
    api: &Api<K>,
    operation: &'static str,
) -> Result<Vec<K>, String>
where
    K: Clone + DeserializeOwned + Debug,
{
    let every = ListParams::default();
    let list = api.list(&every);
    let Ok(list) = tokio::time::timeout(MAX_TIME, list).await else {
        ctx.telemetry.server_timed_out(operation, MAX_TIME);
        return Err(format!("no answer within {} s", MAX_TIME.as_secs()));
    };
    match list {
        Ok(list) => {
            ctx.telemetry.server_answered();
            Ok(list.items)
        }
        Err(error) => {
            ctx.telemetry.server_error(operation, &error);
            // The API group exists without this kind, or was removed since discovery.
            let is_absent = matches!(&error, kube::Error::Api(no) if no.code == 404);
            if is_absent { Ok(Vec::new()) } else { Err(error.to_string()) }
        }
    }
}

/// Finds the workload of a plan and its pods, or refuses to scale it.
pub(super) async fn resolve_target(
    ctx: &Context,
    others: &OtherAutoscalers,
    object: &MultidimPodAutoscaler,
    plan: &Plan,
) -> Result<ResolvedTarget, Refused> {
    let namespace = object.namespace().unwrap_or_default();
    if plan.mode == Mode::Off {
        return Err(Refused::new(ConditionReason::NotInMode, "mode Off: nothing is measured"));
    }
    if let Some(older) = older_object(ctx, object) {
        let message = format!("the older object {older:?} scales {:?} already", plan.target.name);
        return Err(Refused::new(ConditionReason::TargetTaken, message));
    }
    // Recommendations beside another autoscaler are allowed: users compare the two.
    if matches!(plan.mode, Mode::Auto | Mode::Canary) {
        others.check_no_other_scales(&namespace, &plan.target)?;
    }
    let scaled = ctx.targets.scale(&namespace, &plan.target).await.map_err(|error| {
        let reason = match &error {
            TargetError::NotFound { .. } => ConditionReason::TargetNotFound,
            TargetError::UnknownKind { .. }
            | TargetError::NotScalable { .. }
            | TargetError::NoSelector { .. } => ConditionReason::TargetNotScalable,
            TargetError::Changed { .. } | TargetError::Busy { .. } | TargetError::Api(_) => {
                ConditionReason::ServerUnavailable
            }
        };
        Refused::new(reason, error.to_string())
    })?;
    let selector: Selector = read_selector(&scaled.selector)
        .map_err(|error| Refused::new(ConditionReason::TargetNotScalable, error.to_string()))?;
    if scaled.replicas == 0 {
        let message = format!("{:?} is scaled to 0 by hand and stays there", plan.target.name);
        return Err(Refused::new(ConditionReason::ScaledToZero, message));
    }
    let pods = ctx.pods.selected(&namespace, &selector);
    check_containers(plan, &pods)?;
    Ok(ResolvedTarget { scaled, pods })
}

/// Refuses bounds for a container that does not exist: they are a typing mistake and would have no
/// effect.
fn check_containers(plan: &Plan, pods: &[PodRecord]) -> Result<(), Refused> {
    // During a rollout of a new template, only some pods have its containers.
    let containers = pods.iter().flat_map(|pod| &pod.containers);
    let known: BTreeSet<&str> = containers.map(|container| &container.name[..]).collect();
    if known.is_empty() {
        return Ok(());
    }
    let Some(unknown) = plan.named_containers().find(|name| !known.contains(name)) else {
        return Ok(());
    };
    let known: Vec<&str> = known.into_iter().collect();
    let message = format!(
        "spec.constraints.container: the pods have no container {unknown:?}, they have {}",
        known.join(", ")
    );
    Err(Refused::new(ConditionReason::InvalidSpec, message))
}

/// The name of an older object with the same target.
fn older_object(ctx: &Context, object: &MultidimPodAutoscaler) -> Option<String> {
    let age = |object: &MultidimPodAutoscaler| {
        let meta = object.meta();
        (meta.creation_timestamp.as_ref().map(|time| time.0), meta.name.clone())
    };
    let same_target = |other: &Guarded| {
        let Ok(other) = &other.0 else { return false };
        other.namespace() == object.namespace()
            && other.uid() != object.uid()
            && other.spec.scale_target_ref == object.spec.scale_target_ref
            && other.spec.mode != Mode::Off
            // An object with an invalid spec scales nothing.
            && Plan::try_new(&other.spec).is_ok()
            && other.meta().deletion_timestamp.is_none()
            && age(other) < age(object)
    };
    ctx.objects
        .find(same_target)
        .map(|other: Arc<Guarded>| other.meta().name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn autoscaler(spec: Value) -> Vec<DynamicObject> {
        let object = json!({ "metadata": { "name": "other", "namespace": "shop" }, "spec": spec });
        vec![serde_json::from_value(object).expect("an object")]
    }

    fn target() -> ScaleTargetRef {
        serde_json::from_value(reference()).expect("a target")
    }

    fn reference() -> Value {
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "checkout" })
    }

    fn horizontal() -> Listed {
        Ok(autoscaler(json!({ "scaleTargetRef": reference() })))
    }

    fn vertical(mode: &str) -> Listed {
        let policy = json!({ "updateMode": mode });
        Ok(autoscaler(json!({ "targetRef": reference(), "updatePolicy": policy })))
    }

    fn none() -> Listed {
        Ok(Vec::new())
    }

    fn silent() -> Listed {
        Err("no answer within 15 s".to_owned())
    }

    /// Why the target may not be scaled after some pairs of lists, one pair for each resync.
    fn refused<const N: usize>(
        resyncs: [(Listed, Listed); N],
    ) -> Option<(ConditionReason, String)> {
        let others = resyncs.into_iter().fold(OtherAutoscalers::default(), |before, lists| {
            let (horizontal, vertical) = lists;
            before.after(horizontal, vertical)
        });
        let refused = others.check_no_other_scales("shop", &target()).err()?;
        Some((refused.reason, refused.message))
    }

    #[test]
    fn another_autoscaler_of_the_target_is_named() {
        let check = |lists: (Listed, Listed), expect: &str| {
            let (reason, message) = refused([lists]).expect(expect);
            assert_eq!(reason, ConditionReason::OtherAutoscaler);
            assert!(message.starts_with(expect), "{message}");
        };
        check((horizontal(), none()), "HorizontalPodAutoscaler \"other\" scales \"checkout\"");
        check((none(), vertical("Auto")), "VerticalPodAutoscaler \"other\" scales \"checkout\"");
        check((silent(), vertical("Auto")), "VerticalPodAutoscaler");
        assert_eq!(refused([(none(), vertical("Off"))]), None);
        assert_eq!(refused([(none(), none())]), None);
    }

    #[test]
    fn a_failed_list_request_keeps_the_last_list() {
        let (reason, _) = refused([(horizontal(), none()), (silent(), none()), (silent(), none())])
            .expect("it still exists");
        assert_eq!(reason, ConditionReason::OtherAutoscaler);
        assert_eq!(refused([(none(), none()), (silent(), silent())]), None);
        assert_eq!(refused([(horizontal(), none()), (none(), silent())]), None, "it was deleted");
    }

    #[test]
    fn no_target_is_scaled_before_each_list_was_read_once() {
        for (lists, kind) in [
            ((silent(), none()), "HorizontalPodAutoscalers cannot be listed"),
            ((none(), silent()), "VerticalPodAutoscalers cannot be listed"),
        ] {
            let (reason, message) = refused([lists]).expect(kind);
            assert_eq!(reason, ConditionReason::ServerUnavailable);
            assert!(message.starts_with(kind), "{message}");
            assert!(message.ends_with("no answer within 15 s"), "{message}");
        }
        assert_eq!(refused([(silent(), none()), (none(), silent())]), None);
    }
}
