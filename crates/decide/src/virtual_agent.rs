//! The virtual agent of Section 4.7.1: all the others, as one agent sees them.

use homeostat_core::{Persist, Result as CoreResult, Snapshot};

use crate::{Features, ScalingAction, SetPoints};

/// Variables of the auxiliary global state.
const VARIABLES: usize = 7;

/// One agent's part of the global state of the others: figures of its local state and its last
/// action. Kept as integers, so that sums are exact: the order of agents does not matter, and
/// taking one out of a sum of thousands leaves nothing behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contribution([i64; VARIABLES]);

/// Units of a contribution in one. Figures are of the order of one: with a magnitude of at most
/// two, the squares of a million agents still fit into 128 bits.
const ONE: f64 = (1_u64 << 40) as f64;

/// The largest magnitude.
const MAX_MAGNITUDE: f64 = 2.0;

impl Contribution {
    /// What an agent contributes in the given state after the given action.
    ///
    /// Refuses a state with a number that is not finite, by its index.
    pub fn new(state: &[f32; Features::COUNT], action: ScalingAction) -> Result<Self, usize> {
        if let Some(index) = state.iter().position(|figure| !figure.is_finite()) {
            return Err(index);
        }
        let (vertical, horizontal) = match action {
            ScalingAction::Hold => (0.0, 0.0),
            ScalingAction::CpuUp | ScalingAction::MemoryUp => (1.0, 0.0),
            ScalingAction::CpuDown | ScalingAction::MemoryDown => (-1.0, 0.0),
            ScalingAction::ReplicasUp => (0.0, 1.0),
            ScalingAction::ReplicasDown => (0.0, -1.0),
        };
        Ok(Self::of_utilization(state, vertical, horizontal))
    }

    /// What an agent contributes in a state of [`Features`] after a vertical and a horizontal
    /// step.
    pub(crate) fn of_utilization(
        state: &[f32; Features::COUNT],
        vertical: f32,
        horizontal: f32,
    ) -> Self {
        let [preservation, use_cpu, use_memory, _, limit_cpu, limit_memory, _] = *state;
        Self::of_figures([
            limit_cpu,
            limit_memory,
            vertical,
            horizontal,
            preservation,
            use_cpu,
            use_memory,
        ])
    }

    /// What an agent contributes in a state of [`SetPoints`]: limits, then pressure in the place
    /// of actions, which are set-points and say nothing that the limits do not, then means.
    pub fn of_set_points(state: &[f32; SetPoints::COUNT]) -> Self {
        let [preservation, _, load, .., waiting, contention, replicas, weight, cpu] = *state;
        Self::of_figures([weight, replicas, waiting, contention, preservation, load, cpu])
    }

    /// Seven figures in the order of [`GlobalState`]. What is beyond two counts as two, what is
    /// no number as zero.
    pub fn of_figures(figures: [f32; VARIABLES]) -> Self {
        Self(
            figures.map(|figure| {
                (f64::from(figure).clamp(-MAX_MAGNITUDE, MAX_MAGNITUDE) * ONE) as i64
            }),
        )
    }

    /// Number of figures.
    pub const VARIABLES: usize = VARIABLES;
}

/// The contributions of all agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VirtualAgent {
    count: i64,
    sums: [i64; VARIABLES],
    squares: [i128; VARIABLES],
}

impl VirtualAgent {
    /// Takes an agent in.
    pub fn add(&mut self, part: &Contribution) {
        self.apply(part, 1);
    }

    /// Takes an agent out that was taken in with the same contribution.
    pub fn remove(&mut self, part: &Contribution) {
        self.apply(part, -1);
    }

    fn apply(&mut self, part: &Contribution, sign: i64) {
        self.count += sign;
        for (k, figure) in part.0.iter().enumerate() {
            self.sums[k] += sign * figure;
            self.squares[k] += i128::from(sign) * i128::from(*figure) * i128::from(*figure);
        }
    }

    /// Number of agents.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// The global state that an outsider sees: all agents.
    pub fn of_all(&self) -> GlobalState {
        let n = self.count.max(1);
        let figure = |k: usize| self.sums[k] as f64 / ONE;
        let deviation = |k: usize| {
            // n^2 times the variance, an exact integer.
            let sum = i128::from(self.sums[k]);
            let spread = i128::from(n) * self.squares[k] - sum * sum;
            (spread as f64).sqrt() / (n as f64 * ONE)
        };
        GlobalState {
            others: self.count as usize,
            limit_cpu: figure(0),
            limit_memory: figure(1),
            vertical: figure(2),
            horizontal: figure(3),
            preservation: figure(4) / n as f64,
            use_cpu: figure(5) / n as f64,
            use_memory: figure(6) / n as f64,
            deviations: std::array::from_fn(deviation),
        }
    }

    /// The global state that one of the agents sees: all but itself.
    pub fn of_others(&self, own: &Contribution) -> GlobalState {
        let mut others = *self;
        others.remove(own);
        others.of_all()
    }
}

/// The auxiliary global state of Table 4.1, with the deviations of its variables.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GlobalState {
    /// Number of agents it is of.
    pub others: usize,
    /// Sum of CPU limits.
    pub limit_cpu: f64,
    /// Sum of memory limits.
    pub limit_memory: f64,
    /// Sum of vertical actions, in steps.
    pub vertical: f64,
    /// Sum of horizontal actions, in replicas.
    pub horizontal: f64,
    /// Mean SLO preservation.
    pub preservation: f64,
    /// Mean CPU utilisation.
    pub use_cpu: f64,
    /// Mean memory utilisation.
    pub use_memory: f64,
    /// Deviations of the seven variables, in the order above.
    pub deviations: [f64; VARIABLES],
}

impl GlobalState {
    /// Number of features.
    pub const FEATURES: usize = 2 * VARIABLES;

    /// Means and deviations over the others, for a policy: they are of the order of one in a team of
    /// any size, so that a policy may serve in another than it was trained in.
    pub fn means(&self) -> [f32; Self::FEATURES] {
        self.features(self.others.max(1) as f64)
    }

    /// As features for a critic. Sums grow with the number of agents: they are given in
    /// units of `per` agents, a constant of the run, so that a network's inputs stay near one.
    pub fn features(&self, per: f64) -> [f32; Self::FEATURES] {
        let means = [
            self.limit_cpu / per,
            self.limit_memory / per,
            self.vertical / per,
            self.horizontal / per,
            self.preservation,
            self.use_cpu,
            self.use_memory,
        ];
        let mut features = [0.0; Self::FEATURES];
        for (slot, figure) in features.iter_mut().zip(means.iter().chain(&self.deviations)) {
            *slot = *figure as f32;
        }
        features
    }
}

impl Persist for GlobalState {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let figures = [
            self.others as f64,
            self.limit_cpu,
            self.limit_memory,
            self.vertical,
            self.horizontal,
            self.preservation,
            self.use_cpu,
            self.use_memory,
        ];
        out.put_f64(name, [&figures[..], &self.deviations].concat());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        let figures = from.f64s(name, 1 + Self::FEATURES)?;
        *self = Self {
            others: figures[0] as usize,
            limit_cpu: figures[1],
            limit_memory: figures[2],
            vertical: figures[3],
            horizontal: figures[4],
            preservation: figures[5],
            use_cpu: figures[6],
            use_memory: figures[7],
            deviations: std::array::from_fn(|variable| figures[1 + VARIABLES + variable]),
        };
        Ok(())
    }
}
