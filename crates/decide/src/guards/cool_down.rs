//! Cool-downs: a dimension is held for a while after a change.

use homeostat_core::{Persist, Result as CoreResult, SimDuration, SimTime, Snapshot};

use super::last_decision::LastDecision;
use super::{Guard, GuardContext};
use crate::{Domain, GuardReason, Observe, Setting};

/// Settings of the cool-down; zero for off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CoolDownConfig {
    /// After a dimension went up, it does not go up again for this long.
    pub up: SimDuration,
    /// After a dimension moved either way, it does not go down for this long.
    pub down: SimDuration,
}

/// Remembers the last changes of each dimension.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CoolDown {
    config: CoolDownConfig,
    /// For each dimension; empty before the first decision.
    moves: Vec<LastMoves>,
    last_decision: LastDecision,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct LastMoves {
    up: Option<SimTime>,
    down: Option<SimTime>,
}

impl CoolDown {
    /// A guard without state.
    pub(crate) fn new(config: CoolDownConfig) -> Self {
        Self { config, moves: Vec::new(), last_decision: LastDecision::default() }
    }

    pub(crate) fn set_config(&mut self, config: CoolDownConfig) {
        self.config = config;
    }
}

impl<D: Domain> Guard<D> for CoolDown {
    fn name(&self) -> &'static str {
        "cool_down"
    }

    fn is_on(&self) -> bool {
        self.config != CoolDownConfig::default()
    }

    fn limit(
        &mut self,
        context: &GuardContext<'_, D>,
        wanted: D::Setting,
        reasons: &mut Vec<D::Reason>,
    ) -> D::Setting {
        if self.moves.is_empty() {
            return wanted;
        }
        let (now, base) = (context.obs().now(), context.base());
        let mut left = wanted;
        for (index, dimension) in D::Setting::DIMENSIONS.iter().enumerate() {
            let amount = wanted.amount(index);
            let nearest = self.last_decision.nearest(index, base.amount(index), amount);
            let moves = self.moves.get(index).copied().unwrap_or_default();
            let (last, cool_down) = match amount.cmp(&nearest) {
                std::cmp::Ordering::Equal => continue,
                std::cmp::Ordering::Greater => (moves.up, self.config.up),
                std::cmp::Ordering::Less => (moves.up.max(moves.down), self.config.down),
            };
            if let Some(until) = last.map(|last| last + cool_down).filter(|until| now < *until) {
                let remaining = until.saturating_since(now);
                let dimension = *dimension;
                reasons.push(GuardReason::CoolDown { dimension, remaining }.into());
                left = left.with_amount(index, nearest);
            }
        }
        left
    }

    fn note(&mut self, context: &GuardContext<'_, D>, applied: &D::Setting) {
        self.moves.resize(D::Setting::DIMENSIONS.len(), LastMoves::default());
        for (index, moves) in self.moves.iter_mut().enumerate() {
            let (before, after) = (context.from().amount(index), applied.amount(index));
            if self.last_decision.nearest(index, before, after) != after {
                let way = if after > before { &mut moves.up } else { &mut moves.down };
                *way = Some(context.obs().now());
            }
        }
        self.last_decision.note(applied);
    }
}

impl Persist for CoolDown {
    fn save(&self, name: &str, out: &mut Snapshot) {
        // Zero encodes never: no decision is made at time zero.
        let nanos = |at: Option<SimTime>| at.map_or(0, SimTime::nanos);
        let moves = self.moves.iter().flat_map(|moves| [nanos(moves.up), nanos(moves.down)]);
        out.put_u64(name, moves.collect::<Vec<_>>());
        self.last_decision.save(&format!("{name}/last_decision"), out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        let time = |nanos: u64| (nanos > 0).then(|| SimTime::from_nanos(nanos));
        let moves = from.any_u64s(name)?.chunks_exact(2);
        self.moves =
            moves.map(|pair| LastMoves { up: time(pair[0]), down: time(pair[1]) }).collect();
        self.last_decision.load(&format!("{name}/last_decision"), from)
    }
}
