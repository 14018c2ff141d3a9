//! Features of a function that is a stage of a chain: [`Features`] with the
//! chain's SLO, and two that show whether this stage is the slow one.

use homeostat_core::{FeatureField, FeatureSchema, SimDuration, Slo};

use crate::Features;

/// End-to-end telemetry of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndToEnd {
    /// The chain's SLO.
    pub slo: Slo,
    /// Its latency at the SLO's percentile; none without requests.
    pub latency: Option<SimDuration>,
}

/// Encodes observations of a stage.
///
/// All stages of a chain have the same SLO preservation ratio (SP), which does not show which
/// stage is slow. Monitoring also has the latency of each function: `SP_own` is the ratio of the
/// stage's own SLO, and `share` its fraction of the chain's latency, because a slow stage with a
/// small share hardly matters.
#[derive(Debug, Clone, Copy)]
pub struct StageFeatures;

impl StageFeatures {
    /// Number of features.
    pub const COUNT: usize = Features::COUNT + 2;

    /// Their names, in order: those of [`Features`], and two of the stage's own.
    pub const NAMES: [&str; Self::COUNT] =
        ["SP", "RU_cpu", "RU_mem", "AC", "RLT_cpu", "RLT_mem", "NC", "SP_own", "share"];

    /// The schema that policy files carry.
    pub fn schema() -> FeatureSchema {
        let mut schema = Features::schema();
        schema.id = "pods/chain-stage-v1".to_owned();
        schema.features[0].meaning =
            "SLO preservation of the chain: its threshold over its latency, 1 while it is met"
                .to_owned();
        let own = "SLO preservation of the function by itself";
        let share = "latency of the function over that of the chain, at most 1";
        let further = [("SP_own", own), ("share", share)];
        let further = further.map(|(name, meaning)| FeatureField::new(name, meaning, (0.0, 1.0)));
        schema.features.extend(further);
        schema
    }

    /// Range of each.
    pub fn ranges() -> impl Iterator<Item = (f32, f32)> {
        Features::RANGES.into_iter().chain([(0.0, 1.0); 2])
    }

    /// The features of a stage, from those of its function and the function's latency at its SLO's
    /// percentile.
    pub fn of(
        own: [f32; Features::COUNT],
        latency: Option<SimDuration>,
        chain: &EndToEnd,
    ) -> [f32; Self::COUNT] {
        let mut features = [0.0; Self::COUNT];
        features[..Features::COUNT].copy_from_slice(&own);
        // SP in [0, 1]: the chain's SLO threshold over its latency; 1 without violation or request.
        let preservation =
            chain.latency.map_or(1.0, |latency| chain.slo.preservation(latency).ratio());
        features[0] = preservation as f32;
        // SP_own in [0, 1]: the same of the function by itself.
        features[Features::COUNT] = own[0];
        // share in [0, 1]: the function's latency over the chain's; 0 without a request. The two
        // percentiles belong to different requests, so that their ratio may exceed 1: it is clamped.
        features[Features::COUNT + 1] = match (latency, chain.latency) {
            (Some(own), Some(whole)) if whole > SimDuration::ZERO => {
                (own.nanos() as f64 / whole.nanos() as f64).min(1.0) as f32
            }
            _ => 0.0,
        };
        features
    }
}

#[cfg(test)]
mod tests {
    use homeostat_core::Fraction;

    use super::*;

    #[test]
    fn a_stage_sees_the_chain_and_its_own_part_of_it() {
        let slo = |millis| {
            Slo::try_new(Fraction::from_percent(99), SimDuration::from_millis(millis)).unwrap()
        };
        let check = |own_ms: Option<u64>, chain_ms: Option<u64>, expect: [f32; 3]| {
            let [own, whole] = [own_ms, chain_ms].map(|ms| ms.map(SimDuration::from_millis));
            let preservation =
                own.map_or(1.0, |latency| slo(100).preservation(latency).ratio()) as f32;
            let table = [preservation, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6];
            let chain = EndToEnd { slo: slo(1000), latency: whole };
            let features = StageFeatures::of(table, own, &chain);
            assert_eq!([features[0], features[7], features[8]], expect);
            assert_eq!(features[1..7], table[1..]);
        };
        // Nothing came; all is well; another stage is slow; this one is.
        check(None, None, [1.0, 1.0, 0.0]);
        check(Some(90), Some(900), [1.0, 1.0, 0.1]);
        check(Some(100), Some(2000), [0.5, 1.0, 0.05]);
        check(Some(1000), Some(2000), [0.5, 0.1, 0.5]);
        check(Some(4000), Some(2000), [0.5, 0.025, 1.0]);
    }
}
