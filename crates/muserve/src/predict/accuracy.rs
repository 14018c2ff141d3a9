//! How good predictions are.

/// Kendall's tau-b of two orders, which takes ties into account: 1 for the same order, -1 for the
/// reverse, 0 without relation or if one of the two is constant. O(n log n) after Knight (1966).
/// Both slices have the same length and hold no NaN.
pub fn kendall_tau(x: &[f64], y: &[f64]) -> f64 {
    debug_assert_eq!(x.len(), y.len());
    let mut order: Vec<usize> = (0..x.len().min(y.len())).collect();
    order.sort_by(|a, b| x[*a].total_cmp(&x[*b]).then(y[*a].total_cmp(&y[*b])));
    let pairs = |n: u64| n * n.saturating_sub(1) / 2;
    let total = pairs(order.len() as u64);
    let runs = |same: &dyn Fn(usize, usize) -> bool, order: &[usize]| -> u64 {
        order.chunk_by(|a, b| same(*a, *b)).map(|run| pairs(run.len() as u64)).sum()
    };
    let tied_x = runs(&|a, b| x[a] == x[b], &order);
    let tied_both = runs(&|a, b| x[a] == x[b] && y[a] == y[b], &order);
    let mut values: Vec<f64> = order.iter().map(|place| y[*place]).collect();
    let mut buffer = values.clone();
    let swaps = merge_sort(&mut values, &mut buffer);
    let tied_y: u64 = values.chunk_by(|a, b| a == b).map(|run| pairs(run.len() as u64)).sum();
    let scale = ((total - tied_x) as f64 * (total - tied_y) as f64).sqrt();
    if scale == 0.0 {
        return 0.0;
    }
    let concordant_less_discordant =
        (total + tied_both) as f64 - (tied_x + tied_y) as f64 - 2.0 * swaps as f64;
    concordant_less_discordant / scale
}

/// Sorts, and counts how many pairs stood in the wrong order.
fn merge_sort(values: &mut [f64], buffer: &mut [f64]) -> u64 {
    let length = values.len();
    if length < 2 {
        return 0;
    }
    let middle = length / 2;
    let mut swaps = merge_sort(&mut values[..middle], &mut buffer[..middle])
        + merge_sort(&mut values[middle..], &mut buffer[middle..]);
    let (mut left, mut right) = (0, middle);
    for slot in buffer.iter_mut() {
        if right == length || (left < middle && values[left] <= values[right]) {
            *slot = values[left];
            left += 1;
        } else {
            *slot = values[right];
            right += 1;
            swaps += (middle - left) as u64;
        }
    }
    values.copy_from_slice(buffer);
    swaps
}

/// Predicted classes beside the true ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Classification {
    /// Rows are true classes, columns predicted ones.
    counts: Vec<Vec<u64>>,
}

impl Classification {
    /// No answers yet.
    pub fn new(classes: usize) -> Self {
        Self { counts: vec![vec![0; classes]; classes] }
    }

    /// Counts one answer; both classes must exist.
    pub fn add(&mut self, truth: usize, predicted: usize) {
        self.counts[truth][predicted] += 1;
    }

    /// Fraction of answers whose class was predicted; zero of none.
    pub fn accuracy(&self) -> f64 {
        let total: u64 = self.counts.iter().flatten().sum();
        let right: u64 = (0..self.counts.len()).map(|class| self.counts[class][class]).sum();
        right as f64 / total.max(1) as f64
    }

    /// Mean of the F1 scores of all classes; a class without answers and predictions counts zero.
    pub fn macro_f1(&self) -> f64 {
        let classes = self.counts.len();
        let f1 = |class: usize| {
            let right = self.counts[class][class] as f64;
            let truth: u64 = self.counts[class].iter().sum();
            let predicted: u64 = self.counts.iter().map(|row| row[class]).sum();
            let both = (truth + predicted) as f64;
            if both == 0.0 { 0.0 } else { 2.0 * right / both }
        };
        (0..classes).map(f1).sum::<f64>() / classes.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_pairs(x: &[f64], y: &[f64]) -> f64 {
        let (mut sum, mut in_x, mut in_y) = (0.0, 0.0, 0.0);
        for i in 0..x.len() {
            for j in 0..i {
                let sign = |a: f64, b: f64| if a == b { 0.0 } else { (a - b).signum() };
                let (a, b) = (sign(x[i], x[j]), sign(y[i], y[j]));
                sum += a * b;
                in_x += a * a;
                in_y += b * b;
            }
        }
        if in_x * in_y == 0.0 { 0.0 } else { sum / f64::sqrt(in_x * in_y) }
    }

    proptest! {
        #[test]
        fn tau_is_that_of_all_pairs(pairs in prop::collection::vec((0u8..12, 0u8..12), 0..60)) {
            let x: Vec<f64> = pairs.iter().map(|pair| f64::from(pair.0)).collect();
            let y: Vec<f64> = pairs.iter().map(|pair| f64::from(pair.1)).collect();
            prop_assert!((kendall_tau(&x, &y) - by_pairs(&x, &y)).abs() < 1e-12);
        }
    }

    #[test]
    fn accuracy_and_f1_by_hand() {
        let mut classification = Classification::new(2);
        for (truth, predicted) in [(0, 0), (0, 0), (0, 1), (1, 1)] {
            classification.add(truth, predicted);
        }
        assert_eq!(classification.accuracy(), 0.75);
        assert!((classification.macro_f1() - (0.8 + 2.0 / 3.0) / 2.0).abs() < 1e-12);
    }
}
