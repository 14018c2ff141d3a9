//! Trace files as they are downloaded: plain tables, or packed.

use std::io::BufRead;
use std::path::Path;

use homeostat_lab::{FileProgress, Result, read_packed};
use homeostat_load::trace::TraceReader;

/// Hands the table in a file to `read`, and returns what that made of it. An error names the
/// file, and line and column where there are any; nothing of a broken file is returned.
pub fn read_trace<T>(
    path: &Path,
    watch: &mut dyn FnMut(FileProgress),
    read: impl FnOnce(TraceReader<&mut dyn BufRead>) -> homeostat_load::Result<T>,
) -> Result<T> {
    read_packed(path, &["csv"], watch, |table| {
        TraceReader::new(table).and_then(read).map_err(|error| error.to_string())
    })
}
