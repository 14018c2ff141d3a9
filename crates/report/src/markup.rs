//! Text that may stand in a page.

use std::fmt::Write;

/// Text from anywhere as HTML or SVG text, or as an attribute in double quotes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Other control characters have no place in HTML, escaped or not.
            letter if letter.is_control() && letter != '\n' && letter != '\t' => {
                escaped.push('\u{fffd}');
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// The first `most` letters, with a sign that there were more.
pub(super) fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A section with its heading, the words under it, and its content.
pub(super) fn section(id: &str, heading: &str, words: &str, content: &str) -> String {
    let mut html = format!("<section id=\"{id}\"><h2>{heading}</h2>");
    if !words.is_empty() {
        let _ = write!(html, "<p class=\"lead\">{words}</p>");
    }
    html + content + "</section>\n"
}

/// A table that scrolls inside its own frame. Cells are markup; the first is a row's heading.
pub(super) fn table(caption: &str, columns: &[String], rows: &[Vec<String>]) -> String {
    let mut html = format!(
        "<div class=\"frame\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table><caption>{caption}</caption><thead><tr>"
    );
    for column in columns {
        let _ = write!(html, "<th scope=\"col\">{column}</th>");
    }
    html.push_str("</tr></thead><tbody>");
    for row in rows {
        html.push_str("<tr>");
        for (place, cell) in row.iter().enumerate() {
            let _ = match place {
                0 => write!(html, "<th scope=\"row\">{cell}</th>"),
                _ => write!(html, "<td>{cell}</td>"),
            };
        }
        html.push_str("</tr>");
    }
    html + "</tbody></table></div>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_html_understands_survives() {
        assert_eq!(
            escape("<script>alert('x')</script> & \"y\"\u{0}"),
            "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;y&quot;\u{fffd}"
        );
        assert_eq!(escape("fluctuating, 4 µs – 日本"), "fluctuating, 4 µs – 日本");
    }

    #[test]
    fn long_names_end_in_dots() {
        assert_eq!(shorten("image-resize", 12), "image-resize");
        assert_eq!(shorten("image-resizer", 12), "image-resiz…");
    }
}
