//! Text, JSON and tables for a terminal.

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

/// Escapes control characters in untrusted text, such as names and answers of servers.
pub fn plain(text: &str) -> String {
    let escape = |c: char| {
        if is_control(c) { c.escape_default().collect::<String>() } else { c.to_string() }
    };
    text.chars().map(escape).collect()
}

/// JSON for programs, in which control characters are escaped as well. JSON itself allows those above
/// 127 and the ones that change the direction of text.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    let text = serde_json::to_string_pretty(value)?;
    let escape = |c: char| {
        // Line breaks occur only between values; inside strings they are already escaped.
        if is_control(c) && c != '\n' { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() }
    };
    Ok(text.chars().map(escape).collect())
}

/// Control characters, line breaks, and characters that are invisible or change the direction of text.
fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' | '\u{200b}'..='\u{200f}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}')
}

/// The time since `at` in one unit: `8s`, `5m`, `3h`, `2d`.
pub fn age(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - at.as_second();
    match seconds {
        ..0 => format!("{}s ahead", -seconds),
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Aligned columns with two spaces between them.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(plain("a\u{1b}[31mred\nb"), "a\\u{1b}[31mred\\nb");
        assert_eq!(plain("größe 3 €"), "größe 3 €");
        assert_eq!(plain("\u{9b}31m\u{202e}\u{2028}"), "\\u{9b}31m\\u{202e}\\u{2028}");
    }

    #[test]
    fn json_without_control_characters_has_the_same_value() {
        let text = "a\u{1b}[31m\u{9b}2J\u{202e}\n\u{7f}€\"";
        let written = json(&[text]).expect("written");
        assert!(written.chars().all(|c| c == '\n' || !is_control(c)), "{written:?}");
        let read: Vec<String> = serde_json::from_str(&written).expect("it is JSON");
        assert_eq!(read, [text]);
    }

    #[test]
    fn ages_are_short() {
        let at = |seconds: i64| Timestamp::from_second(1000 + seconds).expect("a time");
        let words: Vec<_> =
            [0, 119, 120, 7200, 200_000].iter().map(|s| age(at(0), at(*s))).collect();
        assert_eq!(words, ["0s", "119s", "2m", "2h", "2d"]);
        assert_eq!(age(at(5), at(0)), "5s ahead");
    }
}
