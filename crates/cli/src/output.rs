//! Results for people and for programs.

use std::borrow::Cow;
use std::io::{self, Write};

use clap::ValueEnum;
use serde_json::{Map, Value};

/// The form of a result on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default)]
pub(crate) enum Output {
    /// Aligned columns.
    #[default]
    Table,
    /// JSON.
    Json,
    /// Comma-separated values with a header.
    Csv,
}

/// Prints one record: a table has its names on the left.
pub(crate) fn print_record(output: Output, record: &Value) {
    match (output, record.as_object()) {
        (Output::Table, Some(fields)) => {
            let width = fields.keys().map(String::len).max().unwrap_or(0);
            let lines: String = fields
                .iter()
                .map(|(name, value)| format!("{name:width$}  {}\n", plain(value)))
                .collect();
            print(&lines);
        }
        (Output::Json, _) => print(&format!("{record:#}\n")),
        _ => print_records(output, std::slice::from_ref(record)),
    }
}

/// Prints several records with the same fields; in JSON, a list.
pub(crate) fn print_records(output: Output, records: &[Value]) {
    let empty = Map::new();
    let rows: Vec<&Map<String, Value>> =
        records.iter().map(|record| record.as_object().unwrap_or(&empty)).collect();
    let columns: Vec<&String> = rows.first().map(|row| row.keys().collect()).unwrap_or_default();
    let cells = |row: &Map<String, Value>, write: fn(&Value) -> String| -> Vec<String> {
        columns.iter().map(|column| row.get(*column).map_or(String::new(), write)).collect()
    };
    match output {
        Output::Json => print(&format!(
            "{:#}
",
            Value::Array(records.to_vec())
        )),
        Output::Csv => {
            let quote = |cell: String| {
                if cell.contains([',', '"', '\n']) {
                    format!("\"{}\"", cell.replace('"', "\"\""))
                } else {
                    cell
                }
            };
            let header = columns.iter().map(|column| (*column).clone()).collect();
            let lines = std::iter::once(header).chain(rows.iter().map(|row| cells(row, exact)));
            let text: String = lines
                .map(|line: Vec<String>| {
                    line.into_iter().map(quote).collect::<Vec<_>>().join(",") + "\n"
                })
                .collect();
            print(&text);
        }
        Output::Table => {
            let mut table =
                vec![columns.iter().map(|column| column.to_uppercase()).collect::<Vec<_>>()];
            table.extend(rows.iter().map(|row| cells(row, plain)));
            print(&align(&table));
        }
    }
}

/// A record with its ratios in percent, for people: `x_ratio` becomes `x_pct`.
pub(crate) fn in_percent(record: Value) -> Value {
    let Value::Object(fields) = record else { return record };
    let fields = fields.into_iter().map(|(name, value)| match value.as_f64() {
        Some(ratio) if name.contains("_ratio") => {
            (name.replace("_ratio", "_pct"), Value::from(100.0 * ratio))
        }
        _ if name.contains("_ratio") => (name.replace("_ratio", "_pct"), value),
        _ => (name, value),
    });
    fields.collect::<Map<_, _>>().into()
}

/// Columns padded to their widest cell; numbers to the right.
fn align(table: &[Vec<String>]) -> String {
    let columns = table.first().map_or(0, Vec::len);
    let width =
        |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let is_number = |column: usize| {
        table.iter().skip(1).all(|row| row[column].is_empty() || row[column].parse::<f64>().is_ok())
    };
    let mut text = String::new();
    for row in table {
        let cells: Vec<_> = (0..columns)
            .map(|column| {
                let (cell, width) = (&row[column], width(column));
                if is_number(column) { format!("{cell:>width$}") } else { format!("{cell:width$}") }
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A value as programs read it: every digit, nothing for null.
fn exact(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A value as people write it: no quotes, few digits.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => printable(text).into_owned(),
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            if number.abs() >= 1000.0 {
                format!("{number:.0}")
            } else if number.abs() >= 0.1 || number == 0.0 {
                format!("{number:.2}")
            } else {
                format!("{number:.2e}")
            }
        }
        other => other.to_string(),
    }
}

/// Names in traces and foreign files may contain control sequences of terminals: they are escaped.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let controls = |c: char| {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns || (c.is_control() && c != '\n' && c != '\t')
    };
    if !text.contains(controls) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| if controls(c) { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(escape).collect())
}

/// Writes to standard output; a reader that has gone away ends the program quietly.
pub(crate) fn print(text: &str) {
    if let Err(error) =
        io::stdout().write_all(printable(text).as_bytes()).and_then(|()| io::stdout().flush())
    {
        if error.kind() != io::ErrorKind::BrokenPipe {
            say!("error: failed to write the result: {error}");
            std::process::exit(1);
        }
        std::process::exit(0);
    }
}
