//! State as named arrays, so that a run can stop and continue bit for bit. Snapshots live in
//! memory; other crates write them to files.

use std::collections::BTreeMap;

use crate::{Error, Result};

/// State that can be saved to a snapshot under a name and restored from it.
///
/// ```
/// use homeostat_core::{Persist, Snapshot, Stream};
///
/// let mut stream = Stream::from_seed(7);
/// stream.next_u64();
/// let mut snapshot = Snapshot::default();
/// stream.save("rng", &mut snapshot);
///
/// let mut restored = Stream::from_seed(0);
/// restored.load("rng", &snapshot)?;
/// assert_eq!(restored.next_u64(), stream.next_u64());
/// # Ok::<(), homeostat_core::Error>(())
/// ```
pub trait Persist {
    /// Saves the state under `name`, its parts under `name/part`.
    fn save(&self, name: &str, out: &mut Snapshot);

    /// Restores what [`Persist::save`] wrote. After an error the state is valid but unspecified,
    /// and the caller discards it.
    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()>;
}

/// One array of a snapshot.
#[derive(Debug, Clone, PartialEq)]
pub enum Array {
    /// Weights, moments, observations.
    F32(Vec<f32>),
    /// Simulator state and sums.
    F64(Vec<f64>),
    /// Counters and indices.
    U64(Vec<u64>),
    /// Flags, text, and the state of random streams.
    U8(Vec<u8>),
}

impl Array {
    fn describe(&self) -> String {
        match self {
            Self::F32(items) => format!("{} f32", items.len()),
            Self::F64(items) => format!("{} f64", items.len()),
            Self::U64(items) => format!("{} u64", items.len()),
            Self::U8(items) => format!("{} u8", items.len()),
        }
    }
}

/// Named arrays, ordered by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    arrays: BTreeMap<String, Array>,
}

macro_rules! typed_access {
    ($put:ident, $many:ident, $any:ident, $variant:ident, $item:ty, $text:literal) => {
        #[doc = concat!("Stores an array of `", $text, "`, replacing one of the same name.")]
        pub fn $put(&mut self, name: &str, items: impl Into<Vec<$item>>) {
            self.arrays.insert(name.to_owned(), Array::$variant(items.into()));
        }

        #[doc = concat!("The array of exactly `len` items of `", $text, "` under `name`.")]
        pub fn $many(&self, name: &str, len: usize) -> Result<&[$item]> {
            let items = self.$any(name)?;
            if items.len() == len {
                return Ok(items);
            }
            Err(Error::SnapshotMismatch {
                name: name.to_owned(),
                found: format!(concat!("{} ", $text), items.len()),
                expected: format!(concat!("{} ", $text), len),
            })
        }

        #[doc = concat!("The array of `", $text, "` under `name`, whatever its length.")]
        pub fn $any(&self, name: &str) -> Result<&[$item]> {
            match self.arrays.get(name) {
                Some(Array::$variant(items)) => Ok(items),
                Some(other) => Err(Error::SnapshotMismatch {
                    name: name.to_owned(),
                    found: other.describe(),
                    expected: concat!("an array of ", $text).to_owned(),
                }),
                None => Err(Error::SnapshotMissing { name: name.to_owned() }),
            }
        }
    };
}

impl Snapshot {
    typed_access!(put_f32, f32s, any_f32s, F32, f32, "f32");
    typed_access!(put_f64, f64s, any_f64s, F64, f64, "f64");
    typed_access!(put_u64, u64s, any_u64s, U64, u64, "u64");
    typed_access!(put_u8, u8s, any_u8s, U8, u8, "u8");

    /// Fills `into` with the array of `f32` under `name`, which must be as long.
    pub fn copy_f32s(&self, name: &str, into: &mut [f32]) -> Result<()> {
        into.copy_from_slice(self.f32s(name, into.len())?);
        Ok(())
    }

    /// Stores one array, replacing one of the same name.
    pub fn put(&mut self, name: &str, array: Array) {
        self.arrays.insert(name.to_owned(), array);
    }

    /// Every array with its name, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Array)> {
        self.arrays.iter().map(|(name, array)| (name.as_str(), array))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_named() {
        let mut snapshot = Snapshot::default();
        snapshot.put_f32("agent/0/weights", vec![1.0, 2.0]);
        let check = |result: Result<()>, expect: &str| {
            assert_eq!(result.unwrap_err().to_string(), expect);
        };
        check(
            snapshot.f32s("agent/0/weights", 3).map(drop),
            "snapshot array `agent/0/weights` is 2 f32, expected 3 f32",
        );
        check(
            snapshot.u64s("agent/0/weights", 2).map(drop),
            "snapshot array `agent/0/weights` is 2 f32, expected an array of u64",
        );
        check(
            snapshot.f32s("agent/1/weights", 2).map(drop),
            "snapshot has no array `agent/1/weights`: \
             it was written by another version or for another shape",
        );
    }
}
