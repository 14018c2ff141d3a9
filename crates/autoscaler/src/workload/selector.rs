//! Label selectors as the scale subresource writes them.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::{Expression, Selector};

/// A selector that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown expression {part:?} in the selector {selector:?}")]
pub struct SelectorError {
    selector: String,
    part: String,
}

/// Reads a selector such as `app=checkout,tier in (web,api),!canary`.
pub fn read_selector(text: &str) -> Result<Selector, SelectorError> {
    let refused =
        |part: &str| SelectorError { selector: text.to_owned(), part: part.trim().to_owned() };
    let mut selector = Selector::default();
    for part in parts(text) {
        let expression = read_part(part).ok_or_else(|| refused(part))?;
        selector.extend([expression]);
    }
    // A selector that matches everything would claim every pod.
    if selector.selects_all() { Err(refused(text)) } else { Ok(selector) }
}

/// Whether a selector matches labels.
pub fn selects(selector: &Selector, labels: Option<&BTreeMap<String, String>>) -> bool {
    use kube::core::SelectorExt;
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    selector.matches(labels.unwrap_or(&NONE))
}

/// Splits at commas outside parentheses.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

fn read_part(part: &str) -> Option<Expression> {
    let part = part.trim();
    let label = |text: &str| {
        let text = text.trim();
        let is_label = !text.is_empty()
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        is_label.then(|| text.to_owned())
    };
    // A value may be empty, a key may not.
    let value = |text: &str| if text.trim().is_empty() { Some(String::new()) } else { label(text) };
    let values = |text: &str| {
        let inside = text.trim().strip_prefix('(')?.strip_suffix(')')?;
        inside.split(',').map(value).collect::<Option<BTreeSet<_>>>()
    };
    if let Some(key) = part.strip_prefix('!') {
        return Some(Expression::DoesNotExist(label(key)?));
    }
    if let Some((key, given)) = part.split_once(" notin ") {
        return Some(Expression::NotIn(label(key)?, values(given)?));
    }
    if let Some((key, given)) = part.split_once(" in ") {
        return Some(Expression::In(label(key)?, values(given)?));
    }
    if let Some((key, given)) = part.split_once("!=") {
        return Some(Expression::NotEqual(label(key)?, value(given)?));
    }
    if let Some((key, given)) = part.split_once('=') {
        let given = given.strip_prefix('=').unwrap_or(given);
        return Some(Expression::Equal(label(key)?, value(given)?));
    }
    Some(Expression::Exists(label(part)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(selector: &str, labels: &[(&str, &str)], expect: bool) {
        let selector = read_selector(selector).expect("it can be read");
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        assert_eq!(selects(&selector, Some(&labels)), expect, "{selector}");
    }

    #[test]
    fn every_form_that_kubernetes_writes_is_understood() {
        check("app=checkout", &[("app", "checkout"), ("x", "y")], true);
        check("app==checkout", &[("app", "cart")], false);
        check("app=checkout,tier in (web,api)", &[("app", "checkout"), ("tier", "api")], true);
        check("tier notin (web, api)", &[("tier", "api")], false);
        check("!canary,app", &[("app", "a")], true);
        check("!canary,app", &[("app", "a"), ("canary", "")], false);
        check("app!=cart", &[("app", "checkout")], true);
        check("example.org/part=a-b_c.d", &[("example.org/part", "a-b_c.d")], true);
    }

    #[test]
    fn unknown_expressions_are_refused() {
        for text in ["", "app=checkout,", "app in web", "a b c", "app=<x>", "=x", "app > 3"] {
            assert!(read_selector(text).is_err(), "{text:?}");
        }
    }
}
