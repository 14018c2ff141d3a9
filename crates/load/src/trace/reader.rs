//! Any of the published tables, told by its header.

use std::io::BufRead;

use crate::Result;
use crate::trace::table::Table;
use crate::trace::{DurationReader, InvocationReader, MemoryReader, MinuteCountsReader};

/// A reader of the table that the header names.
pub enum TraceReader<R> {
    /// Requests per minute, 2019.
    Counts(MinuteCountsReader<R>),
    /// Run times, 2019.
    Durations(DurationReader<R>),
    /// Memory, 2019.
    Memory(MemoryReader<R>),
    /// Invocations, 2021.
    Invocations(InvocationReader<R>),
}

impl<R: BufRead> TraceReader<R> {
    /// Reads the header. A table is known by a column that no other has; whatever else is
    /// missing from it is an error of that table.
    pub fn new(reader: R) -> Result<Self> {
        let table = Table::new(reader)?;
        let has = |name: &str| table.optional_column(name).is_some();
        if has("end_timestamp") {
            InvocationReader::from_table(table).map(Self::Invocations)
        } else if has("AverageAllocatedMb") {
            MemoryReader::from_table(table).map(Self::Memory)
        } else if has("percentile_Average_50") {
            DurationReader::from_table(table).map(Self::Durations)
        } else if has("HashFunction") {
            MinuteCountsReader::from_table(table).map(Self::Counts)
        } else {
            let reason = format!(
                "this is no table of the Azure Functions traces; the header begins {}, and \
                 known tables have a column HashFunction, AverageAllocatedMb or end_timestamp",
                table.header_start()
            );
            Err(table.error("header", reason))
        }
    }
}
