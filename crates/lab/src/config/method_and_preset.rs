//! The layers that are named instead of written: the method of a team and a preset.

use homeostat_rl::{Algorithm, AlgorithmConfig, presets};
use serde::Serialize;
use toml::{Table, Value};

use super::text::{nearest, shorten_floats};
use super::validate::RawRun;
use super::{OFF, Settings, Source, TEAM};
use crate::Result;

impl Settings {
    pub(super) fn apply_preset(&mut self, preset: &presets::Preset) -> Result<()> {
        let section = preset.config.algorithm().name();
        let source = Source::Preset(preset.name.to_owned());
        match &preset.config {
            AlgorithmConfig::Ppo(config) => self.apply_section(section, config, &source),
            AlgorithmConfig::Dqn(config) => self.apply_section(section, config, &source),
            AlgorithmConfig::Ddpg(config) => self.apply_section(section, config, &source),
            AlgorithmConfig::QLearning(config) => self.apply_section(section, config, &source),
            AlgorithmConfig::Reinforce(config) => self.apply_section(section, config, &source),
        }?;
        self.apply("run.algorithm", Value::String(section.to_owned()), source)
    }

    /// How a team learns, where, and with which numbers.
    pub(super) fn apply_method(
        &mut self,
        preset: &homeostat_simppo::Preset,
        with_numbers: bool,
    ) -> Result<()> {
        let source = Source::Method(preset.name.to_owned());
        self.apply_section(TEAM, &preset.method, &source)?;
        if with_numbers {
            self.apply_section("ppo", &preset.ppo, &source)?;
        }
        self.apply("run.env", Value::String(preset.env.to_owned()), source)
    }

    /// Every setting of a section; what `config` leaves out is off.
    fn apply_section(
        &mut self,
        section: &str,
        config: &impl Serialize,
        source: &Source,
    ) -> Result<()> {
        let table = Table::try_from(config).expect("settings are plain values");
        let keys: Vec<_> = self
            .order
            .iter()
            .filter(|key| key.starts_with(&format!("{section}.")))
            .cloned()
            .collect();
        for key in keys {
            let name = &key[section.len() + 1..];
            let value = table.get(name).map_or(Value::String(OFF.to_owned()), shorten_floats);
            self.apply(&key, value, source.clone())?;
        }
        Ok(())
    }

    /// The method of a team, if the algorithm is the name of one.
    pub(super) fn method(&self) -> Option<homeostat_simppo::Preset> {
        homeostat_simppo::Preset::by_name(self.word("run.algorithm"))
    }

    pub(super) fn preset(&self) -> Result<Option<presets::Preset>> {
        let run: RawRun = self.section("run")?;
        let is_team = self.method().is_some();
        match run.preset.as_str() {
            OFF => Ok(None),
            // A method has numbers of its own.
            "auto" if is_team => Ok(None),
            "auto" => Ok(presets::for_task(self.algorithm(&run.algorithm)?, &run.env)),
            name => {
                let preset = presets::by_name(name).ok_or_else(|| {
                    let names: Vec<_> = presets::all().iter().map(|preset| preset.name).collect();
                    let hint = nearest(name, names.iter().copied());
                    self.out_of_range(
                        "run.preset",
                        &format!("there are {}{hint}", names.join(", ")),
                    )
                })?;
                // A preset of another algorithm than the one asked for would be ignored.
                let asked = self.source("run.algorithm");
                let own = preset.config.algorithm();
                let taken = if is_team { Algorithm::Ppo.name() } else { &run.algorithm };
                if asked != Source::Default && taken != own.name() {
                    return Err(self.out_of_range(
                        "run.preset",
                        &format!("it is a preset of {}, not of {taken}", own.name()),
                    ));
                }
                Ok(Some(preset))
            }
        }
    }

    pub(super) fn algorithm(&self, name: &str) -> Result<Algorithm> {
        Algorithm::by_name(name).ok_or_else(|| {
            let names = Algorithm::ALL.map(Algorithm::name);
            let teams = homeostat_simppo::Preset::all();
            let teams: Vec<_> = teams.iter().map(|preset| preset.name).collect();
            let hint = nearest(name, names.into_iter().chain(teams.iter().copied()));
            let (names, teams) = (names.join(", "), teams.join(", "));
            let expected = format!("there are {names}, and for teams {teams}{hint}");
            self.out_of_range("run.algorithm", &expected)
        })
    }
}
