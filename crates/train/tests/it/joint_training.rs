//! Agents that learn together in one shared environment: several copies of it,
//! or agents that come and go.

use std::sync::atomic::AtomicBool;

use homeostat_lab::{
    Assignment, Candidate, Checkpoint, Environments, Error, RunConfig, Settings, UserLayers,
};
use homeostat_nn::Kernel;
use homeostat_rl::Sampling;
use homeostat_train::{AgentRound, EvaluationConfig, Trainer, evaluate};

/// Never asks to stop.
static GO_ON: AtomicBool = AtomicBool::new(false);

const FLEET: &str = "run.env=faas/fleet-v3 faas.functions=4 faas.steps=6 run.steps=200 \
                     ppo.steps_per_update=10 ppo.minibatch=10 ppo.hidden=[8]";
const ROLL_CALL: &str = "run.env=toy/roll-call-v1 run.steps=250 ppo.num_envs=1 \
                         ppo.steps_per_update=4 ppo.minibatch=4 ppo.hidden=[8]";

const CHAIN: &str = "run.env=faas/chain-v2 faas.chains=[\"primes>base64,html-gen\"] faas.steps=6 \
                     run.steps=200 ppo.num_envs=2 ppo.steps_per_update=10 ppo.minibatch=10 \
                     ppo.hidden=[8]";

const TEAM: &str = "faas.functions=4 faas.steps=6 run.steps=200 ppo.steps_per_update=10 \
                    ppo.hidden=[8]";

/// A fleet in two copies, one whose functions come and go, a chain, and a roll call; then teams.
fn runs() -> Vec<String> {
    let methods = ["s-rl", "il-rl", "cpq-rl", "ma-ppo", "simppo", "simppo+"];
    let teams = methods.map(|method| format!("run.algorithm={method} {TEAM}"));
    let alone = [
        format!("{FLEET} ppo.num_envs=2"),
        format!("{FLEET} ppo.num_envs=1 faas.churn=0.3"),
        CHAIN.to_owned(),
        ROLL_CALL.to_owned(),
        format!("{ROLL_CALL} run.algorithm=dqn dqn.learning_starts=4 dqn.minibatch=4"),
        format!("run.algorithm=simppo {TEAM} faas.churn=0.3"),
        format!("run.algorithm=simppo+ {TEAM} faas.churn=0.3 simppo.num_envs=1"),
        format!("run.algorithm=cpq-rl {TEAM} faas.churn=0.3 simppo.parameter_sharing=kind"),
        format!("{CHAIN} run.algorithm=simppo ppo.num_envs=1 simppo.num_envs=2"),
        format!("{ROLL_CALL} run.algorithm=simppo"),
    ];
    alone.into_iter().chain(teams).collect()
}

fn try_config(settings: &str) -> homeostat_lab::Result<RunConfig> {
    let flag = |setting: &str| {
        let (key, value) = setting.split_once('=').unwrap();
        Assignment::set(key, value)
    };
    let flags = settings.split_whitespace().map(flag);
    Settings::resolve(&Environments::builtin(), &UserLayers::of_flags(flags))?.validate()
}

fn config(settings: &str) -> RunConfig {
    try_config(settings).unwrap()
}

/// Every round, and the bytes of the last state.
fn play_on(trainer: &mut Trainer) -> (Vec<Vec<AgentRound>>, Vec<u8>) {
    let mut rounds = Vec::new();
    while !trainer.is_done() {
        rounds.push(trainer.round(50).0);
    }
    (rounds, trainer.checkpoint().to_bytes())
}

fn candidate((agent, policy): (homeostat_core::AgentId, homeostat_rl::Policy)) -> Candidate {
    Candidate { name: agent.to_string(), agent: agent.number(), policy }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for settings in runs() {
        let config = config(&settings);
        let play = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| play_on(&mut Trainer::new(&config).unwrap()))
        };
        let (one, two) = (play(1), play(2));
        assert_eq!(one.0, two.0, "{settings}");
        assert!(one.1 == two.1, "{settings}: the states differ");
    }
}

#[test]
fn a_resumed_run_equals_an_unbroken_one() {
    for settings in runs() {
        let config = config(&settings);
        let mut unbroken = Trainer::new(&config).unwrap();
        // Episodes have 6 or 100 steps: this is the middle of one.
        unbroken.round(50);
        let bytes = unbroken.checkpoint().to_bytes();
        let checkpoint = Checkpoint::from_bytes(&bytes).unwrap();
        let mut resumed = Trainer::restore(&config, &checkpoint).unwrap();
        assert_eq!(resumed.latest(), unbroken.latest(), "{settings}");
        assert!(resumed.checkpoint().to_bytes() == bytes, "{settings}: the state differs");
        let (expect, got) = (play_on(&mut unbroken), play_on(&mut resumed));
        assert_eq!(expect.0, got.0, "{settings}");
        assert!(expect.1 == got.1, "{settings}: the last states differ");
    }
}

#[test]
fn newcomers_learn_from_nothing_and_leavers_keep_their_policy() {
    let config = config(ROLL_CALL);
    let mut trainer = Trainer::new(&config).unwrap();
    let first = trainer.policies();
    assert_eq!(first.len(), 2);
    trainer.round(125);
    let left = trainer.policies();
    let (rounds, _) = trainer.round(125);
    let latest = trainer.latest();
    assert!(latest.len() > 20, "{}", latest.len());
    assert_eq!(trainer.agents(), latest.len());
    assert!(latest.iter().enumerate().all(|(k, agent)| agent.agent.number() == k as u32));
    // A life has 5 to 20 steps, and no agent lives twice.
    assert!(latest.iter().all(|agent| agent.step <= 20 && agent.episodes <= 1));
    assert_eq!(trainer.steps_of_all(), latest.iter().map(|agent| agent.step).sum::<u64>());
    // Only those who had a part in a round are in its lines: the two that began are kept.
    let early = |agent: &&AgentRound| (2..10).contains(&agent.agent.number());
    assert_eq!(rounds.iter().filter(early).count(), 0);
    let policies = trainer.policies();
    assert_eq!(policies.len(), latest.len());
    let policy_of = |policies: &[(homeostat_core::AgentId, homeostat_rl::Policy)], number: u32| {
        let found = policies.iter().find(|(agent, _)| agent.number() == number);
        found.unwrap().1.to_bytes()
    };
    assert_eq!(policy_of(&policies, 5), policy_of(&left, 5));
    assert_ne!(policy_of(&policies, 0), policy_of(&first, 0));
    assert_ne!(policy_of(&policies, 5), policy_of(&policies, 6));
}

#[test]
fn a_function_that_returns_with_the_next_episode_learns_on() {
    let config = config(&format!("{FLEET} ppo.num_envs=1 faas.churn=0.3"));
    let mut trainer = Trainer::new(&config).unwrap();
    trainer.round(200);
    let latest = trainer.latest();
    assert!(latest.len() > 20, "{}", latest.len());
    for agent in &latest[..4] {
        // 34 episodes of 6 steps: each begins with the first four.
        assert_eq!(agent.episodes, 33 + u64::from(agent.step % 6 == 0), "{agent:?}");
        assert!(agent.step > 100 && agent.step <= 200, "{agent:?}");
    }
    assert!(latest[4..].iter().all(|agent| agent.step < 6));
}

#[test]
fn policies_of_a_shared_world_are_played_together() {
    let config = config(&format!("{FLEET} ppo.num_envs=2"));
    let mut trainer = Trainer::new(&config).unwrap();
    trainer.round(200);
    let mut candidates: Vec<_> = trainer.policies().into_iter().map(candidate).collect();
    let evaluation = |sampling: Sampling| EvaluationConfig {
        episodes: 3,
        seed: 9,
        sampling,
        kernel: Kernel::best(),
    };
    let greedy = evaluation(Sampling::Greedy);
    let together = evaluate(candidates.clone(), &config.env_factory, &greedy, &GO_ON).unwrap();
    assert_eq!(together.len(), 4);
    assert!(together.iter().all(|agent| agent.lengths == [6.0; 3]), "{together:?}");
    let returns = |evaluations: &[homeostat_train::Evaluation]| -> Vec<Vec<f64>> {
        evaluations.iter().map(|evaluation| evaluation.returns.clone()).collect()
    };
    let again = evaluate(candidates.clone(), &config.env_factory, &greedy, &GO_ON).unwrap();
    assert_eq!(returns(&again), returns(&together));
    let stochastic = evaluation(Sampling::Stochastic);
    let drawn = evaluate(candidates.clone(), &config.env_factory, &stochastic, &GO_ON).unwrap();
    assert_ne!(returns(&drawn), returns(&together));
    // Without the first, whose agent then holds still.
    candidates.remove(0);
    let without = evaluate(candidates, &config.env_factory, &greedy, &GO_ON).unwrap();
    assert_eq!(without.len(), 3);
}

#[test]
fn playing_ends_when_somebody_wants_to_stop() {
    for settings in [format!("{FLEET} ppo.num_envs=2"), "run.env=toy/identity-v1".to_owned()] {
        let config = config(&settings);
        let candidates = Trainer::new(&config).unwrap().policies().into_iter().map(candidate);
        // More than memory holds tasks for, and more than anybody could wait for.
        let evaluation = EvaluationConfig {
            episodes: usize::MAX,
            seed: 9,
            sampling: Sampling::Greedy,
            kernel: Kernel::best(),
        };
        let stop = AtomicBool::new(true);
        let ended = evaluate(candidates.collect(), &config.env_factory, &evaluation, &stop);
        assert!(matches!(ended, Err(Error::Interrupted)), "{settings}: {ended:?}");
    }
}

#[test]
fn settings_that_do_not_fit_a_shared_world_are_refused_by_name() {
    let check = |settings: &str, expect: &str| {
        let error = try_config(settings).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(
        "run.env=faas/fleet-v3 run.agents=5",
        "run.agents = 5 (from flag --set run.agents) is out of range: faas/fleet-v3 is shared by \
         12 agents, which is faas.functions",
    );
    check("run.env=faas/fleet-v3 run.agents=1", "run.agents = 1");
    check("run.env=faas/chain-v2 run.agents=5", "8 agents, the stages of faas.chains");
    check(
        "run.env=faas/chain-v2 faas.chains=[\"primes>primes\"]",
        "faas.chains = [\"primes>primes\"] (from flag --set faas.chains) is out of range: in chain 1, \
         primes follows itself",
    );
    check(
        "run.env=toy/roll-call-v1",
        "ppo.num_envs = 8 (from default) is out of range: agents of toy/roll-call-v1 come and go",
    );
    check("run.env=faas/fleet-v3 faas.churn=0.1 ppo.num_envs=2", "ppo.num_envs = 2");
    let equal = config("run.env=faas/fleet-v3 faas.functions=3 run.agents=3");
    let absent = config("run.env=faas/fleet-v3 faas.functions=3");
    assert_eq!((equal.agents, absent.agents), (3, 3));
    assert_eq!(equal.toml, absent.toml);
    assert!(!equal.toml.contains("chains") && config(CHAIN).toml.contains("chains"));
}

#[test]
fn a_team_is_paid_by_its_method_and_keeps_books_of_its_own_rewards() {
    for (method, part) in [("il-rl", 4.0), ("ma-ppo", 1.0), ("s-rl", f64::NAN)] {
        let config = config(&format!("run.algorithm={method} {TEAM}"));
        let mut trainer = Trainer::new(&config).unwrap();
        let (rounds, time) = trainer.round(60);
        let figure = |round: &AgentRound, name: &str| {
            let found = round.figures.iter().find(|(figure, _)| *figure == name);
            found.unwrap_or_else(|| panic!("{name} is missing: {round:?}")).1
        };
        let own: Vec<f64> = rounds.iter().map(|round| round.round_return.unwrap()).collect();
        for (round, own_return) in rounds.iter().zip(&own) {
            assert_eq!((round.step, round.episodes, round.round_length), (60, 10, Some(6.0)));
            let shared = figure(round, "shared_return_mean");
            let expect = if part.is_nan() { *own_return } else { own.iter().sum::<f64>() / part };
            assert!((shared - expect).abs() < 1e-9, "{method}: {shared}, expected {expect}");
            assert!(figure(round, "entropy").is_finite());
        }
        assert!(!time.env.is_zero() && !time.inference.is_zero() && !time.update.is_zero());
    }
}

#[test]
fn newcomers_to_a_team_keep_their_policy_when_they_leave() {
    let config = config(&format!("run.algorithm=simppo {TEAM} faas.churn=0.3"));
    let mut trainer = Trainer::new(&config).unwrap();
    trainer.round(100);
    let left = trainer.policies();
    trainer.round(100);
    let latest = trainer.latest();
    assert!(latest.len() > 20, "{}", latest.len());
    assert!(latest[..4].iter().all(|agent| agent.episodes >= 33), "{latest:?}");
    assert!(latest[4..].iter().all(|agent| agent.step < 6));
    assert_eq!(trainer.steps_of_all(), 4 * 200);
    let policies = trainer.policies();
    assert_eq!(policies.len(), latest.len());
    let policy_of = |policies: &[(homeostat_core::AgentId, homeostat_rl::Policy)], number: u32| {
        let found = policies.iter().find(|(agent, _)| agent.number() == number);
        found.unwrap().1.to_bytes()
    };
    assert_eq!(policy_of(&policies, 5), policy_of(&left, 5));
    assert_ne!(policy_of(&policies, 0), policy_of(&left, 0));
}

#[test]
fn a_method_that_was_changed_is_another_run() {
    let settings = format!("run.algorithm=simppo {TEAM}");
    let trainer = Trainer::new(&config(&settings)).unwrap();
    let check = |change: &str, expect: &str| {
        let config = config(&format!("{settings} {change}"));
        let error = Trainer::restore(&config, &trainer.checkpoint()).map(drop).unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
    };
    check(
        "simppo.reward_sharing=own",
        "simppo.reward_sharing was \"team\" when the run began and is \"own\" now",
    );
    check("simppo.num_envs=2", "simppo.num_envs was 1 when the run began and is 2 now");
    check("ppo.clip=0.1", "ppo.clip was 0.2");
    check("run.algorithm=simppo-alone", "run.algorithm was \"simppo\"");
}

#[test]
fn policies_of_set_points_are_played_together() {
    let config = config(&format!("run.algorithm=simppo+ {TEAM}"));
    let mut trainer = Trainer::new(&config).unwrap();
    trainer.round(200);
    let candidates = trainer.policies().into_iter().map(candidate).collect();
    let evaluation = EvaluationConfig {
        episodes: 2,
        seed: 9,
        sampling: Sampling::Greedy,
        kernel: Kernel::best(),
    };
    let played = evaluate(candidates, &config.env_factory, &evaluation, &GO_ON).unwrap();
    assert_eq!(played.len(), 4);
    assert!(played.iter().all(|agent| agent.lengths == [6.0; 2]), "{played:?}");
    assert!(played.iter().all(|agent| agent.returns.iter().all(|reached| *reached < 0.0)));
}
