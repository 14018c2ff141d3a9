//! A platform that grows during a simulation: half-way, functions and nodes are added.

use homeostat_core::{SeedTree, SimTime};
use homeostat_decide::Policy;
use homeostat_lab::Result;
use homeostat_sim_faas::{FaasPlan, Tenants, heuristic};
use homeostat_simulate::Controllers;

/// What is played.
#[derive(Debug, Clone)]
pub struct Growth {
    /// The platform as it is in the end, with all functions.
    pub plan: FaasPlan,
    /// Functions at first.
    pub functions_at_first: usize,
    /// Nodes at first.
    pub nodes_at_first: usize,
    /// The controllers; a function that joins has the policy of its number, and no policy learns
    /// any further.
    pub controllers: Controllers,
    /// Windows before the others come, and as many after.
    pub windows: u64,
}

/// All functions in one window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GrowthWindow {
    /// Its end.
    pub at: SimTime,
    /// Functions that are there.
    pub functions: usize,
    /// Those that met their SLO.
    pub slo_met: usize,
    /// Requests that were answered, given up or lost.
    pub settled: u64,
    /// Requests that violated the SLO.
    pub slo_violations: u64,
    /// Containers, the mean over the window.
    pub containers: f64,
}

impl Growth {
    /// Plays one seed and returns every window. `see` is shown each; an error of it ends the run.
    pub fn run(
        &self,
        seed: u64,
        see: &mut dyn FnMut(&GrowthWindow) -> Result<()>,
    ) -> Result<Vec<GrowthWindow>> {
        let seeds = SeedTree::new(seed).child("growth");
        let mut tenants = Tenants::new(&self.plan, seeds.seed("world"));
        let nodes = self.plan.platform().nodes.len();
        for node in self.nodes_at_first..nodes {
            tenants.platform().fail_node(node)?;
        }
        let mut policies = Vec::new();
        self.welcome(0..self.functions_at_first, &mut tenants, &mut policies, &seeds)?;
        let mut played = Vec::new();
        for number in 0..2 * self.windows {
            if number == self.windows {
                for node in self.nodes_at_first..nodes {
                    tenants.platform().restore_node(node)?;
                }
                let newcomers = self.functions_at_first..self.plan.config().functions;
                self.welcome(newcomers, &mut tenants, &mut policies, &seeds)?;
            }
            tenants.advance();
            let window = summarize(&mut tenants, policies.len());
            see(&window)?;
            played.push(window);
            for (place, policy) in policies.iter_mut().enumerate() {
                tenants.control(place, policy.as_mut())?;
            }
        }
        Ok(played)
    }

    fn welcome(
        &self,
        numbers: std::ops::Range<usize>,
        tenants: &mut Tenants,
        policies: &mut Vec<Box<dyn Policy>>,
        seeds: &SeedTree,
    ) -> Result<()> {
        for number in numbers {
            tenants.join(number % self.plan.functions().count());
            let id = tenants.ids().last().expect("one has just joined");
            let profile = tenants.platform().profile(id);
            let heuristic = |name: &str| heuristic(name, &self.plan, profile);
            let bounds = *self.plan.bounds();
            policies.push(self.controllers.build(number, &heuristic, bounds, seeds)?);
        }
        Ok(())
    }
}

fn summarize(tenants: &mut Tenants, functions: usize) -> GrowthWindow {
    let at = tenants.platform().now();
    let windows = (0..functions).filter_map(|place| tenants.window(place));
    let mut seen =
        GrowthWindow { at, functions, slo_met: 0, settled: 0, slo_violations: 0, containers: 0.0 };
    for window in windows {
        seen.slo_met += usize::from(window.is_slo_met());
        seen.settled += window.settled();
        seen.slo_violations += window.slo_violations;
        seen.containers += window.container_s / window.observation.window.seconds().max(1e-9);
    }
    seen
}

#[cfg(test)]
mod tests {
    use homeostat_rl::Sampling;
    use homeostat_sim_faas::FaasConfig;

    use super::*;

    fn growth() -> Growth {
        let config = FaasConfig { functions: 5, functions_per_node: 3, ..FaasConfig::default() };
        Growth {
            plan: config.build().unwrap(),
            functions_at_first: 3,
            nodes_at_first: 1,
            controllers: Controllers::parse("hpa+vpa", Sampling::Greedy).unwrap(),
            windows: 6,
        }
    }

    #[test]
    fn functions_come_half_way_and_are_served() {
        let mut shown = 0;
        let windows = growth()
            .run(1, &mut |_| {
                shown += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!((shown, windows.len()), (12, 12));
        assert!(windows[..6].iter().all(|window| window.functions == 3), "{windows:?}");
        assert!(windows[6..].iter().all(|window| window.functions == 5), "{windows:?}");
        for window in &windows {
            assert!(window.slo_violations <= window.settled && window.slo_met <= window.functions);
            assert!(window.settled > 0 && window.containers > 0.0, "{window:?}");
        }
        // The newcomers' requests are more than the third that fluctuation explains.
        let settled = |windows: &[GrowthWindow]| windows.iter().map(|w| w.settled).sum::<u64>();
        assert!(settled(&windows[6..]) > settled(&windows[..6]), "{windows:?}");
    }

    #[test]
    fn one_seed_has_one_result_and_the_observer_may_end_the_run() {
        let run = |seed| growth().run(seed, &mut |_| Ok(())).unwrap();
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
        let stopped = growth().run(1, &mut |_| Err(homeostat_lab::Error::Interrupted));
        assert!(matches!(stopped, Err(homeostat_lab::Error::Interrupted)));
    }
}
