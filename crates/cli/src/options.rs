//! Options that several commands share.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use homeostat_lab::{Assignment, Environments, Error, Settings, UserLayers};

/// The largest number that a settings file can hold.
const MAX: u64 = i64::MAX as u64;

/// Where settings come from.
#[derive(Args, Clone, Default)]
pub(crate) struct SettingOptions {
    /// Algorithm: ppo, dqn, ddpg, q-learning or reinforce; or a team method for agents that share an
    /// environment: simppo, simppo+, s-rl, il-rl, cpq-rl, ma-ppo (`homeostat config teams` lists all)
    /// [default: ppo]
    #[arg(value_name = "ALGORITHM")]
    pub(crate) algorithm: Option<String>,
    /// Environment; `homeostat env list` lists all [default: classic/cartpole-v1]
    #[arg(long, value_name = "ID")]
    pub(crate) env: Option<String>,
    /// Seed of all random draws [default: 1]
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=MAX))]
    pub(crate) seed: Option<u64>,
    /// Steps per agent [default: 100000]
    #[arg(long, value_parser = count, allow_negative_numbers = true)]
    pub(crate) steps: Option<u64>,
    /// Number of independent agents [default: 1]
    #[arg(long)]
    pub(crate) agents: Option<u32>,
    /// Preset of settings; `homeostat config presets` lists them [default: auto]
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// Worker threads; results do not depend on the number [default: one per core]
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// Settings file in TOML; `homeostat config default` prints a commented one.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A setting, such as ppo.clip=0.1; repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

impl SettingOptions {
    /// All layers, resolved.
    pub(crate) fn resolve(&self) -> anyhow::Result<Settings> {
        let mut flags = Vec::new();
        let named = [
            ("run.algorithm", &self.algorithm, "ALGORITHM"),
            ("run.env", &self.env, "--env"),
            ("run.seed", &self.seed.map(|seed| seed.to_string()), "--seed"),
            ("run.steps", &self.steps.map(|steps| steps.to_string()), "--steps"),
            ("run.agents", &self.agents.map(|agents| agents.to_string()), "--agents"),
            ("run.preset", &self.preset, "--preset"),
            ("run.threads", &self.threads.map(|threads| threads.to_string()), "--threads"),
        ];
        for (key, value, flag) in named {
            if let Some(value) = value {
                flags.push(Assignment::new(key, value, flag));
            }
        }
        for pair in &self.set {
            let (key, value) = key_and_value(pair)?;
            flags.push(Assignment::set(key, value));
        }
        let mut layers = UserLayers::of_flags(flags).with_environment()?;
        if let Some(path) = &self.config {
            layers = layers.with_file(path)?;
        }
        let settings = Settings::resolve(&environments(), &layers)?;
        for renamed in settings.renamed() {
            say!("{renamed}");
        }
        Ok(settings)
    }
}

/// The parts of `--set KEY=VALUE`.
pub(crate) fn key_and_value(pair: &str) -> Result<(&str, &str), Error> {
    let parts = pair.split_once('=').ok_or_else(|| Error::Unreadable {
        source_text: format!("flag --set {pair}"),
        reason: "it is not of the form KEY=VALUE, for example ppo.clip=0.1".to_owned(),
    });
    parts.map(|(key, value)| (key.trim(), value.trim()))
}

/// The environments of this program.
pub(crate) fn environments() -> Environments {
    Environments::builtin()
}

/// Uses this many threads for the whole process.
pub(crate) fn use_threads(threads: Option<usize>) -> anyhow::Result<()> {
    if let Some(threads) = threads {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build_global()
            .context("failed to start threads")?;
    }
    Ok(())
}

/// Seeds as people write them: `7`, `1,4,9`, or `1..5` with both ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeedList(pub(crate) Vec<u64>);

impl std::str::FromStr for SeedList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        /// More would be a slip of the keyboard.
        const MAX_SEEDS: u64 = 100_000;
        let number = |text: &str| {
            text.trim().parse::<u64>().map_err(|_| format!("`{text}` is not a seed: 0, 1, 2, ..."))
        };
        if let Some((first, last)) = text.split_once("..") {
            let (first, last) = (number(first)?, number(last)?);
            if last < first || last - first >= MAX_SEEDS {
                return Err(format!("{first}..{last} is not a range of 1 to {MAX_SEEDS} seeds"));
            }
            return Ok(Self((first..=last).collect()));
        }
        let mut seeds = text.split(',').map(number).collect::<Result<Vec<_>, _>>()?;
        let count = seeds.len();
        seeds.sort_unstable();
        seeds.dedup();
        if seeds.len() == count { Ok(Self(seeds)) } else { Err("a seed is named twice".to_owned()) }
    }
}

/// A number of things: `100000`, `100_000` or `1e5`.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a count: write 100000 or 1e5, at most {MAX}");
    let digits = text.trim().replace('_', "");
    if let Ok(count) = digits.parse::<u64>() {
        return if count <= MAX { Ok(count) } else { Err(wrong()) };
    }
    let number = digits.parse::<f64>().map_err(|_| wrong())?;
    // Above 2^53 a fraction could be lost without notice.
    let is_exact = (0.0..=9_007_199_254_740_992.0).contains(&number) && number.fract() == 0.0;
    if is_exact { Ok(number as u64) } else { Err(wrong()) }
}

/// [`count`] of at least one.
#[cfg(feature = "network")]
pub(crate) fn positive_count(text: &str) -> Result<u64, String> {
    match count(text)? {
        0 => Err("it must be at least 1".to_owned()),
        count => Ok(count),
    }
}

/// A length of time: seconds, or a number with `ms`, `s`, `m`, `h` or `d`.
pub(crate) fn duration(text: &str) -> Result<homeostat_core::SimDuration, String> {
    let number = text.strip_suffix("ms").or_else(|| text.strip_suffix(['s', 'm', 'h', 'd']));
    let (number, unit) = match number {
        Some(number) => (number, &text[number.len()..]),
        None => (text, "s"),
    };
    let factor = match unit {
        "ms" => 1e-3,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => 1.0,
    };
    let wrong = || format!("`{text}` is not a length of time: write 500ms, 90s, 20m, 2h or 1d");
    let seconds = number.trim().parse::<f64>().map_err(|_| wrong())? * factor;
    if seconds <= 0.0 {
        return Err(wrong());
    }
    homeostat_core::SimDuration::from_seconds(seconds).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_one_some_or_a_range() {
        let check = |text: &str, expect: &[u64]| {
            assert_eq!(text.parse::<SeedList>().map(|seeds| seeds.0).as_deref(), Ok(expect));
        };
        check("7", &[7]);
        check("9,1, 4", &[1, 4, 9]);
        check("2..4", &[2, 3, 4]);
        for wrong in ["", "x", "4..2", "1,1", "-1", "0..9999999"] {
            assert!(wrong.parse::<SeedList>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_may_have_exponents_and_no_fraction_or_sign() {
        assert_eq!((count("1e6"), count("2.5e3")), (Ok(1_000_000), Ok(2500)));
        assert_eq!((count("100_000"), count("0")), (Ok(100_000), Ok(0)));
        for wrong in ["", "-5", "1.5", "1e-3", "1e30", "nan", "inf", "9223372036854775808"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_units() {
        let seconds = |text: &str| duration(text).map(|time| time.seconds());
        assert_eq!(
            (seconds("90"), seconds("20m"), seconds("1.5h")),
            (Ok(90.0), Ok(1200.0), Ok(5400.0))
        );
        assert_eq!(seconds("250ms"), Ok(0.25));
        assert_eq!(seconds("2d"), Ok(172_800.0));
        for wrong in ["", "h", "-3s", "0", "inf", "nan", "3w", "ms", "5sm"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
