//! Reasons of pod-scaling decisions: values for programs, with a short text for each.

use std::fmt;

use homeostat_core::{Fraction, SimDuration, Slo};

use crate::{Amount, GuardReason, HpaMetric, ScalingAction, SetPoint};

/// One reason of a [`Decision`](crate::Decision).
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// A reason of a guard.
    Guard(GuardReason),
    /// A policy that never moves.
    Fixed,
    /// No request finished, so that there is no latency.
    NoRequests,
    /// No SLO is set: only utilisation is known.
    NoSlo,
    /// A metric that the policy needs is missing or not a number.
    TelemetryMissing {
        /// The metric.
        figure: &'static str,
    },
    /// Latency at the SLO's percentile against the SLO.
    Latency {
        /// As measured.
        latency: SimDuration,
        /// The SLO.
        slo: Slo,
    },
    /// A metric of the horizontal autoscaler asks for this many replicas.
    MetricAsks {
        /// The metric with its target.
        metric: HpaMetric,
        /// As measured, in the unit of the target.
        measured: f64,
        /// Replicas it asks for.
        replicas: u32,
    },
    /// A metric is within the tolerance of its target.
    WithinTolerance {
        /// The metric with its target.
        metric: HpaMetric,
        /// As measured, in the unit of the target.
        measured: f64,
        /// The tolerance: largest difference of measured over target from one.
        tolerance: Fraction,
    },
    /// With replicas that have no measurement included, a scale-up becomes a scale-down or the
    /// reverse.
    DirectionUnclear {
        /// The metric with its target.
        metric: HpaMetric,
        /// Replicas that are not ready.
        unready: usize,
        /// Replicas without a measurement.
        missing: usize,
    },
    /// No replica has a measurement of this metric.
    MetricUnavailable {
        /// The metric.
        metric: HpaMetric,
        /// Whether replicas have the request that utilisation is relative to.
        is_requested: bool,
    },
    /// A scale-down while a metric is unavailable.
    ScaleDownUncertain,
    /// Zero replicas switch the horizontal autoscaler off.
    ScaledToZero,
    /// The stabilisation window asks for another number.
    Stabilized {
        /// What the metrics ask for.
        recommended: u32,
        /// What the window allows.
        replicas: u32,
        /// The window.
        window: SimDuration,
    },
    /// The scaling policies of the horizontal autoscaler allow no larger change yet.
    ScalingRate {
        /// What they allow.
        replicas: u32,
    },
    /// The horizontal autoscaler's own smallest or largest number of replicas.
    OwnLimit {
        /// The limit.
        replicas: u32,
    },
    /// The recommendation of the vertical autoscaler for one resource.
    Recommendation {
        /// The target.
        target: Amount,
        /// Requests below are changed.
        lower: Amount,
        /// Requests above are changed; none while there is too little history for one.
        upper: Option<Amount>,
    },
    /// The request of one resource lies outside the recommended range.
    OutsideRange {
        /// The request.
        request: Amount,
    },
    /// The request lies inside the recommended range: not worth a restart.
    InsideRange,
    /// Replicas are old enough for a smaller correction.
    LifetimeOver {
        /// Age of the oldest.
        age: SimDuration,
        /// Summed relative distance of requests from their targets.
        difference: f64,
    },
    /// Out-of-memory kills of replicas.
    OomKilled {
        /// How many.
        kills: u32,
    },
    /// The target utilisation, learned from SLO violations or configured.
    TargetUtilization {
        /// CPU use over the CPU request.
        level: Fraction,
    },
    /// The SLO is violated: more replicas at once, before utilisation shows how many.
    BurstResponse {
        /// Replicas it asks for.
        replicas: u32,
    },
    /// No scale-down while the SLO is violated.
    NotWhileViolated,
    /// The number of replicas is at its bound, so their size changes.
    SizedAtLimit {
        /// The number.
        replicas: u32,
        /// The size.
        size: Amount,
    },
    /// Replicas have no CPU request, so that no number of replicas can be computed.
    FirstSize {
        /// The size.
        size: Amount,
    },
    /// The size stays, because the number of replicas follows the load.
    SizeStays {
        /// The size.
        size: Amount,
    },
    /// The number of replicas is at its minimum, and the size stays until there is more history.
    SizeStaysForNow {
        /// The size.
        size: Amount,
        /// The size that the short history recommends.
        would_do: Amount,
    },
    /// Requests in the system against the target of each replica.
    Concurrency {
        /// Mean over the stable window.
        stable: f64,
        /// Mean over the panic window.
        panic: f64,
        /// Target of each replica.
        target: f64,
        /// Replicas asked for.
        replicas: u32,
    },
    /// Panic mode: the number of replicas does not go down.
    Panicking {
        /// The largest number asked for in this panic.
        replicas: u32,
    },
    /// A scale-down waits for its delay.
    ScaleDownDelayed {
        /// The largest number asked for within the delay.
        replicas: u32,
        /// The delay.
        delay: SimDuration,
    },
    /// Square-root staffing.
    Staffing {
        /// Offered load R: mean number of requests in service if none had to wait.
        load: f64,
        /// The `c` of `R + c * sqrt(R)`.
        spare: f64,
        /// The resulting number of replicas.
        replicas: u32,
    },
    /// Fewer replicas are enough now, but recent windows needed more.
    NeededRecently {
        /// The largest need of the recent windows.
        replicas: u32,
    },
    /// Latency against the latency of the target alone.
    Degradation {
        /// As measured.
        latency: SimDuration,
        /// Of the target alone.
        isolated: SimDuration,
        /// Largest tolerated fraction above the isolated latency.
        threshold: Fraction,
    },
    /// More by a fixed amount.
    Increase {
        /// By how much.
        step: Amount,
    },
    /// Less by a fixed amount.
    Decrease {
        /// By how much.
        step: Amount,
    },
    /// Less by a factor.
    DecreaseTo {
        /// The factor.
        factor: Fraction,
    },
    /// Latency has not been low for long enough.
    NotCalmYet {
        /// Observations with low latency so far.
        calm: u32,
        /// Number of such observations needed.
        needed: u32,
    },
    /// A learned policy chose this action.
    Action {
        /// The action.
        action: ScalingAction,
    },
    /// The features that a learned policy read.
    Features {
        /// Their names.
        names: std::sync::Arc<[String]>,
        /// Their values, in the same order.
        values: Vec<f32>,
    },
    /// Agents act one at a time, and another one acts in this window.
    NotItsTurn,
    /// A learner proposed exactly this.
    Asked,
    /// A learned policy chose a set-point.
    SetPoint {
        /// What.
        action: SetPoint,
    },
    /// A learned policy changed several dimensions by factors.
    Ratios {
        /// The allocation it saw.
        from: crate::Allocation,
        /// The one it chose.
        to: crate::Allocation,
    },
}

impl Reason {
    /// Replicas that a metric asks for by itself, if this says so.
    pub(crate) fn replicas_asked_for(&self) -> Option<u32> {
        match self {
            Self::MetricAsks { replicas, .. } => Some(*replicas),
            _ => None,
        }
    }
}

impl From<GuardReason> for Reason {
    fn from(reason: GuardReason) -> Self {
        Self::Guard(reason)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guard(reason) => reason.fmt(f),
            Self::Fixed => write!(f, "fixed allocation"),
            Self::NoRequests => write!(f, "no latency was measured in this window"),
            Self::NoSlo => write!(f, "no SLO is set: usage alone decides"),
            Self::TelemetryMissing { figure } => write!(f, "held: no usable figure of {figure}"),
            Self::Latency { latency, slo } => {
                let side = if *latency > slo.threshold() { "above" } else { "within" };
                let percent = slo.percentile().percent();
                let (latency, threshold) = (Short(*latency), Short(slo.threshold()));
                write!(f, "p{percent} {latency} is {side} the SLO of {threshold}")
            }
            Self::MetricAsks { metric, measured, replicas } => {
                write!(f, "{} asks for {}", metric.against(*measured), Amount::replicas(*replicas))
            }
            Self::WithinTolerance { metric, measured, tolerance } => {
                write!(f, "{}: within {tolerance} of it, no change", metric.against(*measured))
            }
            Self::DirectionUnclear { metric, unready, missing } => write!(
                f,
                "held: the direction of {metric} depends on {unready} unready replicas \
                 and {missing} without a figure"
            ),
            Self::MetricUnavailable { metric, is_requested: true } => {
                write!(f, "no replica has a figure of {metric}")
            }
            Self::MetricUnavailable { metric, is_requested: false } => {
                write!(
                    f,
                    "held: {metric} is relative to the request, and some replicas request nothing"
                )
            }
            Self::ScaleDownUncertain => write!(f, "held: no scale-down while a metric is missing"),
            Self::ScaledToZero => write!(f, "held: zero replicas switch autoscaling off"),
            Self::Stabilized { recommended, replicas, window } => write!(
                f,
                "{replicas} instead of {}: the stabilisation window of {} holds",
                Amount::replicas(*recommended),
                Short(*window)
            ),
            Self::ScalingRate { replicas } => {
                write!(f, "scaling rate allows {} now", Amount::replicas(*replicas))
            }
            Self::OwnLimit { replicas } => {
                write!(
                    f,
                    "limited to {} by its own minimum or maximum",
                    Amount::replicas(*replicas)
                )
            }
            Self::Recommendation { target, lower, upper } => {
                let lower = lower.quantity();
                write!(f, "usage history recommends {target}; requests from {lower} ")?;
                match upper {
                    Some(upper) => write!(f, "to {} are kept", upper.quantity()),
                    None => write!(f, "up are kept, as the history is short"),
                }
            }
            Self::OutsideRange { request } => {
                write!(f, "the request of {request} is outside that range")
            }
            Self::InsideRange => {
                write!(f, "held: the request is close enough, a change is not worth a restart")
            }
            Self::LifetimeOver { age, difference } => write!(
                f,
                "the oldest replica is {} old: time to correct requests that are {:.0}% off",
                Short(*age),
                difference * 100.0
            ),
            Self::OomKilled { kills: 1 } => write!(f, "1 replica ran out of memory"),
            Self::OomKilled { kills } => write!(f, "{kills} replicas ran out of memory"),
            Self::TargetUtilization { level } => {
                write!(f, "the target is a CPU utilisation of {level}")
            }
            Self::BurstResponse { replicas } => {
                let replicas = Amount::replicas(*replicas);
                write!(f, "the SLO is violated and latency asks for {replicas} at once")
            }
            Self::NotWhileViolated => {
                write!(f, "held: nothing goes down while the SLO is violated")
            }
            Self::SizedAtLimit { replicas, size } => {
                let replicas = Amount::replicas(*replicas);
                write!(f, "at the limit of {replicas} the size changes: {size} each")
            }
            Self::FirstSize { size } => {
                write!(f, "replicas request no CPU yet: {size} each meets the utilisation target")
            }
            Self::SizeStays { size } => {
                write!(f, "the size stays at {size} each: the number of replicas follows the load")
            }
            Self::SizeStaysForNow { size, would_do } => write!(
                f,
                "the size stays at {size} each: {would_do} would suffice, but the history is short"
            ),
            Self::Concurrency { stable, panic, target, replicas } => write!(
                f,
                "concurrency {stable:.1} (panic window {panic:.1}) against {target:.1} each \
                 asks for {}",
                Amount::replicas(*replicas)
            ),
            Self::Panicking { replicas } => {
                write!(f, "panic mode: at least {}", Amount::replicas(*replicas))
            }
            Self::ScaleDownDelayed { replicas, delay } => {
                let replicas = Amount::replicas(*replicas);
                write!(f, "held at {replicas}: scale-down is delayed by {}", Short(*delay))
            }
            Self::Staffing { load, spare, replicas } => {
                let replicas = Amount::replicas(*replicas);
                write!(
                    f,
                    "offered load {load:.2} plus {spare} times its square root needs {replicas}"
                )
            }
            Self::NeededRecently { replicas } => {
                write!(f, "held at {}: needed in a recent window", Amount::replicas(*replicas))
            }
            Self::Degradation { latency, isolated, threshold } => {
                let ratio = latency.seconds() / isolated.seconds().max(f64::MIN_POSITIVE);
                let percent = (ratio - 1.0) * 100.0;
                let (latency, isolated) = (Short(*latency), Short(*isolated));
                write!(f, "latency {latency} is {percent:+.0}% relative to {isolated} alone")?;
                write!(f, ", {threshold} tolerated")
            }
            Self::Increase { step } => write!(f, "increased by {step}"),
            Self::Decrease { step } => write!(f, "decreased by {step}"),
            Self::DecreaseTo { factor } => write!(f, "decreased to {factor}"),
            Self::NotCalmYet { calm, needed } => {
                write!(f, "held: latency was low for {calm} of {needed} observations")
            }
            Self::Action { action } => write!(f, "action: {action}"),
            Self::Features { names, values } => {
                f.write_str("the policy read")?;
                for (place, (name, value)) in names.iter().zip(values).enumerate() {
                    write!(f, "{} {name} {value:.2}", if place == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            Self::NotItsTurn => f.write_str("held: another agent acts in this window"),
            Self::Asked => f.write_str("proposed by the learner"),
            Self::SetPoint { action } => write!(f, "set-point: {action}"),
            Self::Ratios { from, to } => write!(f, "the policy chose {to} after {from}"),
        }
    }
}

/// A duration with about three digits in a suitable unit: `812ms`, `17h`.
pub(crate) struct Short(pub(crate) SimDuration);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.nanos();
        let (minutes, hours) = (nanos / 60_000_000_000, nanos / 3_600_000_000_000);
        let seconds = nanos / 1_000_000_000 % 60;
        match (hours, minutes) {
            (0, 0..2) => {}
            (0, 2..10) if seconds > 0 => return write!(f, "{minutes}m{seconds}s"),
            (0, _) => return write!(f, "{minutes}m"),
            (1..10, _) if minutes % 60 > 0 => return write!(f, "{hours}h{}m", minutes % 60),
            (..48, _) => return write!(f, "{}h", (minutes + 30) / 60),
            _ => return write!(f, "{}d", hours / 24),
        }
        let digit = match nanos {
            10_000_000_000.. => 100_000_000,
            1_000_000_000.. => 10_000_000,
            10_000_000.. => 1_000_000,
            1_000_000.. => 100_000,
            _ => 1,
        };
        let rounded = nanos.saturating_add(digit / 2) / digit * digit;
        SimDuration::from_nanos(rounded).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dimension;
    use homeostat_core::Bytes;

    #[test]
    fn reasons_read_as_fragments_of_a_sentence() {
        let check = |reason: Reason, expect: &str| assert_eq!(reason.to_string(), expect);
        let millis = SimDuration::from_millis;
        let slo = Slo::try_new(Fraction::from_percent(99), millis(640)).unwrap();
        check(
            Reason::Latency { latency: SimDuration::from_nanos(812_345_678), slo },
            "p99 812ms is above the SLO of 640ms",
        );
        check(
            Reason::Latency { latency: SimDuration::from_nanos(1_234_567_890), slo },
            "p99 1.23s is above the SLO of 640ms",
        );
        check(Reason::Latency { latency: millis(3), slo }, "p99 3ms is within the SLO of 640ms");
        check(Reason::NoSlo, "no SLO is set: usage alone decides");
        let mib = |mib| Amount::memory(Bytes::from_mib(mib));
        check(
            Reason::Recommendation { target: mib(300), lower: mib(250), upper: Some(mib(1331)) },
            "usage history recommends 300Mi memory; requests from 250Mi to 1.3Gi are kept",
        );
        check(
            Reason::Recommendation { target: mib(300), lower: mib(250), upper: None },
            "usage history recommends 300Mi memory; requests from 250Mi up are kept, as the \
             history is short",
        );
        let age = SimDuration::from_nanos(61_098_900_000_000);
        check(
            Reason::LifetimeOver { age, difference: 0.42 },
            "the oldest replica is 17h old: time to correct requests that are 42% off",
        );
        check(GuardReason::AtMost(Amount::replicas(12)).into(), "clamped to at most 12 replicas");
        check(
            GuardReason::AtLeast(Amount::memory(Bytes::from_mib(64))).into(),
            "clamped to at least 64Mi memory",
        );
        let remaining = SimDuration::from_secs(40);
        check(
            GuardReason::CoolDown { dimension: Dimension::CPU, remaining }.into(),
            "held: CPU cool-down for another 40s",
        );
        check(
            GuardReason::Refused { dimension: Dimension::REPLICAS, value: f64::NAN }.into(),
            "refused: NaN is not a valid amount of replicas",
        );
        check(
            Reason::MetricAsks {
                metric: HpaMetric::CpuUtilization { target_percent: 50 },
                measured: 75.0,
                replicas: 8,
            },
            "CPU utilisation 75% against a target of 50% asks for 8 replicas",
        );
        check(
            Reason::Degradation {
                latency: millis(130),
                isolated: millis(100),
                threshold: Fraction::from_percent(15),
            },
            "latency 130ms is +30% relative to 100ms alone, 15% tolerated",
        );
    }

    #[test]
    fn durations_are_in_the_unit_that_people_use() {
        let check = |seconds: f64, expect: &str| {
            let duration = SimDuration::from_seconds(seconds).unwrap();
            assert_eq!(Short(duration).to_string(), expect);
        };
        check(0.812_345, "812ms");
        check(40.0, "40s");
        check(90.0, "90s");
        check(260.0, "4m20s");
        check(300.0, "5m");
        check(5400.0, "1h30m");
        check(61_098.9, "17h");
        check(604_800.0, "7d");
    }
}
