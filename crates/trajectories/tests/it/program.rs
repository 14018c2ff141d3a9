//! The commands.

use std::process::Command;

use crate::setup::{Place, origin, record};

fn call(place: &Place, arguments: &str) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_homeostat-trajectories"))
        .args(arguments.split_whitespace())
        .current_dir(place.path(""))
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn trajectories_are_listed_shown_exported_and_pruned() {
    let place = Place::new();
    let mut store = place.store();
    record(&mut store, &origin("shop", "hpa"), &[0.5, 1.0]);
    record(&mut store, &origin("mail", "hpa+vpa"), &[0.25]);
    let (code, listed, _) = call(&place, "list --store store.db --best 1");
    assert_eq!((code, listed.lines().count()), (Some(0), 2), "{listed}");
    assert!(listed.contains("shop") && listed.contains("0.7500"), "{listed}");
    let (_, recent, _) = call(&place, "list --store store.db --recent 10 --output json");
    let recent: serde_json::Value = serde_json::from_str(&recent).unwrap();
    assert_eq!((&recent["trajectories"], &recent["mean"]), (&2.into(), &0.5.into()));
    let (_, shown, _) = call(&place, "show 1 --store store.db --output json");
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["steps"][1]["reward"], 1.0);
    assert_eq!(shown["schema"]["features"]["id"], "test/2-features-v1");
    let (_, told, _) = call(&place, "export --store store.db --out all.jsonl");
    assert_eq!(told, "exported 3 transitions\n");
    let (_, told, _) = call(&place, "import all.jsonl --store copy.db");
    assert_eq!(told, "committed 3 transitions\n");
    let (_, pruned, _) = call(&place, "prune --store copy.db --older-than 1d --dry-run");
    assert!(pruned.contains("trajectories  2"), "{pruned}");
    call(&place, "prune --store copy.db --older-than 1d --keep-best 1");
    let (_, left, _) = call(&place, "list --store copy.db --workload shop");
    assert_eq!(left.lines().count(), 2, "{left}");
}

#[test]
fn wrong_use_is_told_in_one_line() {
    let place = Place::new();
    drop(place.store());
    for (arguments, code, expect) in [
        ("list --store nothing.db", 1, "there is no trajectory store at nothing.db"),
        ("show 3 --store store.db", 1, "there is no trajectory 3"),
        ("prune --store store.db", 2, "--older-than"),
        ("prune --store store.db --older-than 7", 2, "a time needs a unit: s, m, h or d"),
        ("prune --store store.db --older-than xd", 2, "`x` is not a number"),
        ("export --store store.db --out store.db", 1, "name a file that does not exist"),
        ("import nothing.jsonl --store store.db", 1, "cannot read nothing.jsonl"),
    ] {
        let (found, _, stderr) = call(&place, arguments);
        assert_eq!(found, Some(code), "{arguments}: {stderr}");
        assert!(stderr.contains(expect), "{arguments}: {stderr}");
    }
}

#[test]
fn a_store_takes_a_hundred_thousand_transitions_in_seconds() {
    let place = Place::new();
    let (code, figures, stderr) = call(&place, "bench --transitions 100000 --output json");
    assert_eq!(code, Some(0), "{stderr}");
    let figures: serde_json::Value = serde_json::from_str(&figures).unwrap();
    assert!(figures["transitions_per_s"]["write"].as_f64().unwrap() > 10_000.0, "{figures}");
    assert!(figures["bytes_per_transition"].as_f64().unwrap() < 200.0, "{figures}");
}
