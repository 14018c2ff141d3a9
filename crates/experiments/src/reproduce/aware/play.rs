//! One target under one policy, window by window.

use homeostat_core::SeedTree;
use homeostat_decide::{Features, Guards, Plant, Policy, SimulatedPlant, decide};
use homeostat_lab::Result;
use homeostat_sim_deploy::{DeployPlan, DeployPlant};

use super::workload::{EPISODE, Workload};

/// What a policy did to a workload, by window.
#[derive(Debug, Clone, Default)]
pub(super) struct Played {
    pub(super) windows: Vec<Window>,
}

/// The window after one decision.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) reward: f64,
    /// Utilisation of the CPU and of the memory limit, as monitoring saw it.
    pub(super) cpu: f64,
    pub(super) memory: f64,
    pub(super) is_slo_met: bool,
    pub(super) requests: u64,
    pub(super) slo_violations: u64,
}

/// Plays a policy for this many decisions.
pub(super) fn play(
    workload: &Workload,
    plan: &DeployPlan,
    policy: &mut dyn Policy,
    windows: usize,
    seeds: &SeedTree,
) -> Result<Played> {
    let mut plant = DeployPlant::new(plan, &[workload.number], seeds);
    let mut guards = Guards::bounds_only(*plan.bounds())?;
    let mut features = Features::new(*plan.bounds());
    let mut played = Played::default();
    // The first decision needs something to look at.
    plant.advance()?;
    features.observe(plant.observe(0));
    for _ in 0..windows {
        let decision = decide(policy, &mut guards, plant.observe(0));
        plant.apply(0, &decision)?;
        plant.advance()?;
        let [_, cpu, memory, ..] = features.observe(plant.observe(0)).map(f64::from);
        let reward = plant.reward(0);
        let truth = plant.window(0).expect("a window has just been played");
        played.windows.push(Window {
            reward,
            cpu,
            memory,
            is_slo_met: truth.is_slo_met(),
            requests: truth.settled(),
            slo_violations: truth.slo_violations,
        });
    }
    Ok(played)
}

impl Played {
    /// The windows from one episode on, before another.
    pub(super) fn episodes(&self, from: usize, to: usize) -> Self {
        let windows = self.windows.iter().take(to * EPISODE).skip(from * EPISODE);
        Self { windows: windows.copied().collect() }
    }

    /// Mean reward of a decision.
    pub(super) fn reward(&self) -> f64 {
        self.mean(|window| window.reward)
    }

    /// Mean utilisation of CPU.
    pub(super) fn cpu(&self) -> f64 {
        self.mean(|window| window.cpu)
    }

    /// Mean utilisation of memory.
    pub(super) fn memory(&self) -> f64 {
        self.mean(|window| window.memory)
    }

    /// Part of the windows whose p99 was above the SLO: the paper's SLO violations.
    pub(super) fn violated_windows(&self) -> f64 {
        self.mean(|window| f64::from(u8::from(!window.is_slo_met)))
    }

    /// Part of the requests beyond the SLO's threshold.
    pub(super) fn violating_requests(&self) -> f64 {
        let sum = |figure: fn(&Window) -> u64| self.windows.iter().map(figure).sum::<u64>() as f64;
        sum(|window| window.slo_violations) / sum(|window| window.requests).max(1.0)
    }

    /// The mean reward of each episode.
    pub(super) fn rewards(&self) -> Vec<f64> {
        let episodes = self.windows.chunks(EPISODE);
        episodes.map(|windows| mean(windows, |window| window.reward)).collect()
    }

    /// The mean of a figure in each hour.
    pub(super) fn hourly(&self, figure: fn(&Window) -> f64) -> Vec<f64> {
        const WINDOWS: usize = 240;
        self.windows.chunks_exact(WINDOWS).map(|windows| mean(windows, figure)).collect()
    }

    fn mean(&self, figure: fn(&Window) -> f64) -> f64 {
        mean(&self.windows, figure)
    }
}

fn mean(windows: &[Window], figure: fn(&Window) -> f64) -> f64 {
    windows.iter().map(figure).sum::<f64>() / windows.len().max(1) as f64
}
