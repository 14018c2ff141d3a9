//! How a learned policy reads pods, and how its answers become proposals: the encoders of this
//! crate, chosen by the schemas that a policy file carries.

use homeostat_core::{ControlSchema, FeatureSchema, Persist, Result as CoreResult, Snapshot};

use crate::{
    AllocationBounds, Error, Features, Observation, Proposal, Result, ScalingAction, SetPoint,
    SetPoints,
};

/// Encodes observations and decodes actions for one policy and one target.
#[derive(Debug, Clone, PartialEq)]
pub struct PodInterface {
    encoding: Encoding,
    /// Features of the team behind the target's own.
    team_features: usize,
}

#[derive(Debug, Clone, PartialEq)]
enum Encoding {
    /// Utilisation, and one step of one dimension.
    Steps(Features),
    /// Load and contention, and set-points.
    SetPoints(SetPoints),
}

impl PodInterface {
    /// The interface that a policy was trained with, for a target with these bounds. Refuses
    /// schemas that this version does not know, by name.
    pub fn for_schema(schema: &ControlSchema, bounds: AllocationBounds) -> Result<Self> {
        let ControlSchema { features, action, .. } = schema;
        let known = [
            (Features::schema(), ScalingAction::schema(), Encoding::Steps(Features::new(bounds))),
            (
                SetPoints::feature_schema(),
                SetPoints::action_schema(),
                Encoding::SetPoints(SetPoints::new(bounds)),
            ),
        ];
        let base_id = features.id.strip_suffix(TEAM_SUFFIX).unwrap_or(&features.id);
        let ids: Vec<String> = known
            .iter()
            .map(|(features, action, _)| format!("{} with {}", features.id, action.id))
            .collect();
        for (known_features, known_action, encoding) in known {
            if known_features.id == base_id && known_action.id == action.id {
                let team_features = require_same(features, &known_features)?;
                if known_action != *action {
                    return Err(Error::schema(
                        &action.id,
                        "its choices differ from this version's",
                    ));
                }
                return Ok(Self { encoding, team_features });
            }
        }
        let known = format!("this version serves {}", ids.join(", "));
        let id = match features.id == action.id {
            true => features.id.clone(),
            false => format!("{} with {}", features.id, action.id),
        };
        Err(Error::schema(&id, &known))
    }

    /// Measures against other bounds from now on.
    pub fn set_bounds(&mut self, bounds: AllocationBounds) {
        match &mut self.encoding {
            Encoding::Steps(features) => features.set_bounds(bounds),
            Encoding::SetPoints(points) => points.set_bounds(bounds),
        }
    }

    /// Whether it reads features of the team.
    pub fn needs_team(&self) -> bool {
        self.team_features > 0
    }

    /// The features of an observation. Called once per observation, in the order of time. Features
    /// of a team that is not there are zero.
    pub fn observe(&mut self, obs: &Observation, out: &mut Vec<f32>) {
        out.clear();
        match &mut self.encoding {
            Encoding::Steps(features) => out.extend_from_slice(&features.observe(obs)),
            Encoding::SetPoints(points) => out.extend_from_slice(&points.observe(obs)),
        }
        let team = obs.team.iter().copied().chain(std::iter::repeat(0.0));
        out.extend(team.take(self.team_features));
    }

    /// The proposal of an action: one choice for each part of the action schema.
    pub fn propose(&mut self, choices: &[usize], obs: &Observation) -> Proposal {
        let choice = |part: usize| choices.get(part).copied().unwrap_or(0);
        match &mut self.encoding {
            Encoding::Steps(_) => {
                let action = ScalingAction::from_index(choice(0)).unwrap_or(ScalingAction::Hold);
                action.propose(&obs.allocation)
            }
            Encoding::SetPoints(points) => {
                points.propose(SetPoint::from_choices(choice(0), choice(1)), &obs.allocation)
            }
        }
    }
}

/// Marks the id of a schema whose last features are the team's.
pub const TEAM_SUFFIX: &str = "+team";

/// Refuses a schema whose own features differ from those this version computes. Returns how many
/// features of the team follow.
fn require_same(schema: &FeatureSchema, known: &FeatureSchema) -> Result<usize> {
    if schema.history != known.history {
        let problem = format!("it needs {} observations at once, not 1", schema.history);
        return Err(Error::schema(&schema.id, &problem));
    }
    let own = schema.features.iter().take_while(|feature| !feature.needs_team).count();
    if own != known.features.len() {
        let problem = format!("it has {own} features, this version {}", known.features.len());
        return Err(Error::schema(&schema.id, &problem));
    }
    for (feature, expected) in schema.features.iter().zip(&known.features) {
        if feature != expected {
            let problem = format!("feature {:?} is another one in this version", feature.name);
            return Err(Error::schema(&schema.id, &problem));
        }
    }
    Ok(schema.features.len() - own)
}

impl Persist for PodInterface {
    fn save(&self, name: &str, out: &mut Snapshot) {
        match &self.encoding {
            Encoding::Steps(features) => features.save(name, out),
            Encoding::SetPoints(points) => points.save(name, out),
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        match &mut self.encoding {
            Encoding::Steps(features) => features.load(name, from),
            Encoding::SetPoints(points) => points.load(name, from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_core::{Bounds, Bytes, FeatureField};

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
        let mut with_team = set_points();
        with_team.features.id += TEAM_SUFFIX;
        let member = FeatureField {
            needs_team: true,
            ..FeatureField::new("others' SP", "mean over the others", (0.0, 1.0))
        };
        with_team.features.features.push(member);
        let interface = PodInterface::for_schema(&with_team, bounds()).expect("known");
        assert!(interface.needs_team());
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
        check(&|schema| schema.action.parts[0].choices.truncate(2), "choices differ");
    }
}
