//! The static description of an environment: versioned id, spaces, time limit, and a card that
//! documents it.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use homeostat_core::{ActionField, ActionSchema, ControlSchema, FeatureField, FeatureSchema};

use crate::{Action, Error, Result, Space};

/// `namespace/name-vN`. Any change that moves scores raises N.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EnvId {
    namespace: String,
    name: String,
    version: u32,
}

impl EnvId {
    /// The family, for example `classic`.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name inside the family, for example `cartpole`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version.
    pub fn version(&self) -> u32 {
        self.version
    }
}

impl FromStr for EnvId {
    type Err = Error;

    fn from_str(id: &str) -> Result<Self, Error> {
        let malformed = || Error::MalformedId { id: id.to_owned() };
        let is_word = |word: &str| {
            !word.is_empty()
                && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        };
        let (namespace, rest) = id.split_once('/').ok_or_else(malformed)?;
        let (name, version) = rest.rsplit_once("-v").ok_or_else(malformed)?;
        let version = version.parse().map_err(|_| malformed())?;
        if !is_word(namespace) || !is_word(name) {
            return Err(malformed());
        }
        let this = Self { namespace: namespace.to_owned(), name: name.to_owned(), version };
        // One spelling each: a number also parses from "+1" and "01".
        if this.to_string() == id { Ok(this) } else { Err(malformed()) }
    }
}

impl fmt::Display for EnvId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}-v{}", self.namespace, self.name, self.version)
    }
}

/// Everything fixed about an environment.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvSpec {
    /// Its versioned id.
    pub id: EnvId,
    /// Observations.
    pub observation: Space,
    /// Actions.
    pub action: Space,
    /// Steps after which an episode is truncated.
    pub time_limit: Option<u32>,
    /// The documentation.
    pub card: Card,
    /// Feature and action schemas, where learned policies are served outside of this environment;
    /// none to derive them from the spaces and the card. Shared, since a thousand agents of one
    /// environment have the same.
    pub control: Option<Arc<ControlSchema>>,
}

/// State, actions and reward in words.
#[derive(Debug, Clone, PartialEq)]
pub struct Card {
    /// One sentence: what the task is.
    pub summary: &'static str,
    /// Each number of the observation.
    pub observation: Vec<Field>,
    /// Each action, or each number of it.
    pub action: Vec<Field>,
    /// The reward as a formula or a sentence.
    pub reward: &'static str,
    /// When an episode terminates; truncation is the time limit.
    pub termination: &'static str,
    /// Where the dynamics come from.
    pub source: &'static str,
}

/// One line of a card.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Meaning, unit and range.
    pub meaning: Cow<'static, str>,
}

impl Field {
    /// A line of a card.
    pub const fn new(name: &'static str, meaning: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), meaning: Cow::Borrowed(meaning) }
    }
}

impl From<&FeatureField> for Field {
    fn from(feature: &FeatureField) -> Self {
        let range = match (feature.low, feature.high) {
            (Some(low), Some(high)) => format!("{low} to {high}: "),
            _ => String::new(),
        };
        Self {
            name: feature.name.clone().into(),
            meaning: format!("{range}{}", feature.meaning).into(),
        }
    }
}

impl EnvSpec {
    /// The schemas that a policy of this environment carries.
    pub fn control_schema(&self) -> Arc<ControlSchema> {
        self.control.clone().unwrap_or_else(|| {
            Arc::new(ControlSchema {
                features: FeatureSchema {
                    id: self.id.to_string(),
                    features: fields_of(&self.observation, &self.card.observation),
                    history: 1,
                },
                action: ActionSchema {
                    id: self.id.to_string(),
                    parts: parts_of(&self.action, &self.card.action),
                },
                bounds: Vec::new(),
            })
        })
    }

    /// An error for an action outside the action space.
    pub fn require_action(&self, action: &Action) -> Result<()> {
        if self.action.contains(action) {
            return Ok(());
        }
        Err(Error::ActionOutsideSpace {
            env: self.id.to_string(),
            action: action.to_string(),
            space: self.action.to_string(),
        })
    }

    /// An error unless there is one action inside the space for each of `agents`.
    pub fn require_actions(&self, actions: &[Action], agents: usize) -> Result<()> {
        if actions.len() != agents {
            return Err(Error::ActionCount {
                env: self.id.to_string(),
                expected: agents,
                got: actions.len(),
            });
        }
        actions.iter().try_for_each(|action| self.require_action(action))
    }

    /// The card as text for a terminal.
    pub fn describe(&self) -> String {
        let limit = match self.time_limit {
            Some(steps) => format!("after {steps} steps"),
            None => "never".to_owned(),
        };
        let mut text = format!("{}\n{}\n\n", self.id, self.card.summary);
        let mut section = |title: &str, space: &Space, fields: &[Field]| {
            text.push_str(&format!("{title}  {space}\n"));
            let width = fields.iter().map(|field| field.name.len()).max().unwrap_or(0);
            for field in fields {
                text.push_str(&format!("  {:width$}  {}\n", field.name, field.meaning));
            }
            text.push('\n');
        };
        section("State", &self.observation, &self.card.observation);
        section("Actions", &self.action, &self.card.action);
        text.push_str(&format!("Reward      {}\n", self.card.reward));
        text.push_str(&format!("Terminates  {}\n", self.card.termination));
        text.push_str(&format!("Truncates   {limit}\n"));
        text.push_str(&format!("Source      {}\n", self.card.source));
        text
    }
}

fn fields_of(space: &Space, card: &[Field]) -> Vec<FeatureField> {
    let ends: Vec<(f32, f32)> = match space {
        Space::Box { low, high } => low.iter().copied().zip(high.iter().copied()).collect(),
        Space::Discrete(n) => vec![(0.0, n.saturating_sub(1) as f32)],
        Space::MultiDiscrete(n) => n.iter().map(|n| (0.0, n.saturating_sub(1) as f32)).collect(),
    };
    let field = |(place, (low, high)): (usize, (f32, f32))| {
        let (name, meaning) = named(card, place);
        let finite = |end: f32| Some(end).filter(|end| end.is_finite());
        FeatureField {
            low: finite(low),
            high: finite(high),
            ..FeatureField::new(&name, &meaning, (0.0, 0.0))
        }
    };
    ends.into_iter().enumerate().map(field).collect()
}

fn parts_of(space: &Space, card: &[Field]) -> Vec<ActionField> {
    let numbers = |n: &usize| (0..*n).map(|choice| choice.to_string()).collect::<Vec<_>>();
    let choices: Vec<Vec<String>> = match space {
        Space::Discrete(n) => vec![numbers(n)],
        Space::MultiDiscrete(n) => n.iter().map(numbers).collect(),
        Space::Box { low, .. } => vec![Vec::new(); low.len()],
    };
    let part = |(place, choices)| {
        let (name, meaning) = named(card, place);
        ActionField::choice(&name, &meaning, choices)
    };
    choices.into_iter().enumerate().map(part).collect()
}

/// The card's line for one number; the bare number where the card has none.
fn named(card: &[Field], place: usize) -> (String, String) {
    match card.get(place) {
        Some(field) => (field.name.to_string(), field.meaning.to_string()),
        None => (place.to_string(), String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_name_their_version() {
        let id: EnvId = "faas/shared-fleet-v12".parse().unwrap();
        assert_eq!((id.namespace(), id.name(), id.version()), ("faas", "shared-fleet", 12));
        assert_eq!(id.to_string(), "faas/shared-fleet-v12");
        for wrong in [
            "cartpole",
            "classic/cartpole",
            "classic/-v1",
            "/x-v1",
            "a/b-vx",
            "a/b-v+1",
            "a/b-v01",
            "A/b-v1",
        ] {
            assert!(wrong.parse::<EnvId>().is_err(), "{wrong}");
        }
    }
}
