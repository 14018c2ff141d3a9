//! What every page has around its content: style, marks, and a policy that lets nothing in.

use super::key::MARKS;

const STYLE: &str = include_str!("page.css");

/// A page; all texts are markup.
pub(super) struct Document<'a> {
    pub(super) title: &'a str,
    pub(super) header: &'a str,
    pub(super) content: &'a str,
    /// The only script that may run, if there is one.
    pub(super) script: Option<&'a str>,
}

impl Document<'_> {
    /// The page as one file.
    pub(super) fn html(&self) -> String {
        let Self { title, header, content, script } = self;
        let policy = match script {
            Some(_) => "; script-src 'unsafe-inline'",
            None => "",
        };
        let script =
            script.map(|script| format!("<script>\n{script}</script>\n")).unwrap_or_default();
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'{policy}\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{MARKS}\n<main>\n<header>{header}</header>\n{content}</main>\n<footer>Made by homeostat {}; this file needs no network.</footer>\n{script}</body>\n</html>\n",
            env!("CARGO_PKG_VERSION")
        )
    }
}
