//! Objects that learn: their agents, and what they record and publish.

use homeostat_autoscaler::api::{
    ConditionReason, ConditionType, Mode, MultidimPodAutoscaler, MultidimPodAutoscalerStatus, Plan,
    event_reason,
};
use homeostat_autoscaler::guard::Pause;
use homeostat_autoscaler::recommend::{Refused, StatusBuilder};
use homeostat_core::SimDuration;
use kube::ResourceExt;

use super::Recommender;
use crate::learn::{Applied, LearningAgent, News, Problem};

/// Whether the decisions about an object are applied. What follows others says nothing about them.
pub(super) fn applied(plan: &Plan, pause: Option<Pause>) -> Applied {
    match plan.mode {
        _ if pause.is_some() => Applied::No("the object is paused"),
        Mode::Auto | Mode::Canary => Applied::Yes,
        Mode::Off | Mode::Recommend => Applied::No(
            "in this mode decisions are not applied, so that nothing is learned from them",
        ),
    }
}

impl Recommender {
    /// The agent of an object that learns, as it was saved; none if the object does not learn.
    pub(super) async fn learning_agent(
        &self,
        object: &MultidimPodAutoscaler,
        plan: &Plan,
        saved: Option<&str>,
    ) -> Result<Option<LearningAgent>, Refused> {
        let Some(learning) = plan.recommender.learning() else { return Ok(None) };
        let workload = format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any());
        let interval = SimDuration::from_nanos(self.ctx.options.interval.as_nanos() as u64);
        let (agent, unreadable) = LearningAgent::new(&workload, learning, interval, saved)
            .map_err(|error| {
                let message = format!("spec.recommenders[0].aware: {error}");
                Refused::new(ConditionReason::InvalidSpec, message)
            })?;
        if let Some(why) = unreadable {
            let note = format!("the life cycle cannot be read and begins again: {why}");
            self.ctx.publish_event(object, true, event_reason::CHECKPOINT_UNREADABLE, &note).await;
        }
        Ok(Some(agent))
    }

    /// Records the episodes that ended, and publishes the stages that did. Returns whether there were
    /// any.
    pub(super) async fn publish_news(
        &self,
        object: &MultidimPodAutoscaler,
        agent: Option<&mut LearningAgent>,
    ) -> bool {
        let Some(agent) = agent else { return false };
        let News { episodes, changes } = agent.take_news();
        let has_news = !episodes.is_empty() || !changes.is_empty();
        for change in &changes {
            let note = format!("{:?} -> {:?}: {}", change.from, change.to, change.cause);
            let is_warning = change.from.actor() != change.to.actor()
                && change.to.actor() == homeostat_aware::Actor::Fallback;
            self.ctx.publish_event(object, is_warning, event_reason::STAGE_CHANGED, &note).await;
            self.ctx.telemetry.stage_changed(change);
        }
        if let Some(spool) = self.ctx.options.spool.clone()
            && !episodes.is_empty()
        {
            let spool_status = spool.clone();
            // Each is written through to the disk, which may take a while.
            let written = tokio::task::spawn_blocking(move || {
                for episode in episodes {
                    let (workload, began_ms) =
                        (episode.behaviour.workload.clone(), episode.began_ms);
                    spool.put(&workload, began_ms, &episode.into_records());
                }
            });
            if let Err(panic) = written.await {
                tracing::error!(%panic, "failed to record decisions");
            }
            self.ctx.telemetry.spooled(&spool_status.status());
        }
        has_news
    }

    /// The status with the life cycle and the condition `Learning`.
    pub(super) fn with_learning(
        &self,
        mut status: MultidimPodAutoscalerStatus,
        agent: Option<&LearningAgent>,
        builder: &StatusBuilder<'_>,
    ) -> MultidimPodAutoscalerStatus {
        let Some(agent) = agent else { return status };
        let learning = agent.status();
        let condition = match self.recording_problem(agent) {
            Some(Problem { reason, message }) => {
                builder.condition(ConditionType::Learning, Some(false), reason, &message)
            }
            None => {
                let waiting = learning.waiting_for.as_deref();
                let message =
                    format!("stage {}: {}", learning.stage, waiting.unwrap_or("the policy acts"));
                let reason = ConditionReason::AsPlanned;
                builder.condition(ConditionType::Learning, Some(true), reason, &message)
            }
        };
        status.conditions.push(condition);
        status.learning = Some(learning);
        status
    }

    /// The worst problem: decisions that are lost, then the policy, then decisions that wait.
    fn recording_problem(&self, agent: &LearningAgent) -> Option<Problem> {
        let Some(spool) = &self.ctx.options.spool else {
            let message = "decisions are not recorded, so that no policy can learn from them: start \
                           the operator with --decisions-dir";
            let not_recorded =
                Problem { reason: ConditionReason::NotRecorded, message: message.to_owned() };
            return agent.problem().or(Some(not_recorded));
        };
        let spooled = spool.status();
        if let Some(problem) = &spooled.problem {
            let message = format!("decisions cannot be recorded and are lost: {problem}");
            return Some(Problem { reason: ConditionReason::DecisionsLost, message });
        }
        let delayed = spooled.delay.filter(|_| spooled.episodes > 0).map(|why| Problem {
            reason: ConditionReason::RecordingDelayed,
            message: format!(
                "{} episodes wait until the collector takes them, and the oldest are deleted when the \
                 spool is full: {why}",
                spooled.episodes
            ),
        });
        agent.problem().or(delayed)
    }
}
