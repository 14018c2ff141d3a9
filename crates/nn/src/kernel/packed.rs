//! Products with a matrix that many rows meet: its columns are packed into panels
//! first, so that a panel lies in consecutive cache lines and stays in the first
//! cache while all rows pass. Unpacked, rows of a matrix whose width is a power of
//! two share a few cache sets and push each other out.

use super::lanes::{LANES, Lanes};

/// Columns of a panel.
const PANEL: usize = 2 * LANES;

/// Rows of a panel that are multiplied at a time: 32 KB, two thirds of the first cache.
const DEPTH: usize = 256;

/// Numbers of a matrix of `depth` rows and `columns` columns once it is packed.
pub(crate) fn packed_len(depth: usize, columns: usize) -> usize {
    columns.next_multiple_of(PANEL) * depth
}

/// Where the sums of a product start.
#[derive(Clone, Copy)]
pub(crate) enum Start<'a> {
    /// From zero.
    Zero,
    /// From a bias for each column.
    Bias(&'a [f32]),
    /// From what the result holds.
    Result,
}

/// `rows` rows of `depth` numbers, the first of each `stride` after the other, times
/// a packed matrix of `columns` columns.
#[derive(Clone, Copy)]
pub(crate) struct PackedProduct<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) stride: usize,
    pub(crate) rows: usize,
    pub(crate) depth: usize,
    pub(crate) packed: &'a [f32],
    pub(crate) columns: usize,
    pub(crate) start: Start<'a>,
}

/// Whether a slice holds `rows` rows of `width` numbers, `stride` apart.
fn holds_strided(values: &[f32], rows: usize, width: usize, stride: usize) -> bool {
    let Some(last) = rows.checked_sub(1) else { return true };
    let needed = last.checked_mul(stride).and_then(|start| start.checked_add(width));
    width <= stride && needed.is_some_and(|needed| values.len() >= needed)
}

/// A part of a product small enough for the caches.
#[derive(Clone, Copy)]
struct Block {
    /// First row.
    row: usize,
    /// First column, and how many of the panel's exist.
    column: usize,
    width: usize,
    /// First of the shared dimension, and how many.
    from: usize,
    depth: usize,
}

/// One tile: `R` rows times `C` vectors of a panel, of which the first is `vector`.
#[inline(always)]
unsafe fn tile<V: Lanes, const R: usize, const C: usize>(
    p: &PackedProduct<'_>,
    block: Block,
    vector: usize,
    y: *mut f32,
    y_stride: usize,
) {
    // SAFETY: `multiply_packed` checked the operands, and the callers keep the block inside;
    // a packed panel has all its columns, the result only `width` of them.
    unsafe {
        let column = block.column + vector * LANES;
        let lanes = |c: usize| block.width.saturating_sub((vector + c) * LANES).min(LANES);
        let y = y.add(block.row * y_stride + column);
        let mut sums = [[V::splat(0.0); C]; R];
        let start = if block.from == 0 { p.start } else { Start::Result };
        for c in 0..C {
            let n = lanes(c);
            match start {
                Start::Zero => {}
                Start::Bias(bias) => {
                    let bias = V::load_first(n, bias.as_ptr().wrapping_add(column + c * LANES));
                    for row_sums in &mut sums {
                        row_sums[c] = bias;
                    }
                }
                Start::Result => {
                    for (r, row_sums) in sums.iter_mut().enumerate() {
                        row_sums[c] = V::load_first(n, y.wrapping_add(r * y_stride + c * LANES));
                    }
                }
            }
        }
        let x = p.x.as_ptr().add(block.row * p.stride + block.from);
        let panel = p.packed.as_ptr().add(block.column * p.depth + block.from * PANEL);
        let panel = panel.add(vector * LANES);
        for k in 0..block.depth {
            let mut w = [V::splat(0.0); C];
            for (c, w) in w.iter_mut().enumerate() {
                *w = V::load(panel.add(k * PANEL + c * LANES));
            }
            for (r, row_sums) in sums.iter_mut().enumerate() {
                let x = V::splat(*x.add(r * p.stride + k));
                for (sum, w) in row_sums.iter_mut().zip(w) {
                    *sum = x.mul_add(w, *sum);
                }
            }
        }
        for (r, row_sums) in sums.iter().enumerate() {
            for (c, sum) in row_sums.iter().enumerate() {
                sum.store_first(lanes(c), y.wrapping_add(r * y_stride + c * LANES));
            }
        }
    }
}

/// `R` rows of a block, all vectors of its panel.
#[inline(always)]
unsafe fn rows_of_block<V: Lanes, const R: usize, const C: usize>(
    p: &PackedProduct<'_>,
    block: Block,
    y: *mut f32,
    y_stride: usize,
) {
    for vector in (0..PANEL / LANES).step_by(C) {
        // SAFETY: the callers keep `R` rows inside, and `C` divides a panel's vectors.
        unsafe { tile::<V, R, C>(p, block, vector, y, y_stride) }
    }
}

/// `y (+)= x w`, rows of `y` being `y_stride` apart.
#[inline(always)]
pub(super) unsafe fn multiply_packed<V: Lanes, const R: usize, const C: usize>(
    p: PackedProduct<'_>,
    y: &mut [f32],
    y_stride: usize,
) {
    assert!(holds_strided(p.x, p.rows, p.depth, p.stride), "input rows are missing");
    assert!(p.packed.len() >= packed_len(p.depth, p.columns), "weights are missing");
    assert!(holds_strided(y, p.rows, p.columns, y_stride), "output rows are missing");
    if let Start::Bias(bias) = p.start {
        assert!(bias.len() >= p.columns, "biases are missing");
    }
    let y = y.as_mut_ptr();
    for column in (0..p.columns).step_by(PANEL) {
        let width = PANEL.min(p.columns - column);
        for from in (0..p.depth).step_by(DEPTH) {
            let depth = DEPTH.min(p.depth - from);
            let block = |row| Block { row, column, width, from, depth };
            let mut row = 0;
            // SAFETY: the lengths were checked above; the loops keep rows within `p.rows`.
            unsafe {
                while row + R <= p.rows {
                    rows_of_block::<V, R, C>(&p, block(row), y, y_stride);
                    row += R;
                }
                while row + 4 <= p.rows {
                    rows_of_block::<V, 4, C>(&p, block(row), y, y_stride);
                    row += 4;
                }
                while row < p.rows {
                    rows_of_block::<V, 1, C>(&p, block(row), y, y_stride);
                    row += 1;
                }
            }
        }
    }
}

/// Packs `depth` rows of `columns` numbers, `stride` apart, into panels. The last
/// panel is filled up with zeros.
#[inline(always)]
pub(super) unsafe fn pack<V: Lanes>(
    matrix: &[f32],
    stride: usize,
    depth: usize,
    columns: usize,
    packed: &mut [f32],
) {
    assert!(holds_strided(matrix, depth, columns, stride), "matrix rows are missing");
    assert!(packed.len() >= packed_len(depth, columns), "room for panels is missing");
    for column in (0..columns).step_by(PANEL) {
        for k in 0..depth {
            for vector in (0..PANEL).step_by(LANES) {
                let n = columns.saturating_sub(column + vector).min(LANES);
                // SAFETY: `n` columns exist in the row, a whole vector in the panel.
                unsafe {
                    let from = matrix.as_ptr().add(k * stride + column).wrapping_add(vector);
                    let to = packed.as_mut_ptr().add(column * depth + k * PANEL + vector);
                    V::load_first(n, from).store(to);
                }
            }
        }
    }
}
