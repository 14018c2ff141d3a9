//! Choosing a policy by name, or with settings.

use crate::{
    AimdConfig, EnsureConfig, Error, FixedConfig, HpaConfig, HpaVpaConfig, JointConfig, KpaConfig,
    Policy, Result, ShortFirstConfig, VpaConfig,
};

/// A policy with its settings.
#[derive(Debug, Clone, PartialEq)]
pub enum PolicyConfig {
    /// No scaling.
    Fixed(FixedConfig),
    /// Kubernetes' horizontal pod autoscaler.
    Hpa(HpaConfig),
    /// Kubernetes' vertical pod autoscaler.
    Vpa(VpaConfig),
    /// Both at once.
    HpaVpa(HpaVpaConfig),
    /// One decision for both dimensions.
    Joint(JointConfig),
    /// Knative's pod autoscaler.
    Kpa(KpaConfig),
    /// ENSURE.
    Ensure(EnsureConfig),
    /// Square-root staffing, with or without short requests first.
    ShortFirst(ShortFirstConfig),
    /// Additive increase, multiplicative decrease.
    Aimd(AimdConfig),
}

impl PolicyConfig {
    /// The names that [`PolicyConfig::by_name`] knows.
    pub fn names() -> &'static [&'static str] {
        &[
            "aimd",
            "ensure",
            "ensure-util",
            "fixed",
            "hpa",
            "hpa+vpa",
            "joint",
            "kpa",
            "short-first",
            "staffing",
            "vpa",
        ]
    }

    /// The policy of this name with its default settings.
    pub fn by_name(name: &str) -> Result<Self> {
        Ok(match name {
            "aimd" => Self::Aimd(AimdConfig::default()),
            "ensure" => Self::Ensure(EnsureConfig::default()),
            "ensure-util" => Self::Ensure(EnsureConfig::util()),
            "fixed" => Self::Fixed(FixedConfig::default()),
            "hpa" => Self::Hpa(HpaConfig::default()),
            "hpa+vpa" => Self::HpaVpa(HpaVpaConfig::default()),
            "joint" => Self::Joint(JointConfig::default()),
            "kpa" => Self::Kpa(KpaConfig::default()),
            "short-first" => Self::ShortFirst(ShortFirstConfig::default()),
            "staffing" => Self::ShortFirst(ShortFirstConfig::staffing()),
            "vpa" => Self::Vpa(VpaConfig::default()),
            _ => {
                let known = Self::names().join(", ");
                return Err(Error::UnknownPolicy { name: name.to_owned(), known });
            }
        })
    }

    /// The policy itself. Refuses settings that make no sense.
    pub fn build(self) -> Result<Box<dyn Policy>> {
        Ok(match self {
            Self::Fixed(config) => Box::new(config.build()?),
            Self::Hpa(config) => Box::new(config.build()?),
            Self::Vpa(config) => Box::new(config.build()?),
            Self::HpaVpa(config) => Box::new(config.build()?),
            Self::Joint(config) => Box::new(config.build()?),
            Self::Kpa(config) => Box::new(config.build()?),
            Self::Ensure(config) => Box::new(config.build()?),
            Self::ShortFirst(config) => Box::new(config.build()?),
            Self::Aimd(config) => Box::new(config.build()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_builds_the_policy_of_that_name() {
        for name in PolicyConfig::names() {
            assert_eq!(PolicyConfig::by_name(name).unwrap().build().unwrap().name(), *name);
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = PolicyConfig::by_name("hpaa").unwrap_err().to_string();
        assert_eq!(
            error,
            "no policy is named `hpaa`: choose one of aimd, ensure, ensure-util, fixed, hpa, \
             hpa+vpa, joint, kpa, short-first, staffing, vpa"
        );
    }
}
