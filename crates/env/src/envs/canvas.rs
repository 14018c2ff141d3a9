//! Text graphics of a few lines.

use std::fmt;

/// A grid of characters over a rectangle of the state's coordinates; y points up.
pub(super) struct Canvas {
    cells: Vec<Vec<char>>,
    x: (f64, f64),
    y: (f64, f64),
}

impl Canvas {
    /// An empty canvas over the ranges `x` and `y`. Characters are about twice as
    /// high as wide: two columns per row look square.
    pub(super) fn new(columns: usize, rows: usize, x: (f64, f64), y: (f64, f64)) -> Self {
        Self { cells: vec![vec![' '; columns]; rows], x, y }
    }

    /// One character; outside the canvas it is not drawn.
    pub(super) fn point(&mut self, x: f64, y: f64, mark: char) {
        let (rows, columns) = (self.cells.len(), self.cells[0].len());
        let cell = |value: f64, (low, high): (f64, f64), cells: usize| {
            let position = ((value - low) / (high - low) * (cells - 1) as f64).round();
            (position >= 0.0 && position < cells as f64).then_some(position as usize)
        };
        if let (Some(column), Some(row)) = (cell(x, self.x, columns), cell(y, self.y, rows)) {
            self.cells[rows - 1 - row][column] = mark;
        }
    }

    /// A straight line of one character.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), mark: char) {
        let cells = |distance: f64, (low, high): (f64, f64), cells: usize| {
            (distance / (high - low) * (cells - 1) as f64).abs().round() as usize
        };
        let across = cells(to.0 - from.0, self.x, self.cells[0].len());
        let up = cells(to.1 - from.1, self.y, self.cells.len());
        // One mark per cell of the longer side: more would thicken the line.
        let pieces = across.max(up).max(1);
        for piece in 0..=pieces {
            let part = piece as f64 / pieces as f64;
            let between = |from: f64, to: f64| from + (to - from) * part;
            self.point(between(from.0, to.0), between(from.1, to.1), mark);
        }
    }
}

impl fmt::Display for Canvas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.cells {
            let line: String = row.iter().collect();
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn y_points_up_and_what_lies_outside_is_left_out() {
        let mut canvas = Canvas::new(5, 3, (0.0, 4.0), (0.0, 2.0));
        canvas.line((0.0, 0.0), (4.0, 0.0), '-');
        canvas.point(1.0, 2.0, 'o');
        canvas.point(9.0, 2.0, 'x');
        canvas.point(f64::NAN, 2.0, 'x');
        assert_eq!(canvas.to_string(), " o\n\n-----\n");
    }
}
