//! The conditions of an object, and every reason that they can have, in one place.

use std::fmt;

/// What a condition is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionType {
    /// The object is understood, its target found, and recommendations are made.
    Ready,
    /// What the recommendation is made of is fresh and makes sense.
    MetricsFresh,
    /// A recommendation goes its way unhindered by a guardrail.
    Unlimited,
    /// Changes are carried out.
    Acting,
    /// The objective is kept.
    ObjectiveKept,
}

impl ConditionType {
    /// All of them, in the order of the status.
    pub const ALL: [Self; 5] =
        [Self::Ready, Self::MetricsFresh, Self::Unlimited, Self::Acting, Self::ObjectiveKept];
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why a condition is as it is; also the reason of the event that tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionReason {
    /// Nothing stands in the way.
    AsPlanned,
    /// The object contradicts itself or names something unknown.
    InvalidSpec,
    /// The target does not exist.
    TargetNotFound,
    /// The target has no scale subresource.
    TargetNotScalable,
    /// The target was scaled to nothing by hand.
    ScaledToZero,
    /// The API server does not answer.
    ServerUnavailable,
    /// The target has no pods yet.
    NoPods,
    /// An older object has the same target.
    TargetTaken,
    /// A horizontal or vertical autoscaler has the same target.
    OtherAutoscaler,
    /// The recommender cannot be used.
    RecommenderUnavailable,
    /// The recommender's answer is no allocation.
    RecommenderNonsense,
    /// A metric is missing.
    MetricsMissing,
    /// A metric is too old.
    MetricsStale,
    /// A metric is no number.
    MetricsInvalid,
    /// Metrics contradict each other.
    MetricsContradictory,
    /// The fallback recommends for the time being.
    FallenBack,
    /// A bound, a step or a rate stopped a recommendation.
    Limited,
    /// A maintenance window is waited for.
    OutsideMaintenance,
    /// An annotation of the object pauses it.
    Paused,
    /// The mode does not carry out changes.
    NotInMode,
    /// A canary is watched.
    CanaryWatched,
    /// A change was taken back because the objective broke after it.
    Reverted,
    /// There is no recommendation that could be carried out.
    NoRecommendation,
    /// Pods that start are not sized.
    WebhookSilent,
    /// Pods cannot be resized where they are.
    ResizeRefused,
    /// A disruption budget or limit holds changes up.
    DisruptionLimited,
    /// The objective is broken.
    ObjectiveBroken,
    /// The object has no objective.
    NoObjective,
    /// Too few requests come for the throughput that is wanted.
    FewRequests,
    /// Pods were resized or replaced.
    Resized,
    /// The number of pods was changed.
    Rescaled,
}

impl ConditionReason {
    /// What will be over and says nothing of the object. What was recommended before stays, for
    /// pods that start meanwhile.
    pub const OF_A_MOMENT: [Self; 3] = [Self::ServerUnavailable, Self::NoPods, Self::ScaledToZero];

    /// Whether it is one of those.
    pub fn is_of_a_moment(self) -> bool {
        Self::OF_A_MOMENT.contains(&self)
    }
}

impl fmt::Display for ConditionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
