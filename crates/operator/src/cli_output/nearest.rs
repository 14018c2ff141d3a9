//! Suggestions for misspelt names.

/// Up to three names with a small edit distance to a name, or that contain it; nearest first.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let max = (name.chars().count() / 3).max(2);
    let mut near: Vec<(usize, &str)> = known
        .filter_map(|other| {
            let away = distance(name, other);
            let is_part = !name.is_empty() && (other.contains(name) || name.contains(other));
            (away <= max || is_part).then_some((away, other))
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(3).map(|(_, name)| name).collect()
}

/// The edit distance: insertions, deletions and substitutions.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (place, letter) in from.chars().enumerate() {
        let mut corner = row[0];
        row[0] = place + 1;
        for (column, other) in to.iter().enumerate() {
            let changed = corner + usize::from(letter != *other);
            corner = row[column + 1];
            row[column + 1] = changed.min(corner + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_find_the_right_ones() {
        let known = ["checkout", "checkout-api", "cart", "payments"];
        let near = |name: &str| nearest(name, known.into_iter());
        assert_eq!(near("chekout"), ["checkout"]);
        assert_eq!(near("check"), ["checkout", "checkout-api"]);
        assert_eq!(near("crat"), ["cart"]);
        assert!(near("zookeeper").is_empty());
    }
}
