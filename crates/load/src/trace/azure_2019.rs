//! The Azure Functions trace of 2019: requests of each function in each minute of a day,
//! and summaries of durations and memory. The order of the columns differs from file to
//! file, so they are found by name.

use std::io::BufRead;

use crate::Result;
use crate::trace::table::{Row, Table};

/// Whose row it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FunctionKey {
    /// Owner.
    pub owner: String,
    /// Application.
    pub app: String,
    /// Function inside it.
    pub function: String,
}

/// Requests of one function, minute by minute.
#[derive(Debug, Clone, PartialEq)]
pub struct MinuteCounts {
    /// Whose.
    pub key: FunctionKey,
    /// What calls it, where the file says so: http, timer, queue and so on.
    pub trigger: Option<String>,
    /// Number of the first minute.
    pub first_minute: u32,
    /// Requests in each minute from there on.
    pub counts: Vec<u32>,
}

/// How long the invocations of one function took, in milliseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct DurationSummary {
    /// Whose.
    pub key: FunctionKey,
    /// Invocations.
    pub count: u64,
    /// Their mean.
    pub average_ms: f64,
    /// The shortest.
    pub minimum_ms: f64,
    /// The longest.
    pub maximum_ms: f64,
    /// The percentiles [`DurationSummary::PERCENTILES`] of the averages.
    pub percentiles_ms: [f64; 7],
}

impl DurationSummary {
    /// Which percentiles a summary has.
    pub const PERCENTILES: [u32; 7] = [0, 1, 25, 50, 75, 99, 100];
}

/// How much memory one application had, in megabytes.
#[derive(Debug, Clone, PartialEq)]
pub struct MemorySummary {
    /// Owner.
    pub owner: String,
    /// Application.
    pub app: String,
    /// Measurements.
    pub samples: u64,
    /// Their mean.
    pub average_mb: f64,
    /// The percentiles [`MemorySummary::PERCENTILES`].
    pub percentiles_mb: [f64; 8],
}

impl MemorySummary {
    /// Which percentiles a summary has.
    pub const PERCENTILES: [u32; 8] = [1, 5, 25, 50, 75, 95, 99, 100];
}

/// Where the three hashes stand.
struct KeyColumns {
    owner: usize,
    app: usize,
    function: usize,
}

impl KeyColumns {
    fn new<R: BufRead>(table: &Table<R>) -> Result<Self> {
        Ok(Self {
            owner: table.column("HashOwner")?,
            app: table.column("HashApp")?,
            function: table.column("HashFunction")?,
        })
    }

    fn read(&self, row: &Row<'_>) -> Result<FunctionKey> {
        Ok(FunctionKey {
            owner: row.text(self.owner)?.to_owned(),
            app: row.text(self.app)?.to_owned(),
            function: row.text(self.function)?.to_owned(),
        })
    }
}

/// Reads requests per minute.
pub struct MinuteCountsReader<R> {
    table: Table<R>,
    key: KeyColumns,
    trigger: Option<usize>,
    minutes: Vec<usize>,
    first_minute: u32,
}

impl<R: BufRead> MinuteCountsReader<R> {
    /// Reads the header. Minutes are named `1`, `minute_1` or `1_minute` and must follow each other.
    pub fn new(reader: R) -> Result<Self> {
        Self::from_table(Table::new(reader)?)
    }

    pub(crate) fn from_table(table: Table<R>) -> Result<Self> {
        let key = KeyColumns::new(&table)?;
        let mut minutes = Vec::new();
        let mut named: Vec<u32> = Vec::new();
        for (column, name) in table.header().iter().enumerate() {
            let bare = name.trim_start_matches("minute_").trim_end_matches("_minute");
            let Ok(minute) = bare.parse::<u32>() else { continue };
            if let Some(last) = named.last().filter(|last| last.checked_add(1) != Some(minute)) {
                return Err(table.error(name, format!("the minutes jump from {last} to {minute}")));
            }
            named.push(minute);
            minutes.push(column);
        }
        let Some(first_minute) = named.first().copied() else {
            return Err(table.error("minute_1", "there are no columns of minutes".to_owned()));
        };
        Ok(Self { trigger: table.optional_column("Trigger"), table, key, minutes, first_minute })
    }

    /// The next function, or nothing at the end.
    pub fn next_function(&mut self) -> Result<Option<MinuteCounts>> {
        let Some(row) = self.table.next_row()? else { return Ok(None) };
        Ok(Some(MinuteCounts {
            key: self.key.read(&row)?,
            trigger: self.trigger.map(|column| row.text(column).map(str::to_owned)).transpose()?,
            first_minute: self.first_minute,
            counts: self
                .minutes
                .iter()
                .map(|column| row.small_count(*column))
                .collect::<Result<_>>()?,
        }))
    }
}

/// Reads durations.
pub struct DurationReader<R> {
    table: Table<R>,
    key: KeyColumns,
    summary: [usize; 4],
    percentiles: [usize; 7],
}

impl<R: BufRead> DurationReader<R> {
    /// Reads the header.
    pub fn new(reader: R) -> Result<Self> {
        Self::from_table(Table::new(reader)?)
    }

    pub(crate) fn from_table(table: Table<R>) -> Result<Self> {
        let mut summary = [0; 4];
        for (place, name) in summary.iter_mut().zip(["Count", "Average", "Minimum", "Maximum"]) {
            *place = table.column(name)?;
        }
        let mut percentiles = [0; 7];
        for (place, percent) in percentiles.iter_mut().zip(DurationSummary::PERCENTILES) {
            *place = table.column(&format!("percentile_Average_{percent}"))?;
        }
        Ok(Self { key: KeyColumns::new(&table)?, table, summary, percentiles })
    }

    /// The next function, or nothing at the end.
    pub fn next_function(&mut self) -> Result<Option<DurationSummary>> {
        let [count, average, minimum, maximum] = self.summary;
        let Some(row) = self.table.next_row()? else { return Ok(None) };
        let mut percentiles_ms = [0.0; 7];
        for (value, column) in percentiles_ms.iter_mut().zip(self.percentiles) {
            *value = row.number(column)?;
        }
        Ok(Some(DurationSummary {
            key: self.key.read(&row)?,
            count: row.count(count)?,
            average_ms: row.number(average)?,
            minimum_ms: row.number(minimum)?,
            maximum_ms: row.number(maximum)?,
            percentiles_ms,
        }))
    }
}

/// Reads memory.
pub struct MemoryReader<R> {
    table: Table<R>,
    columns: [usize; 4],
    percentiles: [usize; 8],
}

impl<R: BufRead> MemoryReader<R> {
    /// Reads the header.
    pub fn new(reader: R) -> Result<Self> {
        Self::from_table(Table::new(reader)?)
    }

    pub(crate) fn from_table(table: Table<R>) -> Result<Self> {
        let mut columns = [0; 4];
        for (place, name) in
            columns.iter_mut().zip(["HashOwner", "HashApp", "SampleCount", "AverageAllocatedMb"])
        {
            *place = table.column(name)?;
        }
        let mut percentiles = [0; 8];
        for (place, percent) in percentiles.iter_mut().zip(MemorySummary::PERCENTILES) {
            *place = table.column(&format!("AverageAllocatedMb_pct{percent}"))?;
        }
        Ok(Self { table, columns, percentiles })
    }

    /// The next application, or nothing at the end.
    pub fn next_app(&mut self) -> Result<Option<MemorySummary>> {
        let [owner, app, samples, average] = self.columns;
        let Some(row) = self.table.next_row()? else { return Ok(None) };
        let mut percentiles_mb = [0.0; 8];
        for (value, column) in percentiles_mb.iter_mut().zip(self.percentiles) {
            *value = row.number(column)?;
        }
        Ok(Some(MemorySummary {
            owner: row.text(owner)?.to_owned(),
            app: row.text(app)?.to_owned(),
            samples: row.count(samples)?,
            average_mb: row.number(average)?,
            percentiles_mb,
        }))
    }
}
