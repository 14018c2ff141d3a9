//! The plant of simulations: campaigns are carried out at their times, and figures are exact.

use homeostat_core::SeedTree;
use homeostat_decide::{Figure, MeasuredSource};

use crate::setup::plan;

fn figure(figures: &[Figure], name: &str) -> f64 {
    let found = figures.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("{name} is missing: {figures:?}")).1
}

const CAMPAIGN: &str = "[[anomaly]]\nat_s = 3.5\nkind = \"disk\"\nservice = \"review-storage-mongodb\"\n\
                        intensity = 0.8\nduration_s = 2.0\n";

#[test]
fn a_campaign_is_carried_out_at_its_times_and_is_the_ground_truth() {
    let plan = plan(|config| config.topology = "media".to_owned());
    let service = plan.topology().service("review-storage-mongodb").unwrap();
    let source = plan.with_campaign(CAMPAIGN).unwrap();
    let mut plant = source.make(&SeedTree::new(3)).unwrap();
    let mut intensities = Vec::new();
    let mut used = Vec::new();
    for _ in 0..7 {
        plant.advance().unwrap();
        intensities.push(figure(&plant.window(service), "injected_disk"));
        used.push(plant.observe(service).utilization()[3]);
        assert_eq!(figure(&plant.window(0), "injected_disk"), 0.0);
    }
    let expect = [0.0, 0.0, 0.0, 0.4, 0.8, 0.4, 0.0];
    for (found, expect) in intensities.iter().zip(expect) {
        assert!((found - expect).abs() < 1e-6, "{intensities:?}");
    }
    assert!(used[4] > 0.9 && used[1] < 0.5, "use of disks follows: {used:?}");
    let error = plan.with_campaign("[random]\nper_s = -1").unwrap_err().to_string();
    assert!(error.contains("random.per_s = -1"), "{error}");
}

#[test]
fn totals_count_every_request_once_and_anomalies_cost() {
    let with = |anomalies_per_s: f64| {
        let plan = plan(|config| {
            config.topology = "hotel-reservation".to_owned();
            config.anomalies_per_s = anomalies_per_s;
        });
        let mut plant = plan.make(&SeedTree::new(8)).unwrap();
        (0..60).for_each(|_| plant.advance().unwrap());
        plant.system_totals()
    };
    let (calm, troubled) = (with(0.0), with(2.0));
    // 200 requests a second in the mean, a few of them still open.
    let requests = figure(&calm, "requests");
    assert!((requests - 12_000.0).abs() < 400.0, "{requests}");
    assert!(figure(&calm, "slo_violation_ratio") < 0.005, "{calm:?}");
    assert!(figure(&troubled, "slo_violation_ratio") > 0.02, "{troubled:?}");
    assert!(figure(&troubled, "p99_over_slo") > 1.0, "{troubled:?}");
    assert_eq!(figure(&calm, "replicas"), 15.0);
    assert!((0.01..0.5).contains(&figure(&calm, "cpu_utilization_ratio")), "{calm:?}");
}

#[test]
fn one_seed_gives_the_same_figures_and_another_seed_others() {
    let plan = plan(|config| config.topology = "hotel-reservation".to_owned());
    let play = |seed| {
        let mut plant = plan.make(&SeedTree::new(seed)).unwrap();
        (0..10).for_each(|_| plant.advance().unwrap());
        plant.system_totals()
    };
    assert_eq!(play(1), play(1));
    assert_ne!(play(1), play(2));
}
