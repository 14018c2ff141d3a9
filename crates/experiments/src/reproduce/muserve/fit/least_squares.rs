//! Least squares on relative errors: small, dense, with a ridge.

/// Coefficients that minimise the sum of squared relative errors of `targets`, plus a ridge.
/// `rows` are the features. Targets of zero are ignored.
pub(super) fn relative(rows: &[Vec<f64>], targets: &[f64], ridge: f64) -> Vec<f64> {
    let weighted: Vec<(Vec<f64>, f64)> = rows
        .iter()
        .zip(targets)
        .filter(|(_, target)| **target != 0.0)
        .map(|(row, target)| (row.iter().map(|feature| feature / target).collect(), 1.0))
        .collect();
    normal_equations(&weighted, ridge)
}

/// Coefficients that minimise the sum of squared errors, plus a ridge.
pub(super) fn absolute(rows: &[Vec<f64>], targets: &[f64], ridge: f64) -> Vec<f64> {
    let rows: Vec<_> = rows.iter().cloned().zip(targets.iter().copied()).collect();
    normal_equations(&rows, ridge)
}

/// Like [`relative`], with coefficients of zero or more: the least error among all subsets of the
/// features, of which there are few, whose own solution is positive. Of subsets that are as good, that
/// with the fewest features: two that are the same on these rows differ on others.
pub(super) fn non_negative(rows: &[Vec<f64>], targets: &[f64]) -> Vec<f64> {
    let width = rows.first().map_or(0, Vec::len);
    let mut best = (f64::INFINITY, vec![0.0; width]);
    let mut subsets: Vec<usize> = (1..1 << width).collect();
    subsets.sort_by_key(|subset| subset.count_ones());
    for subset in subsets {
        let chosen: Vec<usize> = (0..width).filter(|place| subset >> place & 1 == 1).collect();
        let of_chosen = |row: &Vec<f64>| chosen.iter().map(|place| row[*place]).collect();
        let solution = relative(&rows.iter().map(of_chosen).collect::<Vec<_>>(), targets, 1e-9);
        if solution.iter().any(|coefficient| *coefficient < 0.0) {
            continue;
        }
        let mut coefficients = vec![0.0; width];
        chosen.iter().zip(&solution).for_each(|(place, found)| coefficients[*place] = *found);
        let error: f64 = rows
            .iter()
            .zip(targets)
            .map(|(row, target)| (dot(row, &coefficients) / target - 1.0).powi(2))
            .sum();
        // The ridge alone leaves an error of this order where the fit is exact.
        let from_ridge = 1e-12;
        if error + from_ridge < best.0 * (1.0 - 1e-6) {
            best = (error, coefficients);
        }
    }
    best.1
}

/// The sum of features times coefficients.
pub(super) fn dot(features: &[f64], coefficients: &[f64]) -> f64 {
    features.iter().zip(coefficients).map(|(feature, coefficient)| feature * coefficient).sum()
}

fn normal_equations(rows: &[(Vec<f64>, f64)], ridge: f64) -> Vec<f64> {
    let width = rows.first().map_or(0, |(row, _)| row.len());
    let mut matrix = vec![vec![0.0; width + 1]; width];
    for (row, target) in rows {
        for (place, line) in matrix.iter_mut().enumerate() {
            for (column, entry) in line.iter_mut().enumerate() {
                *entry += row[place] * row.get(column).copied().unwrap_or(*target);
            }
        }
    }
    // Relative to the diagonal, so that the units of features do not matter.
    for (place, line) in matrix.iter_mut().enumerate() {
        line[place] = line[place] * (1.0 + ridge) + f64::MIN_POSITIVE;
    }
    solve(matrix)
}

/// Gaussian elimination with pivots; a column without any gets a coefficient of zero.
fn solve(mut matrix: Vec<Vec<f64>>) -> Vec<f64> {
    let width = matrix.len();
    for column in 0..width {
        let size = |row: &usize| matrix[*row][column].abs();
        let pivot = (column..width).max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or(column);
        matrix.swap(column, pivot);
        let head = matrix[column].clone();
        if head[column].abs() < 1e-300 {
            continue;
        }
        for (row, line) in matrix.iter_mut().enumerate() {
            if row == column {
                continue;
            }
            let factor = line[column] / head[column];
            line.iter_mut().zip(&head).for_each(|(entry, top)| *entry -= factor * top);
        }
    }
    let coefficient = |row: usize| match matrix[row][row] {
        diagonal if diagonal.abs() < 1e-300 => 0.0,
        diagonal => matrix[row][width] / diagonal,
    };
    (0..width).map(coefficient).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_below_zero_is_left_out() {
        let rows: Vec<Vec<f64>> = (1..9).map(|x| vec![1.0, f64::from(x)]).collect();
        let rising: Vec<f64> = (1..9).map(|x| 3.0 + 2.0 * f64::from(x)).collect();
        let found = non_negative(&rows, &rising);
        assert!((found[0] - 3.0).abs() < 1e-6 && (found[1] - 2.0).abs() < 1e-6, "{found:?}");
        let falling: Vec<f64> = (1..9).map(|x| 30.0 - f64::from(x)).collect();
        let found = non_negative(&rows, &falling);
        assert!(found[0] > 20.0 && found[1] == 0.0, "{found:?}");
        let twice: Vec<Vec<f64>> = (1..9).map(|_| vec![1.0, 2.0]).collect();
        let found = non_negative(&twice, &[4.0; 8]);
        assert_eq!((found[0].round(), found[1]), (4.0, 0.0), "{found:?}");
    }

    #[test]
    fn an_exact_line_is_found() {
        let rows: Vec<Vec<f64>> = (1..9).map(|x| vec![1.0, f64::from(x)]).collect();
        let targets: Vec<f64> = (1..9).map(|x| 3.0 + 2.0 * f64::from(x)).collect();
        for found in [absolute(&rows, &targets, 0.0), relative(&rows, &targets, 0.0)] {
            assert!((found[0] - 3.0).abs() < 1e-9 && (found[1] - 2.0).abs() < 1e-9, "{found:?}");
        }
    }
}
