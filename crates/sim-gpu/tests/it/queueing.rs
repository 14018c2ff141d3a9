//! Queues behave as theory says.

use homeostat_core::{SeedTree, SimDuration, SimTime};
use homeostat_sim_gpu::{
    Admission, Batching, Cost, Deployment, DeviceType, Executor, Instance, Request, ServedModel,
    ServiceOrder, Serving, Stage, StageCost,
};

/// One device whose iterations take ten milliseconds, whatever they do.
fn constant(batching: Batching, stages: usize) -> Serving {
    let device = DeviceType::by_name("v100").unwrap();
    let stage = |executor| Stage { executor, cost: StageCost::constant(0.010) };
    let deployment = Deployment {
        executors: vec![Executor { device, devices: 1 }; stages],
        models: vec![ServedModel {
            name: "constant".to_owned(),
            slo: SimDuration::from_secs(1),
            batching,
        }],
        instances: vec![Instance {
            model: 0,
            stages: (0..stages).map(stage).collect(),
            cache_tokens: None,
            overhead: SimDuration::ZERO,
        }],
        admission: Admission::All,
        order: ServiceOrder::Turns,
    };
    Serving::new(deployment).unwrap()
}

fn mean_latency(
    serving: &mut Serving,
    load: f64,
    output: impl Fn(u64) -> u32,
    rank: impl Fn(u32) -> f64,
) -> f64 {
    let mut rng = SeedTree::new(3).stream("arrivals");
    let mut at = SimTime::ZERO;
    let count = 200_000;
    for index in 0..count {
        let gap = -rng.uniform().ln() * 0.010 / load;
        at += SimDuration::from_nanos((gap * 1e9) as u64);
        let output = output(index);
        let rank = rank(output);
        serving.submit(Request { arrival: at, model: 0, prompt: 1, output, rank }).unwrap();
    }
    serving.advance(at + SimDuration::from_secs(1000));
    let finished = serving.take_finished();
    assert_eq!(finished.len() as u64, count);
    finished.iter().map(|done| done.latency.seconds()).sum::<f64>() / finished.len() as f64
}

#[test]
fn one_request_at_a_time_with_constant_service_is_an_m_d_1_queue() {
    for load in [0.5, 0.8] {
        let mean = mean_latency(&mut constant(Batching::None, 1), load, |_| 0, |_| 0.0);
        // Pollaczek and Khinchine.
        let expect = 0.010 * (1.0 + load / (2.0 * (1.0 - load)));
        assert!((mean / expect - 1.0).abs() < 0.03, "load {load}: {mean} instead of {expect}");
    }
}

#[test]
fn a_pipeline_of_two_stages_serves_twice_as_many() {
    // Each request takes twice as long, and two are in the pipeline at once.
    let one = mean_latency(&mut constant(Batching::None, 1), 0.8, |_| 0, |_| 0.0);
    let two = mean_latency(&mut constant(Batching::None, 2), 0.8, |_| 0, |_| 0.0);
    assert!((two - one - 0.010).abs() < 0.002, "{one} {two}");
}

#[test]
fn shortest_first_lowers_the_mean() {
    let output = |index: u64| if index.is_multiple_of(4) { 20 } else { 1 };
    let load = 0.9 / 5.75;
    let first = mean_latency(&mut constant(Batching::None, 1), load, output, |_| 0.0);
    let shortest = mean_latency(&mut constant(Batching::None, 1), load, output, f64::from);
    assert!(shortest < 0.6 * first, "{first} {shortest}");
}

#[test]
fn continuous_batching_answers_sooner_than_dynamic_and_dynamic_sooner_than_none() {
    let output = |index: u64| 1 + (index * 7 % 20) as u32;
    let mean = |batching| mean_latency(&mut constant(batching, 1), 0.085, output, |_| 0.0);
    let none = mean(Batching::None);
    let dynamic = mean(Batching::Dynamic { max_batch: 4, timeout: SimDuration::from_millis(10) });
    let continuous = mean(Batching::Continuous { max_batch: 4 });
    assert!(continuous < dynamic && dynamic < none, "{none} {dynamic} {continuous}");
}

#[test]
fn a_dynamic_batch_waits_for_others_until_its_timeout() {
    let timeout = SimDuration::from_millis(40);
    let mut serving = constant(Batching::Dynamic { max_batch: 2, timeout }, 1);
    let submit = |serving: &mut Serving, millis| {
        let arrival = SimTime::ZERO + SimDuration::from_millis(millis);
        serving.submit(Request { arrival, model: 0, prompt: 1, output: 0, rank: 0.0 }).unwrap();
    };
    // A full batch starts at once, a lonely request after the timeout.
    for millis in [0, 5, 100] {
        submit(&mut serving, millis);
    }
    serving.advance(SimTime::ZERO + SimDuration::from_secs(1));
    let latencies: Vec<_> =
        serving.take_finished().iter().map(|done| done.latency.nanos() / 1_000_000).collect();
    assert_eq!(latencies, [15, 10, 50]);
}

#[test]
fn models_take_turns_or_are_served_in_order_of_arrival() {
    let ends = |order, stages: usize| {
        let device = DeviceType::by_name("v100").unwrap();
        let stage = |executor| Stage { executor, cost: StageCost::constant(0.010) };
        let model = |name: &str| ServedModel {
            name: name.to_owned(),
            slo: SimDuration::from_secs(1),
            batching: Batching::None,
        };
        let instance = |model| Instance {
            model,
            stages: (0..stages).map(stage).collect(),
            cache_tokens: None,
            overhead: SimDuration::ZERO,
        };
        let mut serving = Serving::new(Deployment {
            executors: vec![Executor { device, devices: 1 }; stages],
            models: vec![model("many"), model("one")],
            instances: vec![instance(0), instance(1)],
            admission: Admission::All,
            order,
        })
        .unwrap();
        for model in [0, 0, 0, 0, 0, 1] {
            let arrival = SimTime::ZERO;
            serving.submit(Request { arrival, model, prompt: 1, output: 0, rank: 0.0 }).unwrap();
        }
        serving.advance(SimTime::ZERO + SimDuration::from_secs(1));
        let done = serving.take_finished();
        let ends = done.iter().map(|done| (done.model, done.latency.nanos() / 1_000_000));
        ends.collect::<Vec<_>>()
    };
    // The only request of the other model waits for one iteration, or for all that came before it.
    assert_eq!(
        ends(ServiceOrder::Turns, 1),
        [(0, 10), (1, 20), (0, 30), (0, 40), (0, 50), (0, 60)]
    );
    let in_order = [(0, 10), (0, 20), (0, 30), (0, 40), (0, 50), (1, 60)];
    assert_eq!(ends(ServiceOrder::Arrival, 1), in_order);
    assert_eq!(ends(ServiceOrder::Arrival, 3), in_order.map(|(model, ms)| (model, ms + 20)));
}

#[test]
fn only_requests_that_can_be_in_time_are_accepted() {
    let mut serving = {
        let device = DeviceType::by_name("v100").unwrap();
        let cost =
            StageCost { base: Cost { scaled_s: 0.010, ..Cost::default() }, ..StageCost::default() };
        Serving::new(Deployment {
            executors: vec![Executor { device, devices: 1 }],
            models: vec![ServedModel {
                name: "a".to_owned(),
                slo: SimDuration::from_millis(25),
                batching: Batching::None,
            }],
            instances: vec![Instance {
                model: 0,
                stages: vec![Stage { executor: 0, cost }],
                cache_tokens: None,
                overhead: SimDuration::ZERO,
            }],
            admission: Admission::InTime,
            order: ServiceOrder::Turns,
        })
        .unwrap()
    };
    for _ in 0..5 {
        let request = Request { arrival: SimTime::ZERO, model: 0, prompt: 1, output: 0, rank: 0.0 };
        serving.submit(request).unwrap();
    }
    serving.advance(SimTime::ZERO + SimDuration::from_secs(1));
    assert_eq!((serving.counts().finished, serving.counts().rejected), (2, 3));
}
