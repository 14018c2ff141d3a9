//! The interface of learned policies in five resources (FIRM, dissertation, Table 3.2): eight features of
//! an observation, and five limits.

use homeostat_core::{ActionField, ActionSchema, ControlSchema, FeatureField, FeatureSchema};

use crate::{
    ContainerBounds, ContainerLimits, ContainerObservation, ContainerProposal, ContainerReason,
    ContainerResource, Error, Result,
};

/// Largest value of the change of workload and of a utilisation.
const MAX_RATIO: f32 = 4.0;
/// Levels of a share in the code of the request mix.
const LEVELS: f64 = 4.0;

/// The state of Table 3.2: SLO maintenance, change of workload, request mix, five utilisations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ContainerFeatures(pub [f32; Self::COUNT]);

impl ContainerFeatures {
    /// Number of features.
    pub const COUNT: usize = 8;

    /// Of an observation.
    pub fn of(seen: &ContainerObservation) -> Self {
        let mut features = [0.0; Self::COUNT];
        features[0] = seen.slo_maintenance as f32;
        features[1] = (seen.workload_change as f32).min(MAX_RATIO);
        features[2] = mix_code(&seen.request_mix) as f32;
        for (feature, utilization) in features[3..].iter_mut().zip(seen.utilization()) {
            *feature = (utilization as f32).min(MAX_RATIO);
        }
        Self(features)
    }

    /// The schema that policy files carry.
    pub fn schema() -> FeatureSchema {
        let (part, ratio) = ((0.0, 1.0), (0.0, MAX_RATIO));
        let mut features = vec![
            FeatureField::new(
                "slo_maintenance",
                "SLO over measured p99 of the requests that call the service",
                part,
            ),
            FeatureField::new(
                "workload_change",
                "rate of calls over that of the step before",
                ratio,
            ),
            FeatureField::new("request_mix", "code of the shares of all types of requests", part),
        ];
        features.extend(ContainerResource::ALL.map(|resource| {
            let name = format!("{}_utilization", key(resource));
            FeatureField::new(&name, "use over limit, of all replicas", ratio)
        }));
        FeatureSchema { id: "containers/utilization-v1".to_owned(), features, history: 1 }
    }
}

/// The name of a resource as a part of other names.
fn key(resource: ContainerResource) -> String {
    resource.name().replace(' ', "_").to_lowercase()
}

/// One number for the shares of all types: the digits of a number of that many levels, from zero to one.
fn mix_code(mix: &[f64]) -> f64 {
    let level = |share: &f64| (share * LEVELS).floor().min(LEVELS - 1.0);
    mix.iter().rev().fold(0.0, |code, share| (code + level(share)) / LEVELS)
}

/// Five numbers from -1 to 1, each a limit between its bounds.
///
/// Deviation: limits are spaced evenly on a logarithmic scale. Bounds span two orders of magnitude, and a
/// linear scale would leave one percent of it to the services that need little.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LimitAction(pub [f64; 5]);

impl LimitAction {
    /// The schema that policy files carry.
    pub fn schema() -> ActionSchema {
        let part = |resource: ContainerResource| ActionField {
            name: format!("{}_limit", key(resource)),
            meaning: "-1 to 1: from the smallest to the largest limit, on a logarithmic scale"
                .to_owned(),
            choices: Vec::new(),
        };
        let parts = ContainerResource::ALL.map(part).to_vec();
        ActionSchema { id: "containers/limits-v1".to_owned(), parts }
    }

    /// Features and actions of policies in this domain.
    pub fn control_schema() -> ControlSchema {
        ControlSchema {
            features: ContainerFeatures::schema(),
            action: Self::schema(),
            bounds: Vec::new(),
        }
    }

    /// Refuses schemas that this version does not serve.
    pub fn require_schema(schema: &ControlSchema) -> Result<()> {
        let known = Self::control_schema();
        if schema.features == known.features && schema.action == known.action {
            return Ok(());
        }
        let problem = format!("this version serves {} with {}", known.features.id, known.action.id);
        Err(Error::schema(&schema.features.id, &problem))
    }

    /// The limits that it stands for; at the end of a range that the setting has reached already, one
    /// replica more or fewer (3.2.4).
    pub fn propose(&self, bounds: &ContainerBounds, from: &ContainerLimits) -> ContainerProposal {
        let (low, high) = (bounds.low().limits, bounds.high().limits);
        let limits: [f64; 5] = std::array::from_fn(|index| {
            let (low, high) = (low[index] as f64, high[index] as f64);
            let place = (self.0[index].clamp(-1.0, 1.0) + 1.0) / 2.0;
            low * (high / low).powf(place)
        });
        let is_full = |index: &usize| {
            from.limits[*index] >= high[*index] && limits[*index].round() >= high[*index] as f64
        };
        let is_least = |index: usize| {
            from.limits[index] <= low[index] && limits[index].round() <= low[index] as f64
        };
        let mut replicas = f64::from(from.replicas);
        let mut reasons = vec![ContainerReason::Chosen];
        if let Some(index) = (0..5).find(is_full) {
            replicas += 1.0;
            reasons.push(ContainerReason::ScaleOut(ContainerResource::ALL[index]));
        } else if (0..5).all(is_least) {
            replicas = (replicas - 1.0).max(1.0);
            reasons.push(ContainerReason::ScaleIn);
        }
        ContainerProposal { replicas, limits, reasons }
    }
}

#[cfg(test)]
mod tests {
    use homeostat_core::{SimDuration, SimTime};

    use super::*;
    use crate::{ContainerScaling, Guards, GuardsConfig, PreparedProposal, decide};

    fn limits(replicas: u32, limit: u64) -> ContainerLimits {
        ContainerLimits { replicas, limits: [limit; 5] }
    }

    fn seen(setting: ContainerLimits) -> ContainerObservation {
        ContainerObservation::new(SimTime::ZERO, SimDuration::from_secs(1), setting)
    }

    #[test]
    fn different_mixes_have_different_codes_from_zero_to_one() {
        let mut codes = vec![
            mix_code(&[1.0, 0.0, 0.0]),
            mix_code(&[0.0, 1.0, 0.0]),
            mix_code(&[0.0, 0.0, 1.0]),
            mix_code(&[0.5, 0.5, 0.0]),
            mix_code(&[0.0, 0.5, 0.5]),
        ];
        assert!(codes.iter().all(|code| (0.0..1.0).contains(code)));
        codes.sort_by(f64::total_cmp);
        codes.dedup();
        assert_eq!(codes.len(), 5);
    }

    #[test]
    fn features_have_the_order_and_the_ranges_of_their_schema() {
        let mut obs = seen(limits(2, 1000));
        obs.usage = [500.0, 2000.0, 1e9, 0.0, 0.0];
        obs.workload_change = 99.0;
        obs.slo_maintenance = 0.5;
        let features = ContainerFeatures::of(&obs).0;
        assert_eq!(features, [0.5, 4.0, 0.0, 0.25, 1.0, 4.0, 0.0, 0.0]);
        let schema = ContainerFeatures::schema();
        assert_eq!(schema.features[4].name, "memory_bandwidth_utilization");
        for (value, field) in features.iter().zip(&schema.features) {
            assert!(*value <= field.high.unwrap(), "{} = {value}", field.name);
        }
    }

    #[test]
    fn other_schemas_are_refused_by_name() {
        let mut schema = LimitAction::control_schema();
        LimitAction::require_schema(&schema).unwrap();
        schema.features.id = "pods/utilisation-v1".to_owned();
        let error = LimitAction::require_schema(&schema).unwrap_err().to_string();
        assert!(error.contains("pods/utilisation-v1") && error.contains("containers/limits-v1"));
    }

    fn decided(action: [f64; 5], from: ContainerLimits) -> (ContainerLimits, String) {
        let bounds = ContainerBounds::try_new(limits(1, 100), limits(3, 10_000)).unwrap();
        let mut guards =
            Guards::<ContainerScaling>::try_new(GuardsConfig::bounds_only(bounds)).unwrap();
        let mut policy = PreparedProposal::new(LimitAction(action).propose(&bounds, &from));
        let decision = decide(&mut policy, &mut guards, &seen(from));
        (*decision.applied(), decision.to_string())
    }

    #[test]
    fn an_action_spans_the_bounds_on_a_logarithmic_scale() {
        let (applied, words) = decided([-1.0, 0.0, 1.0, 0.5, -2.0], limits(1, 500));
        assert_eq!(applied.limits, [100, 1000, 10_000, 3162, 100]);
        assert!(words.ends_with("the policy chose the limits"), "{words}");
    }

    #[test]
    fn a_resource_at_its_largest_limit_becomes_a_replica_up_to_the_bound() {
        let at_most = ContainerLimits { replicas: 2, limits: [500, 10_000, 500, 500, 500] };
        let (applied, words) = decided([0.0, 1.0, 0.0, 0.0, 0.0], at_most);
        assert_eq!(applied.replicas, 3);
        assert!(words.contains("memory bandwidth is at its largest limit"), "{words}");
        let (applied, words) =
            decided([0.0, 1.0, 0.0, 0.0, 0.0], ContainerLimits { replicas: 3, ..at_most });
        assert_eq!(applied.replicas, 3);
        assert!(words.contains("3 replicas"), "{words}");
    }

    #[test]
    fn all_resources_at_their_smallest_limits_are_a_replica_fewer_and_never_none() {
        assert_eq!(decided([-1.0; 5], limits(2, 100)).0.replicas, 1);
        assert_eq!(decided([-1.0; 5], limits(1, 100)).0.replicas, 1);
        assert_eq!(decided([-1.0, -1.0, -1.0, -1.0, 0.0], limits(2, 100)).0.replicas, 2);
    }
}
