//! The program as it is called, with a card and without.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::process::{Command, Output};

use homeostat_test_skip::skip;

fn profile(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_homeostat-gpu-profile")).args(arguments).output().unwrap()
}

fn has_driver() -> bool {
    // NVIDIA's driver makes this file when it is loaded.
    std::path::Path::new("/dev/nvidiactl").exists()
}

#[test]
fn without_a_card_there_is_one_error_with_the_fix() {
    if has_driver() {
        return skip("this machine has a GPU");
    }
    let output = profile(&[]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("nvidia-smi"), "{text}");
}

#[test]
fn with_a_card_it_measures_at_the_clocks_it_has() {
    if !has_driver() {
        return skip("there is no GPU on this machine");
    }
    let output = profile(&["--output", "json", "--seconds", "0.05"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(value["measurements"].as_array().unwrap().len() >= 10, "{value}");
    assert!(value["flops"].as_f64().unwrap() > 1e12, "{value}");
    assert!(value["memory_bytes_per_s"].as_f64().unwrap() > 1e11, "{value}");
}

#[test]
fn wrong_arguments_are_named() {
    for wrong in
        [["--seconds", "nan"], ["--seconds", "-1"], ["--device", "-1"], ["--output", "xml"]]
    {
        let output = profile(&wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(wrong[0]), "{text}");
    }
}
