//! The kernels that are measured, as PTX text: the driver compiles it for the card.

use std::fmt::Write;

/// Side of the tile of C that a block of 16 x 16 threads computes.
pub(crate) const TILE: u32 = 64;

/// Columns of A that a block keeps in shared memory at a time.
pub(crate) const TILE_DEPTH: u32 = 16;

/// Threads of a block in the kernels with one dimension.
pub(crate) const BLOCK: u32 = 256;

/// Chains of multiply-adds in each thread of `multiply_add`: enough to hide their latency.
const CHAINS: u32 = 8;

/// Multiply-adds of each chain in one turn of the loop.
const TURNS: u32 = 8;

/// Floating-point operations of one thread in one turn of the loop of `multiply_add`.
pub(crate) const FLOPS_PER_TURN: f64 = (2 * CHAINS * TURNS) as f64;

/// Distance of the rows of A's tile in shared memory: not a multiple of 32, so that threads of a warp write
/// to different banks, and a multiple of 4, so that four numbers are read at once.
const A_STRIDE: u32 = TILE + 4;

/// All kernels in one module. `sm_70` is the oldest type that the simulator describes.
pub(crate) fn module() -> String {
    let mut text = ".version 6.0\n.target sm_70\n.address_size 64\n".to_owned();
    text += EMPTY;
    text += &multiply_add();
    text += SCALE;
    text += &matrix_product();
    text
}

/// Does nothing: its time is that of a launch.
const EMPTY: &str = ".visible .entry empty()\n{\n  ret;\n}\n";

/// Each number times two plus one, four numbers per thread: bound by memory.
const SCALE: &str = "
.visible .entry scale(.param .u64 in, .param .u64 out, .param .u32 quads)
{
  .reg .pred %p;
  .reg .b32 %r<5>;
  .reg .b64 %rd<6>;
  .reg .f32 %f<6>;
  ld.param.u64 %rd0, [in];
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r0, [quads];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  setp.ge.u32 %p, %r4, %r0;
  @%p bra DONE;
  cvta.to.global.u64 %rd0, %rd0;
  cvta.to.global.u64 %rd1, %rd1;
  mul.wide.u32 %rd2, %r4, 16;
  add.u64 %rd3, %rd0, %rd2;
  add.u64 %rd4, %rd1, %rd2;
  ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%rd3];
  mov.f32 %f4, 0f40000000;
  mov.f32 %f5, 0f3F800000;
  fma.rn.f32 %f0, %f0, %f4, %f5;
  fma.rn.f32 %f1, %f1, %f4, %f5;
  fma.rn.f32 %f2, %f2, %f4, %f5;
  fma.rn.f32 %f3, %f3, %f4, %f5;
  st.global.v4.f32 [%rd4], {%f0, %f1, %f2, %f3};
DONE:
  ret;
}
";

/// Independent chains of multiply-adds in registers: bound by arithmetic. The sum is stored, so that
/// nothing can be left out.
fn multiply_add() -> String {
    let mut text = "
.visible .entry multiply_add(.param .u64 out, .param .u32 turns)
{
  .reg .pred %p;
  .reg .b32 %r<5>;
  .reg .b64 %rd<3>;
  .reg .f32 %x, %y, %c<8>;
  ld.param.u64 %rd0, [out];
  ld.param.u32 %r0, [turns];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  cvt.rn.f32.u32 %c0, %r4;
  mov.f32 %x, 0f3F000000;
  mov.f32 %y, 0f3F800000;
"
    .to_owned();
    for chain in 1..CHAINS {
        let _ = writeln!(text, "  add.f32 %c{chain}, %c{}, %y;", chain - 1);
    }
    text += "TURN:\n";
    for _ in 0..TURNS {
        for chain in 0..CHAINS {
            let _ = writeln!(text, "  fma.rn.f32 %c{chain}, %c{chain}, %x, %y;");
        }
    }
    text += "  sub.u32 %r0, %r0, 1;\n  setp.ne.u32 %p, %r0, 0;\n  @%p bra TURN;\n";
    for chain in 1..CHAINS {
        let _ = writeln!(text, "  add.f32 %c0, %c0, %c{chain};");
    }
    text += "  cvta.to.global.u64 %rd0, %rd0;
  mul.wide.u32 %rd1, %r4, 4;
  add.u64 %rd2, %rd0, %rd1;
  st.global.f32 [%rd2], %c0;
  ret;
}
";
    text
}

/// C = A B with A of m x k, B of k x n, all row by row; m and n are multiples of the tile, k of its depth.
/// A block computes a tile of C, each thread 4 x 4 numbers of it.
fn matrix_product() -> String {
    let depth = TILE_DEPTH;
    let mut text = format!(
        "
.visible .entry matrix_product(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n, .param .u32 k)
{{
  .reg .pred %p;
  .reg .b32 %r<24>;
  .reg .b64 %rd<16>;
  .reg .f32 %l<8>, %a<4>, %b<4>, %s<16>;
  .shared .align 16 .b8 tile_a[{}];
  .shared .align 16 .b8 tile_b[{}];
  ld.param.u64 %rd0, [a];
  ld.param.u64 %rd1, [b];
  ld.param.u64 %rd2, [c];
  ld.param.u32 %r0, [n];
  ld.param.u32 %r1, [k];
  cvta.to.global.u64 %rd0, %rd0;
  cvta.to.global.u64 %rd1, %rd1;
  cvta.to.global.u64 %rd2, %rd2;
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %tid.y;
  mad.lo.u32 %r4, %r3, 16, %r2;
  mov.u32 %r5, %ctaid.x;
  mov.u32 %r6, %ctaid.y;
  mul.lo.u32 %r5, %r5, 64;
  mul.lo.u32 %r6, %r6, 64;
",
        depth * A_STRIDE * 4,
        depth * TILE * 4,
    );
    // Where this thread reads A: row t / 16 of the tile and 16, 32, 48 below, column t % 16.
    text += "
  shr.u32 %r7, %r4, 4;
  and.b32 %r8, %r4, 15;
  add.u32 %r9, %r6, %r7;
  mad.lo.u32 %r10, %r9, %r1, %r8;
  mul.wide.u32 %rd3, %r10, 4;
  add.u64 %rd3, %rd0, %rd3;
  mul.wide.u32 %rd4, %r1, 64;
";
    // Where it reads B: row t / 64 of the tile and 4, 8, 12 below, column t % 64.
    text += "
  shr.u32 %r11, %r4, 6;
  and.b32 %r12, %r4, 63;
  add.u32 %r13, %r5, %r12;
  mad.lo.u32 %r14, %r11, %r0, %r13;
  mul.wide.u32 %rd5, %r14, 4;
  add.u64 %rd5, %rd1, %rd5;
  mul.wide.u32 %rd6, %r0, 16;
  mul.wide.u32 %rd7, %r0, 64;
";
    // Where it writes them in shared memory, A transposed, and where it reads its rows and columns.
    let _ = write!(
        text,
        "
  mov.u32 %r15, tile_a;
  mov.u32 %r16, tile_b;
  mad.lo.u32 %r17, %r8, {A_STRIDE}, %r7;
  mad.lo.u32 %r17, %r17, 4, %r15;
  mad.lo.u32 %r18, %r11, 64, %r12;
  mad.lo.u32 %r18, %r18, 4, %r16;
  mad.lo.u32 %r19, %r3, 16, %r15;
  mad.lo.u32 %r20, %r2, 16, %r16;
"
    );
    for sum in 0..16 {
        let _ = writeln!(text, "  mov.f32 %s{sum}, 0f00000000;");
    }
    text += "SLICE:\n  mov.u64 %rd8, %rd3;\n  mov.u64 %rd9, %rd5;\n";
    for part in 0..4 {
        let _ = writeln!(text, "  ld.global.f32 %l{part}, [%rd8];");
        let _ = writeln!(text, "  ld.global.f32 %l{}, [%rd9];", part + 4);
        // 16 rows of A are 16 k numbers, 4 rows of B are 4 n numbers.
        text += "  add.u64 %rd8, %rd8, %rd4;\n  add.u64 %rd9, %rd9, %rd6;\n";
    }
    for part in 0..4 {
        let _ = writeln!(text, "  st.shared.f32 [%r17+{}], %l{part};", part * 16 * 4);
        let _ = writeln!(text, "  st.shared.f32 [%r18+{}], %l{};", part * 4 * TILE * 4, part + 4);
    }
    text += "  bar.sync 0;\n";
    for step in 0..depth {
        let (a, b) = (step * A_STRIDE * 4, step * TILE * 4);
        let _ = writeln!(text, "  ld.shared.v4.f32 {{%a0, %a1, %a2, %a3}}, [%r19+{a}];");
        let _ = writeln!(text, "  ld.shared.v4.f32 {{%b0, %b1, %b2, %b3}}, [%r20+{b}];");
        for row in 0..4 {
            for column in 0..4 {
                let sum = row * 4 + column;
                let _ = writeln!(text, "  fma.rn.f32 %s{sum}, %a{row}, %b{column}, %s{sum};");
            }
        }
    }
    let _ = write!(
        text,
        "  bar.sync 0;
  add.u64 %rd3, %rd3, {};
  add.u64 %rd5, %rd5, %rd7;
  sub.u32 %r1, %r1, {depth};
  setp.ne.u32 %p, %r1, 0;
  @%p bra SLICE;
  mad.lo.u32 %r21, %r3, 4, %r6;
  mad.lo.u32 %r22, %r2, 4, %r5;
  mad.lo.u32 %r23, %r21, %r0, %r22;
  mul.wide.u32 %rd10, %r23, 4;
  add.u64 %rd10, %rd2, %rd10;
  mul.wide.u32 %rd11, %r0, 4;
",
        depth * 4
    );
    for row in 0..4 {
        let first = row * 4;
        let _ = writeln!(
            text,
            "  st.global.v4.f32 [%rd10], {{%s{first}, %s{}, %s{}, %s{}}};\n  add.u64 %rd10, %rd10, %rd11;",
            first + 1,
            first + 2,
            first + 3
        );
    }
    text += "  ret;\n}\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_has_every_kernel_once_and_is_plain_text() {
        let text = module();
        for kernel in ["empty", "multiply_add", "scale", "matrix_product"] {
            assert_eq!(text.matches(&format!(".entry {kernel}(")).count(), 1, "{kernel}");
        }
        // The driver reads it up to the first zero.
        assert!(text.is_ascii() && !text.contains('\0'));
        assert_eq!(text.matches('{').count(), text.matches('}').count());
        assert_eq!(text.matches("%c7, %x, %y").count(), TURNS as usize);
    }
}
