//! Wrong calls end with a clear word, the right code, and nothing half done.

use crate::homeostat::{Workplace, files_below, refused};

#[test]
fn usage_errors_name_the_value_and_the_nearest_word() {
    let place = Workplace::new();
    let check = |arguments: &str, expect: &str| refused(&place, arguments, 2, expect);
    check("tarin", "unrecognized subcommand 'tarin'");
    check("train ppo --sede 3", "'--seed'");
    check("train pppo", "did you mean `ppo`?");
    check("train ppo --env classic/cartpol-v1", "did you mean `classic/cartpole-v1`?");
    check("train ppo --set ppo.clipp=1", "did you mean `ppo.clip`?");
    check("train ppo --set ppo.clip", "KEY=VALUE");
    check(
        "train ppo --set ppo.gamma=1.5",
        "ppo.gamma = 1.5 (from flag --set ppo.gamma) is out of range",
    );
    check("train ppo --set ppo.hidden=[]x", "cannot use ppo.hidden");
    check("train ppo --steps 0", "run.steps = 0");
    check("train ppo --steps -5", "`-5` is not a count: write 100000 or 1e5");
    check("train ppo --steps 1.5", "`1.5` is not a count");
    check("train ppo --agents 0", "run.agents = 0");
    check("train ppo --threads 0", "run.threads = 0");
    check("train ppo --seed minus", "invalid value 'minus'");
    check("train dqn --env classic/pendulum-v1", "dqn cannot learn on classic/pendulum-v1");
    check("train ddpg", "ddpg cannot learn on classic/cartpole-v1");
    check("train q-learning", "try ppo or dqn");
    check("train ppo --env toy/roll-call-v1", "ppo.num_envs = 8 (from default) is out of range");
    check("train ppo --env faas/fleet-v3 --agents 3", "faas/fleet-v3 is shared by 12 agents");
    check("train simpo", "did you mean `simppo`?");
    check(
        "train simppo --env classic/cartpole-v1",
        "simppo trains agents that share an environment",
    );
    check(
        "train simppo --set simppo.reward_sharing=mean",
        "expected one of `own`, `team`, `total`",
    );
    check("train simppo --set ppo.num_envs=4", "a team plays simppo.num_envs environments");
    check("train simppo+ --set faas.churn=0.1", "simppo.num_envs = 4 (from method simppo+)");
    check("train cpq-rl --env toy/roll-call-v1", "simppo.order must be together");
    check("env card nowhere", "unknown environment `nowhere`");
    check("eval nowhere", "nowhere is not a run directory: it does not exist");
    check("plot nowhere", "nowhere is not a run directory");
    check("bench learn --minibatch 0", "it must lie from 1 to 200");
    check("bench learn --kernel sse", "this machine has");
    check("bench fleet --only train_s.n13", "there are train_s.n12, train_s.n110, ");
    check("bench fleet --only train", "growth");
    assert!(!place.path("runs").exists(), "a refused call leaves nothing");
}

#[test]
fn what_is_of_another_kind_is_named_with_what_to_do() {
    let place = Workplace::new();
    place.done("train ppo --env toy/identity-v1 --steps 2048 -q --run-dir runs/a");
    place.done("sim faas --policy none --duration 10s --set faas.functions=3 -q --run-dir runs/s");
    let check = |arguments: &str, code: i32, expect: &str| refused(&place, arguments, code, expect);
    check("train ppo --set clip=0.1", 2, "did you mean `ppo.clip`?");
    check("train dqn --set gamma=0.1", 2, "did you mean `dqn.gamma`?");
    check("replay runs/a --policy none", 2, "it is a training run, not a simulation");
    check("plot runs/s", 1, "`homeostat report` draws simulations");
    check("plot runs/a --out x.png", 2, "use a name that ends in .svg");
    assert!(!place.path("x.png").exists());
    let again = place.call("sim faas --policy none --run-dir runs/s");
    assert!(
        again.stderr.contains("runs/s exists already: use another --run-dir\n"),
        "{}",
        again.stderr
    );
    check("train ppo --run-dir runs/a", 2, "or resume it with --resume");
    let checkpoints = files_below(&place.path("runs/a/checkpoints"));
    check(
        &format!("eval runs/a/checkpoints/{}", checkpoints[0]),
        1,
        "it is a checkpoint; give the run",
    );
    std::fs::remove_dir_all(place.path("runs/a/checkpoints")).unwrap();
    check("train --resume runs/a --steps 4096", 1, "its directory checkpoints/ is missing");
    place.write("empty.policy", "");
    check("eval empty.policy", 1, "file is damaged: it is empty");
    place.write("empty.toml", "");
    check(
        "trace generate --model empty.toml --out made.csv",
        2,
        "it is empty; `homeostat trace fit",
    );
    place.write("binary.toml", [0xff, 0xfe, 0x00]);
    check("train ppo --config binary.toml", 2, "it is not text; settings are TOML");
    // The start of a frame, and nothing after it.
    place.write("cut.zst", [0x28, 0xb5, 0x2f, 0xfd, 0x20]);
    check("trace inspect cut.zst", 1, "the file ends too early: it was cut off");
    check("train ppo --set ppo.actor_learning_rate=1e30", 2, "above 0 and at most 1");
}

#[test]
fn names_of_others_do_not_control_the_terminal() {
    let place = Workplace::new();
    place.write("day.csv", "HashOwner,HashApp,HashFunction,1\no,a,f\u{1b}[31m,9\n");
    for output in ["table", "csv", "json"] {
        let call = "sim faas --policy none --trace day.csv --per-function -q --output";
        let printed = place.done(&format!("{call} {output}"));
        assert!(!printed.contains('\u{1b}') && printed.contains("1b"), "{printed:?}");
    }
}

#[test]
fn a_broken_settings_file_is_refused_with_its_name() {
    let place = Workplace::new();
    for (content, expect) in [
        ("[ppo\n", "file my.toml"),
        ("[ppo]\nclipp = 1\n", "unknown setting `ppo.clipp` from file my.toml"),
        ("[pppo]\nclip = 1\n", "unknown setting `pppo.clip`"),
        ("clip = 1\n", "unknown setting `clip`"),
        ("[ppo]\nclip = \"wide\"\n", "ppo.clip (from file my.toml)"),
        ("[run]\nseed = -1\n", "run.seed (from file my.toml)"),
        ("[ppo]\nhidden = [64, 0]\n", "ppo.hidden"),
    ] {
        place.write("my.toml", content);
        refused(&place, "config check my.toml", 2, expect);
    }
    place.write("binary.toml", [0xff, 0xfe, 0x00]);
    refused(&place, "config check binary.toml", 2, "cannot use file binary.toml");
    refused(&place, "config check missing.toml", 2, "cannot use file missing.toml");
}

#[test]
fn a_wrong_environment_variable_is_refused() {
    let place = Workplace::new();
    let output = place.command("config show").env("HOMEOSTAT_PPO_CLIPP", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("did you mean `HOMEOSTAT_PPO_CLIP`?"));
}

#[test]
fn text_that_is_none_in_the_environment_does_not_matter_or_is_refused() {
    use std::os::unix::ffi::OsStringExt;
    let place = Workplace::new();
    let garbage = std::ffi::OsString::from_vec(vec![0xff]);
    let foreign = place.command("config show").env("FOREIGN", &garbage).output().unwrap();
    assert_eq!(foreign.status.code(), Some(0));
    let own = place.command("config show").env("HOMEOSTAT_RUN_SEED", &garbage).output().unwrap();
    assert_eq!(own.status.code(), Some(2));
}

#[test]
fn numbers_beyond_the_machine_are_refused_before_they_exhaust_it() {
    let place = Workplace::new();
    let check =
        |arguments: &str, expect: &str| refused(&place, &format!("train {arguments}"), 2, expect);
    check("ppo --set ppo.hidden=[1000000,1000000]", "more than 268435456 parameters");
    check("ppo --set ppo.hidden=[4294967296,4294967296]", "more than 268435456 parameters");
    check("ppo --set ppo.num_envs=100000000000", "it must lie from 1 to 65536");
    check("ppo --set ppo.steps_per_update=9223372036854775807", "it must lie from 1 to");
    check("dqn --set dqn.minibatch=9223372036854775807", "it must lie from 1 to 16777216");
    check("ppo --agents 4000000000", "GB are free here");
    check(
        "ppo --steps 18446744073709551615",
        "is not a count: write 100000 or 1e5, at most 9223372036854775807",
    );
    check("ppo --threads 100000000", "it must be at most 4096");
    refused(&place, "plot runs --goal inf", 2, "goal = inf");
    refused(&place, "plot runs --goal nan", 2, "goal = NaN");
    assert!(!place.path("runs").exists(), "a refused call leaves nothing");
}

#[test]
fn an_existing_directory_is_never_overwritten() {
    let place = Workplace::new();
    std::fs::create_dir(place.path("mine")).unwrap();
    place.write("mine/thesis.txt", "precious");
    refused(&place, "train ppo --run-dir mine", 2, "mine exists already");
    assert_eq!(place.read("mine/thesis.txt"), b"precious");
}

#[test]
fn a_damaged_policy_is_refused() {
    let place = Workplace::new();
    place.done("train q-learning --env toy/grid-world-v1 --steps 2000 --quiet --run-dir run");
    let good = place.read("run/policies/agent-0.policy");
    for (name, content) in [
        ("empty.policy", Vec::new()),
        ("text.policy", b"not a policy".to_vec()),
        ("torn.policy", good[..good.len() / 2].to_vec()),
        ("altered.policy", {
            let mut altered = good.clone();
            *altered.last_mut().unwrap() ^= 1;
            altered
        }),
    ] {
        place.write(name, content);
        refused(
            &place,
            &format!("eval {name}"),
            1,
            &format!("failed to load policy {name}: file is damaged"),
        );
    }
    refused(
        &place,
        "eval run/checkpoints/step-00000000000000002000.safetensors",
        1,
        "it is a checkpoint; give the run directory",
    );
}
