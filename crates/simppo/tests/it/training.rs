//! Teams on the serverless platform: every method trains, repeats itself, goes on from a saved
//! state bit for bit, and copes with functions that come and go.

use std::sync::OnceLock;

use homeostat_core::{Array, Snapshot};
use homeostat_env::MultiAgentEnv;
use homeostat_nn::Kernel;
use homeostat_rl::PpoConfig;
use homeostat_sim_faas::{FaasConfig, FaasPlan, make_multi_agent};
use homeostat_simppo::{
    Error, Finished, Learners, Method, ParameterSharing, Preset, Result, TaskType, TeamConfig,
    Training,
};

const FUNCTIONS: usize = 4;
const STEPS: u32 = 6;

/// A small platform; functions come and go if `churns`.
fn plan(churns: bool) -> &'static FaasPlan {
    static PLANS: [OnceLock<FaasPlan>; 2] = [const { OnceLock::new() }; 2];
    PLANS[usize::from(churns)].get_or_init(|| {
        let config = FaasConfig {
            functions: FUNCTIONS,
            steps: STEPS,
            churn: if churns { 0.5 } else { 0.0 },
            ..FaasConfig::default()
        };
        config.build().unwrap()
    })
}

/// A method on a platform.
#[derive(Debug, Clone)]
struct Case {
    name: String,
    method: Method,
    ppo: PpoConfig,
    env: &'static str,
    churns: bool,
}

impl Case {
    fn of(preset: Preset) -> Self {
        // Small enough for a test, and an update does not end with an episode.
        let ppo = PpoConfig { steps_per_update: 4, hidden: vec![8], ..preset.ppo };
        let Preset { name, method, env, .. } = preset;
        Self { name: name.to_owned(), method, ppo, env, churns: false }
    }

    /// Every preset on an orderly platform; every way of sharing where functions come and go.
    fn all() -> Vec<Self> {
        let mut cases: Vec<_> = Preset::all().into_iter().map(Self::of).collect();
        for sharing in [
            ParameterSharing::None,
            ParameterSharing::Base,
            ParameterSharing::Kind,
            ParameterSharing::All,
        ] {
            for name in ["simppo", "simppo+", "cpq-rl"] {
                let mut case = Self::of(Preset::by_name(name).unwrap());
                case.name = format!("{name} with churn, shared {sharing:?}");
                case.method = Method { parameter_sharing: sharing, num_envs: 1, ..case.method };
                case.churns = true;
                cases.push(case);
            }
        }
        cases
    }

    fn try_begin(&self) -> Result<Training> {
        let plan = plan(self.churns);
        // Kinds are tested elsewhere: here all of them appear.
        let task_types = TaskType::ALL.into_iter().cycle().take(plan.functions().count()).collect();
        let config = TeamConfig {
            learners: Learners::Coordinated { method: self.method.clone(), ppo: self.ppo.clone() },
            task_types,
            kernel: Kernel::best(),
            seed: 7,
            total_steps: 1000,
        };
        let make = || -> Result<Box<dyn MultiAgentEnv>> {
            match make_multi_agent(self.env, plan) {
                Some(env) => Ok(env),
                None => Ok(homeostat_env::make_multi_agent(self.env)?),
            }
        };
        Training::new(&config, &make)
    }

    fn begin(&self) -> Training {
        self.try_begin().unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }
}

/// Episodes that ended, and the whole state after so many steps.
fn play(training: &mut Training, steps: usize) -> (Vec<Finished>, Vec<(String, Vec<u8>)>) {
    for _ in 0..steps {
        training.step().unwrap();
    }
    (training.take_finished(), state_of(training))
}

/// To be compared bit by bit: there are numbers that are none in it.
fn state_of(training: &Training) -> Vec<(String, Vec<u8>)> {
    let mut snapshot = Snapshot::default();
    training.save(&mut snapshot);
    let bytes = |array: &Array| match array {
        Array::F32(items) => items.iter().flat_map(|item| item.to_le_bytes()).collect(),
        Array::F64(items) => items.iter().flat_map(|item| item.to_le_bytes()).collect(),
        Array::U64(items) => items.iter().flat_map(|item| item.to_le_bytes()).collect(),
        Array::U8(items) => items.clone(),
    };
    snapshot.iter().map(|(name, array)| (name.to_owned(), bytes(array))).collect()
}

#[test]
fn every_method_learns_and_repeats_itself_on_any_number_of_threads() {
    for case in Case::all() {
        let train = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut training = case.begin();
                let before = training.policies();
                let (finished, state) = play(&mut training, 20);
                (before, finished, state, training)
            })
        };
        let (before, finished, state, training) = train(1);
        let (_, finished_again, state_again, _) = train(2);
        assert_eq!(finished, finished_again, "{}", case.name);
        assert!(state == state_again, "{}: the states differ", case.name);
        let after = training.policies();
        assert!(after.len() >= FUNCTIONS, "{}", case.name);
        assert!(
            before.iter().zip(&after).any(|(a, b)| a.1.to_bytes() != b.1.to_bytes()),
            "{}: nothing was learnt",
            case.name
        );
        assert!(training.agents().all(|agent| training.stopped(agent).is_none()), "{}", case.name);
        let num_envs = case.method.num_envs;
        assert_eq!(training.steps(), 20 * num_envs as u64);
        if !case.churns {
            assert_eq!(finished.len(), 3 * FUNCTIONS * num_envs, "{}", case.name);
            assert!(finished.iter().all(|episode| episode.length == STEPS));
        }
    }
}

#[test]
fn a_saved_team_goes_on_bit_for_bit() {
    for case in Case::all() {
        let mut unbroken = case.begin();
        // Neither an episode nor an update ends here.
        play(&mut unbroken, 11);
        let mut snapshot = Snapshot::default();
        unbroken.save(&mut snapshot);
        let mut restored = case.begin();
        // Whatever was there before is gone.
        play(&mut restored, 5);
        restored.load(&snapshot).unwrap();
        assert!(state_of(&restored) == state_of(&unbroken), "{}: the state differs", case.name);
        let (expect, got) = (play(&mut unbroken, 20), play(&mut restored, 20));
        assert_eq!(expect.0, got.0, "{}", case.name);
        assert!(expect.1 == got.1, "{}: the last states differ", case.name);
    }
}

#[test]
fn an_episode_ends_in_every_copy_of_the_world_also_where_functions_come_and_go() {
    for case in Case::all() {
        let mut training = case.begin();
        for episode in 1..=2 {
            let finished = training.episode().unwrap();
            let steps = episode * u64::from(STEPS) * case.method.num_envs as u64;
            assert_eq!(training.steps(), steps, "{}", case.name);
            let lengths: u32 = finished.iter().map(|episode| episode.length).sum();
            assert_eq!(lengths as usize, case.method.num_envs * FUNCTIONS * STEPS as usize);
        }
    }
}

#[test]
fn functions_that_come_and_go_in_two_worlds_are_not_the_same() {
    let mut case = Case::of(Preset::by_name("simppo").unwrap());
    case.churns = true;
    case.method.num_envs = 2;
    let mut training = case.begin();
    let parted = (0..50).find_map(|_| training.step().err());
    assert!(matches!(parted, Some(Error::Apart)), "{parted:?}");
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let check = |change: &dyn Fn(&mut Case), expect: &str| {
        let mut case = Case::of(Preset::by_name("cpq-rl").unwrap());
        change(&mut case);
        let error = case.try_begin().map(drop).unwrap_err().to_string();
        assert_eq!(error, expect);
    };
    let range = "simppo.num_envs must be from 1 to 1024";
    check(&|case| case.method.num_envs = 0, &format!("{range}, got 0"));
    check(&|case| case.method.num_envs = 1025, &format!("{range}, got 1025"));
    check(
        &|case| case.env = "toy/roll-call-v1",
        "simppo.order must be together, since toy/roll-call-v1 does not say how well SLOs are \
         met, got queue",
    );
}
