//! Results for people and for programs.

use std::io::Write;

use clap::ValueEnum;
use serde_json::Value;

/// The form of a result on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default)]
pub(crate) enum Output {
    /// A line for each figure.
    #[default]
    Table,
    /// JSON.
    Json,
}

/// Prints a record: a table has its names on the left, those of nested figures joined by dots.
pub(crate) fn print_record(output: Output, record: &Value) {
    let text = match output {
        Output::Json => format!("{record:#}\n"),
        Output::Table => {
            let mut lines = Vec::new();
            flatten("", record, &mut lines);
            let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
            lines.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
        }
    };
    // A reader that has gone away is no failure.
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

fn flatten(prefix: &str, value: &Value, lines: &mut Vec<(String, String)>) {
    let text = match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let dot = if prefix.is_empty() { "" } else { "." };
                flatten(&format!("{prefix}{dot}{name}"), field, lines);
            }
            return;
        }
        Value::Null => "-".to_owned(),
        // Control characters of names are shown, not obeyed.
        Value::String(text) => text
            .chars()
            .map(|letter| match letter.is_control() {
                true => letter.escape_default().to_string(),
                false => letter.to_string(),
            })
            .collect(),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or_else(String::new, |number| format!("{number:.4}"))
        }
        other => other.to_string(),
    };
    lines.push((prefix.to_owned(), text));
}

/// Says how far a long job is.
pub(crate) fn say(quiet: bool, text: &str) {
    if !quiet {
        let _ = writeln!(std::io::stderr(), "{text}");
    }
}
