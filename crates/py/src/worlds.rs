//! The worlds by id, and their settings from keywords.

use std::path::PathBuf;
use std::sync::Mutex;

use homeostat_lab::{Error, Settings, Worlds};
use pyo3::prelude::*;

use crate::exceptions::{Class, raise};
use crate::settings::{Keywords, resolve};

/// Worlds whose plans are kept: profiling twelve functions takes a tenth of a second, and
/// scripts make the same world again and again.
const KEPT_PLANS: usize = 8;

/// Every world: its id, whether many agents share it, and one sentence about it.
#[pyfunction]
pub(crate) fn worlds(py: Python<'_>) -> PyResult<Vec<(String, bool, &'static str)>> {
    let worlds = Worlds::default_for("").map_err(|error| raise(py, &error))?;
    let specs = worlds.specs().into_iter().map(|spec| {
        let id = spec.id.to_string();
        let is_shared = Worlds::is_shared(&id);
        (id, is_shared, spec.card.summary)
    });
    Ok(specs.collect())
}

/// State, actions and reward of a world in words.
#[pyfunction]
pub(crate) fn card(py: Python<'_>, world: &str) -> PyResult<String> {
    let (worlds, id) = make(py, world, &Vec::new(), None)?;
    let spec = match worlds.make_multi_agent(&id) {
        Ok(shared) => shared.spec().clone(),
        Err(_) => {
            let env = worlds.make(&id, 0).map_err(|error| raise(py, &Error::from(error)))?;
            env.spec().clone()
        }
    };
    Ok(spec.describe())
}

/// The commented reference of every setting.
#[pyfunction]
pub(crate) fn default_settings() -> &'static str {
    homeostat_lab::DEFAULT_TOML
}

/// The worlds behind an id with the settings of these keywords, and the id as this project
/// spells it.
pub(crate) fn make(
    py: Python<'_>,
    world: &str,
    keywords: &Keywords<'_>,
    config: Option<PathBuf>,
) -> PyResult<(Worlds, String)> {
    let id = own_spelling(world);
    if !keywords.is_empty() && !id.starts_with("faas/") {
        let names: Vec<_> = keywords.iter().map(|(.., keyword)| keyword.as_str()).collect();
        let text = format!("{id} has no settings, got {}", names.join(", "));
        return Err(Class::Usage.with(py, text));
    }
    let mut all: Keywords<'_> = keywords.clone();
    let env = pyo3::types::PyString::new(py, &id).into_any();
    all.push(("run.env".to_owned(), env, "world".to_owned()));
    let settings = resolve(py, &all, config, false)?;
    let worlds = py.detach(|| kept(&id, &settings)).map_err(|error| raise(py, &error))?;
    // Whoever misspells an id hears of it here, not at its first use.
    if !worlds.specs().iter().any(|spec| spec.id.to_string() == id)
        && let Err(error) = worlds.make(&id, 0)
    {
        return Err(raise(py, &error.into()));
    }
    Ok((worlds, id))
}

/// `homeostat/faas-function-v1`, as Gymnasium knows it, is `faas/function-v1` here.
fn own_spelling(world: &str) -> String {
    match world.strip_prefix("homeostat/") {
        Some(name) => name.replacen('-', "/", 1),
        None => world.to_owned(),
    }
}

fn kept(id: &str, settings: &Settings) -> Result<Worlds, Error> {
    static PLANS: Mutex<Vec<(String, Worlds)>> = Mutex::new(Vec::new());
    let is_faas = id.starts_with("faas/");
    let of_the_world = settings.iter().filter(|(key, ..)| is_faas && key.starts_with("faas."));
    let key: Vec<String> = of_the_world.map(|(key, value, _)| format!("{key}={value}")).collect();
    let key = key.join("\n");
    let mut plans = PLANS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // What only chains refuse is asked of the settings again.
    if let Some(place) = plans.iter().position(|(other, _)| *other == key) {
        let found = plans.remove(place);
        plans.push(found.clone());
        if id != "faas/chain-v1" {
            return Ok(found.1);
        }
    }
    let worlds = settings.worlds()?;
    if plans.last().is_none_or(|(other, _)| *other != key) {
        plans.push((key, worlds.clone()));
    }
    if plans.len() > KEPT_PLANS {
        plans.remove(0);
    }
    Ok(worlds)
}
