//! Settings by keyword: Python's values in the words of the configuration file.

use std::ffi::CString;
use std::path::PathBuf;

use homeostat_lab::{Assignment, Environments, Settings, UserLayers};
use pyo3::exceptions::PyFutureWarning;
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
        .map(|(key, value, keyword)| Ok(Assignment::new(key, literal(value, keyword)?, keyword)))
        .collect::<PyResult<Vec<_>>>()?;
    let layers = || {
        let mut layers = UserLayers { keywords, ..UserLayers::default() };
        if with_environment {
            layers = layers.with_environment()?;
        }
        if let Some(path) = config {
            layers = layers.with_file(&path)?;
        }
        Settings::resolve(&Environments::builtin(), &layers)
    };
    let settings = layers().map_err(|error| raise(py, &error))?;
    for renamed in settings.renamed() {
        let category = py.get_type::<PyFutureWarning>();
        let text = CString::new(renamed.as_str()).unwrap_or_default();
        PyErr::warn(py, &category, &text, 1)?;
    }
    Ok(settings)
}

/// A value as TOML spells it. `None` switches an optional setting off.
fn literal(value: &Bound<'_, PyAny>, keyword: &str) -> PyResult<String> {
    nested_literal(value, keyword, 0)
}

/// Lists in lists, so many deep; a list may even hold itself.
const DEEPEST: usize = 16;

fn nested_literal(value: &Bound<'_, PyAny>, keyword: &str, depth: usize) -> PyResult<String> {
    let py = value.py();
    let refused = |class: Class, why: String| {
        Err(class.with(py, format!("cannot use keyword {keyword}: {why}")))
    };
    if depth > DEEPEST {
        let why = format!("a setting is nested at most {DEEPEST} deep, got {}", kind_of(value));
        return refused(Class::Usage, why);
    }
    let inner = |value: &Bound<'_, PyAny>| nested_literal(value, keyword, depth + 1);
    if value.is_none() {
        return Ok("\"off\"".to_owned());
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(value.extract::<bool>()?.to_string());
    }
    if let Ok(text) = value.cast::<PyString>() {
        return match text.to_cow() {
            Ok(text) => Ok(quoted(&text)),
            Err(_) => refused(Class::Usage, format!("it is no Unicode text, got {}", text.repr()?)),
        };
    }
    // By their values: subclasses, NumPy's and those of enums, write themselves in ways of their own.
    if value.is_instance_of::<PyInt>() {
        return match value.extract::<i64>() {
            Ok(number) => Ok(number.to_string()),
            Err(_) => {
                let why = format!("a whole number has at most 64 bits, got {value}");
                refused(Class::Usage, why)
            }
        };
    }
    if value.is_instance_of::<PyFloat>() {
        // TOML writes NaN in small letters.
        return Ok(format!("{:?}", value.extract::<f64>()?).to_lowercase());
    }
    if let Ok(table) = value.cast::<PyDict>() {
        let entries = table
            .iter()
            .map(|(key, value)| {
                let Ok(key) = key.cast_into::<PyString>() else {
                    return refused(Class::WrongType, "names of settings are texts".to_owned());
                };
                Ok(format!("{} = {}", inner(key.as_any())?, inner(&value)?))
            })
            .collect::<PyResult<Vec<_>>>()?;
        return Ok(format!("{{ {} }}", entries.join(", ")));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.map(|item| inner(&item?)).collect::<PyResult<Vec<_>>>()?;
        return Ok(format!("[{}]", items.join(", ")));
    }
    // NumPy's numbers and arrays become Python's.
    if let Ok(plain) = value.call_method0("tolist") {
        return inner(&plain);
    }
    if let Ok(path) = py.import("os")?.call_method1("fspath", (value,)) {
        return inner(&path);
    }
    let expected = "a setting is a number, a text, a truth value, a list or a dictionary";
    refused(Class::WrongType, format!("{expected}, got {}", kind_of(value)))
}

fn kind_of(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or("something".to_owned(), |name| name.to_string())
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
