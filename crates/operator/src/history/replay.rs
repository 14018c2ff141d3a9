//! A whole recording, played for everybody, beside what happened.

use homeostat_core::{Bytes, Millicores, SimTime};
use homeostat_decide::Reason;

use super::player::{Follow, Played, Player};
use super::recording::{Moment, Recording};
use super::tally::{Objective, Tally, is_kept};
use crate::api::Plan;
use crate::recommend::Outcome;

/// A recording beside what three autoscalers would have made of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// What happened.
    pub recorded: Tally,
    /// What the recommender of the plan would have done.
    pub ours: Tally,
    /// What the horizontal autoscaler by itself would have done.
    pub hpa: Tally,
    /// What the vertical autoscaler by itself would have done.
    pub vpa: Tally,
    /// Core-hours that were really used.
    pub used_core_hours: f64,
    /// Every change that the recommender would have made.
    pub changes: Vec<Change>,
    /// Moments of which nothing is recorded.
    pub gaps: u32,
}

/// One change that the recommender would have made.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// When.
    pub at: SimTime,
    /// Pods that there were.
    pub recorded_replicas: u32,
    /// Pods, and cores and bytes of each, before.
    pub from: (u32, Millicores, Bytes),
    /// And after.
    pub to: (u32, Millicores, Bytes),
    /// Why.
    pub reasons: Vec<String>,
}

/// Plays a recording for everybody.
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
    for moment in &recording.moments {
        let Some(played) = ours.play(moment) else {
            replay.gaps += 1;
            continue;
        };
        replay.used_core_hours += moment.cores_used() * hours;
        let objective = match is_kept(plan, moment.objective) {
            Some(true) => Objective::Kept,
            Some(false) => Objective::Broken,
            None => Objective::Unknown,
        };
        replay.recorded.add_recorded(hours, moment, objective);
        let pods = moment.pods.len() as u32;
        let first = moment.pods.first().map(super::player::sizes_of).unwrap_or_default();
        let size =
            first.values().fold(Default::default(), |(cpu, memory): (Millicores, Bytes), size| {
                (cpu + size.0, memory + size.1)
            });
        count_change(&mut replay.recorded, &mut before[0], (pods, size.0, size.1));
        replay.ours.add(hours, moment, &played.stage, played.objective);
        count_change(&mut replay.ours, &mut before[1], has(&played));
        replay.changes.extend(change(moment, &played));
        for (place, player) in others.iter_mut().enumerate() {
            let Some(played) = player.play(moment) else { continue };
            let tally = if place == 0 { &mut replay.hpa } else { &mut replay.vpa };
            tally.add(hours, moment, &played.stage, played.objective);
            count_change(tally, &mut before[2 + place], has(&played));
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

fn change(moment: &Moment, played: &Played) -> Option<Change> {
    let outcome = played.outcome.as_ref()?;
    let from = has(played);
    let size = outcome.containers.values().copied();
    let size =
        size.fold((Millicores::ZERO, Bytes::ZERO), |sum, size| (sum.0 + size.0, sum.1 + size.1));
    let to = (outcome.decision.applied.replicas, size.0, size.1);
    let is_resized = (from.1, from.2) != (to.1, to.2);
    let recorded_replicas = moment.pods.len() as u32;
    (from != to).then(|| Change {
        at: moment.at,
        recorded_replicas,
        from,
        to,
        reasons: reasons(outcome, is_resized, moment.objective.is_some()),
    })
}

/// Why something changed, without what is said of sizes if they stayed.
fn reasons(outcome: &Outcome, is_resized: bool, is_measured: bool) -> Vec<String> {
    let said = |(place, words): (usize, &String)| match outcome.decision.reasons.get(place) {
        Some(Reason::InsideRange) => None,
        Some(Reason::Recommendation { .. }) if !is_resized => None,
        // It was measured, but not with such pods, and was not told to the engine.
        Some(Reason::NoRequests) if is_measured => {
            Some("latency with so little CPU, or so much, was not observed".to_owned())
        }
        _ => Some(words.clone()),
    };
    outcome.reasons.iter().enumerate().filter_map(said).collect()
}
