//! Requests and tokens are conserved, whatever happens.

use homeostat_core::{SeedTree, SimDuration, SimTime};
use homeostat_sim_gpu::{
    Admission, Batching, Cost, Deployment, DeviceType, Executor, Finished, Instance, Request,
    ServedModel, ServiceOrder, Serving, Stage, StageCost,
};
use proptest::prelude::*;

use crate::clocks::set_clock;

fn batching(kind: u8) -> Batching {
    match kind {
        0 => Batching::None,
        1 => Batching::Dynamic { max_batch: 4, timeout: SimDuration::from_millis(20) },
        _ => Batching::Continuous { max_batch: 4 },
    }
}

/// Two models, the first with two instances, on two devices that both share.
fn shared(kind: u8, cache: Option<u64>, admission: Admission) -> Deployment {
    let device = DeviceType::by_name("v100").unwrap();
    let cost = |executor| Stage {
        executor,
        cost: StageCost {
            base: Cost { fixed_s: 1e-3, scaled_s: 2e-3, compute_j: 0.4, memory_j: 0.1 },
            per_token: Cost { scaled_s: 1e-5, ..Cost::default() },
            ..StageCost::default()
        },
    };
    let instance = |model, stages: &[usize]| Instance {
        model,
        stages: stages.iter().copied().map(cost).collect(),
        cache_tokens: cache,
        overhead: SimDuration::from_millis(1),
    };
    let model = |name: &str| ServedModel {
        name: name.to_owned(),
        slo: SimDuration::from_millis(50),
        batching: batching(kind),
    };
    Deployment {
        executors: vec![
            Executor { device: device.clone(), devices: 1 },
            Executor { device, devices: 2 },
        ],
        models: vec![model("first"), model("second")],
        instances: vec![instance(0, &[0, 1]), instance(0, &[1]), instance(1, &[1, 0])],
        admission,
        order: ServiceOrder::Turns,
    }
}

/// Answers, the energy of both devices, and what was generated and asked for.
fn play(
    kind: u8,
    cache: Option<u64>,
    seed: u64,
    admission: Admission,
) -> (Vec<Finished>, [f64; 2]) {
    let mut serving = Serving::new(shared(kind, cache, admission)).unwrap();
    let mut rng = SeedTree::new(seed).stream("requests");
    let mut at = SimTime::ZERO;
    let mut asked = 0;
    for _ in 0..300 {
        at += SimDuration::from_nanos((rng.uniform() * 2e7) as u64);
        let model = rng.below(2) as u32;
        let output = if admission == Admission::InTime { 0 } else { rng.below(30) as u32 };
        asked += u64::from(output);
        let (prompt, rank) = (1 + rng.below(40) as u32, rng.uniform());
        serving.submit(Request { arrival: at, model, prompt, output, rank }).unwrap();
    }
    let mut finished = Vec::new();
    for step in 1..200_u64 {
        serving.advance(SimTime::ZERO + SimDuration::from_millis(step * 500));
        set_clock(&mut serving, rng.below(2), 200 + rng.below(1200) as u32);
        finished.extend(serving.take_finished());
        let counts = serving.counts();
        assert_eq!(counts.submitted, counts.finished + counts.rejected + serving.inside());
    }
    assert_eq!(serving.inside(), 0, "everything ends in a hundred seconds");
    if cache.is_none() && admission == Admission::All {
        assert_eq!(finished.iter().map(|done| u64::from(done.output)).sum::<u64>(), asked);
        assert_eq!(finished.len(), 300);
    }
    let energy = [serving.energy_j(0), serving.energy_j(1)];
    (finished, energy)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_request_is_answered_refused_or_inside(
        kind in 0..3_u8, seed in 0..1000_u64, cache in prop::option::of(75..200_u64),
    ) {
        play(kind, cache, seed, Admission::All);
        play(kind, cache, seed, Admission::InTime);
    }
}

#[test]
fn the_same_seed_gives_the_same_answers_and_the_same_energy() {
    for kind in 0..3 {
        let (first, again) =
            (play(kind, Some(100), 5, Admission::All), play(kind, Some(100), 5, Admission::All));
        assert_eq!(first.0, again.0);
        assert_eq!(first.1.map(f64::to_bits), again.1.map(f64::to_bits));
    }
}

#[test]
fn a_small_cache_preempts_and_loses_no_token() {
    let mut serving = Serving::new(shared(2, Some(60), Admission::All)).unwrap();
    for index in 0..8 {
        let arrival = SimTime::ZERO + SimDuration::from_millis(index);
        let request = Request { arrival, model: 1, prompt: 10, output: 40, rank: 0.0 };
        serving.submit(request).unwrap();
    }
    serving.advance(SimTime::ZERO + SimDuration::from_secs(60));
    let finished = serving.take_finished();
    assert!(serving.counts().preempted > 0);
    assert_eq!(finished.iter().map(|done| done.output).collect::<Vec<_>>(), [40; 8]);
    let first_tokens_come_first = |done: &Finished| done.first_token < done.latency;
    assert!(finished.iter().all(first_tokens_come_first));
}

#[test]
fn a_request_larger_than_the_cache_is_refused_at_once() {
    let mut serving = Serving::new(shared(2, Some(60), Admission::All)).unwrap();
    let request = Request { arrival: SimTime::ZERO, model: 1, prompt: 50, output: 11, rank: 0.0 };
    serving.submit(request).unwrap();
    serving.advance(SimTime::ZERO);
    assert_eq!((serving.counts().rejected, serving.inside()), (1, 0));
    let late = Request { arrival: SimTime::ZERO, model: 7, ..request };
    assert!(serving.submit(late).unwrap_err().to_string().contains("index of a model"));
}
