//! A profile as table, JSON, CSV, and as a device type of the planner.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::measure::{Measured, Profile};

/// The name of a card as that of a device type: small letters, digits and hyphens.
pub(crate) fn type_name(card: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = card.chars().map(plain).collect();
    let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
    words.join("-")
}

/// What a profile says about the card as a whole.
struct Rates {
    launch_us: f64,
    flops: f64,
    /// Of the products, at the largest size.
    product_flops: f64,
    bytes_per_s: f64,
    compute_w: Option<f64>,
    memory_w: Option<f64>,
}

impl Rates {
    fn of(profile: &Profile) -> Self {
        let of = |operator: &'static str| {
            profile.measured.iter().filter(move |one| one.operator == operator)
        };
        let best =
            |operator, rate: fn(&Measured) -> f64| of(operator).map(rate).fold(0.0, f64::max);
        let above_idle = |operator| {
            let most = of(operator).filter_map(|one| one.power_w).reduce(f64::max);
            Some((most? - profile.idle_w?).max(0.0))
        };
        // Caches answer small sizes: the largest one is that of the memory.
        let largest = of("elementwise").max_by(|a, b| a.bytes.total_cmp(&b.bytes));
        Self {
            launch_us: of("launch").map(|one| one.seconds * 1e6).fold(f64::INFINITY, f64::min),
            flops: best("multiply_add", |one| one.flops / one.seconds),
            product_flops: best("dot", |one| one.flops / one.seconds),
            bytes_per_s: largest.map_or(0.0, |one| one.bytes / one.seconds),
            compute_w: above_idle("multiply_add"),
            memory_w: above_idle("elementwise"),
        }
    }
}

/// Operators of models; the others only measure the card.
fn operators(profile: &Profile) -> impl Iterator<Item = &Measured> {
    profile.measured.iter().filter(|one| ["dot", "elementwise"].contains(&one.operator))
}

/// For people.
pub(crate) fn table(profile: &Profile) -> String {
    let mut rows = vec![
        ["OPERATOR", "SHAPE", "TIME_US", "TFLOP/S", "GB/S", "CLOCK_MHZ", "POWER_W"]
            .map(str::to_owned),
    ];
    for one in &profile.measured {
        rows.push([
            one.operator.to_owned(),
            one.shape.clone(),
            format!("{:.2}", one.seconds * 1e6),
            format!("{:.2}", one.flops / one.seconds / 1e12),
            format!("{:.1}", one.bytes / one.seconds / 1e9),
            format!("{:.0}", one.clock_mhz),
            one.power_w.map_or("-".to_owned(), |power_w| format!("{power_w:.0}")),
        ]);
    }
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
            // Words to the left, numbers to the right.
            let _ = if column < 2 {
                write!(line, "{cell:width$}  ")
            } else {
                write!(line, "{cell:>width$}  ")
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// For programs. `measurements` is what the planner reads.
pub(crate) fn json(profile: &Profile, name: &str) -> String {
    let rates = Rates::of(profile);
    let measurement = |one: &Measured| {
        json!({
            "device": name,
            "operator": one.operator,
            "flops": one.flops,
            "bytes": one.bytes,
            "clock_mhz": one.clock_mhz,
            "time_ms": one.seconds * 1e3,
            "power_w": one.power_w,
        })
    };
    let value = json!({
        "device": profile.device.name,
        "memory_gib": gib(profile),
        "multiprocessors": profile.device.multiprocessors,
        "max_clock_mhz": profile.max_clock_mhz,
        "clocks": if profile.reads_clocks { "read" } else { "nominal" },
        "idle_w": profile.idle_w,
        "launch_us": rates.launch_us,
        "flops": rates.flops,
        "product_flops": rates.product_flops,
        "memory_bytes_per_s": rates.bytes_per_s,
        "measurements": operators(profile).map(measurement).collect::<Vec<Value>>(),
    });
    format!("{value:#}\n")
}

/// The measurements alone.
pub(crate) fn csv(profile: &Profile, name: &str) -> String {
    let mut text = "device,operator,flops,bytes,clock_mhz,time_ms,power_w\n".to_owned();
    for one in operators(profile) {
        let power_w = one.power_w.map_or(String::new(), |power_w| power_w.to_string());
        let (operator, flops, bytes) = (one.operator, one.flops, one.bytes);
        let (clock, time) = (one.clock_mhz, one.seconds * 1e3);
        let _ = writeln!(text, "{name},{operator},{flops},{bytes},{clock},{time},{power_w}");
    }
    text
}

/// A device type for the cluster file of the planner. What cannot be measured at one clock is said so.
pub(crate) fn device_type(profile: &Profile, name: &str) -> String {
    let rates = Rates::of(profile);
    let top = profile.max_clock_mhz;
    let busy = profile.measured.iter().find(|one| one.operator == "multiply_add");
    // Rates were measured at this clock; the type has them at its highest.
    let clock = busy.map_or(top, |one| one.clock_mhz);
    let flops = rates.flops * top / clock.max(1.0);
    let efficiency = (rates.product_flops / rates.flops).min(1.0);
    let power = |value: Option<f64>, assumed: f64| match value {
        Some(value) => format!("{value:.0}.0"),
        None => format!("{assumed:.0}.0   # assumed: NVML reads no power here"),
    };
    format!(
        "# {} at {clock:.0} MHz, measured by `homeostat gpu profile`.\n\
         [types.{name}]\n\
         clocks = [{low}, {top:.0}]   # the lowest is assumed: nvidia-smi -q -d SUPPORTED_CLOCKS lists all\n\
         clock_step = 15   # assumed\n\
         effective_clock = [[{low}, {low}], [{top:.0}, {top:.0}]]   # assumed\n\
         dynamic_power = [[0.0, 0.0], [0.405, 0.297], [0.547, 0.361], [0.711, 0.492], [0.826, 0.631], [0.94, 0.843], [1.0, 1.0]]   # assumed: that of an RTX 8000\n\
         memory_clock_share = 0.2   # assumed: that of an RTX 8000\n\
         idle_w = {}\n\
         compute_w = {}\n\
         memory_w = {}\n\
         flops = {flops:.3e}\n\
         efficiency = {efficiency:.3}   # of the product of this program; libraries of the maker reach more\n\
         memory_bytes_per_s = {:.3e}\n\
         memory_gib = {:.1}\n\
         launch_us = {:.2}\n\
         link_bytes_per_s = 12e9   # assumed: PCIe\n\
         link_us = 15.0   # assumed\n",
        profile.device.name,
        power(profile.idle_w, 50.0),
        power(rates.compute_w, 200.0),
        power(rates.memory_w, 130.0),
        rates.bytes_per_s,
        gib(profile),
        rates.launch_us,
        low = LOWEST_CLOCK_MHZ,
    )
}

/// The lowest clock of most cards for servers.
const LOWEST_CLOCK_MHZ: u32 = 210;

fn gib(profile: &Profile) -> f64 {
    profile.device.memory_bytes as f64 / 1024.0_f64.powi(3)
}

#[cfg(test)]
mod tests {
    use homeostat_placement::{Cluster, Measurement, SensitivityDatabase};

    use super::*;
    use crate::driver::Device;

    fn measured(operator: &'static str, flops: f64, bytes: f64, seconds: f64) -> Measured {
        let shape = "size".to_owned();
        let (clock_mhz, power_w) = (1400.0, Some(300.0));
        Measured { operator, shape, flops, bytes, seconds, clock_mhz, power_w }
    }

    fn profile() -> Profile {
        Profile {
            device: Device::for_tests("NVIDIA Card 80GB-X", 80 << 30),
            reads_clocks: true,
            max_clock_mhz: 1980.0,
            idle_w: Some(70.0),
            measured: vec![
                measured("launch", 0.0, 0.0, 3e-6),
                measured("multiply_add", 40e12, 0.0, 1.0),
                measured("elementwise", 1e6, 8e9, 0.004),
                measured("dot", 10e12, 1e9, 1.0),
            ],
        }
    }

    #[test]
    fn the_planner_reads_profiles_of_two_clocks() {
        let mut slower = profile();
        for one in &mut slower.measured {
            one.clock_mhz = 700.0;
            one.seconds *= if one.operator == "dot" { 2.0 } else { 1.0 };
        }
        let name = type_name(&profile().device.name);
        assert_eq!(name, "nvidia-card-80gb-x");
        for write in [json, csv] {
            let mut all = Measurement::read(&write(&profile(), &name)).unwrap();
            assert_eq!(all.len(), 2);
            all.extend(Measurement::read(&write(&slower, &name)).unwrap());
            let database = SensitivityDatabase::from_measurements(&all).unwrap();
            assert!((database.score(&name, "dot", 10e12, 1e9).unwrap() - 2.0).abs() < 1e-9);
            assert_eq!(database.score(&name, "elementwise", 1e6, 8e9).unwrap(), 0.0);
        }
    }

    #[test]
    fn the_planner_reads_the_device_type() {
        for idle_w in [Some(70.0), None] {
            let profile = Profile { idle_w, ..profile() };
            let name = type_name(&profile.device.name);
            let text = format!(
                "[[devices]]\ntype = \"{name}\"\ncount = 2\n{}",
                device_type(&profile, &name)
            );
            let cluster = Cluster::read(&text).unwrap();
            let device = &cluster.pools()[0].device;
            assert_eq!(device.clocks, [210, 1980]);
            // Measured at 1400 MHz, said for 1980.
            assert!((device.flops / (40e12 * 1980.0 / 1400.0) - 1.0).abs() < 1e-3);
            assert!((device.efficiency - 0.25).abs() < 1e-9);
            assert!((device.memory_bytes_per_s - 2e12).abs() < 1e9);
        }
    }

    #[test]
    fn the_table_has_a_line_for_every_measurement() {
        let text = table(&profile());
        assert_eq!(text.lines().count(), 5);
        assert!(text.contains("dot"), "{text}");
    }
}
