//! Whether an object can be worked on: it makes sense, its target is there, nobody else has it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, Selector};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

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

/// Kubernetes' own autoscalers.
#[derive(Debug, Clone, Default)]
pub(super) struct OtherAutoscalers {
    horizontal: Autoscalers,
    vertical: Autoscalers,
}

const HORIZONTAL: &str = "HorizontalPodAutoscaler";
const VERTICAL: &str = "VerticalPodAutoscaler";

impl OtherAutoscalers {
    /// Asks which there are. If those of a kind cannot be listed, the ones known before are
    /// taken: a server that does not answer has deleted none.
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

    /// What is known after each list was read, or why it was not.
    fn after(self, horizontal: Listed, vertical: Listed) -> Self {
        let vertical = vertical.map(|mut all| {
            // One that is off only recommends: it is in nobody's way.
            let mode = "/spec/updatePolicy/updateMode";
            all.retain(|one| one.data.pointer(mode).and_then(|mode| mode.as_str()) != Some("Off"));
            all
        });
        Self {
            horizontal: self.horizontal.after(horizontal, "scaleTargetRef"),
            vertical: self.vertical.after(vertical, "targetRef"),
        }
    }

    /// Whether an object may act on a target. It may not either while nobody knows.
    fn check_nobody_else_acts(
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
                        "{kind} {other:?} scales {name:?} as well: two that act would fight; \
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
    /// They could not be listed yet.
    Unknown { why: String },
}

impl Default for Autoscalers {
    fn default() -> Self {
        Self::Unknown { why: "nobody has asked yet".to_owned() }
    }
}

impl Autoscalers {
    /// What is known after a list was read, each of which names what it scales in a field, or
    /// after it was not.
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

/// Longer than this nobody is waited for who only might be there.
const MOST_TIME: Duration = Duration::from_secs(15);

/// All objects of a kind, or why they could not be listed.
type Listed = Result<Vec<DynamicObject>, String>;

async fn list(ctx: &Context, kind: &GroupVersionKind) -> Listed {
    let resource = ApiResource::from_gvk(kind);
    let api: Api<DynamicObject> = match &ctx.options.only_namespace {
        Some(namespace) => Api::namespaced_with(ctx.client.clone(), namespace, &resource),
        None => Api::all_with(ctx.client.clone(), &resource),
    };
    list_all(ctx, &api, "list autoscalers").await
}

/// All objects that there are, or why they could not be listed.
pub(super) async fn list_all<K>(
    ctx: &Context,
    api: &Api<K>,
    what: &'static str,
) -> Result<Vec<K>, String>
where
    K: Clone + DeserializeOwned + Debug,
{
    let every = ListParams::default();
    let list = api.list(&every);
    let Ok(list) = tokio::time::timeout(MOST_TIME, list).await else {
        ctx.telemetry.server_silent(what, MOST_TIME);
        return Err(format!("no answer within {} s", MOST_TIME.as_secs()));
    };
    match list {
        Ok(list) => {
            ctx.telemetry.heard();
            Ok(list.items)
        }
        Err(error) => {
            ctx.telemetry.server_error(what, &error);
            // The group is there without this kind of it, or is gone since it was looked for.
            let is_absent = matches!(&error, kube::Error::Api(no) if no.code == 404);
            if is_absent { Ok(Vec::new()) } else { Err(error.to_string()) }
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
    // Beside an autoscaler that acts one can recommend, which is how people compare them.
    if matches!(plan.mode, Mode::Auto | Mode::Canary) {
        others.check_nobody_else_acts(&namespace, &plan.target)?;
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
    // While a new template is rolled out, only some have its containers.
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

    /// Why the target may not be acted on after some pairs of lists, one pair for each pass.
    fn refused<const N: usize>(passes: [(Listed, Listed); N]) -> Option<(ConditionReason, String)> {
        let others = passes.into_iter().fold(OtherAutoscalers::default(), |before, lists| {
            let (horizontal, vertical) = lists;
            before.after(horizontal, vertical)
        });
        let refused = others.check_nobody_else_acts("shop", &target()).err()?;
        Some((refused.reason, refused.message))
    }

    #[test]
    fn an_autoscaler_that_acts_on_the_target_is_named() {
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
    fn a_list_that_cannot_be_read_leaves_what_was_known_of_its_kind() {
        let (reason, _) = refused([(horizontal(), none()), (silent(), none()), (silent(), none())])
            .expect("it is there still");
        assert_eq!(reason, ConditionReason::OtherAutoscaler);
        assert_eq!(refused([(none(), none()), (silent(), silent())]), None);
        assert_eq!(refused([(horizontal(), none()), (none(), silent())]), None, "it was deleted");
    }

    #[test]
    fn nobody_acts_before_each_list_was_read_once() {
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
