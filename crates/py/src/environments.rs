//! The environments by id, and their settings from keywords.

use std::path::PathBuf;
use std::sync::Mutex;

use homeostat_lab::{EnvFactory, Environments, Error, Settings};
use homeostat_simppo::Preset;
use pyo3::prelude::*;

use crate::exceptions::{Class, raise};
use crate::settings::{Keywords, resolve};

/// Factories that are kept: profiling twelve functions takes a tenth of a second, and scripts make
/// the same environment again and again.
const KEPT_FACTORIES: usize = 8;

/// Every environment: its id, whether many agents share it, and one sentence about it.
#[pyfunction]
pub(crate) fn environments(py: Python<'_>) -> PyResult<Vec<(String, bool, &'static str)>> {
    let factory = EnvFactory::with_defaults(&Environments::builtin());
    let factory = factory.map_err(|error| raise(py, &error))?;
    let specs = factory.specs().into_iter().map(|spec| {
        let id = spec.id.to_string();
        let is_shared = factory.is_shared(&id);
        (id, is_shared, spec.card.summary)
    });
    Ok(specs.collect())
}

/// State, actions and reward of an environment in words.
#[pyfunction]
pub(crate) fn card(py: Python<'_>, env_id: &str) -> PyResult<String> {
    let (factory, id) = make(py, env_id, &Vec::new(), None)?;
    let spec = factory.spec(&id).map_err(|error| raise(py, &Error::from(error)))?;
    Ok(spec.describe())
}

/// The commented reference of every setting.
#[pyfunction]
pub(crate) fn default_settings() -> String {
    Environments::builtin().reference()
}

/// Every setting as section and name, in the order of the reference.
#[pyfunction]
pub(crate) fn setting_names(py: Python<'_>) -> PyResult<Vec<(String, String)>> {
    let settings = Settings::defaults(&Environments::builtin());
    let settings = settings.map_err(|error| raise(py, &error))?;
    let names = settings.iter().filter_map(|(key, _)| key.split_once('.'));
    Ok(names.map(|(section, name)| (section.to_owned(), name.to_owned())).collect())
}

/// The shared environment that teams are trained in unless another is named.
#[pyfunction]
pub(crate) fn default_multi_agent_env() -> &'static str {
    Preset::by_name("simppo").map_or("", |preset| preset.env)
}

/// The environments behind an id with the settings of these keywords, and the id as this project
/// spells it. Names of keywords are those of the simulator's section.
pub(crate) fn make(
    py: Python<'_>,
    env_id: &str,
    keywords: &Keywords<'_>,
    config: Option<PathBuf>,
) -> PyResult<(EnvFactory, String)> {
    let id = own_spelling(env_id);
    let simulator = Environments::builtin().of(&id);
    let has_settings = simulator.is_some_and(|simulator| !simulator.default_toml().is_empty());
    if !keywords.is_empty() && !has_settings {
        let names: Vec<_> = keywords.iter().map(|(.., keyword)| keyword.as_str()).collect();
        let text = format!("{id} has no settings, got {}", names.join(", "));
        return Err(Class::Usage.with(py, text));
    }
    let prefix = simulator.map_or("", |simulator| simulator.prefix());
    let mut all: Keywords<'_> = keywords
        .iter()
        .map(|(name, value, keyword)| (format!("{prefix}.{name}"), value.clone(), keyword.clone()))
        .collect();
    let env = pyo3::types::PyString::new(py, &id).into_any();
    all.push(("run.env".to_owned(), env, "env".to_owned()));
    let settings = resolve(py, &all, config, false)?;
    let factory = py.detach(|| kept(prefix, &settings)).map_err(|error| raise(py, &error))?;
    // A misspelt id is refused here, not at its first use.
    factory.spec(&id).map_err(|error| raise(py, &error.into()))?;
    Ok((factory, id))
}

/// `homeostat/faas-function-v2`, as Gymnasium knows it, is `faas/function-v2` here.
#[pyfunction]
pub(crate) fn own_spelling(env_id: &str) -> String {
    match env_id.strip_prefix("homeostat/") {
        Some(name) => name.replacen('-', "/", 1),
        None => env_id.to_owned(),
    }
}

/// The environments of these settings, made once for each set of the simulator's own.
fn kept(prefix: &str, settings: &Settings) -> Result<EnvFactory, Error> {
    static FACTORIES: Mutex<Vec<(String, EnvFactory)>> = Mutex::new(Vec::new());
    let of_the_simulator = settings
        .iter()
        .filter(|(key, _)| key.split_once('.').is_some_and(|(section, _)| section == prefix));
    let key: Vec<String> =
        of_the_simulator.map(|(key, setting)| format!("{key}={}", setting.value)).collect();
    let key = key.join("\n");
    let mut factories = FACTORIES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let place = factories.iter().position(|(other, _)| *other == key);
    let found = place.map(|place| factories.remove(place).1);
    // Preparing again is quick where it was done before, and refuses what this environment does.
    let factory = settings.prepare(found)?;
    factories.push((key, factory.clone()));
    if factories.len() > KEPT_FACTORIES {
        factories.remove(0);
    }
    Ok(factory)
}
