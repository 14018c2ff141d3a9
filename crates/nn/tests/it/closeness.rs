//! When a single-precision result counts as the same as a double-precision one.

/// Every result lies within `tolerance` of what is expected, in absolute terms below
/// one and in relative terms above.
pub(crate) fn assert_close(what: &str, got: &[f32], expect: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expect.len(), "{what}: number of results");
    for (index, (got, expect)) in got.iter().zip(expect).enumerate() {
        let error = (f64::from(*got) - expect).abs() / expect.abs().max(1.0);
        assert!(
            error <= tolerance,
            "{what}[{index}] is {got}, expected {expect}: off by {error:.1e}"
        );
    }
}

/// Equal bit for bit; unlike `==`, it tells the two zeros apart and NaN equals itself.
pub(crate) fn assert_same_bits(what: &str, got: &[f32], expect: &[f32]) {
    assert_eq!(got.len(), expect.len(), "{what}: number of results");
    for (index, (got, expect)) in got.iter().zip(expect).enumerate() {
        assert_eq!(
            got.to_bits(),
            expect.to_bits(),
            "{what}[{index}] is {got:e}, expected {expect:e}"
        );
    }
}
