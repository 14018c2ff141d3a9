//! Golden values of scikit-learn, written by `fixtures/make_scikit_learn_fixtures.py`. The
//! invariants that go with them are in `svm.rs`.

use homeostat_firm::{IncrementalSvm, RandomFourierFeatures, SvmConfig};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    scikit_learn: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    alpha: f64,
    directions: Vec<Vec<f64>>,
    offsets: Vec<f64>,
    x: Vec<Vec<f64>>,
    y: Vec<bool>,
    first_waves: Vec<f64>,
    decisions_after_half: Vec<f64>,
    decisions: Vec<f64>,
}

fn assert_close(ours: f64, theirs: f64, what: &str) {
    assert!((ours - theirs).abs() <= 1e-9 * (1.0 + theirs.abs()), "{what}: {ours}, not {theirs}");
}

#[test]
fn the_incremental_svm_equals_that_of_scikit_learn() {
    let fixture: Fixture = serde_json::from_str(include_str!("../fixtures/svm.json")).unwrap();
    assert_eq!(fixture.scikit_learn, "1.9.1");
    assert_eq!(fixture.cases.len(), 3);
    for case in fixture.cases {
        let features = RandomFourierFeatures::new(case.directions, case.offsets).unwrap();
        for (ours, theirs) in features.transform(&case.x[0]).unwrap().iter().zip(&case.first_waves)
        {
            assert_close(*ours, *theirs, "wave");
        }
        let mut svm = IncrementalSvm::new(features, SvmConfig { alpha: case.alpha }).unwrap();
        let half = case.x.len() / 2;
        for (place, (x, y)) in case.x.iter().zip(&case.y).enumerate() {
            if place == half {
                for (x, theirs) in case.x.iter().zip(&case.decisions_after_half) {
                    assert_close(svm.decision(x).unwrap(), *theirs, "decision after half");
                }
            }
            svm.learn(x, *y, 1.0).unwrap();
        }
        for (x, theirs) in case.x.iter().zip(&case.decisions) {
            assert_close(svm.decision(x).unwrap(), *theirs, "decision");
        }
    }
}
