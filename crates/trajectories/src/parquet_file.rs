//! A table for data tools: a Parquet file with a column for each feature and each part of an action.

use std::io::Write;
use std::sync::Arc;

use homeostat_core::ControlSchema;
use parquet::basic::{ConvertedType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, FloatType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use crate::exchange::{action_names, observation_names, require_same};
use crate::{Error, Filter, Result, Store, Trajectory, Transition};

/// Rows in a row group, which is kept in memory while it is written.
const ROWS: usize = 100_000;

/// Rows of one row group, by column.
#[derive(Default)]
struct Rows {
    trajectory: Vec<i64>,
    workload: Vec<ByteArray>,
    policy: Vec<ByteArray>,
    step: Vec<i32>,
    at_ms: Vec<i64>,
    /// One for each number of an observation, then one for each number of an action.
    numbers: Vec<Vec<f32>>,
    reward: Vec<f64>,
    /// Those that are known.
    probability: Vec<f64>,
    /// 1 where a probability is known.
    probability_levels: Vec<i16>,
}

/// Writes trajectories of one schema as a Parquet file, a row for each transition. Its metadata has the
/// schema, as `homeostat.schema`. Returns the number of rows.
pub fn export_parquet(
    store: &mut dyn Store,
    filter: &Filter,
    to: &mut (dyn Write + Send),
) -> Result<u64> {
    let trajectories = store.list(filter)?;
    let Some(first) = trajectories.first() else {
        let reason = "no trajectory is selected, and a table without columns is none".to_owned();
        return Err(Error::Parquet { reason });
    };
    let schema = store.origin(first.id)?.schema;
    let json = serde_json::to_string(&schema).expect("a schema is plain data");
    let metadata = KeyValue::new("homeostat.schema".to_owned(), json);
    let properties = WriterProperties::builder()
        .set_created_by(format!("homeostat {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![metadata]))
        .build();
    let columns = columns(&schema).map_err(failed)?;
    let mut writer =
        SerializedFileWriter::new(to, columns, Arc::new(properties)).map_err(failed)?;
    let (mut rows, mut count) = (Rows::default(), 0);
    for one in &trajectories {
        require_same(&schema, &store.origin(one.id)?.schema)?;
        let mut step = 0;
        store.transitions(one.id, &mut |transition| {
            rows.push(one, step, &transition);
            step += 1;
            count += 1;
            Ok(())
        })?;
        if rows.step.len() >= ROWS {
            write(&mut writer, &mut rows).map_err(failed)?;
        }
    }
    write(&mut writer, &mut rows).map_err(failed)?;
    writer.close().map_err(failed)?;
    Ok(count)
}

fn failed(error: ParquetError) -> Error {
    Error::Parquet { reason: error.to_string() }
}

fn columns(schema: &ControlSchema) -> Result<TypePtr, ParquetError> {
    let column = |name: &str, kind: PhysicalType, converted: ConvertedType, repeated| {
        let column = Type::primitive_type_builder(name, kind).with_converted_type(converted);
        column.with_repetition(repeated).build().map(Arc::new)
    };
    let plain = |name: &str, kind| column(name, kind, ConvertedType::NONE, Repetition::REQUIRED);
    let text = |name: &str| {
        column(name, PhysicalType::BYTE_ARRAY, ConvertedType::UTF8, Repetition::REQUIRED)
    };
    let mut fields = vec![
        plain("trajectory", PhysicalType::INT64)?,
        text("workload")?,
        text("policy")?,
        plain("step", PhysicalType::INT32)?,
        plain("at_ms", PhysicalType::INT64)?,
    ];
    for name in observation_names(schema) {
        fields.push(plain(&name, PhysicalType::FLOAT)?);
    }
    for name in action_names(schema) {
        fields.push(plain(&format!("action {name}"), PhysicalType::FLOAT)?);
    }
    fields.push(plain("reward", PhysicalType::DOUBLE)?);
    let (none, optional) = (ConvertedType::NONE, Repetition::OPTIONAL);
    fields.push(column("probability", PhysicalType::DOUBLE, none, optional)?);
    Type::group_type_builder("decisions").with_fields(fields).build().map(Arc::new)
}

impl Rows {
    fn push(&mut self, trajectory: &Trajectory, step: i32, transition: &Transition) {
        let Transition { at_ms, observation, action, reward, probability } = transition;
        self.trajectory.push(trajectory.id.0);
        self.workload.push(trajectory.workload.as_str().into());
        self.policy.push(trajectory.policy.as_str().into());
        self.step.push(step);
        self.at_ms.push(*at_ms);
        self.numbers.resize_with(observation.len() + action.len(), Vec::new);
        for (column, number) in self.numbers.iter_mut().zip(observation.iter().chain(action)) {
            column.push(*number);
        }
        self.reward.push(*reward);
        self.probability.extend(probability);
        self.probability_levels.push(probability.is_some().into());
    }
}

/// Writes a row group; none for no rows.
fn write<W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    rows: &mut Rows,
) -> Result<(), ParquetError> {
    let rows = std::mem::take(rows);
    if rows.step.is_empty() {
        return Ok(());
    }
    let mut group = writer.next_row_group()?;
    next::<Int64Type, W>(&mut group, &rows.trajectory, None)?;
    next::<ByteArrayType, W>(&mut group, &rows.workload, None)?;
    next::<ByteArrayType, W>(&mut group, &rows.policy, None)?;
    next::<Int32Type, W>(&mut group, &rows.step, None)?;
    next::<Int64Type, W>(&mut group, &rows.at_ms, None)?;
    for column in &rows.numbers {
        next::<FloatType, W>(&mut group, column, None)?;
    }
    next::<DoubleType, W>(&mut group, &rows.reward, None)?;
    next::<DoubleType, W>(&mut group, &rows.probability, Some(&rows.probability_levels))?;
    group.close()?;
    Ok(())
}

/// Writes the next column.
fn next<T: parquet::data_type::DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let mut column = group.next_column()?.expect("a column for each field of the schema");
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}
