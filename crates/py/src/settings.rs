//! Settings by keyword: Python's values in the words of the configuration file.

use std::path::PathBuf;

use homeostat_lab::{Settings, UserLayers};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::exceptions::{Class, raise};

/// Settings by `section.key`, each with the keyword it was given by.
pub(crate) type Keywords<'py> = Vec<(String, Bound<'py, PyAny>, String)>;

/// All layers of a call, resolved.
pub(crate) fn resolve(
    py: Python<'_>,
    keywords: &Keywords<'_>,
    config: Option<PathBuf>,
    with_environment: bool,
) -> PyResult<Settings> {
    let keywords = keywords
        .iter()
        .map(|(key, value, keyword)| Ok((key.clone(), literal(value, keyword)?, keyword.clone())))
        .collect::<PyResult<Vec<_>>>()?;
    let layers = || {
        let mut layers = UserLayers { keywords, ..UserLayers::default() };
        if with_environment {
            layers = layers.with_environment()?;
        }
        if let Some(path) = config {
            layers = layers.with_file(&path)?;
        }
        Settings::resolve(&layers)
    };
    layers().map_err(|error| raise(py, &error))
}

/// A value as TOML spells it. `None` switches an optional setting off.
fn literal(value: &Bound<'_, PyAny>, keyword: &str) -> PyResult<String> {
    let py = value.py();
    if value.is_none() {
        return Ok("\"off\"".to_owned());
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(value.extract::<bool>()?.to_string());
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(quoted(&text.to_cow()?));
    }
    if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        return Ok(value.repr()?.to_cow()?.into_owned());
    }
    if let Ok(table) = value.cast::<PyDict>() {
        let entries = table
            .iter()
            .map(|(key, value)| {
                Ok(format!("{} = {}", quoted(&key.str()?.to_cow()?), literal(&value, keyword)?))
            })
            .collect::<PyResult<Vec<_>>>()?;
        return Ok(format!("{{ {} }}", entries.join(", ")));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items =
            value.try_iter()?.map(|item| literal(&item?, keyword)).collect::<PyResult<Vec<_>>>()?;
        return Ok(format!("[{}]", items.join(", ")));
    }
    // NumPy's numbers and arrays become Python's.
    if let Ok(plain) = value.call_method0("tolist") {
        return literal(&plain, keyword);
    }
    if let Ok(path) = py.import("os")?.call_method1("fspath", (value,)) {
        return literal(&path, keyword);
    }
    let kind = value.get_type().name()?;
    let expected = "a setting is a number, a text, a truth value, a list or a dictionary";
    Err(Class::WrongType.with(py, format!("cannot use keyword {keyword}: {expected}, got {kind}")))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
