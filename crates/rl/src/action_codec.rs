//! Between rows of floats, as heads and buffers hold them, and actions.

use homeostat_env::{Action, Space};
use homeostat_nn::Head;

/// Knows the action space.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionCodec {
    space: Space,
}

impl ActionCodec {
    /// The codec of this space.
    pub fn new(space: &Space) -> Self {
        Self { space: space.clone() }
    }

    /// The stochastic head for this space.
    pub fn head(&self) -> Head {
        match &self.space {
            Space::Discrete(n) => Head::Categorical(vec![*n]),
            Space::MultiDiscrete(n) => Head::Categorical(n.clone()),
            Space::Box { low, .. } => Head::Gaussian(low.len()),
        }
    }

    /// Writes the action that a row of floats stands for. Continuous values are
    /// cut to the box: a Gaussian knows no ends.
    pub fn decode(&self, row: &[f32], action: &mut Action) {
        match (&self.space, action) {
            (Space::Discrete(_), action) => *action = Action::Discrete(row[0] as usize),
            (Space::MultiDiscrete(_), Action::MultiDiscrete(choices))
                if choices.len() == row.len() =>
            {
                choices.iter_mut().zip(row).for_each(|(choice, value)| *choice = *value as usize);
            }
            (Space::MultiDiscrete(_), action) => {
                *action = Action::MultiDiscrete(row.iter().map(|value| *value as usize).collect());
            }
            (Space::Box { low, high }, Action::Continuous(values)) if values.len() == row.len() => {
                let ends = low.iter().zip(high);
                for ((value, from), (low, high)) in values.iter_mut().zip(row).zip(ends) {
                    *value = from.clamp(*low, *high);
                }
            }
            (Space::Box { low, high }, action) => {
                let ends = low.iter().zip(high);
                let cut = row.iter().zip(ends).map(|(value, (low, high))| value.clamp(*low, *high));
                *action = Action::Continuous(cut.collect());
            }
        }
    }

    /// Moves a row from [-1, 1] to the ends of the box.
    pub fn stretch(&self, row: &mut [f32]) {
        if let Space::Box { low, high } = &self.space {
            for (value, (low, high)) in row.iter_mut().zip(low.iter().zip(high)) {
                *value = low + (*value + 1.0) * 0.5 * (high - low);
            }
        }
    }

    /// The same where all ends are finite; other rows stay as they are.
    pub(crate) fn shrink_finite(&self, row: &mut [f32]) {
        if let Space::Box { low, high } = &self.space
            && low.iter().chain(high).all(|end| end.is_finite())
        {
            self.shrink(row);
        }
    }

    /// Moves a row from the ends of the box to [-1, 1]; what lies outside is cut.
    pub fn shrink(&self, row: &mut [f32]) {
        if let Space::Box { low, high } = &self.space {
            for (value, (low, high)) in row.iter_mut().zip(low.iter().zip(high)) {
                let part = if high > low { (*value - low) / (high - low) } else { 0.5 };
                *value = (2.0 * part - 1.0).clamp(-1.0, 1.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(space: &Space, row: &[f32]) -> Action {
        let mut action = Action::Discrete(0);
        ActionCodec::new(space).decode(row, &mut action);
        // Once more into the action that is there already: it must not matter.
        let mut again = action.clone();
        ActionCodec::new(space).decode(row, &mut again);
        assert_eq!(again, action);
        assert!(space.contains(&action), "{action} is outside {space}");
        action
    }

    #[test]
    fn rows_become_actions_of_the_space() {
        let spread = Space::Box { low: vec![-2.0, 0.0], high: vec![2.0, 10.0] };
        assert_eq!(decoded(&Space::Discrete(4), &[3.0]), Action::Discrete(3));
        let questions = Space::MultiDiscrete(vec![3, 4]);
        assert_eq!(decoded(&questions, &[2.0, 0.0]), Action::MultiDiscrete(vec![2, 0]));
        assert_eq!(decoded(&spread, &[1.5, 7.0]), Action::Continuous(vec![1.5, 7.0]));
        assert_eq!(decoded(&spread, &[9.0, -9.0]), Action::Continuous(vec![2.0, 0.0]));
    }

    #[test]
    fn stretching_reaches_both_ends_and_shrinking_undoes_it() {
        let spread = Space::Box { low: vec![-2.0, 0.0], high: vec![2.0, 10.0] };
        let check = |mut row: [f32; 2], expect: [f32; 2]| {
            let before = row;
            ActionCodec::new(&spread).stretch(&mut row);
            assert_eq!(row, expect);
            ActionCodec::new(&spread).shrink(&mut row);
            assert_eq!(row, before);
        };
        check([-1.0, -1.0], [-2.0, 0.0]);
        check([0.0, 0.0], [0.0, 5.0]);
        check([1.0, 1.0], [2.0, 10.0]);
    }
}
