//! Task types are found by trying, and agree with what the catalogue says of its functions.

use homeostat_env::TaskType;
use homeostat_sim_faas::{Category, Contention, catalogue, probe_task_type};

#[test]
fn the_probe_finds_the_category_of_every_function() {
    for profile in catalogue() {
        let expect = match profile.category {
            Category::Memory => TaskType::Memory,
            Category::Io => TaskType::Io,
            // Graphs compute: contention costs them next to nothing.
            Category::Cpu | Category::Data => TaskType::Cpu,
        };
        let found = probe_task_type(&profile, Contention::MEASURED).expect("it can be probed");
        assert_eq!(found, expect, "{}", profile.name);
    }
}

#[test]
fn without_contention_nothing_is_sensitive_to_its_neighbours() {
    let free = Contention::MEASURED.scaled(0.0).expect("zero is a factor");
    for profile in catalogue() {
        assert_ne!(probe_task_type(&profile, free).expect("it can be probed"), TaskType::Memory);
    }
}
