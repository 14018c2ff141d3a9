//! Dense layers. Five loops serve every layer: two products, an outer product,
//! column sums and a transposition.
//!
//! A tile of `R` rows times `C` vectors of columns stays in registers while the
//! loop runs over the shared dimension.

use super::elementwise::{activate, derivative};
use super::lanes::{LANES, Lanes};
use crate::Activation;

/// `rows` rows of `inputs` numbers times a matrix with `outputs` columns.
#[derive(Clone, Copy)]
pub(crate) struct Product<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) w: &'a [f32],
    pub(crate) rows: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

impl Product<'_> {
    /// The lengths on which every unchecked load below relies.
    fn assert_fits(&self, y: &[f32]) {
        assert!(holds(self.x, self.rows, self.inputs), "input rows are missing");
        assert!(holds(self.w, self.inputs, self.outputs), "weights are missing");
        assert!(holds(y, self.rows, self.outputs), "output rows are missing");
    }
}

/// Whether a slice holds `rows` rows of `width` numbers. The product must not wrap:
/// everything below trusts it.
fn holds(values: &[f32], rows: usize, width: usize) -> bool {
    rows.checked_mul(width).is_some_and(|count| values.len() >= count)
}

/// Operands of a weight gradient: `rows` rows of `width_a` and of `width_b` numbers.
#[derive(Clone, Copy)]
pub(crate) struct Gradient<'a> {
    pub(crate) a: &'a [f32],
    pub(crate) b: &'a [f32],
    pub(crate) rows: usize,
    pub(crate) width_a: usize,
    pub(crate) width_b: usize,
}

/// What is done with a finished sum before it is stored.
trait Epilogue<V: Lanes>: Copy {
    /// What the sum of columns `col..` starts from.
    unsafe fn start(self, col: usize, len: usize) -> V;
    /// The stored value for the sum at `row`, `col`.
    unsafe fn finish(self, sum: V, row: usize, col: usize, len: usize) -> V;
}

#[derive(Clone, Copy)]
struct BiasThenActivate<'a> {
    bias: &'a [f32],
    activation: Activation,
}

impl<V: Lanes> Epilogue<V> for BiasThenActivate<'_> {
    #[inline(always)]
    unsafe fn start(self, col: usize, len: usize) -> V {
        // SAFETY: the entry function asserted one bias per output.
        unsafe { load_some(self.bias.as_ptr().add(col), len) }
    }
    #[inline(always)]
    unsafe fn finish(self, sum: V, _row: usize, _col: usize, _len: usize) -> V {
        // SAFETY: the instruction set is the caller's.
        unsafe { activate(self.activation, sum) }
    }
}

#[derive(Clone, Copy)]
struct TimesDerivative<'a> {
    h: &'a [f32],
    width: usize,
    activation: Activation,
}

impl<V: Lanes> Epilogue<V> for TimesDerivative<'_> {
    #[inline(always)]
    unsafe fn start(self, _col: usize, _len: usize) -> V {
        // SAFETY: the instruction set is the caller's.
        unsafe { V::splat(0.0) }
    }
    #[inline(always)]
    unsafe fn finish(self, sum: V, row: usize, col: usize, len: usize) -> V {
        // SAFETY: the entry function asserted one `h` per output of each row.
        unsafe {
            if matches!(self.activation, Activation::Identity) {
                return sum;
            }
            let h = load_some(self.h.as_ptr().add(row * self.width + col), len);
            derivative(self.activation, h, sum)
        }
    }
}

/// A full vector, or the first `len` lanes at a ragged edge.
#[inline(always)]
unsafe fn load_some<V: Lanes>(from: *const f32, len: usize) -> V {
    // SAFETY: the caller has `len` floats there.
    unsafe { if len == LANES { V::load(from) } else { V::load_first(len, from) } }
}

#[inline(always)]
unsafe fn store_some<V: Lanes>(value: V, to: *mut f32, len: usize) {
    // SAFETY: the caller has room for `len` floats there.
    unsafe { if len == LANES { value.store(to) } else { value.store_first(len, to) } }
}

/// Where a tile of a result lies, and how much of its vectors it fills.
#[derive(Clone, Copy)]
struct Tile {
    row: usize,
    col: usize,
    /// Columns of each vector: all of them, except at a ragged edge, where there is one vector.
    len: usize,
}

/// One tile of `R` rows and `C` vectors of columns.
#[inline(always)]
unsafe fn multiply_tile<V: Lanes, E: Epilogue<V>, const R: usize, const C: usize>(
    p: Product<'_>,
    epilogue: E,
    y: *mut f32,
    Tile { row, col, len }: Tile,
) {
    // SAFETY: `assert_fits` checked the operands, and the callers keep the tile inside.
    unsafe {
        let mut sums = [[V::splat(0.0); C]; R];
        for (c, column) in (0..C).map(|c| (c, col + c * LANES)) {
            let start = epilogue.start(column, len);
            for row_sums in &mut sums {
                row_sums[c] = start;
            }
        }
        let x = p.x.as_ptr().add(row * p.inputs);
        for k in 0..p.inputs {
            let w = p.w.as_ptr().add(k * p.outputs + col);
            let mut w_row = [V::splat(0.0); C];
            for (c, w_vector) in w_row.iter_mut().enumerate() {
                *w_vector = load_some(w.add(c * LANES), len);
            }
            for (r, row_sums) in sums.iter_mut().enumerate() {
                let x = V::splat(*x.add(r * p.inputs + k));
                for (sum, w) in row_sums.iter_mut().zip(w_row) {
                    *sum = x.mul_add(w, *sum);
                }
            }
        }
        for (r, row_sums) in sums.iter().enumerate() {
            for (c, sum) in row_sums.iter().enumerate() {
                let column = col + c * LANES;
                let value = epilogue.finish(*sum, row + r, column, len);
                store_some(value, y.add((row + r) * p.outputs + column), len);
            }
        }
    }
}

/// All rows of one panel of columns; the panel's weights stay in the first cache.
#[inline(always)]
unsafe fn multiply_panel<V: Lanes, E: Epilogue<V>, const R: usize, const C: usize>(
    p: Product<'_>,
    epilogue: E,
    y: *mut f32,
    col: usize,
    len: usize,
) {
    let mut row = 0;
    // SAFETY: the loops keep `row` plus the tile's height within `p.rows`.
    unsafe {
        while row + R <= p.rows {
            multiply_tile::<V, E, R, C>(p, epilogue, y, Tile { row, col, len });
            row += R;
        }
        while row + 2 <= p.rows {
            multiply_tile::<V, E, 2, C>(p, epilogue, y, Tile { row, col, len });
            row += 2;
        }
        if row < p.rows {
            multiply_tile::<V, E, 1, C>(p, epilogue, y, Tile { row, col, len });
        }
    }
}

#[inline(always)]
unsafe fn multiply<V: Lanes, E: Epilogue<V>, const R: usize, const C: usize>(
    p: Product<'_>,
    epilogue: E,
    y: &mut [f32],
) {
    p.assert_fits(y);
    let y = y.as_mut_ptr();
    let mut col = 0;
    // SAFETY: the loops keep `col` plus the panel's width within `p.outputs`.
    unsafe {
        while col + C * LANES <= p.outputs {
            multiply_panel::<V, E, R, C>(p, epilogue, y, col, LANES);
            col += C * LANES;
        }
        while col + LANES <= p.outputs {
            multiply_panel::<V, E, R, 1>(p, epilogue, y, col, LANES);
            col += LANES;
        }
        if col < p.outputs {
            multiply_panel::<V, E, R, 1>(p, epilogue, y, col, p.outputs - col);
        }
    }
}

#[inline(always)]
pub(super) unsafe fn multiply_activate<V: Lanes, const R: usize, const C: usize>(
    product: Product<'_>,
    bias: &[f32],
    activation: Activation,
    y: &mut [f32],
) {
    assert!(bias.len() >= product.outputs, "biases are missing");
    // SAFETY: bias was checked here, the operands are checked in `multiply`.
    unsafe { multiply::<V, _, R, C>(product, BiasThenActivate { bias, activation }, y) }
}

#[inline(always)]
pub(super) unsafe fn multiply_derive<V: Lanes, const R: usize, const C: usize>(
    product: Product<'_>,
    activation: Activation,
    h: &[f32],
    y: &mut [f32],
) {
    assert!(
        matches!(activation, Activation::Identity) || holds(h, product.rows, product.outputs),
        "activations are missing"
    );
    let epilogue = TimesDerivative { h, width: product.outputs, activation };
    // SAFETY: `h` was checked here, the operands are checked in `multiply`.
    unsafe { multiply::<V, _, R, C>(product, epilogue, y) }
}

#[inline(always)]
pub(super) unsafe fn dots_activate<V: Lanes>(
    product: Product<'_>,
    bias: &[f32],
    activation: Activation,
    y: &mut [f32],
) {
    let Product { x, w, rows, inputs, outputs } = product;
    product.assert_fits(y);
    assert!(bias.len() >= outputs, "biases are missing");
    assert!(outputs <= LANES, "a layer this wide is input-major");
    for (row, y) in y.chunks_exact_mut(outputs).take(rows).enumerate() {
        // SAFETY: rows, weights and outputs were checked above.
        unsafe {
            let x = x.as_ptr().add(row * inputs);
            for (o, (y, bias)) in y.iter_mut().zip(bias).enumerate() {
                let w = w.as_ptr().add(o * inputs);
                let mut sum = V::splat(0.0);
                let mut k = 0;
                while k + LANES <= inputs {
                    sum = V::load(x.add(k)).mul_add(V::load(w.add(k)), sum);
                    k += LANES;
                }
                if k < inputs {
                    let len = inputs - k;
                    sum = V::load_first(len, x.add(k)).mul_add(V::load_first(len, w.add(k)), sum);
                }
                *y = sum.sum() + bias;
            }
            // Reading back as a vector what was just written number by number stalls the
            // processor.
            if !matches!(activation, Activation::Identity) {
                let value = activate(activation, V::load_first(outputs, y.as_ptr()));
                value.store_first(outputs, y.as_mut_ptr());
            }
        }
    }
}

/// One tile of a weight gradient: `R` rows of `a`'s columns, `C` vectors of `b`'s.
#[inline(always)]
unsafe fn outer_tile<V: Lanes, const R: usize, const C: usize>(
    g: Gradient<'_>,
    out: *mut f32,
    Tile { row: i, col: j, len }: Tile,
) {
    // SAFETY: `outer_product` checked the operands and keeps the tile inside.
    unsafe {
        let mut sums = [[V::splat(0.0); C]; R];
        for row in 0..g.rows {
            let a = g.a.as_ptr().add(row * g.width_a + i);
            let b = g.b.as_ptr().add(row * g.width_b + j);
            let mut b_row = [V::splat(0.0); C];
            for (c, b_vector) in b_row.iter_mut().enumerate() {
                *b_vector = load_some(b.add(c * LANES), len);
            }
            for (r, row_sums) in sums.iter_mut().enumerate() {
                let a = V::splat(*a.add(r));
                for (sum, b) in row_sums.iter_mut().zip(b_row) {
                    *sum = a.mul_add(b, *sum);
                }
            }
        }
        for (r, row_sums) in sums.iter().enumerate() {
            for (c, sum) in row_sums.iter().enumerate() {
                store_some(*sum, out.add((i + r) * g.width_b + j + c * LANES), len);
            }
        }
    }
}

#[inline(always)]
unsafe fn outer_panel<V: Lanes, const R: usize, const C: usize>(
    g: Gradient<'_>,
    out: *mut f32,
    j: usize,
    len: usize,
) {
    let mut i = 0;
    // SAFETY: the loops keep `i` plus the tile's height within `width_a`.
    unsafe {
        while i + R <= g.width_a {
            outer_tile::<V, R, C>(g, out, Tile { row: i, col: j, len });
            i += R;
        }
        while i + 2 <= g.width_a {
            outer_tile::<V, 2, C>(g, out, Tile { row: i, col: j, len });
            i += 2;
        }
        if i < g.width_a {
            outer_tile::<V, 1, C>(g, out, Tile { row: i, col: j, len });
        }
    }
}

#[inline(always)]
pub(super) unsafe fn outer_product<V: Lanes, const R: usize, const C: usize>(
    gradient: Gradient<'_>,
    g: &mut [f32],
) {
    let Gradient { a, b, rows, width_a, width_b } = gradient;
    assert!(holds(a, rows, width_a) && holds(b, rows, width_b), "gradient rows are missing");
    assert!(holds(g, width_a, width_b), "gradient room is missing");
    let out = g.as_mut_ptr();
    let mut j = 0;
    // SAFETY: lengths were checked above; the loops keep `j` within `width_b`.
    unsafe {
        while j + C * LANES <= width_b {
            outer_panel::<V, R, C>(gradient, out, j, LANES);
            j += C * LANES;
        }
        while j + LANES <= width_b {
            outer_panel::<V, R, 1>(gradient, out, j, LANES);
            j += LANES;
        }
        if j < width_b {
            outer_panel::<V, R, 1>(gradient, out, j, width_b - j);
        }
    }
}

#[inline(always)]
pub(super) unsafe fn column_sums<V: Lanes>(a: &[f32], rows: usize, sums: &mut [f32]) {
    let width = sums.len();
    assert!(holds(a, rows, width), "rows are missing");
    let mut col = 0;
    while col < width {
        let len = LANES.min(width - col);
        // SAFETY: `len` columns from `col` exist in every row and in `sums`.
        unsafe {
            let mut sum = V::splat(0.0);
            for row in 0..rows {
                sum = sum.add(load_some(a.as_ptr().add(row * width + col), len));
            }
            store_some(sum, sums.as_mut_ptr().add(col), len);
        }
        col += LANES;
    }
}

#[inline(always)]
pub(super) unsafe fn transpose<V: Lanes>(w: &[f32], rows: usize, columns: usize, t: &mut [f32]) {
    assert!(holds(w, rows, columns) && holds(t, rows, columns), "matrix is missing");
    for i in (0..rows).step_by(LANES) {
        for j in (0..columns).step_by(LANES) {
            let (height, width) = (LANES.min(rows - i), LANES.min(columns - j));
            // SAFETY: the block's `height` rows and `width` columns lie inside both matrices.
            unsafe {
                let mut block = [V::splat(0.0); LANES];
                for (k, row) in block.iter_mut().enumerate().take(height) {
                    *row = load_some(w.as_ptr().add((i + k) * columns + j), width);
                }
                V::transpose(&mut block);
                for (k, row) in block.iter().enumerate().take(width) {
                    store_some(*row, t.as_mut_ptr().add((j + k) * rows + i), height);
                }
            }
        }
    }
}
