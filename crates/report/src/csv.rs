//! Sample tables as CSV (RFC 4180): one header line with the field names, which carry their units.
//!
//! A missing number (NaN) is an empty field. Floating-point numbers are written in the shortest form that
//! reads back as the same number, so writing and reading is lossless.

use crate::html::Rows;
use std::fmt;

use weir_measure::result::{FlowSample, LinkSample, SteeringEvent};

/// A table that could not be read, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// Line of the file, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CSV line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for ReadError {}

/// The samples of one link as CSV.
pub fn link_samples(samples: &[LinkSample]) -> String {
    write_table(samples)
}

/// The samples of many links as one table, whose first column is the link.
pub fn samples_of_links<'a>(links: impl Iterator<Item = (&'a str, &'a [LinkSample])>) -> String {
    let mut text = format!("link,{}", link_samples(&[]));
    for (name, samples) in links {
        // Names of links are words.
        link_rows(samples).lines().for_each(|row| text.extend([name, ",", row, "\n"]));
    }
    text
}

/// Rows to go on with after what [`link_samples`] wrote.
pub fn link_rows(samples: &[LinkSample]) -> String {
    write_rows(samples)
}

/// Rows to go on with after what [`steering_events`] wrote.
pub fn steering_rows(events: &[SteeringEvent]) -> String {
    write_rows(events)
}

/// The samples of the flows as CSV.
pub fn flow_samples(samples: &[FlowSample]) -> String {
    write_table(samples)
}

/// Moves of set points as CSV; `measured` holds `name=value` pairs separated by `;`.
pub fn steering_events(events: &[SteeringEvent]) -> String {
    write_table(events)
}

/// Reads what [`link_samples`] wrote.
pub fn read_link_samples(text: &str) -> Result<Vec<LinkSample>, ReadError> {
    read_table(text)
}

/// Reads of what [`samples_of_links`] wrote the links that are wanted, in the order of the table.
pub fn read_samples_of_links(
    text: &str,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<(String, Vec<LinkSample>)>, ReadError> {
    let (head, rows) = text.split_once('\n').unwrap_or((text, ""));
    let expected = format!("link,{}", LinkSample::HEADER.join(","));
    if head.trim_end() != expected {
        return Err(ReadError { line: 1, problem: format!("the header must be `{expected}`") });
    }
    let mut links: Vec<(String, Vec<LinkSample>)> = Vec::new();
    // Names of links are words, so that no field has quotes or more than one line.
    for (line, row) in (2..).zip(rows.lines()) {
        let (name, rest) = row.split_once(',').unwrap_or((row, ""));
        if !is_wanted(name) {
            continue;
        }
        let fields: Vec<String> = rest.split(',').map(String::from).collect();
        let sample = read_row(line, &fields)?;
        match links.last_mut() {
            Some((last, samples)) if last == name => samples.push(sample),
            _ => links.push((name.to_string(), vec![sample])),
        }
    }
    Ok(links)
}

/// Reads what [`flow_samples`] wrote.
pub fn read_flow_samples(text: &str) -> Result<Vec<FlowSample>, ReadError> {
    read_table(text)
}

/// Reads what [`steering_events`] wrote.
pub fn read_steering_events(text: &str) -> Result<Vec<SteeringEvent>, ReadError> {
    read_table(text)
}

/// A value that fits into one field.
trait Field: Sized {
    fn write(&self) -> String;
    fn read(text: &str) -> Option<Self>;
}

impl Field for f64 {
    fn write(&self) -> String {
        if self.is_nan() { String::new() } else { self.to_string() }
    }

    fn read(text: &str) -> Option<f64> {
        if text.is_empty() { Some(f64::NAN) } else { text.parse().ok() }
    }
}

impl Field for String {
    fn write(&self) -> String {
        self.clone()
    }

    fn read(text: &str) -> Option<String> {
        Some(text.to_string())
    }
}

macro_rules! whole_numbers {
    ($($t:ty),*) => {$(
        impl Field for $t {
            fn write(&self) -> String {
                self.to_string()
            }

            fn read(text: &str) -> Option<$t> {
                text.parse().ok()
            }
        }
    )*};
}
whole_numbers!(u8, u32, u64);

impl Field for Vec<(String, f64)> {
    fn write(&self) -> String {
        let pairs = self.iter().map(|(name, value)| format!("{}={}", shield(name), value.write()));
        pairs.collect::<Vec<_>>().join(";")
    }

    fn read(text: &str) -> Option<Vec<(String, f64)>> {
        if text.is_empty() {
            return Some(Vec::new());
        }
        split_shielded(text, ';').iter().map(|pair| read_pair(pair)).collect()
    }
}

fn read_pair(pair: &str) -> Option<(String, f64)> {
    match split_shielded(pair, '=').as_slice() {
        [name, value] => Some((unshield(name), f64::read(value)?)),
        _ => None,
    }
}

/// A name in which the separators of `measured` are preceded by a backslash.
fn shield(name: &str) -> String {
    name.chars().fold(String::new(), |mut out, c| {
        if matches!(c, '\\' | ';' | '=') {
            out.push('\\');
        }
        out.push(c);
        out
    })
}

fn unshield(name: &str) -> String {
    let mut out = String::new();
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        out.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    out
}

/// Parts between separators that no backslash shields; the backslashes stay.
fn split_shielded(text: &str, separator: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut shielded = false;
    for c in text.chars() {
        if c == separator && !shielded {
            parts.push(String::new());
            continue;
        }
        shielded = c == '\\' && !shielded;
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    parts
}

/// A struct that is one row of a table.
trait CsvRow: Sized {
    const HEADER: &'static [&'static str];
    fn fields(&self) -> Vec<String>;
    fn from_fields(fields: &[String]) -> Result<Self, String>;
}

/// Declares the columns once. A field that is added to the struct and forgotten here does not compile.
macro_rules! columns {
    ($row:ident: $($field:ident),*) => {
        impl CsvRow for $row {
            const HEADER: &'static [&'static str] = &[$(stringify!($field)),*];

            fn fields(&self) -> Vec<String> {
                vec![$(self.$field.write()),*]
            }

            fn from_fields(fields: &[String]) -> Result<$row, String> {
                let mut fields = fields.iter();
                Ok($row { $($field: read_field(stringify!($field), fields.next())?),* })
            }
        }
    };
}

columns!(LinkSample: t_s, arrived_bps, delivered_bps, delay_mean_ms, delay_max_ms, backlog_bytes, setpoint_ms,
    drops, overflows, marks, table_state, virtual_backlog_bytes, virtual_rate_bps, virtual_empty, capacity_bps);
columns!(FlowSample: t_s, flow, cwnd, ssthresh, rtt_us, rttvar_us, retransmits, bytes_acked, delivery_bps);
columns!(SteeringEvent: t_s, link, rule, from, to, unit, measured);

fn read_field<F: Field>(name: &str, text: Option<&String>) -> Result<F, String> {
    let text = text.ok_or_else(|| format!("there is no field for `{name}`"))?;
    F::read(text).ok_or_else(|| format!("`{name}` cannot be `{text}`"))
}

fn write_table<R: CsvRow>(rows: &[R]) -> String {
    line(R::HEADER) + &write_rows(rows)
}

fn write_rows<R: CsvRow>(rows: &[R]) -> String {
    rows.iter().fold(String::new(), |out, row| out + &line(&row.fields()))
}

/// A table with its header.
pub fn rows(table: &Rows) -> String {
    table.rows.iter().fold(line(&table.header), |out, row| out + &line(row))
}

/// One line of a table, with quotes where a field needs them.
pub fn line(fields: &[impl AsRef<str>]) -> String {
    fields.iter().map(|f| quote(f.as_ref())).collect::<Vec<_>>().join(",") + "\n"
}

fn quote(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_string()
    }
}

/// The records of a table, the header first, with the line where each begins.
pub fn records(text: &str) -> Result<Vec<(usize, Vec<String>)>, ReadError> {
    split_records(text)
}

fn read_table<R: CsvRow>(text: &str) -> Result<Vec<R>, ReadError> {
    let mut records = split_records(text)?.into_iter();
    match records.next() {
        Some((_, header)) if header == R::HEADER => {}
        _ => {
            let problem = format!("the header must be `{}`", R::HEADER.join(","));
            return Err(ReadError { line: 1, problem });
        }
    }
    records.map(|(line, fields)| read_row(line, &fields)).collect()
}

fn read_row<R: CsvRow>(line: usize, fields: &[String]) -> Result<R, ReadError> {
    if fields.len() != R::HEADER.len() {
        let problem = format!("{} fields where {} belong", fields.len(), R::HEADER.len());
        return Err(ReadError { line, problem });
    }
    R::from_fields(fields).map_err(|problem| ReadError { line, problem })
}

/// The fields of each record, with the line on which the record starts.
fn split_records(text: &str) -> Result<Vec<(usize, Vec<String>)>, ReadError> {
    let mut records = Vec::new();
    let mut fields = vec![String::new()];
    let (mut line, mut start, mut quoted) = (1, 1, false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        line += usize::from(c == '\n');
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => push(&mut fields, chars.next()),
            '"' => quoted = !quoted,
            c if quoted => push(&mut fields, Some(c)),
            ',' => fields.push(String::new()),
            '\n' => {
                records.push((start, std::mem::replace(&mut fields, vec![String::new()])));
                start = line;
            }
            '\r' => {}
            c => push(&mut fields, Some(c)),
        }
    }
    if quoted {
        return Err(ReadError { line: start, problem: "a quoted field does not end".to_string() });
    }
    if fields != [""] {
        records.push((start, fields));
    }
    Ok(records)
}

fn push(fields: &mut [String], c: Option<char>) {
    if let Some(field) = fields.last_mut() {
        field.extend(c);
    }
}
