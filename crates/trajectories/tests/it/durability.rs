//! `kill -9` at any moment loses at most the open transaction.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use homeostat_core::SeedTree;
use homeostat_trajectories::{Filter, Record, TrajectoryStore};
use rusqlite::Connection;

use crate::setup::{Place, origin, record, transition, transitions};

const BATCH: u64 = 50;

#[test]
fn a_killed_writer_loses_at_most_its_open_transaction() {
    let place = Place::new();
    let path = place.path("store.db");
    let mut rng = SeedTree::new(1).stream("kills");
    let mut before = 0;
    for round in 0..12 {
        let mut writer = Command::new(env!("CARGO_BIN_EXE_homeostat-trajectories"))
            .args(["import", "-", "--batch", &BATCH.to_string(), "--store"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = writer.stdin.take().unwrap();
        // Feeds until the process is gone.
        let feeding = std::thread::spawn(move || {
            let line = |record| serde_json::to_string(&record).unwrap() + "\n";
            let begin = line(Record::Trajectory(origin(&format!("round/{round}"), "hpa")));
            let mut text = begin;
            for step in 0.. {
                if input.write_all(text.as_bytes()).is_err() {
                    break;
                }
                text = line(Record::Transition(transition(step, step as f64)));
            }
        });
        let mut output = BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut told = 0;
        for _ in 0..1 + rng.below(20) {
            let line = output.next().unwrap().unwrap();
            told = line.split(' ').nth(1).unwrap().parse().unwrap();
        }
        std::thread::sleep(std::time::Duration::from_micros(rng.below(3000) as u64));
        writer.kill().unwrap();
        writer.wait().unwrap();
        feeding.join().unwrap();

        let store = TrajectoryStore::open(&path).unwrap();
        let all = store.list(&Filter::default()).unwrap();
        let last = all.last().unwrap();
        assert_eq!(all.len(), round + 1);
        assert!(last.transitions >= told, "{} of {told} are left", last.transitions);
        assert_eq!(last.transitions % BATCH, 0, "a transaction is stored as a whole");
        // What the trajectory says of itself is what is stored.
        let stored = transitions(&store, last.id);
        assert_eq!(stored.len() as u64, last.transitions);
        assert!(stored.iter().enumerate().all(|(step, one)| one.reward == step as f64));
        let total: u64 = all.iter().map(|one| one.transitions).sum();
        assert_eq!(total, before + last.transitions, "earlier rounds are as they were");
        before = total;
    }
    let check = Connection::open(&path).unwrap();
    let verdict: String = check.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}

#[test]
fn readers_see_whole_transactions_while_another_process_writes() {
    let place = Place::new();
    let mut store = place.store();
    let reader = TrajectoryStore::open(&place.path("store.db")).unwrap();
    let first = record(&mut store, &origin("shop", "hpa"), &[1.0, 2.0]);
    let mut writer = store.write().unwrap();
    let open = writer.begin(&origin("shop", "hpa")).unwrap();
    writer.append(open, &transition(0, 1.0)).unwrap();
    let seen = reader.list(&Filter::default()).unwrap();
    assert_eq!(seen.iter().map(|one| one.id).collect::<Vec<_>>(), [first]);
    assert_eq!(transitions(&reader, first).len(), 2);
    writer.commit().unwrap();
    assert_eq!(reader.list(&Filter::default()).unwrap().len(), 2);
}

#[test]
fn a_transaction_that_is_not_committed_is_not_stored() {
    let place = Place::new();
    let mut store = place.store();
    let mut writer = store.write().unwrap();
    writer.begin(&origin("shop", "hpa")).unwrap();
    drop(writer);
    assert!(store.list(&Filter::default()).unwrap().is_empty());
}
