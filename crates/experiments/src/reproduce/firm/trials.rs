//! One anomaly that stays for a minute: how long until its SLOs are met again.

use homeostat_anomalies::AnomalyKind;
use homeostat_core::{SeedTree, SimDuration};
use homeostat_decide::{Plant, SloStatus};
use homeostat_lab::Result;
use homeostat_sim_mesh::{MeshPlan, MeshPlant};

use super::controllers::{Arm, Controllers, FirmModels};
use super::refused;

/// Windows before the anomaly, and with it (3.3.3: one minute).
const CALM_WINDOWS: u32 = 30;
const ANOMALY_WINDOWS: u32 = 60;
/// Windows in a row that meet the SLO: what is repaired stays repaired.
const REPAIRED_WINDOWS: usize = 3;

/// An anomaly at a place.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    pub(super) kind: AnomalyKind,
    service: usize,
    intensity: f64,
    seeds: SeedTree,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Repair {
    /// From the first violation to the first of the windows that meet the SLO; to the end where none do.
    pub(super) seconds: f64,
    pub(super) is_repaired: bool,
    /// Part of the windows that violate the SLO.
    pub(super) violated: f64,
}

impl Trial {
    pub(super) fn draw(plan: &MeshPlan, number: usize, seeds: &SeedTree) -> Self {
        let seeds = seeds.child(&format!("trial/{number}"));
        let mut rng = seeds.stream("anomaly");
        Self {
            kind: AnomalyKind::ALL[rng.below(AnomalyKind::ALL.len())],
            service: rng.below(plan.topology().services().len()),
            intensity: rng.uniform(),
            seeds,
        }
    }

    /// Plays it under one arm: the same requests for all.
    pub(super) fn play(&self, plan: &MeshPlan, arm: Arm, models: &FirmModels) -> Result<Repair> {
        let mut plant = MeshPlant::new(plan, &self.seeds).map_err(refused)?;
        let mut controllers = Controllers::new(arm, &mut plant, models)?;
        for _ in 0..CALM_WINDOWS {
            plant.advance()?;
            controllers.step(&mut plant, plan)?;
        }
        let replica = plant.mesh().ready_replicas(self.service)[0];
        let length = SimDuration::from_secs(u64::from(ANOMALY_WINDOWS));
        plant.mesh_mut().inject(self.kind, replica, self.intensity, length).map_err(refused)?;
        let mut violated = Vec::new();
        for _ in 0..ANOMALY_WINDOWS {
            plant.advance()?;
            violated.push(plant.observe(self.service).slo_status == SloStatus::Violated);
            controllers.step(&mut plant, plan)?;
        }
        Ok(repair(&violated, plan.config().window_s))
    }
}

fn repair(violated: &[bool], window_s: f64) -> Repair {
    let part = violated.iter().filter(|one| **one).count() as f64 / violated.len() as f64;
    let Some(first) = violated.iter().position(|one| *one) else {
        return Repair { seconds: 0.0, is_repaired: true, violated: part };
    };
    let met = |windows: &[bool]| windows.iter().all(|violated| !violated);
    let found = violated[first..].windows(REPAIRED_WINDOWS).position(met);
    let windows = found.unwrap_or(violated.len() - first);
    Repair { seconds: windows as f64 * window_s, is_repaired: found.is_some(), violated: part }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repair_is_timed_from_the_first_violation_to_the_first_lasting_success() {
        let check = |pattern: &str, seconds: f64, is_repaired: bool| {
            let violated: Vec<bool> = pattern.chars().map(|one| one == 'x').collect();
            let found = repair(&violated, 0.5);
            assert_eq!((found.seconds, found.is_repaired), (seconds, is_repaired), "{pattern}");
        };
        check("......", 0.0, true);
        check("..xx....", 1.0, true);
        check("..xx.x...", 2.0, true);
        check("..xx.x..", 3.0, false);
        check("xxxx", 2.0, false);
    }
}
