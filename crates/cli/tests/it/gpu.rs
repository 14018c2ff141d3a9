//! `homeostat gpu plan` on the printed examples, good and bad.

use crate::homeostat::Workplace;

fn with_examples() -> Workplace {
    let place = Workplace::new();
    for file in ["models", "cluster"] {
        let text = place.done(&format!("gpu settings {file}"));
        place.write(&format!("{file}.toml"), text);
    }
    place
}

#[test]
fn the_printed_examples_are_planned_with_reasons() {
    let place = with_examples();
    let planned = "gpu plan models.toml cluster.toml --save-sensitivity scores.json";
    let called = place.call(&format!("{planned} --output json"));
    let plan = called.json();
    assert!(called.stderr.contains("placing 4 models on 16 devices"), "{}", called.stderr);
    assert_eq!(plan["unplaced"].as_array().map(Vec::len), Some(0), "{plan:#}");
    let number = |part: &str, key: &str| plan[part][key].as_f64().unwrap();
    assert!(number("at_planned_clocks", "attainment_ratio") >= 0.98, "{plan:#}");
    let (planned_w, highest_w) =
        (number("at_planned_clocks", "power_w"), number("at_highest_clocks", "power_w"));
    assert!(0.0 < planned_w && planned_w <= highest_w, "{planned_w} {highest_w}");
    assert!(plan["reasons"].as_array().unwrap().len() > 4, "{plan:#}");
    // The saved sensitivities give the same plan.
    let again = "gpu plan models.toml cluster.toml --sensitivity scores.json --output json";
    assert_eq!(place.done(again), called.stdout);
}

#[test]
fn what_is_wrong_is_one_error_with_the_fix() {
    let place = with_examples();
    let models = String::from_utf8(place.read("models.toml")).unwrap();
    place.write("nan.toml", models.replace("rate = 20.0", "rate = nan"));
    place.write("large.toml", models.replace("\"bert-base\"", "\"bloom-3b\""));
    place.write("none.toml", "");
    place.write("small.toml", "[[devices]]\ntype = \"v100\"\ncount = 0\n");
    place.write("one.toml", "[[devices]]\ntype = \"t4\"\ncount = 1\n");
    let long = models.replace("prompt_tokens = 128 ", "prompt_tokens = 90000 ");
    place.write("long.toml", long);
    place.write("one.csv", "device,operator,flops,bytes,clock_mhz,time_ms\nv100,dot,1,1,900,2\n");
    let check = |arguments: &str, part: &str| {
        let called = place.call(&format!("gpu plan {arguments}"));
        assert!(called.code == Some(2) || called.code == Some(1), "{:?}", called.code);
        let errors = called.stderr.lines().filter(|line| line.starts_with("error:")).count();
        assert_eq!((errors, called.stdout.len()), (1, 0), "{}", called.stderr);
        assert!(called.stderr.contains(part), "{arguments}: {}", called.stderr);
    };
    check("absent.toml cluster.toml", "homeostat gpu settings models");
    check("nan.toml cluster.toml", "models.classifier.rate = NaN");
    check("models.toml none.toml", "add [[devices]]");
    check("models.toml small.toml", "devices.v100.count = 0");
    check("long.toml one.toml", "add devices");
    check("models.toml cluster.toml --attainment 99", "attainment = 99");
    check("models.toml cluster.toml --slo-scale nan", "slo_scale = NaN");
    check("models.toml cluster.toml --sensitivity one.csv", "two clocks or more");
    check("models.toml cluster.toml --sensitivity models.toml", "the file of measurements");
}
