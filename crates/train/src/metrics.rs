//! One stream of metrics, several writers: JSONL always, TensorBoard on request,
//! and a CSV table made from the JSONL when a run ends. What follows from the seed
//! and what follows from the clock go to different files, so that two runs can be
//! compared byte by byte.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;

use homeostat_lab::{Result, RunDirectory, file_error, write_atomically};
use serde_json::{Map, Value, json};

use crate::episode_stats::{AgentRound, TimeSplit};
use crate::tensorboard::EventFile;

/// Which writers run beside JSONL.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExtraWriters {
    /// `metrics.csv`, when the run ends.
    pub csv: bool,
    /// TensorBoard event files.
    pub tensorboard: bool,
}

/// The open metric files of a run.
pub(crate) struct MetricWriters {
    metrics: BufWriter<File>,
    timing: BufWriter<File>,
    tensorboard: Option<EventFile>,
}

/// What the clock says of a round.
#[derive(Debug, Clone, Copy)]
pub struct RoundTiming {
    /// Seconds since the start of this process's part of the run.
    pub elapsed_s: f64,
    /// Steps of all agents per second in this round.
    pub steps_per_s: f64,
    /// Where the time went.
    pub split: TimeSplit,
}

impl MetricWriters {
    /// Opens the files of a run. After a resume, lines of rounds beyond `step` are
    /// dropped: the resumed run writes them again.
    pub(crate) fn open(directory: &RunDirectory, extra: ExtraWriters, step: u64) -> Result<Self> {
        let open = |name: &str| -> Result<BufWriter<File>> {
            let path = directory.file(name);
            keep_lines_up_to(&path, step)?;
            append(&path)
        };
        Ok(Self {
            metrics: open("metrics.jsonl")?,
            timing: open("timing.jsonl")?,
            tensorboard: extra
                .tensorboard
                .then(|| EventFile::create(&directory.file("tensorboard"), step))
                .transpose()?,
        })
    }

    /// Writes one round.
    pub(crate) fn write(
        &mut self,
        step: u64,
        rounds: &[AgentRound],
        timing: &RoundTiming,
    ) -> Result<()> {
        let failed = file_error("write", Path::new("metrics"));
        for round in rounds {
            let line = line_of(step, round);
            writeln!(self.metrics, "{line}").map_err(&failed)?;
            if let Some(events) = &mut self.tensorboard {
                events.write(step, &scalars(round)).map_err(&failed)?;
            }
        }
        let line = json!({
            "step": step,
            "elapsed_s": timing.elapsed_s,
            "steps_per_s": timing.steps_per_s,
            "env_s": timing.split.env.as_secs_f64(),
            // The name in release 0.1.0; the next release removes it.
            "world_s": timing.split.env.as_secs_f64(),
            "inference_s": timing.split.inference.as_secs_f64(),
            "update_s": timing.split.update.as_secs_f64(),
        });
        writeln!(self.timing, "{line}").map_err(&failed)?;
        self.flush().map_err(&failed)
    }

    /// Brings everything written so far to the disk, so that no checkpoint is ever
    /// ahead of the metrics.
    pub(crate) fn sync(&mut self) -> Result<()> {
        let to_disk = |file: &BufWriter<File>| file.get_ref().sync_data();
        self.flush()
            .and_then(|()| to_disk(&self.metrics))
            .and_then(|()| to_disk(&self.timing))
            .map_err(file_error("write", Path::new("metrics")))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.metrics.flush()?;
        self.timing.flush()?;
        self.tensorboard.as_mut().map_or(Ok(()), EventFile::flush)
    }
}

/// A round as one line. `step` is the round's end, the same for all agents.
fn line_of(step: u64, round: &AgentRound) -> Value {
    let mut line = Map::new();
    line.insert("step".to_owned(), json!(step));
    line.insert("agent".to_owned(), json!(round.agent.number()));
    line.insert("episodes".to_owned(), json!(round.episodes));
    line.insert("return_mean".to_owned(), json!(round.round_return));
    line.insert("return_recent".to_owned(), json!(round.recent_return));
    line.insert("length_mean".to_owned(), json!(round.round_length));
    if round.service.steps > 0.0 {
        line.insert("slo_violation_ratio".to_owned(), json!(round.service.slo_violation_ratio()));
        line.insert("containers_mean".to_owned(), json!(round.service.mean_containers()));
    }
    for (name, value) in &round.figures {
        line.insert((*name).to_owned(), json!(value));
    }
    if let Some(reason) = &round.stopped {
        line.insert("stopped".to_owned(), json!(reason));
    }
    Value::Object(line)
}

/// A round as named numbers for TensorBoard, one group per agent.
fn scalars(round: &AgentRound) -> Vec<(String, f64)> {
    let agent = round.agent;
    let named = [
        ("return_mean", round.round_return),
        ("return_recent", round.recent_return),
        ("length_mean", round.round_length),
        ("slo_violation_ratio", round.service.slo_violation_ratio()),
        ("containers_mean", round.service.mean_containers()),
    ];
    let figures = round.figures.iter().map(|(name, value)| (*name, Some(*value)));
    let present = named
        .into_iter()
        .chain(figures)
        .filter_map(|(name, value)| value.map(|value| (name, value)));
    present.map(|(name, value)| (format!("{agent}/{name}"), value)).collect()
}

/// Writes `metrics.csv` from `metrics.jsonl`: every figure that any round had is a
/// column, in the order of their first appearance.
pub(crate) fn write_csv(directory: &RunDirectory) -> Result<()> {
    let text = directory.read("metrics.jsonl")?;
    let lines: Vec<Map<String, Value>> = text
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    let mut columns: Vec<&str> = Vec::new();
    for name in lines.iter().flat_map(Map::keys) {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    let cell = |value: Option<&Value>| match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => format!("\"{}\"", text.replace('"', "\"\"")),
        Some(value) => value.to_string(),
    };
    let mut table = columns.join(",") + "\n";
    for line in &lines {
        let cells: Vec<_> = columns.iter().map(|column| cell(line.get(*column))).collect();
        table.push_str(&(cells.join(",") + "\n"));
    }
    directory.write("metrics.csv", table.as_bytes())
}

fn append(path: &Path) -> Result<BufWriter<File>> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(file_error("write", path))?;
    Ok(BufWriter::new(file))
}

/// Drops lines of later rounds, and whatever a crash left of a last line.
fn keep_lines_up_to(path: &Path, step: u64) -> Result<()> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(file_error("read", path)(error)),
    };
    let is_kept = |line: &&[u8]| {
        let line: Option<Value> = serde_json::from_slice(line).ok();
        line.and_then(|line| line["step"].as_u64()).is_some_and(|at| at <= step)
    };
    let lines = bytes.split(|byte| *byte == b'\n').filter(is_kept);
    let kept: Vec<u8> = lines.flat_map(|line| [line, b"\n"].concat()).collect();
    write_atomically(path, &kept)
}
