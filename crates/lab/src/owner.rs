//! Who owns a namespace: the names tell it.

use std::fs;

/// What namespaces are for.
const ROLES: [&str; 13] =
    ["snd", "bot", "box", "rcv", "chk", "hom", "hub", "lim", "mdm", "cmt", "gwy", "dly", "srv"];

/// A process, told apart from later ones with the same id by its start time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    pub pid: u32,
    /// Start of the process in clock ticks after the start of the machine.
    pub start: u64,
}

/// A name of ours: `weir-<pid>-<start>-<role>`, with a number behind the role from the second testbed on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Name {
    pub owner: Owner,
    pub role: String,
}

impl Owner {
    /// This process.
    pub fn current() -> Owner {
        let pid = std::process::id();
        Owner { pid, start: start_time(pid).unwrap_or(0) }
    }

    /// Whether the process that made the name still runs.
    pub fn is_alive(self) -> bool {
        start_time(self.pid) == Some(self.start)
    }

    /// Name of a namespace of this owner.
    pub fn name(self, role: &str, number: u32) -> String {
        let number = if number == 0 { String::new() } else { number.to_string() };
        format!("weir-{}-{}-{role}{number}", self.pid, self.start)
    }
}

impl Name {
    /// Reads a name; `None` if it is not one of ours.
    pub fn parse(name: &str) -> Option<Name> {
        let mut parts = name.strip_prefix("weir-")?.splitn(3, '-');
        let pid = parts.next()?.parse().ok()?;
        let start = parts.next()?.parse().ok()?;
        let role = parts.next()?.trim_end_matches(|c: char| c.is_ascii_digit());
        let known = ROLES.contains(&role);
        known.then(|| Name { owner: Owner { pid, start }, role: role.to_string() })
    }
}

/// Start time of a process; `None` if there is no such process or it is a zombie.
fn start_time(pid: u32) -> Option<u64> {
    start_field(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 22 of a stat line, counted behind the program's name, which may contain blanks and parentheses.
fn start_field(stat: &str) -> Option<u64> {
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    // A zombie runs no code any more: it cannot own anything.
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        let me = Owner::current();
        assert!(me.start > 0 && me.is_alive());
        for number in [0, 3] {
            let name = Name::parse(&me.name("snd", number)).unwrap();
            assert_eq!((name.owner, name.role.as_str()), (me, "snd"));
        }
    }

    #[test]
    fn names_of_others_are_not_ours() {
        for name in ["weir", "weir-1-2", "weir-1-2-other", "weir-x-2-snd", "web-1-2-snd", "weir--1-2-snd"] {
            assert_eq!(Name::parse(name), None, "{name}");
        }
    }

    #[test]
    fn another_process_with_the_same_id_is_not_the_owner() {
        let me = Owner::current();
        assert!(!Owner { start: me.start + 1, ..me }.is_alive());
    }

    #[test]
    fn a_program_name_with_blanks_and_parentheses_is_skipped() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 4242 1000 1";
        assert_eq!(start_field(stat), Some(4242));
        assert_eq!(start_field(&stat.replace(" S ", " Z ")), None);
        assert_eq!(start_field("7 (a"), None);
    }
}
