//! Descriptions of pages: their objects by name, what each waits for, and how long the server takes.

use crate::document::Document;
use crate::errors::{Errors, Wrong};
use crate::from_file::FileContent;
use crate::library::Library;
use crate::names::{NAME, name_allowed};
use crate::problems::Problems;
use crate::schema::{
    Check, Here, Printer, Section, TABLES, absent, list, or, reference, required, such, within,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use weir_units::{Bytes, Duration};

/// Most entries of a page.
pub const MAX_ENTRIES: usize = 1000;
/// Most names that an object waits for.
const MAX_AFTER: usize = 100;

section! {
    /// A page.
    pub struct PageFile {
        /// Which page it is, for people.
        title: Option<String> = absent("none", such("", |_: &String| true));
        /// The objects, in the order in which those that become known together are asked for.
        objects: Vec<PageObject> = TABLES;
    }
}

section! {
    /// An object, or several that are alike.
    pub struct PageObject {
        /// What others call it that wait for it.
        name: String = required(such(NAME, |t: &String| name_allowed(t)));
        /// Bytes of it, with its headers.
        size: Bytes = required(within(Bytes::new(1), Bytes::new(1_000_000_000)));
        /// How many of these there are; who waits for them waits for all.
        count: u32 = or(1, within(1, 1000));
        /// Names of earlier objects that must be there, all of them, before it is asked for.
        after: Vec<String> = list("asked for at once", MAX_AFTER, such(NAME, |t: &String| name_allowed(t)));
        /// Time from the request's arrival at the server to the first byte that may leave.
        server: Duration = or(Duration::ZERO, within(Duration::ZERO, Duration::from_secs(60)));
    }
}

impl Check for PageObject {}

impl Check for PageFile {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if self.objects.len() > MAX_ENTRIES {
            let problem = format!("has {} entries", self.objects.len());
            here.wrong(
                p,
                "objects",
                problem,
                format!("give at most {MAX_ENTRIES}: `count` says how many are alike"),
            );
            return;
        }
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, object) in self.objects.iter().enumerate() {
            for (i, name) in object.after.iter().enumerate() {
                if object.after[..i].contains(name) {
                    let problem = format!("names {name:?} twice");
                    here.wrong(p, &format!("objects.{at}.after"), problem, "name it once");
                } else if !known.contains_key(name.as_str()) {
                    let meant = crate::nearest(name, known.keys().copied());
                    let meant = meant.map_or(String::new(), |meant| format!("did you mean {meant:?}? "));
                    let problem = format!("waits for {name:?}, which is not before it");
                    let remedy = format!("{meant}name an earlier object");
                    here.wrong(p, &format!("objects.{at}.after"), problem, remedy);
                }
            }
            if known.insert(&object.name, at).is_some() {
                let problem = format!("{:?} is there already", object.name);
                here.wrong(p, &format!("objects.{at}.name"), problem, "give each object a name of its own");
            }
        }
        if self.objects.first().is_some_and(|first| first.count != 1) {
            let remedy = "begin with one object, the document";
            here.wrong(p, "objects.0.count", "makes several documents that name the others", remedy);
        }
    }
}

impl PageFile {
    /// Reads a file.
    pub fn load(path: impl AsRef<Path>) -> Result<PageFile, Errors> {
        PageFile::read_file(&Document::load(path)?, &[])
    }

    /// Reads a text; `name` is what messages call it.
    pub fn parse(name: &str, text: &str) -> Result<PageFile, Errors> {
        PageFile::read_file(&Document::parse(name, text)?, &[])
    }

    /// The description in canonical form: every key with its value and its meaning.
    pub fn to_toml(&self) -> String {
        self.print_file(Printer::new(Vec::new(), &[]))
    }

    /// Positions, from 1, of the objects that one waits for.
    pub fn awaited(&self, object: &PageObject) -> Vec<u32> {
        let position = |name: &String| self.objects.iter().position(|other| other.name == *name);
        object.after.iter().filter_map(position).map(|at| at as u32 + 1).collect()
    }

    /// All keys with type, default, range and meaning, as Markdown.
    pub fn reference() -> String {
        reference::<PageFile>("Descriptions of pages", INTRO)
    }
}

/// A description and the file it came from.
#[derive(Clone, PartialEq, Debug)]
pub struct DescribedPage {
    /// The path as it was written, which starts at the folder of the scenario.
    pub path: String,
    /// Its content.
    pub page: Arc<PageFile>,
}

impl FileContent for DescribedPage {
    const NONE: &str = "the page that `objects` say";

    fn read(path: String, library: &Library) -> Result<DescribedPage, Wrong> {
        let load = |path| PageFile::load(path).map(Arc::new);
        library.content("descriptions of pages", &path, load).map(|page| DescribedPage { path, page })
    }
    fn path(&self) -> &str {
        &self.path
    }
}

const INTRO: &str = "A description of a page says which objects it is made of, for flows that load it over HTTP/2 or \
HTTP/3. A scenario\nnames it by `file` in `[flows.page]`, with a path that starts at the folder of the scenario; its content \
is part of what\nresults are of. [Applications](simulator.md#applications) says how pages are loaded, and\n\
`data/scenarios/pages/news.toml` is an example.\n\nThis page is generated from the declarations of the keys.";

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "title = \"x\"\n[[objects]]\nname = \"document\"\nsize = \"30kB\"\nserver = \"80ms\"\n\
        [[objects]]\nname = \"style\"\nsize = \"10kB\"\nafter = [\"document\"]\n\
        [[objects]]\nname = \"image\"\nsize = \"20kB\"\ncount = 3\nafter = [\"document\", \"style\"]\n";

    #[test]
    fn a_description_is_written_as_it_was_read() {
        let page = PageFile::parse("news.toml", TEXT).unwrap();
        assert_eq!(PageFile::parse("y", &page.to_toml()).unwrap(), page);
        assert_eq!((page.objects[0].server, page.objects[2].count), (Duration::from_millis(80), 3));
        assert_eq!(
            page.objects.iter().map(|o| page.awaited(o)).collect::<Vec<_>>(),
            [vec![], vec![1], vec![1, 2]]
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_line_and_key() {
        let told = |from: &str, to: &str| {
            let text = TEXT.replacen(from, to, 1);
            assert_ne!(text, TEXT);
            PageFile::parse("news.toml", &text).unwrap_err().to_string()
        };
        for (from, to, wanted) in [
            (
                "[\"document\"]",
                "[\"documnet\"]",
                "news.toml:9: key `objects.1.after`: waits for \"documnet\"",
            ),
            ("[\"document\"]", "[\"documnet\"]", "did you mean \"document\"? name an earlier object"),
            ("[\"document\"]", "[\"style\"]", "waits for \"style\", which is not before it"),
            ("[\"document\", ", "[\"style\", ", "news.toml:14: key `objects.2.after`: names \"style\" twice"),
            ("\"style\"", "\"document\"", "news.toml:7: key `objects.1.name`: \"document\" is there already"),
            ("server = ", "count = 2\nserver = ", "makes several documents"),
            ("\"80ms\"", "\"80min\"", "news.toml:5: key `objects.0.server`"),
            ("\"30kB\"", "\"0B\"", "news.toml:4: key `objects.0.size`"),
            ("server", "serve", "key `objects.0.serve`"),
        ] {
            let told = told(from, to);
            assert!(told.contains(wanted), "{from} -> {to}: {told}");
        }
        assert!(PageFile::parse("x", "title = \"x\"\n").unwrap_err().to_string().contains("objects"));
    }
}
