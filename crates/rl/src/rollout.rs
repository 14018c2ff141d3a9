//! The rollout of an on-policy agent since its last update. Environments usually fill
//! together; one that was added late or removed early has fewer steps.

use homeostat_core::{Persist, Snapshot};

/// Steps with everything that the losses need.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Encoded observations, row after row.
    pub features: Vec<f32>,
    /// Actions as the head writes them, row after row.
    pub actions: Vec<f32>,
    /// Log-probability of each action when it was taken.
    pub log_prob: Vec<f32>,
    /// The critic's value of each state when the action was taken.
    pub value: Vec<f32>,
    /// Advantage of each action.
    pub advantage: Vec<f32>,
    /// Target of the critic for each state.
    pub target: Vec<f32>,
}

/// Up to a fixed number of steps in each environment, as they are played.
#[derive(Debug, Clone)]
pub(crate) struct Rollout {
    steps: usize,
    feature_len: usize,
    action_len: usize,
    /// Steps of each environment.
    filled: Vec<usize>,
    pub(crate) batch: Batch,
    reward: Vec<f32>,
    /// Value beyond each step where an episode ended: zero if it terminated, the
    /// critic's estimate if it was truncated. NaN where the episode went on.
    value_beyond: Vec<f32>,
}

/// What is known before the environment steps.
pub(crate) struct Decided<'a> {
    pub(crate) features: &'a [f32],
    pub(crate) action: &'a [f32],
    pub(crate) log_prob: f32,
    pub(crate) value: f32,
}

impl Rollout {
    pub(crate) fn new(envs: usize, steps: usize, feature_len: usize, action_len: usize) -> Self {
        let mut this = Self {
            steps,
            feature_len,
            action_len,
            filled: Vec::new(),
            batch: Batch::default(),
            reward: Vec::new(),
            value_beyond: Vec::new(),
        };
        this.grow_to(envs);
        this
    }

    /// Makes room for this many environments. Environments follow one another, so what is there stays.
    pub(crate) fn grow_to(&mut self, envs: usize) {
        let rows = envs * self.steps;
        let Batch { features, actions, log_prob, value, advantage, target } = &mut self.batch;
        features.resize(rows * self.feature_len, 0.0);
        actions.resize(rows * self.action_len, 0.0);
        for column in [log_prob, value, advantage, target, &mut self.reward] {
            column.resize(rows, 0.0);
        }
        self.value_beyond.resize(rows, f32::NAN);
        self.filled.resize(envs, 0);
    }

    /// Whether an environment has no room for another step.
    pub(crate) fn is_due(&self) -> bool {
        self.filled.contains(&self.steps)
    }

    /// Whether an environment has no steps.
    pub(crate) fn is_empty(&self, env: usize) -> bool {
        self.filled[env] == 0
    }

    /// The rows that hold steps.
    pub(crate) fn rows(&self) -> impl Iterator<Item = u32> + Clone {
        let envs = self.filled.iter().enumerate();
        envs.flat_map(|(env, filled)| {
            (env * self.steps..env * self.steps + filled).map(|row| row as u32)
        })
    }

    pub(crate) fn clear(&mut self) {
        self.filled.fill(0);
    }

    pub(crate) fn decide(&mut self, env: usize, decided: Decided<'_>) {
        let row = env * self.steps + self.filled[env];
        let Batch { features, actions, log_prob, value, .. } = &mut self.batch;
        features[row * self.feature_len..][..self.feature_len].copy_from_slice(decided.features);
        actions[row * self.action_len..][..self.action_len].copy_from_slice(decided.action);
        log_prob[row] = decided.log_prob;
        value[row] = decided.value;
    }

    /// Completes the step last decided in `env`. `value_beyond` is given where the
    /// episode ended.
    pub(crate) fn complete(&mut self, env: usize, reward: f32, value_beyond: Option<f32>) {
        let row = env * self.steps + self.filled[env];
        self.reward[row] = reward;
        self.value_beyond[row] = value_beyond.unwrap_or(f32::NAN);
        self.filled[env] += 1;
    }

    /// Generalised advantage estimation. `value_after` is the critic's value of
    /// each environment's state after the last step.
    ///
    /// `advantage[t] = delta[t] + gamma lambda advantage[t+1]` inside an episode,
    /// `delta[t] = reward[t] + gamma value[t+1] - value[t]`.
    pub(crate) fn estimate_advantages(&mut self, gamma: f32, lambda: f32, value_after: &[f32]) {
        let Batch { value, advantage, target, .. } = &mut self.batch;
        for (env, (value_after, filled)) in value_after.iter().zip(&self.filled).enumerate() {
            let mut value_next = *value_after;
            let mut advantage_next = 0.0;
            let first = env * self.steps;
            for row in (first..first + filled).rev() {
                if !self.value_beyond[row].is_nan() {
                    value_next = self.value_beyond[row];
                    advantage_next = 0.0;
                }
                let delta = self.reward[row] + gamma * value_next - value[row];
                advantage[row] = delta + gamma * lambda * advantage_next;
                target[row] = advantage[row] + value[row];
                value_next = value[row];
                advantage_next = advantage[row];
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let floats = self.batch.features.len() + self.batch.actions.len() + 6 * self.reward.len();
        floats * size_of::<f32>() + self.filled.len() * size_of::<usize>()
    }
}

impl Persist for Rollout {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let filled: Vec<u64> = self.filled.iter().map(|filled| *filled as u64).collect();
        out.put_u64(&format!("{name}/filled"), filled);
        out.put_f32(&format!("{name}/features"), self.batch.features.as_slice());
        out.put_f32(&format!("{name}/actions"), self.batch.actions.as_slice());
        out.put_f32(&format!("{name}/log_prob"), self.batch.log_prob.as_slice());
        out.put_f32(&format!("{name}/value"), self.batch.value.as_slice());
        out.put_f32(&format!("{name}/reward"), self.reward.as_slice());
        out.put_f32(&format!("{name}/value_beyond"), self.value_beyond.as_slice());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        let filled = from.u64s(&format!("{name}/filled"), self.filled.len())?;
        if let Some(most) = filled.iter().find(|filled| **filled > self.steps as u64) {
            return Err(homeostat_core::Error::SnapshotMismatch {
                name: format!("{name}/filled"),
                found: format!("{most} steps of an environment"),
                expected: format!("at most {}", self.steps),
            });
        }
        self.filled = filled.iter().map(|filled| *filled as usize).collect();
        let read = |part: &str, into: &mut [f32]| from.copy_f32s(&format!("{name}/{part}"), into);
        read("features", &mut self.batch.features)?;
        read("actions", &mut self.batch.actions)?;
        read("log_prob", &mut self.batch.log_prob)?;
        read("value", &mut self.batch.value)?;
        read("reward", &mut self.reward)?;
        read("value_beyond", &mut self.value_beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One environment whose steps have the given reward, value and value beyond an end.
    fn advantages(
        steps: &[(f32, f32, Option<f32>)],
        gamma: f32,
        lambda: f32,
        value_after: f32,
    ) -> Vec<f32> {
        let mut rollout = Rollout::new(1, steps.len(), 1, 1);
        for (reward, value, beyond) in steps {
            rollout.decide(
                0,
                Decided { features: &[0.0], action: &[0.0], log_prob: 0.0, value: *value },
            );
            rollout.complete(0, *reward, *beyond);
        }
        assert!(rollout.is_due());
        rollout.estimate_advantages(gamma, lambda, &[value_after]);
        rollout.batch.advantage
    }

    #[test]
    fn advantages_by_hand() {
        // gamma 0.5, lambda 0.5: deltas are 1 + 0.5*4 - 2 = 1 and 3 + 0.5*8 - 4 = 3.
        let got = advantages(&[(1.0, 2.0, None), (3.0, 4.0, None)], 0.5, 0.5, 8.0);
        assert_eq!(got, [1.0 + 0.25 * 3.0, 3.0]);
    }

    #[test]
    fn a_lane_with_fewer_steps_is_learnt_from_as_far_as_it_goes() {
        let mut rollout = Rollout::new(1, 2, 1, 1);
        let step = |rollout: &mut Rollout, env, value, reward| {
            let decided = Decided { features: &[0.0], action: &[0.0], log_prob: 0.0, value };
            rollout.decide(env, decided);
            rollout.complete(env, reward, None);
        };
        step(&mut rollout, 0, 2.0, 1.0);
        rollout.grow_to(2);
        step(&mut rollout, 0, 4.0, 3.0);
        step(&mut rollout, 1, 1.0, 5.0);
        assert!(rollout.is_due());
        assert_eq!(rollout.rows().collect::<Vec<_>>(), [0, 1, 2]);
        rollout.estimate_advantages(0.5, 0.5, &[8.0, 2.0]);
        assert_eq!(rollout.batch.advantage[..3], [1.75, 3.0, 5.0]);
    }

    #[test]
    fn more_steps_than_there_is_room_for_are_refused() {
        let (mut rollout, mut snapshot) = (Rollout::new(2, 3, 1, 1), Snapshot::default());
        rollout.save("r", &mut snapshot);
        snapshot.put_u64("r/filled", [3, 4]);
        let error = rollout.load("r", &snapshot).unwrap_err().to_string();
        assert_eq!(
            error,
            "snapshot array `r/filled` is 4 steps of an environment, expected at most 3"
        );
    }

    #[test]
    fn a_terminated_step_has_no_value_beyond() {
        let got = advantages(&[(1.0, 2.0, Some(0.0)), (3.0, 4.0, None)], 0.5, 0.5, 8.0);
        assert_eq!(got, [1.0 - 2.0, 3.0]);
    }

    #[test]
    fn a_truncated_step_has_the_value_of_its_last_state() {
        let got = advantages(&[(1.0, 2.0, Some(10.0)), (3.0, 4.0, None)], 0.5, 0.5, 8.0);
        assert_eq!(got, [1.0 + 0.5 * 10.0 - 2.0, 3.0]);
    }
}
