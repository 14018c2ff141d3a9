//! One stream of metrics, several writers: JSONL always, CSV and TensorBoard on
//! request. What follows from the seed and what follows from the clock go to
//! different files, so that two runs can be compared byte by byte.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::run_folder::{RunFolder, file_error};
use crate::tensorboard::EventFile;
use crate::trainer::{AgentRound, TimeSplit};
use crate::{Error, Result};

/// Which writers run beside JSONL.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExtraWriters {
    /// `metrics.csv`.
    pub csv: bool,
    /// TensorBoard event files.
    pub tensorboard: bool,
}

/// The open metric files of a run.
pub(crate) struct MetricWriters {
    metrics: BufWriter<File>,
    timing: BufWriter<File>,
    csv: Option<Csv>,
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
    pub(crate) fn open(folder: &RunFolder, extra: ExtraWriters, step: u64) -> Result<Self> {
        let open = |name: &str| -> Result<BufWriter<File>> {
            let path = folder.file(name);
            keep_lines_up_to(&path, step)?;
            append(&path)
        };
        Ok(Self {
            metrics: open("metrics.jsonl")?,
            timing: open("timing.jsonl")?,
            csv: extra.csv.then(|| Csv::open(&folder.file("metrics.csv"), step)).transpose()?,
            tensorboard: extra
                .tensorboard
                .then(|| EventFile::create(&folder.file("tensorboard"), step))
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
        let failed = |error: std::io::Error| Error::File {
            action: "write",
            path: "metrics".into(),
            reason: error.to_string(),
        };
        for round in rounds {
            let line = line_of(step, round);
            writeln!(self.metrics, "{line}").map_err(failed)?;
            if let Some(csv) = &mut self.csv {
                csv.write(&line).map_err(failed)?;
            }
            if let Some(events) = &mut self.tensorboard {
                events.write(step, &scalars(round)).map_err(failed)?;
            }
        }
        let line = json!({
            "step": step,
            "elapsed_s": timing.elapsed_s,
            "steps_per_s": timing.steps_per_s,
            "world_s": timing.split.world.as_secs_f64(),
            "inference_s": timing.split.inference.as_secs_f64(),
            "update_s": timing.split.update.as_secs_f64(),
        });
        writeln!(self.timing, "{line}").map_err(failed)?;
        self.flush().map_err(failed)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.metrics.flush()?;
        self.timing.flush()?;
        if let Some(csv) = &mut self.csv {
            csv.file.flush()?;
        }
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
    ];
    let figures = round.figures.iter().map(|(name, value)| (*name, Some(*value)));
    let present = named
        .into_iter()
        .chain(figures)
        .filter_map(|(name, value)| value.map(|value| (name, value)));
    present.map(|(name, value)| (format!("{agent}/{name}"), value)).collect()
}

/// A table whose columns are those of the first round that had an update.
struct Csv {
    file: BufWriter<File>,
    columns: Vec<String>,
    waiting: Vec<Value>,
}

impl Csv {
    fn open(path: &Path, step: u64) -> Result<Self> {
        let mut columns = Vec::new();
        if let Ok(text) = std::fs::read_to_string(path) {
            let mut lines = text.lines();
            columns = lines
                .next()
                .map(|header| header.split(',').map(str::to_owned).collect())
                .unwrap_or_default();
            let kept = text.lines().enumerate().filter(|(index, line)| {
                *index == 0
                    || line
                        .split(',')
                        .next()
                        .and_then(|cell| cell.parse::<u64>().ok())
                        .is_some_and(|at| at <= step)
            });
            let kept: String = kept.map(|(_, line)| format!("{line}\n")).collect();
            std::fs::write(path, kept).map_err(file_error("write", path))?;
        }
        Ok(Self { file: append(path)?, columns, waiting: Vec::new() })
    }

    fn write(&mut self, line: &Value) -> std::io::Result<()> {
        // Rounds before the first update lack its figures: they wait for the header.
        self.waiting.push(line.clone());
        let object = line.as_object().expect("a round is an object");
        if self.columns.is_empty() {
            const WITHOUT_UPDATE: usize = 6;
            if object.len() <= WITHOUT_UPDATE || object.contains_key("stopped") {
                return Ok(());
            }
            self.columns = object.keys().cloned().collect();
            writeln!(self.file, "{}", self.columns.join(","))?;
        }
        for line in self.waiting.drain(..) {
            let cell = |column: &String| match &line[column.as_str()] {
                Value::Null => String::new(),
                value => value.to_string(),
            };
            let cells: Vec<_> = self.columns.iter().map(cell).collect();
            writeln!(self.file, "{}", cells.join(","))?;
        }
        Ok(())
    }
}

fn append(path: &Path) -> Result<BufWriter<File>> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(file_error("write", path))?;
    Ok(BufWriter::new(file))
}

/// Drops lines of later rounds, and a last line that a crash cut short.
fn keep_lines_up_to(path: &Path, step: u64) -> Result<()> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(()) };
    let is_kept = |line: &&str| {
        serde_json::from_str::<Value>(line)
            .ok()
            .and_then(|line| line["step"].as_u64())
            .is_some_and(|at| at <= step)
    };
    let kept: String = text.lines().filter(is_kept).map(|line| format!("{line}\n")).collect();
    crate::run_folder::write_atomically(path, kept.as_bytes())
}
