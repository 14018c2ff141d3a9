//! Replays a whole recording for several autoscalers.

use homeostat_core::{Bytes, Millicores, SimTime};
use homeostat_decide::Reason;

use super::player::{Follow, Played, Player};
use super::recording::{Recording, Sample};
use super::tally::{SloState, Tally, is_met};
use crate::api::Plan;
use crate::recommend::Outcome;

/// What happened, and what three autoscalers would have done.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// What happened.
    pub recorded: Tally,
    /// What the recommender of the plan would have done.
    pub ours: Tally,
    /// What HPA alone would have done.
    pub hpa: Tally,
    /// What VPA alone would have done.
    pub vpa: Tally,
    /// Core-hours that were used.
    pub used_core_hours: f64,
    /// Every change that the recommender would have made.
    pub changes: Vec<Change>,
    /// Samples without pods.
    pub gaps: u32,
}

/// One change that the recommender would have made.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// When.
    pub at: SimTime,
    /// The recorded number of pods.
    pub recorded_replicas: u32,
    /// Number of pods, and cores and bytes of each, before the change.
    pub from: (u32, Millicores, Bytes),
    /// The same after the change.
    pub to: (u32, Millicores, Bytes),
    /// The reasons.
    pub reasons: Vec<String>,
}

/// Replays a recording for all autoscalers.
pub fn replay(plan: &Plan, recording: &Recording) -> homeostat_decide::Result<Replay> {
    let step = recording.step;
    let hours = step.seconds() / 3600.0;
    let player = |follow| Player::new(plan.clone(), follow, step);
    let mut ours = player(Follow::Recommender)?;
    let mut others = [player(Follow::Horizontal)?, player(Follow::Vertical)?];
    let mut replay = Replay {
        recorded: Tally::default(),
        ours: Tally::default(),
        hpa: Tally::default(),
        vpa: Tally::default(),
        used_core_hours: 0.0,
        changes: Vec::new(),
        gaps: 0,
    };
    let mut before: [Option<(u32, Millicores, Bytes)>; 4] = [None; 4];
    for sample in &recording.samples {
        let Some(played) = ours.play(sample) else {
            replay.gaps += 1;
            continue;
        };
        replay.used_core_hours += sample.cores_used() * hours;
        let slo = match is_met(plan, sample.objective) {
            Some(true) => SloState::Met,
            Some(false) => SloState::Violated,
            None => SloState::Unknown,
        };
        replay.recorded.add_recorded(hours, sample, slo);
        let pods = sample.pods.len() as u32;
        let first = sample.pods.first().map(super::player::sizes_of).unwrap_or_default();
        let size =
            first.values().fold(Default::default(), |(cpu, memory): (Millicores, Bytes), size| {
                (cpu + size.0, memory + size.1)
            });
        count_change(&mut replay.recorded, &mut before[0], (pods, size.0, size.1));
        replay.ours.add(hours, sample, &played.stage, played.slo);
        count_change(&mut replay.ours, &mut before[1], has(&played));
        replay.changes.extend(change(sample, &played));
        for (index, player) in others.iter_mut().enumerate() {
            let Some(played) = player.play(sample) else { continue };
            let tally = if index == 0 { &mut replay.hpa } else { &mut replay.vpa };
            tally.add(hours, sample, &played.stage, played.slo);
            count_change(tally, &mut before[2 + index], has(&played));
        }
    }
    Ok(replay)
}

fn has(played: &Played) -> (u32, Millicores, Bytes) {
    let (cpu, memory) = played.stage.pod();
    (played.stage.replicas(), cpu, memory)
}

fn count_change(
    tally: &mut Tally,
    before: &mut Option<(u32, Millicores, Bytes)>,
    now: (u32, Millicores, Bytes),
) {
    if let Some(before) = *before {
        tally.scalings += u32::from(before.0 != now.0);
        tally.resizes += u32::from((before.1, before.2) != (now.1, now.2));
    }
    *before = Some(now);
}

fn change(sample: &Sample, played: &Played) -> Option<Change> {
    let outcome = played.outcome.as_ref()?;
    let from = has(played);
    let size = outcome.containers.values().copied();
    let size =
        size.fold((Millicores::ZERO, Bytes::ZERO), |sum, size| (sum.0 + size.0, sum.1 + size.1));
    let to = (outcome.decision.applied().replicas, size.0, size.1);
    let is_resized = (from.1, from.2) != (to.1, to.2);
    let recorded_replicas = sample.pods.len() as u32;
    (from != to).then(|| Change {
        at: sample.at,
        recorded_replicas,
        from,
        to,
        reasons: reasons(outcome, is_resized, sample.objective.is_some()),
    })
}

/// The reasons of a change, without those of sizes that did not change.
fn reasons(outcome: &Outcome, is_resized: bool, is_measured: bool) -> Vec<String> {
    let shown = |(index, text): (usize, &String)| match outcome.decision.reasons().get(index) {
        Some(Reason::InsideRange) => None,
        Some(Reason::Recommendation { .. }) if !is_resized => None,
        // It was measured, but with other pods, so that the engine did not get it.
        Some(Reason::NoRequests) if is_measured => {
            Some("latency with this amount of CPU was not observed".to_owned())
        }
        _ => Some(text.clone()),
    };
    outcome.reasons.iter().enumerate().filter_map(shown).collect()
}
