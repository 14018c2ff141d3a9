//! `faas/chain-v2`: agents of a chain share its SLO, and can tell whose fault it is.

use homeostat_core::ControlSchema;
use homeostat_decide::{PodInterface, ScalingAction, StageFeatures};
use homeostat_env::{Action, check_multi_agent_env};
use homeostat_sim_faas::{FaasConfig, FaasPlan, LoadKind, RewardPreset, Tenants, make_multi_agent};

use crate::setup::{allocation, set};

const ID: &str = "faas/chain-v2";
const DIAMOND: &str = "base64 > markdown2html, sentiment-analysis > html-gen";

fn plan(chains: &[&str]) -> FaasPlan {
    let config = FaasConfig {
        chains: chains.iter().map(|chain| (*chain).to_owned()).collect(),
        steps: 12,
        load: LoadKind::Poisson,
        oracle: true,
        random_start: false,
        ..FaasConfig::default()
    };
    config.build().unwrap()
}

#[test]
fn every_stage_has_an_agent_and_copies_have_functions_of_their_own() {
    let plan = plan(&[DIAMOND, "primes", DIAMOND]);
    let findings = check_multi_agent_env(&|| make_multi_agent(ID, &plan).unwrap());
    assert!(findings.is_empty(), "{findings:?}");
    let mut env = make_multi_agent(ID, &plan).unwrap();
    env.reset(Some(1)).unwrap();
    assert_eq!(env.agents().len(), 4 + 1 + 4);
    let chained = plan.chained().unwrap();
    assert_eq!(chained.platform().nodes.len(), 3, "four functions for each node");
    let [first, alone, copy] = chained.chains() else { panic!("three were declared") };
    assert_eq!((first.first_function, alone.first_function, copy.first_function), (0, 4, 5));
    assert_eq!(first.objective, copy.objective);
    // A chain of one has its function's load, and all have the demand of their stages.
    assert!((alone.per_second - 0.95 / 0.4).abs() < 1e-9);
    assert!((first.per_second * 0.62 - 4.0 * 0.95).abs() < 1e-9);
}

#[test]
fn a_stage_that_starves_is_everybodys_trouble_and_its_own_fault() {
    let plan = plan(&[DIAMOND]);
    let mut tenants = Tenants::with_chains(&plan, 1).unwrap();
    let mut violations = 0;
    for window in 0..6 {
        let starved = tenants.ids().nth(2).unwrap();
        if window == 2 {
            let little = allocation(1, 1000, 512);
            set(tenants.platform(), starved, little).unwrap();
        }
        tenants.advance();
        violations += tenants.chain_window(0).unwrap().slo_violations;
    }
    let kept: Vec<f32> = (0..4).map(|place| tenants.features(place)[0]).collect();
    assert!(kept[0] < 0.5 && kept.iter().all(|other| *other == kept[0]), "{kept:?}");
    let own: Vec<f32> = (0..4).map(|place| tenants.stage_features(place)[7]).collect();
    assert!(own[2] < 0.5 && [0, 1, 3].iter().all(|place| own[*place] > 0.8), "{own:?}");
    let share: Vec<f32> = (0..4).map(|place| tenants.stage_features(place)[8]).collect();
    assert!(share[2] > 0.8 && share[1] < 0.5, "{share:?}");
    // A policy that is served sees what its agent saw in training.
    let schema = ControlSchema {
        features: StageFeatures::schema(),
        action: ScalingAction::schema(),
        bounds: Vec::new(),
    };
    let mut interface = PodInterface::for_schema(&schema, *plan.bounds()).unwrap();
    let mut read = Vec::new();
    interface.observe(tenants.seen(2), &mut read);
    assert_eq!(read[..3], tenants.stage_features(2)[..3]);
    // The change of arrivals (3) needs the window before.
    assert_eq!(read[4..], tenants.stage_features(2)[4..]);
    let id = tenants.chains().next().unwrap();
    let totals = tenants.platform().final_chain_totals(id);
    assert!(
        totals.slo_violations >= violations && totals.slo_violation_ratio() > 0.2,
        "{violations} {totals:?}"
    );
}

#[test]
fn agents_are_paid_for_the_objective_of_their_chain() {
    let plan = plan(&["uploader > image-resize", "primes"]);
    let mut env = make_multi_agent(ID, &plan).unwrap();
    env.reset(Some(3)).unwrap();
    let hold = vec![Action::Discrete(0); 3];
    // The second stage gives up one container after the other.
    let shrink = [Action::Discrete(0), Action::Discrete(6), Action::Discrete(0)];
    let mut last = Vec::new();
    for step in 0..9 {
        let actions = if step < 5 { &shrink[..] } else { &hold[..] };
        last = env.step(actions).unwrap().agents.to_vec();
    }
    for step in &last {
        let (sp, cpu, memory) = (step.obs[0], step.obs[1], step.obs[2]);
        let expect = 0.7 * f64::from(sp) + 0.15 * (f64::from(cpu) + f64::from(memory));
        assert!((step.reward - expect).abs() < 1e-6, "{step:?}");
        assert_eq!(step.obs.len(), StageFeatures::COUNT);
    }
    assert!(last[0].obs[0] < 0.9 && last[0].obs[0] == last[1].obs[0], "{last:?}");
    assert_eq!(last[2].obs[0], 1.0, "the other chain has its objective to itself");
    assert_eq!(plan.config().reward, RewardPreset::Slo);
}

#[test]
fn chains_that_cannot_be_played_are_refused_by_name() {
    let check = |chains: &[&str], expect: &str| {
        let chains = chains.iter().map(|chain| (*chain).to_owned()).collect();
        let error = FaasConfig { chains, ..FaasConfig::default() }.build().unwrap_err().to_string();
        assert!(error.starts_with("faas.chains is ") && error.contains(expect), "{error}");
    };
    check(&[], "faas.chains is a list of 0: there must be 1 to 1000");
    check(&["primes"; 1001], "faas.chains is a list of 1001");
    check(&["primes > prime"], "in chain 1, there is no function prime: there are base64, primes,");
    check(
        &[DIAMOND, "primes > base64 > primes"],
        "in chain 2, primes > base64 > primes goes round in circles",
    );
    check(&["primes > primes"], "in chain 1, primes follows itself");
    check(&["primes > "], "in chain 1, a name is missing");
    check(&["primes; base64"], "in chain 1, nothing connects base64 with primes");
}
