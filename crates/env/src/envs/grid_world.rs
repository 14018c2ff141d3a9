//! A small deterministic maze; its optimal policy is known.

use homeostat_core::{Error, Persist, Result, Snapshot, Stream};

use super::OF_THE_SPACE;
use crate::{Action, Card, Dynamics, EnvSpec, Field, Outcome, Space};

/// `S` is the start, `G` the goal, `X` the pit, `#` a wall.
const MAZE: [&[u8; SIDE]; SIDE] = [
    b"S....", //
    b".#.#.", //
    b".#X..", //
    b"...#.", //
    b"#...G",
];
const SIDE: usize = 5;
const CELLS: usize = SIDE * SIDE;
const STEP_REWARD: f64 = -1.0;
// Worse than the longest way from any cell to the goal, 8 steps, so that the pit is never optimal.
const PIT_REWARD: f64 = -10.0;

/// The optimal return: the shortest path from the start to the goal takes eight steps.
pub const OPTIMAL_RETURN: f64 = 8.0 * STEP_REWARD;

/// The maze with one walker.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GridWorld {
    state: GridWorldState,
}

/// The walker's cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GridWorldState {
    /// From 0 at the top to 4.
    pub row: usize,
    /// From 0 at the left to 4.
    pub column: usize,
}

impl GridWorld {
    /// The present state.
    pub fn state(&self) -> GridWorldState {
        self.state
    }

    /// Sets the state; row and column must be below 5.
    pub fn set_state(&mut self, state: GridWorldState) {
        debug_assert!(state.row < SIDE && state.column < SIDE, "{state:?} is outside the maze");
        self.state = state;
    }
}

impl GridWorldState {
    fn from_cell(cell: usize) -> Self {
        Self { row: cell / SIDE, column: cell % SIDE }
    }

    fn cell(self) -> usize {
        self.row * SIDE + self.column
    }

    fn is(self, mark: u8) -> bool {
        MAZE[self.row][self.column] == mark
    }

    /// The next cell in a direction; at a wall or the edge, the same cell.
    fn towards(self, direction: usize) -> Self {
        let Self { row, column } = self;
        let next = match direction {
            0 => Self { row: row.saturating_sub(1), column },
            1 => Self { row, column: (column + 1).min(SIDE - 1) },
            2 => Self { row: (row + 1).min(SIDE - 1), column },
            _ => Self { row, column: column.saturating_sub(1) },
        };
        if next.is(b'#') { self } else { next }
    }
}

impl Dynamics for GridWorld {
    fn spec(&self) -> EnvSpec {
        EnvSpec {
            control: None,
            id: "toy/grid-world-v1".parse().expect("the id is well-formed"),
            observation: Space::Discrete(CELLS),
            action: Space::Discrete(4),
            time_limit: Some(100),
            card: Card {
                summary: "Walk from one corner of a 5 x 5 maze to the other, around a pit.",
                observation: vec![Field::new(
                    "cell",
                    "0 to 24: 5 x row + column, counted from the top left, where every episode \
                     starts",
                )],
                action: vec![
                    Field::new("0", "one cell up; walls and the edge block the way"),
                    Field::new("1", "one cell right"),
                    Field::new("2", "one cell down"),
                    Field::new("3", "one cell left"),
                ],
                reward: "-1 for every step, -10 for the one into the pit; at best -8 in all",
                termination: "at the goal in the bottom right corner, or in the pit",
                source: "this project; in the manner of Sutton and Barto's gridworlds",
            },
        }
    }

    fn reset(&mut self, _rng: &mut Stream) {
        self.state = GridWorldState::default();
    }

    fn step(&mut self, action: &Action, _rng: &mut Stream) -> Outcome {
        self.state = self.state.towards(action.discrete().expect(OF_THE_SPACE));
        let (goal, pit) = (self.state.is(b'G'), self.state.is(b'X'));
        Outcome { reward: if pit { PIT_REWARD } else { STEP_REWARD }, terminated: goal || pit }
    }

    fn observe(&self, obs: &mut [f32]) {
        obs[0] = self.state.cell() as f32;
    }

    fn render(&self) -> String {
        let mut picture = String::new();
        for (cell, mark) in MAZE.iter().flat_map(|row| row.iter()).enumerate() {
            let here = cell == self.state.cell();
            picture.push(if here { '@' } else { char::from(*mark) });
            picture.push(if cell % SIDE == SIDE - 1 { '\n' } else { ' ' });
        }
        picture
    }
}

impl Persist for GridWorld {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_u64(name, [self.state.cell() as u64]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        let cell = from.u64s(name, 1)?[0];
        match usize::try_from(cell) {
            Ok(cell) if cell < CELLS => {
                self.state = GridWorldState::from_cell(cell);
                Ok(())
            }
            _ => Err(Error::SnapshotMismatch {
                name: name.to_owned(),
                found: format!("cell {cell}"),
                expected: format!("a cell below {CELLS}"),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn step_from(state: GridWorldState, direction: usize) -> (GridWorldState, Outcome) {
        let mut env = GridWorld::default();
        env.set_state(state);
        let outcome = env.step(&Action::Discrete(direction), &mut Stream::from_seed(0));
        (env.state(), outcome)
    }

    /// Steps from `start` to the goal by breadth-first search over the dynamics.
    fn shortest_way(start: GridWorldState) -> Option<u32> {
        let mut seen = [false; CELLS];
        let mut queue = VecDeque::from([(start, 0)]);
        while let Some((state, steps)) = queue.pop_front() {
            for direction in 0..4 {
                let (next, outcome) = step_from(state, direction);
                if next.is(b'G') {
                    return Some(steps + 1);
                }
                if !outcome.terminated && !std::mem::replace(&mut seen[next.cell()], true) {
                    queue.push_back((next, steps + 1));
                }
            }
        }
        None
    }

    #[test]
    fn no_way_is_shorter_than_the_optimal_return_says() {
        let steps = shortest_way(GridWorldState::default()).unwrap();
        assert_eq!(f64::from(steps) * STEP_REWARD, OPTIMAL_RETURN);
    }

    #[test]
    fn the_goal_can_be_reached_from_everywhere_and_the_pit_is_never_cheaper() {
        const { assert!(PIT_REWARD < OPTIMAL_RETURN) };
        for state in (0..CELLS).map(GridWorldState::from_cell) {
            if !state.is(b'#') && !state.is(b'X') && !state.is(b'G') {
                let steps = shortest_way(state).unwrap();
                assert!(f64::from(steps) * STEP_REWARD >= OPTIMAL_RETURN, "{state:?}: {steps}");
            }
        }
    }

    #[test]
    fn walls_and_edges_hold_and_the_pit_ends_the_episode() {
        let start = GridWorldState::default();
        let held = Outcome { reward: STEP_REWARD, terminated: false };
        assert_eq!(step_from(start, 0), (start, held));
        let beside_wall = GridWorldState { row: 1, column: 0 };
        assert_eq!(step_from(beside_wall, 1), (beside_wall, held));
        let above_pit = GridWorldState { row: 1, column: 2 };
        let fallen = Outcome { reward: PIT_REWARD, terminated: true };
        assert_eq!(step_from(above_pit, 2), (GridWorldState { row: 2, column: 2 }, fallen));
    }

    #[test]
    fn a_cell_outside_the_maze_is_refused() {
        let mut snapshot = Snapshot::default();
        snapshot.put_u64("env", [25]);
        let error = GridWorld::default().load("env", &snapshot).unwrap_err().to_string();
        assert_eq!(error, "snapshot array `env` is cell 25, expected a cell below 25");
    }

    #[test]
    fn the_picture_is_the_maze_with_the_walker() {
        let picture = "@ . . . .\n. # . # .\n. # X . .\n. . . # .\n# . . . G\n";
        assert_eq!(GridWorld::default().render(), picture);
    }
}
