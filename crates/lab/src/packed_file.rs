//! Files as they are downloaded: plain, or packed with zstd, gzip or zip. What a file is, its
//! first bytes say, not its name. It is unpacked while it is read, so that its size does not
//! matter.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use zip::ZipArchive;

use crate::{Error, Result, file_error};

/// How far a file has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileProgress {
    /// Bytes read, as they lie on the disk.
    pub read: u64,
    /// Bytes in all.
    pub total: u64,
}

/// Hands the content of a file to `read`, and returns what that made of it. An error names the
/// file and the reason that `read` gave. Of a zip archive, the only member with one of these
/// extensions is read.
pub fn read_packed<T>(
    path: &Path,
    extensions: &[&str],
    watch: &mut dyn FnMut(FileProgress),
    read: impl FnOnce(&mut dyn BufRead) -> Result<T, String>,
) -> Result<T> {
    let broken = |reason: String| Error::File { action: "read", path: path.to_owned(), reason };
    let file = File::open(path).map_err(file_error("read", path))?;
    let total = file.metadata().map_err(file_error("read", path))?.len();
    let mut file = BufReader::with_capacity(1 << 16, WatchedFile { file, read: 0, total, watch });
    match Packing::of(file.fill_buf().map_err(file_error("read", path))?) {
        Packing::None => read(&mut file).map_err(broken),
        Packing::Zstd => read(&mut BufReader::new(ZstdReader::new(file))).map_err(broken),
        Packing::Gzip => read(&mut BufReader::new(MultiGzDecoder::new(file))).map_err(broken),
        Packing::Zip => {
            let damaged = |error: zip::result::ZipError| {
                broken(format!("the zip archive is damaged or cut off: {error}"))
            };
            let mut archive = ZipArchive::new(file).map_err(damaged)?;
            let index = only_member(&archive, extensions).map_err(broken)?;
            let member = archive.by_index(index).map_err(damaged)?;
            read(&mut BufReader::new(member)).map_err(broken)
        }
    }
}

/// How a file is packed.
enum Packing {
    None,
    Zstd,
    Gzip,
    Zip,
}

impl Packing {
    fn of(start: &[u8]) -> Self {
        match start {
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            // A frame to be skipped, with which some packers begin.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0x1f, 0x8b, ..] => Self::Gzip,
            // The first file of an archive, or the end of an empty one.
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Self::Zip,
            _ => Self::None,
        }
    }
}

/// The number of the only member of an archive that has one of these extensions.
fn only_member<R: Read + Seek>(
    archive: &ZipArchive<R>,
    extensions: &[&str],
) -> Result<usize, String> {
    let names: Vec<String> =
        archive.file_names_raw().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    let is_wanted = |name: &String| {
        let extension = Path::new(name).extension().unwrap_or_default();
        extensions.iter().any(|wanted| extension.eq_ignore_ascii_case(wanted))
    };
    let wanted: Vec<usize> = (0..names.len()).filter(|index| is_wanted(&names[*index])).collect();
    let kind = extensions.join(" or .");
    match wanted.as_slice() {
        [only] => Ok(*only),
        [] => Err(format!("the archive has no .{kind} file; it has {}", shown(&names))),
        _ => {
            let names: Vec<String> = wanted.iter().map(|index| names[*index].clone()).collect();
            Err(format!("the archive has several .{kind} files, unpack one: {}", shown(&names)))
        }
    }
}

/// The first of many names.
fn shown(names: &[String]) -> String {
    const MAX_NAMES: usize = 8;
    let mut text = names.iter().take(MAX_NAMES).cloned().collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => text.push_str("no files"),
        count if count > MAX_NAMES => text.push_str(&format!(" and {} more", count - MAX_NAMES)),
        _ => {}
    }
    text
}

/// A file that reports how far it has been read.
struct WatchedFile<'a> {
    file: File,
    read: u64,
    total: u64,
    watch: &'a mut dyn FnMut(FileProgress),
}

impl Read for WatchedFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.read += count as u64;
        (self.watch)(FileProgress { read: self.read.min(self.total), total: self.total });
        Ok(count)
    }
}

impl Seek for WatchedFile<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.read = self.file.seek(to)?;
        Ok(self.read)
    }
}

/// Unpacks zstd frame after frame and checks their sums: the library's own reader stops
/// after the first frame and leaves the sum to its caller.
struct ZstdReader<R> {
    source: R,
    decoder: FrameDecoder,
    is_inside: bool,
}

impl<R: BufRead> ZstdReader<R> {
    fn new(source: R) -> Self {
        Self { source, decoder: FrameDecoder::new(), is_inside: false }
    }

    /// Begins the next frame; false at the end of the file.
    fn begin_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let skipped =
                        io::copy(&mut self.source.by_ref().take(length), &mut io::sink())?;
                    if skipped < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(self.damage(error)),
            }
        }
        Ok(false)
    }

    /// What is wrong, in words: the library's error of a file that was cut off does not say so.
    fn damage(&mut self, error: FrameDecoderError) -> io::Error {
        match self.source.fill_buf() {
            Ok([]) => io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file ends too early: it was cut off",
            ),
            _ => io::Error::other(error),
        }
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.is_inside {
                if !self.begin_frame()? {
                    return Ok(0);
                }
                self.is_inside = true;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let step = BlockDecodingStrategy::UptoBlocks(1);
                if let Err(error) = self.decoder.decode_blocks(&mut self.source, step) {
                    return Err(self.damage(error));
                }
            }
            let count = self.decoder.read(buffer)?;
            if count > 0 {
                return Ok(count);
            }
            let found = self.decoder.get_checksum_from_data();
            if found.is_some() && found != self.decoder.get_calculated_checksum() {
                return Err(io::Error::other("the zstd checksum does not match"));
            }
            self.is_inside = false;
        }
    }
}
