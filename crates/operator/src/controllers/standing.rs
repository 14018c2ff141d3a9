//! Whether an object can be worked on: it makes sense, its target is there, nobody else has it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, Selector};
use kube::{Api, Resource, ResourceExt};

use super::context::Context;
use super::follow::Guarded;
use crate::api::{ConditionReason, Mode, MultidimPodAutoscaler, Plan, ScaleTargetRef};
use crate::cluster::{PodRecord, Scaled, TargetError, read_selector};

/// An object that can be worked on.
pub(super) struct Standing {
    pub(super) scaled: Scaled,
    pub(super) pods: Vec<PodRecord>,
}

/// Why an object cannot be worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) reason: ConditionReason,
    pub(super) message: String,
}

impl Refused {
    pub(super) fn new(reason: ConditionReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// Kubernetes' own autoscalers, by the workload that they scale.
#[derive(Debug, Default)]
pub(super) struct OtherAutoscalers {
    by_target: BTreeMap<(String, String, String), String>,
}

impl OtherAutoscalers {
    /// Asks which there are. What cannot be listed is counted as an error and taken for absent.
    pub(super) async fn of(ctx: &Context) -> Self {
        let capabilities = ctx.capabilities();
        let mut others = Self::default();
        if let Some(version) = capabilities.autoscaling {
            let kind = GroupVersionKind::gvk("autoscaling", version, "HorizontalPodAutoscaler");
            for object in list(ctx, &kind).await {
                others.add(&object, "scaleTargetRef", "HorizontalPodAutoscaler");
            }
        }
        if capabilities.has_vpa {
            let kind = GroupVersionKind::gvk("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler");
            for object in list(ctx, &kind).await {
                // One that is off only recommends: it is in nobody's way.
                let mode = object.data.pointer("/spec/updatePolicy/updateMode");
                if mode.and_then(|mode| mode.as_str()) != Some("Off") {
                    others.add(&object, "targetRef", "VerticalPodAutoscaler");
                }
            }
        }
        others
    }

    fn add(&mut self, object: &DynamicObject, field: &str, kind: &str) {
        let target = |part: &str| {
            let pointer = format!("/spec/{field}/{part}");
            object.data.pointer(&pointer).and_then(|text| text.as_str()).map(str::to_owned)
        };
        if let (Some(target_kind), Some(target_name)) = (target("kind"), target("name")) {
            let key = (object.namespace().unwrap_or_default(), target_kind, target_name);
            self.by_target.insert(key, format!("{kind} {:?}", object.name_any()));
        }
    }

    fn of_target(&self, namespace: &str, target: &ScaleTargetRef) -> Option<&str> {
        let key = (namespace.to_owned(), target.kind.clone(), target.name.clone());
        self.by_target.get(&key).map(String::as_str)
    }
}

/// Longer than this nobody is waited for who only might be there.
const MOST_TIME: Duration = Duration::from_secs(15);

async fn list(ctx: &Context, kind: &GroupVersionKind) -> Vec<DynamicObject> {
    let resource = ApiResource::from_gvk(kind);
    let api: Api<DynamicObject> = match &ctx.options.only_namespace {
        Some(namespace) => Api::namespaced_with(ctx.client.clone(), namespace, &resource),
        None => Api::all_with(ctx.client.clone(), &resource),
    };
    let every = ListParams::default();
    let list = api.list(&every);
    let Ok(list) = tokio::time::timeout(MOST_TIME, list).await else {
        ctx.telemetry.server_silent("list autoscalers", MOST_TIME);
        return Vec::new();
    };
    match list {
        Ok(list) => {
            ctx.telemetry.heard();
            list.items
        }
        Err(error) => {
            ctx.telemetry.server_error("list autoscalers", &error);
            Vec::new()
        }
    }
}

/// Whether a plan can be worked on.
pub(super) async fn standing(
    ctx: &Context,
    others: &OtherAutoscalers,
    object: &MultidimPodAutoscaler,
    plan: &Plan,
) -> Result<Standing, Refused> {
    let namespace = object.namespace().unwrap_or_default();
    if plan.mode == Mode::Off {
        return Err(Refused::new(ConditionReason::NotInMode, "mode Off: nothing is measured"));
    }
    if let Some(older) = older_object(ctx, object) {
        let message = format!("the older object {older:?} scales {:?} already", plan.target.name);
        return Err(Refused::new(ConditionReason::TargetTaken, message));
    }
    let acts = matches!(plan.mode, Mode::Auto | Mode::Canary);
    // Beside an autoscaler that acts one can recommend, which is how people compare them.
    if acts && let Some(other) = others.of_target(&namespace, &plan.target) {
        let message = format!(
            "{other} scales {:?} as well: two that act would fight; delete it, or use mode Recommend",
            plan.target.name
        );
        return Err(Refused::new(ConditionReason::OtherAutoscaler, message));
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
        let message = format!("{:?} is scaled to 0 by hand: it is left there", plan.target.name);
        return Err(Refused::new(ConditionReason::ScaledToZero, message));
    }
    let pods = ctx.pods.selected(&namespace, &selector);
    check_containers(plan, &pods)?;
    Ok(Standing { scaled, pods })
}

/// A container that is bounded but does not exist is a slip of the pen, and its bounds would
/// hold nothing.
fn check_containers(plan: &Plan, pods: &[PodRecord]) -> Result<(), Refused> {
    let Some(pod) = pods.first() else { return Ok(()) };
    let exists = |name: &&str| pod.containers.iter().any(|container| container.name == **name);
    let Some(unknown) = plan.named_containers().find(|name| !exists(name)) else {
        return Ok(());
    };
    let known: Vec<&str> = pod.containers.iter().map(|container| &container.name[..]).collect();
    let message = format!(
        "spec.constraints.container: the pods have no container {unknown:?}, they have {}",
        known.join(", ")
    );
    Err(Refused::new(ConditionReason::InvalidSpec, message))
}

/// The name of an object that had the target first.
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
            // One that makes no sense scales nothing and is in nobody's way.
            && Plan::try_new(&other.spec).is_ok()
            && other.meta().deletion_timestamp.is_none()
            && age(other) < age(object)
    };
    ctx.objects
        .find(same_target)
        .map(|other: Arc<Guarded>| other.meta().name.clone().unwrap_or_default())
}
