//! Foreign text made harmless for the place where it lands.

/// Text for XML and HTML, in content and in quoted attributes. Characters that XML forbids become U+FFFD.
pub(crate) fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// JSON text that may stand inside a `<script>` element.
///
/// In valid JSON these characters occur only inside strings, where `\u` escapes mean the same.
pub(crate) fn json_in_script(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
    out
}

/// Text for a terminal: control characters, which could move the cursor or change colours, become U+FFFD.
pub fn terminal(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Text for a line of Markdown: what would begin an element of HTML is text, and control characters, which
/// could end the line, become spaces or U+FFFD.
pub fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let begins = |next: &char| next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?');
        match c {
            '<' if chars.peek().is_some_and(begins) => out.push_str("&lt;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(xml("a<b>&\"'\u{1b}"), "a&lt;b&gt;&amp;&quot;&#39;\u{fffd}");
        assert_eq!(json_in_script(r#"["</script>"]"#), r#"["\u003c/script\u003e"]"#);
        assert_eq!(terminal("\u{1b}[31mred"), "\u{fffd}[31mred");
        let told = "<99 %, a<b><!-- <script>\n## x\u{1b}";
        assert_eq!(markdown(told), "<99 %, a&lt;b>&lt;!-- &lt;script> ## x\u{fffd}");
    }
}
