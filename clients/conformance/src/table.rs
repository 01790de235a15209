//! The table of scenarios and those that they were run against.

use std::fmt;

use crate::judge::Verdict;

/// Row and column.
pub(crate) type Cell = (usize, usize);

/// The table; cells that were not asked for stay empty.
#[derive(Default)]
pub(crate) struct Table {
    columns: Vec<String>,
    rows: Vec<Row>,
}

struct Row {
    id: String,
    title: String,
    cells: Vec<Option<Verdict>>,
}

impl Table {
    /// The column of that name, added when it is not there.
    pub(crate) fn column(&mut self, name: &str) -> usize {
        let known = self.columns.iter().position(|column| column == name);
        known.unwrap_or_else(|| {
            self.columns.push(name.to_owned());
            self.columns.len() - 1
        })
    }

    /// The row of a scenario, added when it is not there.
    pub(crate) fn row(&mut self, id: String, title: String) -> usize {
        let known = self.rows.iter().position(|row| row.id == id);
        known.unwrap_or_else(|| {
            self.rows.push(Row { id, title, cells: Vec::new() });
            self.rows.len() - 1
        })
    }

    /// Writes what became of a scenario.
    pub(crate) fn set(&mut self, (row, column): Cell, verdict: Verdict) {
        let cells = &mut self.rows[row].cells;
        if cells.len() <= column {
            cells.resize(column + 1, None);
        }
        cells[column] = Some(verdict);
    }

    pub(crate) fn passed(&self) -> usize {
        self.count(|verdict| verdict.is_none())
    }

    pub(crate) fn failed(&self) -> usize {
        self.count(|verdict| verdict.is_some())
    }

    fn count(&self, is: impl Fn(&Verdict) -> bool) -> usize {
        let cells = self.rows.iter().flat_map(|row| &row.cells);
        cells.flatten().filter(|verdict| is(verdict)).count()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = || self.rows.iter().filter(|row| row.cells.iter().any(Option::is_some));
        let heading = "scenario";
        let words = asked().map(|row| row.title.len()).max().unwrap_or(0).max(heading.len());
        write!(f, "{:5}{heading:words$}", "")?;
        for column in &self.columns {
            write!(f, "  {column:>6}")?;
        }
        writeln!(f)?;
        for row in asked() {
            write!(f, "{:5}{:words$}", row.id, row.title)?;
            for (at, column) in self.columns.iter().enumerate() {
                let cell = match row.cells.get(at).and_then(Option::as_ref) {
                    None => "",
                    Some(None) => "ok",
                    Some(Some(_)) => "FAILED",
                };
                write!(f, "  {cell:>width$}", width = column.len().max(6))?;
            }
            writeln!(f)?;
        }
        for row in asked() {
            for (column, cell) in self.columns.iter().zip(&row.cells) {
                if let Some(Some(why)) = cell {
                    writeln!(f, "\n{} {column} FAILED: {why}", row.id)?;
                }
            }
        }
        writeln!(f, "\n{} passed, {} failed", self.passed(), self.failed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_cell_for_each_and_ends_with_the_sum() {
        let mut table = Table::default();
        let (rust, scheduler) = (table.column("rust"), table.column("scheduler"));
        let c01 = table.row("C01".to_owned(), "hello".to_owned());
        let s01 = table.row("S01".to_owned(), "names".to_owned());
        table.row("S02".to_owned(), "not asked for".to_owned());
        table.set((c01, rust), None);
        table.set((s01, scheduler), Some("no".to_owned()));
        let lines: Vec<String> =
            table.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
        assert_eq!(lines[0], "     scenario    rust  scheduler");
        assert_eq!(lines[1], "C01  hello         ok");
        assert_eq!(lines[2], "S01  names                FAILED");
        assert_eq!(lines[4], "S01 scheduler FAILED: no");
        assert_eq!(lines.last().unwrap(), "1 passed, 1 failed");
    }
}
