//! Kinds are found by trying, and agree with what the catalogue says of its functions.

use homeostat_sim_faas::{Category, Contention, catalogue};
use homeostat_simppo::Kind;

#[test]
fn the_probe_finds_the_category_of_every_function() {
    for profile in catalogue() {
        let expect = match profile.category {
            Category::Memory => Kind::Memory,
            Category::Io => Kind::Io,
            // Graphs compute: crowding costs them next to nothing.
            Category::Cpu | Category::Data => Kind::Cpu,
        };
        let found = Kind::probe(&profile, Contention::MEASURED).expect("it can be probed");
        assert_eq!(found, expect, "{}", profile.name);
    }
}

#[test]
fn without_contention_nothing_is_sensitive_to_its_neighbours() {
    let free = Contention::MEASURED.scaled(0.0).expect("zero is a factor");
    for profile in catalogue() {
        assert_ne!(Kind::probe(&profile, free).expect("it can be probed"), Kind::Memory);
    }
}
