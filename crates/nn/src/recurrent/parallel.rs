//! How a pass is spread over rayon's threads. Every split is by rows or by
//! directions, never inside a sum, so results do not depend on the number of threads.

use crate::Kernel;
use crate::kernel::PackedProduct;

/// Multiply-adds below which a second thread costs more than it saves.
const MIN_TASK: usize = 1 << 21;

/// Where the tiles of all kernels end without a remainder.
const ROW_STEP: usize = 8;

/// Runs parts of a pass side by side, if the pass is large enough.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parallel {
    enabled: bool,
}

impl Parallel {
    /// For a pass of so many multiply-adds.
    pub(super) fn for_work(multiply_adds: usize) -> Self {
        Self { enabled: multiply_adds >= 2 * MIN_TASK }
    }

    /// Runs `pass` on a thread of rayon's pool, from where its parts are cheap to hand
    /// out.
    pub(super) fn enter(self, pass: impl FnOnce() + Send) {
        if self.enabled && rayon::current_thread_index().is_none() {
            rayon::join(pass, || ());
        } else {
            pass();
        }
    }

    /// Runs `work` for the one direction or for both at once.
    pub(super) fn directions<T: Send>(
        self,
        mut parts: impl Iterator<Item = T>,
        work: impl Fn(usize, T) + Sync,
    ) {
        match (parts.next(), parts.next()) {
            (Some(forward), Some(backward)) if self.enabled => {
                rayon::join(|| work(0, forward), || work(1, backward));
            }
            (forward, backward) => {
                forward.into_iter().chain(backward).enumerate().for_each(|(i, part)| work(i, part));
            }
        }
    }

    /// `y (+)= x w`, in tasks of at least `min_rows` rows; rows of `y` are `y_stride` apart.
    pub(super) fn multiply(
        self,
        kernel: Kernel,
        product: PackedProduct<'_>,
        y: &mut [f32],
        y_stride: usize,
        min_rows: usize,
    ) {
        let PackedProduct { x, stride, rows, depth, columns, .. } = product;
        let half = (rows / 2).next_multiple_of(ROW_STEP);
        let is_large = half.saturating_mul(depth).saturating_mul(columns) >= MIN_TASK;
        if !self.enabled || !is_large || half < min_rows || half >= rows {
            return kernel.multiply_packed(product, y, y_stride);
        }
        let (upper, lower) = y.split_at_mut(half * y_stride);
        let first = PackedProduct { rows: half, ..product };
        let second = PackedProduct { x: &x[half * stride..], rows: rows - half, ..product };
        rayon::join(
            || self.multiply(kernel, first, upper, y_stride, min_rows),
            || self.multiply(kernel, second, lower, y_stride, min_rows),
        );
    }
}
