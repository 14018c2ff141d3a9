//! Sixteen floats at once, on three instruction sets.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Floats per vector, on every instruction set.
pub(super) const LANES: usize = 16;

/// A vector of sixteen floats.
///
/// # Safety
/// Every method needs a CPU with the instruction set of the type. Loads and
/// stores need that many valid floats behind the pointer. Methods are inlined
/// into functions compiled for that instruction set, where they become single
/// instructions.
pub(super) trait Lanes: Copy {
    unsafe fn splat(x: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    /// Loads the first `n <= 16` floats, the rest are zero.
    unsafe fn load_first(n: usize, from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// Stores the first `n <= 16` floats.
    unsafe fn store_first(self, n: usize, to: *mut f32);
    /// `self * b + c`, fused where the instruction set can.
    unsafe fn mul_add(self, b: Self, c: Self) -> Self;
    unsafe fn add(self, b: Self) -> Self;
    unsafe fn sub(self, b: Self) -> Self;
    unsafe fn mul(self, b: Self) -> Self;
    unsafe fn div(self, b: Self) -> Self;
    unsafe fn sqrt(self) -> Self;
    /// The larger; if either is NaN, `b`.
    unsafe fn max_or(self, b: Self) -> Self;
    /// The smaller; if either is NaN, `b`.
    unsafe fn min_or(self, b: Self) -> Self;
    /// `self` where `x > 0`, zero elsewhere.
    unsafe fn where_positive(self, x: Self) -> Self;
    /// `2^n * self` for integral `n` in -126..=127.
    unsafe fn scale_by_power_of_two(self, n: Self) -> Self;
    /// Nearest integer, ties to even.
    unsafe fn round(self) -> Self;
    /// Sum in the order ((0+8)+(4+12)+...), the same on every instruction set.
    unsafe fn sum(self) -> f32;
    /// Transposes sixteen vectors in place.
    unsafe fn transpose(rows: &mut [Self; LANES]);
}

/// Plain arrays; the compiler vectorises them for the baseline of the target.
#[derive(Clone, Copy)]
pub(super) struct Portable([f32; LANES]);

impl Portable {
    #[inline(always)]
    fn zip(self, b: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        let mut out = self.0;
        for (out, b) in out.iter_mut().zip(b.0) {
            *out = f(*out, b);
        }
        Self(out)
    }

    #[inline(always)]
    fn map(self, f: impl Fn(f32) -> f32) -> Self {
        Self(self.0.map(f))
    }
}

impl Lanes for Portable {
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Self([x; LANES])
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller has sixteen floats there; arrays of floats need no alignment beyond theirs.
        unsafe { Self(from.cast::<[f32; LANES]>().read()) }
    }
    #[inline(always)]
    unsafe fn load_first(n: usize, from: *const f32) -> Self {
        let mut out = [0.0; LANES];
        // SAFETY: the caller has `n <= 16` floats there.
        unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), n) };
        Self(out)
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller has room for sixteen floats there.
        unsafe { to.cast::<[f32; LANES]>().write(self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, n: usize, to: *mut f32) {
        // SAFETY: the caller has room for `n <= 16` floats there.
        unsafe { std::ptr::copy_nonoverlapping(self.0.as_ptr(), to, n) }
    }
    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        // Without the instruction, a fused operation is a slow library call.
        self.zip(b, |a, b| a * b).zip(c, |ab, c| ab + c)
    }
    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        self.zip(b, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn sub(self, b: Self) -> Self {
        self.zip(b, |a, b| a - b)
    }
    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        self.zip(b, |a, b| a * b)
    }
    #[inline(always)]
    unsafe fn div(self, b: Self) -> Self {
        self.zip(b, |a, b| a / b)
    }
    #[inline(always)]
    unsafe fn sqrt(self) -> Self {
        self.map(f32::sqrt)
    }
    #[inline(always)]
    unsafe fn max_or(self, b: Self) -> Self {
        self.zip(b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    unsafe fn min_or(self, b: Self) -> Self {
        self.zip(b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    unsafe fn where_positive(self, x: Self) -> Self {
        self.zip(x, |a, x| if x > 0.0 { a } else { 0.0 })
    }
    #[inline(always)]
    unsafe fn scale_by_power_of_two(self, n: Self) -> Self {
        // Lanes beyond a ragged edge may hold any `n`; their result is never stored.
        self.zip(n, |a, n| a * f32::from_bits(((n as i32).wrapping_add(127) << 23) as u32))
    }
    #[inline(always)]
    unsafe fn round(self) -> Self {
        // Adding and taking away 1.5 * 2^23 rounds to the nearest integer, ties to
        // even; `round_ties_even` would be a library call on baseline x86-64.
        const SHIFT: f32 = 12_582_912.0;
        self.map(|a| (a + SHIFT) - SHIFT)
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        let a = self.0;
        let mut eight = [0.0; 8];
        for i in 0..8 {
            eight[i] = a[i] + a[i + 8];
        }
        let four =
            [eight[0] + eight[4], eight[1] + eight[5], eight[2] + eight[6], eight[3] + eight[7]];
        (four[0] + four[2]) + (four[1] + four[3])
    }
    #[inline(always)]
    unsafe fn transpose(rows: &mut [Self; LANES]) {
        let before = *rows;
        for (i, row) in rows.iter_mut().enumerate() {
            for (j, cell) in row.0.iter_mut().enumerate() {
                *cell = before[j].0[i];
            }
        }
    }
}

/// One 512-bit register.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Avx512(__m512);

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn first_lanes(n: usize) -> __mmask16 {
    ((1u32 << n) - 1) as __mmask16
}

// SAFETY of every block: the caller of a `Lanes` method vouches for AVX-512F and
// for the memory behind pointers, as the trait demands.
#[cfg(target_arch = "x86_64")]
#[expect(clippy::undocumented_unsafe_blocks, reason = "one reason for all, stated above")]
impl Lanes for Avx512 {
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        unsafe { Self(_mm512_set1_ps(x)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { Self(_mm512_loadu_ps(from)) }
    }
    #[inline(always)]
    unsafe fn load_first(n: usize, from: *const f32) -> Self {
        unsafe { Self(_mm512_maskz_loadu_ps(first_lanes(n), from)) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { _mm512_storeu_ps(to, self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, n: usize, to: *mut f32) {
        unsafe { _mm512_mask_storeu_ps(to, first_lanes(n), self.0) }
    }
    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        unsafe { Self(_mm512_fmadd_ps(self.0, b.0, c.0)) }
    }
    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        unsafe { Self(_mm512_add_ps(self.0, b.0)) }
    }
    #[inline(always)]
    unsafe fn sub(self, b: Self) -> Self {
        unsafe { Self(_mm512_sub_ps(self.0, b.0)) }
    }
    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        unsafe { Self(_mm512_mul_ps(self.0, b.0)) }
    }
    #[inline(always)]
    unsafe fn div(self, b: Self) -> Self {
        unsafe { Self(_mm512_div_ps(self.0, b.0)) }
    }
    #[inline(always)]
    unsafe fn sqrt(self) -> Self {
        unsafe { Self(_mm512_sqrt_ps(self.0)) }
    }
    #[inline(always)]
    unsafe fn max_or(self, b: Self) -> Self {
        unsafe { Self(_mm512_max_ps(self.0, b.0)) }
    }
    #[inline(always)]
    unsafe fn min_or(self, b: Self) -> Self {
        unsafe { Self(_mm512_min_ps(self.0, b.0)) }
    }
    #[inline(always)]
    unsafe fn where_positive(self, x: Self) -> Self {
        unsafe {
            let positive = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(x.0, _mm512_setzero_ps());
            Self(_mm512_maskz_mov_ps(positive, self.0))
        }
    }
    #[inline(always)]
    unsafe fn scale_by_power_of_two(self, n: Self) -> Self {
        unsafe { Self(_mm512_scalef_ps(self.0, n.0)) }
    }
    #[inline(always)]
    unsafe fn round(self) -> Self {
        unsafe { Self(_mm512_roundscale_ps::<0>(self.0)) }
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        unsafe {
            let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(self.0)));
            sum_of_eight(_mm256_add_ps(_mm512_castps512_ps256(self.0), high))
        }
    }
    #[inline(always)]
    unsafe fn transpose(rows: &mut [Self; LANES]) {
        unsafe {
            // Pairs, then quadruples, inside each 128-bit quarter ...
            let mut pairs = *rows;
            for k in 0..8 {
                let (a, b) = (rows[2 * k].0, rows[2 * k + 1].0);
                pairs[2 * k] = Self(_mm512_unpacklo_ps(a, b));
                pairs[2 * k + 1] = Self(_mm512_unpackhi_ps(a, b));
            }
            let mut fours = pairs;
            for k in 0..4 {
                for half in 0..2 {
                    let a = _mm512_castps_pd(pairs[4 * k + half].0);
                    let b = _mm512_castps_pd(pairs[4 * k + half + 2].0);
                    fours[4 * k + 2 * half] = Self(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)));
                    fours[4 * k + 2 * half + 1] = Self(_mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
                }
            }
            // ... then the quarters themselves.
            for k in 0..4 {
                let (a, b, c, d) = (fours[k].0, fours[k + 4].0, fours[k + 8].0, fours[k + 12].0);
                let even_ab = _mm512_shuffle_f32x4::<0x88>(a, b);
                let odd_ab = _mm512_shuffle_f32x4::<0xdd>(a, b);
                let even_cd = _mm512_shuffle_f32x4::<0x88>(c, d);
                let odd_cd = _mm512_shuffle_f32x4::<0xdd>(c, d);
                rows[k] = Self(_mm512_shuffle_f32x4::<0x88>(even_ab, even_cd));
                rows[k + 4] = Self(_mm512_shuffle_f32x4::<0x88>(odd_ab, odd_cd));
                rows[k + 8] = Self(_mm512_shuffle_f32x4::<0xdd>(even_ab, even_cd));
                rows[k + 12] = Self(_mm512_shuffle_f32x4::<0xdd>(odd_ab, odd_cd));
            }
        }
    }
}

/// Two 256-bit registers.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Avx2(__m256, __m256);

/// `((0+4)+(2+6)) + ((1+5)+(3+7))`
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn sum_of_eight(eight: __m256) -> f32 {
    // SAFETY: both callers run where AVX is present.
    unsafe {
        let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }
}

/// Masks for the first `n` lanes of the lower and of the upper register.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn first_lanes_avx2(n: usize) -> (__m256i, __m256i) {
    const ONES_THEN_ZEROS: [i32; 32] = {
        let mut mask = [0; 32];
        let mut i = 0;
        while i < 16 {
            mask[i] = -1;
            i += 1;
        }
        mask
    };
    // SAFETY: n <= 16, so sixteen integers lie behind 16 - n; the caller has AVX2.
    unsafe {
        let start = ONES_THEN_ZEROS.as_ptr().add(16 - n);
        (_mm256_loadu_si256(start.cast()), _mm256_loadu_si256(start.add(8).cast()))
    }
}

// SAFETY of every block: the caller of a `Lanes` method vouches for AVX2 and FMA
// and for the memory behind pointers, as the trait demands.
#[cfg(target_arch = "x86_64")]
#[expect(clippy::undocumented_unsafe_blocks, reason = "one reason for all, stated above")]
impl Lanes for Avx2 {
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        unsafe { Self(_mm256_set1_ps(x), _mm256_set1_ps(x)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { Self(_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))) }
    }
    #[inline(always)]
    unsafe fn load_first(n: usize, from: *const f32) -> Self {
        unsafe {
            let (low, high) = first_lanes_avx2(n);
            Self(_mm256_maskload_ps(from, low), _mm256_maskload_ps(from.wrapping_add(8), high))
        }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe {
            _mm256_storeu_ps(to, self.0);
            _mm256_storeu_ps(to.add(8), self.1);
        }
    }
    #[inline(always)]
    unsafe fn store_first(self, n: usize, to: *mut f32) {
        unsafe {
            let (low, high) = first_lanes_avx2(n);
            _mm256_maskstore_ps(to, low, self.0);
            _mm256_maskstore_ps(to.wrapping_add(8), high, self.1);
        }
    }
    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        unsafe { Self(_mm256_fmadd_ps(self.0, b.0, c.0), _mm256_fmadd_ps(self.1, b.1, c.1)) }
    }
    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        unsafe { Self(_mm256_add_ps(self.0, b.0), _mm256_add_ps(self.1, b.1)) }
    }
    #[inline(always)]
    unsafe fn sub(self, b: Self) -> Self {
        unsafe { Self(_mm256_sub_ps(self.0, b.0), _mm256_sub_ps(self.1, b.1)) }
    }
    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        unsafe { Self(_mm256_mul_ps(self.0, b.0), _mm256_mul_ps(self.1, b.1)) }
    }
    #[inline(always)]
    unsafe fn div(self, b: Self) -> Self {
        unsafe { Self(_mm256_div_ps(self.0, b.0), _mm256_div_ps(self.1, b.1)) }
    }
    #[inline(always)]
    unsafe fn sqrt(self) -> Self {
        unsafe { Self(_mm256_sqrt_ps(self.0), _mm256_sqrt_ps(self.1)) }
    }
    #[inline(always)]
    unsafe fn max_or(self, b: Self) -> Self {
        unsafe { Self(_mm256_max_ps(self.0, b.0), _mm256_max_ps(self.1, b.1)) }
    }
    #[inline(always)]
    unsafe fn min_or(self, b: Self) -> Self {
        unsafe { Self(_mm256_min_ps(self.0, b.0), _mm256_min_ps(self.1, b.1)) }
    }
    #[inline(always)]
    unsafe fn where_positive(self, x: Self) -> Self {
        unsafe {
            let zero = _mm256_setzero_ps();
            Self(
                _mm256_and_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(x.0, zero), self.0),
                _mm256_and_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(x.1, zero), self.1),
            )
        }
    }
    #[inline(always)]
    unsafe fn scale_by_power_of_two(self, n: Self) -> Self {
        unsafe {
            let power = |n| {
                let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent))
            };
            Self(_mm256_mul_ps(self.0, power(n.0)), _mm256_mul_ps(self.1, power(n.1)))
        }
    }
    #[inline(always)]
    unsafe fn round(self) -> Self {
        unsafe { Self(_mm256_round_ps::<8>(self.0), _mm256_round_ps::<8>(self.1)) }
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        unsafe { sum_of_eight(_mm256_add_ps(self.0, self.1)) }
    }
    #[inline(always)]
    unsafe fn transpose(rows: &mut [Self; LANES]) {
        // Four 8 x 8 blocks: the two off the diagonal change places.
        unsafe {
            let mut low_low = [_mm256_setzero_ps(); 8];
            let mut low_high = low_low;
            let mut high_low = low_low;
            let mut high_high = low_low;
            for k in 0..8 {
                low_low[k] = rows[k].0;
                low_high[k] = rows[k].1;
                high_low[k] = rows[k + 8].0;
                high_high[k] = rows[k + 8].1;
            }
            for block in [&mut low_low, &mut low_high, &mut high_low, &mut high_high] {
                transpose_eight(block);
            }
            for k in 0..8 {
                rows[k] = Self(low_low[k], high_low[k]);
                rows[k + 8] = Self(low_high[k], high_high[k]);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transpose_eight(r: &mut [__m256; 8]) {
    // SAFETY: the caller runs where AVX is present.
    unsafe {
        let mut pairs = *r;
        for k in 0..4 {
            pairs[2 * k] = _mm256_unpacklo_ps(r[2 * k], r[2 * k + 1]);
            pairs[2 * k + 1] = _mm256_unpackhi_ps(r[2 * k], r[2 * k + 1]);
        }
        let mut fours = pairs;
        for k in 0..2 {
            let p = &pairs[4 * k..];
            fours[4 * k] = _mm256_shuffle_ps::<0x44>(p[0], p[2]);
            fours[4 * k + 1] = _mm256_shuffle_ps::<0xee>(p[0], p[2]);
            fours[4 * k + 2] = _mm256_shuffle_ps::<0x44>(p[1], p[3]);
            fours[4 * k + 3] = _mm256_shuffle_ps::<0xee>(p[1], p[3]);
        }
        for k in 0..4 {
            r[k] = _mm256_permute2f128_ps::<0x20>(fours[k], fours[k + 4]);
            r[k + 4] = _mm256_permute2f128_ps::<0x31>(fours[k], fours[k + 4]);
        }
    }
}
