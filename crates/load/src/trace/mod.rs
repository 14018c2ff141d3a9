//! Streaming readers of published traces, over any `Read`: one row at a time.

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
