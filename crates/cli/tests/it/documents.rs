//! What the documents say is there.

use std::path::PathBuf;

use crate::homeostat::{Workplace, files_below, root};

/// Every Markdown page of the project.
fn pages() -> Vec<PathBuf> {
    let own = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        .map(|name| root().join(name));
    let book = root().join("book/src");
    let chapters = files_below(&book)
        .into_iter()
        .filter(|name| name.ends_with(".md"))
        .map(|name| book.join(name));
    own.into_iter().chain(chapters).collect()
}

#[test]
fn every_link_leads_somewhere() {
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let path = page.parent().unwrap().join(target);
            assert!(path.exists(), "{} links to {target}, which does not exist", page.display());
        }
    }
}

#[test]
fn every_chapter_is_in_the_summary_of_the_book() {
    let summary = std::fs::read_to_string(root().join("book/src/SUMMARY.md")).unwrap();
    for page in files_below(&root().join("book/src")) {
        if page.ends_with(".md") && page != "SUMMARY.md" {
            assert!(summary.contains(&format!("({page})")), "{page} is not in SUMMARY.md");
        }
    }
}

/// The commands of the documents parse: each `homeostat ...` line of a code block
/// names a verb and flags that exist.
#[test]
fn every_command_in_the_documents_exists() {
    let place = Workplace::new();
    let mut checked = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let typed = |line: &'_ str| line.trim().trim_start_matches("$ ").to_owned();
        for line in text.lines().map(typed) {
            let Some(line) = line.strip_prefix("homeostat ") else { continue };
            let words: Vec<&str> =
                line.split(" #").next().unwrap_or_default().split_whitespace().collect();
            let is_verb = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
            let verbs: Vec<&str> = words
                .iter()
                .copied()
                .take_while(is_verb)
                .filter(|word| !word.starts_with("--"))
                .take(2)
                .collect();
            // What a program prints may begin with its name as well.
            if verbs.is_empty() {
                continue;
            }
            const GROUPS: [&str; 12] = [
                "bench",
                "calibrate",
                "config",
                "env",
                "gateway",
                "governor",
                "gpu",
                "operator",
                "sim",
                "spans",
                "trace",
                "trajectories",
            ];
            let depth = if GROUPS.contains(&verbs[0]) { 2 } else { 1 };
            let mut command = verbs[..depth.min(verbs.len())].join(" ");
            if verbs[0] == "replay" && words.contains(&"--prometheus") {
                // Another program plays the past of a cluster.
                command.push_str(" --prometheus URL");
            }
            let help = place.call(&format!("{command} --help"));
            let is_absent = [
                "homeostat-gateway",
                "homeostat-governor",
                "homeostat-gpu-profile",
                "homeostat-learn",
                "homeostat-operator",
                "homeostat-trajectories",
            ]
            .iter()
            .any(|program| help.stderr.contains(&format!("{program} is not installed")));
            if is_absent {
                // Only this crate is tested; the whole workspace builds these programs too.
                continue;
            }
            assert_eq!(help.code, Some(0), "{}: homeostat {line}: {}", page.display(), help.stderr);
            for flag in words.iter().filter(|word| word.starts_with("--")) {
                assert!(
                    help.stdout.contains(flag),
                    "{}: homeostat {line}: there is no {flag}",
                    page.display()
                );
            }
            checked += 1;
        }
    }
    assert!(checked > 10, "only {checked} commands were found");
}
