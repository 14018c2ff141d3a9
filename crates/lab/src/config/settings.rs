//! Every setting with its source: the reference, and the layers above it.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::text::{leaves, nearest, section_and_name, value_of_text, variable_of_key};
use super::{OFF, PPO_NUM_ENVS, Source, TEAM, UserLayers};
use crate::{Environments, Error, Result};

/// Every setting, by `section.key`. Later layers win.
#[derive(Debug, Clone)]
pub struct Settings {
    pub(super) environments: Environments,
    pub(super) values: BTreeMap<String, Setting>,
    /// The order of the reference, for people.
    pub(super) order: Vec<String>,
    renamed: Vec<String>,
}

/// The value of a setting, and where it came from.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The value.
    pub value: Value,
    /// The layer that gave it.
    pub source: Source,
}

impl Settings {
    /// The reference alone.
    pub fn defaults(environments: &Environments) -> Result<Self> {
        let table: Table = environments.reference().parse().map_err(|error: toml::de::Error| {
            Error::Unreadable {
                source_text: "the reference of a simulator".to_owned(),
                reason: error.to_string(),
            }
        })?;
        let mut this = Self {
            environments: environments.clone(),
            values: BTreeMap::new(),
            order: Vec::new(),
            renamed: Vec::new(),
        };
        for (key, value) in leaves(&table) {
            this.order.push(key.clone());
            this.values.insert(key, Setting { value, source: Source::Default });
        }
        Ok(this)
    }

    /// All layers, the method and the preset they name included.
    pub fn resolve(environments: &Environments, layers: &UserLayers) -> Result<Self> {
        let mut user = Self::defaults(environments)?;
        user.apply_user(layers)?;
        let (method, preset) = (user.method(), user.preset()?);
        // Both lie under what the user gave: start again with them below.
        let mut settings = Self::defaults(environments)?;
        if let Some(method) = &method {
            settings.apply_method(method, user.word("run.preset") != OFF)?;
        }
        if let Some(preset) = &preset {
            settings.apply_preset(preset)?;
        }
        settings.apply_user(layers)?;
        if let Some(preset) = preset {
            let name = Value::String(preset.name.to_owned());
            settings.apply("run.preset", name, user.source("run.preset"))?;
        }
        Ok(settings)
    }

    /// Every setting in the order of the reference.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.order.iter().map(|key| (key.as_str(), &self.values[key]))
    }

    /// [`Settings::iter`] without the settings of algorithms and simulators that this run does
    /// not use.
    pub fn used(&self) -> impl Iterator<Item = (&str, &Setting)> {
        let (algorithm, env) = (self.word("run.algorithm"), self.word("run.env"));
        let is_team = self.method().is_some();
        self.iter().filter(move |(key, _)| {
            let (section, name) = section_and_name(key);
            let is_of_the_simulator = self.environments.uses(env, section, name);
            let is_of_the_team =
                is_team && *key != PPO_NUM_ENVS && (section == TEAM || section == "ppo");
            let is_of_the_algorithm = section == algorithm && !is_team;
            section == "run" || is_of_the_algorithm || is_of_the_team || is_of_the_simulator
        })
    }

    /// A sentence for each setting that was given by the name it had in an earlier release.
    pub fn renamed(&self) -> &[String] {
        &self.renamed
    }

    /// The settings that this run uses as TOML.
    pub fn to_toml(&self) -> String {
        let mut table = Table::new();
        for (key, setting) in self.used() {
            let (section, name) = section_and_name(key);
            let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            section
                .as_table_mut()
                .expect("made a table above")
                .insert(name.to_owned(), setting.value.clone());
        }
        toml::to_string(&table).expect("plain values")
    }

    /// The settings that make this run and no other.
    pub(super) fn identity(&self) -> BTreeMap<String, String> {
        let parts = self.used().filter(|(key, _)| !CHANGEABLE.contains(key));
        parts.map(|(key, setting)| (key.to_owned(), setting.value.to_string())).collect()
    }

    fn apply_user(&mut self, layers: &UserLayers) -> Result<()> {
        if let Some(file) = &layers.file {
            let source = Source::File(file.name.clone());
            let table: Table = file.text.parse().map_err(|error: toml::de::Error| {
                Error::Unreadable { source_text: source.to_string(), reason: error.to_string() }
            })?;
            for (key, value) in leaves(&table) {
                self.apply(&key, value, source.clone())?;
            }
        }
        for variable in &layers.environment {
            let source = Source::Environment(variable.name.clone());
            let key = self.key_of_variable(&variable.name);
            let key = key.ok_or_else(|| self.unknown(&variable.name, &source))?;
            self.apply(&key, value_of_text(&variable.value), source)?;
        }
        for flag in &layers.flags {
            let source = Source::Flag(flag.origin.clone());
            self.apply(&flag.key, value_of_text(&flag.text), source)?;
        }
        for keyword in &layers.keywords {
            let source = Source::Keyword(keyword.origin.clone());
            self.apply(&keyword.key, value_of_text(&keyword.text), source)?;
        }
        Ok(())
    }

    pub(super) fn word(&self, key: &str) -> &str {
        self.values[key].value.as_str().unwrap_or_default()
    }

    pub(super) fn apply(&mut self, key: &str, value: Value, source: Source) -> Result<()> {
        let present = self.environments.present_key(key);
        if let Some(present) = present {
            self.renamed.push(format!(
                "`{key}` (from {source}) is now called `{present}`; the next release refuses the \
                 old name"
            ));
        }
        match self.values.get_mut(present.unwrap_or(key)) {
            Some(slot) => {
                *slot = Setting { value, source };
                Ok(())
            }
            None => Err(self.unknown(key, &source)),
        }
    }

    pub(super) fn source(&self, key: &str) -> Source {
        self.values[key].source.clone()
    }

    fn unknown(&self, key: &str, source: &Source) -> Error {
        let hint = match source {
            Source::Environment(_) => {
                let variables: Vec<_> = self.order.iter().map(|key| variable_of_key(key)).collect();
                nearest(key, variables.iter().map(String::as_str))
            }
            _ => match self.of_name(key) {
                Some(whole) => format!(", did you mean `{whole}`?"),
                None => nearest(key, self.order.iter().map(String::as_str)),
            },
        };
        Error::UnknownKey { key: key.to_owned(), source_text: source.to_string(), hint }
    }

    /// The setting whose section was left out: that of the algorithm, or the first of this name.
    fn of_name(&self, name: &str) -> Option<&str> {
        let section = self.word("run.algorithm");
        let has_name = |key: &&String| section_and_name(key).1 == name;
        let named = || self.order.iter().filter(has_name);
        let own = named().find(|key| section_and_name(key).0 == section);
        own.or_else(|| named().next()).map(String::as_str)
    }

    fn key_of_variable(&self, variable: &str) -> Option<String> {
        let is_meant = |key: &str| variable_of_key(key) == variable;
        let present = self.order.iter().find(|key| is_meant(key)).cloned();
        let mut former = self.environments.renamed().map(|renamed| renamed.old);
        present.or_else(|| former.find(|key| is_meant(key)).map(str::to_owned))
    }
}

/// Settings that a run may change when it goes on.
const CHANGEABLE: [&str; 6] = [
    "run.steps",
    "run.log_every",
    "run.checkpoint_every",
    "run.threads",
    "run.kernel",
    "run.preset",
];
