//! A file that is no store gives one clear error and stays as it was.

use std::fs;

use homeostat_trajectories::{Error, TrajectoryStore};
use rusqlite::Connection;

use crate::setup::{Place, origin, record};

fn refused(place: &Place, expect: &str) -> Error {
    let path = place.path("store.db");
    let before = fs::read(&path).unwrap_or_default();
    let error = TrajectoryStore::open_or_create(&path).unwrap_err();
    assert!(error.to_string().contains(expect), "{error}");
    assert_eq!(fs::read(&path).unwrap_or_default(), before, "the file has changed");
    let again = TrajectoryStore::open(&path).unwrap_err();
    assert_eq!(again.to_string(), error.to_string());
    error
}

#[test]
fn a_file_that_is_no_database_is_left_alone() {
    let place = Place::new();
    fs::write(place.path("store.db"), "minutes of a meeting\n".repeat(400)).unwrap();
    refused(&place, "is no trajectory store: it is no SQLite database");
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let place = Place::new();
    let other = Connection::open(place.path("store.db")).unwrap();
    other.execute_batch("CREATE TABLE songs (title TEXT); INSERT INTO songs VALUES ('x')").unwrap();
    drop(other);
    refused(&place, "it is a database of another program");
}

#[test]
fn a_store_of_another_version_is_refused() {
    let place = Place::new();
    drop(place.store());
    let store = Connection::open(place.path("store.db")).unwrap();
    store.pragma_update(None, "user_version", 7).unwrap();
    // Its log becomes part of the file.
    store.pragma_update(None, "journal_mode", "delete").unwrap();
    drop(store);
    let error = refused(&place, "has version 7 of the store, and this program reads version 1");
    assert!(matches!(error, Error::OtherVersion { found: 7, expected: 1, .. }), "{error}");
}

#[test]
fn a_truncated_store_is_damaged() {
    let place = Place::new();
    let mut store = place.store();
    record(&mut store, &origin("shop", "hpa"), &[1.0; 2000]);
    drop(store);
    let path = place.path("store.db");
    let length = fs::metadata(&path).unwrap().len();
    fs::File::options().write(true).open(&path).unwrap().set_len(length / 2).unwrap();
    let error = refused(&place, "is damaged: database disk image is malformed");
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
}

#[test]
fn a_store_with_overwritten_pages_is_damaged_where_it_is_read() {
    let place = Place::new();
    let mut store = place.store();
    let id = record(&mut store, &origin("shop", "hpa"), &[1.0; 2000]);
    drop(store);
    let path = place.path("store.db");
    let mut bytes = fs::read(&path).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    let store = TrajectoryStore::open(&path).unwrap();
    let read = store.transitions(id, &mut |_| Ok(()));
    assert!(matches!(read.unwrap_err(), Error::Damaged { .. }));
}

#[test]
fn a_missing_store_is_made_only_for_writing() {
    let place = Place::new();
    let missing = TrajectoryStore::open(&place.path("store.db")).unwrap_err();
    assert!(matches!(missing, Error::Missing { .. }), "{missing}");
    assert!(!place.path("store.db").exists());
    let nowhere = TrajectoryStore::open_or_create(&place.path("no/such/directory.db")).unwrap_err();
    assert!(nowhere.to_string().contains("unable to open database file"), "{nowhere}");
}

#[test]
fn a_store_whose_creation_was_cut_off_is_finished() {
    let place = Place::new();
    fs::write(place.path("store.db"), "").unwrap();
    let read = TrajectoryStore::open(&place.path("store.db")).unwrap_err();
    assert!(read.to_string().contains("it is empty"), "{read}");
    let mut store = place.store();
    record(&mut store, &origin("shop", "hpa"), &[1.0]);
}
