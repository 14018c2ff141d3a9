//! The inner loops, written once over sixteen lanes and compiled three times:
//! for AVX-512, for AVX2 with FMA, and portably. Which one runs is decided when
//! the program starts, so a plain release build is fast on any machine.
//!
//! AVX-512 and AVX2 do the same roundings in the same order and agree bit for
//! bit; the portable kernel has no fused multiply-add and differs in the last bits.
//!
//! This module is full of `unsafe` code, in blocks that say why they are sound. Two reasons
//! recur: an instruction set is used after its presence was detected, and raw
//! loads stay inside slices whose lengths the entry function has asserted.
#![expect(
    unsafe_code,
    reason = "SIMD instructions and unchecked loads; every block says why it is sound"
)]

mod aligned;
mod cell;
mod dense;
mod elementwise;
mod lanes;
mod packed;
mod peak;
mod softmax;

use std::fmt;

pub use aligned::AlignedBuffer;
pub(crate) use elementwise::AdamStep;

use dense::{Gradient, Product};
use lanes::Portable;
#[cfg(target_arch = "x86_64")]
use lanes::{Avx2, Avx512};

use crate::Activation;

/// Which compiled version of the inner loops runs. A kernel exists only where the
/// machine can run it, so holding one is the proof that the calls below are sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel(InstructionSet);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InstructionSet {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

impl Kernel {
    /// Plain arrays, on any machine.
    pub const PORTABLE: Self = Self(InstructionSet::Portable);

    /// The fastest kernel that this machine can run.
    pub fn best() -> Self {
        Self::available()[0]
    }

    /// Every kernel that this machine can run, fastest first.
    pub fn available() -> Vec<Self> {
        let mut kernels = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                kernels.push(Self(InstructionSet::Avx512));
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                kernels.push(Self(InstructionSet::Avx2));
            }
        }
        kernels.push(Self::PORTABLE);
        kernels
    }

    /// The kernel of this name, if this machine can run it.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::available().into_iter().find(|kernel| kernel.to_string() == name)
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => "avx2",
            InstructionSet::Portable => "portable",
        })
    }
}

/// Compiles one generic loop for each instruction set and picks one at run time.
/// The numbers are register tiles: how many rows and how many vectors of sixteen
/// columns are accumulated at once without spilling, of a plain matrix (`tiled`) and
/// of a packed one (`paneled`).
macro_rules! compiled_for_each_kernel {
    ($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) $(-> $out:ty)? = $path:path $(,$tiles:ident)?) => {
        $(#[$doc])*
        #[inline]
        pub(crate) fn $name(self, $($arg: $type),*) $(-> $out)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f")]
            fn avx512($($arg: $type),*) $(-> $out)? {
                // SAFETY: this function has the instruction set the lanes need.
                unsafe { compiled_for_each_kernel!(@call $path, Avx512, [5, 4], [12, 2], ($($arg),*) $(,$tiles)?) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $type),*) $(-> $out)? {
                // SAFETY: this function has the instruction set the lanes need.
                unsafe { compiled_for_each_kernel!(@call $path, Avx2, [5, 1], [6, 1], ($($arg),*) $(,$tiles)?) }
            }
            match self.0 {
                // SAFETY: `Kernel::available` makes this kernel only where it was detected.
                #[cfg(target_arch = "x86_64")]
                InstructionSet::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                InstructionSet::Avx2 => unsafe { avx2($($arg),*) },
                // SAFETY: plain arrays need no instruction set.
                InstructionSet::Portable => unsafe { compiled_for_each_kernel!(@call $path, Portable, [2, 1], [4, 1], ($($arg),*) $(,$tiles)?) },
            }
        }
    };
    (@call $path:path, $lanes:ty, [$r:literal, $c:literal], $panel:tt, ($($arg:ident),*), tiled) => {{
        use $path as generic;
        generic::<$lanes, $r, $c>($($arg),*)
    }};
    (@call $path:path, $lanes:ty, $tile:tt, [$r:literal, $c:literal], ($($arg:ident),*), paneled) => {{
        use $path as generic;
        generic::<$lanes, $r, $c>($($arg),*)
    }};
    (@call $path:path, $lanes:ty, $tile:tt, $panel:tt, ($($arg:ident),*)) => {{
        use $path as generic;
        generic::<$lanes>($($arg),*)
    }};
}

impl Kernel {
    compiled_for_each_kernel! {
        /// Multiply-adds on registers alone; returns how many.
        multiply_add_rounds(rounds: u64) -> u64 = peak::multiply_add, tiled
    }

    /// Multiplies and adds on registers alone, for benchmarks: `rounds` rounds of as
    /// many independent operations as a dense layer keeps in flight. Returns how many
    /// multiply-adds that was.
    pub fn multiply_add_flat_out(self, rounds: u64) -> u64 {
        self.multiply_add_rounds(rounds)
    }
}

impl Kernel {
    compiled_for_each_kernel! {
        /// `y = activation(bias + x w)`, row by row; `w` is input-major.
        multiply_activate(product: Product<'_>, bias: &[f32], activation: Activation, y: &mut [f32])
            = dense::multiply_activate, tiled
    }
    compiled_for_each_kernel! {
        /// `y = (x w) * activation'(h)`, where `h` is the activation's output.
        multiply_derive(product: Product<'_>, activation: Activation, h: &[f32], y: &mut [f32])
            = dense::multiply_derive, tiled
    }
    compiled_for_each_kernel! {
        /// `y = activation(bias + x w^T)` for output-major `w` with few outputs.
        dots_activate(product: Product<'_>, bias: &[f32], activation: Activation, y: &mut [f32])
            = dense::dots_activate
    }
    compiled_for_each_kernel! {
        /// `g[i][j] = sum over rows of a[row][i] b[row][j]`.
        outer_product(gradient: Gradient<'_>, g: &mut [f32]) = dense::outer_product, tiled
    }
    compiled_for_each_kernel! {
        /// `sums[j] = sum over rows of a[row][j]`.
        column_sums(a: &[f32], rows: usize, sums: &mut [f32]) = dense::column_sums
    }
    compiled_for_each_kernel! {
        /// `t[j][i] = w[i][j]` for a matrix of `rows` rows.
        transpose(w: &[f32], rows: usize, columns: usize, t: &mut [f32]) = dense::transpose
    }
    compiled_for_each_kernel! {
        /// `d *= activation'(h)`, where `h` is the activation's output.
        derive(activation: Activation, h: &[f32], d: &mut [f32]) = elementwise::derive
    }
    compiled_for_each_kernel! {
        /// Log-probabilities and probabilities of these columns of each row.
        log_softmax(logits: &[f32], width: usize, columns: std::ops::Range<usize>, log_probs: &mut [f32], probs: &mut [f32])
            = softmax::log_softmax
    }
    compiled_for_each_kernel! {
        /// One optimiser step; returns whether every gradient was finite.
        adam(step: &AdamStep, grads: &[f32], params: &mut [f32], mean: &mut [f32], square: &mut [f32]) -> bool
            = elementwise::adam
    }
    compiled_for_each_kernel! {
        /// Sum of squares.
        sum_of_squares(values: &[f32]) -> f32 = elementwise::sum_of_squares
    }
    compiled_for_each_kernel! {
        /// `target += rate (source - target)`.
        blend(rate: f32, source: &[f32], target: &mut [f32]) = elementwise::blend
    }
}

impl Kernel {
    compiled_for_each_kernel! {
        /// `y (+)= x w` for a packed matrix; rows of `y` are `y_stride` apart.
        multiply_packed(product: PackedProduct<'_>, y: &mut [f32], y_stride: usize)
            = packed::multiply_packed, paneled
    }
    compiled_for_each_kernel! {
        /// Packs `depth` rows of `columns` numbers, `stride` apart.
        pack(matrix: &[f32], stride: usize, depth: usize, columns: usize, packed: &mut [f32])
            = packed::pack
    }
    compiled_for_each_kernel! {
        /// Gates of a GRU from their sums, in place, and the new hidden state.
        gru(hidden: usize, gates: &mut [f32], previous: &[f32], h: &mut [f32]) = cell::gru
    }
    compiled_for_each_kernel! {
        /// Gradient of [`Kernel::gru`].
        gru_backward(hidden: usize, gates: &[f32], previous: &[f32], d_h: &mut [f32], d_sums: &mut [f32])
            = cell::gru_backward
    }
    compiled_for_each_kernel! {
        /// `values = tanh(values)`.
        tanh_in_place(values: &mut [f32]) = cell::tanh_in_place
    }
    compiled_for_each_kernel! {
        /// `sums += row` for every row of `a`.
        add_rows(a: &[f32], sums: &mut [f32]) = cell::add_rows
    }
}

pub(crate) use packed::{PackedProduct, Start, packed_len};

pub(crate) use dense::{Gradient as GradientOperands, Product as ProductOperands};

#[cfg(test)]
mod tests;
