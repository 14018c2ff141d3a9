//! FLASH-Aurora: a sender that sets its rate on network paths it was not trained on (section A.6).

use homeostat_env::{SettingsTable, Simulator};
use homeostat_flash::{BufferConfig, MetaLearnerConfig, Pair, PairEnvironment};
use homeostat_lab::Result;
use homeostat_report::Finding;
use homeostat_rl::{AlgorithmConfig, PpoConfig, presets};
use homeostat_sim_link::{CONDITIONS, SIMULATOR};

use super::FlashOptions;
use super::adaptation::{AdaptationTask, Paper, Sizes, find_out};

const ENVIRONMENT: &str = "link/rate-v1";

const PAPER: Paper = Paper { plain: 28.0, flash: 5.6, episodes: [112.0, 46.7], speedup: 2.4 };

pub(super) fn aurora(options: &FlashOptions, progress: &(dyn Fn(&str) + Sync)) -> Result<Finding> {
    let task = task(options.is_quick)?;
    find_out(&task, options, &PAPER, progress)
}

fn task(is_quick: bool) -> Result<AdaptationTask> {
    let pairs: Vec<PairEnvironment> = (0..CONDITIONS).map(pair).collect();
    let spec = pairs[0].make()?.spec().clone();
    // Table A.7, with visits of 400 steps instead of 2048 and a learning rate that suits their number.
    let ppo =
        PpoConfig { actor_learning_rate: 1e-3, critic_learning_rate: 1e-3, ..presets::aurora() };
    let flash = MetaLearnerConfig::flash();
    let sizes = Sizes {
        pool: 200,
        visits: 400,
        pairs_per_visit: 4,
        episodes_per_visit: 2,
        rounds: 100,
        adaptation_rounds: 25,
        tests: 2,
        others: 4,
        exposure: 1,
        judged: 4,
    };
    let quick = Sizes {
        pool: 40,
        visits: 60,
        rounds: 10,
        adaptation_rounds: 5,
        tests: 1,
        others: 2,
        ..sizes
    };
    Ok(AdaptationTask {
        spec,
        pairs,
        algorithm: AlgorithmConfig::Ppo(ppo.clone()),
        recurrent: ppo.clone(),
        fine_tuning: AlgorithmConfig::Ppo(ppo),
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

/// Steps of an episode.
const STEPS: i64 = 100;

/// One of the numbered conditions. What is true of it: which fifth of the range each of its parameters has.
fn pair(number: u32) -> PairEnvironment {
    let digit = |place: u32| (number / 5u32.pow(place) % 5) as f32 / 2.0 - 1.0;
    let name = Pair::new(format!("condition {number}"), "link");
    PairEnvironment::new(name, (0..4).map(digit).collect(), move || {
        let mut settings: SettingsTable =
            SIMULATOR.default_toml().parse().expect("a test reads the reference");
        let section = settings.get_mut("link").and_then(|section| section.as_table_mut());
        let section = section.expect("the reference starts with it");
        section.insert("paths".to_owned(), "numbered".into());
        section.insert("condition".to_owned(), i64::from(number).into());
        section.insert("steps".to_owned(), STEPS.into());
        SIMULATOR.configure(section)?.make(ENVIRONMENT, 0)
    })
}
