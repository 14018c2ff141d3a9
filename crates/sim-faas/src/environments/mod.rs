//! The platform as environments: one function alone, one among others, a fleet of agents, the
//! stages of chains, and the course's.

mod cards;
mod chain;
mod chain_plan;
mod chained;
mod config;
mod course;
mod fleet;
mod picture;
mod plant;
mod registry;
mod single;
mod tenants;
mod text_view;

use homeostat_decide::{
    EnsureConfig, HpaVpaConfig, JointConfig, KpaConfig, PolicyConfig, ShortFirstConfig, VpaConfig,
};
use homeostat_env::Info;

pub use chain::Chains;
pub use chain_plan::PlannedChain;
pub use config::{FaasConfig, FaasPlan, LoadKind};
pub use fleet::Fleet;
pub use homeostat_decide::RewardPreset;
pub use plant::{FaasPlant, KEEP_ALIVE};
pub(crate) use registry::{CHAIN, is_shared};
pub use registry::{make, make_multi_agent, specs};
pub use tenants::Tenants;

use crate::platform::Window;
use crate::profile::FunctionProfile;

/// Episodes of the curriculum's first part, and its steps in them. Section 4.5.1 gives the
/// 70 episodes; the ten steps and the pace of the growth are ours.
const SHORT_EPISODES: u64 = 70;
const SHORT_STEPS: u32 = 10;

/// Steps of the `episode`-th episode, counted from one, where the last ones have `most`.
fn curriculum(episode: u64, most: u32) -> u32 {
    let longer = episode.saturating_sub(SHORT_EPISODES);
    let steps = u64::from(SHORT_STEPS) + longer / 2;
    u32::try_from(steps).unwrap_or(u32::MAX).min(most)
}

/// A heuristic by name, with what an operator would configure for a function on this platform:
/// the Knative autoscaler gets the number of requests that a container serves at once, ENSURE and
/// staffing get the mean service time. VPA's history decays by half in ten windows instead of a day,
/// since episodes last minutes. All other times stay as they are.
pub fn heuristic(
    name: &str,
    plan: &FaasPlan,
    profile: &FunctionProfile,
) -> homeostat_decide::Result<PolicyConfig> {
    const DAY_S: f64 = 86_400.0;
    let vpa = || VpaConfig::scaled(DAY_S / (10.0 * plan.window.seconds()));
    let slots = f64::from(plan.platform.slots);
    Ok(match PolicyConfig::by_name(name)? {
        PolicyConfig::Kpa(_) => PolicyConfig::Kpa(KpaConfig::with_concurrency(slots)),
        PolicyConfig::Ensure(config) => PolicyConfig::Ensure(EnsureConfig {
            service_time: Some(profile.cpu + profile.io),
            ..config
        }),
        PolicyConfig::ShortFirst(config) => PolicyConfig::ShortFirst(ShortFirstConfig {
            service: Some(profile.service_time()),
            ..config
        }),
        PolicyConfig::Vpa(_) => PolicyConfig::Vpa(vpa()?),
        PolicyConfig::HpaVpa(config) => {
            PolicyConfig::HpaVpa(HpaVpaConfig { vpa: vpa()?, ..config })
        }
        PolicyConfig::Joint(config) => PolicyConfig::Joint(JointConfig { vpa: vpa()?, ..config }),
        other => other,
    })
}

/// Figures of the last window of the tenant at this place; none before the first window.
fn info_at(tenants: Option<&Tenants>, place: Option<usize>) -> Info {
    let window = tenants.zip(place).and_then(|(tenants, place)| tenants.window(place));
    window.map_or(Info::new(), info_of)
}

/// Figures of a window for people and logs.
fn info_of(window: &Window) -> Info {
    let settled = window.completed + window.timed_out + window.failed;
    let latency = window.observation.latency.map_or(0.0, |latency| latency.seconds() * 1e3);
    vec![
        ("p99_ms", latency),
        ("settled", settled as f64),
        ("slo_violations", window.slo_violations as f64),
        // The name of 0.1.0, for one release.
        ("missed", window.slo_violations as f64),
        ("containers", f64::from(window.observation.allocation.replicas)),
        ("container_s", window.container_s),
        ("memory_gib_s", window.memory_gib_s),
        ("cpu_s", window.cpu_s),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn episodes_grow_from_ten_steps_to_all() {
        let check = |episode, expect| assert_eq!(curriculum(episode, 50), expect, "{episode}");
        check(1, 10);
        check(70, 10);
        check(90, 20);
        check(150, 50);
        check(1000, 50);
    }
}
