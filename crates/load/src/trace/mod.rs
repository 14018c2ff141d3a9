//! Readers of published traces, over anything that can be read. They stream: a row at a
//! time, whatever the size of the file.

mod azure_2019;
mod azure_2021;
mod reader;
mod table;

pub use azure_2019::{
    DurationReader, DurationSummary, FunctionKey, MemoryReader, MemorySummary, MinuteCounts,
    MinuteCountsReader,
};
pub use azure_2021::{Invocation, InvocationReader};
pub use reader::TraceReader;
