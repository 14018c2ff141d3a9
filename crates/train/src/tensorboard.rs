//! TensorBoard event files: length-framed, checksummed protocol-buffer records.
//! Only scalars are written, so the few fields are encoded by hand instead of
//! pulling in a protocol-buffer compiler.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use homeostat_lab::{Result, file_error};

/// One open event file.
pub(crate) struct EventFile {
    file: BufWriter<File>,
}

impl EventFile {
    /// A new file in `directory`; a resumed run adds one more, which TensorBoard joins.
    pub(crate) fn create(directory: &Path, step: u64) -> Result<Self> {
        fs::create_dir_all(directory).map_err(file_error("create", directory))?;
        let path = directory
            .join(format!("events.out.tfevents.{:010}.homeostat-{step}", wall_time() as u64));
        let file = File::create(&path).map_err(file_error("create", &path))?;
        let mut this = Self { file: BufWriter::new(file) };
        let mut event = event(0);
        bytes_field(3, b"brain.Event:2", &mut event);
        this.record(&event).map_err(file_error("write", &path))?;
        Ok(this)
    }

    pub(crate) fn write(&mut self, step: u64, scalars: &[(String, f64)]) -> io::Result<()> {
        let mut summary = Vec::new();
        for (tag, number) in scalars {
            let mut value = Vec::new();
            bytes_field(1, tag.as_bytes(), &mut value);
            key(2, FIXED_32, &mut value);
            value.extend_from_slice(&(*number as f32).to_le_bytes());
            bytes_field(1, &value, &mut summary);
        }
        let mut event = event(step);
        bytes_field(5, &summary, &mut event);
        self.record(&event)
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    /// Length, its checksum, content, its checksum.
    fn record(&mut self, content: &[u8]) -> io::Result<()> {
        let length = (content.len() as u64).to_le_bytes();
        self.file.write_all(&length)?;
        self.file.write_all(&masked_crc(&length).to_le_bytes())?;
        self.file.write_all(content)?;
        self.file.write_all(&masked_crc(content).to_le_bytes())
    }
}

const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;
const FIXED_32: u64 = 5;

/// Wall time (field 1) and step (field 2), which every event has.
fn event(step: u64) -> Vec<u8> {
    let mut event = Vec::new();
    key(1, FIXED_64, &mut event);
    event.extend_from_slice(&wall_time().to_le_bytes());
    key(2, VARINT, &mut event);
    varint(step, &mut event);
    event
}

fn wall_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn key(field: u64, wire_type: u64, out: &mut Vec<u8>) {
    varint(field << 3 | wire_type, out);
}

fn bytes_field(field: u64, bytes: &[u8], out: &mut Vec<u8>) {
    key(field, LENGTH_DELIMITED, out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// CRC-32C, rotated and offset as the format asks.
fn masked_crc(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
        }
    }
    (!crc).rotate_right(15).wrapping_add(0xA282_EAD8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standard() {
        // CRC-32C of "123456789" is 0xE3069283.
        assert_eq!(
            masked_crc(b"123456789"),
            0xE306_9283u32.rotate_right(15).wrapping_add(0xA282_EAD8)
        );
    }

    #[test]
    fn varints_carry_seven_bits_a_byte() {
        let mut out = Vec::new();
        varint(300, &mut out);
        assert_eq!(out, [0xAC, 0x02]);
    }
}
