//! Tar archives as they are downloaded, packed or not.

use std::io::Read;
use std::path::Path;

use tar::{Archive, EntryType};

use crate::{Result, read_packed};

/// Largest member that is read: members are held in memory one at a time.
const MAX_MEMBER_BYTES: u64 = 256 << 20;

/// Calls `visit` with the path and the text of every file of an archive whose path is `wanted`, in
/// the order of the archive. Nothing is unpacked to the disk. Members that are not UTF-8, are too
/// large or are cut off are errors that name the archive and the member.
pub fn read_archive(
    path: &Path,
    wanted: &dyn Fn(&str) -> bool,
    visit: &mut dyn FnMut(&str, &str) -> Result<(), String>,
) -> Result<()> {
    read_packed(path, &["tar"], &mut |_| {}, |input| {
        let damaged = |error: std::io::Error| format!("not a tar archive, or damaged: {error}");
        let mut archive = Archive::new(input);
        for entry in archive.entries().map_err(damaged)? {
            let mut entry = entry.map_err(damaged)?;
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            if entry.header().entry_type() != EntryType::Regular || !wanted(&name) {
                continue;
            }
            if entry.size() > MAX_MEMBER_BYTES {
                return Err(format!("{name} has {} bytes: too large", entry.size()));
            }
            let mut text = String::new();
            entry.read_to_string(&mut text).map_err(|error| format!("{name}: {error}"))?;
            visit(&name, &text).map_err(|reason| format!("{name}: {reason}"))?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, content) in members {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_cksum();
            builder.append_data(&mut header, name, *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn names(bytes: &[u8]) -> Result<Vec<String>> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data.tar");
        std::fs::write(&path, bytes).unwrap();
        let mut names = Vec::new();
        read_archive(&path, &|name| name.ends_with(".csv"), &mut |name, text| {
            names.push(format!("{name} {text}"));
            Ok(())
        })?;
        Ok(names)
    }

    #[test]
    fn only_wanted_members_are_read() {
        let bytes = archive(&[("a/1.csv", b"x"), ("a/2.json", b"y"), ("b/3.csv", b"z")]);
        assert_eq!(names(&bytes).unwrap(), ["a/1.csv x", "b/3.csv z"]);
    }

    #[test]
    fn a_damaged_archive_is_one_error_that_names_it() {
        let bytes = archive(&[("a/1.csv", b"x,y")]);
        for damaged in [&bytes[..513], b"time,cpu\n1,2\n".as_slice()] {
            let error = names(damaged).unwrap_err().to_string();
            assert!(error.contains("data.tar"), "{error}");
        }
        let error = names(&archive(&[("a/1.csv", b"\xff\xfe")])).unwrap_err().to_string();
        assert!(error.contains("a/1.csv"), "{error}");
    }
}
