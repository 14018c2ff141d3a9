//! Published data that is not part of the project. It is looked for below the directory that
//! `HOMEOSTAT_TEST_DATA` names, else below `../shared/data` beside the workspace; without it
//! the tests that need it say so and pass.

use std::path::{Path, PathBuf};

use homeostat_test_skip::skip;

/// A file of published data, or nothing, said aloud, where it is absent.
pub(crate) fn sample(directory: &str, name: &str) -> Option<PathBuf> {
    let beside = Path::new("../../../shared/data");
    let data = std::env::var_os("HOMEOSTAT_TEST_DATA").map_or(beside.to_owned(), PathBuf::from);
    let path = data.join(directory).join(name);
    if path.exists() {
        return Some(path);
    }
    skip(&format!("{} is absent; set HOMEOSTAT_TEST_DATA", path.display()));
    None
}
