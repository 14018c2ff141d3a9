//! Settings as text: TOML values, keys, variables, and the nearest word to a misspelt one.

use toml::{Table, Value};

pub(super) fn section_and_name(key: &str) -> (&str, &str) {
    key.split_once('.').expect("every setting has a section")
}

/// `section.key` and value of every setting of a table of sections. A value may be
/// a table itself (an enum with fields): only the first level is split.
pub(super) fn leaves(table: &Table) -> Vec<(String, Value)> {
    let mut leaves = Vec::new();
    for (section, value) in table {
        match value {
            Value::Table(inner) => {
                leaves.extend(
                    inner.iter().map(|(key, value)| (format!("{section}.{key}"), value.clone())),
                );
            }
            other => leaves.push((section.clone(), other.clone())),
        }
    }
    leaves
}

/// The text of a flag or variable as a TOML value; what is none is a string.
pub(super) fn value_of_text(text: &str) -> Value {
    let parsed = format!("value = {text}").parse::<Table>();
    match parsed.ok().and_then(|mut table| table.remove("value")) {
        Some(value) => value,
        None => Value::String(text.to_owned()),
    }
}

pub(super) fn variable_of_key(key: &str) -> String {
    format!("HOMEOSTAT_{}", key.to_uppercase().replace(['.', '-'], "_"))
}

pub(super) fn same_type(a: &Value, b: &Value) -> bool {
    let number = |value: &Value| value.is_integer() || value.is_float();
    a.same_type(b) || (number(a) && number(b))
}

/// 0.0003 in single precision is 0.0003000000142 in double: back to the short form.
pub(super) fn shorten_floats(value: &Value) -> Value {
    match value {
        Value::Float(number) => {
            Value::Float((*number as f32).to_string().parse().unwrap_or(*number))
        }
        Value::Table(table) => Value::Table(
            table.iter().map(|(key, value)| (key.clone(), shorten_floats(value))).collect(),
        ),
        other => other.clone(),
    }
}

/// ", did you mean `...`?" if something is near enough to be meant.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let near = known
        .map(|name| (strsim::jaro_winkler(word, name), name))
        .filter(|(similarity, _)| *similarity > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    near.map_or(String::new(), |(_, name)| format!(", did you mean `{name}`?"))
}
