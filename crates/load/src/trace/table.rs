//! Comma-separated tables without quotes, as the traces are: read line by line, with the
//! line and the column in every error, and limits on the length of a line, on lines and on bytes, so
//! that a file that is no table, or unpacks to far more than it seems, does not fill the memory.

use std::io::{BufRead, Read};

use crate::{Error, Result};

/// Longer than any line of the published traces by far: a day of minutes is 10 KB.
const LONGEST_LINE: usize = 1 << 20;

/// What a table may hold. The largest published one has 46 000 lines, or two million short ones, and
/// less than a third of a gigabyte.
#[derive(Debug, Clone, Copy)]
struct Limits {
    lines: u64,
    bytes: u64,
}

const LIMITS: Limits = Limits { lines: 200_000_000, bytes: 16 << 30 };

/// A table with its header.
pub(crate) struct Table<R> {
    reader: R,
    limits: Limits,
    bytes: u64,
    header: Vec<String>,
    line: String,
    number: u64,
}

/// One row of a table.
pub(crate) struct Row<'a> {
    header: &'a [String],
    fields: Vec<&'a str>,
    number: u64,
}

impl<R: BufRead> Table<R> {
    pub(crate) fn new(reader: R) -> Result<Self> {
        Self::with_limits(reader, LIMITS)
    }

    fn with_limits(reader: R, limits: Limits) -> Result<Self> {
        let mut this =
            Self { reader, limits, bytes: 0, header: Vec::new(), line: String::new(), number: 0 };
        if !this.read_line()? {
            return Err(this.error("header", "the file is empty".to_owned()));
        }
        // Spreadsheets begin a file with a byte-order mark.
        let header = this.line.trim_start_matches('\u{feff}');
        this.header = header.split(',').map(|name| name.trim().to_owned()).collect();
        Ok(this)
    }

    pub(crate) fn header(&self) -> &[String] {
        &self.header
    }

    /// Of the line that was read last.
    pub(crate) fn line_number(&self) -> u64 {
        self.number
    }

    /// The place of a column that must be there.
    pub(crate) fn column(&self, name: &str) -> Result<usize> {
        self.optional_column(name).ok_or_else(|| {
            let begin = self.header_start();
            self.error(name, format!("there is no such column; the header begins {begin}"))
        })
    }

    /// The first names of the header, not at length: the file may be anything.
    pub(crate) fn header_start(&self) -> String {
        let shown = self.header.iter().take(6).map(|name| name.chars().take(40).collect());
        shown.collect::<Vec<String>>().join(",")
    }

    pub(crate) fn optional_column(&self, name: &str) -> Option<usize> {
        self.header.iter().position(|column| column == name)
    }

    /// An error of the present line.
    pub(crate) fn error(&self, column: &str, reason: String) -> Error {
        Error::Trace { line: self.number.max(1), column: column.to_owned(), reason }
    }

    /// The next row, or nothing at the end of the file.
    pub(crate) fn next_row(&mut self) -> Result<Option<Row<'_>>> {
        if !self.read_line()? {
            return Ok(None);
        }
        let fields: Vec<&str> = self.line.split(',').collect();
        if fields.len() != self.header.len() {
            let reason =
                format!("the line has {} fields, the header {}", fields.len(), self.header.len());
            return Err(self.error("all", reason));
        }
        Ok(Some(Row { header: &self.header, fields, number: self.number }))
    }

    /// Reads the next line that is not empty, without its end.
    fn read_line(&mut self) -> Result<bool> {
        loop {
            self.number += 1;
            let mut bytes = std::mem::take(&mut self.line).into_bytes();
            bytes.clear();
            let limit = LONGEST_LINE as u64 + 1;
            let read = self.reader.by_ref().take(limit).read_until(b'\n', &mut bytes);
            let count =
                read.map_err(|error| self.error("all", format!("it cannot be read: {error}")))?;
            if count == 0 {
                return Ok(false);
            }
            self.bytes += count as u64;
            let Limits { lines, bytes: most } = self.limits;
            if self.bytes > most || self.number > lines {
                let reason = format!(
                    "the table is larger than {lines} lines or {most} bytes, unpacked: split it"
                );
                return Err(self.error("all", reason));
            }
            if count > LONGEST_LINE {
                return Err(
                    self.error("all", format!("the line is longer than {LONGEST_LINE} bytes"))
                );
            }
            self.line = String::from_utf8(bytes)
                .map_err(|_| self.error("all", "it is not text".to_owned()))?;
            let kept = self.line.trim_end_matches(['\r', '\n']).len();
            self.line.truncate(kept);
            if !self.line.is_empty() {
                return Ok(true);
            }
        }
    }
}

impl<'a> Row<'a> {
    pub(crate) fn text(&self, column: usize) -> Result<&'a str> {
        match self.fields[column].trim() {
            "" => Err(self.error(column, "it is empty".to_owned())),
            text => Ok(text),
        }
    }

    /// A count: 0, 1, 2 and so on.
    pub(crate) fn count(&self, column: usize) -> Result<u64> {
        let text = self.text(column)?;
        text.parse()
            .map_err(|_| self.error(column, format!("`{text}` is not a count (0, 1, 2, ...)")))
    }

    /// A count that 32 bits hold, as those of a minute do.
    pub(crate) fn small_count(&self, column: usize) -> Result<u32> {
        let count = self.count(column)?;
        u32::try_from(count).map_err(|_| {
            self.error(column, format!("{count} in a minute is more than {}", u32::MAX))
        })
    }

    /// A finite number, not below zero.
    pub(crate) fn number(&self, column: usize) -> Result<f64> {
        let text = self.text(column)?;
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| self.error(column, format!("`{text}` is not a number of 0 or above")))
    }

    pub(crate) fn error(&self, column: usize, reason: String) -> Error {
        Error::Trace { line: self.number, column: self.header[column].clone(), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_does_not_end_is_refused() {
        let check = |limits: Limits, expect: u64| {
            let endless = std::io::BufReader::new(std::io::repeat(b'\n'));
            let text = &b"a,b\n1,2\n3,4\n5,6\n7,8\n"[..];
            let mut table = Table::with_limits(text.chain(endless), limits).unwrap();
            let mut rows = 0;
            let error = loop {
                match table.next_row() {
                    Ok(Some(_)) => rows += 1,
                    Ok(None) => panic!("it has no end"),
                    Err(error) => break error.to_string(),
                }
            };
            assert!(error.contains("the table is larger than"), "{error}");
            assert_eq!(rows, expect, "{limits:?}");
        };
        check(Limits { lines: 3, bytes: 1000 }, 2);
        check(Limits { lines: 1000, bytes: 12 }, 2);
        // Empty lines count as well.
        check(Limits { lines: 1000, bytes: 100 }, 4);
    }
}
