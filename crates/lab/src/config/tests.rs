use homeostat_env::{ConfiguredSimulator, RenamedSetting, Simulator, read_settings};
use homeostat_rl::{Algorithm, AlgorithmConfig, presets};
use homeostat_sim_faas::{ConfiguredFaas, FaasConfig};
use homeostat_simppo::Method;

use super::*;
use crate::{EnvFactory, Environments, Result};

fn flag(key: &str, value: &str) -> Assignment {
    Assignment::set(key, value)
}

fn variable(name: &str, value: &str) -> EnvironmentVariable {
    EnvironmentVariable { name: name.to_owned(), value: value.to_owned() }
}

fn resolve(layers: UserLayers) -> Result<RunConfig> {
    Settings::resolve(&Environments::builtin(), &layers)?.validate()
}

#[test]
fn the_reference_file_states_the_defaults_of_the_code() {
    for algorithm in Algorithm::ALL {
        let flags = vec![flag("run.algorithm", algorithm.name()), flag("run.preset", "off")];
        let config = resolve(UserLayers::of_flags(flags)).unwrap();
        assert_eq!(config.algorithm, algorithm.default_config());
    }
    let method: Method =
        Settings::defaults(&Environments::builtin()).unwrap().section(TEAM).unwrap();
    assert_eq!(method, Method::default());
    let flags = vec![flag("run.env", "faas/function-v2")];
    let config = resolve(UserLayers::of_flags(flags)).unwrap();
    let faas: &ConfiguredFaas = config.env_factory.simulator().unwrap();
    assert_eq!(faas.plan().unwrap().config(), &FaasConfig::default());
}

#[test]
fn every_method_arrives_unchanged_with_its_environment() {
    for preset in homeostat_simppo::Preset::all() {
        let flags = vec![flag("run.algorithm", preset.name)];
        let config = resolve(UserLayers::of_flags(flags)).unwrap();
        assert_eq!(config.algorithm, AlgorithmConfig::Ppo(preset.ppo), "{}", preset.name);
        let team = TeamMethod { name: preset.name, method: preset.method };
        assert_eq!((config.team, config.env.as_str()), (Some(team), preset.env));
    }
    // The same words name presets, and those are for agents that learn by themselves.
    let flags = vec![flag("run.preset", "simppo"), flag("run.env", "faas/fleet-v3")];
    let config = resolve(UserLayers::of_flags(flags)).unwrap();
    assert_eq!((config.team.as_ref(), config.algorithm_name()), (None, "ppo"));
}

#[test]
fn the_settings_of_a_team_have_sources_and_read_back() {
    let flags = vec![
        flag("run.algorithm", "simppo+"),
        flag("simppo.num_envs", "2"),
        flag("ppo.clip", "0.1"),
        flag("faas.functions", "3"),
    ];
    let settings =
        Settings::resolve(&Environments::builtin(), &UserLayers::of_flags(flags)).unwrap();
    let check = |key: &str, expect: Option<(&str, &str)>| {
        let found = settings.used().find(|(name, _)| *name == key);
        let found = found.map(|(_, found)| (found.value.to_string(), found.source.to_string()));
        let expect = expect.map(|(value, source)| (value.to_owned(), source.to_owned()));
        assert_eq!(found, expect, "{key}");
    };
    check("simppo.num_envs", Some(("2", "flag --set simppo.num_envs")));
    check("simppo.parameter_sharing", Some(("\"all\"", "method simppo+")));
    check("ppo.gamma", Some(("0.9", "method simppo+")));
    check("ppo.clip", Some(("0.1", "flag --set ppo.clip")));
    check("run.env", Some(("\"faas/fleet-set-points-v1\"", "method simppo+")));
    check("run.algorithm", Some(("\"simppo+\"", "flag --set run.algorithm")));
    check("ppo.num_envs", None);
    check("dqn.double", None);
    let first = settings.validate().unwrap();
    assert_eq!(first.identity["simppo.num_envs"], "2");
    let second = resolve(UserLayers::of_file("config.toml", first.toml.clone())).unwrap();
    assert_eq!(
        (second.algorithm, second.team, second.toml, second.identity),
        (first.algorithm, first.team, first.toml, first.identity)
    );
    // A preset of PPO lends its numbers, "off" the plain ones; the method stays.
    for (preset, minibatch) in [("s-rl", 10), ("off", 64)] {
        let flags = vec![flag("run.algorithm", "simppo"), flag("run.preset", preset)];
        let config = resolve(UserLayers::of_flags(flags)).unwrap();
        let AlgorithmConfig::Ppo(ppo) = &config.algorithm else { panic!("it is PPO") };
        assert_eq!((ppo.minibatch, ppo.num_envs), (minibatch, 1));
        assert_eq!(config.team.unwrap().method, Method::default());
    }
}

#[test]
fn every_preset_arrives_unchanged() {
    for preset in presets::all() {
        let flags = vec![flag("run.preset", preset.name)];
        let config = resolve(UserLayers::of_flags(flags)).unwrap();
        assert_eq!(config.algorithm, preset.config, "{}", preset.name);
    }
}

#[test]
fn keyword_beats_flag_beats_environment_beats_file_beats_preset_beats_default() {
    let mut layers = UserLayers {
        file: UserLayers::of_file("my.toml", "[ppo]\nclip = 0.3\ngamma = 0.5\nepochs = 3\n").file,
        environment: vec![
            variable("HOMEOSTAT_PPO_CLIP", "0.4"),
            variable("HOMEOSTAT_PPO_GAMMA", "0.6"),
        ],
        flags: vec![
            flag("ppo.clip", "0.5"),
            flag("ppo.gae_lambda", "0.7"),
            flag("run.preset", "simppo"),
        ],
        keywords: vec![Assignment::new("ppo.gae_lambda", "0.8", "ppo")],
    };
    let settings = Settings::resolve(&Environments::builtin(), &layers).unwrap();
    let check = |key: &str, value: &str, source: &str| {
        let (_, found) = settings.iter().find(|(name, _)| *name == key).unwrap();
        assert_eq!(
            (found.value.to_string().as_str(), found.source.to_string().as_str()),
            (value, source),
            "{key}"
        );
    };
    check("ppo.clip", "0.5", "flag --set ppo.clip");
    check("ppo.gae_lambda", "0.8", "keyword ppo");
    check("ppo.gamma", "0.6", "environment HOMEOSTAT_PPO_GAMMA");
    check("ppo.epochs", "3", "file my.toml");
    check("ppo.minibatch", "5", "preset simppo");
    check("dqn.double", "true", "default");
    layers.flags.clear();
    assert!(resolve(layers).is_ok());
}

#[test]
fn mistakes_are_named_with_their_place_and_the_nearest_word() {
    let check = |layers: UserLayers, expect: &str| {
        let error = resolve(layers).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    let flags = |flags: &[(&str, &str)]| {
        UserLayers::of_flags(flags.iter().map(|(key, value)| flag(key, value)))
    };
    let file = |text: &str| UserLayers::of_file("my.toml", text);
    check(
        flags(&[("ppo.clipp", "0.1")]),
        "unknown setting `ppo.clipp` from flag --set ppo.clipp, did you mean `ppo.clip`?",
    );
    check(
        file("[ppo]\nepoch = 3"),
        "unknown setting `ppo.epoch` from file my.toml, did you mean `ppo.epochs`?",
    );
    check(file("[ppo\n"), "cannot use file my.toml");
    check(flags(&[("ppo.clip", "-1")]), "ppo.clip = -1 (from flag --set ppo.clip) is out of range");
    check(flags(&[("ppo.clip", "nan")]), "ppo.clip = nan");
    check(flags(&[("ppo.clip", "wide")]), "cannot use ppo.clip (from flag --set ppo.clip)");
    check(flags(&[("run.steps", "0")]), "run.steps = 0");
    check(flags(&[("run.seed", "-3")]), "run.seed (from flag --set run.seed)");
    check(flags(&[("run.env", "classic/cartpol-v1")]), "did you mean `classic/cartpole-v1`?");
    check(flags(&[("run.algorithm", "pppo")]), "did you mean `ppo`?");
    check(flags(&[("run.preset", "simpo")]), "did you mean `simppo`?");
    check(
        flags(&[("run.algorithm", "dqn"), ("run.preset", "simppo")]),
        "it is a preset of ppo, not of dqn",
    );
    check(flags(&[("run.kernel", "avx1024")]), "this machine has");
    let team = |key, value| flags(&[("run.algorithm", "simppo"), (key, value)]);
    check(flags(&[("run.algorithm", "simpo")]), "did you mean `simppo`?");
    check(
        team("simppo.reward_sharing", "mean"),
        "cannot use simppo.reward_sharing (from flag --set simppo.reward_sharing): unknown variant `mean`, expected \
         one of `own`, `team`, `total`",
    );
    check(team("simppo.parameter_sharing", "3"), "cannot use simppo.parameter_sharing (from flag");
    check(
        team("simppo.num_envs", "0"),
        "simppo.num_envs = 0 (from flag --set simppo.num_envs) is out of range: it must be from 1",
    );
    check(team("simppo.num_envs", "-1"), "cannot use simppo.num_envs (from flag");
    check(team("simppo.nun_envs", "2"), "did you mean `simppo.num_envs`?");
    check(
        team("ppo.num_envs", "4"),
        "ppo.num_envs = 4 (from flag --set ppo.num_envs) is out of range: a team plays simppo.num_envs",
    );
    check(
        team("run.env", "classic/cartpole-v1"),
        "run.env = \"classic/cartpole-v1\" (from flag --set run.env) is out of range: simppo \
         trains agents that share an environment",
    );
    check(team("run.env", "faas/flet-v1"), "did you mean `faas/fleet-v3`?");
    check(team("run.preset", "firm"), "it is a preset of ddpg, not of ppo");
    check(
        flags(&[("run.algorithm", "simppo+"), ("faas.churn", "0.1")]),
        "simppo.num_envs = 4 (from method simppo+) is out of range: agents of faas/fleet-set-points-v1 come \
         and go, and those of two copies would differ: it must be 1",
    );
    let environment = vec![variable("HOMEOSTAT_PPO_CLIPP", "1")];
    check(
        UserLayers { environment, ..UserLayers::default() },
        "did you mean `HOMEOSTAT_PPO_CLIP`?",
    );
}

#[test]
fn the_written_config_reads_back_as_the_same_run() {
    let flags = vec![flag("run.preset", "simppo"), flag("ppo.clip", "0.1"), flag("run.seed", "9")];
    let first = resolve(UserLayers::of_flags(flags)).unwrap();
    let second = resolve(UserLayers::of_file("config.toml", first.toml.clone())).unwrap();
    assert_eq!(
        (second.algorithm, second.seed, second.toml),
        (first.algorithm, 9, first.toml.clone())
    );
}

#[test]
fn a_renamed_key_is_accepted_by_its_old_name_and_noted() {
    let old = "[simppo]\npay = \"own\"\nview = \"local\"\nsharing = \"kind\"\nworlds = 2\n";
    let mut layers = UserLayers::of_file("old.toml", old);
    layers.flags = vec![flag("run.algorithm", "simppo")];
    let settings = Settings::resolve(&Environments::builtin(), &layers).unwrap();
    let config = settings.validate().unwrap();
    let new = [
        ("simppo.reward_sharing", "own"),
        ("simppo.critic_input", "local"),
        ("simppo.parameter_sharing", "kind"),
        ("simppo.num_envs", "2"),
    ];
    let mut same = vec![flag("run.algorithm", "simppo")];
    same.extend(new.iter().map(|(key, value)| flag(key, value)));
    let written = resolve(UserLayers::of_flags(same)).unwrap();
    assert_eq!((&config.team, &config.identity), (&written.team, &written.identity));
    assert_eq!(config.toml, written.toml, "the resolved file has the new names");
    let notes = settings.renamed();
    assert_eq!(notes.len(), 4, "{notes:?}");
    assert_eq!(
        notes[0],
        "`simppo.pay` (from file old.toml) is now called `simppo.reward_sharing`; the next release \
         refuses the old name"
    );
    for algorithm in ["ppo", "dqn", "ddpg", "q-learning"] {
        let old = UserLayers {
            environment: vec![variable(
                &format!("HOMEOSTAT_{}_LANES", algorithm.to_uppercase().replace('-', "_")),
                "3",
            )],
            ..UserLayers::of_flags([flag("run.algorithm", algorithm), flag("run.preset", "off")])
        };
        let settings = Settings::resolve(&Environments::builtin(), &old).unwrap();
        assert_eq!(settings.validate().unwrap().algorithm.num_envs(), 3, "{algorithm}");
        assert_eq!(settings.renamed().len(), 1, "{algorithm}");
    }
    assert!(
        Settings::resolve(&Environments::builtin(), &UserLayers::default())
            .unwrap()
            .renamed()
            .is_empty()
    );
}

#[test]
fn every_renamed_key_names_a_setting() {
    let environments = Environments::builtin();
    let settings = Settings::defaults(&environments).unwrap();
    for RenamedSetting { old, new } in environments.renamed() {
        let is_setting = |key: &str| settings.values.contains_key(key);
        assert!(is_setting(new) && !is_setting(old), "{old}");
        assert_eq!(environments.present_key(old), Some(*new));
        assert_eq!(environments.former_key(new), Some(*old));
    }
}

/// A simulator outside this project, with one setting.
struct Dice;

impl Simulator for Dice {
    fn prefix(&self) -> &'static str {
        "dice"
    }

    fn default_toml(&self) -> &'static str {
        "# Dice.\n[dice]\nsides = 6  # of each\n"
    }

    fn configure(
        &self,
        section: &toml::Table,
    ) -> homeostat_env::Result<std::sync::Arc<dyn ConfiguredSimulator>> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct DiceConfig {
            sides: u8,
        }
        let config: DiceConfig = read_settings(section)?;
        if config.sides == 0 {
            return Err(homeostat_env::Error::SettingOutOfRange {
                key: "dice.sides".to_owned(),
                value: "0".to_owned(),
                expected: "it must be at least 1".to_owned(),
            });
        }
        homeostat_env::TOY.configure(section)
    }
}

#[test]
fn the_settings_of_a_programs_own_simulator_are_layered_like_all_others() {
    static DICE: Dice = Dice;
    let environments = Environments::builtin().with(&DICE);
    assert!(environments.reference().contains("sides = 6  # of each"));
    let resolve = |layers: UserLayers| -> Result<EnvFactory> {
        Settings::resolve(&environments, &layers)?.validate().map(|config| config.env_factory)
    };
    let check = |layers: UserLayers, expect: &str| {
        let error = resolve(layers).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    assert!(resolve(UserLayers::of_flags([flag("dice.sides", "20")])).is_ok());
    check(
        UserLayers::of_file("my.toml", "[dice]\nsides = 0\n"),
        "dice.sides = 0 (from file my.toml) is out of range: it must be at least 1",
    );
    check(
        UserLayers::of_flags([flag("dice.sides", "1000")]),
        "cannot use dice.sides (from flag --set dice.sides)",
    );
    check(UserLayers::of_flags([flag("dice.side", "2")]), "did you mean `dice.sides`?");
    check(UserLayers::of_flags([flag("run.env", "dice/two-v1")]), "unknown environment");
    let again = environments.clone().with(&DICE);
    let builtin = format!("{:?}", Environments::builtin());
    assert_eq!(format!("{again:?}"), builtin.replace(']', ", \"dice\"]"));
}
