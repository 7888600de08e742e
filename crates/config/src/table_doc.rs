//! What the reference of a file form says of a key and of a table.

/// A key in the reference.
pub(crate) struct Row {
    pub name: String,
    pub kind: String,
    pub default: String,
    pub range: String,
    pub doc: String,
}

/// A table in the reference.
pub(crate) struct TableDoc {
    pub path: String,
    pub note: String,
    pub rows: Vec<Row>,
    /// What follows the keys, as Markdown.
    pub after: String,
}

/// Keys as a Markdown table; nothing if there are none.
pub(crate) fn markdown_rows(rows: &[Row]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut text = String::from("| Key | Value | Default | Range | Meaning |\n|---|---|---|---|---|\n");
    for row in rows {
        let cells = [&row.kind, &row.default, &row.range, &row.doc].map(|c| c.replace('|', "\\|"));
        text.push_str(&format!("| `{}` | {} |\n", row.name, cells.join(" | ")));
    }
    text
}
