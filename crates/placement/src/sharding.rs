//! Intra-operator parallelism: an integer programme chooses how each operator is divided over devices
//! that compute together.
//!
//! A choice per operator says what happens to its weights and what layout its input and output have:
//! whole on each device, or a part on each. Where a part is followed by a need for the whole, the
//! devices gather it over their links. The programme minimises the time of a mean request within the
//! memory of the devices. Operators of the same shape (the layers of a transformer) have one choice,
//! so that its size does not grow with the number of layers.

use good_lp::{
    Expression, ProblemVariables, Solution, SolverModel, Variable, constraint, microlp, variable,
};
use homeostat_sim_gpu::{Cost, DeviceType, Operator, OperatorKind, StageCost, Work};

use crate::{Error, ModelDemand, Result};

/// How an operator is divided over devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Split {
    /// Every device does all of it.
    Replicated,
    /// By outputs: needs the whole input, leaves a part of the output on each device.
    Outputs,
    /// By inputs: needs a part of the input on each device; the devices add up the output.
    Inputs,
    /// A part of the input becomes the same part of the output.
    Parts,
    /// By rows of a table: needs the whole input; the devices add up the output.
    Table,
}

impl Split {
    /// The choices for a kind of operator.
    fn of(kind: OperatorKind) -> &'static [Self] {
        match kind {
            OperatorKind::Dot | OperatorKind::Convolution => {
                &[Self::Replicated, Self::Outputs, Self::Inputs]
            }
            // Heads of attention, and elements, do not need each other; a norm needs the whole width.
            OperatorKind::Attention | OperatorKind::Elementwise => &[Self::Replicated, Self::Parts],
            OperatorKind::Normalization => &[Self::Replicated],
            OperatorKind::Gather => &[Self::Replicated, Self::Table],
        }
    }

    fn needs_whole_input(self) -> bool {
        matches!(self, Self::Replicated | Self::Outputs | Self::Table)
    }

    fn leaves_parts(self) -> bool {
        matches!(self, Self::Outputs | Self::Parts)
    }

    fn adds_up(self) -> bool {
        matches!(self, Self::Inputs | Self::Table)
    }
}

/// A model divided over devices that compute together.
#[derive(Debug, Clone, PartialEq)]
pub struct Sharding {
    /// The choice for each operator.
    pub splits: Vec<Split>,
    /// What each operator costs, with the transfers before and after it. Energy is that of all devices.
    pub costs: Vec<StageCost>,
    /// Bytes of weights on each device.
    pub weight_bytes: Vec<f64>,
    /// Bytes on each device that a token leaves in the cache.
    pub cache_bytes: Vec<f64>,
}

impl Sharding {
    /// Seconds of a mean request at the highest clock.
    pub fn seconds(&self, demand: &ModelDemand, device: &DeviceType) -> f64 {
        self.costs.iter().map(|cost| mean_seconds(cost, demand, device)).sum()
    }
}

/// Seconds of a mean request at the highest clock.
pub(crate) fn mean_seconds(cost: &StageCost, demand: &ModelDemand, device: &DeviceType) -> f64 {
    let seconds = |work: Work| cost.of_work(work).seconds(device, device.max_clock());
    demand.mean_request().into_iter().map(|(times, work)| times * seconds(work)).sum()
}

/// The sum of two costs.
pub(crate) fn add(mut cost: StageCost, other: &StageCost) -> StageCost {
    cost.base += other.base;
    cost.per_token += other.per_token;
    cost.per_pair += other.per_pair;
    cost.per_cached += other.per_cached;
    cost
}

/// Divides a model over `degree` devices of a type that have `budget` bytes each for all of its
/// operators. None if there is no division within the budget.
pub fn shard(
    demand: &ModelDemand,
    device: &DeviceType,
    degree: u32,
    budget: f64,
) -> Result<Option<Sharding>> {
    let problem = ShardingProblem::new(demand, device, degree);
    let Some(choices) = problem.solve(&demand.model.name, budget)? else { return Ok(None) };
    Ok(Some(problem.sharding(&choices)))
}

/// The integer programme: classes of equal operators, and their neighbourhoods.
struct ShardingProblem<'a> {
    demand: &'a ModelDemand,
    device: &'a DeviceType,
    degree: u32,
    /// The class of each operator.
    class_of: Vec<usize>,
    /// The first operator of each class, and the number of them.
    classes: Vec<(usize, f64)>,
    /// Classes that follow each other, with the bytes per token between them and how often.
    edges: Vec<(usize, usize, f64, f64)>,
}

impl<'a> ShardingProblem<'a> {
    fn new(demand: &'a ModelDemand, device: &'a DeviceType, degree: u32) -> Self {
        let operators = &demand.model.operators;
        let mut this = Self {
            demand,
            device,
            degree,
            class_of: Vec::new(),
            classes: Vec::new(),
            edges: Vec::new(),
        };
        for (place, operator) in operators.iter().enumerate() {
            let is_same = |(other, _): &(usize, f64)| {
                let unnamed = Operator { name: operator.name.clone(), ..operators[*other].clone() };
                unnamed == *operator && this.output_bytes(*other) == this.output_bytes(place)
            };
            let known = this.classes.iter().position(is_same);
            let class = known.unwrap_or(this.classes.len());
            if known.is_none() {
                this.classes.push((place, 0.0));
            }
            this.classes[class].1 += 1.0;
            this.class_of.push(class);
        }
        for place in 1..operators.len() {
            let (from, to) = (this.class_of[place - 1], this.class_of[place]);
            let bytes = this.output_bytes(place - 1);
            let known =
                this.edges.iter_mut().find(|edge| (edge.0, edge.1, edge.2) == (from, to, bytes));
            match known {
                Some(edge) => edge.3 += 1.0,
                None => this.edges.push((from, to, bytes, 1.0)),
            }
        }
        this
    }

    /// Bytes per token between an operator and the next: both read and write it, so that the smaller of
    /// the two halves bounds it.
    fn output_bytes(&self, operator: usize) -> f64 {
        let operators = &self.demand.model.operators;
        let own = operators[operator].bytes_per_token / 2.0;
        operators.get(operator + 1).map_or(own, |next| own.min(next.bytes_per_token / 2.0))
    }

    /// One device's share of an operator.
    fn share(&self, operator: usize, split: Split) -> Operator {
        let mut share = self.demand.model.operators[operator].clone();
        if split != Split::Replicated {
            let part = 1.0 / f64::from(self.degree);
            for amount in [
                &mut share.weight_bytes,
                &mut share.stored_bytes,
                &mut share.flops_per_token,
                &mut share.bytes_per_token,
                &mut share.flops_per_pair,
                &mut share.bytes_per_cached,
                &mut share.cache_bytes_per_token,
            ] {
                *amount *= part;
            }
        }
        share
    }

    /// What an operator costs, with the sum of its output where it is added up.
    fn operator_cost(&self, operator: usize, split: Split) -> StageCost {
        let share = self.share(operator, split);
        let factor = self.demand.model.calibration;
        let mut cost = StageCost::of(std::slice::from_ref(&share), self.device, factor);
        for part in [&mut cost.base, &mut cost.per_token, &mut cost.per_pair, &mut cost.per_cached]
        {
            part.compute_j *= f64::from(self.degree);
            part.memory_j *= f64::from(self.degree);
        }
        if split.adds_up() {
            // A ring adds up and hands round: twice the traffic of gathering.
            cost = add(cost, &self.gather_cost(2.0 * self.output_bytes(operator), 2.0));
        }
        cost
    }

    /// The time in which each device receives the parts of all others.
    fn gather_cost(&self, bytes_per_token: f64, rounds: f64) -> StageCost {
        let (degree, device) = (f64::from(self.degree), self.device);
        let seconds = |fixed_s| Cost { fixed_s, ..Cost::default() };
        StageCost {
            base: seconds(rounds * (degree - 1.0) * device.link_us * 1e-6),
            per_token: seconds((degree - 1.0) / degree * bytes_per_token / device.link_bytes_per_s),
            ..StageCost::default()
        }
    }

    /// Bytes of an operator on each device: weights, and the cache of the longest request.
    fn memory(&self, operator: usize, split: Split) -> f64 {
        let share = self.share(operator, split);
        share.stored_bytes + share.cache_bytes_per_token * self.demand.longest_tokens()
    }

    fn seconds(&self, cost: &StageCost) -> f64 {
        mean_seconds(cost, self.demand, self.device)
    }

    fn class_splits(&self, class: usize) -> &'static [Split] {
        Split::of(self.demand.model.operators[self.classes[class].0].kind)
    }

    /// The choice for each class.
    fn solve(&self, model: &str, budget: f64) -> Result<Option<Vec<Split>>> {
        if self.degree == 1 {
            let all = |(operator, count): &(usize, f64)| {
                count * self.memory(*operator, Split::Replicated)
            };
            let fits = self.classes.iter().map(all).sum::<f64>() <= budget;
            return Ok(fits.then(|| vec![Split::Replicated; self.classes.len()]));
        }
        let mut variables = ProblemVariables::new();
        let (mut seconds, mut memory) = (Expression::from(0.0), Expression::from(0.0));
        let (mut least_memory, mut scale) = (0.0, 0.0);
        let mut chosen: Vec<Vec<Variable>> = Vec::new();
        for (class, (operator, count)) in self.classes.iter().enumerate() {
            let mut least = f64::INFINITY;
            let mut of_class = Vec::new();
            for split in self.class_splits(class) {
                let choice = variables.add(variable().binary());
                let cost_s = count * self.seconds(&self.operator_cost(*operator, *split));
                let bytes = count * self.memory(*operator, *split);
                seconds += cost_s * choice;
                memory += bytes / budget * choice;
                least = least.min(bytes);
                scale = f64::max(scale, cost_s);
                of_class.push(choice);
            }
            least_memory += least;
            chosen.push(of_class);
        }
        if least_memory > budget {
            return Ok(None);
        }
        let sum_where = |class: usize, holds: fn(Split) -> bool| {
            let splits = self.class_splits(class).iter().zip(&chosen[class]);
            splits
                .filter(|(split, _)| holds(**split))
                .map(|(_, choice)| *choice)
                .sum::<Expression>()
        };
        let mut gathers = Vec::new();
        for (from, to, bytes, count) in &self.edges {
            // One if parts are followed by a need for the whole.
            let gather = variables.add(variable().min(0.0).max(1.0));
            seconds += count * self.seconds(&self.gather_cost(*bytes, 1.0)) * gather;
            let parts = sum_where(*from, Split::leaves_parts);
            let whole = sum_where(*to, Split::needs_whole_input);
            gathers.push(constraint!(parts + whole - gather <= 1.0));
        }
        let scale = if scale > 0.0 { scale } else { 1.0 };
        let mut programme = variables.minimise(seconds / scale).using(microlp);
        for of_class in &chosen {
            let one: Expression = of_class.iter().copied().sum();
            programme.add_constraint(constraint!(one == 1.0));
        }
        for gather in gathers {
            programme.add_constraint(gather);
        }
        programme.add_constraint(constraint!(memory <= 1.0));
        let solution = match programme.solve() {
            Ok(solution) => solution,
            // The least memory may need divisions that do not go together.
            Err(good_lp::ResolutionError::Infeasible) => return Ok(None),
            Err(error) => {
                return Err(Error::Solver {
                    model: model.to_owned(),
                    devices: self.degree,
                    reason: error.to_string(),
                });
            }
        };
        let of_class = |(class, choices): (usize, &Vec<Variable>)| {
            let splits = self.class_splits(class).iter().zip(choices);
            let best = splits.max_by(|a, b| solution.value(*a.1).total_cmp(&solution.value(*b.1)));
            best.map(|(split, _)| *split).expect("every kind has a choice")
        };
        Ok(Some(chosen.iter().enumerate().map(of_class).collect()))
    }

    fn sharding(&self, choices: &[Split]) -> Sharding {
        let splits: Vec<Split> = self.class_of.iter().map(|class| choices[*class]).collect();
        let mut sharding = Sharding {
            costs: Vec::new(),
            weight_bytes: Vec::new(),
            cache_bytes: Vec::new(),
            splits,
        };
        for (operator, split) in sharding.splits.iter().enumerate() {
            let mut cost = self.operator_cost(operator, *split);
            let before = operator.checked_sub(1);
            if before.is_some_and(|before| sharding.splits[before].leaves_parts())
                && split.needs_whole_input()
            {
                let bytes = self.output_bytes(operator - 1);
                cost = add(cost, &self.gather_cost(bytes, 1.0));
            }
            let share = self.share(operator, *split);
            sharding.costs.push(cost);
            sharding.weight_bytes.push(share.stored_bytes);
            sharding.cache_bytes.push(share.cache_bytes_per_token);
        }
        sharding
    }
}

#[cfg(test)]
mod tests {
    use homeostat_core::SimDuration;
    use homeostat_sim_gpu::Model;
    use proptest::prelude::*;

    use super::*;
    use crate::LoadKind;

    fn demand(model: Model) -> ModelDemand {
        ModelDemand {
            name: model.name.clone(),
            model,
            rate: 1.0,
            load: LoadKind::Poisson,
            prompt_tokens: 128.0,
            output_tokens: 16.0,
            length_sigma: 0.0,
            slo: SimDuration::from_secs(1),
        }
    }

    fn operator(kind: OperatorKind, megabytes: f64, tensor: f64) -> Operator {
        Operator {
            name: String::new(),
            kind,
            launches: 1.0,
            weight_bytes: megabytes * 1e6,
            stored_bytes: megabytes * 1e6,
            flops_per_token: megabytes * 1e6,
            bytes_per_token: tensor,
            flops_per_pair: 0.0,
            bytes_per_cached: 0.0,
            cache_bytes_per_token: 0.0,
        }
    }

    /// The least time of all choices within the budget.
    fn least_of_all(problem: &ShardingProblem, budget: f64) -> Option<f64> {
        let mut all = vec![Vec::new()];
        for class in 0..problem.classes.len() {
            let mut longer = Vec::new();
            for choices in &all {
                for split in problem.class_splits(class) {
                    let mut choices: Vec<Split> = choices.clone();
                    choices.push(*split);
                    longer.push(choices);
                }
            }
            all = longer;
        }
        let memory = |choices: &Vec<Split>| -> f64 {
            let of = |class: &usize| {
                let (operator, count) = problem.classes[*class];
                count * problem.memory(operator, choices[*class])
            };
            (0..problem.classes.len()).map(|class| of(&class)).sum()
        };
        let within = all.iter().filter(|choices| memory(choices) <= budget);
        let seconds =
            within.map(|choices| problem.sharding(choices).seconds(problem.demand, problem.device));
        seconds.min_by(f64::total_cmp)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn it_equals_trying_all_choices(
            chain in prop::collection::vec((0_usize..5, 0.0..80.0_f64, 1.0..1e6_f64), 1..6),
            degree in 2_u32..5,
            tightness in 0.2..1.2_f64,
        ) {
            let kinds = [
                OperatorKind::Dot,
                OperatorKind::Attention,
                OperatorKind::Normalization,
                OperatorKind::Elementwise,
                OperatorKind::Gather,
            ];
            let operators: Vec<Operator> = chain
                .into_iter()
                .map(|(kind, megabytes, tensor)| operator(kinds[kind], megabytes, tensor))
                .collect();
            let budget = tightness * operators.iter().map(|one| one.stored_bytes).sum::<f64>();
            let model = Model {
                name: "chain".to_owned(),
                operators,
                is_autoregressive: false,
                calibration: 1.0,
            };
            let device = DeviceType::by_name("v100").unwrap();
            let demand = demand(model);
            let problem = ShardingProblem::new(&demand, &device, degree);
            let least = least_of_all(&problem, budget);
            let found = shard(&demand, &device, degree, budget).unwrap();
            match (least, found) {
                (None, found) => prop_assert!(found.is_none()),
                (Some(least), Some(found)) => {
                    let seconds = found.seconds(&demand, &device);
                    prop_assert!((seconds - least).abs() <= 1e-6 * least, "{} {}", seconds, least);
                    prop_assert!(found.weight_bytes.iter().sum::<f64>() <= budget * (1.0 + 1e-6));
                }
                (Some(least), None) => prop_assert!(false, "it missed {}", least),
            }
        }
    }

    #[test]
    fn a_transformer_is_divided_as_megatron_does_where_links_are_fast() {
        let device = DeviceType::by_name("a100").unwrap();
        let demand = demand(Model::by_name("opt-2.7b").unwrap());
        let found = shard(&demand, &device, 4, device.memory_bytes()).unwrap().unwrap();
        let of = |name: &str| {
            let operators = demand.model.operators.iter();
            let mut named = operators.zip(&found.splits).filter(|(one, _)| one.name == name);
            *named.next().unwrap().1
        };
        // Products by outputs, then heads and elements in parts. What follows adds up its output, or gathers
        // its input and leaves parts: both send the same bytes.
        assert_eq!((of("3/query-key-value"), of("3/attention")), (Split::Outputs, Split::Parts));
        assert_eq!((of("3/feed-up"), of("3/activation")), (Split::Outputs, Split::Parts));
        assert!(of("3/projection") != Split::Replicated && of("3/feed-down") != Split::Replicated);
        let whole = shard(&demand, &device, 1, device.memory_bytes()).unwrap().unwrap();
        let (divided_s, whole_s) =
            (found.seconds(&demand, &device), whole.seconds(&demand, &device));
        assert!(divided_s < whole_s, "{divided_s} {whole_s}");
    }

    #[test]
    fn a_model_that_cannot_be_divided_far_enough_is_refused() {
        let device = DeviceType::by_name("t4").unwrap();
        let demand = demand(Model::by_name("opt-2.7b").unwrap());
        assert_eq!(shard(&demand, &device, 2, 1e9).unwrap(), None);
        assert_eq!(shard(&demand, &device, 1, 1e9).unwrap(), None);
    }
}
