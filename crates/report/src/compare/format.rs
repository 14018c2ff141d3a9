//! Numbers as people write them.

/// `3.12 ± 0.41`, both with the digits that the mean deserves.
pub fn with_interval(mean: f64, interval: Option<f64>) -> String {
    in_digits(mean, interval, digits_of(mean, interval))
}

/// [`with_interval`] with this many digits after the point.
pub(crate) fn in_digits(mean: f64, interval: Option<f64>, digits: usize) -> String {
    match interval {
        Some(half) => format!("{} ± {}", plain(mean, digits), plain(half, digits)),
        None => plain(mean, digits),
    }
}

/// [`with_interval`] with the sign always shown.
pub fn signed(mean: f64, interval: Option<f64>) -> String {
    let text = with_interval(mean.abs(), interval);
    let is_zero =
        !text.split(" ± ").next().unwrap_or_default().contains(|c| ('1'..='9').contains(&c));
    match (is_zero, mean < 0.0) {
        (true, _) => text,
        (_, true) => format!("−{text}"),
        (_, false) => format!("+{text}"),
    }
}

/// `232k`, `−124k ± 13k`: numbers inside sentences; differences with their sign.
pub fn compact(mean: f64, interval: Option<f64>) -> String {
    let (unit, name) = match mean.abs().max(interval.unwrap_or(0.0)) {
        size if size >= 1e6 => (1e6, "M"),
        size if size >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let digits = digits_of(mean / unit, None);
    let text = plain(mean.abs() / unit, digits) + name;
    match interval {
        Some(half) => {
            let sign = if mean < 0.0 { "−" } else { "+" };
            format!("{sign}{text} ± {}{name}", plain(half / unit, digits))
        }
        None if mean < 0.0 => format!("−{text}"),
        None => text,
    }
}

/// Three digits that count, of whichever is larger: a mean near zero with a wide interval
/// needs no more.
pub(crate) fn digits_of(mean: f64, interval: Option<f64>) -> usize {
    let size = mean.abs().max(interval.unwrap_or(0.0));
    match size {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 || size == 0.0 => 2,
        size if size >= 0.1 => 3,
        _ => 4,
    }
}

/// Digits in groups of three from ten thousand on.
fn plain(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    if value.abs() < 10_000.0 || digits > 0 || !value.is_finite() {
        return text;
    }
    let mut grouped = String::new();
    for (place, digit) in text.chars().enumerate() {
        let rest = text.len() - place;
        // A thin space that does not break: numbers stay on one line.
        if place > 0 && rest % 3 == 0 && !grouped.ends_with('-') {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}
