//! Serverless functions measured at eight memory sizes (a replication of Sizeless, 2023).

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use homeostat_flash::{FunctionSizes, Measurement, Pair, Profile, SizeMeasurement};
use homeostat_lab::{Result, read_packed};

use super::{columns, number, positive};

/// The features of Table A.2 that the data has, beside memory size and execution time.
const METRICS: [&str; 6] = [
    "heapUsed_mean",
    "userDiff_mean",
    "sysDiff_mean",
    "vContextSwitches_mean",
    "fsWrite_mean",
    "netByRx_mean",
];

pub(super) fn read(data: &Path) -> Result<Vec<Profile>> {
    let path = data.join("sizeless_replication_python/processed_training_data.csv");
    read_packed(&path, &["csv"], &mut |_| {}, parse)
}

/// The same functions as `homeostat size` reads them.
pub(super) fn read_function_sizes(data: &Path) -> Result<Vec<FunctionSizes>> {
    let functions = read(data)?.into_iter().map(|profile| {
        // Back from logarithms; microseconds and bytes in the data.
        let of = |one: &Measurement| {
            let metric = |place: usize, unit: f64| f64::from(one.metrics[place]).exp_m1() / unit;
            SizeMeasurement {
                memory_mb: f64::from(one.configuration[0]).exp2().round(),
                duration_ms: one.time,
                user_cpu_ms: metric(1, 1e3),
                system_cpu_ms: metric(2, 1e3),
                heap_used_mb: metric(0, 1e6),
            }
        };
        FunctionSizes {
            measurements: profile.measurements.iter().map(of).collect(),
            name: profile.pair.application,
        }
    });
    Ok(functions.collect())
}

fn parse(file: &mut dyn BufRead) -> Result<Vec<Profile>, String> {
    let mut lines = file.lines();
    let header = lines.next().unwrap_or(Ok(String::new())).map_err(|error| error.to_string())?;
    let [name, size, time] = columns(&header, ["f_name", "f_size", "duration_mean"])?;
    let metrics = columns(&header, METRICS)?;
    let mut functions: BTreeMap<String, Vec<Measurement>> = BTreeMap::new();
    for (index, line) in lines.enumerate() {
        let (line, number_of_line) = (line.map_err(|error| error.to_string())?, index + 2);
        let fields: Vec<&str> = line.split(',').collect();
        let size = positive(&fields, size, number_of_line)?;
        let metric = |place: usize| {
            let value = number(&fields, place, number_of_line)?;
            Ok(value.max(0.0).ln_1p() as f32)
        };
        let measurement = Measurement {
            configuration: vec![size.log2() as f32],
            metrics: metrics.into_iter().map(metric).collect::<Result<_, String>>()?,
            time: positive(&fields, time, number_of_line)?,
        };
        let name = fields.get(name).copied().unwrap_or_default();
        functions.entry(name.to_owned()).or_default().push(measurement);
    }
    let profile = |(name, measurements): (String, _)| Profile {
        pair: Pair::new(name, "container"),
        measurements,
    };
    Ok(functions.into_iter().map(profile).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_read_with_their_sizes() {
        let header = format!("f_name,f_size,duration_mean,{}", METRICS.join(","));
        let rows = "b,128,10.0,0,0,0,0,0,0\na,256,5.0,1,2,3,4,5,6\nb,1024,4.0,0,0,0,0,0,0\n";
        let text = format!("{header}\n{rows}");
        let functions = parse(&mut text.as_bytes()).unwrap();
        assert_eq!(functions.len(), 2);
        assert_eq!(functions[1].measurements.len(), 2);
        let first = &functions[0].measurements[0];
        assert_eq!((first.configuration[0], first.time), (8.0, 5.0));
        assert_eq!(first.metrics[1], 3f32.ln());
        let broken = text.replace("5.0", "?");
        assert_eq!(parse(&mut broken.as_bytes()).unwrap_err(), "line 3: `?` is not a number");
        let error = parse(&mut "x,y\n".as_bytes()).unwrap_err();
        assert_eq!(error, "line 1: there is no column `f_name`");
    }
}
