//! The papers' experiments run end to end, and twice the same.

use homeostat_experiments::reproduce::SrlStudy;
use homeostat_sim_faas::RewardPreset;

#[test]
fn the_study_of_one_agent_for_each_function_runs_and_repeats_itself() {
    let study = SrlStudy {
        seeds: vec![1, 2],
        rewards: vec![RewardPreset::Slo],
        episodes: 60,
        cores: vec![5.0],
        evaluations: 1,
    };
    let run = || {
        let mut said = 0;
        let result = study.run(&mut |_| said += 1).unwrap();
        assert!(said > 3, "it says what it does");
        result
    };
    let result = run();
    assert_eq!((result.isolated.len(), result.together.len(), result.joint.len()), (1, 1, 1));
    let policies: Vec<_> =
        result.isolated[0].policies.iter().map(|figures| figures.policy.as_str()).collect();
    assert_eq!(
        policies,
        ["s-rl", "none", "random", "ensure", "ensure-util", "hpa+vpa", "kpa"],
        "doing nothing and chance stand in every table"
    );
    for figures in result.isolated[0].policies.iter().chain(&result.together[0].policies) {
        assert!((0.0..=1.0).contains(&figures.slo_violation_ratio.mean), "{figures:?}");
        // Two seeds have a range, and no interval worth printing.
        let ratio = figures.slo_violation_ratio;
        assert!(ratio.interval.is_none() && ratio.min <= ratio.mean && ratio.mean <= ratio.max);
    }
    assert!((75.0..77.0).contains(&result.together[0].load_pct));
    let text = |result| serde_json::to_string(result).unwrap();
    assert_eq!(text(&run()), text(&result));
}
