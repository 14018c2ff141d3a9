//! Coefficients of the cost of contention, by least squares.
//!
//! With `b` busy workers on `C` cores, the same work takes `1 + y s + x o` times the CPU time
//! it takes alone, where `s = (min(b, C) - 1) / (C - 1)` says how many of the other cores are
//! busy and `o` how far the node is overloaded. So the node is worth
//! `min(b, C) / (1 + y s + x o)` cores. Deviations are relative ones, hence logarithms.

use serde::Serialize;

/// How the cost grows once there are more busy workers than cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// `o = b / C - 1`: every further worker costs the same.
    Linear,
    /// `o = 1 - C / b`: what a switch costs is paid at every switch, and time slices get no
    /// shorter, however many wait.
    Saturating,
}

impl Form {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Linear, Self::Saturating];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Saturating => "saturating",
        }
    }

    /// How far `busy` workers overload this many cores: zero up to one for each core.
    pub fn overload(self, busy: usize, cores: usize) -> f64 {
        let (busy, cores) = (busy as f64, cores as f64);
        match self {
            _ if busy <= cores => 0.0,
            Self::Linear => busy / cores - 1.0,
            Self::Saturating => 1.0 - cores / busy,
        }
    }
}

/// The fraction of the other cores that are busy. A single core has no others.
pub(crate) fn neighbour_share(busy: usize, cores: usize) -> f64 {
    if cores < 2 { 0.0 } else { (busy.min(cores) - 1) as f64 / (cores - 1) as f64 }
}

/// A number and its standard error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
}

/// What contention costs one category of work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StrainFit {
    /// How the cost beyond saturation grows.
    pub form: Form,
    /// Extra CPU time for the same work per overload.
    pub x: Estimate,
    /// Extra CPU time for the same work when every core is busy; zero on a single core,
    /// where it cannot be seen.
    pub y: Estimate,
    /// Root mean square of the relative deviations.
    pub residual_rms: f64,
}

impl StrainFit {
    /// Fits to pairs of busy workers and work per CPU time, in any unit. Nothing if they do
    /// not determine the coefficients: it takes one worker alone and more workers than cores.
    pub fn new(form: Form, cores: usize, observed: &[(usize, f64)]) -> Option<Self> {
        let is_usable =
            observed.iter().all(|(busy, rate)| *busy > 0 && *rate > 0.0 && rate.is_finite());
        let rows: Vec<_> = observed
            .iter()
            .map(|(busy, rate)| {
                ([neighbour_share(*busy, cores), form.overload(*busy, cores)], rate.ln())
            })
            .collect();
        let has_alone = observed.iter().any(|(busy, _)| *busy == 1);
        let has_overload = rows.iter().any(|(load, _)| load[1] > 0.0);
        if !is_usable || !has_alone || !has_overload {
            return None;
        }
        let has_company = rows.iter().any(|(load, _)| load[0] > 0.0);
        let unknowns = if has_company { 3 } else { 2 };
        if rows.len() <= unknowns {
            return None;
        }
        let (solution, inverse, squares) = gauss_newton(&rows, has_company)?;
        let variance = squares / (rows.len() - unknowns) as f64;
        let estimate = |index: usize| Estimate {
            value: solution[index],
            error: (variance * inverse[index][index]).max(0.0).sqrt(),
        };
        Some(Self {
            form,
            x: estimate(1),
            y: if has_company { estimate(2) } else { Estimate { value: 0.0, error: 0.0 } },
            residual_rms: (squares / rows.len() as f64).sqrt(),
        })
    }

    /// Extra CPU time for the same work with this many busy workers, a part of which are
    /// `alike`: of the same category.
    pub fn cost(&self, busy: usize, cores: usize, alike: f64) -> f64 {
        let beside = alike * neighbour_share(busy, cores);
        self.y.value * beside + self.x.value * self.form.overload(busy, cores)
    }
}

/// `slope` of `value = slope * at`, with its standard error and the root mean square of the
/// residuals.
pub(crate) fn slope_through_origin(points: &[(f64, f64)]) -> Option<(Estimate, f64)> {
    let squares: f64 = points.iter().map(|(at, _)| at * at).sum();
    if points.len() < 2 || squares <= 0.0 {
        return None;
    }
    let value = points.iter().map(|(at, value)| at * value).sum::<f64>() / squares;
    let residual: f64 = points.iter().map(|(at, seen)| (seen - value * at).powi(2)).sum();
    let error = (residual / (points.len() - 1) as f64 / squares).sqrt();
    Some((Estimate { value, error }, (residual / points.len() as f64).sqrt()))
}

type Matrix = [[f64; 3]; 3];

/// Minimises the squares of `ln rate - (a - ln(1 + y s + x o))` over `(a, x, y)`: the
/// solution, the inverse of the normal matrix and the sum of squares there.
fn gauss_newton(rows: &[([f64; 2], f64)], has_company: bool) -> Option<([f64; 3], Matrix, f64)> {
    let slowdown = |at: &[f64; 3], [s, o]: &[f64; 2]| 1.0 + at[2] * s + at[1] * o;
    let squares = |at: &[f64; 3]| -> f64 {
        rows.iter()
            .map(|(load, log)| {
                let slowdown = slowdown(at, load);
                if slowdown > 0.0 { (log - at[0] + slowdown.ln()).powi(2) } else { f64::INFINITY }
            })
            .sum()
    };
    let mut at = [rows.iter().map(|(_, log)| log).sum::<f64>() / rows.len() as f64, 0.0, 0.0];
    let mut inverse = [[0.0; 3]; 3];
    for _ in 0..100 {
        let mut normal = [[0.0; 3]; 3];
        let mut right = [0.0; 3];
        for (load, log) in rows {
            let slowdown = slowdown(&at, load);
            let gradient = [1.0, -load[1] / slowdown, -load[0] / slowdown];
            let residual = log - at[0] + slowdown.ln();
            for row in 0..3 {
                right[row] += gradient[row] * residual;
                for column in 0..3 {
                    normal[row][column] += gradient[row] * gradient[column];
                }
            }
        }
        if !has_company {
            // Keeps y at zero: nothing that was seen depends on it.
            normal[2] = [0.0, 0.0, 1.0];
        }
        inverse = invert(normal)?;
        let mut step = inverse.map(|row| row.iter().zip(&right).map(|(a, b)| a * b).sum::<f64>());
        let before = squares(&at);
        let moved = |step: &[f64; 3]| [at[0] + step[0], at[1] + step[1], at[2] + step[2]];
        while squares(&moved(&step)) > before {
            step = step.map(|part| part / 2.0);
            if step.iter().all(|part| part.abs() < 1e-12) {
                return Some((at, inverse, before));
            }
        }
        at = moved(&step);
        if step.iter().all(|part| part.abs() < 1e-12) {
            break;
        }
    }
    Some((at, inverse, squares(&at)))
}

/// By Gauss and Jordan; nothing for a singular matrix.
fn invert(mut matrix: Matrix) -> Option<Matrix> {
    let mut inverse = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    for column in 0..3 {
        let pivot = (column..3)
            .max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        matrix.swap(column, pivot);
        inverse.swap(column, pivot);
        let scale = matrix[column][column];
        if scale.abs() < 1e-12 {
            return None;
        }
        for index in 0..3 {
            matrix[column][index] /= scale;
            inverse[column][index] /= scale;
        }
        for row in (0..3).filter(|row| *row != column) {
            let factor = matrix[row][column];
            for index in 0..3 {
                matrix[row][index] -= factor * matrix[column][index];
                inverse[row][index] -= factor * inverse[column][index];
            }
        }
    }
    Some(inverse)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 16];

    fn observed(form: Form, cores: usize, x: f64, y: f64, noise: f64) -> Vec<(usize, f64)> {
        let rate = |busy: usize| {
            let slowdown = 1.0 + y * neighbour_share(busy, cores) + x * form.overload(busy, cores);
            7000.0 / slowdown
        };
        // Noise that averages out: up on even repetitions, down on odd ones.
        (0..4)
            .flat_map(|repetition| {
                let factor = 1.0 + noise * (1.0 - 2.0 * f64::from(repetition % 2));
                BUSY.map(|busy| (busy, rate(busy) * factor))
            })
            .collect()
    }

    #[test]
    fn coefficients_are_found_again() {
        for form in Form::ALL {
            for (cores, x, y) in [(2, 0.3, 0.1), (4, 0.02, 0.5), (2, -0.01, 0.0), (1, 0.2, 0.0)] {
                let fit = StrainFit::new(form, cores, &observed(form, cores, x, y, 0.01)).unwrap();
                assert!((fit.x.value - x).abs() < 1e-3, "{form:?} {cores} {fit:?}");
                assert!((fit.y.value - y).abs() < 1e-3, "{form:?} {cores} {fit:?}");
                assert!((fit.residual_rms - 0.01).abs() < 1e-3, "{fit:?}");
                assert!(fit.x.error > 0.0 && fit.x.error < 0.02, "{fit:?}");
                assert!(
                    (fit.cost(8, cores, 1.0)
                        - y * neighbour_share(8, cores)
                        - x * form.overload(8, cores))
                    .abs()
                        < 1e-2
                );
            }
        }
    }

    #[test]
    fn the_residual_tells_the_forms_apart() {
        for form in Form::ALL {
            let observed = observed(form, 2, 0.3, 0.1, 0.002);
            let [linear, saturating] =
                Form::ALL.map(|form| StrainFit::new(form, 2, &observed).unwrap().residual_rms);
            assert_eq!(linear < saturating, form == Form::Linear);
        }
    }

    #[test]
    fn too_little_to_go_by_gives_no_coefficients() {
        assert_eq!(StrainFit::new(Form::Linear, 2, &[(1, 1.0), (2, 1.0)]), None);
        assert_eq!(
            StrainFit::new(Form::Linear, 2, &[(2, 1.0), (4, 1.0), (6, 1.0), (8, 1.0)]),
            None
        );
        assert_eq!(
            StrainFit::new(Form::Linear, 2, &[(1, 0.0), (2, 1.0), (4, 1.0), (8, 1.0)]),
            None
        );
    }

    #[test]
    fn a_slope_by_hand() {
        let (slope, residual) = slope_through_origin(&[(1.0, 2.0), (2.0, 4.0)]).unwrap();
        assert_eq!((slope.value, slope.error, residual), (2.0, 0.0, 0.0));
        assert_eq!(slope_through_origin(&[(0.0, 1.0), (0.0, 2.0)]), None);
    }
}
