//! The limits of disruption of a spec, canaries and maintenance windows.

use homeostat_core::Fraction;
use homeostat_decide::{CanaryConfig, PodScaling, Share};

use super::renamed_field::RenamedField;
use super::{Disruption, PlanError, Result, read_duration};
use crate::api::spec::{CanaryPolicy, Day, DisruptionLimits, MaintenanceWindow};

/// A weekly time window, in minutes of the week from Monday 00:00 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its first minute.
    pub from: u32,
    /// Its duration in minutes.
    pub minutes: u32,
}

const DAY_MINUTES: u32 = 24 * 60;
const WEEK_MINUTES: u32 = 7 * DAY_MINUTES;

impl Window {
    /// Whether a minute of the week lies inside.
    pub fn contains(&self, minute: u32) -> bool {
        (minute + WEEK_MINUTES - self.from) % WEEK_MINUTES < self.minutes
    }
}

pub(super) fn read_disruption(
    limits: &DisruptionLimits,
    deprecated: &mut Vec<String>,
) -> Result<Disruption> {
    let parent = "spec.policy.disruption";
    let min_pod_age = RenamedField {
        parent,
        name: "minPodAge",
        value: &limits.min_pod_age,
        old_name: "leastPodAge",
        old_value: &limits.least_pod_age,
    };
    let min_pod_age = min_pod_age.resolve(DisruptionLimits::default_min_pod_age, deprecated)?;
    Ok(Disruption {
        max_unavailable: read_share(&format!("{parent}.maxUnavailable"), &limits.max_unavailable)?,
        evictions_per_hour: limits.evictions_per_hour,
        min_pod_age: read_duration(&min_pod_age.field, &min_pod_age.value)?,
    })
}

/// Reads a number of pods or a percentage of them.
fn read_share(field: &str, text: &str) -> Result<Share> {
    let refused = || {
        PlanError::new(
            field,
            format!("{text:?} is not a number of pods or a percentage, such as 1 or 10%"),
        )
    };
    match text.strip_suffix('%') {
        Some(percent) => match percent.parse().map_err(|_| refused())? {
            percent @ 0..=100 => Ok(Share::Part(Fraction::from_percent(percent))),
            _ => Err(PlanError::new(field, format!("{text} is more than 100%"))),
        },
        None => text.parse::<u32>().map(|pods| Share::Count(pods.into())).map_err(|_| refused()),
    }
}

pub(super) fn read_canary(canary: &CanaryPolicy) -> Result<CanaryConfig> {
    let pods = read_share("spec.policy.canary.pods", &canary.pods)?;
    let watch = read_duration("spec.policy.canary.watch", &canary.watch)?;
    Ok(CanaryConfig { dimension: PodScaling::REPLICAS, share: pods, watch })
}

pub(super) fn read_maintenance(windows: &[MaintenanceWindow]) -> Result<Vec<Window>> {
    const WEEK: [Day; 7] = [Day::Mon, Day::Tue, Day::Wed, Day::Thu, Day::Fri, Day::Sat, Day::Sun];
    let mut all = Vec::new();
    for (place, window) in windows.iter().enumerate() {
        let field = format!("spec.policy.maintenance[{place}]");
        let from = read_time(&format!("{field}.from"), &window.from)?;
        let to = read_time(&format!("{field}.to"), &window.to)?;
        if from == to {
            let problem = format!("{} to {} is empty; give it a duration", window.from, window.to);
            return Err(PlanError::new(field, problem));
        }
        let minutes = (to + DAY_MINUTES - from) % DAY_MINUTES;
        let is_selected = |day: &Day| window.days.is_empty() || window.days.contains(day);
        let days = WEEK.iter().enumerate().filter(|(_, day)| is_selected(day));
        all.extend(days.map(|(day, _)| Window { from: day as u32 * DAY_MINUTES + from, minutes }));
    }
    Ok(all)
}

/// Minutes of the day of a time such as `02:30`.
fn read_time(field: &str, text: &str) -> Result<u32> {
    let parsed = text.split_once(':').and_then(|(hours, minutes)| {
        let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
        (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
    });
    parsed.ok_or_else(|| {
        PlanError::new(field, format!("{text:?} is not a time of day, such as 02:30"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_pods_is_at_least_one() {
        assert_eq!(read_share("f", "10%").map(|share| share.of(5)), Ok(1));
        assert_eq!(read_share("f", "50%").map(|share| share.of(5)), Ok(2));
        assert_eq!(read_share("f", "3").map(|share| share.of(5)), Ok(3));
        assert!(read_share("f", "-1").is_err());
    }
}
