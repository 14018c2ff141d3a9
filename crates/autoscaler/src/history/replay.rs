//! Replays a whole recording for several autoscalers.

use homeostat_core::{Bytes, Millicores, SimTime};
use homeostat_decide::{MemberState, Reason, TeamState, Teams};

use super::player::{Follow, Played, Player, played_recommender};
use super::recording::{Recording, Sample};
use super::tally::{SloState, Tally, is_met};
use crate::api::Plan;
use crate::learn::ServedPolicy;
use crate::recommend::Outcome;

/// What happened, and what three autoscalers would have done.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// The recommender that was replayed.
    pub recommender: &'static str,
    /// What happened.
    pub recorded: Tally,
    /// What the recommender would have done.
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
    /// Samples in which another recommender stood in for the policy file.
    pub substituted: Option<Substituted>,
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

/// A workload and its recorded history.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadHistory {
    /// Its plan.
    pub plan: Plan,
    /// Its history.
    pub recording: Recording,
    /// The policy file that recommends; the recommender of the plan if there is none.
    pub policy: Option<ServedPolicy>,
}

/// Samples in which another recommender stood in for a policy file.
#[derive(Debug, Clone, PartialEq)]
pub struct Substituted {
    /// How many.
    pub samples: u32,
    /// Why, in the last of them.
    pub why: String,
}

/// A member whose last state is older than this many samples has left its team.
const MEMBER_SAMPLES: u64 = 2;

/// Replays the histories of workloads for all autoscalers. They have samples at the same times. Each
/// sees the other members of its team as they were in the sample before, as in the operator.
pub fn replay(workloads: &[WorkloadHistory]) -> homeostat_decide::Result<Vec<Replay>> {
    let mut running =
        workloads.iter().map(Running::new).collect::<homeostat_decide::Result<Vec<_>>>()?;
    let samples = workloads.iter().map(|workload| workload.recording.samples.len()).max();
    let mut teams = Teams::default();
    for index in 0..samples.unwrap_or(0) {
        let before = teams.clone();
        for (number, (one, workload)) in running.iter_mut().zip(workloads).enumerate() {
            let WorkloadHistory { plan, recording, .. } = workload;
            let Some(sample) = recording.samples.get(index) else { continue };
            let seen = before.snapshot(sample.at, recording.step * MEMBER_SAMPLES);
            let others = seen.get(&plan.team).map(|team| team.others(&number));
            if let Some(state) = one.play(sample, others) {
                teams.report(number, plan.team.clone(), sample.at, state);
            }
        }
    }
    Ok(running.into_iter().map(|running| running.replay).collect())
}

/// A replay that is under way.
struct Running<'a> {
    plan: &'a Plan,
    hours: f64,
    ours: Player,
    hpa: Player,
    vpa: Player,
    /// What there was in the sample before: recorded, and under each autoscaler.
    before: [Option<(u32, Millicores, Bytes)>; 4],
    replay: Replay,
}

impl<'a> Running<'a> {
    fn new(workload: &'a WorkloadHistory) -> homeostat_decide::Result<Self> {
        let WorkloadHistory { plan, recording, policy } = workload;
        let player = |follow| Player::new(plan.clone(), follow, recording.step);
        let is_served = policy.is_some();
        Ok(Self {
            plan,
            hours: recording.step.seconds() / 3600.0,
            ours: player(Follow::Recommender)?.serving(policy.clone()),
            hpa: player(Follow::Horizontal)?,
            vpa: player(Follow::Vertical)?,
            before: [None; 4],
            replay: Replay {
                recommender: if is_served { "policy" } else { played_recommender(plan) },
                recorded: Tally::default(),
                ours: Tally::default(),
                hpa: Tally::default(),
                vpa: Tally::default(),
                used_core_hours: 0.0,
                changes: Vec::new(),
                gaps: 0,
                substituted: None,
            },
        })
    }

    /// Plays one sample. Returns what the other members of the team see of the workload.
    fn play(&mut self, sample: &Sample, others: Option<TeamState>) -> Option<MemberState> {
        let Self { plan, hours, ours, hpa, vpa, before, replay } = self;
        let Some(played) = ours.play(sample, others) else {
            replay.gaps += 1;
            return None;
        };
        replay.used_core_hours += sample.cores_used() * *hours;
        let slo = match is_met(plan, sample.objective) {
            Some(true) => SloState::Met,
            Some(false) => SloState::Violated,
            None => SloState::Unknown,
        };
        replay.recorded.add_recorded(*hours, sample, slo);
        let pods = sample.pods.len() as u32;
        let first = sample.pods.first().map(super::player::sizes_of).unwrap_or_default();
        let size =
            first.values().fold(Default::default(), |(cpu, memory): (Millicores, Bytes), size| {
                (cpu + size.0, memory + size.1)
            });
        count_change(&mut replay.recorded, &mut before[0], (pods, size.0, size.1));
        replay.ours.add(*hours, sample, &played.stage, played.slo);
        count_change(&mut replay.ours, &mut before[1], has(&played));
        replay.changes.extend(change(sample, &played));
        for (index, player) in [hpa, vpa].into_iter().enumerate() {
            let Some(played) = player.play(sample, None) else { continue };
            let tally = if index == 0 { &mut replay.hpa } else { &mut replay.vpa };
            tally.add(*hours, sample, &played.stage, played.slo);
            count_change(tally, &mut before[2 + index], has(&played));
        }
        let outcome = played.outcome?;
        if let Some(absence) = outcome.absence {
            let samples = replay.substituted.as_ref().map_or(0, |before| before.samples) + 1;
            replay.substituted = Some(Substituted { samples, why: absence.message });
        }
        outcome.member
    }
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
