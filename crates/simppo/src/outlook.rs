//! What each critic observes of the others, and which reward each agent learns from: the coordination itself,
//! for the agents of one environment in one step.

use homeostat_core::FeatureSchema;
use homeostat_decide::{Features, ScalingAction, SetPoints, StageFeatures};
use homeostat_env::{Action, EnvSpec};

use crate::{Contribution, CriticInput, GlobalState, RewardSharing, TaskType, VirtualAgent};

/// What the first numbers of a state mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StateLayout {
    /// [`Features`], possibly with further figures behind, and steps of [`ScalingAction`].
    Steps,
    /// [`SetPoints`], possibly with the team's figures behind.
    SetPoints,
    /// Numbers that mean nothing here.
    Unknown,
}

impl StateLayout {
    /// The layout of an environment's states, told by the features that it states.
    pub(crate) fn of(spec: &EnvSpec) -> Self {
        let Some(control) = &spec.control else { return Self::Unknown };
        let is = |schema: FeatureSchema| control.features.id == schema.id;
        if is(Features::schema()) || is(StageFeatures::schema()) {
            Self::Steps
        } else if is(SetPoints::feature_schema()) || is(SetPoints::team_feature_schema()) {
            Self::SetPoints
        } else {
            Self::Unknown
        }
    }

    /// What an agent adds to what the others observe.
    fn contribution(self, state: &[f32], action: &Action) -> Contribution {
        match self {
            Self::Steps => {
                let table: &[f32; Features::COUNT] =
                    state.first_chunk().expect("the state begins with Table 4.1");
                let action = action.discrete().and_then(ScalingAction::from_index);
                let action = action.unwrap_or(ScalingAction::Hold);
                // An environment's states are finite; a foreign one is not let in here.
                Contribution::new(table, action)
                    .unwrap_or_else(|_| Contribution::of_figures([0.0; 7]))
            }
            Self::SetPoints => {
                let state: &[f32; SetPoints::COUNT] =
                    state.first_chunk().expect("the state is of set-points");
                Contribution::of_set_points(state)
            }
            Self::Unknown => Contribution::of_figures(std::array::from_fn(|k| {
                state.get(k).copied().unwrap_or(0.0).clamp(-2.0, 2.0)
            })),
        }
    }

    /// How well an agent's SLO is met: the queue of CPQ-RL is ordered by it.
    pub(crate) fn preservation(self, state: &[f32]) -> f32 {
        match self {
            Self::Steps | Self::SetPoints => state[0],
            Self::Unknown => 0.0,
        }
    }
}

/// Numbers that an input adds to a state of `width` figures.
pub(crate) fn width_of(input: CriticInput, width: usize) -> usize {
    match input {
        CriticInput::Local => 0,
        CriticInput::Others => GlobalState::FEATURES,
        CriticInput::OthersPlain => GlobalState::FEATURES / 2,
        CriticInput::AllStates => width,
        CriticInput::Typed => TaskType::ALL.len() * GlobalState::FEATURES,
    }
}

/// The agents of one environment.
pub(crate) struct AgentGroup<'a> {
    pub(crate) layout: StateLayout,
    /// Their states, row after row.
    pub(crate) states: &'a [f32],
    pub(crate) width: usize,
    pub(crate) actions: &'a [Action],
    pub(crate) task_types: &'a [TaskType],
    /// Agents that a sum is measured against.
    pub(crate) per: f64,
}

impl AgentGroup<'_> {
    /// Writes what every agent sees of the others, row after row, in time that grows as the
    /// number of agents does.
    pub(crate) fn observe_others(&self, input: CriticInput, out: &mut Vec<f32>) {
        out.clear();
        let rows = self.states.chunks_exact(self.width);
        let parts: Vec<_> = match input {
            CriticInput::Local => return,
            CriticInput::AllStates => return mean_of_others(self.states, self.width, out),
            _ => rows
                .zip(self.actions)
                .map(|(state, action)| self.layout.contribution(state, action))
                .collect(),
        };
        let mut groups = [VirtualAgent::default(); TaskType::ALL.len()];
        let group_of =
            |task_type: TaskType| if input == CriticInput::Typed { task_type as usize } else { 0 };
        for (part, task_type) in parts.iter().zip(self.task_types) {
            groups[group_of(*task_type)].add(part);
        }
        for (part, task_type) in parts.iter().zip(self.task_types) {
            let own = group_of(*task_type);
            let count = if input == CriticInput::Typed { groups.len() } else { 1 };
            for (number, group) in groups[..count].iter().enumerate() {
                let seen = if number == own { group.of_others(part) } else { group.of_all() };
                let features = seen.features(self.per);
                let shown = if input == CriticInput::OthersPlain {
                    features.len() / 2
                } else {
                    features.len()
                };
                out.extend_from_slice(&features[..shown]);
            }
        }
    }
}

/// The mean of every figure over the others.
fn mean_of_others(states: &[f32], width: usize, out: &mut Vec<f32>) {
    let count = states.len() / width;
    let mut sums = vec![0.0_f64; width];
    // What is no number stops the agent that sees it, not those that see that agent.
    let finite = |figure: &f32| if figure.is_finite() { f64::from(*figure) } else { 0.0 };
    for row in states.chunks_exact(width) {
        sums.iter_mut().zip(row).for_each(|(sum, figure)| *sum += finite(figure));
    }
    let others = count.saturating_sub(1).max(1) as f64;
    for row in states.chunks_exact(width) {
        let means = sums.iter().zip(row).map(|(sum, own)| ((sum - finite(own)) / others) as f32);
        out.extend(means);
    }
}

/// What every agent learns from. A reward that is no number stays with its agent, which it stops:
/// the others learn from the rewards of the others.
pub(crate) fn share_rewards(sharing: RewardSharing, rewards: &mut [f64]) {
    let finite = rewards.iter().filter(|reward| reward.is_finite());
    let (count, sum) = finite.fold((0, 0.0), |(count, sum), reward| (count + 1, sum + reward));
    let shared = match sharing {
        RewardSharing::Own => return,
        RewardSharing::Team => sum / f64::from(count.max(1)),
        RewardSharing::Total => sum,
    };
    rewards.iter_mut().filter(|reward| reward.is_finite()).for_each(|reward| *reward = shared);
}

#[cfg(test)]
mod tests {
    use homeostat_sim_faas::FaasConfig;

    use super::*;

    #[test]
    fn an_environment_states_what_its_features_mean() {
        for spec in homeostat_sim_faas::specs(&FaasConfig::default()) {
            let expect = match spec.id.name() {
                "course" => StateLayout::Unknown,
                "fleet-set-points" | "fleet-set-points-team" => StateLayout::SetPoints,
                _ => StateLayout::Steps,
            };
            assert_eq!(StateLayout::of(&spec), expect, "{}", spec.id);
        }
        for spec in homeostat_env::specs() {
            assert_eq!(StateLayout::of(&spec), StateLayout::Unknown, "{}", spec.id);
        }
    }

    #[test]
    fn a_reward_that_is_no_number_stays_with_its_agent() {
        let check = |how: RewardSharing, expect: [f64; 4]| {
            let mut rewards = [1.0, f64::NAN, -3.0, f64::INFINITY];
            share_rewards(how, &mut rewards);
            assert_eq!(format!("{rewards:?}"), format!("{expect:?}"));
        };
        check(RewardSharing::Own, [1.0, f64::NAN, -3.0, f64::INFINITY]);
        check(RewardSharing::Team, [-1.0, f64::NAN, -1.0, f64::INFINITY]);
        check(RewardSharing::Total, [-2.0, f64::NAN, -2.0, f64::INFINITY]);
    }

    #[test]
    fn a_state_that_is_no_number_is_not_seen_by_the_others() {
        let mut seen = Vec::new();
        mean_of_others(&[1.0, f32::NAN, 4.0, 2.0, 7.0, 6.0], 2, &mut seen);
        assert_eq!(seen, [5.5, 4.0, 4.0, 3.0, 2.5, 1.0]);
    }
}
