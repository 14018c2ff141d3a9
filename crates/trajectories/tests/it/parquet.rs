//! A Parquet file, read by pyarrow.

use std::fs::File;
use std::process::Command;

use homeostat_test_skip::skip;
use homeostat_trajectories::{Error, Filter, Origin, Transition, export_parquet};

use crate::setup::{Place, origin, record, schema, transition};

const READ: &str = "
import json, sys
import pyarrow.parquet as parquet
file = parquet.ParquetFile(sys.argv[1])
table = file.read()
schema = json.loads(file.schema_arrow.metadata[b'homeostat.schema'])
print(json.dumps({
    'names': table.column_names,
    'types': [str(kind) for kind in table.schema.types],
    'rows': table.to_pylist(),
    'features': schema['features']['id'],
}))
";

#[test]
fn another_reader_finds_every_number_in_a_column_of_its_name() {
    let python = std::env::var("HOMEOSTAT_TEST_PYTHON").ok();
    let has_pyarrow = |python: &String| {
        let tried = Command::new(python).args(["-c", "import pyarrow"]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    let Some(python) = python.filter(has_pyarrow) else {
        return skip("no pyarrow; set HOMEOSTAT_TEST_PYTHON to a Python that has it");
    };
    let place = Place::new();
    let mut store = place.store();
    record(&mut store, &origin("shop/café, north", "hpa"), &[0.5, 0.1]);
    let mut writer = store.write().unwrap();
    let open = writer.begin(&origin("shop", "hpa+vpa")).unwrap();
    writer.append(open, &Transition { probability: None, ..transition(7, -1e-300) }).unwrap();
    writer.commit().unwrap();
    let path = place.path("all.parquet");
    let count =
        export_parquet(&mut store, &Filter::default(), &mut File::create(&path).unwrap()).unwrap();
    assert_eq!(count, 3);

    let read = Command::new(python).args(["-c", READ]).arg(&path).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let read: serde_json::Value = serde_json::from_slice(&read.stdout).unwrap();
    let names = serde_json::json!([
        "trajectory",
        "workload",
        "policy",
        "step",
        "at_ms",
        "f0",
        "f1",
        "action step",
        "reward",
        "probability"
    ]);
    assert_eq!(read["names"], names);
    let types = serde_json::json!([
        "int64", "string", "string", "int32", "int64", "float", "float", "float", "double",
        "double"
    ]);
    assert_eq!(read["types"], types);
    assert_eq!(read["features"], "test/2-features-v1");
    let row = |row: usize, name: &str| read["rows"][row][name].clone();
    assert_eq!(row(0, "workload"), "shop/café, north");
    assert_eq!((row(1, "step"), row(1, "reward")), (1.into(), 0.1.into()));
    assert_eq!(row(1, "f0"), f64::from(0.1_f32));
    assert_eq!((row(1, "probability"), row(1, "action step")), (0.5.into(), 1.0.into()));
    assert_eq!(
        (row(2, "trajectory"), row(2, "at_ms")),
        (open.to_string().parse::<i64>().unwrap().into(), 7.into())
    );
    assert_eq!(
        (row(2, "reward"), row(2, "probability")),
        ((-1e-300).into(), serde_json::Value::Null)
    );
}

#[test]
fn a_table_has_one_schema_and_some_columns() {
    let place = Place::new();
    let mut store = place.store();
    let nothing = export_parquet(&mut store, &Filter::default(), &mut Vec::new()).unwrap_err();
    assert!(nothing.to_string().contains("no trajectory is selected"), "{nothing}");
    record(&mut store, &origin("shop", "hpa"), &[0.5]);
    let wider = Origin { schema: schema(3), ..origin("shop", "hpa") };
    let mut writer = store.write().unwrap();
    writer.begin(&wider).unwrap();
    writer.commit().unwrap();
    let refused = export_parquet(&mut store, &Filter::default(), &mut Vec::new()).unwrap_err();
    assert!(matches!(refused, Error::SeveralSchemas { .. }), "{refused}");
}
