//! The files of the page, which are part of the program.

/// A file of the page.
#[derive(PartialEq, Eq, Debug)]
pub struct File {
    /// Its media type.
    pub kind: &'static str,
    /// What is in it.
    pub text: &'static str,
}

/// The page itself.
pub static HTML: File = File { kind: "text/html; charset=utf-8", text: include_str!("page/index.html") };
/// How it looks.
pub static STYLE: File = File { kind: "text/css; charset=utf-8", text: include_str!("page/page.css") };
/// What it does.
pub static SCRIPT: File = File { kind: "text/javascript; charset=utf-8", text: include_str!("page/page.js") };
