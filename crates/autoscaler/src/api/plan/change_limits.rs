//! The limits of changes of a spec, as guards take them.

use homeostat_core::{Fraction, SimDuration};
use homeostat_decide::{CoolDownConfig, RateLimitConfig, StepLimit, StepSize};

use super::{PlanError, Result, read_duration};
use crate::api::change_limits::ChangeLimits;

/// How often and how far a recommendation may change.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ChangePlan {
    /// How long a dimension stays after a change.
    pub cool_down: CoolDownConfig,
    /// Maximum number of changes in a period.
    pub rate_limit: Option<RateLimitConfig>,
    /// The largest step of the CPU, and of the memory, of a pod.
    pub size_step: StepLimit,
}

pub(super) fn read_change_limits(limits: Option<&ChangeLimits>) -> Result<ChangePlan> {
    const FIELD: &str = "spec.constraints.changes";
    let Some(limits) = limits else { return Ok(ChangePlan::default()) };
    let cool_down = CoolDownConfig {
        up: read_duration(&format!("{FIELD}.coolDown.up"), &limits.cool_down.up)?,
        down: read_duration(&format!("{FIELD}.coolDown.down"), &limits.cool_down.down)?,
    };
    let rate_limit = limits.rate_limit.as_ref().map(|limit| {
        let field = format!("{FIELD}.rateLimit");
        let per = read_duration(&format!("{field}.period"), &limit.period)?;
        if limit.changes == 0 || per == SimDuration::ZERO {
            let problem = "0 allows no change at all; remove rateLimit for no limit";
            return Err(PlanError::new(field, problem));
        }
        Ok(RateLimitConfig { changes: limit.changes, per })
    });
    let size_step = limits.max_size_step.as_deref().map(|text| {
        let field = format!("{FIELD}.maxSizeStep");
        let percent = text.strip_suffix('%').and_then(|percent| percent.parse::<u32>().ok());
        match percent {
            Some(percent @ 1..=100) => {
                Ok(StepSize { absolute: 0, relative: Fraction::from_percent(percent) })
            }
            _ => Err(PlanError::new(
                field,
                format!("{text:?} is not a percentage from 1% to 100%; remove it for no limit"),
            )),
        }
    });
    let size_step = size_step.transpose()?;
    Ok(ChangePlan {
        cool_down,
        rate_limit: rate_limit.transpose()?,
        size_step: StepLimit { up: size_step, down: size_step },
    })
}
