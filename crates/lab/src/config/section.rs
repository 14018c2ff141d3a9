//! One section of the settings, read by serde; errors name the setting, its value and its source.

use homeostat_env::Error as EnvError;
use serde::Deserialize;
use toml::{Table, Value};

use super::text::same_type;
use super::{OFF, Setting, Settings, Source};
use crate::{Error, Result};

impl Settings {
    /// One section as a table; what is off is left out.
    pub(super) fn table(&self, section: &str) -> Table {
        let prefix = format!("{section}.");
        let mut table = Table::new();
        for (key, Setting { value, .. }) in &self.values {
            let Some(name) = key.strip_prefix(&prefix) else { continue };
            if section == "run" || value.as_str() != Some(OFF) {
                table.insert(name.to_owned(), value.clone());
            }
        }
        table
    }

    /// One section, read by serde.
    pub(super) fn section<T: for<'de> Deserialize<'de>>(&self, section: &str) -> Result<T> {
        T::deserialize(Value::Table(self.table(section)))
            .map_err(|error| self.unreadable(section, &error.to_string()))
    }

    /// The error for a section that could not be read, with the setting that is to blame.
    fn unreadable(&self, section: &str, reason: &str) -> Error {
        let culprit = self.culprit(section, reason);
        let (key, source) = culprit.map_or((section.to_owned(), Source::Default), |key| {
            let source = self.source(&key);
            (key, source)
        });
        Error::Unreadable {
            source_text: format!("{key} (from {source})"),
            reason: reason.lines().next().unwrap_or_default().to_owned(),
        }
    }

    /// The setting that made a section unreadable: the one that the reason names, whose value
    /// it names, or that is not of the default's type; those that the user gave first.
    fn culprit(&self, section: &str, reason: &str) -> Option<String> {
        let defaults = Self::defaults(&self.environments).ok()?;
        let mut changed: Vec<_> = self
            .table(section)
            .keys()
            .map(|name| format!("{section}.{name}"))
            .filter(|key| self.source(key) != Source::Default)
            .collect();
        changed
            .sort_by_key(|key| matches!(self.source(key), Source::Preset(_) | Source::Method(_)));
        let names = |text: &str| reason.contains(&format!("`{text}`"));
        let text_of = |key: &String| {
            let value = &self.values[key].value;
            value.as_str().map_or_else(|| value.to_string(), str::to_owned)
        };
        let by_name = changed.iter().find(|key| names(&key[section.len() + 1..]));
        let by_value = changed.iter().find(|key| names(&text_of(key)));
        let is_of_another_type =
            |key: &&String| !same_type(&self.values[*key].value, &defaults.values[*key].value);
        let by_type = changed.iter().find(is_of_another_type);
        by_name.or(by_value).or(by_type).or(changed.first()).cloned()
    }

    pub(super) fn out_of_range(&self, key: &str, expected: &str) -> Error {
        let Setting { value, source } = &self.values[key];
        Error::OutOfRange {
            key: key.to_owned(),
            value: value.to_string(),
            source_text: source.to_string(),
            expected: expected.to_owned(),
        }
    }

    pub(super) fn with_source(&self, error: homeostat_rl::Error) -> Error {
        match error {
            homeostat_rl::Error::Setting { setting, expected, .. }
                if self.values.contains_key(&setting) =>
            {
                self.out_of_range(&setting, &expected)
            }
            other => other.into(),
        }
    }

    /// What a simulator refused, with the place its setting came from.
    pub(super) fn refused_by(&self, prefix: &str, error: EnvError) -> Error {
        match error {
            EnvError::UnreadableSettings { reason } => self.unreadable(prefix, &reason),
            EnvError::SettingOutOfRange { key, expected, .. } if self.values.contains_key(&key) => {
                self.out_of_range(&key, &expected)
            }
            other => other.into(),
        }
    }
}
