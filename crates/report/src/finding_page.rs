//! The page of one experiment: what was asked, what came out, and how to read it.

use std::fmt::Write;
use std::path::Path;

use homeostat_lab::{Result, write_atomically};

use super::document::Document;
use super::finding_table::finding_table;
use super::markup::{escape, section};
use super::picture::picture;
use super::played::{quoted, seed_list};
use crate::Finding;

/// Writes a self-contained page about an experiment, as a whole or not at all.
pub fn write_finding(finding: &Finding, out: &Path) -> Result<()> {
    write_atomically(out, page(finding).as_bytes())
}

fn page(finding: &Finding) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in finding.pictures.iter().flat_map(|picture| &picture.lines) {
        if !lines.contains(&line.name.as_str()) {
            lines.push(&line.name);
        }
    }
    let mut content = warnings(finding);
    for (place, shown) in finding.pictures.iter().enumerate() {
        if let Some(drawn) = picture(shown, &lines) {
            content += &titled(&format!("picture-{place}"), &shown.title, &drawn);
        }
    }
    for (place, table) in finding.tables.iter().enumerate() {
        let id = format!("table-{place}");
        content += &titled(&id, &table.title, &finding_table(table, &lines));
    }
    if !finding.notes.is_empty() {
        let notes = finding.notes.iter().map(|note| format!("<p>{}</p>", escape(note)));
        let notes = format!("<div class=\"notes\">{}</div>", notes.collect::<String>());
        content += &section("reading", "How to read it", "", &notes);
    }
    content += &section(
        "again",
        "How to repeat it",
        "The same version, settings and seeds give the same figures, except times.",
        &format!("<pre>{}</pre>", escape(&command(finding))),
    );
    let name = escape(&finding.name);
    let title = escape(&sentence(&finding.title));
    let header = format!(
        "<p class=\"name\">{name}</p><h1>{title}</h1><p class=\"facts\">{}</p>",
        facts(finding)
    );
    Document {
        title: &format!("{title} – {name}"),
        header: &header,
        content: &content,
        script: None,
    }
    .html()
}

/// One line under the title.
fn facts(finding: &Finding) -> String {
    let seeds = seed_list(&finding.seeds);
    match finding.seeds.len() {
        0 => "No seeds".to_owned(),
        1 => format!("Seed {seeds}, so no intervals"),
        2 => format!("2 seeds, {seeds} · means, and the smallest and the largest"),
        count => format!("{count} seeds, {seeds} · means ± 95&nbsp;% intervals over seeds"),
    }
}

fn warnings(finding: &Finding) -> String {
    if !finding.is_quick {
        return String::new();
    }
    "<p class=\"warning quick\"><strong>A quick test</strong>, with fewer episodes and sizes than \
     the experiment has: do not quote these figures.</p>"
        .to_owned()
}

fn command(finding: &Finding) -> String {
    let mut command = format!("homeostat reproduce {}", quoted(&finding.name));
    if finding.is_quick {
        command.push_str(" --quick");
    }
    if !finding.seeds.is_empty() {
        let _ = write!(command, " --seeds {}", seed_list(&finding.seeds));
    }
    command
}

/// A section; what follows the first semicolon of its title stands below it.
fn titled(id: &str, title: &str, content: &str) -> String {
    let (heading, words) = title.split_once("; ").unwrap_or((title, ""));
    let words = match words {
        "" => String::new(),
        words => sentence(words) + ".",
    };
    section(id, &escape(&sentence(heading)), &escape(&words), content)
}

/// The same with a capital first letter; names such as `simppo+` keep theirs.
fn sentence(text: &str) -> String {
    let text = text.trim();
    let first = text.split([' ', ',', ':']).next().unwrap_or_default();
    let is_word = first.chars().all(char::is_alphabetic);
    let mut letters = text.chars();
    match letters.next() {
        Some(letter) if is_word => letter.to_uppercase().chain(letters).collect(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cell, Line, Picture, Table};

    #[test]
    fn a_page_holds_everything_and_no_text_is_markup() {
        let bad = "<script>alert(1)</script>";
        let finding = Finding {
            name: format!("simppo/{bad}"),
            title: format!("what was asked {bad}"),
            seeds: vec![1, 2, 3],
            is_quick: true,
            tables: vec![Table {
                title: format!("together {bad}; paper: {bad}"),
                columns: vec![bad.to_owned()],
                rows: vec![vec![Cell::Text(bad.to_owned())]],
            }],
            pictures: vec![Picture {
                title: bad.to_owned(),
                x: bad.to_owned(),
                y: bad.to_owned(),
                marks: vec![(1.0, bad.to_owned())],
                lines: vec![Line {
                    name: bad.to_owned(),
                    points: vec![(0.0, 1.0, 0.5), (2.0, 2.0, 0.5)],
                }],
            }],
            notes: vec![bad.to_owned()],
            facts: serde_json::Map::new(),
        };
        let page = page(&finding);
        assert!(!page.contains("<script"), "{page}");
        for part in [
            "<h1>What was asked &lt;script&gt;",
            "3 seeds, 1..3",
            "A quick test",
            "<h2>Together &lt;script&gt;",
            "<p class=\"lead\">Paper: &lt;script&gt;",
            "How to read it",
            "--quick --seeds 1..3</pre>",
        ] {
            assert!(page.contains(part), "{part} is missing: {page}");
        }
    }

    #[test]
    fn headings_begin_with_a_capital_and_names_do_not() {
        let check = |text: &str, expect: &str| assert_eq!(sentence(text), expect);
        check("at 48 % load", "At 48 % load");
        check("paper: less", "Paper: less");
        check("simppo+ with one part taken away", "simppo+ with one part taken away");
        check("s-rl, alone", "s-rl, alone");
        check("p99 over that of s-rl", "p99 over that of s-rl");
        check("", "");
    }
}
