//! Trace files as they come: packed, cut off, damaged, or something else.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use homeostat_simulate::{TableSummary, inspect_trace};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Enough lines that a cut is felt, and no two alike.
fn table() -> Vec<u8> {
    let mut text = String::from("HashOwner,HashApp,HashFunction,Trigger,1,2,3\n");
    for row in 0..5000u64 {
        let mixed = row.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        text.push_str(&format!("o{mixed:x},a{row},f{row},http,{},0,{}\n", row % 7, row % 3));
    }
    text.into_bytes()
}

fn zstd(content: &[u8]) -> Vec<u8> {
    compress_to_vec(content, CompressionLevel::Fastest)
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zipped(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in members {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn inspect(content: &[u8]) -> Result<TableSummary, String> {
    let directory = TempDir::new().unwrap();
    // The name must not matter.
    let path = directory.path().join("trace.bin");
    std::fs::write(&path, content).unwrap();
    inspect_trace(&path, &mut |_| {}).map_err(|error| {
        let text = error.to_string();
        assert!(text.contains("trace.bin"), "the file is not named: {text}");
        text
    })
}

#[test]
fn packed_tables_are_read_like_plain_ones() {
    let plain = table();
    let expect = inspect(&plain);
    assert!(matches!(&expect, Ok(TableSummary::Counts(summary)) if summary.functions == 5000));
    assert_eq!(inspect(&zstd(&plain)), expect);
    assert_eq!(inspect(&gzip(&plain)), expect);
    assert_eq!(inspect(&zipped(&[("day.csv", &plain), ("README.txt", b"hello")])), expect);
}

#[test]
fn files_of_several_frames_are_read_to_their_end() {
    let plain = table();
    let (one, other) = plain.split_at(plain.len() / 3);
    let expect = inspect(&plain);
    assert_eq!(inspect(&[zstd(one), zstd(other)].concat()), expect);
    assert_eq!(inspect(&[gzip(one), gzip(other)].concat()), expect);
    // A frame to be skipped, seven bytes long.
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 7, 0, 0, 0][..], b"ignored"].concat();
    assert_eq!(inspect(&[skipped.clone(), zstd(&plain)].concat()), expect);
    assert_eq!(inspect(&[zstd(&plain), skipped].concat()), expect);
}

#[test]
fn a_cut_file_is_never_half_a_trace() {
    let plain = table();
    for (name, whole) in
        [("zstd", zstd(&plain)), ("gzip", gzip(&plain)), ("zip", zipped(&[("a.csv", &plain)]))]
    {
        for part in [10, whole.len() / 4, whole.len() / 2, whole.len() - 5, whole.len() - 1] {
            let error = inspect(&whole[..part]).unwrap_err();
            let has_place = error.contains("trace line ") || error.contains("zip archive");
            assert!(has_place, "{name} cut at {part}: {error}");
        }
    }
}

#[test]
fn a_damaged_file_is_refused() {
    let plain = table();
    for (name, whole) in
        [("zstd", zstd(&plain)), ("gzip", gzip(&plain)), ("zip", zipped(&[("a.csv", &plain)]))]
    {
        for place in (40..whole.len() - 200).step_by(whole.len() / 23) {
            let mut damaged = whole.clone();
            damaged[place] ^= 0x10;
            assert!(inspect(&damaged).is_err(), "{name} damaged at {place}");
        }
    }
}

#[test]
fn an_archive_must_have_one_table() {
    let plain = table();
    let check = |members: &[(&str, &[u8])], expect: &str| {
        let error = inspect(&zipped(members)).unwrap_err();
        assert!(error.contains(expect), "{error}");
    };
    check(&[], "the archive has no .csv file; it has no files");
    check(&[("a.txt", b"x")], "the archive has no .csv file; it has a.txt");
    check(
        &[("d1.csv", &plain), ("d2.csv", &plain)],
        "the archive has several .csv files, unpack one: d1.csv, d2.csv",
    );
}

#[test]
fn what_is_no_file_is_named() {
    let missing = inspect_trace(Path::new("nowhere.csv"), &mut |_| {}).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read nowhere.csv: No such file"), "{missing}");
    let directory = TempDir::new().unwrap();
    let error = inspect_trace(directory.path(), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("Is a directory"), "{error}");
}

#[test]
fn progress_goes_up_to_the_size_of_the_file() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("trace.csv");
    std::fs::write(&path, table()).unwrap();
    let mut seen = Vec::new();
    inspect_trace(&path, &mut |progress| seen.push(progress)).unwrap();
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(seen.is_sorted_by_key(|progress| progress.read));
    assert!(seen.iter().all(|progress| progress.total == size));
    assert_eq!(seen.last().map(|progress| progress.read), Some(size));
}
