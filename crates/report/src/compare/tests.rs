use super::*;
use homeostat_simulate::SimulationFacts;

/// A simulation of these seeds, with the SLO violation ratios given.
fn simulation(policy: &str, ratios: &[(u64, f64)]) -> FinishedSimulation {
    let outcome = |(seed, ratio): &(u64, f64)| SimulationOutcome {
        seed: *seed,
        duration_s: 100.0,
        total: Figures { slo_violation_ratio: *ratio, requests: 1000, ..Figures::default() },
        node_use: 0.5,
        refused: 0,
        ungranted: 0,
        functions: Vec::new(),
    };
    FinishedSimulation {
        path: PathBuf::from(format!("runs/{policy}")),
        facts: SimulationFacts {
            kind: "simulation".to_owned(),
            homeostat: "0.1.0".to_owned(),
            policy: policy.to_owned(),
            policy_file: None,
            scenario: "together".to_owned(),
            trace: None,
            nodes: None,
            slo_over_mean: None,
            load: "poisson".to_owned(),
            functions: 1,
            mean_load: None,
            duration_s: 100.0,
            window_s: 10.0,
            seeds: ratios.iter().map(|(seed, _)| *seed).collect(),
            recorded: false,
        },
        outcomes: ratios.iter().map(outcome).collect(),
    }
}

fn difference_of(base: &[(u64, f64)], own: &[(u64, f64)]) -> Option<Difference> {
    let (base, own) = (simulation("base", base), simulation("own", own));
    let comparison = Comparison::of_simulations(&[&base, &own], 0, Scope::Total).unwrap();
    assert!(comparison.runs[0].differences.is_empty(), "the baseline differs from nothing");
    let mut differences = comparison.runs[1].differences.iter();
    differences.find(|difference| difference.metric.key == "slo_violation_ratio").copied()
}

#[test]
fn a_small_difference_shows_when_seeds_are_paired() {
    // Between seeds the ratios differ by tens; within a pair by about one.
    let base = [(1, 10.0), (2, 30.0), (3, 50.0), (4, 20.0)];
    let own = [(4, 18.9), (3, 49.1), (2, 28.9), (1, 9.1)];
    let difference = difference_of(&base, &own).unwrap();
    assert!((difference.mean + 1.0).abs() < 1e-9);
    // Deviation 0.11547 of four values: 3.182 * 0.11547 / 2.
    assert!((difference.interval.unwrap() - 0.1837).abs() < 1e-3, "{difference:?}");
    assert_eq!(difference.verdict(), Verdict::Better);
    let turned = difference_of(&own, &base).unwrap();
    assert_eq!(turned.verdict(), Verdict::Worse);
}

#[test]
fn an_interval_around_zero_shows_nothing() {
    let base = [(1, 10.0), (2, 10.0), (3, 10.0)];
    let difference = difference_of(&base, &[(1, 12.0), (2, 9.0), (3, 10.5)]).unwrap();
    assert_eq!(difference.verdict(), Verdict::NotShown);
    assert_eq!(difference.verdict().to_string(), "no difference shown");
    let same = difference_of(&base, &base).unwrap();
    assert_eq!((same.mean, same.interval), (0.0, Some(0.0)));
    assert_eq!(same.verdict(), Verdict::NotShown);
}

#[test]
fn only_common_seeds_count_and_one_has_no_interval() {
    let base = [(1, 10.0), (2, 20.0)];
    let one = difference_of(&base, &[(2, 15.0), (3, 0.0)]).unwrap();
    assert_eq!((one.mean, one.interval), (-5.0, None));
    assert_eq!(one.verdict(), Verdict::NoInterval);
    assert_eq!(difference_of(&base, &[(7, 1.0), (8, 1.0)]), None);
}

#[test]
fn welch_by_hand() {
    let own = Summary::of(&[27.5, 21.0, 19.0, 23.6, 17.0, 17.9]).unwrap();
    let base = Summary::of(&[27.1, 22.0, 20.8, 23.4, 23.4, 23.5]).unwrap();
    let difference = Difference::welch(&Metric::RETURN, &own, &base);
    assert!((difference.mean + 2.3667).abs() < 1e-3);
    // Standard error 1.8205 on 7.95, taken as 7, degrees of freedom: 2.365 times it.
    let error = (own.deviation.powi(2) / 6.0 + base.deviation.powi(2) / 6.0).sqrt();
    assert!((difference.interval.unwrap() / error - 2.365).abs() < 1e-9, "{difference:?}");
    assert_eq!(difference.verdict(), Verdict::NotShown);
    let alone = Summary::of(&[1.0]).unwrap();
    assert_eq!(Difference::welch(&Metric::RETURN, &alone, &base).interval, None);
}

#[test]
fn different_worlds_are_named_and_refused() {
    let base = simulation("base", &[(1, 1.0), (2, 1.0)]);
    let mut other = simulation("other", &[(1, 1.0), (2, 1.0)]);
    other.facts.load = "bursty".to_owned();
    other.facts.duration_s = 200.0;
    let comparison = Comparison::of_simulations(&[&base, &other], 0, Scope::Total).unwrap();
    let error = comparison.refuse_different_settings().unwrap_err().to_string();
    for expect in ["duration_s is 100, 200", "load is poisson, bursty", "--anyway"] {
        assert!(error.contains(expect), "{error}");
    }
    let alike = Comparison::of_simulations(&[&base, &base], 0, Scope::Total).unwrap();
    alike.refuse_different_settings().unwrap();
}

#[test]
fn runs_of_one_policy_are_told_apart_by_their_directories() {
    let (mut one, mut two) = (simulation("hpa", &[(1, 1.0)]), simulation("hpa", &[(1, 1.0)]));
    one.path = PathBuf::from("runs/first");
    two.path = PathBuf::from("runs/second");
    let kpa = simulation("kpa", &[(1, 1.0)]);
    let comparison = Comparison::of_simulations(&[&one, &two, &kpa], 0, Scope::Total).unwrap();
    let labels: Vec<&str> = comparison.runs.iter().map(|run| run.label.as_str()).collect();
    assert_eq!(labels, ["hpa (first)", "hpa (second)", "kpa"]);
}

#[test]
fn numbers_have_the_digits_that_they_deserve() {
    let check = |mean: f64, interval: Option<f64>, expect: &str, with_sign: &str| {
        assert_eq!(with_interval(mean, interval), expect);
        assert_eq!(signed(mean, interval), with_sign);
    };
    check(3.1234, Some(0.4056), "3.12 ± 0.41", "+3.12 ± 0.41");
    check(41_234.5, Some(812.0), "41\u{202f}234 ± 812", "+41\u{202f}234 ± 812");
    check(0.0123, None, "0.0123", "+0.0123");
    check(0.0, Some(0.0), "0.00 ± 0.00", "0.00 ± 0.00");
    assert_eq!(
        [232_040.0, 9_999.0, 12.34, 1_234_567.0].map(|value| compact(value, None)),
        ["232k", "9999", "12.3", "1.23M"]
    );
    assert_eq!(compact(-30_308.0, Some(2181.0)), "−30.3k ± 2.2k");
    assert_eq!(signed(-250.0, Some(30.0)), "−250 ± 30");
    assert_eq!(with_interval(-1_234_567.0, None), "-1\u{202f}234\u{202f}567");
}
