//! Energy is power over time.

use homeostat_core::{SimDuration, SimTime};
use homeostat_sim_gpu::{Batching, DeviceType, Model, Request, Serving, Work, single_device};

use crate::clocks::set_clock;

const SECOND: SimDuration = SimDuration::from_secs(1);

fn serving(model: &str) -> Serving {
    let model = Model::by_name(model).unwrap();
    let device = DeviceType::by_name("v100").unwrap();
    Serving::new(single_device(device, &model, Batching::None).unwrap()).unwrap()
}

fn query(serving: &mut Serving) {
    let arrival = serving.now();
    serving.submit(Request { arrival, model: 0, prompt: 512, output: 0, rank: 0.0 }).unwrap();
}

#[test]
fn an_idle_device_draws_its_idle_power_at_any_clock() {
    let mut serving = serving("bert-base");
    set_clock(&mut serving, 0, 400);
    serving.advance(SimTime::ZERO + SECOND * 10);
    assert!((serving.energy_j(0) - 250.0).abs() < 1e-9);
    assert_eq!(serving.busy(0), SimDuration::ZERO);
}

#[test]
fn a_query_adds_the_energy_of_its_operators() {
    let (model, device) =
        (Model::by_name("opt-1.3b").unwrap(), DeviceType::by_name("v100").unwrap());
    for clock in [1380, 945, 405] {
        let mut serving = serving("opt-1.3b");
        set_clock(&mut serving, 0, clock);
        query(&mut serving);
        serving.advance(SimTime::ZERO + SECOND * 60);
        let cost = model.cost(&device, Work::prefill(512.0, 512.0 * 512.0));
        let expect = 60.0 * device.idle_w + cost.dynamic_j(&device, clock);
        assert!((serving.energy_j(0) / expect - 1.0).abs() < 1e-6, "{clock}");
        let busy = serving.busy(0).seconds();
        assert!((busy - cost.seconds(&device, clock)).abs() < 1e-6, "{clock}: {busy}");
    }
}

#[test]
fn a_change_of_clock_in_the_middle_of_an_iteration_is_worth_its_part() {
    let (model, device) =
        (Model::by_name("opt-1.3b").unwrap(), DeviceType::by_name("v100").unwrap());
    let cost = model.cost(&device, Work::prefill(512.0, 512.0 * 512.0));
    let mut serving = serving("opt-1.3b");
    query(&mut serving);
    let half = SimDuration::from_seconds(cost.seconds(&device, 1380) / 2.0).unwrap();
    serving.advance(SimTime::ZERO + half);
    set_clock(&mut serving, 0, 600);
    serving.advance(SimTime::ZERO + SECOND * 60);
    let latency = serving.take_finished()[0].latency.seconds();
    let expect = (cost.seconds(&device, 1380) + cost.seconds(&device, 600)) / 2.0;
    assert!((latency - expect).abs() < 1e-6, "{latency} {expect}");
    let dynamic = (cost.dynamic_j(&device, 1380) + cost.dynamic_j(&device, 600)) / 2.0;
    assert!((serving.energy_j(0) - 60.0 * device.idle_w - dynamic).abs() < 1e-3);
}

#[test]
fn a_lower_clock_takes_longer_with_less_power() {
    let (model, device) =
        (Model::by_name("gpt2-large").unwrap(), DeviceType::by_name("v100").unwrap());
    let cost = model.cost(&device, Work::prefill(512.0, 512.0 * 512.0));
    let watts =
        |clock| device.idle_w + cost.dynamic_j(&device, clock) / cost.seconds(&device, clock);
    assert!(cost.seconds(&device, 802) > 1.3 * cost.seconds(&device, 1380));
    // The chapter measured 214 W at 1300 MHz and 120 W at 800 MHz: a factor of 1.8.
    let factor = watts(1300) / watts(800);
    assert!((1.4..2.1).contains(&factor), "{factor}");
}
