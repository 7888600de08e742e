//! What `weir upf session` has asked a user-plane function for, in a file from one call to the next.

use crate::output::Failure;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use weir_config::{Document, SessionConfig, SessionFile, SessionFlow};
use weir_upf::client::Established;
use weir_upf::client::wanted::{pdr_n9, pdr_up};
use weir_upf::control::PFCP_PORT;
use weir_upf::rules::{LocalTunnel, Session};

/// A session that was asked for.
#[derive(Clone, Serialize, Deserialize)]
pub struct KeptSession {
    /// Its name here.
    pub name: String,
    /// Its number at the user plane.
    pub seid: u64,
    /// Its number here.
    pub cp_seid: u64,
    teid: u32,
    v4: Option<Ipv4Addr>,
    v6: Option<Ipv6Addr>,
    /// Tunnels by the PDR that takes from them.
    #[serde(default)]
    tunnels: Vec<KeptTunnel>,
    /// Its keys, as a file of sessions.
    keys: String,
}

/// A tunnel here.
#[derive(Clone, Serialize, Deserialize)]
struct KeptTunnel {
    pdr: u16,
    teid: u32,
    v4: Option<Ipv4Addr>,
    v6: Option<Ipv6Addr>,
}

fn keys(config: &SessionConfig) -> String {
    SessionFile { sessions: vec![config.clone()] }.to_toml()
}

impl KeptSession {
    /// One that was established.
    pub fn new(config: &SessionConfig, cp_seid: u64, established: &Established) -> KeptSession {
        // That of the rest; but for bearers all its rules share one.
        let of_rest = pdr_up(config, config.qfi);
        let all = &established.tunnels;
        let tunnel = all.iter().find(|(pdr, _)| *pdr == of_rest).or(all.first()).map(|(_, tunnel)| *tunnel);
        let (teid, v4, v6) = tunnel.map_or((0, None, None), |tunnel| (tunnel.teid, tunnel.v4, tunnel.v6));
        let (name, keys) = (config.name.clone(), keys(config));
        let tunnels = Vec::new();
        let mut kept = KeptSession { name, seid: established.seid, cp_seid, teid, v4, v6, tunnels, keys };
        kept.took(all);
        kept
    }

    /// The other side chose these, by PDR.
    pub fn took(&mut self, tunnels: &[(u16, LocalTunnel)]) {
        self.tunnels.retain(|kept| tunnels.iter().all(|(pdr, _)| *pdr != kept.pdr));
        self.tunnels.extend(tunnels.iter().map(|(pdr, tunnel)| KeptTunnel {
            pdr: *pdr,
            teid: tunnel.teid,
            v4: tunnel.v4,
            v6: tunnel.v6,
        }));
    }

    /// Its keys; [`KeptSessions::open`] has read them.
    pub fn config(&self) -> SessionConfig {
        self.read().expect("the file was read")
    }

    fn read(&self) -> Option<SessionConfig> {
        let document = Document::parse("kept", &self.keys).ok()?;
        SessionFile::of(&document).ok()?.sessions.into_iter().next()
    }

    /// Gives it other keys, of which these are the rules.
    pub fn set(&mut self, config: &SessionConfig, rules: &Session) {
        self.name = config.name.clone();
        self.keys = keys(config);
        self.tunnels.retain(|tunnel| rules.pdr(tunnel.pdr).is_some());
        let of_rest = pdr_up(config, config.qfi);
        if let Some(kept) = self.tunnels.iter().find(|tunnel| tunnel.pdr == of_rest) {
            (self.teid, self.v4, self.v6) = (kept.teid, kept.v4, kept.v6);
        }
    }

    /// The tunnels that packets come in, by PDR.
    pub fn tunnels(&self) -> Vec<(u16, LocalTunnel)> {
        let config = self.config();
        let first = LocalTunnel { teid: self.teid, v4: self.v4, v6: self.v6 };
        let more = self.tunnels.iter();
        let more = more.map(|kept| (kept.pdr, LocalTunnel { teid: kept.teid, v4: kept.v4, v6: kept.v6 }));
        [(pdr_up(&config, config.qfi), first)].into_iter().chain(more).collect()
    }

    /// The tunnel that a PDR takes from.
    fn teid_of(&self, pdr: u16) -> Option<u32> {
        self.tunnels.iter().find(|tunnel| tunnel.pdr == pdr).map(|tunnel| tunnel.teid)
    }

    fn tunnel_address(&self) -> Option<IpAddr> {
        self.v4.map(IpAddr::V4).or(self.v6.map(IpAddr::V6))
    }

    /// That as a person reads it.
    pub fn tunnel_shown(&self) -> String {
        let at = self.tunnel_address().map_or(String::new(), |address| format!(" at {address}"));
        let config = self.config();
        let flows = config.flows.iter().filter(|_| config.bearers);
        let mut more: Vec<String> = flows
            .filter_map(|flow| {
                Some(format!(", {} {:#x}", flow.qfi, self.teid_of(pdr_up(&config, flow.qfi))?))
            })
            .collect();
        more.extend(self.teid_of(pdr_n9(config.qfi)).map(|teid| format!(", N9 {teid:#x}")));
        format!("{:#x}{at}{}", self.teid, more.concat())
    }

    /// For programs.
    pub fn json(&self) -> Json {
        let config = self.config();
        let ue: Vec<String> = config.ue.iter().map(|ue| ue.address.to_string()).collect();
        let bearer = |flow: &SessionFlow| {
            let teid = self.teid_of(pdr_up(&config, flow.qfi));
            json!({ "qfi": flow.qfi, "teid": teid, "station_teid": flow.teid })
        };
        let mut told = json!({
            "name": self.name,
            "seid": format!("{:#x}", self.seid),
            "cp_seid": self.cp_seid,
            "ue": ue,
            "teid": self.teid,
            "n3_address": self.tunnel_address(),
            "station": config.station,
            "station_teid": config.teid,
            "qfis": config.flows.iter().map(|flow| flow.qfi).chain([config.qfi]).collect::<Vec<_>>(),
        });
        if config.bearers {
            told["bearers"] = config.flows.iter().map(bearer).collect();
        }
        if config.core.is_some() {
            told["core"] = json!({
                "address": config.core, "teid": config.core_teid, "teid_here": self.teid_of(pdr_n9(config.qfi)),
            });
        }
        told
    }
}

/// Why a session cannot be asked for.
pub fn wrong(session: &SessionConfig, told: String) -> Failure {
    Failure::Input(format!(
        "session {:?}: {told}. Remedy: docs/upf.md says how filters are written",
        session.name
    ))
}

#[derive(Serialize, Deserialize)]
struct Content {
    recovery: u32,
    last: u64,
    sessions: Vec<KeptSession>,
}

/// See the [module documentation](self). Nobody else changes it meanwhile.
pub struct KeptSessions {
    path: PathBuf,
    _lock: Option<File>,
    /// When session management started, in seconds of NTP: when the file was made.
    pub recovery: u32,
    last: u64,
    /// All that were asked for and not ended.
    pub sessions: Vec<KeptSession>,
}

fn failed(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::Failed(format!(
        "cannot keep sessions in {}: {error}. Remedy: name another file with --state",
        path.display()
    ))
}

fn file_of(state: &Option<PathBuf>, upf: SocketAddr, own: IpAddr) -> Result<PathBuf, Failure> {
    if let Some(path) = state {
        return Ok(path.clone());
    }
    // SAFETY: it has no arguments and always succeeds.
    let folder = match unsafe { libc::geteuid() } {
        0 => PathBuf::from(weir_operate::FOLDER),
        _ => match std::env::var_os("XDG_RUNTIME_DIR") {
            Some(folder) => PathBuf::from(folder).join("weir"),
            None => {
                let told =
                    "there is no $XDG_RUNTIME_DIR to keep sessions in. Remedy: name a file with --state";
                return Err(Failure::Failed(told.into()));
            }
        },
    };
    std::fs::create_dir_all(&folder).map_err(|error| failed(&folder, error))?;
    // Two user planes may have one address.
    let port = if upf.port() == PFCP_PORT { String::new() } else { format!("-{}", upf.port()) };
    let name = format!("sessions-{}{port}-{own}.json", upf.ip()).replace(':', "_");
    Ok(folder.join(name))
}

impl KeptSessions {
    /// Reads the file, and has it alone; without one nothing was asked for.
    pub fn open(state: &Option<PathBuf>, upf: SocketAddr, own: IpAddr) -> Result<KeptSessions, Failure> {
        let path = file_of(state, upf, own)?;
        let name = path.with_extension("lock");
        let open = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&name);
        let lock = open.and_then(|lock| lock.lock().map(|()| lock)).map_err(|error| failed(&name, error))?;
        KeptSessions::content(path, Some(lock))
    }

    /// Reads the file to look at it.
    pub fn read(state: &Option<PathBuf>, upf: SocketAddr, own: IpAddr) -> Result<KeptSessions, Failure> {
        KeptSessions::content(file_of(state, upf, own)?, None)
    }

    fn content(path: PathBuf, lock: Option<File>) -> Result<KeptSessions, Failure> {
        let content = match std::fs::read(&path) {
            Ok(octets) => serde_json::from_slice::<Content>(&octets).map_err(|error| error.to_string()),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok(Content { recovery: now(), last: 0, sessions: Vec::new() })
            }
            Err(error) => return Err(failed(&path, error)),
        };
        let readable = |content: &Content| content.sessions.iter().all(|session| session.read().is_some());
        match content {
            Ok(content) if readable(&content) => {
                let Content { recovery, last, sessions } = content;
                Ok(KeptSessions { path, _lock: lock, recovery, last, sessions })
            }
            other => Err(Failure::Failed(format!(
                "{} is no file of this version that keeps sessions{}. Remedy: remove it; the user plane ends the sessions \
                 when nobody answers its heartbeats",
                path.display(),
                other.err().map_or(String::new(), |error| format!(": {error}")),
            ))),
        }
    }

    /// Our number of the next session.
    pub fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Puts it on the disk as a whole.
    pub fn save(&self) -> Result<(), Failure> {
        let Self { recovery, last, sessions, path, .. } = self;
        let content = Content { recovery: *recovery, last: *last, sessions: sessions.clone() };
        let octets = serde_json::to_vec_pretty(&content).expect("plain data");
        let new = path.with_extension("new");
        let write = || -> std::io::Result<()> {
            let mut file =
                OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
            file.write_all(&octets)?;
            std::fs::rename(&new, path)
        };
        write().map_err(|error| failed(path, error))
    }

    /// A session by its name, or its number at the user plane.
    pub fn find(&self, session: &str) -> Option<usize> {
        let hex = session.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let seid = hex.or_else(|| session.parse().ok());
        self.sessions.iter().position(|other| other.name == session || Some(other.seid) == seid)
    }

    /// The same, which must be there.
    pub fn place(&self, session: &str) -> Result<usize, Failure> {
        self.find(session).ok_or_else(|| {
            let near = weir_config::nearest(session, self.sessions.iter().map(|other| other.name.as_str()));
            let near = near.map_or(String::new(), |near| format!("did you mean {near:?}? "));
            Failure::Input(format!(
                "no session {session:?} was asked for. Remedy: {near}`weir upf session list` shows all; the file of another \
                 call is named with --state"
            ))
        })
    }
}

/// Seconds of NTP, which wrap in 2036.
fn now() -> u32 {
    const UNIX_IN_NTP: u64 = 2_208_988_800;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs() + UNIX_IN_NTP) as u32
}
