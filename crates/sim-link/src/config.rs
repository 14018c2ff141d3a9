//! Settings of the environments.

use homeostat_core::{Bounds, Stream};
use homeostat_decide::BitsPerSecond;
use serde::Deserialize;

use crate::conditions::{CONDITIONS, Condition, Range};
use crate::controllers::controller_by_name;
use crate::error::check;
use crate::plant::rate_bounds;
use crate::{Error, Result};

/// The settings; `default.toml` says what they mean.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "default.toml describes each setting beside its default")]
pub struct LinkConfig {
    pub paths: Paths,
    pub condition: u32,
    pub bandwidth_mbps: [f64; 2],
    pub delay_ms: [f64; 2],
    pub queue: [f64; 2],
    pub loss: [f64; 2],
    pub jitter: f64,
    pub rivals: Vec<String>,
    pub rate_mbps: [f64; 2],
    pub history: usize,
    pub steps: u32,
}

/// Where an episode draws its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Paths {
    /// From the ranges of the settings.
    Ranges,
    /// From one numbered condition.
    Numbered,
    /// From a numbered condition that each episode draws.
    Any,
}

impl Default for LinkConfig {
    fn default() -> Self {
        #[derive(Deserialize)]
        struct File {
            link: LinkConfig,
        }
        let file: File = toml::from_str(include_str!("default.toml")).expect("a test reads it");
        file.link
    }
}

impl LinkConfig {
    /// The condition of an episode; a draw is made where episodes differ in it.
    pub(crate) fn condition(&self, rng: &mut Stream) -> Result<Condition> {
        let [bandwidth_mbps, delay_ms, queue, loss] =
            [self.bandwidth_mbps, self.delay_ms, self.queue, self.loss]
                .map(|[low, high]| Range { low, high });
        let condition = match self.paths {
            Paths::Ranges => Condition { bandwidth_mbps, delay_ms, queue, loss, jitter: 0.0 },
            Paths::Numbered => Condition::numbered(self.condition)?,
            Paths::Any => Condition::numbered(rng.below(CONDITIONS as usize) as u32)?,
        };
        Ok(Condition { jitter: self.jitter, ..condition })
    }

    /// The rates that decisions may set.
    pub(crate) fn bounds(&self) -> Result<Bounds<BitsPerSecond>> {
        let [least, most] = self.rate_mbps;
        rate_bounds(least, most)
    }

    /// An error that names the first setting that cannot be.
    pub fn validate(&self) -> Result<()> {
        self.condition(&mut Stream::from_seed(0))?.validate()?;
        check("link.history", self.history as f64, 1.0, 100.0)?;
        check("link.steps", self.steps.into(), 1.0, 1e6)?;
        let [least, most] = self.rate_mbps;
        let high_enough = if least <= most { 0.001 } else { f64::INFINITY };
        for rate in self.rate_mbps {
            if !(high_enough..=100_000.0).contains(&rate) {
                return Err(Error::OutOfRange {
                    key: "link.rate_mbps".to_owned(),
                    value: format!("[{least}, {most}]"),
                    expected: "two numbers from 0.001 to 100000, the smaller one first".to_owned(),
                });
            }
        }
        for name in &self.rivals {
            controller_by_name(name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_paths_are_those_of_aurora() {
        let config = LinkConfig::default();
        config.validate().unwrap();
        let condition = config.condition(&mut Stream::from_seed(0)).unwrap();
        assert_eq!(condition, Condition::aurora());
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_key() {
        let refused = |config: LinkConfig, part: &str| {
            let error = config.validate().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        let config = LinkConfig::default;
        refused(LinkConfig { loss: [0.2, 0.1], ..config() }, "link.loss = [0.2, 0.1]");
        refused(LinkConfig { delay_ms: [f64::NAN, 1.0], ..config() }, "link.delay_ms");
        refused(LinkConfig { rate_mbps: [5.0, 1.0], ..config() }, "link.rate_mbps = [5, 1]");
        refused(LinkConfig { paths: Paths::Numbered, condition: 625, ..config() }, "from 0 to 624");
        refused(LinkConfig { history: 0, ..config() }, "link.history = 0");
        refused(LinkConfig { rivals: vec!["tahoe".to_owned()], ..config() }, "`tahoe`");
    }
}
