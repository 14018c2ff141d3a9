//! The virtual agent of Section 4.7.1: all the others, as one agent sees them.

use homeostat_decide::{Features, ScalingAction};

/// Variables of the auxiliary global state.
const VARIABLES: usize = 7;

/// One agent's part of everybody else's global state: figures of its local state and its last
/// action. Kept as integers, so that sums are exact: the order of agents does not matter, and
/// taking one out of a sum of thousands leaves nothing behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contribution([i64; VARIABLES]);

/// Units of a contribution in one. Figures are of the order of one: with a magnitude of at most
/// two, the squares of a million agents still fit into 128 bits.
const ONE: f64 = (1_u64 << 40) as f64;

/// The largest magnitude.
const MOST: f64 = 2.0;

impl Contribution {
    /// What an agent contributes in the given state after the given action.
    ///
    /// Refuses a state with a number that is not finite, by its index.
    pub fn new(state: &[f32; Features::COUNT], action: ScalingAction) -> Result<Self, usize> {
        if let Some(index) = state.iter().position(|figure| !figure.is_finite()) {
            return Err(index);
        }
        let [preservation, use_cpu, use_memory, _, limit_cpu, limit_memory, _] = *state;
        let (vertical, horizontal) = match action {
            ScalingAction::Hold => (0.0, 0.0),
            ScalingAction::CpuUp | ScalingAction::MemoryUp => (1.0, 0.0),
            ScalingAction::CpuDown | ScalingAction::MemoryDown => (-1.0, 0.0),
            ScalingAction::ReplicasUp => (0.0, 1.0),
            ScalingAction::ReplicasDown => (0.0, -1.0),
        };
        Ok(Self::of_figures([
            limit_cpu,
            limit_memory,
            vertical,
            horizontal,
            preservation,
            use_cpu,
            use_memory,
        ]))
    }

    /// Seven figures in the order of [`GlobalState`]. What is beyond two counts as two, what is
    /// no number as zero.
    pub(crate) fn of_figures(figures: [f32; VARIABLES]) -> Self {
        Self(figures.map(|figure| (f64::from(figure).clamp(-MOST, MOST) * ONE) as i64))
    }

    pub(crate) const VARIABLES: usize = VARIABLES;

    pub(crate) fn numbers(&self) -> [i64; VARIABLES] {
        self.0
    }

    /// What [`Contribution::numbers`] gave, held inside its bounds whatever it has become.
    pub(crate) fn from_numbers(numbers: [i64; VARIABLES]) -> Self {
        let most = (MOST * ONE) as i64;
        Self(numbers.map(|number| number.clamp(-most, most)))
    }
}

/// Everybody's contributions together.
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
#[derive(Debug, Clone, Copy, PartialEq)]
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
