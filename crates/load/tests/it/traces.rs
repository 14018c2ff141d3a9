//! Traces as they are published, and as they arrive broken.

use homeostat_load::trace::{
    DurationReader, InvocationReader, MemoryReader, MinuteCountsReader, TraceReader,
};
use proptest::prelude::*;

const COUNTS: &str =
    "HashFunction,HashApp,HashOwner,minute_1,minute_2,minute_3\nf,a,o,14,0,7\nf2,a,o,0,0,1\n";
const TRIGGERED: &str = "HashOwner,HashApp,HashFunction,Trigger,480,481\r\no,a,f,http,3,4\r\n";
const DURATIONS: &str = "HashOwner,HashApp,HashFunction,Average,Count,Minimum,Maximum,percentile_Average_0,percentile_Average_1,percentile_Average_25,percentile_Average_50,percentile_Average_75,percentile_Average_99,percentile_Average_100\no,a,f,306,7726495,0.0,144874.0,1,247,269,282,304,481,130686\n";
const MEMORY: &str = "HashApp,HashOwner,SampleCount,AverageAllocatedMb,AverageAllocatedMb_pct1,AverageAllocatedMb_pct5,AverageAllocatedMb_pct25,AverageAllocatedMb_pct50,AverageAllocatedMb_pct75,AverageAllocatedMb_pct95,AverageAllocatedMb_pct99,AverageAllocatedMb_pct100\na,o,1854,794,646,722,731,753,856,869,905,983\n";
const INVOCATIONS: &str = "app,func,end_timestamp,duration\na,f,0.0795,0.078\na,g,57.158,57.154\n";

#[test]
fn minutes_are_read_whatever_the_order_of_columns() {
    let mut reader = MinuteCountsReader::new(COUNTS.as_bytes()).unwrap();
    let first = reader.next_function().unwrap().unwrap();
    assert_eq!(
        (first.key.function.as_str(), first.key.app.as_str(), first.key.owner.as_str()),
        ("f", "a", "o")
    );
    assert_eq!((first.first_minute, first.counts, first.trigger), (1, vec![14, 0, 7], None));
    assert_eq!(reader.next_function().unwrap().unwrap().counts, [0, 0, 1]);
    assert_eq!(reader.next_function().unwrap(), None);
    let mut reader = MinuteCountsReader::new(TRIGGERED.as_bytes()).unwrap();
    let only = reader.next_function().unwrap().unwrap();
    assert_eq!(
        (only.first_minute, only.counts, only.trigger.as_deref()),
        (480, vec![3, 4], Some("http"))
    );
}

#[test]
fn durations_and_memory_are_read() {
    let durations =
        DurationReader::new(DURATIONS.as_bytes()).unwrap().next_function().unwrap().unwrap();
    assert_eq!(
        (durations.count, durations.average_ms, durations.maximum_ms),
        (7_726_495, 306.0, 144_874.0)
    );
    assert_eq!(durations.percentiles_ms, [1.0, 247.0, 269.0, 282.0, 304.0, 481.0, 130_686.0]);
    let memory = MemoryReader::new(MEMORY.as_bytes()).unwrap().next_app().unwrap().unwrap();
    assert_eq!((memory.samples, memory.average_mb, memory.percentiles_mb[7]), (1854, 794.0, 983.0));
}

#[test]
fn invocations_begin_where_they_end_less_their_duration() {
    let mut reader = InvocationReader::new(INVOCATIONS.as_bytes()).unwrap();
    let first = reader.next_invocation().unwrap().unwrap();
    assert_eq!((first.start.seconds(), first.duration.seconds()), (0.0015, 0.078));
    assert_eq!(reader.next_invocation().unwrap().unwrap().function, "g");
    assert_eq!(reader.next_invocation().unwrap(), None);
}

#[test]
fn a_table_is_known_by_its_header() {
    let kind = |text: &'static str| match TraceReader::new(text.as_bytes()) {
        Ok(TraceReader::Counts(_)) => "counts".to_owned(),
        Ok(TraceReader::Durations(_)) => "durations".to_owned(),
        Ok(TraceReader::Memory(_)) => "memory".to_owned(),
        Ok(TraceReader::Invocations(_)) => "invocations".to_owned(),
        Err(error) => error.to_string(),
    };
    assert_eq!(kind(COUNTS), "counts");
    assert_eq!(kind(TRIGGERED), "counts");
    assert_eq!(kind(DURATIONS), "durations");
    assert_eq!(kind(MEMORY), "memory");
    assert_eq!(kind(INVOCATIONS), "invocations");
    assert_eq!(
        kind("name,age\nann,7\n"),
        "trace line 1, column header: this is no table of the Azure Functions traces; the header \
         begins name,age, and known tables have a column HashFunction, AverageAllocatedMb or \
         end_timestamp"
    );
    assert_eq!(
        kind("HashFunction,HashApp,1\n"),
        "trace line 1, column HashOwner: there is no such column; the header begins \
         HashFunction,HashApp,1"
    );
}

/// The first error of a trace of minutes.
fn refused(text: &str) -> String {
    let read = || {
        let mut reader = MinuteCountsReader::new(text.as_bytes())?;
        while reader.next_function()?.is_some() {}
        Ok::<_, homeostat_load::Error>(())
    };
    read().unwrap_err().to_string()
}

#[test]
fn broken_traces_are_refused_with_line_column_and_reason() {
    let header = "HashOwner,HashApp,HashFunction,1,2";
    let check = |text: &str, expect: &str| assert_eq!(refused(text), expect);
    check("", "trace line 1, column header: the file is empty");
    check(
        "a,b\n",
        "trace line 1, column HashOwner: there is no such column; the header begins a,b",
    );
    check(
        "HashOwner,HashApp,HashFunction\n",
        "trace line 1, column minute_1: there are no columns of minutes",
    );
    check(
        "HashOwner,HashApp,HashFunction,1,3\n",
        "trace line 1, column 3: the minutes jump from 1 to 3",
    );
    check(
        &format!("{header}\no,a,f,1,2\no,a,f,1,-2\n"),
        "trace line 3, column 2: `-2` is not a count (0, 1, 2, ...)",
    );
    check(
        &format!("{header}\no,a,f,1\n"),
        "trace line 2, column all: the line has 4 fields, the header 5",
    );
    check(&format!("{header}\no,a,f,,2\n"), "trace line 2, column 1: it is empty");
    check(
        &format!("{header}\no,a,f,1,4294967296\n"),
        "trace line 2, column 2: 4294967296 in a minute is more than 4294967295",
    );
    let huge = format!("{header}\n{}\n", "x".repeat(2_000_000));
    check(&huge, "trace line 2, column all: the line is longer than 1048576 bytes");
    let early = "app,func,end_timestamp,duration\na,f,1.0,2.0\n";
    let error = InvocationReader::new(early.as_bytes()).unwrap().next_invocation().unwrap_err();
    assert_eq!(
        error.to_string(),
        "trace line 2, column duration: it ends after 1s and cannot have run for 2s"
    );
}

proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), cut in any::<prop::sample::Index>()) {
        let torn = &COUNTS.as_bytes()[..cut.index(COUNTS.len())];
        for input in [bytes.as_slice(), &[torn, &bytes].concat(), &[DURATIONS.as_bytes(), &bytes].concat()] {
            if let Ok(mut reader) = MinuteCountsReader::new(input) {
                while let Ok(Some(_)) = reader.next_function() {}
            }
            if let Ok(mut reader) = DurationReader::new(input) {
                while let Ok(Some(_)) = reader.next_function() {}
            }
            if let Ok(mut reader) = InvocationReader::new(input) {
                while let Ok(Some(_)) = reader.next_invocation() {}
            }
        }
    }
}
