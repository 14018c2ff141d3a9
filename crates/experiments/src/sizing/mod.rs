//! Functions measured at memory sizes, from files and generated: what `homeostat size` works on.

mod generated_functions;
mod measurements_file;

pub use generated_functions::{LAMBDA_SIZES_MB, TRAINING_FUNCTIONS, generated_functions};
pub use measurements_file::read_function_sizes;

#[cfg(test)]
mod tests {
    use homeostat_core::{SeedTree, Stream};
    use homeostat_flash::{COVERAGE, FunctionSizes, SizeEstimator};

    use super::*;

    #[test]
    fn intervals_hold_nine_of_ten_times_of_functions_never_seen() {
        let known = generated_functions(200, 1);
        let unseen = generated_functions(100, 2);
        let mut estimator =
            SizeEstimator::train(&known, 3000, &SeedTree::new(1), &mut |_, _| {}).unwrap();
        let mut rng = Stream::from_seed(1);
        let (mut errors, mut inside, mut warned) = (Vec::new(), 0, 0);
        for function in &unseen {
            let mut measured = function.measurements.clone();
            rng.shuffle(&mut measured);
            let (one, others) = measured.split_at(1);
            let known = FunctionSizes { name: function.name.clone(), measurements: one.to_vec() };
            let sized = estimator.predict(&known, &LAMBDA_SIZES_MB).unwrap();
            warned += usize::from(!sized.warnings.is_empty());
            for truth in others {
                let found = sized.predictions.iter().find(|at| at.memory_mb == truth.memory_mb);
                let found = found.unwrap();
                let (low, high) = found.interval_ms;
                errors.push((found.duration_ms / truth.duration_ms - 1.0).abs());
                inside += usize::from((low..=high).contains(&truth.duration_ms));
            }
        }
        let count = errors.len() as f64;
        let (error, covered) = (errors.iter().sum::<f64>() / count, inside as f64 / count);
        assert!(error < 0.1, "mean error {error}");
        // Five hundred times of a hundred functions: times of one function err together.
        assert!((covered - COVERAGE).abs() < 0.07, "{covered} inside");
        assert!(warned <= 10, "{warned} of 100 are said to be out of distribution");
    }
}
