//! The checked-in protocol code is what the protocol files make.

use std::path::Path;

#[test]
fn the_protocol_code_is_up_to_date() {
    check("coordination", "v2");
    check("environment", "v1");
}

fn check(protocol: &str, version: &str) {
    // Cargo runs tests in the folder of their package.
    let root = Path::new(".");
    let made = tempfile::tempdir().unwrap();
    let file = format!("{protocol}.proto");
    let descriptors = protox::compile([&file], [root.join("proto")]).unwrap();
    tonic_prost_build::configure().out_dir(made.path()).compile_fds(descriptors).unwrap();
    let name = format!("homeostat.{protocol}.{version}.rs");
    let new = std::fs::read_to_string(made.path().join(&name)).unwrap();
    let kept = root.join("src/generated").join(&name);
    if std::env::var_os("HOMEOSTAT_TEST_WRITE").is_some() {
        std::fs::write(&kept, &new).unwrap();
    }
    assert!(
        std::fs::read_to_string(&kept).unwrap_or_default() == new,
        "proto/{file} has changed: run this test once with HOMEOSTAT_TEST_WRITE=1"
    );
}
