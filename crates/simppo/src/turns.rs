//! The queue of CPQ-RL (section 4.6.2): one agent steps at a time.

/// Who has stepped in the present round, the last one last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnQueue<K> {
    served: Vec<K>,
}

impl<K> Default for TurnQueue<K> {
    fn default() -> Self {
        Self { served: Vec::new() }
    }
}

impl<K: Copy + PartialEq> TurnQueue<K> {
    /// The place of the agent that steps next: of those that have not stepped in this round the one
    /// whose SLO is met worst. When all have, the next round begins. No agent is passed over
    /// for good, however well it does.
    pub fn next(&mut self, keys: &[K], kept: &[f32]) -> Option<usize> {
        self.served.retain(|key| keys.contains(key));
        if self.served.len() == keys.len() {
            self.served.clear();
        }
        let waiting = (0..keys.len()).filter(|place| !self.served.contains(&keys[*place]));
        let next = waiting.min_by(|a, b| kept[*a].total_cmp(&kept[*b]))?;
        self.served.push(keys[next]);
        Some(next)
    }

    pub(crate) fn served(&self) -> &[K] {
        &self.served
    }

    pub(crate) fn restore(&mut self, served: Vec<K>) {
        self.served = served;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_off_is_first_and_everybody_has_one_turn_in_a_round() {
        let mut queue = TurnQueue::default();
        let kept = [1.0, 0.2, 0.5];
        let round = |queue: &mut TurnQueue<char>| {
            (0..3).map(|_| queue.next(&['a', 'b', 'c'], &kept).expect("somebody waits")).collect()
        };
        let first: Vec<usize> = round(&mut queue);
        assert_eq!(first, [1, 2, 0]);
        let second: Vec<usize> = round(&mut queue);
        assert_eq!(second, first);
    }

    #[test]
    fn an_agent_that_joins_or_leaves_within_a_round_delays_no_other() {
        let mut queue = TurnQueue::default();
        assert_eq!(queue.next(&['a', 'b'], &[0.1, 0.9]), Some(0));
        assert_eq!(queue.next(&['b', 'c'], &[0.9, 0.1]), Some(1), "c came and is worse off");
        assert_eq!(queue.next(&['b'], &[0.9]), Some(0));
        assert_eq!(queue.next(&[], &[]), None);
    }
}
