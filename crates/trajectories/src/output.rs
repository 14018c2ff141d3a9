//! Results for people and for programs.

use std::io::Write;

use clap::ValueEnum;
use serde_json::Value;

/// The form of a result on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default)]
pub(crate) enum Output {
    /// Aligned columns.
    #[default]
    Table,
    /// JSON.
    Json,
}

/// Prints a text. A reader that has gone away is no failure.
pub(crate) fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Prints one record: a table has its names on the left.
pub(crate) fn print_record(output: Output, record: &Value) {
    match (output, record.as_object()) {
        (Output::Table, Some(fields)) => {
            let width = fields.keys().map(String::len).max().unwrap_or(0);
            let line =
                |(name, value): (&String, &Value)| format!("{name:width$}  {}\n", cell(value));
            print(&fields.iter().map(line).collect::<String>());
        }
        _ => print(&format!("{record:#}\n")),
    }
}

/// Prints several records with the same fields; in JSON, a list.
pub(crate) fn print_records(output: Output, records: &[Value]) {
    let names: Vec<String> = match records.first().and_then(Value::as_object) {
        Some(first) if output == Output::Table => first.keys().cloned().collect(),
        None if output == Output::Table => return,
        _ => return print(&format!("{:#}\n", Value::from(records))),
    };
    let cells = |record: &Value| names.iter().map(|name| cell(&record[name])).collect::<Vec<_>>();
    let mut table = vec![names.iter().map(|name| name.to_uppercase()).collect::<Vec<_>>()];
    table.extend(records.iter().map(cells));
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..names.len()).map(|column| width(column).unwrap_or(0)).collect();
    for row in &table {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = padded.collect::<Vec<_>>().join("  ");
        print(&format!("{}\n", line.trim_end()));
    }
}

/// A value in a table. Control characters of names are shown, not obeyed.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.chars().flat_map(shown).collect(),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or_else(String::new, |number| format!("{number:.4}"))
        }
        Value::Array(values) => values.iter().map(cell).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

fn shown(letter: char) -> Vec<char> {
    if letter.is_control() { letter.escape_default().collect() } else { vec![letter] }
}
