//! Power-aware placement of partitions on devices (Alg. 6.2): partitions of similar sensitivity share
//! devices, because the most sensitive partition on a device decides how low its clock may be.
//!
//! How the printed algorithm is read:
//!
//! * Line 8 starts `bestScore` at infinity and line 14 replaces it by larger scores, so that nothing would
//!   ever be placed. Here the most similar device wins: the search starts at minus infinity. Similarity
//!   is the negated distance between the score of the partition and the mean score of the device,
//!   weighted by time.
//! * `modelBinsCount` counts distinct devices (line 21 adds one for every partition). A copy of a model that
//!   already uses CT devices may use these again, and no others.
//! * The similarity to an empty device is not defined. Here it is the least that still counts as
//!   similar (`similarity_threshold`): a partition opens an empty device rather than share one with
//!   partitions that differ by more.
//! * Deviation: devices whose similarity is within the threshold count as equal, and the least busy of
//!   them wins. Without that, everything similar would end on one device, whatever its load.

use crate::layout::{Context, Layout};
use crate::partition::Partition;

/// The settings of power-aware placement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PowerAwareConfig {
    /// CT: device sets that the partitions of one copy may be placed on.
    pub(crate) max_sets: usize,
    /// Distance of scores up to which partitions are similar.
    pub(crate) similarity_threshold: f64,
    /// Whether all groups of the same shape and pool are one list of devices, or each its own.
    pub(crate) merges_groups: bool,
}

/// Where a partition went, and why.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SimilarityReason {
    /// No device with room had similar partitions, and this one was empty.
    Empty,
    /// The partitions there are similar: the distance of the scores.
    Similar(f64),
    /// No device with room was empty or similar: the least distance.
    LeastDistant(f64),
}

/// The partitions on a set so far.
#[derive(Clone, Copy, Default)]
struct SetScore {
    weighted: f64,
    weight: f64,
}

/// Places the partitions of a layout on other device sets. A layout without room for that (memory in
/// too small pieces) stays as it is; the answer says what was done for each copy.
pub(crate) fn place_by_similarity(
    ctx: Context,
    layout: &Layout,
    config: &PowerAwareConfig,
) -> Option<(Layout, Vec<Vec<SimilarityReason>>)> {
    let mut result = layout.clone();
    let mut bytes = vec![0.0; layout.sets.len()];
    let mut busy = vec![0.0; layout.sets.len()];
    let mut scores = vec![SetScore::default(); layout.sets.len()];
    let mut reasons = Vec::new();
    let copies = layout.copies(ctx);
    for copy in 0..layout.placed.len() {
        let placed = &layout.placed[copy];
        let candidates = candidate_sets(layout, placed.group, config.merges_groups);
        let demand = &ctx.workload.models[placed.model];
        let rate = demand.rate / copies[placed.model] as f64;
        let partitions = &layout.placed_partitions(ctx, placed).partitions;
        let mut order: Vec<usize> = (0..partitions.len()).collect();
        order.sort_by(|a, b| partitions[*b].score.total_cmp(&partitions[*a].score).then(a.cmp(b)));
        let mut chosen: Vec<Option<(usize, SimilarityReason)>> = vec![None; partitions.len()];
        for place in order {
            let partition = &partitions[place];
            let needed = partition.bytes(demand.longest_tokens());
            let mut used: Vec<usize> = chosen.iter().flatten().map(|(set, _)| *set).collect();
            used.sort_unstable();
            used.dedup();
            let is_available = |set: &&usize| {
                let is_allowed = used.len() < config.max_sets || used.contains(set);
                // A second copy on the same devices would serve nothing that the first does not.
                let is_copy = result.placed[..copy]
                    .iter()
                    .any(|other| other.model == placed.model && other.sets.contains(set));
                let fits = bytes[**set] + needed <= layout.capacity(ctx, **set);
                is_allowed && fits && !is_copy
            };
            let options = candidates.iter().filter(is_available).copied();
            let (set, reason) = most_similar(options, partition, &scores, &busy, config)?;
            bytes[set] += needed;
            busy[set] += rate * partition.seconds;
            scores[set].weighted += partition.score * rate * partition.seconds;
            scores[set].weight += rate * partition.seconds;
            chosen[place] = Some((set, reason));
        }
        let (sets, why): (Vec<_>, Vec<_>) = chosen.into_iter().flatten().unzip();
        result.placed[copy].sets = sets;
        reasons.push(why);
    }
    Some((result, reasons))
}

/// The sets that a copy of a group may use.
fn candidate_sets(layout: &Layout, group: usize, merges_groups: bool) -> Vec<usize> {
    let own = &layout.groups[group];
    if !merges_groups {
        return own.sets.clone();
    }
    let same = layout
        .groups
        .iter()
        .filter(|other| (other.pool, other.shape.degree) == (own.pool, own.shape.degree));
    same.flat_map(|group| group.sets.iter().copied()).collect()
}

fn most_similar(
    options: impl Iterator<Item = usize>,
    partition: &Partition,
    scores: &[SetScore],
    busy: &[f64],
    config: &PowerAwareConfig,
) -> Option<(usize, SimilarityReason)> {
    let mut best: Option<((f64, f64), usize, SimilarityReason)> = None;
    for set in options {
        let SetScore { weighted, weight } = scores[set];
        let distance = (partition.score - weighted / weight).abs();
        let reason = if weight <= 0.0 {
            SimilarityReason::Empty
        } else if distance <= config.similarity_threshold {
            SimilarityReason::Similar(distance)
        } else {
            SimilarityReason::LeastDistant(distance)
        };
        let similarity = match reason {
            SimilarityReason::Empty | SimilarityReason::Similar(_) => -config.similarity_threshold,
            SimilarityReason::LeastDistant(distance) => -distance,
        };
        let key = (similarity, -busy[set]);
        if best.is_none_or(|(best, _, _)| key > best) {
            best = Some((key, set, reason));
        }
    }
    best.map(|(_, set, reason)| (set, reason))
}
