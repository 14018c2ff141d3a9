//! The file with the windows of a simulation's first seed: plain, or packed where it would be large.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Lines from which the file is packed. A line takes about 450 bytes, and packed a twentieth of that.
const MIN_PACKED_LINES: u64 = 100_000;

const PLAIN: &str = "windows.jsonl";
const PACKED: &str = "windows.jsonl.gz";

/// The name of the file of so many lines.
pub fn windows_file_name(lines: u64) -> &'static str {
    if lines < MIN_PACKED_LINES { PLAIN } else { PACKED }
}

/// The file in a finished run directory.
pub fn find_windows_file(directory: &Path) -> PathBuf {
    let packed = directory.join(PACKED);
    if packed.is_file() { packed } else { directory.join(PLAIN) }
}

/// The file as it is written.
pub(crate) enum WindowsWriter {
    Plain(BufWriter<File>),
    Packed(Box<GzEncoder<BufWriter<File>>>),
}

impl WindowsWriter {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = BufWriter::new(File::create(path)?);
        let is_packed = path.extension().is_some_and(|extension| extension == "gz");
        Ok(match is_packed {
            // Windows resemble each other: a better compression costs more time than it saves bytes.
            true => Self::Packed(Box::new(GzEncoder::new(file, Compression::fast()))),
            false => Self::Plain(file),
        })
    }

    pub(crate) fn line(&mut self, line: &serde_json::Value) -> io::Result<()> {
        match self {
            Self::Plain(file) => writeln!(file, "{line}"),
            Self::Packed(file) => writeln!(file, "{line}"),
        }
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(mut file) => file.flush(),
            Self::Packed(file) => file.finish()?.flush(),
        }
    }
}
