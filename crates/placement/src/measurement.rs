//! Measured operators, from CSV or JSON.

use serde::{Deserialize, Serialize};

use crate::error::check_range;
use crate::{Error, Result};

/// The time of one operator at one clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// Device type.
    pub device: String,
    /// Kind of the operator, as XLA names it: dot, attention, ...
    pub operator: String,
    /// Floating-point operations of one execution.
    pub flops: f64,
    /// Bytes that one execution reads and writes.
    pub bytes: f64,
    /// Kernels that it launches.
    #[serde(default = "one")]
    pub launches: f64,
    /// SM clock while it was measured.
    pub clock_mhz: f64,
    /// Mean time of an execution.
    pub time_ms: f64,
    /// Mean power of the device.
    #[serde(default)]
    pub power_w: Option<f64>,
}

fn one() -> f64 {
    1.0
}

/// The columns that a CSV file must have.
const COLUMNS: [&str; 6] = ["device", "operator", "flops", "bytes", "clock_mhz", "time_ms"];

/// The columns that it may have.
const OPTIONAL: [&str; 2] = ["launches", "power_w"];

impl Measurement {
    pub(crate) fn is_of_same_operator(&self, other: &Self) -> bool {
        self.device == other.device
            && self.operator == other.operator
            && (self.flops, self.bytes, self.launches) == (other.flops, other.bytes, other.launches)
    }

    /// Reads measurements: JSON with an array `measurements`, as `homeostat gpu profile` prints, or CSV
    /// with a header.
    pub fn read(text: &str) -> Result<Vec<Self>> {
        let measurements =
            if text.trim_start().starts_with('{') { from_json(text) } else { from_csv(text) }?;
        if measurements.is_empty() {
            return Err(unreadable("there is no measurement in it".to_owned()));
        }
        for (place, one) in measurements.iter().enumerate() {
            let key = |key: &str| format!("measurement {}: {key}", place + 1);
            check_range(&key("flops"), one.flops, 0.0, 1e18)?;
            check_range(&key("bytes"), one.bytes, 0.0, 1e15)?;
            check_range(&key("launches"), one.launches, 0.0, 1e6)?;
            check_range(&key("clock_mhz"), one.clock_mhz, 1.0, 1e5)?;
            check_range(&key("time_ms"), one.time_ms, 1e-9, 1e9)?;
            check_range(&key("power_w"), one.power_w.unwrap_or(0.0), 0.0, 1e5)?;
        }
        Ok(measurements)
    }
}

fn unreadable(reason: String) -> Error {
    Error::Unreadable { what: "the file of measurements", reason }
}

fn from_json(text: &str) -> Result<Vec<Measurement>> {
    #[derive(Deserialize)]
    struct File {
        // A profile says more, about the card.
        measurements: Vec<Measurement>,
    }
    let file: File = serde_json::from_str(text).map_err(|error| unreadable(error.to_string()))?;
    Ok(file.measurements)
}

fn from_csv(text: &str) -> Result<Vec<Measurement>> {
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let Some((_, header)) = lines.next() else { return Ok(Vec::new()) };
    let columns: Vec<&str> = header.split(',').map(str::trim).collect();
    for wanted in COLUMNS {
        if columns.iter().filter(|column| **column == wanted).count() != 1 {
            let needed = COLUMNS.join(", ");
            return Err(unreadable(format!(
                "its header must have the column `{wanted}` once: {needed}"
            )));
        }
    }
    let known = |column: &&&str| !COLUMNS.contains(column) && !OPTIONAL.contains(column);
    if let Some(unknown) = columns.iter().find(known) {
        return Err(unreadable(format!("its header has an unknown column `{unknown}`")));
    }
    let mut measurements = Vec::new();
    for (number, line) in lines {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        if cells.len() != columns.len() {
            let (has, wants) = (cells.len(), columns.len());
            return Err(unreadable(format!("line {number} has {has} cells, the header {wants}")));
        }
        let text = |column: &str| {
            let place = columns.iter().position(|name| *name == column);
            place.map(|place| cells[place]).filter(|cell| !cell.is_empty())
        };
        let value = |column: &str| -> Result<Option<f64>> {
            let parse = |cell: &str| {
                let wrong =
                    |_| unreadable(format!("line {number}: {column} is `{cell}`, not a number"));
                cell.parse().map_err(wrong)
            };
            text(column).map(parse).transpose()
        };
        let missing = |column: &str| unreadable(format!("line {number}: {column} is empty"));
        let needed = |column: &str| value(column)?.ok_or_else(|| missing(column));
        let name = |column: &str| text(column).map(str::to_owned).ok_or_else(|| missing(column));
        measurements.push(Measurement {
            device: name("device")?,
            operator: name("operator")?,
            flops: needed("flops")?,
            bytes: needed("bytes")?,
            launches: value("launches")?.unwrap_or(1.0),
            clock_mhz: needed("clock_mhz")?,
            time_ms: needed("time_ms")?,
            power_w: value("power_w")?,
        });
    }
    Ok(measurements)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "device,operator,flops,bytes,clock_mhz,time_ms,power_w\n\
                       # measured at night\n\
                       card,dot,1e9,1e6,1400,2.5,210\n\
                       card,gather,0,1e6,1400,0.5,\n";

    #[test]
    fn csv_and_json_say_the_same() {
        let from_csv = Measurement::read(CSV).unwrap();
        assert_eq!(from_csv.len(), 2);
        assert_eq!((from_csv[0].power_w, from_csv[1].power_w), (Some(210.0), None));
        let json = serde_json::json!({ "device": "card", "measurements": from_csv }).to_string();
        assert_eq!(Measurement::read(&json).unwrap(), from_csv);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let check = |text: &str, part: &str| {
            let error = Measurement::read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        check("", "no measurement");
        check("device,operator\n", "column `flops`");
        check(&CSV.replace("2.5", "fast"), "line 3: time_ms is `fast`");
        check(&CSV.replace("2.5", "nan"), "measurement 1: time_ms = NaN");
        check(&CSV.replace("2.5", "-1"), "measurement 1: time_ms = -1");
        check(&CSV.replace(",210", ""), "line 3 has 6 cells, the header 7");
        check(&CSV.replace("power_w", "colour"), "unknown column `colour`");
        check(&CSV.replace("card,gather", ",gather"), "line 4: device is empty");
        check("{\"measurements\": [{}]}", "missing field");
        check("{\"measurements\": []}", "no measurement");
    }
}
