//! Tables of text on a page, for what is neither a run nor a claim.

use std::fmt::Write;

use super::{close_table, push};
use crate::escape::xml;

/// A table with a title.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// Its title.
    pub title: String,
    /// Under the title; nothing where it is empty.
    pub note: String,
    /// Names of the columns.
    pub header: Vec<String>,
    /// The rows, each with a cell for every column.
    pub rows: Vec<Vec<GridCell>>,
    /// Whether it is shown only when somebody asks for it.
    pub folded: bool,
}

/// A cell of a [`Grid`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GridCell {
    /// Words.
    Text(String),
    /// A number, aligned to the right.
    Number(String),
    /// Words about what is well.
    Good(String),
    /// Words about what is not.
    Bad(String),
}

impl GridCell {
    /// What it says.
    pub fn text(&self) -> &str {
        let (GridCell::Text(text) | GridCell::Number(text) | GridCell::Good(text) | GridCell::Bad(text)) =
            self;
        text
    }

    fn markup(&self) -> String {
        match self {
            GridCell::Text(text) => format!("<td>{}</td>", xml(text)),
            GridCell::Number(text) => format!("<td class=\"n\">{}</td>", xml(text)),
            GridCell::Good(text) => format!("<td><span class=\"held\">{}</span></td>", xml(text)),
            GridCell::Bad(text) => format!("<td><span class=\"missed\">{}</span></td>", xml(text)),
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, GridCell::Number(_))
    }
}

pub(super) fn push_grids(out: &mut String, grids: &[Grid]) {
    for grid in grids {
        let title = xml(&grid.title);
        match grid.folded {
            true => push(out, format_args!("<details><summary>{title}</summary>")),
            false => push(out, format_args!("<h2>{title}</h2>")),
        }
        if !grid.note.is_empty() {
            push(out, format_args!("<p class=\"sub\">{}</p>", xml(&grid.note)));
        }
        push_grid(out, grid);
        if grid.folded {
            push(out, "</details>");
        }
    }
}

fn push_grid(out: &mut String, grid: &Grid) {
    out.push_str("<div class=\"wide\"><table><thead><tr>");
    for (i, name) in grid.header.iter().enumerate() {
        let is_number = grid.rows.first().and_then(|row| row.get(i)).is_some_and(GridCell::is_number);
        let class = if is_number { " class=\"n\"" } else { "" };
        let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", xml(name));
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in &grid.rows {
        let cells: String = row.iter().map(GridCell::markup).collect();
        push(out, format_args!("<tr>{cells}</tr>"));
    }
    close_table(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_numbers_stand_to_the_right() {
        let row =
            vec![GridCell::Text("<b>".into()), GridCell::Number("1".into()), GridCell::Bad("no".into())];
        let header = ["what", "n", "outcome"].map(String::from).to_vec();
        let grid = Grid { title: "A & B".into(), header, rows: vec![row], ..Grid::default() };
        let mut open = String::new();
        push_grids(&mut open, std::slice::from_ref(&grid));
        assert!(open.starts_with("<h2>A &amp; B</h2>"), "{open}");
        assert!(open.contains("<th scope=\"col\" class=\"n\">n</th>"), "{open}");
        assert!(
            open.contains("<td>&lt;b&gt;</td><td class=\"n\">1</td><td><span class=\"missed\">no</span>")
        );
        let mut folded = String::new();
        push_grids(&mut folded, &[Grid { folded: true, ..grid }]);
        assert!(folded.starts_with("<details><summary>A &amp; B</summary>"), "{folded}");
    }
}
