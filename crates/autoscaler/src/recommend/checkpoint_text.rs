//! The state of an engine as text, for a checkpoint in the cluster.

use homeostat_core::{Array, Snapshot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One array. Values that are not finite become `null`, which is read as NaN.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ArrayText {
    F32(Vec<Option<f32>>),
    F64(Vec<Option<f64>>),
    U64(Vec<u64>),
    U8(Vec<u8>),
}

/// Writes a snapshot as JSON.
pub fn to_text(snapshot: &Snapshot) -> String {
    let arrays: BTreeMap<&str, ArrayText> = snapshot
        .iter()
        .map(|(name, array)| {
            let text = match array {
                Array::F32(items) => ArrayText::F32(items.iter().copied().map(Some).collect()),
                Array::F64(items) => ArrayText::F64(items.iter().copied().map(Some).collect()),
                Array::U64(items) => ArrayText::U64(items.clone()),
                Array::U8(items) => ArrayText::U8(items.clone()),
            };
            (name, text)
        })
        .collect();
    serde_json::to_string(&arrays).expect("arrays of numbers are JSON")
}

/// Reads a snapshot from JSON.
pub fn from_text(text: &str) -> serde_json::Result<Snapshot> {
    let arrays: BTreeMap<String, ArrayText> = serde_json::from_str(text)?;
    let mut snapshot = Snapshot::default();
    for (name, array) in arrays {
        let array = match array {
            ArrayText::F32(items) => {
                Array::F32(items.into_iter().map(|item| item.unwrap_or(f32::NAN)).collect())
            }
            ArrayText::F64(items) => {
                Array::F64(items.into_iter().map(|item| item.unwrap_or(f64::NAN)).collect())
            }
            ArrayText::U64(items) => Array::U64(items),
            ArrayText::U8(items) => Array::U8(items),
        };
        snapshot.put(&name, array);
    }
    Ok(snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_comes_back_bit_for_bit() {
        let mut snapshot = Snapshot::default();
        snapshot.put_f64("a/b", vec![0.1 + 0.2, -0.0, 1e-300, f64::MAX]);
        snapshot.put_f32("a/c", vec![0.1_f32, 3.0]);
        snapshot.put_u64("n", vec![u64::MAX, 0]);
        snapshot.put_u8("flags", vec![1, 0, 255]);
        assert_eq!(from_text(&to_text(&snapshot)).expect("valid"), snapshot);
    }

    #[test]
    fn text_that_is_none_is_refused() {
        for text in ["", "{", "[]", r#"{"a":{"f64":["x"]}}"#, r#"{"a":{"i9":[1]}}"#] {
            assert!(from_text(text).is_err(), "{text}");
        }
    }
}
