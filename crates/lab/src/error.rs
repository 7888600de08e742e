//! What can go wrong, each with its remedy.

use std::io;

/// A failure of the lab.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Namespaces and raw sockets need privileges.
    #[error("{what} needs root: run it as root, for instance with sudo")]
    NotRoot {
        /// What was tried.
        what: String,
    },
    /// The user ended it while it waited for another run.
    #[error("ended while another run measured on this machine")]
    Interrupted,
    /// A program is not installed.
    #[error("`{program}` is not installed: install the package `{package}`")]
    Missing {
        /// Name of the program.
        program: String,
        /// Package it is in, by its name in Debian and most other distributions.
        package: String,
    },
    /// A program was started and reported a failure.
    #[error("`{command}` failed ({status}): {message}")]
    Command {
        /// The command line, or the failing line of a batch.
        command: String,
        /// Exit status.
        status: String,
        /// What it wrote to stderr.
        message: String,
    },
    /// A call to the kernel failed.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// The reason given by the kernel.
        source: io::Error,
    },
    /// A congestion control is not in this kernel.
    #[error(
        "congestion control `{name}` is not in this kernel, which has: {available}. Use one of these, or load `tcp_{name}`"
    )]
    Congestion {
        /// What was asked for.
        name: String,
        /// What there is.
        available: String,
    },
    /// The packet loop could not start or go on.
    #[error("{0}")]
    Dataplane(String),
    /// A parameter cannot be used.
    #[error("{what}: {remedy}")]
    Invalid {
        /// The thing that is wrong.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// The output of iperf3 is not what it should be.
    #[error("cannot read the output of iperf3: {reason}")]
    Iperf {
        /// Where and why.
        reason: String,
    },
    /// Something did not happen in time.
    #[error("{what} did not happen within {seconds} s: {remedy}")]
    Timeout {
        /// What was awaited.
        what: String,
        /// How long.
        seconds: f64,
        /// What to do about it.
        remedy: String,
    },
}

impl Error {
    /// The error the kernel gave for the last call, about `what`.
    pub(crate) fn last(what: impl Into<String>) -> Error {
        Error::system(what, io::Error::last_os_error())
    }

    /// An error of the kernel about `what`; a lack of privileges becomes [`Error::NotRoot`].
    pub(crate) fn system(what: impl Into<String>, source: io::Error) -> Error {
        let what = what.into();
        // SAFETY: geteuid has no arguments and cannot fail.
        let root = unsafe { libc::geteuid() } == 0;
        if !root && source.kind() == io::ErrorKind::PermissionDenied {
            return Error::NotRoot { what };
        }
        Error::System { what, source }
    }

    /// A wrong parameter and its remedy.
    pub(crate) fn invalid(what: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error::Invalid { what: what.into(), remedy: remedy.into() }
    }
}

/// Result of the lab.
pub type Result<T> = std::result::Result<T, Error>;
