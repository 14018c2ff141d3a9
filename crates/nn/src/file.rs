//! Snapshots as bytes: safetensors with a JSON header and a hash over everything, so that reading
//! a truncated or altered file is an error. Any safetensors reader, Python's for example, opens
//! these files.

use std::borrow::Cow;
use std::collections::BTreeMap;

use homeostat_core::{Array, Snapshot};
use safetensors::tensor::{Dtype, SafeTensors, View};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Error, Result};

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StateFile {
    /// Kind and version: `homeostat-checkpoint/1`.
    pub kind: String,
    /// Metadata as JSON: schemas, configuration, versions.
    pub header: serde_json::Value,
    /// The arrays.
    pub arrays: Snapshot,
    /// Shapes of the arrays with more than one dimension.
    pub shapes: BTreeMap<String, Vec<usize>>,
}

/// The only entry of the safetensors metadata. The library stores entries in a map without order,
/// so several would be written in a different order each time.
const ENTRY: &str = "homeostat";

#[derive(Serialize, Deserialize)]
struct Entry {
    kind: String,
    sha256: String,
    header: serde_json::Value,
}

/// The bytes of a file; equal content gives equal bytes.
pub fn encode(file: &StateFile) -> Vec<u8> {
    let arrays: Vec<_> = file
        .arrays
        .iter()
        .map(|(name, array)| (name, RawArray::new(array, file.shapes.get(name))))
        .collect();
    let named_bytes = arrays.iter().map(|(name, raw)| (*name, raw.bytes.as_slice()));
    let entry = Entry {
        kind: file.kind.clone(),
        sha256: hash(&file.kind, &file.header, named_bytes),
        header: file.header.clone(),
    };
    let text = serde_json::to_string(&entry).expect("plain data");
    #[expect(clippy::disallowed_types, reason = "the library asks for it; it has one entry")]
    let metadata = std::collections::HashMap::from([(ENTRY.to_owned(), text)]);
    safetensors::serialize(arrays, Some(metadata))
        .expect("shapes match their arrays by construction")
}

/// Reads a file of exactly this kind and version. A wrong hash is an error.
pub fn decode(bytes: &[u8], kind: &str) -> Result<StateFile> {
    let damaged = |what: String| Error::Damaged { what };
    let (_, metadata) = SafeTensors::read_metadata(bytes)
        .map_err(|e| damaged(format!("not a safetensors file ({e})")))?;
    let tensors = SafeTensors::deserialize(bytes)
        .map_err(|e| damaged(format!("its arrays do not fit its length ({e})")))?;
    let text = metadata.metadata().as_ref().and_then(|entries| entries.get(ENTRY));
    let text = text.ok_or_else(|| damaged(format!("its metadata lacks `{ENTRY}`")))?;
    let entry: Entry = serde_json::from_str(text)
        .map_err(|e| damaged(format!("its header cannot be read ({e})")))?;
    if entry.kind != kind {
        return Err(Error::WrongKind { found: entry.kind, expected: kind.to_owned() });
    }
    let named: BTreeMap<_, _> = tensors.iter().collect();
    let expected = hash(kind, &entry.header, named.iter().map(|(name, view)| (*name, view.data())));
    if expected != entry.sha256 {
        return Err(damaged("its content does not match its hash".to_owned()));
    }
    let mut file =
        StateFile { kind: kind.to_owned(), header: entry.header, ..StateFile::default() };
    for (name, view) in named {
        let data = view.data();
        let array = match view.dtype() {
            Dtype::F32 => Array::F32(items(data, f32::from_le_bytes)),
            Dtype::F64 => Array::F64(items(data, f64::from_le_bytes)),
            Dtype::U64 => Array::U64(items(data, u64::from_le_bytes)),
            Dtype::U8 => Array::U8(data.to_vec()),
            other => return Err(damaged(format!("array `{name}` has the unknown type {other:?}"))),
        };
        file.arrays.put(name, array);
        if view.shape().len() != 1 {
            file.shapes.insert(name.to_owned(), view.shape().to_vec());
        }
    }
    Ok(file)
}

fn hash<'a>(
    kind: &str,
    header: &serde_json::Value,
    arrays: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> String {
    let mut hasher = Sha256::new();
    // Lengths are hashed too; otherwise bytes could move from one array to the next unnoticed.
    let mut part = |bytes: &[u8]| {
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    part(kind.as_bytes());
    part(header.to_string().as_bytes());
    for (name, bytes) in arrays {
        part(name.as_bytes());
        part(bytes);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn items<const N: usize, T>(bytes: &[u8], read: fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|chunk| read(*chunk)).collect()
}

struct RawArray {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl RawArray {
    fn new(array: &Array, shape: Option<&Vec<usize>>) -> Self {
        let (dtype, len, bytes): (_, _, Vec<u8>) = match array {
            Array::F32(items) => {
                (Dtype::F32, items.len(), items.iter().flat_map(|x| x.to_le_bytes()).collect())
            }
            Array::F64(items) => {
                (Dtype::F64, items.len(), items.iter().flat_map(|x| x.to_le_bytes()).collect())
            }
            Array::U64(items) => {
                (Dtype::U64, items.len(), items.iter().flat_map(|x| x.to_le_bytes()).collect())
            }
            Array::U8(items) => (Dtype::U8, items.len(), items.clone()),
        };
        let fits = |shape: &&Vec<usize>| shape.iter().product::<usize>() == len;
        let shape = shape.filter(fits).cloned().unwrap_or_else(|| vec![len]);
        Self { dtype, shape, bytes }
    }
}

impl View for RawArray {
    fn dtype(&self) -> Dtype {
        self.dtype
    }
    fn shape(&self) -> &[usize] {
        &self.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }
    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> StateFile {
        let mut file = StateFile {
            kind: "test/1".to_owned(),
            header: serde_json::json!({ "seed": 7, "note": "hello" }),
            ..StateFile::default()
        };
        file.arrays.put_f32("w", vec![1.0, -2.5, f32::MIN_POSITIVE, 4.0, 5.0, 6.0]);
        file.arrays.put_f64("x", vec![std::f64::consts::PI]);
        file.arrays.put_u64("n", vec![u64::MAX]);
        file.arrays.put_u8("flags", vec![0, 1, 255]);
        file.shapes.insert("w".to_owned(), vec![2, 3]);
        file
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(decode(&encode(&sample()), "test/1").unwrap(), sample());
    }

    #[test]
    fn the_same_content_gives_the_same_bytes() {
        assert_eq!(encode(&sample()), encode(&sample()));
    }

    #[test]
    fn another_kind_is_refused_by_name() {
        let error = decode(&encode(&sample()), "test/2").unwrap_err().to_string();
        assert_eq!(error, "file is test/1, expected test/2");
    }

    proptest! {
        #[test]
        fn no_torn_file_is_accepted(keep in 0.0f64..1.0) {
            let bytes = encode(&sample());
            let kept = (bytes.len() as f64 * keep) as usize;
            prop_assert!(decode(&bytes[..kept], "test/1").is_err());
        }

        #[test]
        fn no_flipped_bit_goes_unnoticed(place in any::<prop::sample::Index>(), bit in 0u8..8) {
            let mut bytes = encode(&sample());
            let place = place.index(bytes.len());
            bytes[place] ^= 1 << bit;
            // A flip may land in white space of the header; then nothing has changed.
            if let Ok(file) = decode(&bytes, "test/1") {
                prop_assert_eq!(file, sample());
            }
        }
    }
}
