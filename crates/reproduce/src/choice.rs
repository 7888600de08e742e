//! Values of options: what may be chosen on a command line, with the text of its help.

/// A value that an option may have.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice<T: 'static> {
    /// What it is called.
    pub name: &'static str,
    /// What its help says.
    pub help: &'static str,
    /// What it stands for.
    pub value: T,
}

impl<T> Choice<T> {
    /// A value called `name`.
    pub const fn new(name: &'static str, help: &'static str, value: T) -> Choice<T> {
        Choice { name, help, value }
    }
}

/// The choice called `name`.
pub fn by_name<T>(choices: &'static [Choice<T>], name: &str) -> Option<&'static Choice<T>> {
    choices.iter().find(|choice| choice.name == name)
}

/// Where experiments run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// The simulator.
    Sim,
    /// Real TCP in network namespaces.
    Lab,
    /// The same behind the user-plane function of a 5G core.
    Upf,
}

impl Arm {
    /// What it is called in options, files and results.
    pub fn name(self) -> &'static str {
        match self {
            Arm::Sim => "sim",
            Arm::Lab => "lab",
            Arm::Upf => "upf",
        }
    }
}
