//! Which models a group serves: the greedy selection of AlpaServe, guided by the simulator.
//!
//! AlpaServe tries every pair of model and group in each round. Its own faster variant, used here, simulates
//! once a round: the models with the most SLO violations get another copy, each in the least busy group with
//! room. Deviation: one round adds copies of up to a quarter of the models.

use homeostat_core::Stream;

use crate::Result;
use crate::layout::{Context, Layout};
use crate::simulation::{Outcome, RequestTrace};

/// What decides between groups with room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preference {
    /// The least busy group.
    LeastBusy,
    /// The least energy for a request, among groups that are not too busy.
    LeastEnergy,
}

/// A group that would be busier than this is too busy to be chosen for its energy.
const TOO_BUSY: f64 = 0.5;

/// Rounds without a better attainment after which the search ends.
const PATIENCE: usize = 3;

/// Adds models to empty groups. Returns the best layout found and its outcome.
pub(crate) fn select_models(
    ctx: Context,
    mut layout: Layout,
    preference: Preference,
    trace: &RequestTrace,
) -> Result<(Layout, Outcome)> {
    let load = loads(ctx, &layout);
    let mut order: Vec<usize> = (0..load.len()).collect();
    // Large loads first leave room for small ones; the sort is stable.
    order.sort_by(|a, b| load[*b].total_cmp(&load[*a]));
    for model in order {
        // A model that fits nowhere stays out; its requests count as violations.
        if let Some(group) = choose_group(ctx, &layout, model, preference, None) {
            layout.place(model, group);
        }
    }
    let mut outcome = Outcome::simulate(layout.deployment(ctx), trace, None)?;
    let mut best = (layout.clone(), outcome.clone());
    let mut rounds_without_gain = 0;
    while best.1.attainment() < 1.0 && rounds_without_gain < PATIENCE {
        let mut worst: Vec<usize> = (0..ctx.workload.models.len())
            .filter(|model| outcome.models[*model].violations() > 0)
            .collect();
        worst.sort_by_key(|model| std::cmp::Reverse(outcome.models[*model].violations()));
        let mut left = ctx.workload.models.len().div_ceil(4);
        let before = layout.placed.len();
        for model in worst {
            if left == 0 {
                break;
            }
            let measured = (before == layout.placed.len()).then_some(&outcome.busy[..]);
            if let Some(group) = choose_group(ctx, &layout, model, preference, measured) {
                layout.place(model, group);
                left -= 1;
            }
        }
        if layout.placed.len() == before {
            break;
        }
        outcome = Outcome::simulate(layout.deployment(ctx), trace, None)?;
        rounds_without_gain += 1;
        if outcome.attainment() > best.1.attainment() {
            best = (layout.clone(), outcome.clone());
            rounds_without_gain = 0;
        }
    }
    Ok(best)
}

/// Copies per group up to which spare memory is filled.
const FILL: usize = 2;

/// Fills spare memory with further copies: the model with the most load for each copy first, each on the
/// least busy group with room. Copies leave headroom for bursts, and for lower clocks.
pub(crate) fn fill(ctx: Context, mut layout: Layout, preference: Preference) -> Layout {
    let mut open: Vec<usize> = (0..ctx.workload.models.len()).collect();
    let load = loads(ctx, &layout);
    while layout.placed.len() < FILL * layout.groups.len() {
        let copies = layout.copies(ctx);
        let per_copy = |model: usize| load[model] / copies[model].max(1) as f64;
        let next = open
            .iter()
            .copied()
            .max_by(|a, b| per_copy(*a).total_cmp(&per_copy(*b)).then(b.cmp(a)));
        let Some(model) = next else { break };
        match choose_group(ctx, &layout, model, preference, None) {
            Some(group) => layout.place(model, group),
            None => open.retain(|other| *other != model),
        }
    }
    layout
}

/// Models in turn on groups in turn; every group serves one and every model is served, if there is room.
pub(crate) fn round_robin(ctx: Context, mut layout: Layout) -> Layout {
    let (models, groups) = (ctx.workload.models.len(), layout.groups.len());
    let mut next = 0;
    for turn in 0..models.max(groups) {
        let model = turn % models;
        let bytes = layout.bytes(ctx);
        let free = |offset: &usize| {
            let group = (next + offset) % groups;
            layout.has_room(ctx, &bytes, model, group) && !serves(&layout, group, model)
        };
        if let Some(offset) = (0..groups).find(free) {
            let group = (next + offset) % groups;
            layout.place(model, group);
            next = group + 1;
        }
    }
    layout
}

/// Models in random order, each copy in a random group with room; as many copies as `round_robin`.
pub(crate) fn random(ctx: Context, mut layout: Layout, rng: &mut Stream) -> Layout {
    let (models, groups) = (ctx.workload.models.len(), layout.groups.len());
    let mut order: Vec<usize> = (0..models).collect();
    rng.shuffle(&mut order);
    for turn in 0..models.max(groups) {
        let model = order[turn % models];
        let bytes = layout.bytes(ctx);
        let free: Vec<usize> = (0..groups)
            .filter(|group| layout.has_room(ctx, &bytes, model, *group))
            .filter(|group| !serves(&layout, *group, model))
            .collect();
        if !free.is_empty() {
            layout.place(model, free[rng.below(free.len())]);
        }
    }
    layout
}

/// For each model, the part of the time that its requests take where they are fastest.
fn loads(ctx: Context, layout: &Layout) -> Vec<f64> {
    let load = |model: usize| {
        let fastest = (0..layout.groups.len())
            .filter_map(|group| layout.partitions(ctx, model, group))
            .map(|partitioned| partitioned.seconds())
            .fold(f64::INFINITY, f64::min);
        ctx.workload.models[model].rate * fastest
    };
    (0..ctx.workload.models.len()).map(load).collect()
}

fn serves(layout: &Layout, group: usize, model: usize) -> bool {
    layout.placed.iter().any(|placed| (placed.group, placed.model) == (group, model))
}

fn choose_group(
    ctx: Context,
    layout: &Layout,
    model: usize,
    preference: Preference,
    measured_busy: Option<&[f64]>,
) -> Option<usize> {
    let bytes = layout.bytes(ctx);
    let estimated = layout.busy(ctx);
    let busy = measured_busy.unwrap_or(&estimated);
    let demand = &ctx.workload.models[model];
    let copies = layout.placed.iter().filter(|placed| placed.model == model).count();
    let rate = demand.rate / (copies + 1) as f64;
    let mut best: Option<((u8, f64, f64), usize)> = None;
    for group in 0..layout.groups.len() {
        if serves(layout, group, model) || !layout.has_room(ctx, &bytes, model, group) {
            continue;
        }
        let Some(partitioned) = layout.partitions(ctx, model, group) else { continue };
        let sets = partitioned.partitions.iter().zip(&layout.groups[group].sets);
        let busiest =
            sets.map(|(partition, set)| busy[*set] + rate * partition.seconds).fold(0.0, f64::max);
        // A group that cannot answer even one request in time comes last.
        let is_too_slow = u8::from(partitioned.seconds() > demand.slo.seconds());
        let key = match preference {
            Preference::LeastBusy => (is_too_slow, busiest, 0.0),
            Preference::LeastEnergy if busiest > TOO_BUSY => (2 * is_too_slow + 1, busiest, 0.0),
            Preference::LeastEnergy => (2 * is_too_slow, partitioned.energy_j(), busiest),
        };
        if best.is_none_or(|(least, _)| key < least) {
            best = Some((key, group));
        }
    }
    best.map(|(_, group)| group)
}
