//! FLASH-SmartOverclock: core frequencies of applications and on processors that the agent was not trained on (Figure
//! 5.15, section A.4).

use homeostat_core::SeedTree;
use homeostat_env::{SettingsTable, Simulator};
use homeostat_flash::{BufferConfig, MetaLearnerConfig, Pair, PairEnvironment};
use homeostat_lab::Result;
use homeostat_load::applications::{ApplicationPool, Part};
use homeostat_report::Finding;
use homeostat_rl::{AlgorithmConfig, DqnConfig, PpoConfig, presets};
use homeostat_sim_node::{NodeConfig, PROCESSORS, SIMULATOR};

use super::FlashOptions;
use super::adaptation::{AdaptationTask, Paper, Sizes, find_out};

const ENVIRONMENT: &str = "cpufreq/frequency-v1";

const PAPER: Paper =
    Paper { plain: 39.0, flash: 7.1, episodes: [f64::NAN, f64::NAN], speedup: 9.2 };

/// The applications and the processors that they run on. Runs differ in their pools and tests, not in these.
const PAIRS_SEED: u64 = 1;

pub(super) fn smart_overclock(
    options: &FlashOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let task = task(options.is_quick)?;
    let mut finding = find_out(&task, options, &PAPER, progress)?;
    finding.notes.push(
        "Deviation: the reward is the preservation ratio of the SLO less half of the extra power. The printed one has no \
         term for power; there, lowering the frequency in order to raise it again pays."
            .to_owned(),
    );
    Ok(finding)
}

fn task(is_quick: bool) -> Result<AdaptationTask> {
    let pairs = pairs()?;
    let spec = pairs[0].make()?.spec().clone();
    // Table A.5 with what its 50 000 steps before the first update and its learning rate allow in runs of this length.
    let dqn = DqnConfig {
        learning_rate: 5e-4,
        learning_starts: 400,
        replay_capacity: 20_000,
        target_update_every: 200,
        epsilon_decay_steps: 2_400,
        ..presets::smart_overclock()
    };
    // An agent that already knows something explores less.
    let fine_tuning = DqnConfig { epsilon_start: 0.2, epsilon_decay_steps: 800, ..dqn.clone() };
    let flash = MetaLearnerConfig::flash();
    let sizes = Sizes {
        pool: 200,
        visits: 400,
        pairs_per_visit: 4,
        episodes_per_visit: 2,
        rounds: 60,
        adaptation_rounds: 25,
        tests: 3,
        others: 5,
        exposure: 1,
        judged: 6,
    };
    let quick = Sizes {
        pool: 40,
        visits: 50,
        rounds: 15,
        adaptation_rounds: 5,
        tests: 1,
        others: 2,
        ..sizes
    };
    Ok(AdaptationTask {
        spec,
        pairs,
        algorithm: AlgorithmConfig::Dqn(dqn),
        recurrent: PpoConfig {
            hidden: vec![32],
            actor_learning_rate: 1e-3,
            critic_learning_rate: 1e-3,
            ..PpoConfig::default()
        },
        fine_tuning: AlgorithmConfig::Dqn(fine_tuning),
        meta: MetaLearnerConfig {
            input: 64,
            hidden: 64,
            buffer: BufferConfig { warm_up: 0, ..flash.buffer },
            ..flash
        },
        memory: 64,
        sizes: if is_quick { quick } else { sizes },
    })
}

/// A thousand applications, each on one of the processors and with a load of its own.
fn pairs() -> Result<Vec<PairEnvironment>> {
    let mut rng = SeedTree::new(PAIRS_SEED).stream("flash/smart-overclock");
    let pool = ApplicationPool::generate(PAIRS_SEED);
    let applications = [Part::Train, Part::Test].map(|part| pool.part(part));
    let mut pairs = Vec::with_capacity(ApplicationPool::SIZE);
    for application in applications.into_iter().flatten() {
        let processor = rng.below(PROCESSORS.len());
        let config = NodeConfig {
            processor: PROCESSORS[processor].name.to_owned(),
            application: application.name().to_owned(),
            demand: (rng.range(0.2, 1.1) * 100.0).round() / 100.0,
            ..NodeConfig::default()
        };
        pairs.push(pair(&config)?);
    }
    Ok(pairs)
}

/// What is true of it: speeds at the ends of the range of frequencies, the load, and the SLO.
fn pair(config: &NodeConfig) -> Result<PairEnvironment> {
    let plan = config.build().map_err(homeostat_env::Error::from)?;
    let processor = plan.processor();
    let speed =
        |khz: homeostat_decide::Kilohertz| plan.workload().speed(processor, khz.gigahertz()) as f32;
    let mean_cpu = plan.workload().application.mean_cpu().seconds();
    let parameters = vec![
        speed(processor.base) - 1.0,
        speed(processor.max) - 1.0,
        config.demand as f32,
        plan.workload().memory_part as f32,
        (plan.slo().seconds() / mean_cpu).ln() as f32,
        processor.base.gigahertz() as f32 - 2.5,
    ];
    let name = Pair::new(config.application.clone(), config.processor.clone());
    let (processor, application, demand) =
        (config.processor.clone(), config.application.clone(), config.demand);
    Ok(PairEnvironment::new(name, parameters, move || {
        let mut settings: SettingsTable =
            SIMULATOR.default_toml().parse().expect("a test reads the reference");
        let section = settings.get_mut("cpufreq").and_then(|section| section.as_table_mut());
        let section = section.expect("the reference starts with it");
        section.insert("processor".to_owned(), processor.clone().into());
        section.insert("application".to_owned(), application.clone().into());
        section.insert("demand".to_owned(), demand.into());
        SIMULATOR.configure(section)?.make(ENVIRONMENT, 0)
    }))
}
