//! Checkpoints of engines in the cluster, from which the next leader continues.

use std::hash::{DefaultHasher, Hash, Hasher};

use homeostat_autoscaler::api::{
    ConditionReason, MultidimPodAutoscaler, MultidimPodAutoscalerCheckpoint,
    MultidimPodAutoscalerCheckpointSpec, Plan, ScaleTargetRef, event_reason,
};
use homeostat_autoscaler::recommend::{Engine, Refused, from_text, time, to_text};
use homeostat_core::{Persist, SimTime, Snapshot};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use tokio::time::Duration;

use super::{FIELD_MANAGER, Recommender};
use crate::learn::LearningAgent;

/// What a checkpoint contains.
pub(super) struct Restored {
    /// The state of the engine.
    pub(super) memory: Snapshot,
    /// The state of the agent, if there was one.
    pub(super) learning: Option<String>,
}

impl Recommender {
    pub(super) async fn checkpoint(
        &self,
        object: &MultidimPodAutoscaler,
        spec: MultidimPodAutoscalerCheckpointSpec,
    ) {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<MultidimPodAutoscalerCheckpoint> =
            Api::namespaced(self.ctx.client.clone(), &namespace);
        let mut checkpoint = MultidimPodAutoscalerCheckpoint::new(&object.name_any(), spec);
        // It is deleted with its object, but does not block the deletion: on clusters that check
        // owner references, that needs the right to update finalizers.
        let owner: Option<OwnerReference> = object.owner_ref(&());
        checkpoint.metadata = ObjectMeta {
            name: Some(object.name_any()),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        };
        // Another replica that leads by now writes its own.
        if !self.ctx.leads.is_held() {
            return;
        }
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let written = api.patch(&object.name_any(), &params, &Patch::Apply(&checkpoint)).await;
        if let Err(error) = written {
            self.ctx.telemetry.server_error("checkpoint", &error);
        }
    }

    pub(super) async fn read_checkpoint(
        &self,
        object: &MultidimPodAutoscaler,
        plan: &Plan,
    ) -> Result<Option<Restored>, Refused> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<MultidimPodAutoscalerCheckpoint> =
            Api::namespaced(self.ctx.client.clone(), &namespace);
        let found = match api.get_opt(&object.name_any()).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.ctx.telemetry.server_error("checkpoint", &error);
                // The same error would follow at every retry: the object starts without history.
                let is_final = matches!(&error, kube::Error::SerdeError(_))
                    || matches!(&error, kube::Error::Api(no) if (400..429).contains(&no.code));
                if is_final {
                    let note = format!("the checkpoint cannot be read and is ignored: {error}");
                    self.ctx
                        .publish_event(object, true, event_reason::CHECKPOINT_UNREADABLE, &note)
                        .await;
                    return Ok(None);
                }
                // Starting without history would soon overwrite the checkpoint: retry instead.
                let message = format!("the checkpoint cannot be read now: {error}");
                return Err(Refused::new(ConditionReason::ServerUnavailable, message));
            }
        };
        // It may belong to a deleted object of the same name.
        let is_ours =
            found.owner_references().iter().any(|owner| Some(&owner.uid) == object.uid().as_ref());
        let target = found.spec.scale_target_ref.as_ref().unwrap_or(&plan.target);
        if !is_ours || !fits(plan, &found.spec.recommender, target) {
            return Ok(None);
        }
        match from_text(&found.spec.memory) {
            Ok(memory) => Ok(Some(Restored { memory, learning: found.spec.learning })),
            Err(error) => {
                let note = format!("the checkpoint cannot be read and is ignored: {error}");
                self.ctx
                    .publish_event(object, true, event_reason::CHECKPOINT_UNREADABLE, &note)
                    .await;
                Ok(None)
            }
        }
    }
}

/// Whether the state of a recommender for a workload fits a plan. The usage of one workload says
/// nothing about another.
pub(super) fn fits(plan: &Plan, recommender: &str, target: &ScaleTargetRef) -> bool {
    recommender == plan.recommender.name() && *target == plan.target
}

/// A time within the interval before now, with an offset that is fixed for each object.
pub(super) fn earlier(now: SimTime, interval: Duration, object: &MultidimPodAutoscaler) -> SimTime {
    let mut hasher = DefaultHasher::new();
    object.uid().hash(&mut hasher);
    let ago = interval.as_nanos() as u64 / 1000 * (hasher.finish() % 1000);
    SimTime::from_nanos(now.nanos().saturating_sub(ago))
}

pub(super) fn checkpoint_of(
    engine: &Engine,
    learning: Option<&LearningAgent>,
    now: SimTime,
) -> MultidimPodAutoscalerCheckpointSpec {
    let mut memory = Snapshot::default();
    engine.save("engine", &mut memory);
    MultidimPodAutoscalerCheckpointSpec {
        taken_at: time(now),
        recommender: engine.plan().recommender.name().to_owned(),
        scale_target_ref: Some(engine.plan().target.clone()),
        learning: learning.map(LearningAgent::saved),
        memory: to_text(&memory),
    }
}
