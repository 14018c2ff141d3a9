use homeostat_trajectories::{
    Error, Filter, Origin, TrajectoryStore, Transition, export_csv, export_records, import_records,
};
use proptest::prelude::*;

use crate::setup::{Place, origin, record, schema, transition, transitions};

fn exported(store: &mut TrajectoryStore) -> String {
    let mut text = Vec::new();
    export_records(store, &Filter::default(), &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn import(store: &mut TrajectoryStore, text: &str, batch: u64) -> Result<u64, Error> {
    import_records(store, &mut text.as_bytes(), batch, &mut |_| {})
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_exported_and_imported_is_the_same(
        rewards in prop::collection::vec(prop::collection::vec(-1e9f64..1e9, 0..30), 1..6),
        batch in 1u64..20,
    ) {
        let place = Place::new();
        let mut store = place.store();
        for (number, rewards) in rewards.iter().enumerate() {
            record(&mut store, &origin(&format!("\"shop\"\n{number}"), "hpa"), rewards);
        }
        // The last one is open.
        let mut writer = store.write().unwrap();
        let open = writer.begin(&origin("open", "random")).unwrap();
        let unknown = Transition { probability: None, ..transition(7, 0.1) };
        writer.append(open, &unknown).unwrap();
        writer.commit().unwrap();

        let text = exported(&mut store);
        let mut copy = TrajectoryStore::open_or_create(&place.path("copy.db")).unwrap();
        let count = import(&mut copy, &text, batch).unwrap();
        prop_assert_eq!(count as usize, 1 + rewards.iter().map(Vec::len).sum::<usize>());
        prop_assert_eq!(exported(&mut copy), text);
        prop_assert_eq!(transitions(&copy, open), vec![unknown]);
    }
}

#[test]
fn a_line_that_cannot_be_read_is_named_and_earlier_transactions_stay() {
    let place = Place::new();
    let mut store = place.store();
    record(&mut store, &origin("shop", "hpa"), &[1.0, 2.0, 3.0]);
    let text = exported(&mut store);
    let mut lines: Vec<&str> = text.lines().collect();
    lines[3] = "{\"transition\": {\"at_ms\": 1}}";
    let mut copy = TrajectoryStore::open_or_create(&place.path("copy.db")).unwrap();
    let refused = import(&mut copy, &lines.join("\n"), 1).unwrap_err().to_string();
    assert!(refused.starts_with("line 4: missing field `observation`"), "{refused}");
    let kept = &copy.list(&Filter::default()).unwrap()[0];
    assert_eq!((kept.transitions, kept.end), (2, None));
    let orphan = import(&mut copy, lines[1], 1).unwrap_err().to_string();
    assert_eq!(orphan, "line 1: no trajectory has begun");
}

#[test]
fn a_table_has_the_names_of_features_and_one_schema() {
    let place = Place::new();
    let mut store = place.store();
    record(&mut store, &origin("shop, north", "hpa"), &[0.5]);
    let table = |store: &mut TrajectoryStore| {
        let mut text = Vec::new();
        export_csv(store, &Filter::default(), &mut text).map(|_| String::from_utf8(text).unwrap())
    };
    assert_eq!(
        table(&mut store).unwrap(),
        "trajectory,workload,policy,step,at_ms,f0,f1,action step,reward,probability\n\
         1,\"shop, north\",hpa,0,0,0,0.25,1,0.5,0.5\n"
    );
    let wider = Origin { schema: schema(3), ..origin("shop", "hpa") };
    let mut writer = store.write().unwrap();
    writer.begin(&wider).unwrap();
    writer.commit().unwrap();
    let refused = table(&mut store).unwrap_err().to_string();
    assert!(refused.starts_with("the trajectories have different schemas (test/2"), "{refused}");
}
