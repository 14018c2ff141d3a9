//! Workloads measured on clusters of three cloud providers (CloudBandit).

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use homeostat_flash::{Measurement, Pair, Profile};
use homeostat_lab::{Result, read_packed};

use super::{columns, number, positive};

const PROVIDERS: [&str; 3] = ["A", "B", "C"];

/// What describes a cluster; a provider has some of them.
const CONFIGURATION: [&str; 7] =
    ["A_family", "A_vcpu", "B_family", "B_vcpu", "C_family", "C_type", "C_vcpu"];

/// What a pair needs to be asked for anything after three measurements.
const MIN_MEASUREMENTS: usize = 5;

pub(super) fn read(data: &Path) -> Result<Vec<Profile>> {
    let path = data.join("cloudbandit_multicloud/multi-cloud-configuration.csv");
    read_packed(&path, &["csv"], &mut |_| {}, parse)
}

/// Runs that ended well; a configuration that was run several times has the mean of its times.
fn parse(file: &mut dyn BufRead) -> Result<Vec<Profile>, String> {
    let mut lines = file.lines();
    let header = lines.next().unwrap_or(Ok(String::new())).map_err(|error| error.to_string())?;
    let names = ["provider", "nodes", "workload", "target_runtime", "status"];
    let [provider, nodes, workload, runtime, status] = columns(&header, names)?;
    let kinds = columns(&header, CONFIGURATION)?;
    // In a map by the text of the configuration, so that repetitions meet.
    type Runs = BTreeMap<Vec<String>, (Vec<f32>, Vec<f64>)>;
    let mut pairs: BTreeMap<Pair, Runs> = BTreeMap::new();
    for (index, line) in lines.enumerate() {
        let (line, number_of_line) = (line.map_err(|error| error.to_string())?, index + 2);
        let fields: Vec<&str> = line.split(',').collect();
        let text = |place: usize| fields.get(place).copied().unwrap_or_default();
        // A status that is an error message may have commas of its own.
        if text(status) != "ok" {
            continue;
        }
        let is_of = |name: &&str| f32::from(u8::from(text(provider) == *name));
        let mut configuration: Vec<f32> = PROVIDERS.iter().map(is_of).collect();
        for kind in kinds {
            // Minus one where another provider has it.
            let absent = text(kind).is_empty();
            configuration.push(match absent {
                true => -1.0,
                false => number(&fields, kind, number_of_line)? as f32,
            });
        }
        configuration.push(positive(&fields, nodes, number_of_line)?.log2() as f32);
        let time = positive(&fields, runtime, number_of_line)?;
        let key = kinds.iter().chain([&nodes]).map(|place| text(*place).to_owned()).collect();
        let runs = pairs.entry(Pair::new(text(workload), text(provider))).or_default();
        runs.entry(key).or_insert((configuration, Vec::new())).1.push(time);
    }
    let measurement = |(configuration, times): (Vec<f32>, Vec<f64>)| Measurement {
        configuration,
        metrics: Vec::new(),
        time: times.iter().sum::<f64>() / times.len() as f64,
    };
    let profile = |(pair, runs): (Pair, Runs)| Profile {
        pair,
        measurements: runs.into_values().map(measurement).collect(),
    };
    let profiles = pairs.into_iter().map(profile);
    Ok(profiles.filter(|profile| profile.measurements.len() >= MIN_MEASUREMENTS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_runs_are_averaged_and_failed_ones_left_out() {
        let header = "index,provider,A_family,A_vcpu,B_family,B_vcpu,C_family,C_type,C_vcpu,nodes,workload,target_cost,target_runtime,status";
        let mut text = format!("{header}\n");
        for vcpu in 0..5 {
            text += &format!("0,B,,,1,{vcpu},,,,4,w,0.1,{}.0,ok\n", 10 + vcpu);
        }
        text += "9,B,,,1,0,,,,4,w,0.1,20.0,ok\n9,B,,,1,0,,,,4,w,0.1,99.0,\"timed out, twice\"\n";
        text += "9,C,,,,,1,1,1,3,w,0.1,99.0,ok\n";
        let profiles = parse(&mut text.as_bytes()).unwrap();
        assert_eq!(profiles.len(), 1, "one measurement on C is too few");
        assert_eq!(profiles[0].pair, Pair::new("w", "B"));
        assert_eq!(profiles[0].measurements.len(), 5);
        assert_eq!(profiles[0].measurements[0].time, 15.0);
        let configuration = &profiles[0].measurements[1].configuration;
        assert_eq!(configuration[..], [0., 1., 0., -1., -1., 1., 1., -1., -1., -1., 2.]);
    }
}
