//! A hierarchical navigable small world graph (Malkov and Yashunin 2018): a search walks from vector to more similar vector,
//! first over few far links, then over many near ones. Removal is not part of the paper: vectors
//! that linked to the removed one are linked to its neighbours instead.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::similarity_index::Vectors;

/// Links of a vector on a level above the lowest; twice as many there.
const LINKS: usize = 16;

/// Candidates that are kept while links are looked for, and while the nearest vector is.
const BUILD_CANDIDATES: usize = 100;
const SEARCH_CANDIDATES: usize = 64;

/// Higher than a graph in memory ever gets.
const MAX_LEVEL: usize = 12;

#[derive(Debug, Clone, Default)]
pub(super) struct NavigableGraph {
    /// By place; the nodes' levels from the lowest to their highest.
    nodes: Vec<Option<Vec<Links>>>,
    count: usize,
    entry: Option<u32>,
    /// Levels are drawn from it.
    draws: u64,
}

#[derive(Debug, Clone, Default)]
struct Links {
    to: Vec<u32>,
    from: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidate {
    similarity: f32,
    place: u32,
}

impl Eq for Candidate {}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.similarity.total_cmp(&other.similarity).then(other.place.cmp(&self.place))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl NavigableGraph {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn insert(&mut self, vectors: &Vectors, place: u32) {
        let index = place as usize;
        if self.nodes.len() <= index {
            self.nodes.resize(index + 1, None);
        }
        let height = self.draw_height();
        self.nodes[index] = Some(vec![Links::default(); height]);
        self.count += 1;
        let Some(entry) = self.entry else {
            self.entry = Some(place);
            return;
        };
        let vector = vectors.at(place);
        let top = self.height(entry);
        let mut near = vec![candidate(vectors, entry, vector)];
        for level in (0..top).rev() {
            if level >= height {
                near = self.search(vectors, vector, &near, 1, level);
                continue;
            }
            near = self.search(vectors, vector, &near, BUILD_CANDIDATES, level);
            for chosen in diverse(vectors, &near, most_links(level)) {
                self.link(place, chosen, level);
                self.link(chosen, place, level);
                self.prune(vectors, chosen, level);
            }
        }
        if height > top {
            self.entry = Some(place);
        }
    }

    /// Whether the place was in the graph.
    pub(super) fn remove(&mut self, vectors: &Vectors, place: u32) -> bool {
        let Some(levels) = self.nodes.get_mut(place as usize).and_then(Option::take) else {
            return false;
        };
        self.count -= 1;
        for (level, links) in levels.iter().enumerate() {
            for to in &links.to {
                self.links_mut(*to, level).from.retain(|other| *other != place);
            }
            for from in &links.from {
                self.links_mut(*from, level).to.retain(|other| *other != place);
            }
            for from in &links.from {
                for to in links.to.iter().filter(|to| *to != from) {
                    if !self.links(*from, level).to.contains(to) {
                        self.link(*from, *to, level);
                    }
                }
                self.prune(vectors, *from, level);
            }
        }
        if self.entry == Some(place) {
            let heights = (0u32..).zip(&self.nodes);
            let highest = heights.filter_map(|(place, node)| Some((node.as_ref()?.len(), place)));
            self.entry =
                highest.max_by_key(|(height, place)| (*height, Reverse(*place))).map(|h| h.1);
        }
        true
    }

    /// The most similar vector, in most cases.
    pub(super) fn nearest(&self, vectors: &Vectors, to: &[f32]) -> Option<(u32, f32)> {
        let entry = self.entry?;
        let mut near = vec![candidate(vectors, entry, to)];
        for level in (0..self.height(entry)).rev() {
            let kept = if level == 0 { SEARCH_CANDIDATES } else { 1 };
            near = self.search(vectors, to, &near, kept, level);
        }
        near.first().map(|nearest| (nearest.place, nearest.similarity))
    }

    /// The `kept` most similar vectors of a level that a walk from `starts` finds, most similar first.
    fn search(
        &self,
        vectors: &Vectors,
        to: &[f32],
        starts: &[Candidate],
        kept: usize,
        level: usize,
    ) -> Vec<Candidate> {
        let mut seen = vec![0u64; self.nodes.len().div_ceil(64)];
        let mut is_new = |place: u32| {
            let (word, bit) = (place as usize / 64, 1u64 << (place % 64));
            let was = seen[word] & bit;
            seen[word] |= bit;
            was == 0
        };
        starts.iter().for_each(|start| {
            is_new(start.place);
        });
        let mut open: BinaryHeap<Candidate> = starts.iter().copied().collect();
        let mut found: BinaryHeap<Reverse<Candidate>> =
            starts.iter().copied().map(Reverse).collect();
        while let Some(next) = open.pop() {
            let worst = found.peek().map_or(f32::NEG_INFINITY, |worst| worst.0.similarity);
            if found.len() >= kept && next.similarity < worst {
                break;
            }
            for place in &self.links(next.place, level).to {
                if !is_new(*place) {
                    continue;
                }
                let other = candidate(vectors, *place, to);
                let worst = found.peek().map_or(f32::NEG_INFINITY, |worst| worst.0.similarity);
                if found.len() < kept || other.similarity > worst {
                    open.push(other);
                    found.push(Reverse(other));
                    if found.len() > kept {
                        found.pop();
                    }
                }
            }
        }
        // Ascending order of the reversed: most similar first.
        found.into_sorted_vec().into_iter().map(|found| found.0).collect()
    }

    /// Keeps the best links if there are too many.
    fn prune(&mut self, vectors: &Vectors, place: u32, level: usize) {
        let most = most_links(level);
        let links = &self.links(place, level).to;
        if links.len() <= most {
            return;
        }
        let vector = vectors.at(place);
        let mut candidates: Vec<Candidate> =
            links.iter().map(|other| candidate(vectors, *other, vector)).collect();
        candidates.sort_unstable_by_key(|candidate| Reverse(*candidate));
        let kept = diverse(vectors, &candidates, most);
        let dropped: Vec<u32> =
            links.iter().copied().filter(|other| !kept.contains(other)).collect();
        for other in dropped {
            self.links_mut(other, level).from.retain(|from| *from != place);
        }
        self.links_mut(place, level).to = kept;
    }

    fn link(&mut self, from: u32, to: u32, level: usize) {
        self.links_mut(from, level).to.push(to);
        self.links_mut(to, level).from.push(from);
    }

    fn links(&self, place: u32, level: usize) -> &Links {
        &self.nodes[place as usize].as_ref().expect("links lead to nodes that exist")[level]
    }

    fn links_mut(&mut self, place: u32, level: usize) -> &mut Links {
        &mut self.nodes[place as usize].as_mut().expect("links lead to nodes that exist")[level]
    }

    fn height(&self, place: u32) -> usize {
        self.nodes[place as usize].as_ref().map_or(0, Vec::len)
    }

    /// One level more with a probability of one to [`LINKS`]. A fixed sequence: the same insertions make the same
    /// graph.
    fn draw_height(&mut self) -> usize {
        self.draws = self.draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
        // The finaliser of SplitMix64.
        let value = (self.draws ^ (self.draws >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let sixteenths = (value ^ (value >> 31)).trailing_zeros() / LINKS.ilog2();
        1 + (sixteenths as usize).min(MAX_LEVEL - 1)
    }
}

fn most_links(level: usize) -> usize {
    if level == 0 { 2 * LINKS } else { LINKS }
}

fn candidate(vectors: &Vectors, place: u32, to: &[f32]) -> Candidate {
    Candidate { similarity: vectors.similarity(place, to), place }
}

/// Of candidates, most similar first, those that are nearer to the vector than to one that was chosen before:
/// links then lead in different directions. What is left fills up.
fn diverse(vectors: &Vectors, candidates: &[Candidate], most: usize) -> Vec<u32> {
    let mut chosen: Vec<u32> = Vec::new();
    let mut others: Vec<u32> = Vec::new();
    for candidate in candidates {
        if chosen.len() >= most {
            break;
        }
        let own = vectors.at(candidate.place);
        let is_nearer = |place: &u32| vectors.similarity(*place, own) < candidate.similarity;
        if chosen.iter().all(is_nearer) {
            chosen.push(candidate.place);
        } else {
            others.push(candidate.place);
        }
    }
    let missing = most.saturating_sub(chosen.len());
    chosen.extend(others.into_iter().take(missing));
    chosen
}
