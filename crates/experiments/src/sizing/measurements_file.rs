//! Reads measurements of functions at memory sizes from CSV.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use homeostat_flash::{FunctionSizes, SizeMeasurement};
use homeostat_lab::{Result, read_packed};

/// The columns that are needed, in the order of `SizeMeasurement`.
const COLUMNS: [&str; 5] =
    ["memory_mb", "duration_ms", "user_cpu_ms", "system_cpu_ms", "heap_used_mb"];

/// The functions of a file, by name. Rows of one function at one memory size are averaged, so that
/// a row may be an execution or a mean; without a column `function` all rows are of one function.
pub fn read_function_sizes(path: &Path) -> Result<Vec<FunctionSizes>> {
    read_packed(path, &["csv"], &mut |_| {}, parse)
}

fn parse(file: &mut dyn BufRead) -> Result<Vec<FunctionSizes>, String> {
    let mut lines = file.lines();
    let header = lines.next().unwrap_or(Ok(String::new())).map_err(|error| error.to_string())?;
    let header: Vec<&str> = header.trim_start_matches('\u{feff}').split(',').map(clean).collect();
    let place = |name: &str| header.iter().position(|column| *column == name);
    let mut places = [0; COLUMNS.len()];
    for (column, name) in places.iter_mut().zip(COLUMNS) {
        *column = place(name).ok_or_else(|| {
            let needed = COLUMNS.join(", ");
            format!("line 1: there is no column {name}; the columns {needed} are needed, function is optional")
        })?;
    }
    let function = place("function");
    // Sums and counts by function and memory size; sizes are keys by their bits, all positive.
    let mut sums: BTreeMap<String, BTreeMap<u64, ([f64; 5], f64)>> = BTreeMap::new();
    for (index, line) in lines.enumerate() {
        let (line, line_number) = (line.map_err(|error| error.to_string())?, index + 2);
        if line.trim().is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split(',').map(clean).collect();
        if fields.len() != header.len() {
            let (found, expected) = (fields.len(), header.len());
            return Err(format!("line {line_number}: {found} fields, {expected} are needed"));
        }
        let mut numbers = [0.0; 5];
        for ((number, place), name) in numbers.iter_mut().zip(places).zip(COLUMNS) {
            let text = fields[place];
            let is_positive = ["memory_mb", "duration_ms"].contains(&name);
            let usable =
                |value: &f64| value.is_finite() && *value >= 0.0 && !(is_positive && *value == 0.0);
            *number = text.parse().ok().filter(usable).ok_or_else(|| {
                let expected =
                    if is_positive { "a number above zero" } else { "a number from zero up" };
                format!("line {line_number}: {name} is `{text:.40}`: {expected} is needed")
            })?;
        }
        let name = function.map_or("function", |place| fields[place]);
        let by_size = sums.entry(name.to_owned()).or_default();
        let (sum, count) = by_size.entry(numbers[0].to_bits()).or_default();
        sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
        *count += 1.0;
    }
    if sums.is_empty() {
        return Err("it has no rows below its header".to_owned());
    }
    let measurement = |(bits, (sum, count)): (u64, ([f64; 5], f64))| SizeMeasurement {
        // The sum of equal sizes over their number could differ from them in the last digit.
        memory_mb: f64::from_bits(bits),
        duration_ms: sum[1] / count,
        user_cpu_ms: sum[2] / count,
        system_cpu_ms: sum[3] / count,
        heap_used_mb: sum[4] / count,
    };
    let functions = sums.into_iter().map(|(name, sizes)| FunctionSizes {
        name,
        measurements: sizes.into_iter().map(measurement).collect(),
    });
    Ok(functions.collect())
}

fn clean(field: &str) -> &str {
    field.trim().trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "function,memory_mb,duration_ms,user_cpu_ms,system_cpu_ms,heap_used_mb";

    #[test]
    fn executions_at_one_size_are_averaged() {
        let text = format!("{HEADER}\na,512,10,4,1,30\nb,128,7,1,1,20\na,512,20,6,3,50\n");
        let functions = parse(&mut text.as_bytes()).unwrap();
        assert_eq!(functions.len(), 2);
        let expect = SizeMeasurement {
            memory_mb: 512.0,
            duration_ms: 15.0,
            user_cpu_ms: 5.0,
            system_cpu_ms: 2.0,
            heap_used_mb: 40.0,
        };
        assert_eq!(functions[0].measurements, [expect]);
    }

    #[test]
    fn other_columns_may_be_there_and_the_name_may_be_missing() {
        let text = "heap_used_mb,memory_mb,region,duration_ms,user_cpu_ms,system_cpu_ms\n30,512,x,10,4,1\n";
        let functions = parse(&mut text.as_bytes()).unwrap();
        assert_eq!(functions[0].name, "function");
        assert_eq!(functions[0].measurements[0].heap_used_mb, 30.0);
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_line() {
        let check = |text: &str, expect: &str| {
            let error = parse(&mut text.as_bytes()).unwrap_err();
            assert!(error.contains(expect), "{error}");
        };
        check("", "there is no column memory_mb");
        check(
            "memory_mb,latency\n128,1\n",
            "there is no column duration_ms; the columns memory_mb,",
        );
        check(HEADER, "no rows below its header");
        let row = |row: &str| format!("{HEADER}\n{row}\n");
        check(&row("a,512,NaN,4,1,30"), "line 2: duration_ms is `NaN`: a number above zero");
        check(&row("a,0,10,4,1,30"), "line 2: memory_mb is `0`: a number above zero");
        check(&row("a,512,10,-4,1,30"), "line 2: user_cpu_ms is `-4`: a number from zero up");
        check(&row("a,512,10,4"), "line 2: 4 fields, 6 are needed");
        check(&row("a,512,10,4,1,inf"), "heap_used_mb is `inf`");
    }
}
