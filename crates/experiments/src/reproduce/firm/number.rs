//! One field of a table of measurements.

/// The sample in a field; an empty field is a sample that is missing.
pub(super) fn sample(field: &str, line: usize) -> Result<f64, String> {
    match field.trim() {
        "" => Ok(f64::NAN),
        text => text.parse().map_err(|_| format!("line {line}: `{text:.40}` is not a number")),
    }
}
