//! What a component adds by itself: its excess without that of its callees.

use std::collections::BTreeMap;

/// From the excess of each component (added seconds or failed requests, all callees included) and
/// its callees, the excess that callees do not explain; never negative. As self time is on a
/// critical path, this is the part that the component itself is responsible for.
pub fn exclusive_excess(
    excess: &BTreeMap<String, f64>,
    callees: &BTreeMap<String, Vec<String>>,
) -> BTreeMap<String, f64> {
    let own = |(name, total): (&String, &f64)| {
        let explained: f64 = callees
            .get(name)
            .into_iter()
            .flatten()
            .filter(|callee| *callee != name)
            .filter_map(|callee| excess.get(callee))
            .map(|excess| excess.max(0.0))
            .sum();
        (name.clone(), (total - explained).max(0.0))
    };
    excess.iter().map(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_not_blamed_for_their_callees() {
        let excess = [("site", 10.0), ("search", 10.0), ("table", 1.0), ("pay", -3.0)];
        let excess = excess.map(|(name, value)| (name.to_owned(), value)).into();
        let callees = [("site", vec!["search", "pay"]), ("search", vec!["table", "search"])];
        let callees = callees
            .map(|(name, to)| (name.to_owned(), to.into_iter().map(str::to_owned).collect()))
            .into();
        let own: Vec<f64> = exclusive_excess(&excess, &callees).into_values().collect();
        assert_eq!(own, [0.0, 9.0, 0.0, 1.0], "pay, search, site, table");
    }
}
