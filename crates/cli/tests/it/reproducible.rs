//! Same program, settings and seed: the same bytes, whatever the number of threads.

use homeostat_rl::Policy;

use crate::homeostat::{Workplace, files_below};

fn results(place: &Workplace, run: &str) -> Vec<(String, Vec<u8>)> {
    let names =
        files_below(&place.path(run)).into_iter().filter(|name| !name.starts_with("timing"));
    names.map(|name| (name.clone(), place.read(&format!("{run}/{name}")))).collect()
}

#[test]
fn every_file_of_a_run_follows_from_its_seed() {
    let place = Workplace::new();
    for algorithm in [
        "ppo --env classic/cartpole-v1",
        "ppo --env classic/pendulum-v1",
        "dqn --env classic/cartpole-v1",
        "ddpg --env classic/pendulum-v1",
        "q-learning --env toy/grid-world-v1",
        "reinforce --env classic/cartpole-v1",
    ] {
        let train = |run: &str, threads: usize, seed: u64| {
            // The number of threads is a setting of the environment here, so that the
            // settings kept in the directory are the same.
            let call = format!(
                "train {algorithm} --agents 3 --steps 6000 --seed {seed} --quiet --output json --run-dir {run}"
            );
            let output = place
                .command(&call)
                .env("RAYON_NUM_THREADS", threads.to_string())
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap().replace(run, "RUN")
        };
        let printed = train("one", 1, 7);
        assert_eq!(train("two", 2, 7), printed, "{algorithm}");
        for ((name, left), (other, right)) in
            results(&place, "one").into_iter().zip(results(&place, "two"))
        {
            assert_eq!(name, other);
            assert!(left == right, "{algorithm}: {name} differs between one and two threads");
        }
        train("other", 2, 8);
        assert_ne!(
            place.read("other/policies/agent-0.policy"),
            place.read("one/policies/agent-0.policy"),
            "{algorithm}"
        );
        for run in ["one", "two", "other"] {
            std::fs::remove_dir_all(place.path(run)).unwrap();
        }
    }
}

#[test]
fn an_agent_does_not_depend_on_how_many_others_there_are() {
    let place = Workplace::new();
    let call = "train ppo --env classic/cartpole-v1 --steps 4096 --quiet --run-dir";
    place.done(&format!("{call} few --agents 2"));
    place.done(&format!("{call} many --agents 5"));
    // Where they come from differs: one run has two agents, the other five.
    let policy =
        |file: &str| Policy::from_bytes(&place.read(file)).unwrap().with_run(None).to_bytes();
    let [few, many] = ["few", "many"].map(|run| policy(&format!("{run}/policies/agent-1.policy")));
    assert!(few == many, "agent 1 learnt something else among five");
}
