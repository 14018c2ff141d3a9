//! Chains of functions against schedules made by hand and against what must hold of any: a
//! request goes from stage to stage, is answered by all of them or lost as a whole.

use homeostat_core::{Fraction, Persist, SimDuration, Slo, Snapshot, Stream};
use homeostat_load::{Arrivals, LoadShape};
use homeostat_sim_faas::{
    ChainGraph, ChainId, ChainSetup, ChainTotals, Contention, FunctionId, Objective, Platform,
    PlatformConfig, Scaling, Source, by_name, catalogue,
};
use proptest::prelude::*;

use crate::setup::{allocation, at, exact, ideal, platform, quiet, seconds, set, with_load};

/// A chain over functions that are there, with an SLO of one second.
fn setup(text: &str, functions: &[FunctionId]) -> ChainSetup {
    ChainSetup {
        name: text.to_owned(),
        graph: text.parse().unwrap(),
        functions: functions.to_vec(),
        slo: Slo::try_new(Fraction::from_percent(99), SimDuration::from_secs(1)).unwrap(),
        isolated_latency: SimDuration::from_millis(800),
        arrivals: None,
    }
}

/// A quiet chain whose stages take exactly this long, with a container each.
fn chain_of(platform: &mut Platform, text: &str, cpu_ms: &[u64]) -> (ChainId, Vec<FunctionId>) {
    let add = |ms: &u64| quiet(exact(*ms, 0), allocation(1, 1000, 256));
    let functions: Vec<_> =
        cpu_ms.iter().map(|ms| platform.add_function(add(ms)).unwrap()).collect();
    let id = platform.add_chain(setup(text, &functions)).unwrap();
    (id, functions)
}

fn largest_ms(totals: &ChainTotals) -> f64 {
    totals.latency.largest().unwrap().seconds() * 1e3
}

fn close(got: f64, expect: f64) {
    assert!((got - expect).abs() <= 0.001, "{got} against {expect}");
}

#[test]
fn a_pipeline_takes_the_sum_of_its_stages() {
    let mut platform = platform(ideal(1, 4.0, 8));
    let (id, stages) = chain_of(&mut platform, "a > b > c", &[200, 300, 100]);
    platform.send_to_chain(id).unwrap();
    platform.run_until(at(0.4));
    // The first has answered, the second is at work, the third has not heard of it.
    let inside: Vec<_> = stages.iter().map(|stage| platform.inside(*stage)).collect();
    assert_eq!((inside, platform.inside_chain(id)), (vec![0, 1, 0], 1));
    platform.run_until(at(2.0));
    let totals = platform.chain_totals(id);
    assert_eq!((totals.arrived, totals.completed, totals.slo_violations), (1, 1, 0));
    close(largest_ms(&totals), 600.0);
    // Each stage counts its own part only.
    close(platform.totals(stages[1]).latency.largest().unwrap().seconds() * 1e3, 300.0);
}

#[test]
fn requests_of_a_pipeline_queue_at_the_slowest_stage() {
    let mut platform = platform(ideal(1, 4.0, 8));
    let (id, stages) = chain_of(&mut platform, "a > b", &[100, 400]);
    for _ in 0..3 {
        platform.send_to_chain(id).unwrap();
    }
    platform.run_until(at(0.45));
    // They left the first stage at 100, 200 and 300 ms; the second is busy until 500, 900, 1300.
    assert_eq!(platform.close_window(stages[1]).observation.waiting, 2);
    platform.run_until(at(2.0));
    let totals = platform.chain_totals(id);
    assert_eq!((totals.completed, totals.late(), totals.lost), (3, 1, 0));
    close(totals.latency.mean().unwrap().seconds() * 1e3, 900.0);
    close(largest_ms(&totals), 1300.0);
}

#[test]
fn a_join_waits_for_the_slower_branch() {
    let mut platform = platform(ideal(1, 4.0, 8));
    let (id, stages) = chain_of(&mut platform, "a > b, c > d", &[100, 200, 500, 50]);
    platform.send_to_chain(id).unwrap();
    platform.run_until(at(0.55));
    // The quick branch is done since 300 ms; the join has not begun.
    let arrived: Vec<_> = stages.iter().map(|stage| platform.totals(*stage).arrived).collect();
    assert_eq!(arrived, [1, 1, 1, 0]);
    platform.run_until(at(2.0));
    let totals = platform.chain_totals(id);
    close(largest_ms(&totals), 100.0 + 500.0 + 50.0);
    assert_eq!(platform.totals(stages[3]).arrived, 1, "the join is called once");
}

#[test]
fn several_entries_are_called_at_once_and_the_last_finish_ends_a_request() {
    let mut platform = platform(ideal(1, 4.0, 8));
    let (id, _) = chain_of(&mut platform, "a, b > c; b > d", &[300, 100, 100, 700]);
    platform.send_to_chain(id).unwrap();
    platform.run_until(at(2.0));
    // c ends at 400 ms, d at 800.
    close(largest_ms(&platform.chain_totals(id)), 800.0);
}

#[test]
fn a_cold_start_of_one_stage_delays_the_whole_chain() {
    let mut platform = platform(ideal(1, 4.0, 8));
    let keep_alive = SimDuration::from_secs(60);
    let a = platform.add_function(quiet(exact(100, 0), allocation(1, 1000, 256))).unwrap();
    let b = quiet(exact(100, 0), allocation(0, 1000, 256)).on_demand(keep_alive, 2);
    let b = platform.add_function(b).unwrap();
    let id = platform.add_chain(setup("a > b", &[a, b])).unwrap();
    for _ in 0..2 {
        platform.send_to_chain(id).unwrap();
        platform.run_for(seconds(10.0));
    }
    let totals = platform.chain_totals(id);
    assert_eq!((totals.completed, totals.late()), (2, 1), "the second finds it warm");
    assert!(largest_ms(&totals) > 2000.0);
}

#[test]
fn a_chain_of_one_stage_is_its_function() {
    let play = |as_chain: bool| {
        let mut platform = platform(ideal(1, 2.0, 8));
        let profile = by_name("graph-bft").unwrap();
        let shape = LoadShape::Poisson { per_second: 8.0 };
        let quiet = quiet(profile, allocation(3, 1000, 512));
        let loaded = with_load(quiet.clone(), &shape, 3);
        if as_chain {
            let function = platform.add_function(quiet).unwrap();
            let chain = ChainSetup { arrivals: loaded.arrivals, ..setup("a", &[function]) };
            let id = platform.add_chain(chain).unwrap();
            platform.run_until(at(100.0));
            let totals = platform.chain_totals(id);
            assert_eq!(totals.latency, platform.totals(function).latency);
            (totals.arrived, totals.slo_violations, totals.latency)
        } else {
            let function = platform.add_function(loaded).unwrap();
            platform.run_until(at(100.0));
            let totals = platform.totals(function);
            (totals.arrived, totals.slo_violations, totals.latency)
        }
    };
    assert!(play(true) == play(false));
}

#[test]
fn a_lost_stage_loses_the_request_once_and_nothing_follows_it() {
    let mut platform = platform(ideal(1, 4.0, 8));
    let (id, stages) = chain_of(&mut platform, "a > b, c > d; c > e", &[100, 100, 300, 50, 50]);
    // Far too little memory: every call of b kills it.
    set(&mut platform, stages[1], allocation(1, 1000, 64)).unwrap();
    platform.run_until(at(0.5));
    platform.send_to_chain(id).unwrap();
    platform.run_until(at(0.65));
    // c still works, though the answer is not needed.
    assert_eq!((platform.inside(stages[2]), platform.inside_chain(id)), (1, 0));
    platform.run_until(at(5.0));
    let totals = platform.chain_totals(id);
    assert_eq!(
        (totals.arrived, totals.completed, totals.lost, totals.slo_violations),
        (1, 0, 1, 1)
    );
    // Never answered: a timeout for each of the three stages on its way.
    assert_eq!(totals.latency.largest(), Some(SimDuration::from_secs(60)));
    let arrived: Vec<_> = stages.iter().map(|stage| platform.totals(*stage).arrived).collect();
    assert_eq!(arrived, [1, 1, 1, 0, 0]);
}

#[test]
fn a_request_that_is_given_up_in_any_queue_is_lost() {
    let mut platform = platform(ideal(1, 4.0, 8));
    let (id, stages) = chain_of(&mut platform, "a > b > c", &[100, 100, 100]);
    set(&mut platform, stages[1], allocation(0, 1000, 256)).unwrap();
    platform.send_to_chain(id).unwrap();
    platform.run_until(at(5.0));
    let stuck = platform.close_chain_window(id);
    assert_eq!((stuck.arrived, stuck.completed, stuck.lost), (1, 0, 0));
    close(stuck.latency.unwrap().seconds(), 5.0);
    platform.run_until(at(30.0));
    let given_up = platform.close_chain_window(id);
    assert_eq!((given_up.lost, given_up.slo_violations, platform.inside_chain(id)), (1, 1, 0));
    // No client waits for it when a container is there again.
    set(&mut platform, stages[1], allocation(1, 1000, 256)).unwrap();
    platform.run_until(at(60.0));
    assert_eq!(platform.totals(stages[2]).arrived, 0);
}

#[test]
fn looking_at_a_platform_changes_nothing_on_it() {
    // b has no container: its invocation is given up after 20 s, long before c has finished.
    let play = |looks: bool| {
        let mut platform = platform(ideal(1, 4.0, 8));
        let (id, stages) = chain_of(&mut platform, "a > b, c; c > d", &[100, 100, 30_000, 100]);
        set(&mut platform, stages[1], allocation(0, 1000, 256)).unwrap();
        platform.send_to_chain(id).unwrap();
        for second in 1..40 {
            platform.run_until(at(f64::from(second)));
            if looks {
                platform.chain_totals(id);
            }
        }
        (platform.chain_totals(id), platform.totals(stages[3]).arrived)
    };
    assert_eq!(play(true), play(false));
    assert_eq!(play(false).1, 0, "no request waits for c any more");
}

#[test]
fn a_chain_without_one_of_its_stages_takes_no_requests_and_loses_those_that_need_it() {
    let mut platform = platform(ideal(1, 4.0, 8));
    let add = |ms| quiet(exact(ms, 0), allocation(1, 1000, 256));
    let functions = [100, 600, 100].map(|ms| platform.add_function(add(ms)).unwrap());
    let seeds = homeostat_core::SeedTree::new(1);
    let shape = LoadShape::Poisson { per_second: 2.0 };
    let arrivals = Arrivals::new(&shape, seeds.stream("arrivals")).unwrap();
    let arrivals = Some(Source::Shape(arrivals));
    let id = platform.add_chain(ChainSetup { arrivals, ..setup("a > b > c", &functions) }).unwrap();
    platform.run_until(at(20.0));
    platform.remove_function(functions[1]).unwrap();
    let before = platform.chain_totals(id);
    assert!(before.lost > 0 && before.completed > 0, "those in the queue of b are lost");
    platform.run_until(at(60.0));
    let after = platform.chain_totals(id);
    assert_eq!(after.arrived, before.arrived);
    assert_eq!(after.arrived, after.completed + after.lost);
    assert_eq!(platform.inside_chain(id), 0);
    assert!(platform.send_to_chain(id).is_err());
}

#[test]
fn requests_inside_that_are_late_count_at_the_end_of_a_run() {
    let mut platform = platform(ideal(1, 4.0, 8));
    let (id, _) = chain_of(&mut platform, "a > b", &[100, 5000]);
    platform.send_to_chain(id).unwrap();
    platform.run_until(at(3.0));
    assert_eq!(platform.chain_totals(id).judged(), 0);
    let totals = platform.final_chain_totals(id);
    assert_eq!((totals.unsettled, totals.late(), totals.slo_violation_ratio()), (1, 1, 1.0));
}

#[test]
fn functions_that_cannot_be_stages_are_refused_with_the_reason() {
    let mut platform = platform(ideal(1, 4.0, 8));
    let (_, taken) = chain_of(&mut platform, "a > b", &[100, 100]);
    let free = platform.add_function(quiet(exact(100, 0), allocation(1, 1000, 256))).unwrap();
    let busy = quiet(exact(100, 0), allocation(1, 1000, 256));
    let busy = with_load(busy, &LoadShape::Poisson { per_second: 1.0 }, 1);
    let busy = platform.add_function(busy).unwrap();
    let mut check = |functions: &[FunctionId], expect: &str| {
        let error = platform.add_chain(setup("x > y", functions)).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(&[free], "it has 2 stages and is given 1 functions");
    check(&[free, taken[0]], "primes cannot be a stage of \"x > y\": it is one already");
    check(&[free, free], "it is one already: add the function once more");
    check(&[free, busy], "it has requests of its own: give them to the chain");
    platform.remove_function(free).unwrap();
    assert!(platform.add_chain(setup("x", &[free])).is_err());
}

#[test]
fn the_objective_of_a_chain_is_beyond_its_longest_way_and_below_the_sum_of_objectives() {
    let config = ideal(2, 6.0, 32);
    let graph: ChainGraph =
        "base64 > markdown2html, sentiment-analysis > html-gen".parse().unwrap();
    let profiles: Vec<_> = graph.names().map(|name| by_name(name).unwrap()).collect();
    let chain = Objective::profile_chain(&graph, &profiles, &config, 1.15).unwrap();
    let means: Vec<_> = profiles.iter().map(|profile| profile.cpu + profile.io).collect();
    assert!(chain.slo.threshold() > graph.longest(&means));
    let alone = |profile| Objective::profile(profile, &config, 1.15).unwrap().slo.threshold();
    let sum: SimDuration = profiles.iter().map(alone).fold(SimDuration::ZERO, |a, b| a + b);
    assert!(chain.slo.threshold() < sum);
    let error = Objective::profile_chain(&graph, &profiles, &config, 0.3).unwrap_err();
    assert!(error.to_string().contains("is below its mean service time"), "{error}");
}

/// A pipeline and a diamond under load beside a function of no chain; one stage scales itself.
fn chained_platform(seed: u64, slots: u32) -> (Platform, Vec<FunctionId>, Vec<ChainId>) {
    let config = PlatformConfig { slots, contention: Contention::MEASURED, ..ideal(2, 3.0, 4) };
    let mut platform = platform(config);
    let profiles = catalogue();
    let mut ids = Vec::new();
    for number in 0..8 {
        let profile = profiles[(seed as usize + 5 * number) % profiles.len()].clone();
        let mut setup = quiet(profile, allocation(2, 1000, 256));
        if number == 2 {
            setup.scaling = Scaling::OnDemand { keep_alive: SimDuration::from_secs(5), most: 4 };
        }
        if number == 7 {
            setup = with_load(setup, &LoadShape::Poisson { per_second: 2.0 }, seed);
        }
        ids.push(platform.add_function(setup).unwrap());
    }
    let load = |name: &str| {
        let shape =
            LoadShape::Fluctuating { per_second: 1.5, spread: 0.6, persistence: 0.8, every_s: 5.0 };
        let seeds = homeostat_core::SeedTree::new(seed);
        Some(Source::Shape(Arrivals::new(&shape, seeds.stream(name)).unwrap()))
    };
    let pipeline = ChainSetup { arrivals: load("pipeline"), ..setup("a > b > c", &ids[..3]) };
    let diamond = ChainSetup { arrivals: load("diamond"), ..setup("a > b, c > d", &ids[3..7]) };
    let chains = [pipeline, diamond].map(|chain| platform.add_chain(chain).unwrap());
    (platform, ids, chains.to_vec())
}

/// One random treatment.
fn treat(platform: &mut Platform, ids: &[FunctionId], chains: &[ChainId], rng: &mut Stream) {
    let id = ids[rng.below(ids.len())];
    match rng.below(10) {
        // A function that is gone takes no wishes, nor a chain without it requests.
        9 if rng.below(12) == 0 => drop(platform.remove_function(id)),
        9 => drop(platform.send_to_chain(chains[rng.below(chains.len())])),
        8 => drop(platform.send(id)),
        0 if rng.below(3) == 0 => drop(platform.fail_node(rng.below(2))),
        0 | 1 => {
            platform.restore_node(0).unwrap();
            platform.restore_node(1).unwrap();
        }
        _ => {
            let wish = allocation(
                rng.below(5) as u32,
                250 + 125 * rng.below(15) as u64,
                128 + 64 * rng.below(8) as u64,
            );
            // The function may be gone.
            drop(set(platform, id, wish));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn requests_of_chains_are_conserved_whatever_is_done(seed in 0u64..1000, slots in 1u32..4) {
        let (mut platform, ids, chains) = chained_platform(seed, slots);
        let mut rng = Stream::from_seed(seed);
        // A stage may be gone before the first request comes by itself.
        for id in &chains {
            platform.send_to_chain(*id).unwrap();
        }
        for _ in 0..60 {
            treat(&mut platform, &ids, &chains, &mut rng);
            platform.run_for(SimDuration::from_millis(700));
            for id in &chains {
                let totals = platform.chain_totals(*id);
                let settled = totals.completed + totals.lost;
                prop_assert_eq!(totals.arrived, settled + platform.inside_chain(*id));
                prop_assert!(totals.lost <= totals.slo_violations && totals.slo_violations <= settled);
                prop_assert_eq!(totals.latency.count(), settled);
            }
            for id in &ids {
                let totals = platform.totals(*id);
                let settled = totals.completed + totals.timed_out + totals.failed;
                prop_assert_eq!(totals.arrived, settled + platform.inside(*id));
            }
        }
    }

    #[test]
    fn a_restored_platform_with_chains_goes_on_bit_for_bit(
        seed in 0u64..1000,
        pause in 1usize..20,
    ) {
        let run = |stop: Option<usize>| {
            let (mut platform, ids, chains) = chained_platform(seed, 1);
            let mut rng = Stream::from_seed(seed);
            let mut windows = Vec::new();
            for step in 0..20 {
                if stop == Some(step) {
                    let mut snapshot = Snapshot::default();
                    platform.save("p", &mut snapshot);
                    platform = chained_platform(seed, 1).0;
                    platform.load("p", &snapshot).unwrap();
                }
                treat(&mut platform, &ids, &chains, &mut rng);
                platform.run_for(SimDuration::from_millis(1300));
                windows.extend(chains.iter().map(|id| platform.close_chain_window(*id)));
            }
            let mut end = Snapshot::default();
            platform.save("p", &mut end);
            let totals: Vec<_> = chains.iter().map(|id| platform.chain_totals(*id)).collect();
            (windows, totals, ids.iter().map(|id| platform.totals(*id)).collect::<Vec<_>>(), end)
        };
        // Not compared with `eq!`: a difference would print thousands of counts.
        prop_assert!(run(Some(pause)) == run(None));
    }
}
