//! The table of the README is what the demo prints.

use crate::homeostat::{Workplace, root};

/// The rows of the README's table: policy, mean SLO violations in percent, its 95 % interval, p99 over
/// the SLO threshold, containers.
fn printed() -> Vec<(String, [f64; 4])> {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let rows = readme.lines().filter(|line| line.starts_with("| ") && line.contains(" +- "));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let number = |text: &str| text.trim().parse().unwrap_or_else(|_| panic!("{text}: {row}"));
        let (mean, interval) = cells[1].split_once(" +- ").unwrap();
        let figures = [number(mean), number(interval), number(cells[2]), number(cells[3])];
        (cells[0].to_owned(), figures)
    })
    .collect()
}

/// The demo is deterministic on one machine. Elsewhere `exp` and `sin` may differ in the last bit, and
/// training amplifies that, so a figure may differ by a part of what it varies from seed to seed.
#[test]
fn the_demo_prints_the_table_of_the_readme() {
    let demo = Workplace::new().call("demo --output json").json();
    let rows = printed();
    let names = ["simppo+", "S-RL", "HPA and VPA", "ENSURE"];
    assert_eq!(rows.len(), names.len(), "{rows:?}");
    let comparison = demo["comparison"].as_array().unwrap();
    for ((row, name), figures) in rows.iter().zip(names).zip(comparison) {
        let (label, [mean, interval, p99, containers]) = row;
        assert!(label.contains(name), "{label}");
        let figure = |key: &str| figures[key].as_f64().unwrap();
        let part = interval / mean / 4.0;
        for (key, expect, scale, rounding) in [
            ("slo_violation_ratio", mean, 100.0, 0.05),
            ("slo_violation_ratio_interval", interval, 100.0, 0.05),
            ("p99_over_slo", p99, 1.0, 0.005),
            ("containers", containers, 1.0, 0.5),
        ] {
            let found = figure(key) * scale;
            let tolerance = part * expect + rounding;
            assert!((found - expect).abs() <= tolerance, "{label}, {key}: {found}, not {expect}");
        }
    }
    // The claim that the table makes.
    let violations = |place: usize| comparison[place]["slo_violation_ratio"].as_f64().unwrap();
    assert!((1..4).all(|rival| violations(0) < violations(rival)), "{comparison:?}");
}
