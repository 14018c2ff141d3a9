//! Plans of whole clusters.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use homeostat_core::SeedTree;
use homeostat_placement::{
    CLUSTER_EXAMPLE, Cluster, MODELS_EXAMPLE, Method, Plan, Planner, PlannerConfig, Workload,
};
use homeostat_sim_gpu::Model;
use proptest::prelude::*;

/// Small searches: these tests are about what must hold for any search.
fn quick() -> PlannerConfig {
    PlannerConfig {
        search_iterations: 4000.0,
        evaluation_iterations: 8000.0,
        max_stages: 4,
        max_degree: 2,
        ..PlannerConfig::default()
    }
}

fn planner(cluster: &str, models: &str, config: PlannerConfig) -> Planner {
    let cluster = Cluster::read(cluster).unwrap();
    let workload = Workload::read(models, &cluster, None).unwrap();
    Planner::new(cluster, workload, None, config).unwrap()
}

fn plan(planner: &Planner, method: Method, seed: u64) -> Plan {
    planner.plan(method, &SeedTree::new(seed), &mut |_| {}).unwrap()
}

/// What every plan must keep, by whatever method.
fn check_plan(planner: &Planner, plan: &Plan) {
    let (models, name) = (planner.workload().models.len(), plan.method.name());
    // Every model is placed or reported, never both.
    for model in 0..models {
        let is_placed = plan.copies.iter().any(|copy| copy.model == model);
        assert_ne!(is_placed, plan.unplaced.contains(&model), "{name}: model {model}");
    }
    // Every device is in at most one set.
    let mut devices: Vec<usize> =
        plan.layout.sets.iter().flat_map(|set| set.devices.clone()).collect();
    devices.sort_unstable();
    let count = devices.len();
    devices.dedup();
    assert_eq!(devices.len(), count, "{name}");
    assert!(count <= planner.cluster().device_count());
    // Memory is never exceeded, and the partitions of a copy divide its operators.
    let mut gib = vec![0.0; plan.layout.sets.len()];
    for copy in &plan.copies {
        let demand = &planner.workload().models[copy.model];
        let operators: usize = copy.partitions.iter().map(|one| one.operator_count).sum();
        assert_eq!(operators, demand.model.operators.len(), "{name}: {}", demand.name);
        for partition in &copy.partitions {
            gib[partition.set] += partition.weights_gib;
        }
    }
    for (set, gib) in gib.iter().enumerate() {
        let pool = &planner.cluster().pools()[plan.layout.sets[set].pool];
        assert!(*gib <= pool.device.memory_gib, "{name}: {gib} on {}", plan.set_name(set));
    }
    // Caches hold the longest request.
    let deployment = plan.deployment();
    deployment.validate().unwrap();
    for instance in &deployment.instances {
        let longest = planner.workload().models[instance.model].longest_tokens();
        assert!(instance.cache_tokens.is_none_or(|tokens| tokens as f64 >= longest.floor()));
    }
    // Clocks exist on the devices and save power.
    for (set, clock) in plan.clocks.iter().enumerate() {
        let device = &planner.cluster().pools()[plan.layout.sets[set].pool].device;
        assert!((device.min_clock()..=device.max_clock()).contains(clock), "{name}: {clock}");
    }
    assert!(plan.at_planned_clocks.power_w <= plan.at_highest_clocks.power_w * 1.001, "{name}");
    // The attainment is the wanted one, or what the placement reaches at the highest clocks.
    let wanted = plan.wanted_attainment.min(plan.at_highest_clocks.attainment);
    assert!(plan.at_planned_clocks.attainment >= wanted, "{name}");
    assert!(plan.reasons().len() >= plan.copies.len(), "{name}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn every_plan_places_or_reports_every_model_within_memory(
        architectures in prop::collection::vec(0_usize..15, 1..6),
        rates in prop::collection::vec(0.05..4.0_f64, 6),
        devices in 1_usize..7,
        seed in 0_u64..1000,
    ) {
        let zoo = Model::zoo();
        let mut text = MODELS_EXAMPLE.split("[[models]]").next().unwrap().to_owned();
        for (place, architecture) in architectures.iter().enumerate() {
            let (name, rate) = (&zoo[*architecture].name, rates[place]);
            text += &format!(
                "[[models]]\nname = \"m{place}\"\narchitecture = \"{name}\"\nrate = {rate}\n"
            );
        }
        let devices = format!("[[devices]]\ntype = \"v100\"\ncount = {devices}");
        let planner = planner(&devices, &text, quick());
        for method in Method::ALL {
            check_plan(&planner, &plan(&planner, method, seed));
        }
    }
}

#[test]
fn the_example_files_have_a_plan_on_two_types_of_devices() {
    let planner = planner(CLUSTER_EXAMPLE, MODELS_EXAMPLE, quick());
    let aware = plan(&planner, Method::MuServe, 1);
    check_plan(&planner, &aware);
    assert!(aware.unplaced.is_empty());
    let alpaserve = plan(&planner, Method::AlpaServe, 1);
    check_plan(&planner, &alpaserve);
    // Both start from the same search: the power-aware plan never needs more for the same attainment.
    let power = |plan: &Plan| plan.at_planned_clocks.power_w;
    assert!(power(&aware) <= power(&alpaserve) * 1.02, "{} {}", power(&aware), power(&alpaserve));
    let wanted = aware.wanted_attainment.min(alpaserve.at_highest_clocks.attainment);
    assert!(aware.at_planned_clocks.attainment >= wanted - 0.005);
}

#[test]
fn the_same_seed_gives_the_same_plan() {
    let planner = planner(CLUSTER_EXAMPLE, MODELS_EXAMPLE, quick());
    for method in Method::ALL {
        assert_eq!(plan(&planner, method, 5), plan(&planner, method, 5), "{}", method.name());
    }
}

#[test]
fn a_model_larger_than_a_device_is_divided() {
    let models = format!(
        "{}[[models]]\nname = \"large\"\narchitecture = \"opt-2.7b\"\nrate = 0.2\nprompt_tokens = 4000\n",
        MODELS_EXAMPLE.split("[[models]]").next().unwrap()
    );
    let planner = planner("[[devices]]\ntype = \"v100\"\ncount = 4", &models, quick());
    let found = plan(&planner, Method::AlpaServe, 1);
    check_plan(&planner, &found);
    assert!(found.copies.iter().all(|copy| devices_of(&found, copy) > 1), "{found:#?}");
}

fn devices_of(plan: &Plan, copy: &homeostat_placement::PlannedCopy) -> usize {
    plan.shape(copy).devices()
}

#[test]
fn a_model_larger_than_the_cluster_is_refused_with_its_size() {
    let models = format!(
        "{}[[models]]\nname = \"large\"\narchitecture = \"bloom-3b\"\nrate = 0.2\nprompt_tokens = 90000\n",
        MODELS_EXAMPLE.split("[[models]]").next().unwrap()
    );
    let cluster = Cluster::read("[[devices]]\ntype = \"t4\"\ncount = 2").unwrap();
    let workload = Workload::read(&models, &cluster, None).unwrap();
    let refused = Planner::new(cluster, workload, None, quick()).err().unwrap().to_string();
    assert!(refused.contains("`large` needs"), "{refused}");
    assert!(refused.contains("32.0 GiB"), "{refused}");
}
