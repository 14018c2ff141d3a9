//! Lists of small records in a snapshot.

use homeostat_core::{Error, Result, Snapshot};

/// The array under `name` as records of `WORDS` words. An incomplete record is an error.
pub(crate) fn records<'a, const WORDS: usize>(
    from: &'a Snapshot,
    name: &str,
) -> Result<&'a [[u64; WORDS]]> {
    let words = from.any_u64s(name)?;
    match words.as_chunks() {
        (records, []) => Ok(records),
        _ => Err(Error::SnapshotMismatch {
            name: name.to_owned(),
            found: format!("{} u64", words.len()),
            expected: format!("records of {WORDS} u64"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_record_in_a_snapshot_is_refused() {
        let mut snapshot = Snapshot::default();
        snapshot.put_u64("counts", [1, 2, 3]);
        assert_eq!(records(&snapshot, "counts"), Ok([[1, 2, 3]].as_slice()));
        let error = records::<2>(&snapshot, "counts").unwrap_err().to_string();
        assert_eq!(error, "snapshot array `counts` is 3 u64, expected records of 2 u64");
    }
}
