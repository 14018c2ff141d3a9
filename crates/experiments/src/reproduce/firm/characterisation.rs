//! The three insights of section 2.2: critical paths move with contention (Table 2.1, figure 2.2), the longest
//! service is not the culprit (figure 2.3), and the better repair depends on load and resource (figure 2.4).

use std::collections::BTreeMap;

use homeostat_anomalies::{AnomalyKind, Campaign, RandomAnomalies};
use homeostat_core::{Fraction, SeedTree, SimDuration};
use homeostat_decide::{
    ContainerBounds, ContainerLimits, ContainerObservation, ContainerProposal, ContainerScaling,
    Guards, GuardsConfig, Plant, PreparedProposal, Propose, decide,
};
use homeostat_firm::{PathComponent, path_components, quantile};
use homeostat_lab::Result;
use homeostat_load::LoadShape;
use homeostat_report::{Cell, Finding, Spread, Table};
use homeostat_sim_mesh::{Mesh, MeshPlan, MeshPlant, Topology};
use homeostat_spans::{AnalysisOptions, OperationId, SpanStore, for_each_request};
use rayon::prelude::*;
use serde_json::json;

use super::traced_windows::store_of_answered;
use super::{FirmOptions, plan_of, refused};

/// The requests of figure 2.1, and three services that they call in parallel: V, U and T of the paper.
const REQUEST: &str = "compose-post";
const CONTENDED: [&str; 3] = ["media-service", "user-service", "text-service"];

/// Services of figure 2.3: the longest, and the one that varies most.
const SCALED: [&str; 2] = ["compose-post-service", "text-service"];

pub(super) fn characterisation(
    options: &FirmOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let seconds = if options.is_quick { 15.0 } else { 60.0 };
    let mut finding = Finding::default();
    progress("critical paths under contention");
    finding.tables.push(moving_paths(options, seconds)?);
    progress("shortest and longest critical paths");
    finding.tables.push(path_lengths(options, seconds, &mut finding.facts)?);
    progress("scaling the longest and the most variable service");
    finding.tables.push(scaled_services(options, seconds, &mut finding.facts)?);
    progress("scaling up and out at several loads");
    finding.tables.push(up_or_out(options, seconds)?);
    finding.notes = vec![
        "Costs of calls are this project's, not those of the measured applications: orders and directions compare with the \
         paper, milliseconds do not."
            .to_owned(),
    ];
    Ok(finding)
}

/// A recording cluster of a seed.
fn mesh_of(plan: &MeshPlan, seed: u64) -> Result<Mesh> {
    let mut setup = plan.setup();
    setup.record_every = 1;
    let seeds = SeedTree::new(seed).child("firm/characterisation");
    Mesh::new(setup, &seeds).map_err(refused)
}

fn service(plan: &MeshPlan, name: &str) -> usize {
    plan.topology().service(name).expect("the topology has it")
}

/// Injects an anomaly for the rest of a run.
fn inject(mesh: &mut Mesh, kind: AnomalyKind, service: usize, intensity: f64) -> Result<()> {
    let replica = mesh.ready_replicas(service)[0];
    let length = SimDuration::from_secs(3600);
    mesh.inject(kind, replica, intensity, length).map(drop).map_err(refused)
}

/// The components of one type of requests over so many seconds.
fn components(
    mesh: &mut Mesh,
    plan: &MeshPlan,
    request: usize,
    seconds: f64,
) -> Vec<PathComponent> {
    mesh.take_spans();
    mesh.run_for(seconds);
    let spans = mesh.take_spans();
    let (mut store, _) = store_of_answered(mesh, spans);
    let (mut components, _) = path_components(&mut store, 1);
    let entry = plan.topology().entry(request);
    components.retain(|one| (one.root.0.as_str(), one.root.1.as_str()) == entry);
    components
}

fn request_of(plan: &MeshPlan, name: &str) -> usize {
    let found = plan.topology().request_types().position(|known| known == name);
    found.expect("the topology has it")
}

/// Table 2.1: the instance with most of the path's time, with contention in one service after the other.
fn moving_paths(options: &FirmOptions, seconds: f64) -> Result<Table> {
    let plan = plan_of("social-network")?;
    let request = request_of(&plan, REQUEST);
    let columns =
        ["contention in", "longest on the path", "its median ms", "end to end ms", "paper ms"];
    let mut table =
        Table::new("compose-post of Social Network: critical paths move (Table 2.1)", &columns);
    let cases: [Option<&str>; 4] =
        [None, Some(CONTENDED[0]), Some(CONTENDED[1]), Some(CONTENDED[2])];
    for (case, paper) in cases.into_iter().zip([None, Some(614.0), Some(580.0), Some(507.0)]) {
        let played: Vec<(String, f64, f64)> = options
            .seeds
            .par_iter()
            .map(|seed| {
                let mut mesh = mesh_of(&plan, *seed)?;
                if let Some(name) = case {
                    inject(&mut mesh, AnomalyKind::Cpu, service(&plan, name), 1.0)?;
                }
                mesh.run_for(5.0);
                mesh.close_request_windows();
                let parts = components(&mut mesh, &plan, request, seconds);
                let median = |one: &PathComponent| one.median_ms * one.requests as f64;
                let longest = parts.iter().max_by(|a, b| median(a).total_cmp(&median(b)));
                let longest = longest.expect("a request has a path");
                let mut window = mesh.close_request_windows().swap_remove(request);
                let total = window.latency.quantile(Fraction::from_percent(50));
                let total_ms = total.map_or(f64::NAN, |total| total.seconds() * 1e3);
                Ok((longest.instance.clone(), longest.median_ms, total_ms))
            })
            .collect::<Result<_>>()?;
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        played.iter().for_each(|one| *names.entry(one.0.as_str()).or_default() += 1);
        let names: Vec<String> = names
            .into_iter()
            .map(|(name, count)| format!("{name} ({count} of {})", played.len()))
            .collect();
        let over = |of: fn(&(String, f64, f64)) -> f64| {
            Spread::of(&played.iter().map(of).collect::<Vec<_>>())
        };
        table.push(vec![
            case.unwrap_or("nothing").into(),
            names.join(", ").into(),
            over(|one| one.1).into(),
            over(|one| one.2).into(),
            paper.map_or(Cell::Nothing, Cell::from),
        ]);
    }
    Ok(table)
}

/// Figure 2.2: requests of one type whose critical paths run through other services, while anomalies come and go.
fn path_lengths(
    options: &FirmOptions,
    seconds: f64,
    facts: &mut serde_json::Map<String, serde_json::Value>,
) -> Result<Table> {
    let columns = [
        "application",
        "paths of a type",
        "median ratio",
        "p99 ratio",
        "paper's median",
        "paper's p99",
    ];
    let mut table = Table::new(
        "longest over shortest critical path of one type of requests, mean over types (figure 2.2)",
        &columns,
    );
    let mut figures = json!({});
    for name in Topology::names() {
        let plan = plan_of(name)?;
        let ratios: Vec<[f64; 3]> = options
            .seeds
            .par_iter()
            .map(|seed| {
                let seeds = SeedTree::new(*seed).child("firm/characterisation").child(name);
                let campaign =
                    Campaign::random(RandomAnomalies::new(0.33, 5.0)).map_err(refused)?;
                let injections =
                    campaign.injections(&plan.service_names(), &seeds).map_err(refused)?;
                let plant = MeshPlant::new(&plan, &seeds).map_err(refused)?;
                let mut plant = plant.with_injections(injections);
                plant.mesh_mut().record_every(1);
                while plant.mesh().now().seconds() < 2.0 * seconds {
                    plant.advance()?;
                }
                let spans = plant.mesh_mut().take_spans();
                Ok(path_ratios(&mut store_of_answered(plant.mesh(), spans).0))
            })
            .collect::<Result<_>>()?;
        let over =
            |place: usize| Spread::of(&ratios.iter().map(|ratio| ratio[place]).collect::<Vec<_>>());
        table.push(vec![
            name.into(),
            over(0).into(),
            over(1).into(),
            over(2).into(),
            "up to 1.6".into(),
            "up to 2.5".into(),
        ]);
        figures[name] = json!({ "median": over(1), "p99": over(2) });
    }
    facts.insert("path_ratio".to_owned(), figures);
    Ok(table)
}

/// Paths of a type of requests with at least this many requests are compared: fewer have no p99.
const MIN_REQUESTS: usize = 50;

/// Number of paths, and the largest over the smallest median and p99 among them: means over types of requests
/// with at least two.
fn path_ratios(store: &mut SpanStore) -> [f64; 3] {
    let mut by_type: BTreeMap<OperationId, BTreeMap<Vec<OperationId>, Vec<f64>>> = BTreeMap::new();
    for_each_request(store, &AnalysisOptions::default(), |request| {
        let nodes = request.graph.nodes();
        let path = request.steps.iter().map(|step| nodes[step.node].operation).collect();
        let root = &nodes[request.root];
        let paths = by_type.entry(root.operation).or_default();
        paths.entry(path).or_default().push((root.end_ns - root.start_ns) as f64);
    });
    let (mut sums, mut types) = ([0.0; 3], 0.0);
    for paths in by_type.values() {
        let frequent: Vec<&Vec<f64>> =
            paths.values().filter(|latencies| latencies.len() >= MIN_REQUESTS).collect();
        if frequent.len() < 2 {
            continue;
        }
        let ratio = |part: f64| {
            let of = frequent.iter().filter_map(|latencies| quantile(latencies, part));
            let (least, most) = of.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), one| {
                (least.min(one), most.max(one))
            });
            most / least
        };
        let found = [frequent.len() as f64, ratio(0.5), ratio(0.99)];
        sums.iter_mut().zip(found).for_each(|(sum, one)| *sum += one);
        types += 1.0;
    }
    if types == 0.0 {
        // Every type has one path.
        return [1.0; 3];
    }
    sums.map(|sum| sum / types)
}

/// Figure 2.3: a second replica for the longest service, or for the one that varies most.
fn scaled_services(
    options: &FirmOptions,
    seconds: f64,
    facts: &mut serde_json::Map<String, serde_json::Value>,
) -> Result<Table> {
    let plan = plan_of("social-network")?;
    let request = request_of(&plan, REQUEST);
    let columns =
        ["scaled", "its median ms", "its p99 / median", "end to end p50 ms", "end to end p99 ms"];
    let mut table =
        Table::new("a second replica while the text service is contended (figure 2.3)", &columns);
    let mut figures = json!({});
    for scaled in [None, Some(SCALED[0]), Some(SCALED[1])] {
        let played: Vec<[f64; 4]> = options
            .seeds
            .par_iter()
            .map(|seed| {
                let mut mesh = mesh_of(&plan, *seed)?;
                inject(&mut mesh, AnomalyKind::Cpu, service(&plan, SCALED[1]), 0.5)?;
                if let Some(name) = scaled {
                    let service = service(&plan, name);
                    let now = ContainerLimits {
                        replicas: mesh.replicas_of(service),
                        limits: mesh.limits_of(service),
                    };
                    give(&mut mesh, service, ContainerLimits { replicas: 2, ..now })?;
                }
                // A cold start takes two seconds.
                mesh.run_for(5.0);
                mesh.close_request_windows();
                let parts = components(&mut mesh, &plan, request, seconds);
                let name = scaled.unwrap_or(SCALED[1]);
                let of = parts.iter().find(|one| one.instance == format!("{name}-0"));
                let mut window = mesh.close_request_windows().swap_remove(request);
                let mut ms = |percent| {
                    let latency = window.latency.quantile(Fraction::from_percent(percent));
                    latency.map_or(f64::NAN, |latency| latency.seconds() * 1e3)
                };
                Ok([
                    of.map_or(f64::NAN, |one| one.median_ms),
                    of.map_or(f64::NAN, |one| one.congestion_intensity),
                    ms(50),
                    ms(99),
                ])
            })
            .collect::<Result<_>>()?;
        let over =
            |place: usize| Spread::of(&played.iter().map(|one| one[place]).collect::<Vec<_>>());
        let name = scaled.unwrap_or("nothing");
        let mut row: Vec<Cell> = vec![name.into()];
        row.extend((0..4).map(|place| Cell::from(over(place))));
        table.push(row);
        figures[name] = json!({ "p50_ms": over(2), "p99_ms": over(3) });
    }
    facts.insert("scaled".to_owned(), figures);
    Ok(table)
}

/// Figure 2.4: the limit of the contended resource doubled, or a second replica.
fn up_or_out(options: &FirmOptions, seconds: f64) -> Result<Table> {
    let columns = [
        "application",
        "contended",
        "requests/s",
        "nothing ms",
        "scaled up ms",
        "scaled out ms",
        "better",
    ];
    let mut table = Table::new("median latency after scaling up or out (figure 2.4)", &columns);
    let cases = [("social-network", "text-service"), ("train-ticket", "ts-basic-service")];
    let loads: &[f64] =
        if options.is_quick { &[100.0, 400.0] } else { &[100.0, 200.0, 400.0, 800.0] };
    for (topology, name) in cases {
        for (kind, resource) in [(AnomalyKind::Cpu, 0), (AnomalyKind::MemoryBandwidth, 1)] {
            for load in loads {
                // Limits are those of the default load, whatever the load is.
                let plan = plan_of(topology)?;
                let place = service(&plan, name);
                let request = plan.topology().needs(place).next().expect("a request needs it");
                let play = |seed: u64, action: usize| -> Result<f64> {
                    let mut setup = plan.setup();
                    let per_second = load / setup.loads.len() as f64;
                    setup.loads.fill(LoadShape::Poisson { per_second });
                    let seeds = SeedTree::new(seed).child("firm/characterisation");
                    let mut mesh = Mesh::new(setup, &seeds).map_err(refused)?;
                    inject(&mut mesh, kind, place, 0.5)?;
                    let mut wanted = ContainerLimits { replicas: 1, limits: mesh.limits_of(place) };
                    match action {
                        1 => wanted.limits[resource] *= 2,
                        2 => wanted.replicas = 2,
                        _ => {}
                    }
                    give(&mut mesh, place, wanted)?;
                    mesh.run_for(5.0);
                    mesh.close_request_windows();
                    mesh.run_for(seconds / 2.0);
                    let window = &mut mesh.close_request_windows()[request];
                    let median = window.latency.quantile(Fraction::from_percent(50));
                    Ok(median.map_or(f64::NAN, |median| median.seconds() * 1e3))
                };
                let mut by_action = Vec::new();
                for action in 0..3 {
                    let runs = options.seeds.par_iter().map(|seed| play(*seed, action));
                    by_action.push(runs.collect::<Result<Vec<f64>>>()?);
                }
                let difference: Vec<f64> =
                    by_action[1].iter().zip(&by_action[2]).map(|(up, out)| up - out).collect();
                let difference = Spread::of(&difference);
                let is_clear = difference.interval.is_some_and(|half| difference.mean.abs() > half);
                let better = match (is_clear, difference.mean < 0.0) {
                    (false, _) => "no clear difference",
                    (true, true) => "up",
                    (true, false) => "out",
                };
                let mut row: Vec<Cell> = vec![topology.into(), kind.name().into(), (*load).into()];
                row.extend(by_action.iter().map(|runs| Cell::from(Spread::of(runs))));
                row.push(better.into());
                table.push(row);
            }
        }
    }
    Ok(table)
}

/// Gives a service this setting, by a decision within bounds that allow nearly everything.
fn give(mesh: &mut Mesh, service: usize, wanted: ContainerLimits) -> Result<()> {
    let low = ContainerLimits { replicas: 1, limits: [1; 5] };
    let high = ContainerLimits { replicas: 1000, limits: [u64::MAX >> 1; 5] };
    let bounds = ContainerBounds::try_new(low, high)?;
    let config = GuardsConfig::<ContainerScaling>::bounds_only(bounds);
    let setting =
        ContainerLimits { replicas: mesh.replicas_of(service), limits: mesh.limits_of(service) };
    let obs = ContainerObservation::new(mesh.now(), SimDuration::from_secs(1), setting);
    let mut proposed = PreparedProposal::new(ContainerProposal::keep(&wanted));
    mesh.apply(service, &decide(&mut proposed, &mut Guards::try_new(config)?, &obs));
    Ok(())
}
