//! Recorded episodes on disk until a store has taken them. The spool is bounded: when it is full, the
//! oldest episodes are deleted and counted. It needs no database, so that the operator stays small.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use homeostat_core::trajectory::Record;

const NOT_POISONED: &str = "no code panics while it holds this lock";
const ENDING: &str = "jsonl";

/// A directory with a file for each episode that no store has taken yet.
#[derive(Debug)]
pub struct Spool {
    directory: PathBuf,
    max_bytes: u64,
    state: Mutex<State>,
}

/// What is in a spool, and what was lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpoolStatus {
    /// Episodes that wait.
    pub episodes: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Decisions that were written since the process started.
    pub recorded: u64,
    /// Decisions that were lost since the process started.
    pub lost: u64,
    /// Why the last episode could not be written, if so.
    pub problem: Option<String>,
    /// Why the store takes no episodes now, if so.
    pub delay: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes by file name; the oldest episode comes first.
    files: BTreeMap<String, u64>,
    recorded: u64,
    lost: u64,
    problem: Option<String>,
    delay: Option<String>,
}

impl Spool {
    /// Opens a directory, and makes it if it is not there.
    pub fn open(directory: &Path, max_bytes: u64) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            match Path::new(&name).extension().and_then(|ending| ending.to_str()) {
                Some(ENDING) => {
                    files.insert(name, entry.metadata()?.len());
                }
                // The process died while it wrote this one.
                Some("tmp") => fs::remove_file(entry.path())?,
                _ => {}
            }
        }
        let state = Mutex::new(State { files, ..State::default() });
        Ok(Self { directory: directory.to_owned(), max_bytes, state })
    }

    /// Writes an episode of a workload; on the disk when it returns. An error is kept for
    /// [`Spool::status`], and the episode counts as lost.
    pub fn put(&self, workload: &str, began_ms: i64, records: &[Record]) {
        let decisions = decisions(records.len());
        // Names of objects contain no slash, and times of equal length sort as they should.
        let name = format!("{began_ms:016}-{}.{ENDING}", workload.replace('/', "_"));
        let mut text = Vec::new();
        for record in records {
            serde_json::to_writer(&mut text, record).expect("records are plain data");
            text.push(b'\n');
        }
        let written = self.write(&name, &text);
        let mut state = self.state();
        match written {
            Ok(()) => {
                state.files.insert(name, text.len() as u64);
                state.recorded += decisions;
                state.problem = None;
            }
            Err(error) => {
                state.lost += decisions;
                state.problem = Some(format!("{}: {error}", self.directory.display()));
            }
        }
        self.drop_oldest(&mut state);
    }

    /// The oldest episode, to be given to a store; none if all were taken.
    pub fn oldest(&self) -> Option<(String, Vec<u8>)> {
        let mut state = self.state();
        while let Some(name) = state.files.keys().next().cloned() {
            match fs::read(self.directory.join(&name)) {
                Ok(text) => return Some((name, text)),
                // Somebody else deleted it.
                Err(error) => {
                    state.files.remove(&name);
                    state.problem = Some(format!("{name}: {error}"));
                }
            }
        }
        None
    }

    /// A store has taken an episode.
    pub fn taken(&self, name: &str) {
        self.state().files.remove(name);
        // What cannot be deleted is given to the store again after a restart, which knows it.
        let _ = fs::remove_file(self.directory.join(name));
    }

    /// Why the store takes no episodes now; none if it does. Returns whether that is news.
    pub fn set_delay(&self, why: Option<String>) -> bool {
        let mut state = self.state();
        let is_news = state.delay.is_none() != why.is_none();
        state.delay = why;
        is_news
    }

    /// A store refuses an episode for good: it is kept under another name, which counts as lost.
    pub fn refused(&self, name: &str) {
        let path = self.directory.join(name);
        let text = fs::read(&path).unwrap_or_default();
        let mut state = self.state();
        state.files.remove(name);
        state.lost += decisions_in(&text);
        let _ = fs::rename(&path, path.with_extension("refused"));
    }

    /// What is in it, and what was lost.
    pub fn status(&self) -> SpoolStatus {
        let state = self.state();
        SpoolStatus {
            episodes: state.files.len(),
            bytes: state.files.values().sum(),
            recorded: state.recorded,
            lost: state.lost,
            problem: state.problem.clone(),
            delay: state.delay.clone(),
        }
    }

    fn write(&self, name: &str, text: &[u8]) -> io::Result<()> {
        let path = self.directory.join(name);
        let unfinished = path.with_extension("tmp");
        let mut file = File::create(&unfinished)?;
        let done = file.write_all(text).and_then(|()| file.sync_all());
        done.and_then(|()| fs::rename(&unfinished, &path)).inspect_err(|_| {
            let _ = fs::remove_file(&unfinished);
        })
    }

    fn drop_oldest(&self, state: &mut State) {
        while state.files.values().sum::<u64>() > self.max_bytes {
            let Some((name, _)) = state.files.pop_first() else { return };
            let path = self.directory.join(&name);
            state.lost += decisions_in(&fs::read(&path).unwrap_or_default());
            let _ = fs::remove_file(path);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(NOT_POISONED)
    }
}

/// Decisions of an episode with so many records: one begins it and one ends it.
fn decisions(records: usize) -> u64 {
    records.saturating_sub(2) as u64
}

fn decisions_in(text: &[u8]) -> u64 {
    decisions(text.iter().filter(|byte| **byte == b'\n').count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_core::trajectory::{End, Origin, Transition};
    use homeostat_core::{ActionSchema, ControlSchema, FeatureSchema};

    /// An episode with two decisions.
    fn episode(began_ms: i64) -> Vec<Record> {
        let schema = ControlSchema {
            features: FeatureSchema { id: "a/load-v1".into(), features: vec![], history: 1 },
            action: ActionSchema { id: "a/none-v1".into(), parts: vec![] },
            bounds: vec![],
        };
        let origin = Origin {
            workload: "shop/checkout".to_owned(),
            policy: "hpa+vpa".to_owned(),
            schema,
            recorded_ms: began_ms,
        };
        let transition = |at_ms| {
            let (observation, action) = (vec![], vec![]);
            Record::Transition(Transition {
                at_ms,
                observation,
                action,
                reward: 0.5,
                probability: None,
            })
        };
        let end = Record::End { how: End::Truncated, observation: vec![] };
        vec![Record::Trajectory(origin), transition(began_ms), transition(began_ms + 1), end]
    }

    fn place(name: &str) -> PathBuf {
        let place = std::env::temp_dir().join(format!("spool-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        place
    }

    #[test]
    fn episodes_wait_in_the_order_of_their_beginning_until_a_store_has_taken_them() {
        let place = place("order");
        let spool = Spool::open(&place, 1 << 20).expect("a folder");
        for began_ms in [30_000, 1_000] {
            spool.put("shop/checkout", began_ms, &episode(began_ms));
        }
        let (first, text) = spool.oldest().expect("two wait");
        let lines: Vec<Record> = String::from_utf8(text)
            .expect("text")
            .lines()
            .map(|line| serde_json::from_str(line).expect("a record"))
            .collect();
        assert_eq!(lines, episode(1_000));
        spool.taken(&first);
        drop(spool);
        // A process that died while it wrote leaves half a file.
        fs::write(place.join("0000000000040000-shop_checkout.tmp"), "{").expect("written");
        let spool = Spool::open(&place, 1 << 20).expect("a folder");
        assert_eq!(spool.status().episodes, 1);
        assert_eq!(fs::read_dir(&place).expect("a folder").count(), 1);
        let (last, _) = spool.oldest().expect("one waits");
        assert!(last.starts_with("0000000000030000"), "{last}");
        spool.taken(&last);
        assert_eq!(spool.oldest(), None);
        fs::remove_dir_all(place).expect("removed");
    }

    #[test]
    fn a_full_spool_loses_the_oldest_episodes_and_counts_their_decisions() {
        let place = place("full");
        let bytes = {
            let spool = Spool::open(&place, 1 << 20).expect("a folder");
            spool.put("shop/checkout", 1, &episode(1));
            spool.status().bytes
        };
        let spool = Spool::open(&place, 2 * bytes + 10).expect("a folder");
        for began_ms in 2..=5 {
            spool.put("shop/checkout", began_ms, &episode(began_ms));
        }
        let status = spool.status();
        assert_eq!((status.episodes, status.recorded, status.lost), (2, 8, 6));
        let (oldest, _) = spool.oldest().expect("two wait");
        assert!(oldest.starts_with("0000000000000004"), "{oldest}");
        spool.refused(&oldest);
        assert_eq!((spool.status().episodes, spool.status().lost), (1, 8));
        fs::remove_dir_all(place).expect("removed");
    }

    #[test]
    fn an_episode_that_cannot_be_written_is_lost_and_the_reason_is_kept() {
        let place = place("gone");
        let spool = Spool::open(&place, 1 << 20).expect("a folder");
        fs::remove_dir_all(&place).expect("removed");
        spool.put("shop/checkout", 1, &episode(1));
        let status = spool.status();
        assert_eq!((status.episodes, status.lost), (0, 2));
        let problem = status.problem.expect("it is gone");
        assert!(problem.contains("No such file"), "{problem}");
    }
}
