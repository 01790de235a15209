//! Answers as table, JSON or YAML.

use std::io::Write as _;

use clawjob_proto::json;
use comfy_table::{ColumnConstraint, Table, Width, presets};
use jiff::tz::TimeZone;
use prost::{Message, Name};
use serde_json::Value;

use crate::{args::OutputFormat, error::CliError, show::Cell, terminal::Terminal, text};

/// How a table shows a `T`: its columns, and a row in a time zone.
pub(crate) struct Columns<T> {
    /// The columns' names.
    pub(crate) headers: &'static [&'static str],
    /// One cell per column.
    pub(crate) row: fn(&T, &TimeZone) -> Vec<Cell>,
}

/// The rows of one thing shown alone: name and value; empty values are left out.
pub(crate) type Fields = Vec<(&'static str, Cell)>;

/// Prints one message: fields for people, or the contract's JSON or YAML.
///
/// # Errors
/// An output that cannot be written.
pub(crate) fn message<M: Message + Name>(
    term: &mut Terminal,
    format: OutputFormat,
    message: &M,
    fields: impl FnOnce(&M, &TimeZone) -> Fields,
) -> Result<(), CliError> {
    match format {
        OutputFormat::Table => print_fields(term, fields(message, &term.zone)),
        _ => value(term, format, &json::to_value(message)?),
    }
}

/// Prints a JSON value as JSON or YAML.
///
/// # Errors
/// An output that cannot be written.
pub(crate) fn value(
    term: &mut Terminal,
    format: OutputFormat,
    value: &Value,
) -> Result<(), CliError> {
    let text = match format {
        OutputFormat::Yaml => yaml(value)?,
        _ => format!("{}\n", pretty(value)),
    };
    term.out.write_all(text.as_bytes())?;
    Ok(())
}

/// Prints one event of a stream: JSON in one line, or YAML as a document of its own.
///
/// # Errors
/// An output that cannot be written.
pub(crate) fn event(
    term: &mut Terminal,
    format: OutputFormat,
    value: &Value,
) -> Result<(), CliError> {
    let text = match format {
        OutputFormat::Yaml => format!("---\n{}", yaml(value)?),
        _ => format!("{}\n", text::json(&value.to_string())),
    };
    term.out.write_all(text.as_bytes())?;
    // Whoever reads a stream wants each event when it happens.
    term.out.flush()?;
    Ok(())
}

/// Prints names and values, one per line.
///
/// # Errors
/// An output that cannot be written.
pub(crate) fn print_fields(term: &mut Terminal, fields: Fields) -> Result<(), CliError> {
    let rows = fields.into_iter().filter(|(_, cell)| !cell.text.is_empty());
    let rows = rows.map(|(name, cell)| vec![Cell::from(format!("{name}:")), cell]);
    print_rows(term, None, rows.collect(), &mut Vec::new())
}

fn pretty(value: &Value) -> String {
    // Serialising a Value cannot fail; its compact text would do as well.
    let pretty = serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string());
    text::json(&pretty).into_owned()
}

pub(crate) fn yaml(value: &impl serde::Serialize) -> Result<String, CliError> {
    serde_norway::to_string(value).map_err(|e| CliError::Answer(e.to_string()))
}

/// Prints rows in columns at least as wide as those of the pages before.
fn print_rows(
    term: &mut Terminal,
    headers: Option<&[&str]>,
    rows: Vec<Vec<Cell>>,
    widths: &mut Vec<u16>,
) -> Result<(), CliError> {
    if rows.is_empty() && headers.is_none() {
        return Ok(());
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    if let Some(headers) = headers {
        table.set_header(headers.to_vec());
    }
    for row in rows {
        table.add_row(row.into_iter().map(|cell| match cell.colour {
            Some(colour) => comfy_table::Cell::new(cell.text).fg(colour),
            None => comfy_table::Cell::new(cell.text),
        }));
    }
    if term.colour {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    let found = table.column_max_content_widths();
    for (index, width) in found.iter().enumerate() {
        let least = widths.get(index).copied().unwrap_or(0).max(*width);
        match widths.get_mut(index) {
            Some(before) => *before = least,
            None => widths.push(least),
        }
        if let Some(column) = table.column_mut(index) {
            // One blank before the first column would only shift the whole table.
            let left = u16::from(index > 0);
            column.set_padding((left, 1));
            let width = Width::Fixed(least + left + 1);
            column.set_constraint(ColumnConstraint::LowerBoundary(width));
        }
    }
    writeln!(term.out, "{}", table.trim_fmt())?;
    Ok(())
}

/// Prints a list page by page, as one table, one JSON object or one YAML mapping.
pub(crate) struct ListPrinter<'a, T> {
    format: OutputFormat,
    key: &'static str,
    columns: &'a Columns<T>,
    widths: Vec<u16>,
    printed: usize,
}

impl<'a, T: Message + Name> ListPrinter<'a, T> {
    /// `key` is the list's name in the contract's answer.
    pub(crate) fn new(
        format: OutputFormat,
        key: &'static str,
        columns: &'a Columns<T>,
    ) -> ListPrinter<'a, T> {
        ListPrinter { format, key, columns, widths: Vec::new(), printed: 0 }
    }

    /// Prints one page.
    ///
    /// # Errors
    /// An output that cannot be written.
    pub(crate) fn page(&mut self, term: &mut Terminal, items: &[T]) -> Result<(), CliError> {
        if items.is_empty() {
            return Ok(());
        }
        match self.format {
            OutputFormat::Table => {
                let rows = items.iter().map(|item| (self.columns.row)(item, &term.zone)).collect();
                let headers = (self.printed == 0).then_some(self.columns.headers);
                print_rows(term, headers, rows, &mut self.widths)?;
            }
            OutputFormat::Json => {
                for (index, item) in items.iter().enumerate() {
                    let open = match self.printed + index {
                        0 => format!("{{\n  \"{}\": [\n    ", self.key),
                        _ => ",\n    ".into(),
                    };
                    let item = pretty(&json::to_value(item)?).replace('\n', "\n    ");
                    write!(term.out, "{open}{item}")?;
                }
            }
            OutputFormat::Yaml => {
                if self.printed == 0 {
                    writeln!(term.out, "{}:", self.key)?;
                }
                for item in items {
                    write!(term.out, "{}", yaml(&[json::to_value(item)?])?)?;
                }
            }
        }
        self.printed += items.len();
        term.out.flush()?;
        Ok(())
    }

    /// Closes the list. `next` is the token of the page after it; empty when there is none.
    ///
    /// # Errors
    /// An output that cannot be written.
    pub(crate) fn end(self, term: &mut Terminal, next: &str) -> Result<(), CliError> {
        let (empty, key) = (self.printed == 0, self.key);
        let token = Value::String(next.into()).to_string();
        match self.format {
            OutputFormat::Table if empty => term.remark(&format!("no {key}")),
            OutputFormat::Table if !next.is_empty() => term.remark(&format!(
                "only the first {}; --limit 0 shows all, --page-token {} goes on from here",
                self.printed,
                text::line(next)
            )),
            OutputFormat::Table => {}
            OutputFormat::Json => {
                let open = if empty { format!("{{\n  \"{key}\": [") } else { "\n  ".into() };
                let rest = match next {
                    "" => String::new(),
                    _ => format!(",\n  \"nextPageToken\": {}", text::json(&token)),
                };
                writeln!(term.out, "{open}]{rest}\n}}")?;
            }
            OutputFormat::Yaml => {
                if empty {
                    writeln!(term.out, "{key}: []")?;
                }
                if !next.is_empty() {
                    // A JSON string is a YAML string too.
                    writeln!(term.out, "nextPageToken: {}", text::json(&token))?;
                }
            }
        }
        Ok(())
    }
}
