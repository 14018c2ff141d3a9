//! Texts: a stream of records that another store can import, and a table for other programs.

use std::io::{BufRead, Write};

use homeostat_core::ControlSchema;
use homeostat_core::trajectory::Record;

use crate::{
    Error, Filter, RecordedTrajectory, Result, Store, Trajectory, TrajectoryId, TrajectoryStore,
};

/// Writes trajectories as lines of [`Record`]s and returns the number of transitions.
pub fn export_records(store: &mut dyn Store, filter: &Filter, to: &mut dyn Write) -> Result<u64> {
    let mut count = 0;
    let mut write = |record: &Record| -> Result<()> {
        count += u64::from(matches!(record, Record::Transition(_)));
        serde_json::to_writer(&mut *to, record).map_err(std::io::Error::from)?;
        Ok(to.write_all(b"\n")?)
    };
    for Trajectory { id, end, .. } in store.list(filter)? {
        write(&Record::Trajectory(store.origin(id)?))?;
        store.transitions(id, &mut |transition| write(&Record::Transition(transition)))?;
        if let (Some(how), Some(observation)) = (end, store.last_observation(id)?) {
            write(&Record::End { how, observation })?;
        }
    }
    Ok(count)
}

/// Reads lines of [`Record`]s into a store, `batch` transitions in a transaction, and calls
/// `committed` with the number of transitions that are stored, after each. A line that cannot be read
/// ends the import; transactions before it stay.
pub fn import_records(
    store: &mut TrajectoryStore,
    from: &mut dyn BufRead,
    batch: u64,
    committed: &mut dyn FnMut(u64),
) -> Result<u64> {
    let (mut line, mut text) = (0, String::new());
    let mut open: Option<TrajectoryId> = None;
    let mut count = 0;
    loop {
        let mut writer = store.write()?;
        let mut fresh = 0;
        let mut is_at_end = false;
        while fresh < batch.max(1) {
            text.clear();
            if from.read_line(&mut text)? == 0 {
                is_at_end = true;
                break;
            }
            line += 1;
            let refused = |reason: String| Error::Line { line, reason };
            let record: Record =
                serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
            let begun = open.ok_or_else(|| refused("no trajectory has begun".to_owned()));
            let stored = match record {
                Record::Trajectory(origin) => writer.begin(&origin).map(|id| open = Some(id)),
                Record::Transition(transition) => {
                    fresh += 1;
                    writer.append(begun?, &transition)
                }
                Record::End { how, observation } => {
                    open = None;
                    writer.end(begun?, how, &observation)
                }
            };
            stored.map_err(|error| refused(error.to_string()))?;
        }
        writer.commit()?;
        count += fresh;
        if fresh > 0 {
            committed(count);
        }
        if is_at_end {
            return Ok(count);
        }
    }
}

/// Writes trajectories of one schema as a table, a row for each transition, with the names of features
/// and actions in its header. Returns the number of rows.
pub fn export_csv(store: &mut dyn Store, filter: &Filter, to: &mut dyn Write) -> Result<u64> {
    let trajectories = store.list(filter)?;
    let Some(first) = trajectories.first() else { return Ok(0) };
    let schema = store.origin(first.id)?.schema;
    let mut header: Vec<String> =
        ["trajectory", "workload", "policy", "step", "at_ms"].map(str::to_owned).into();
    header.extend(observation_names(&schema));
    header.extend(action_names(&schema).iter().map(|name| format!("action {name}")));
    header.extend(["reward", "probability"].map(str::to_owned));
    write_row(to, &header)?;
    let mut count = 0;
    for one in &trajectories {
        require_same(&schema, &store.origin(one.id)?.schema)?;
        let mut step = 0;
        store.transitions(one.id, &mut |transition| {
            let mut row = vec![
                one.id.to_string(),
                one.workload.clone(),
                one.policy.clone(),
                step.to_string(),
                transition.at_ms.to_string(),
            ];
            row.extend(transition.observation.iter().chain(&transition.action).map(f32::to_string));
            row.push(transition.reward.to_string());
            row.push(transition.probability.map_or_else(String::new, |value| value.to_string()));
            step += 1;
            count += 1;
            write_row(to, &row)
        })?;
    }
    Ok(count)
}

/// Reads lines of [`Record`]s into a store on a server, a trajectory at a time, and calls `stored` with
/// the number of transitions so far after each.
pub fn import_trajectories(
    store: &mut dyn Store,
    from: &mut dyn BufRead,
    stored: &mut dyn FnMut(u64),
) -> Result<u64> {
    let mut count = 0;
    read_trajectories(from, &mut |whole| {
        store.put(&whole)?;
        count += whole.transitions.len() as u64;
        stored(count);
        Ok(())
    })?;
    Ok(count)
}

/// Reads lines of [`Record`]s and hands each trajectory to `each`, whose error ends the reading.
pub fn read_trajectories(
    from: &mut dyn BufRead,
    each: &mut dyn FnMut(RecordedTrajectory) -> Result<()>,
) -> Result<()> {
    let mut open: Option<RecordedTrajectory> = None;
    let (mut line, mut text) = (0, String::new());
    while from.read_line(&mut text)? > 0 {
        line += 1;
        let refused = |reason: String| Error::Line { line, reason };
        let record: Record =
            serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
        if let Record::Trajectory(origin) = record {
            open.replace(RecordedTrajectory::new(origin)).map_or(Ok(()), &mut *each)?;
        } else if let Some(whole) = &mut open {
            if whole.push(record).is_some() {
                return Err(refused("the trajectory has ended".to_owned()));
            }
        } else {
            return Err(refused("no trajectory has begun".to_owned()));
        }
        text.clear();
    }
    open.map_or(Ok(()), each)
}

/// The names of the numbers of an observation. Of a history, the latest one comes last and has the
/// plain names.
pub(crate) fn observation_names(schema: &ControlSchema) -> Vec<String> {
    let history = schema.features.history.max(1);
    let of_one = |age: usize| {
        let names = schema.features.features.iter().map(|feature| &feature.name);
        names.map(move |name| if age == 0 { name.clone() } else { format!("{name}[-{age}]") })
    };
    (0..history).rev().flat_map(of_one).collect()
}

/// The names of the numbers of an action.
pub(crate) fn action_names(schema: &ControlSchema) -> Vec<String> {
    schema.action.parts.iter().map(|part| part.name.clone()).collect()
}

/// An error for a table of two schemas.
pub(crate) fn require_same(schema: &ControlSchema, other: &ControlSchema) -> Result<()> {
    if other == schema {
        return Ok(());
    }
    let name = |schema: &ControlSchema| format!("{} with {}", schema.features.id, schema.action.id);
    Err(Error::SeveralSchemas { first: name(schema), second: name(other) })
}

fn write_row(to: &mut dyn Write, cells: &[String]) -> Result<()> {
    let quoted = |cell: &String| match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.clone(),
    };
    let line = cells.iter().map(quoted).collect::<Vec<_>>().join(",");
    Ok(writeln!(to, "{line}")?)
}
