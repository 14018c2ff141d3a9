//! The decisions of a policy under its life cycle, by episode.

use std::collections::VecDeque;

use homeostat_core::trajectory::{End, Transition};
use homeostat_core::{Persist, Snapshot};
use homeostat_decide::{AllocationTarget, Features};
use homeostat_env::EnvSpec;
use homeostat_rl::{OfflineDataset, Recorded, Recording};

use super::config::HELD_OUT;

/// The latest episodes, and the transitions to learn from.
pub(super) struct Episodes {
    spec: EnvSpec,
    most: usize,
    finished: VecDeque<Recording>,
    /// Episodes that were dropped: those that are held out stay the same ones.
    dropped: usize,
    open: Vec<Transition>,
    /// What was observed after the last of them.
    last: Vec<f32>,
    data: OfflineDataset,
    /// Whether every so many episodes are kept from the data, for evaluation.
    holds_out: bool,
}

impl Episodes {
    pub(super) fn new(spec: &EnvSpec, most: usize, holds_out: bool) -> homeostat_rl::Result<Self> {
        Ok(Self {
            data: OfflineDataset::new(spec)?,
            spec: spec.clone(),
            most,
            finished: VecDeque::new(),
            dropped: 0,
            open: Vec::new(),
            last: Vec::new(),
            holds_out,
        })
    }

    /// Finished episodes.
    pub(super) fn len(&self) -> usize {
        self.finished.len()
    }

    /// Decisions of the open episode.
    pub(super) fn open_len(&self) -> usize {
        self.open.len()
    }

    /// Appends a decision and what followed. Where nothing is held out, it can be learnt from at once.
    pub(super) fn push(
        &mut self,
        transition: Transition,
        next: &[f32],
    ) -> homeostat_rl::Result<()> {
        if !self.holds_out {
            self.data.push(&Recorded {
                obs: &transition.observation,
                action: &transition.action,
                reward: transition.reward,
                next_obs: next,
                terminated: false,
            })?;
        }
        self.open.push(transition);
        self.last = next.to_vec();
        Ok(())
    }

    /// Ends the open episode. Returns its mean reward.
    pub(super) fn finish(&mut self) -> homeostat_rl::Result<f64> {
        let transitions = std::mem::take(&mut self.open);
        let rewards: f64 = transitions.iter().map(|transition| transition.reward).sum();
        let mean = rewards / transitions.len().max(1) as f64;
        let end = Some((End::Truncated, self.last.clone()));
        self.finished.push_back(Recording { workload: String::new(), transitions, end });
        let is_full = self.finished.len() > self.most;
        if is_full {
            self.finished.pop_front();
            self.dropped += 1;
        }
        if self.holds_out || is_full {
            self.rebuild()?;
        }
        Ok(mean)
    }

    /// Forgets all but the latest episodes, and from now on holds some out for evaluation or none.
    pub(super) fn keep(&mut self, latest: usize, holds_out: bool) -> homeostat_rl::Result<()> {
        let excess = self.finished.len().saturating_sub(latest);
        self.finished.drain(..excess);
        self.dropped += excess;
        self.holds_out = holds_out;
        self.rebuild()
    }

    /// What may be learnt from.
    pub(super) fn data(&self) -> &OfflineDataset {
        &self.data
    }

    /// What was held out.
    pub(super) fn held_out(&self) -> Vec<Recording> {
        let numbered = self.finished.iter().enumerate();
        let held_out = numbered.filter(|(index, _)| self.is_held_out(*index));
        held_out.map(|(_, recording)| recording.clone()).collect()
    }

    fn is_held_out(&self, index: usize) -> bool {
        self.holds_out && (self.dropped + index).is_multiple_of(HELD_OUT)
    }

    fn rebuild(&mut self) -> homeostat_rl::Result<()> {
        let learnt_from = self.finished.iter().enumerate();
        let learnt_from = learnt_from.filter(|(index, _)| !self.is_held_out(*index));
        let open = (!self.holds_out).then(|| Recording {
            workload: String::new(),
            transitions: self.open.clone(),
            end: Some((End::Truncated, self.last.clone())),
        });
        let all = learnt_from.map(|(_, one)| one).chain(&open);
        self.data = OfflineDataset::from_recordings(&self.spec, all)?;
        Ok(())
    }
}

impl Persist for Episodes {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let all = || self.finished.iter().flat_map(|one| &one.transitions).chain(&self.open);
        let flat = |numbers: fn(&Transition) -> &Vec<f32>| -> Vec<f32> {
            all().flat_map(numbers).copied().collect()
        };
        out.put_f32(&format!("{name}/observations"), flat(|one| &one.observation));
        out.put_f32(&format!("{name}/actions"), flat(|one| &one.action));
        out.put_f64(&format!("{name}/rewards"), all().map(|one| one.reward).collect::<Vec<_>>());
        out.put_u64(
            &format!("{name}/times"),
            all().map(|one| one.at_ms as u64).collect::<Vec<_>>(),
        );
        let ends = self.finished.iter().filter_map(|one| one.end.as_ref());
        out.put_f32(
            &format!("{name}/ends"),
            ends.flat_map(|(_, last)| last).copied().collect::<Vec<_>>(),
        );
        let mut lengths = vec![u64::from(self.holds_out), self.dropped as u64];
        lengths.extend(self.finished.iter().map(|one| one.transitions.len() as u64));
        out.put_u64(&format!("{name}/lengths"), lengths);
        out.put_f32(&format!("{name}/last"), self.last.as_slice());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        let observations =
            from.any_f32s(&format!("{name}/observations"))?.chunks_exact(Features::COUNT);
        let actions =
            from.any_f32s(&format!("{name}/actions"))?.chunks_exact(AllocationTarget::COUNT);
        let rewards = from.any_f64s(&format!("{name}/rewards"))?;
        let times = from.any_u64s(&format!("{name}/times"))?;
        let numbers = observations.zip(actions).zip(rewards).zip(times);
        let mut transitions = numbers.map(|(((observation, action), reward), at)| Transition {
            at_ms: *at as i64,
            observation: observation.to_vec(),
            action: action.to_vec(),
            reward: *reward,
            probability: None,
        });
        let mut ends = from.any_f32s(&format!("{name}/ends"))?.chunks_exact(Features::COUNT);
        let lengths = from.any_u64s(&format!("{name}/lengths"))?;
        let (facts, lengths) = lengths.split_at(lengths.len().min(2));
        self.holds_out = facts.first() == Some(&1);
        self.dropped = facts.get(1).map_or(0, |dropped| *dropped as usize);
        self.finished.clear();
        for length in lengths {
            self.finished.push_back(Recording {
                workload: String::new(),
                transitions: transitions.by_ref().take(*length as usize).collect(),
                end: ends.next().map(|last| (End::Truncated, last.to_vec())),
            });
        }
        self.open = transitions.collect();
        self.last = from.any_f32s(&format!("{name}/last"))?.to_vec();
        // What was learnt from once is accepted again.
        self.rebuild().expect("a snapshot holds transitions that were accepted before");
        Ok(())
    }
}
