//! What a report shows beside its runs: results of the same command that are no runs.

use super::finding_table::finding_table;
use super::markup::{escape, section};
use super::picture::picture;
use crate::{Picture, Table};

/// More results of the command that wrote the runs.
#[derive(Debug, Clone, Default)]
pub struct Additions {
    /// Curves to draw.
    pub pictures: Vec<Picture>,
    /// Tables.
    pub tables: Vec<Table>,
    /// The command that does all of it again.
    pub command: Option<String>,
}

impl Additions {
    /// A section for each; lines and rows of one name look the same everywhere.
    pub(super) fn sections(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for line in self.pictures.iter().flat_map(|picture| &picture.lines) {
            if !names.contains(&line.name.as_str()) {
                names.push(&line.name);
            }
        }
        let mut html = String::new();
        for (place, shown) in self.pictures.iter().enumerate() {
            if let Some(drawn) = picture(shown, &names) {
                html += &section(&format!("picture-{place}"), &escape(&shown.title), "", &drawn);
            }
        }
        for (place, table) in self.tables.iter().enumerate() {
            let drawn = finding_table(table, &names);
            html += &section(&format!("table-{place}"), &escape(&table.title), "", &drawn);
        }
        html
    }
}
