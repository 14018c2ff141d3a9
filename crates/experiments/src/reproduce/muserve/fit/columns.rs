//! Tables of published measurements, by the names of their columns.

use std::path::Path;

use homeostat_lab::{Result, read_packed};

/// A table in memory.
#[derive(Debug, Clone)]
pub(super) struct Columns {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Columns {
    pub(super) fn read(path: &Path) -> Result<Self> {
        read_packed(path, &["csv"], &mut |_| {}, |file| {
            let mut text = String::new();
            file.read_to_string(&mut text).map_err(|error| error.to_string())?;
            Self::parse(&text)
        })
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let fields = |line: &str| line.split(',').map(|field| field.trim().to_owned()).collect();
        let header: Vec<String> = lines.next().map(fields).unwrap_or_default();
        let mut rows = Vec::new();
        for (index, line) in lines.enumerate().filter(|(_, line)| !line.is_empty()) {
            let row: Vec<String> = fields(line);
            if row.len() != header.len() {
                let (found, expected) = (row.len(), header.len());
                return Err(format!("line {} has {found} fields instead of {expected}", index + 2));
            }
            rows.push(row);
        }
        if rows.is_empty() {
            return Err("it has no rows".to_owned());
        }
        Ok(Self { header, rows })
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The place of a column.
    pub(super) fn find(&self, name: &str) -> Result<usize, String> {
        let found = self.header.iter().position(|column| column == name);
        found.ok_or_else(|| format!("it has no column `{name}`"))
    }

    pub(super) fn text(&self, row: usize, column: usize) -> &str {
        &self.rows[row][column]
    }

    /// A number; none where the field is empty.
    pub(super) fn number(&self, row: usize, column: usize) -> Result<Option<f64>, String> {
        let text = self.text(row, column);
        if text.is_empty() {
            return Ok(None);
        }
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        let name = &self.header[column];
        let broken = || format!("line {}: `{text:.40}` is not a number of `{name}`", row + 2);
        number.map(Some).ok_or_else(broken)
    }

    pub(super) fn required(&self, row: usize, column: usize) -> Result<f64, String> {
        let number = self.number(row, column)?;
        number.ok_or_else(|| format!("line {}: `{}` is empty", row + 2, self.header[column]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_table_is_refused_with_its_line() {
        let check = |text: &str, expect: &str| {
            let found = Columns::parse(text).and_then(|columns| {
                let column = columns.find("b")?;
                columns.required(0, column)
            });
            assert_eq!(found.unwrap_err(), expect);
        };
        check("", "it has no rows");
        check("a,b\n1", "line 2 has 1 fields instead of 2");
        check("a,c\n1,2", "it has no column `b`");
        check("a,b\n1,x", "line 2: `x` is not a number of `b`");
        check("a,b\n1,", "line 2: `b` is empty");
        let columns = Columns::parse("a,b\n1,2.5\n\n").unwrap();
        assert_eq!((columns.len(), columns.required(0, 1)), (1, Ok(2.5)));
    }
}
