//! The conditions of an object, and every reason that they can have.

use std::fmt;

/// What a condition is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionType {
    /// The spec is valid, the target exists, and there is a recommendation.
    Ready,
    /// The metrics that the recommendation is made from are fresh and valid.
    MetricsFresh,
    /// A guard limits the recommendation, as in the condition of the same name of HPA.
    ScalingLimited,
    /// Recommendations are applied.
    Acting,
    /// The SLO is met.
    SloMet,
    /// The object learns as its spec asks; only with the recommender `aware`.
    Learning,
}

impl ConditionType {
    /// All of them, in the order of the status.
    pub const ALL: [Self; 6] = [
        Self::Ready,
        Self::MetricsFresh,
        Self::ScalingLimited,
        Self::Acting,
        Self::SloMet,
        Self::Learning,
    ];
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The reason of a condition, and of the event about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionReason {
    /// Everything works as specified.
    AsPlanned,
    /// The spec contradicts itself or names something unknown.
    InvalidSpec,
    /// The target does not exist.
    TargetNotFound,
    /// The target has no scale subresource.
    TargetNotScalable,
    /// A user scaled the target to zero.
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
    /// The recommender's answer is not a valid action.
    RecommenderInvalid,
    /// The policy file is missing, cannot be read or needs other features.
    PolicyUnusable,
    /// The evaluation of the policy is missing, or does not admit it.
    PolicyNotAdmitted,
    /// A threshold of the life cycle was missed for as long as its patience lasts.
    ThresholdsNotMet,
    /// Decisions wait in the spool: the store does not take them.
    RecordingDelayed,
    /// Decisions were lost: the spool is full or cannot be written.
    DecisionsLost,
    /// The operator does not record decisions.
    NotRecorded,
    /// A metric is missing.
    MetricsMissing,
    /// A metric is too old.
    MetricsStale,
    /// A metric is not a number.
    MetricsInvalid,
    /// Metrics contradict each other.
    MetricsContradictory,
    /// The fallback recommends until metrics are back.
    FallenBack,
    /// A bound, a step limit or a rate limit changed the recommendation.
    Limited,
    /// Changes wait for the next maintenance window.
    OutsideMaintenance,
    /// An annotation pauses the object.
    Paused,
    /// The mode does not apply recommendations.
    NotInMode,
    /// Canaries are under observation.
    CanaryWatched,
    /// A change was rolled back because the SLO was violated after it.
    RolledBack,
    /// There is no recommendation to apply.
    NoRecommendation,
    /// The webhook does not size new pods.
    WebhookSilent,
    /// Pods cannot be resized in place.
    ResizeRefused,
    /// A disruption budget or limit delays changes.
    DisruptionLimited,
    /// The SLO is violated.
    SloViolated,
    /// The object has no SLO.
    NoSlo,
    /// Too few requests arrive to reach the throughput of the SLO.
    FewRequests,
    /// Pods were resized or replaced.
    Resized,
    /// The number of pods was changed.
    Rescaled,
}

impl ConditionReason {
    /// Reasons that pass by themselves and do not concern the spec. The previous recommendation
    /// stays in the status, for pods that are created meanwhile.
    pub const TEMPORARY: [Self; 3] = [Self::ServerUnavailable, Self::NoPods, Self::ScaledToZero];

    /// Whether it is one of [`Self::TEMPORARY`].
    pub fn is_temporary(self) -> bool {
        Self::TEMPORARY.contains(&self)
    }
}

impl fmt::Display for ConditionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Reasons of events that are not about a condition.
pub mod event_reason {
    /// The life cycle of a learned policy entered another stage.
    pub const STAGE_CHANGED: &str = "StageChanged";
    /// The webhook's certificate was renewed.
    pub const CERTIFICATE_RENEWED: &str = "CertificateRenewed";
    /// The history of an object cannot be read, and is discarded.
    pub const CHECKPOINT_UNREADABLE: &str = "CheckpointUnreadable";
    /// The pause annotation has an unknown value.
    pub const UNKNOWN_PAUSE: &str = "UnknownPause";
}
