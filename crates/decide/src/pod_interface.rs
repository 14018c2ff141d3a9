//! The interface between learned policies and pods: the encoders of this crate, chosen by the
//! schemas of a policy file.

use homeostat_core::{ControlSchema, FeatureSchema, Persist, Result as CoreResult, Snapshot};

use crate::{
    AllocationBounds, AllocationTarget, EndToEnd, Error, Features, Observation, Proposal, Ratios,
    Result, ScalingAction, SetPoint, SetPoints, StageFeatures,
};

/// Encodes observations and decodes actions for one policy and one target.
#[derive(Debug, Clone, PartialEq)]
pub struct PodInterface {
    encoding: Encoding,
    /// Whether features of the other team members follow the target's own features.
    needs_team: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Encoding {
    /// Utilisation, and one step of one dimension.
    Steps(Features),
    /// Utilisation and the chain's SLO, and one step of one dimension.
    StageSteps(Features),
    /// Utilisation, and a factor for every dimension.
    Ratios(Features),
    /// Utilisation, and the allocation between these bounds.
    Targets(Features, AllocationBounds),
    /// Load and contention, and set-points.
    SetPoints(SetPoints),
}

impl PodInterface {
    /// The interface that a policy was trained with, for a target with these bounds. An error for
    /// schemas that this version does not support.
    pub fn for_schema(schema: &ControlSchema, bounds: AllocationBounds) -> Result<Self> {
        let ControlSchema { features, action, .. } = schema;
        let steps = || Encoding::Steps(Features::new(bounds));
        let set_points = || Encoding::SetPoints(SetPoints::new(bounds));
        let ratios = Encoding::Ratios(Features::new(bounds));
        let known = [
            (Features::schema(), Ratios::schema(), ratios),
            (
                Features::schema(),
                AllocationTarget::schema(),
                Encoding::Targets(Features::new(bounds), bounds),
            ),
            (Features::schema(), ScalingAction::schema(), steps()),
            (
                StageFeatures::schema(),
                ScalingAction::schema(),
                Encoding::StageSteps(Features::new(bounds)),
            ),
            (Features::team_schema(), ScalingAction::schema(), steps()),
            (SetPoints::feature_schema(), SetPoints::action_schema(), set_points()),
            (SetPoints::team_feature_schema(), SetPoints::action_schema(), set_points()),
        ];
        let ids: Vec<String> = known
            .iter()
            .map(|(features, action, _)| format!("{} with {}", features.id, action.id))
            .collect();
        for (known_features, known_action, encoding) in known {
            if known_features.id == features.id && known_action.id == action.id {
                require_same(features, &known_features)?;
                if known_action != *action {
                    return Err(Error::schema(
                        &action.id,
                        "its choices differ from this version's",
                    ));
                }
                return Ok(Self { encoding, needs_team: features.needs_team() });
            }
        }
        let known = format!("this version serves {}", ids.join(", "));
        let id = match features.id == action.id {
            true => features.id.clone(),
            false => format!("{} with {}", features.id, action.id),
        };
        Err(Error::schema(&id, &known))
    }

    /// Changes the bounds that features are normalised by.
    pub fn set_bounds(&mut self, bounds: AllocationBounds) {
        match &mut self.encoding {
            Encoding::Steps(features)
            | Encoding::StageSteps(features)
            | Encoding::Ratios(features) => features.set_bounds(bounds),
            Encoding::Targets(features, own) => {
                features.set_bounds(bounds);
                *own = bounds;
            }
            Encoding::SetPoints(points) => points.set_bounds(bounds),
        }
    }

    /// Whether it reads features of the other team members.
    pub fn needs_team(&self) -> bool {
        self.needs_team
    }

    /// Whether it needs the load of its target: arrival rate, requests in the system and service
    /// time. The change of the arrival rate is optional: it is 0 while it is unknown.
    pub fn needs_load(&self) -> bool {
        matches!(self.encoding, Encoding::SetPoints(_))
    }

    /// The features of an observation. Called once per observation, in the order of time. A target
    /// outside of a team counts as a team of one, and outside of a chain as a chain of one stage.
    pub fn observe(&mut self, obs: &Observation, out: &mut Vec<f32>) {
        out.clear();
        match &mut self.encoding {
            Encoding::Steps(features)
            | Encoding::Ratios(features)
            | Encoding::Targets(features, _) => {
                out.extend_from_slice(&features.observe(obs));
            }
            Encoding::StageSteps(features) => {
                let own = features.observe(obs);
                let chain = obs.chain.unwrap_or(EndToEnd { slo: obs.slo, latency: obs.latency });
                out.extend_from_slice(&StageFeatures::of(own, obs.latency, &chain));
            }
            Encoding::SetPoints(points) => out.extend_from_slice(&points.observe(obs)),
        }
        if self.needs_team {
            let team = obs.team.unwrap_or_default();
            let others = match &self.encoding {
                Encoding::Steps(_)
                | Encoding::StageSteps(_)
                | Encoding::Ratios(_)
                | Encoding::Targets(..) => team.utilization,
                Encoding::SetPoints(_) => team.set_points,
            };
            out.extend_from_slice(&others.means());
        }
    }

    /// The proposal of an action: one number for each component of the action schema; of a choice,
    /// its index.
    pub fn propose(&mut self, action: &[f32], obs: &Observation) -> Proposal {
        let choice = |part: usize| action.get(part).map_or(0, |number| *number as usize);
        match &mut self.encoding {
            Encoding::Steps(_) | Encoding::StageSteps(_) => {
                let action = ScalingAction::from_index(choice(0)).unwrap_or(ScalingAction::Hold);
                action.propose(&obs.allocation)
            }
            Encoding::Ratios(_) => Ratios::from_numbers(action).propose(&obs.allocation),
            Encoding::Targets(_, bounds) => {
                AllocationTarget::from_numbers(action).propose(&obs.allocation, bounds)
            }
            Encoding::SetPoints(points) => {
                points.propose(SetPoint::from_choices(choice(0), choice(1)), &obs.allocation)
            }
        }
    }
}

/// An error for a schema whose features differ from those of this version.
fn require_same(schema: &FeatureSchema, known: &FeatureSchema) -> Result<()> {
    if schema.history != known.history {
        let problem = format!("it needs {} observations at once, not 1", schema.history);
        return Err(Error::schema(&schema.id, &problem));
    }
    let (count, expected) = (schema.features.len(), known.features.len());
    if count != expected {
        let problem = format!("it has {count} features, this version {expected}");
        return Err(Error::schema(&schema.id, &problem));
    }
    for (feature, expected) in schema.features.iter().zip(&known.features) {
        // Files of earlier versions do not name units.
        let unit = if feature.unit.is_empty() { &expected.unit } else { &feature.unit };
        if feature.clone().with_unit(unit) != *expected {
            let problem = format!("feature {:?} differs from this version's", feature.name);
            return Err(Error::schema(&schema.id, &problem));
        }
    }
    Ok(())
}

impl Persist for PodInterface {
    fn save(&self, name: &str, out: &mut Snapshot) {
        match &self.encoding {
            Encoding::Steps(features)
            | Encoding::StageSteps(features)
            | Encoding::Ratios(features)
            | Encoding::Targets(features, _) => features.save(name, out),
            Encoding::SetPoints(points) => points.save(name, out),
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        match &mut self.encoding {
            Encoding::Steps(features)
            | Encoding::StageSteps(features)
            | Encoding::Ratios(features)
            | Encoding::Targets(features, _) => features.load(name, from),
            Encoding::SetPoints(points) => points.load(name, from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Allocation;
    use homeostat_core::{Bounds, Bytes, Fraction, Millicores, SimDuration, SimTime, Slo};

    fn bounds() -> AllocationBounds {
        AllocationBounds::with_dissertation_cpu(
            Bounds::try_new(1, 10).expect("ordered"),
            Bounds::try_new(Bytes::from_mib(64), Bytes::from_mib(512)).expect("ordered"),
        )
    }

    fn set_points() -> ControlSchema {
        ControlSchema {
            features: SetPoints::feature_schema(),
            action: SetPoints::action_schema(),
            bounds: Vec::new(),
        }
    }

    #[test]
    fn schemas_are_served_by_what_they_say_and_not_by_where_they_come_from() {
        let interface = PodInterface::for_schema(&set_points(), bounds()).expect("known");
        assert!(!interface.needs_team());
        assert!(interface.needs_load());
        let with_team =
            ControlSchema { features: SetPoints::team_feature_schema(), ..set_points() };
        let interface = PodInterface::for_schema(&with_team, bounds()).expect("known");
        assert!(interface.needs_team());
        let steps = ControlSchema {
            features: Features::team_schema(),
            action: ScalingAction::schema(),
            bounds: Vec::new(),
        };
        let interface = PodInterface::for_schema(&steps, bounds()).expect("known");
        assert!(interface.needs_team() && !interface.needs_load());
        let stage = ControlSchema { features: StageFeatures::schema(), ..steps.clone() };
        let mut interface = PodInterface::for_schema(&stage, bounds()).expect("known");
        let mut features = Vec::new();
        // Outside of a chain, a target is a chain of one stage.
        let slo =
            Slo::try_new(Fraction::from_percent(99), SimDuration::from_millis(100)).expect("valid");
        let size =
            Allocation { replicas: 1, cpu: Millicores::new(500), memory: Bytes::from_mib(128) };
        let latency = Some(SimDuration::from_millis(200));
        interface.observe(
            &Observation { latency, ..Observation::new(SimTime::ZERO, size, slo) },
            &mut features,
        );
        assert_eq!([features[0], features[7], features[8]], [0.5, 0.5, 1.0]);
        let ratios = ControlSchema {
            features: Features::schema(),
            action: Ratios::schema(),
            bounds: Vec::new(),
        };
        let mut interface = PodInterface::for_schema(&ratios, bounds()).expect("known");
        let allocation =
            Allocation { replicas: 2, cpu: Millicores::new(500), memory: Bytes::from_mib(128) };
        let slo = Slo::try_new(Fraction::from_percent(99), SimDuration::from_millis(250));
        let obs = Observation::new(SimTime::ZERO, allocation, slo.expect("valid"));
        let proposal = interface.propose(&[0.5, -0.5, 0.0], &obs);
        assert_eq!(proposal.replicas, 4.0);
        let targets = ControlSchema { action: AllocationTarget::schema(), ..ratios };
        let mut interface = PodInterface::for_schema(&targets, bounds()).expect("known");
        assert_eq!(interface.propose(&[1.0, 0.0, 0.0], &obs).replicas, 10.0);
    }

    #[test]
    fn other_schemas_are_refused_by_name() {
        let check = |change: &dyn Fn(&mut ControlSchema), expect: &str| {
            let mut schema = set_points();
            change(&mut schema);
            let error = PodInterface::for_schema(&schema, bounds()).expect_err("other").to_string();
            assert!(error.contains(expect), "{error}");
        };
        check(&|schema| schema.features.id = "gpu/clock-v1".to_owned(), "gpu/clock-v1");
        check(&|schema| schema.features.features[2].high = Some(9.0), "feature \"load\"");
        check(&|schema| schema.features.features.truncate(3), "3 features");
        check(&|schema| schema.features.history = 4, "4 observations");
        check(&|schema| schema.features.id += "+team", "10 features, this version 24");
        check(&|schema| schema.action.parts[0].choices.truncate(2), "choices differ");
    }
}
