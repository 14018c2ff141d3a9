//! The Azure Functions trace of 2021: one line per invocation.

use std::io::BufRead;

use homeostat_core::{SimDuration, SimTime};

use crate::Result;
use crate::trace::table::Table;

/// One invocation.
#[derive(Debug, Clone, PartialEq)]
pub struct Invocation {
    /// Application.
    pub app: String,
    /// Function inside it.
    pub function: String,
    /// When it began.
    pub start: SimTime,
    /// How long it ran.
    pub duration: SimDuration,
}

/// Reads `app,func,end_timestamp,duration`, times in seconds. The trace is ordered by the
/// end of invocations, hence not by their start.
pub struct InvocationReader<R> {
    table: Table<R>,
    columns: [usize; 4],
}

impl<R: BufRead> InvocationReader<R> {
    /// Reads the header.
    pub fn new(reader: R) -> Result<Self> {
        Self::from_table(Table::new(reader)?)
    }

    pub(crate) fn from_table(table: Table<R>) -> Result<Self> {
        let columns = [
            table.column("app")?,
            table.column("func")?,
            table.column("end_timestamp")?,
            table.column("duration")?,
        ];
        Ok(Self { table, columns })
    }

    /// The number of the line that was read last.
    pub fn line(&self) -> u64 {
        self.table.line_number()
    }

    /// The next invocation, or nothing at the end.
    pub fn next_invocation(&mut self) -> Result<Option<Invocation>> {
        let [app, function, end, duration] = self.columns;
        let Some(row) = self.table.next_row()? else { return Ok(None) };
        let seconds = |column: usize| {
            let number = row.number(column)?;
            SimDuration::from_seconds(number).map_err(|error| row.error(column, error.to_string()))
        };
        let (end_at, lasted) = (seconds(end)?, seconds(duration)?);
        if lasted > end_at {
            let reason = format!("it ends after {end_at} and cannot have run for {lasted}");
            return Err(row.error(duration, reason));
        }
        Ok(Some(Invocation {
            app: row.text(app)?.to_owned(),
            function: row.text(function)?.to_owned(),
            start: SimTime::ZERO + (end_at - lasted),
            duration: lasted,
        }))
    }
}
