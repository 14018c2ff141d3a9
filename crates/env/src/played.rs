//! Episodes that are saved as their seed and their actions and restored by playing them again, for
//! environments whose state is a whole simulator.

use homeostat_core::{Result, Snapshot};

/// What has been played of an episode: it determines the state of its environment.
#[derive(Debug, Clone, PartialEq)]
pub struct Played<T> {
    /// Seed of the episode.
    pub seed: u64,
    /// Its actions, one after the other; an action of several numbers is as many entries.
    pub actions: Vec<T>,
}

/// A number that a snapshot can hold.
pub trait StoredAction: Copy {
    /// Writes an array.
    fn put(out: &mut Snapshot, name: &str, actions: &[Self]);

    /// Reads one.
    fn get<'a>(from: &'a Snapshot, name: &str) -> Result<&'a [Self]>;
}

impl StoredAction for u8 {
    fn put(out: &mut Snapshot, name: &str, actions: &[Self]) {
        out.put_u8(name, actions);
    }

    fn get<'a>(from: &'a Snapshot, name: &str) -> Result<&'a [Self]> {
        from.any_u8s(name)
    }
}

impl StoredAction for f32 {
    fn put(out: &mut Snapshot, name: &str, actions: &[Self]) {
        out.put_f32(name, actions);
    }

    fn get<'a>(from: &'a Snapshot, name: &str) -> Result<&'a [Self]> {
        from.any_f32s(name)
    }
}

impl<T: StoredAction> Played<T> {
    /// An episode that has just begun.
    pub fn new(seed: u64) -> Self {
        Self { seed, actions: Vec::new() }
    }

    /// Saves an episode, or that there is none.
    pub fn save(episode: Option<&Self>, name: &str, out: &mut Snapshot) {
        let seed: Vec<u64> = episode.iter().map(|played| played.seed).collect();
        out.put_u64(&format!("{name}/seed"), seed);
        let actions = episode.map_or(&[][..], |played| &played.actions);
        T::put(out, &format!("{name}/actions"), actions);
    }

    /// The saved episode, if there was one. Play its actions in a new episode of its seed.
    pub fn load(name: &str, from: &Snapshot) -> Result<Option<Self>> {
        let Some(seed) = from.any_u64s(&format!("{name}/seed"))?.first().copied() else {
            return Ok(None);
        };
        let actions = T::get(from, &format!("{name}/actions"))?.to_vec();
        Ok(Some(Self { seed, actions }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_episode_comes_back_as_it_was_saved() {
        for episode in [None, Some(Played { seed: 7, actions: vec![1.5_f32, -2.0] })] {
            let mut snapshot = Snapshot::default();
            Played::save(episode.as_ref(), "env", &mut snapshot);
            assert_eq!(Played::load("env", &snapshot).unwrap(), episode);
        }
    }
}
