//! How often intervals of off-policy evaluation hold the true value of a policy, on simulated Deployments: the
//! policy is learnt from HPA and VPA, evaluated from many independent sets of recorded trajectories, and then
//! played to see what it is worth.

use homeostat_core::trajectory::{End, Transition};
use homeostat_core::{AgentId, ControlSchema, SeedTree, Stream};
use homeostat_decide::{
    AllocationTarget, Features, Guards, Plant, Policy, PreparedProposal, Propose, SimulatedPlant,
    decide,
};
use homeostat_lab::Result;
use homeostat_nn::Kernel;
use homeostat_report::{Cell, Finding, Spread, Table};
use homeostat_rl::{
    AgentContext, Estimate, EvaluationConfig, LearnedPolicy, OfflineAlgorithm, OfflineDataset,
    Policy as Learnt, Recording, Sampling, Workspace, evaluate, recorded_env,
};
use homeostat_sim_deploy::DeployPlant;
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::workload::Workload;
use super::{AwareOptions, finding};

/// Confidence of the intervals.
const NOMINAL: f64 = 0.9;
/// Decisions of a recorded trajectory. With the discount of 0.9, what comes later counts for nothing.
const LENGTH: usize = 40;
/// Trajectories in one evaluation.
const TRAJECTORIES: usize = 40;
/// Deviation of the noise on recorded actions, where there is any, in units of [-1, 1].
const NOISE: f64 = 0.2;

/// Who acts while decisions are recorded.
const BEHAVIOURS: [(&str, &str, f64); 2] =
    [("hpa_vpa", "HPA and VPA", 0.0), ("hpa_vpa_noise", "HPA and VPA with noise", NOISE)];

/// What the evaluations of one policy found.
struct Evaluated {
    /// Part of the intervals that hold the truth: by fitted Q, and doubly robust.
    fitted_q: f64,
    doubly_robust: Option<f64>,
    /// Mean estimate minus truth.
    bias: f64,
    robust_bias: Option<f64>,
    truth: f64,
    distance: f64,
}

pub(super) fn coverage(
    options: &AwareOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let (evaluations, truths) = if options.is_quick { (10, 100) } else { (40, 400) };
    let tests = options.seeds.par_iter().map(|seed| {
        let workload = Workload::of_seed(*seed, 480)?;
        let evaluated =
            BEHAVIOURS.map(|(_, _, noise)| judge(&workload, noise, evaluations, truths));
        progress(&format!("seed {seed}: done"));
        evaluated.into_iter().collect::<Result<Vec<Evaluated>>>()
    });
    let tests = tests.collect::<Result<Vec<_>>>()?;
    let mut table = Table::new(
        format!("intervals of {:.0} % that hold the true value, %", 100.0 * NOMINAL),
        &[
            "recorded",
            "by fitted Q",
            "fitted Q minus truth",
            "doubly robust",
            "doubly robust minus truth",
            "true value",
            "distance of the actions",
        ],
    );
    let mut facts = Map::new();
    for (place, (key, name, _)) in BEHAVIOURS.into_iter().enumerate() {
        let over = |figure: &dyn Fn(&Evaluated) -> Option<f64>| {
            let values: Vec<f64> = tests.iter().filter_map(|test| figure(&test[place])).collect();
            (!values.is_empty()).then(|| Spread::of(&values))
        };
        let cell = |spread: Option<Spread>, scale: f64| {
            spread.map_or(Cell::Nothing, |spread| spread.scaled(scale).into())
        };
        let fitted = over(&|one| Some(one.fitted_q));
        let robust = over(&|one| one.doubly_robust);
        let (bias, robust_bias) = (over(&|one| Some(one.bias)), over(&|one| one.robust_bias));
        let (truth, distance) = (over(&|one| Some(one.truth)), over(&|one| Some(one.distance)));
        table.push(vec![
            name.into(),
            cell(fitted, 100.0),
            cell(bias, 1.0),
            cell(robust, 100.0),
            cell(robust_bias, 1.0),
            cell(truth, 1.0),
            cell(distance, 1.0),
        ]);
        let of_nominal = |spread: Option<Spread>| spread.map(|spread| spread.scaled(1.0 / NOMINAL));
        facts.insert(
            key.to_owned(),
            json!({
                "fitted_q": fitted,
                "fitted_q_of_nominal": of_nominal(fitted),
                "fitted_q_bias": bias,
                "doubly_robust": robust,
                "doubly_robust_of_nominal": of_nominal(robust),
                "doubly_robust_bias": robust_bias,
                "truth": truth,
                "distance": distance,
            }),
        );
    }
    let note = format!(
        "A policy is learnt by TD3+BC from {TRAJECTORIES} trajectories of {LENGTH} decisions of an application, and \
         evaluated from {evaluations} other sets of as many. Its true value is the mean over {truths} trajectories \
         that it plays itself; values are discounted by 0.9. HPA and VPA have no probabilities, so only fitted Q \
         can use their decisions; the noise is normal with a deviation of {NOISE}."
    );
    Ok(finding(
        vec![table],
        &[&note],
        json!({ "nominal": NOMINAL, "coverage": Value::Object(facts) }),
    ))
}

fn judge(workload: &Workload, noise: f64, evaluations: usize, truths: usize) -> Result<Evaluated> {
    let seeds = workload.seeds.child(&format!("coverage/{noise}"));
    let config =
        EvaluationConfig { confidence: NOMINAL, resamples: 100, ..EvaluationConfig::default() };
    let policy = learn(workload, noise, &seeds.child("learn"))?;
    let own = (0..truths).map(|place| {
        let (bounds, rng) = (*workload.plan.bounds(), Stream::from_seed(0));
        let mut own = LearnedPolicy::new("learnt", &policy, bounds, Sampling::Greedy, rng)?;
        let played = record(workload, &mut own, 0.0, &seeds.child(&format!("truth/{place}")))?;
        Ok(value(&played, config.gamma))
    });
    let own = own.collect::<Result<Vec<f64>>>()?;
    let truth = own.iter().sum::<f64>() / own.len() as f64;
    let holds = |estimate: &Estimate| (estimate.low..=estimate.high).contains(&truth);
    let (mut fitted, mut robust, mut robust_count) = (0, 0, 0);
    let (mut bias, mut robust_bias, mut distance) = (0.0, 0.0, 0.0);
    for place in 0..evaluations {
        let recordings = recordings(workload, noise, &seeds.child(&format!("evaluation/{place}")))?;
        let found = evaluate(&policy, &recordings, &config)?;
        fitted += usize::from(holds(&found.fitted_q));
        bias += found.fitted_q.value - truth;
        distance += found.distance;
        if let Some(estimate) = found.doubly_robust {
            robust += usize::from(holds(&estimate));
            robust_bias += estimate.value - truth;
            robust_count += 1;
        }
    }
    let part = |count: usize| count as f64 / evaluations as f64;
    let is_known = robust_count == evaluations;
    Ok(Evaluated {
        fitted_q: part(fitted),
        doubly_robust: is_known.then(|| part(robust)),
        bias: bias / evaluations as f64,
        robust_bias: is_known.then(|| robust_bias / evaluations as f64),
        truth,
        distance: distance / evaluations as f64,
    })
}

/// A policy learnt from one set of recordings.
fn learn(workload: &Workload, noise: f64, seeds: &SeedTree) -> Result<Learnt> {
    let schema = ControlSchema {
        features: Features::schema(),
        action: AllocationTarget::schema(),
        bounds: workload.plan.bounds().fields(),
    };
    let spec = recorded_env(&schema)?;
    let data = OfflineDataset::from_recordings(&spec, &recordings(workload, noise, seeds)?)?;
    let context = AgentContext { agent: AgentId::new(0), spec, seeds: seeds.child("agent") };
    let mut learner = OfflineAlgorithm::Td3Bc.default_config().build(&context)?;
    let mut workspace = Workspace::new(Kernel::best());
    for _ in 0..2000 {
        learner.learn(&data, &mut workspace)?;
    }
    Ok(learner.policy())
}

fn recordings(workload: &Workload, noise: f64, seeds: &SeedTree) -> Result<Vec<Recording>> {
    let recorded = (0..TRAJECTORIES).map(|place| {
        let seeds = seeds.child(&format!("trajectory/{place}"));
        record(workload, workload.fallback()?.as_mut(), noise, &seeds)
    });
    recorded.collect()
}

/// One trajectory from the beginning of a cluster on. With noise, the probability of an action is its density.
fn record(
    workload: &Workload,
    policy: &mut dyn Policy,
    noise: f64,
    seeds: &SeedTree,
) -> Result<Recording> {
    let plan = &workload.plan;
    let mut plant = DeployPlant::new(plan, &[workload.number], seeds);
    let mut guards = Guards::bounds_only(*plan.bounds())?;
    let mut features = Features::new(*plan.bounds());
    let mut rng = seeds.stream("noise");
    plant.advance()?;
    let mut seen = features.observe(plant.observe(0));
    let mut transitions = Vec::new();
    for step in 0..LENGTH {
        let obs = plant.observe(0).clone();
        let proposal = policy.propose(&obs);
        let target = proposal.setting().unwrap_or(obs.allocation);
        let mut numbers = AllocationTarget::of(&target, plan.bounds()).numbers();
        let mut density = 1.0;
        for number in &mut numbers {
            let z = rng.normal();
            *number = (f64::from(*number) + noise * z).clamp(-1.0, 1.0) as f32;
            density *= (-0.5 * z * z).exp() / (noise * (2.0 * std::f64::consts::PI).sqrt());
        }
        let proposal = match noise > 0.0 {
            true => {
                AllocationTarget::from_numbers(&numbers).propose(&obs.allocation, plan.bounds())
            }
            false => proposal,
        };
        let decision = decide(&mut PreparedProposal::new(proposal), &mut guards, &obs);
        plant.apply(0, &decision)?;
        plant.advance()?;
        let next = features.observe(plant.observe(0));
        transitions.push(Transition {
            at_ms: step as i64,
            observation: std::mem::replace(&mut seen, next).to_vec(),
            action: numbers.to_vec(),
            reward: plant.reward(0),
            probability: (noise > 0.0).then_some(density),
        });
    }
    let end = Some((End::Truncated, seen.to_vec()));
    Ok(Recording { workload: plant.name(0).to_owned(), transitions, end })
}

/// The discounted mean reward of a trajectory. What follows its end is worth what its second half was.
fn value(played: &Recording, gamma: f64) -> f64 {
    let rewards: Vec<f64> = played.transitions.iter().map(|transition| transition.reward).collect();
    let (_, later) = rewards.split_at(rewards.len() / 2);
    let rest = later.iter().sum::<f64>() / later.len() as f64;
    let (sum, left) = rewards.iter().fold((0.0, 1.0), |(sum, discount), reward| {
        (sum + (1.0 - gamma) * discount * reward, discount * gamma)
    });
    sum + left * rest
}
