//! The replay buffer of an off-policy agent: the last `capacity` transitions.

use homeostat_core::{Persist, Snapshot, Stream};

use crate::conditioning::Inputs;

/// A ring of transitions. Only `terminated` sets the value of the next state to zero; a truncated
/// transition is stored like any other, with its true next state.
#[derive(Debug, Clone)]
pub(crate) struct Replay {
    capacity: usize,
    feature_len: usize,
    action_len: usize,
    next: usize,
    len: usize,
    features: Vec<f32>,
    actions: Vec<f32>,
    rewards: Vec<f32>,
    next_features: Vec<f32>,
    terminated: Vec<u8>,
}

pub(crate) struct Transition<'a> {
    pub(crate) features: &'a [f32],
    pub(crate) action: &'a [f32],
    pub(crate) reward: f32,
    pub(crate) next_features: &'a [f32],
    pub(crate) terminated: bool,
}

impl Replay {
    /// An empty ring; memory is taken as it fills.
    pub(crate) fn new(capacity: usize, feature_len: usize, action_len: usize) -> Self {
        Self {
            capacity,
            feature_len,
            action_len,
            next: 0,
            len: 0,
            features: Vec::new(),
            actions: Vec::new(),
            rewards: Vec::new(),
            next_features: Vec::new(),
            terminated: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push(&mut self, transition: Transition<'_>) {
        let slot = self.next;
        put(&mut self.features, slot, self.len, transition.features);
        put(&mut self.actions, slot, self.len, transition.action);
        put(&mut self.rewards, slot, self.len, &[transition.reward]);
        put(&mut self.next_features, slot, self.len, transition.next_features);
        put(&mut self.terminated, slot, self.len, &[u8::from(transition.terminated)]);
        self.next = (slot + 1) % self.capacity;
        self.len = self.capacity.min(self.len + 1);
    }

    /// A transition drawn with replacement.
    pub(crate) fn draw(&self, rng: &mut Stream) -> Transition<'_> {
        let slot = rng.below(self.len);
        Transition {
            features: &self.features[slot * self.feature_len..][..self.feature_len],
            action: &self.actions[slot * self.action_len..][..self.action_len],
            reward: self.rewards[slot],
            next_features: &self.next_features[slot * self.feature_len..][..self.feature_len],
            terminated: self.terminated[slot] != 0,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let floats = [&self.features, &self.actions, &self.rewards, &self.next_features];
        floats.iter().map(|items| items.capacity() * size_of::<f32>()).sum::<usize>()
            + self.terminated.capacity()
    }
}

/// A replay buffer for each pair that a learner acts in; one for all without pairs.
#[derive(Debug, Clone)]
pub(crate) struct PairReplay(Vec<Replay>);

impl PairReplay {
    pub(crate) fn new(inputs: &Inputs, capacity: usize, action_len: usize) -> Self {
        Self(vec![Replay::new(capacity, inputs.kept(), action_len); inputs.pairs()])
    }

    pub(crate) fn push(&mut self, pair: usize, transition: Transition<'_>) {
        self.0[pair].push(transition);
    }

    /// Whether one of these pairs has transitions.
    pub(crate) fn has_any(&self, pairs: &[usize]) -> bool {
        pairs.iter().any(|pair| self.0[*pair].len() > 0)
    }

    /// A transition of one of these pairs, each with the same probability; one of them must have some.
    pub(crate) fn draw(&self, pairs: &[usize], rng: &mut Stream) -> Transition<'_> {
        if let [pair] = pairs {
            return self.0[*pair].draw(rng);
        }
        loop {
            let replay = &self.0[pairs[rng.below(pairs.len())]];
            if replay.len() > 0 {
                return replay.draw(rng);
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(Replay::bytes).sum()
    }
}

impl Persist for PairReplay {
    fn save(&self, name: &str, out: &mut Snapshot) {
        for (pair, replay) in self.0.iter().enumerate() {
            replay.save(&replay_name(name, pair), out);
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        let mut replays = self.0.iter_mut().enumerate();
        replays.try_for_each(|(pair, replay)| replay.load(&replay_name(name, pair), from))
    }
}

/// The first one has the name alone, as the buffer of a learner without pairs.
fn replay_name(name: &str, pair: usize) -> String {
    if pair == 0 { name.to_owned() } else { format!("{name}/{pair}") }
}

/// Overwrites a filled slot or appends a new one.
fn put<T: Copy>(items: &mut Vec<T>, slot: usize, len: usize, row: &[T]) {
    if slot < len {
        items[slot * row.len()..][..row.len()].copy_from_slice(row);
    } else {
        items.extend_from_slice(row);
    }
}

impl Persist for Replay {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_u64(&format!("{name}/ring"), [self.next as u64, self.len as u64]);
        out.put_f32(&format!("{name}/features"), self.features.as_slice());
        out.put_f32(&format!("{name}/actions"), self.actions.as_slice());
        out.put_f32(&format!("{name}/rewards"), self.rewards.as_slice());
        out.put_f32(&format!("{name}/next_features"), self.next_features.as_slice());
        out.put_u8(&format!("{name}/terminated"), self.terminated.as_slice());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        let ring = from.u64s(&format!("{name}/ring"), 2)?;
        let (next, len) = (ring[0] as usize, ring[1] as usize);
        // A ring that has wrapped around cannot continue in a larger one: its oldest transition
        // lies in the middle.
        let is_growing = len < self.capacity && next == len;
        let is_full = len == self.capacity && next < self.capacity;
        if !is_growing && !is_full {
            return Err(homeostat_core::Error::SnapshotMismatch {
                name: format!("{name}/ring"),
                found: format!("a ring of {len} transitions that goes on at {next}"),
                expected: format!("one with room for {}", self.capacity),
            });
        }
        let read =
            |part: &str, len: usize| from.f32s(&format!("{name}/{part}"), len).map(<[f32]>::to_vec);
        // All or nothing: a ring whose arrays disagree would be drawn from out of bounds.
        *self = Self {
            next,
            len,
            features: read("features", len * self.feature_len)?,
            actions: read("actions", len * self.action_len)?,
            rewards: read("rewards", len)?,
            next_features: read("next_features", len * self.feature_len)?,
            terminated: from.u8s(&format!("{name}/terminated"), len)?.to_vec(),
            ..*self
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut replay = Replay::new(3, 1, 1);
        for i in 0..5 {
            let x = [i as f32];
            replay.push(Transition {
                features: &x,
                action: &x,
                reward: x[0],
                next_features: &x,
                terminated: i == 4,
            });
        }
        assert_eq!(replay.len(), 3);
        assert_eq!(replay.rewards, [3.0, 4.0, 2.0]);
        assert_eq!(replay.terminated, [0, 1, 0]);
    }

    #[test]
    fn a_ring_goes_on_only_where_it_fits() {
        let saved = |pushes: usize| {
            let (mut replay, mut snapshot) = (Replay::new(3, 1, 1), Snapshot::default());
            for _ in 0..pushes {
                let x = [0.0];
                replay.push(Transition {
                    features: &x,
                    action: &x,
                    reward: 0.0,
                    next_features: &x,
                    terminated: false,
                });
            }
            replay.save("r", &mut snapshot);
            snapshot
        };
        let check = |pushes: usize, capacity: usize, expect: Option<&str>| {
            let result = Replay::new(capacity, 1, 1).load("r", &saved(pushes));
            assert_eq!(result.err().map(|error| error.to_string()).as_deref(), expect);
        };
        check(2, 3, None);
        check(5, 3, None);
        // Not yet round: it may grow in a larger ring.
        check(2, 9, None);
        check(
            5,
            9,
            Some(
                "snapshot array `r/ring` is a ring of 3 transitions that goes on at 2, \
                 expected one with room for 9",
            ),
        );
        check(
            5,
            2,
            Some(
                "snapshot array `r/ring` is a ring of 3 transitions that goes on at 2, \
                 expected one with room for 2",
            ),
        );
    }
}
