//! What guardrails remember of one target.

use homeostat_core::{Persist, Result, SimDuration, SimTime, Snapshot};

use crate::Dimension;
use crate::timed_counts::TimedCounts;

/// When each dimension last moved, recent changes, and how often a proposal was refused.
/// One per target; a recommender that never acts keeps one of its own.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GuardrailMemory {
    replicas: LastMoves,
    cpu: LastMoves,
    memory: LastMoves,
    changes: TimedCounts,
    refusals: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct LastMoves {
    up: Option<SimTime>,
    down: Option<SimTime>,
}

impl GuardrailMemory {
    /// Proposals refused so far because a number was negative or not finite.
    pub fn refusals(&self) -> u64 {
        self.refusals
    }

    pub(crate) fn count_refusal(&mut self) {
        self.refusals += 1;
    }

    /// When the dimension last went up.
    pub(crate) fn last_up(&self, dimension: Dimension) -> Option<SimTime> {
        self.moves(dimension).up
    }

    /// When the dimension last went either way.
    pub(crate) fn last_move(&self, dimension: Dimension) -> Option<SimTime> {
        let moves = self.moves(dimension);
        moves.up.max(moves.down)
    }

    /// Notes that the dimension moves now.
    pub(crate) fn note_move(&mut self, now: SimTime, dimension: Dimension, is_up: bool) {
        let moves = match dimension {
            Dimension::Replicas => &mut self.replicas,
            Dimension::Cpu => &mut self.cpu,
            Dimension::Memory => &mut self.memory,
        };
        *(if is_up { &mut moves.up } else { &mut moves.down }) = Some(now);
    }

    /// Notes that something is changed now.
    pub(crate) fn note_change(&mut self, now: SimTime) {
        self.changes.push(now, 1);
    }

    /// Time until fewer than `most` changes lie within `per`; none if that is so now.
    pub(crate) fn wait_for_rate(
        &mut self,
        now: SimTime,
        most: u32,
        per: SimDuration,
    ) -> Option<SimDuration> {
        self.changes.forget(now, per);
        // The change that has to grow old before the number is below the limit again.
        let blocking = self.changes.len().checked_sub(most as usize)?;
        self.changes.time(blocking).map(|at| (at + per).saturating_since(now))
    }

    fn moves(&self, dimension: Dimension) -> &LastMoves {
        match dimension {
            Dimension::Replicas => &self.replicas,
            Dimension::Cpu => &self.cpu,
            Dimension::Memory => &self.memory,
        }
    }
}

impl Persist for GuardrailMemory {
    fn save(&self, name: &str, out: &mut Snapshot) {
        for (part, moves) in
            [("replicas", &self.replicas), ("cpu", &self.cpu), ("memory", &self.memory)]
        {
            for (way, at) in [("up", moves.up), ("down", moves.down)] {
                let at: Vec<_> = at.map(SimTime::nanos).into_iter().collect();
                out.put_u64(&format!("{name}/{part}/{way}"), at);
            }
        }
        self.changes.save(&format!("{name}/changes"), out);
        out.put_u64(&format!("{name}/refusals"), [self.refusals]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        let read = |part: &str| -> Result<LastMoves> {
            let at = |way: &str| -> Result<Option<SimTime>> {
                let words = from.any_u64s(&format!("{name}/{part}/{way}"))?;
                Ok(words.first().copied().map(SimTime::from_nanos))
            };
            Ok(LastMoves { up: at("up")?, down: at("down")? })
        };
        self.replicas = read("replicas")?;
        self.cpu = read("cpu")?;
        self.memory = read("memory")?;
        self.changes.load(&format!("{name}/changes"), from)?;
        self.refusals = from.u64s(&format!("{name}/refusals"), 1)?[0];
        Ok(())
    }
}
