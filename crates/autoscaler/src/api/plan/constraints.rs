//! The bounds of a spec, and how fast the number of pods may change.

use std::collections::BTreeMap;

use homeostat_core::{Bounds, Bytes, Millicores, SimDuration};
use homeostat_decide::{
    ScalingBehavior, ScalingPolicy, ScalingRules as Rules, ScalingStep, SelectPolicy as Select,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{ContainerPlan, PlanError, Result};
use crate::api::amounts::{NotAnAmount, cores, memory_bytes};
use crate::api::spec::{
    Behavior, ContainerConstraints, ContainerMode, ControlledResource, ResourceAmounts,
    ScalingRule, ScalingRuleKind, ScalingRules, SelectPolicy,
};

pub(super) fn read_behavior(behavior: &Behavior, default: ScalingBehavior) -> ScalingBehavior {
    let rules = |given: &Option<ScalingRules>, default: Rules| {
        let Some(given) = given else { return default };
        Rules {
            stabilization: given
                .stabilization_window_seconds
                .map_or(default.stabilization, |seconds| SimDuration::from_secs(seconds.into())),
            select: given.select_policy.map_or(default.select, |select| match select {
                SelectPolicy::Max => Select::Max,
                SelectPolicy::Min => Select::Min,
                SelectPolicy::Disabled => Select::Disabled,
            }),
            policies: given.policies.as_ref().map_or(default.policies, |policies| {
                let read = |rule: &ScalingRule| ScalingPolicy {
                    step: match rule.kind {
                        ScalingRuleKind::Pods => ScalingStep::Replicas(rule.value),
                        ScalingRuleKind::Percent => ScalingStep::Percent(rule.value),
                    },
                    period: SimDuration::from_secs(rule.period_seconds.into()),
                };
                policies.iter().map(read).collect()
            }),
        }
    };
    ScalingBehavior {
        up: rules(&behavior.scale_up, default.up),
        down: rules(&behavior.scale_down, default.down),
    }
}

/// Without bounds a container may have any size between VPA's minimum and more than any node has.
pub(super) fn read_containers(
    constraints: &[ContainerConstraints],
    resources: Option<&[ControlledResource]>,
) -> Result<(BTreeMap<String, ContainerPlan>, ContainerPlan)> {
    let is_controlled =
        |resource| resources.is_none_or(|resources: &[_]| resources.contains(&resource));
    let free = ContainerPlan {
        cpu: is_controlled(ControlledResource::Cpu).then(|| {
            Bounds::try_new(Millicores::new(1), Millicores::new(1_000_000)).expect("1 is less")
        }),
        memory: is_controlled(ControlledResource::Memory).then(|| {
            Bounds::try_new(Bytes::from_mib(1), Bytes::from_mib(1 << 24)).expect("1 is less")
        }),
    };
    let mut named = BTreeMap::new();
    for (place, given) in constraints.iter().enumerate() {
        let field = format!("spec.constraints.container[{place}]");
        let plan = match given.mode {
            ContainerMode::Off => ContainerPlan { cpu: None, memory: None },
            ContainerMode::Auto => {
                let ResourceAmounts { cpu: min_cpu, memory: min_memory } =
                    &given.requests.min_allowed;
                let ResourceAmounts { cpu: max_cpu, memory: max_memory } =
                    &given.requests.max_allowed;
                let cpu = Given { field: &field, resource: "cpu", min: min_cpu, max: max_cpu };
                let memory =
                    Given { field: &field, resource: "memory", min: min_memory, max: max_memory };
                ContainerPlan {
                    cpu: cpu.bounds(free.cpu, cores)?,
                    memory: memory.bounds(free.memory, memory_bytes)?,
                }
            }
        };
        if named.insert(given.name.clone(), plan).is_some() {
            let problem = format!("container {:?} is named twice; keep one", given.name);
            return Err(PlanError::new(field, problem));
        }
    }
    let others = named.remove("*").unwrap_or(free);
    Ok((named, others))
}

/// The bounds of one resource as a spec has them.
struct Given<'a> {
    field: &'a str,
    resource: &'a str,
    min: &'a Option<Quantity>,
    max: &'a Option<Quantity>,
}

impl Given<'_> {
    /// The bounds, with the ends of `free` where the spec has none; none if the resource is not
    /// controlled.
    fn bounds<T: Copy + Ord + std::fmt::Display>(
        &self,
        free: Option<Bounds<T>>,
        read: impl Fn(&Quantity) -> std::result::Result<T, NotAnAmount>,
    ) -> Result<Option<Bounds<T>>> {
        let Some(free) = free else { return Ok(None) };
        let Self { field, resource, min, max } = self;
        let amount = |which: &str, given: &Option<Quantity>, default: T| match given {
            Some(quantity) => read(quantity).map_err(|refused| {
                PlanError::new(format!("{field}.requests.{which}.{resource}"), refused.to_string())
            }),
            None => Ok(default),
        };
        let low = amount("minAllowed", min, free.low())?;
        let high = amount("maxAllowed", max, free.high())?;
        Bounds::try_new(low, high).map(Some).map_err(|_| {
            let problem =
                format!("minAllowed {resource} {low} is above maxAllowed {high}; lower it");
            PlanError::new(format!("{field}.requests"), problem)
        })
    }
}
