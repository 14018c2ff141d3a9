//! The platform against the published table of one function: containers and request rate
//! against latency and utilisation.
//!
//! The table turns out to be computed, not measured: every stable row is
//! `1 / (m - rate/containers)` with `m = min(1.5, 12/containers)`: one M/M/1 queue for each
//! container, whose speed falls with the number of containers beyond eight even while they
//! idle. Built that way, a function with a queue of its own for each container and a hard
//! quota, the platform meets the table. As it really is, with one queue in front of all
//! containers and shares that go to the containers that can use them, it is faster than the table, and the
//! more so the more containers there are.

use homeostat_core::{Bytes, Fraction, Millicores, SeedTree, SimDuration, Slo};
use homeostat_decide::Allocation;
use homeostat_load::{Arrivals, LoadShape};
use homeostat_sim_faas::{
    Contention, FunctionProfile, FunctionSetup, Platform, PlatformConfig, Scaling, Source, by_name,
};

struct Row {
    containers: u32,
    rate: f64,
    latency: f64,
    utilisation: f64,
}

fn rows() -> Option<Vec<Row>> {
    let path = crate::sample::sample("aware_tabular", "tabular_data_single_rl.csv")?;
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().skip(1).map(|line| {
        let fields: Vec<f64> = line.split(',').map(|field| field.parse().unwrap()).collect();
        Row {
            containers: fields[4] as u32,
            rate: fields[5],
            latency: fields[6],
            utilisation: fields[0],
        }
    });
    // Rows without requests say nothing of a queue, and full or overloaded ones have no steady
    // state.
    let is_stable = |row: &Row| {
        let speed = (12.0 / f64::from(row.containers)).min(1.5);
        row.containers > 0 && row.rate > 0.0 && row.rate < speed * f64::from(row.containers)
    };
    Some(rows.filter(is_stable).collect())
}

/// How containers are fed.
#[derive(Clone, Copy)]
enum Feeding {
    /// As the table has it: a queue for each, and an equal part of the cores at most.
    OneQueueEach,
    /// As the platform has it.
    OneQueueForAll,
}

/// Mean latency in seconds, and CPU used over CPU given.
fn play(row: &Row, feeding: Feeding) -> (f64, f64) {
    const CORES: f64 = 8.0;
    let (functions, containers, parallelism) = match feeding {
        Feeding::OneQueueForAll => (1, row.containers, 1.0),
        Feeding::OneQueueEach => (row.containers, 1, (CORES / f64::from(row.containers)).min(1.0)),
    };
    let profile = FunctionProfile {
        cpu: SimDuration::from_nanos(2_000_000_000 / 3),
        payload_share: Fraction::ONE,
        // As variable as an exponential service time.
        payload_sigma: 2f64.ln().sqrt(),
        parallelism,
        ..by_name("primes").unwrap()
    };
    let seeds = SeedTree::new(u64::from(row.containers) * 100 + row.rate as u64);
    let shape = LoadShape::Poisson { per_second: row.rate / f64::from(functions) };
    let config = PlatformConfig {
        timeout: SimDuration::from_secs(36_000),
        contention: Contention::IDEAL,
        ..PlatformConfig::uniform(1, CORES, Bytes::from_mib(64 * 1024))
    };
    let mut platform = Platform::new(config, &seeds).unwrap();
    for number in 0..functions {
        let arrivals = Arrivals::new(&shape, seeds.stream(&format!("arrivals/{number}"))).unwrap();
        platform
            .add_function(FunctionSetup {
                profile: profile.clone(),
                slo: Slo::try_new(Fraction::from_percent(99), SimDuration::from_secs(9)).unwrap(),
                isolated_latency: SimDuration::from_secs(9),
                allocation: Allocation {
                    replicas: containers,
                    cpu: Millicores::new(1000),
                    memory: Bytes::from_mib(256),
                },
                scaling: Scaling::Managed,
                arrivals: Some(Source::Shape(arrivals)),
            })
            .unwrap();
    }
    platform.run_for(SimDuration::from_secs(15_000));
    let ids: Vec<_> = platform.functions().collect();
    let (mut latency, mut answered, mut used, mut given) = (0.0, 0.0, 0.0, 0.0);
    for id in ids {
        let totals = platform.totals(id);
        let count = totals.completed as f64;
        latency += totals.latency.mean().unwrap().seconds() * count;
        answered += count;
        used += totals.cpu_s;
        given += totals.container_s;
    }
    (latency / answered, used / given)
}

fn correlation(pairs: &[(f64, f64)]) -> f64 {
    let n = pairs.len() as f64;
    let (x, y) = (
        pairs.iter().map(|pair| pair.0).sum::<f64>() / n,
        pairs.iter().map(|pair| pair.1).sum::<f64>() / n,
    );
    let sum = |product: &dyn Fn(f64, f64) -> f64| {
        pairs.iter().map(|pair| product(pair.0 - x, pair.1 - y)).sum::<f64>()
    };
    sum(&|a, b| a * b) / (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt()
}

/// How well two columns agree: correlation of the logarithms, and the factor that they are
/// apart on average.
fn agreement(pairs: &[(f64, f64)]) -> (f64, f64) {
    let logs: Vec<_> = pairs.iter().map(|(table, ours)| (table.ln(), ours.ln())).collect();
    let apart = logs.iter().map(|(table, ours)| (table - ours).abs()).sum::<f64>();
    (correlation(&logs), (apart / logs.len() as f64).exp())
}

/// Latency and utilisation of every row, the table's and ours.
fn columns(rows: &[Row], feeding: Feeding) -> [Vec<(f64, f64)>; 2] {
    let played = rows.iter().map(|row| {
        let (latency, used) = play(row, feeding);
        ((row.latency, latency), (row.utilisation, used))
    });
    let (latency, utilisation) = played.unzip();
    [latency, utilisation]
}

#[test]
fn built_as_the_published_table_assumes_the_platform_meets_it() {
    let Some(rows) = rows() else { return };
    let [latency, utilisation] =
        columns(&rows, Feeding::OneQueueEach).map(|pairs| agreement(&pairs));
    println!("a queue for each container: latency {latency:?}, utilisation {utilisation:?}");
    // 0.9998 and 1.01, 0.9998 and 1.01 when this was written.
    assert!(latency.0 > 0.99 && latency.1 < 1.05, "latency {latency:?}");
    assert!(utilisation.0 > 0.999 && utilisation.1 < 1.02, "utilisation {utilisation:?}");
}

#[test]
fn as_it_is_the_platform_uses_as_much_cpu_and_answers_sooner() {
    let Some(rows) = rows() else { return };
    let columns = columns(&rows, Feeding::OneQueueForAll);
    let [latency, utilisation] = [agreement(&columns[0]), agreement(&columns[1])];
    println!("one queue for all: latency {latency:?}, utilisation {utilisation:?}");
    assert!(utilisation.0 > 0.999 && utilisation.1 < 1.02, "utilisation {utilisation:?}");
    assert!(latency.0 > 0.4, "latency {latency:?}");
    let several = columns[0].iter().zip(&rows).filter(|(_, row)| row.containers > 1);
    for ((table, ours), _) in several {
        assert!(*ours < 1.05 * table, "{ours} against {table}");
    }
}
