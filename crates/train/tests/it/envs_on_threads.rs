//! Copies of environments whose steps take long are stepped on the threads that agents leave free.

use homeostat_lab::{Assignment, Environments, Settings, UserLayers};
use homeostat_train::Trainer;

/// The bytes of the state after training on so many threads.
fn trained(agents: u32, threads: usize) -> Vec<u8> {
    let settings = [
        ("run.env", "faas/shared-v2".to_owned()),
        ("run.agents", agents.to_string()),
        ("run.steps", "400".to_owned()),
        ("faas.functions", "3".to_owned()),
        ("ppo.num_envs", "4".to_owned()),
        ("ppo.steps_per_update", "20".to_owned()),
        ("ppo.minibatch", "20".to_owned()),
    ];
    let flag = |(key, value): (&str, String)| Assignment::set(key, value);
    let layers = UserLayers::of_flags(settings.into_iter().map(flag));
    let config = Settings::resolve(&Environments::builtin(), &layers).unwrap().validate().unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let mut trainer = Trainer::new(&config).unwrap();
        while !trainer.is_done() {
            let (rounds, _) = trainer.round(100);
            assert!(rounds.iter().all(|round| round.stopped.is_none()), "{rounds:?}");
        }
        trainer.checkpoint().to_bytes()
    })
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    // Of three threads with two agents, one waits for copies and may begin with the other agent.
    for (agents, threads) in [(1, 2), (1, 3), (2, 3), (2, 8)] {
        assert!(
            trained(agents, 1) == trained(agents, threads),
            "{agents} agents on {threads} threads"
        );
    }
}
