//! The page: who may ask there, and what viewers are told as long as they look.
//!
//! A status is written once for all viewers, twice a second and only while somebody looks. Each viewer has
//! room for one; who reads slowly misses those between, and who does not read at all is closed by the
//! connection's own bound.

use crate::answers::{Answer, Stream, refuse};
use crate::api::{Endpoint, Route};
use crate::board::Board;
use crate::model::{DirectionStatus, Status};
use hyper::body::Bytes;
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderMap, HeaderValue,
    ORIGIN, REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Response, StatusCode};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use subtle::ConstantTimeEq;
use tokio::sync::{mpsc, watch};

/// Where the page is by default: on this machine alone.
pub const ADDRESS: &str = "127.0.0.1:9470";
/// The file of the token in the folder of control sockets. It outlives a run, so that a page that is open
/// goes on with the next.
pub const TOKEN_FILE: &str = "page.token";
/// Most viewers at once, of the page and of the socket each.
pub const VIEWERS_MAX: usize = 128;
/// Between two statuses.
const PERIOD: Duration = Duration::from_millis(500);
/// Points of the history: five minutes.
const HISTORY_MAX: usize = 600;
/// Bytes of a token, which is written in hexadecimal digits.
const TOKEN_BYTES: usize = 24;

/// Says to browsers that nothing foreign belongs here, and that nothing is to be kept.
pub(crate) fn harden(headers: &mut HeaderMap) {
    const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                          base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

/// What whoever changes something at the page must know.
#[derive(Clone)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    /// It is in no log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// That of a folder, which is made with the first: its owner alone may read it.
    pub fn of(folder: &Path) -> io::Result<Token> {
        let path = folder.join(TOKEN_FILE);
        match Token::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            known => return known,
        }
        let token = Token::new()?;
        // It gets its name when it is whole: another program may start now, too.
        let unnamed = folder.join(format!("{TOKEN_FILE}.{}", &token.0[..16]));
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unnamed)?;
        let named = file.write_all(token.0.as_bytes()).and_then(|()| std::fs::hard_link(&unnamed, &path));
        let _ = std::fs::remove_file(&unnamed);
        match named {
            Ok(()) => Ok(token),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Token::read(&path),
            Err(error) => Err(error),
        }
    }

    fn read(path: &Path) -> io::Result<Token> {
        let text = std::fs::read_to_string(path)?;
        let is_whole = text.len() == 2 * TOKEN_BYTES && text.bytes().all(|c| c.is_ascii_hexdigit());
        let is_private = std::fs::metadata(path)?.permissions().mode() & 0o077 == 0;
        if !is_whole || !is_private {
            let why = format!("{} is no token, or others may read it. Remedy: remove it", path.display());
            return Err(io::Error::other(why));
        }
        Ok(Token(text))
    }

    /// One that nobody can guess.
    pub fn new() -> io::Result<Token> {
        let mut bytes = [0; TOKEN_BYTES];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// In hexadecimal digits.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether it is this one. How long that takes says nothing of how much of it is right.
    fn is(&self, text: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(text).into()
    }
}

/// Who may ask at the page, and for what.
#[derive(Debug)]
pub(crate) struct Door {
    token: Token,
    /// Whether it is reached from this machine alone: then who looks needs no token.
    is_local: bool,
}

impl Door {
    pub(crate) fn new(address: SocketAddr, token: Token) -> Door {
        Door { token, is_local: address.ip().is_loopback() }
    }

    /// Whether a request is answered; otherwise the refusal.
    pub(crate) fn admit(
        &self,
        method: &Method,
        headers: &HeaderMap,
        route: &Route,
    ) -> Result<(), Box<Answer>> {
        let forbidden = |why: &str| Err(Box::new(refuse(StatusCode::FORBIDDEN, why)));
        let text = |name| -> Option<&str> {
            let mut all = headers.get_all(name).iter();
            let first = all.next()?;
            // Several are none.
            if all.next().is_some() { Some("") } else { Some(first.to_str().unwrap_or("")) }
        };
        // A name that others have a say in may lead here from a foreign page (DNS rebinding).
        let host = text(HOST).unwrap_or("");
        if !is_address(host) {
            return forbidden(
                "the page is asked for by an address or as localhost. Remedy: use one in place of a name",
            );
        }
        let is_own = |origin: &str| {
            origin
                .strip_prefix("http://")
                .or(origin.strip_prefix("https://"))
                .is_some_and(|rest| rest == host)
        };
        if text(ORIGIN).is_some_and(|origin| !is_own(origin)) {
            return forbidden("a page of another origin may not ask here");
        }
        let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
        let is_foreign = site.is_some_and(|site| site != b"same-origin" && site != b"none");
        // A link elsewhere may lead to the page, and to nothing else.
        if is_foreign && !matches!(route.endpoint, Endpoint::File(_)) {
            return forbidden("a page of another origin may not ask here");
        }
        let is_file = matches!(route.endpoint, Endpoint::File(_));
        if is_file || (self.is_local && method == Method::GET) {
            return Ok(());
        }
        let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
        let given = given.strip_prefix(b"Bearer ").unwrap_or_default();
        if self.token.is(given) {
            return Ok(());
        }
        let remedy = "Remedy: open the page as `weir ctl page` prints it, or enter the token that is in /run/weir/page.token";
        let why = if given.is_empty() { "this takes the token" } else { "this is not the token" };
        let mut answer = refuse(StatusCode::UNAUTHORIZED, format!("{why}. {remedy}"));
        answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        Err(Box::new(answer))
    }
}

/// Whether a host is an address, or this machine by its own name, whatever the port.
fn is_address(host: &str) -> bool {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.port() > 0;
    }
    if host.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv4()) {
        return true;
    }
    if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return inner.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let name =
        host.split_once(':').map_or(host, |(name, port)| if port.parse::<u16>().is_ok() { name } else { "" });
    name == "localhost"
}

/// Viewers, and what they are told. It stays in the thread of the server.
#[derive(Clone, Debug)]
pub(crate) struct Viewed {
    board: Board,
    /// The latest status as an event.
    latest: watch::Sender<Bytes>,
    /// Those of the control socket and those of the page, where everybody of this machine may look.
    viewers: [Arc<AtomicUsize>; 2],
}

thread_local! {
    /// Points of the last minutes: a server has one thread, and only it asks.
    static HISTORY: RefCell<VecDeque<Vec<Option<f64>>>> = const { RefCell::new(VecDeque::new()) };
}

/// A viewer, who is counted as long as it is told something.
struct Viewer(Arc<AtomicUsize>);

impl Drop for Viewer {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Viewed {
    pub(crate) fn new(board: Board) -> Viewed {
        Viewed { board, latest: watch::Sender::new(Bytes::new()), viewers: Default::default() }
    }

    /// Writes a status twice a second, if somebody looks, and keeps a few numbers of each.
    pub(crate) async fn feed(self) {
        let mut names = Vec::new();
        loop {
            tokio::time::sleep(PERIOD).await;
            let status = self.board.status();
            let told: Vec<String> = status.directions.iter().map(|d| d.name.clone()).collect();
            // Points have their directions by number.
            let are_others = !told.is_empty() && told != names;
            if are_others {
                names = told;
            }
            HISTORY.with_borrow_mut(|history| {
                if are_others {
                    history.clear();
                }
                history.push_back(point(&status));
                if history.len() > HISTORY_MAX {
                    history.pop_front();
                }
            });
            if self.latest.receiver_count() > 0 {
                self.latest.send_replace(event("status", &status));
            }
        }
    }

    /// Tells somebody at the page, or at the control socket, how the program stands until they go.
    pub(crate) fn answer(&self, is_at_page: bool) -> Answer {
        let viewers = &self.viewers[usize::from(is_at_page)];
        let viewer = Viewer(viewers.clone());
        if viewers.fetch_add(1, Ordering::Relaxed) >= VIEWERS_MAX {
            let why = format!("{VIEWERS_MAX} others look already. Remedy: try again when one has gone");
            return refuse(StatusCode::SERVICE_UNAVAILABLE, why);
        }
        let (sender, events) = mpsc::channel(1);
        let (mut latest, board) = (self.latest.subscribe(), self.board.clone());
        tokio::task::spawn_local(async move {
            let _viewer = viewer;
            let history = HISTORY.with_borrow(|history| event("history", history));
            // In one piece, so that the first picture is whole.
            let first = [history, event("status", &board.status())].concat();
            if sender.send(first.into()).await.is_err() {
                return;
            }
            while latest.changed().await.is_ok() {
                let text = latest.borrow_and_update().clone();
                if sender.send(text).await.is_err() {
                    return;
                }
            }
        });
        let mut answer = Response::new(Stream::Events(events));
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        answer
    }
}

/// An event as its readers understand it.
fn event(name: &str, value: &impl serde::Serialize) -> Bytes {
    // Plain data is always JSON, in one line.
    let text = serde_json::to_string(value).unwrap_or_default();
    Bytes::from(format!("event: {name}\ndata: {text}\n\n"))
}

/// Numbers of each direction in a point of the history; the script of the page has the same list.
const NUMBERS: usize = 10;

/// What is kept of a status: the time in milliseconds since 1970, and the same numbers of each direction.
fn point(status: &Status) -> Vec<Option<f64>> {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |at| at.as_millis() as f64);
    let numbers = |d: &DirectionStatus| -> [Option<f64>; NUMBERS] {
        let policy = d.policy.as_ref();
        [
            d.utilization,
            d.delay_mean_ms,
            Some(d.delay_max_ms),
            d.setpoint_ms,
            Some(d.delivered_bps),
            d.rate_bps,
            policy.map(|policy| policy.utilization_low),
            policy.map(|policy| policy.utilization_target),
            policy.map(|policy| policy.target_min_ms),
            policy.map(|policy| policy.target_max_ms),
        ]
    };
    // Three digits of a microsecond are enough, and a fifth of the bytes.
    let short = |number: f64| (number * 1e4).round() / 1e4;
    let all = [Some(at)].into_iter().chain(status.directions.iter().flat_map(numbers));
    all.map(|number| number.map(short)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ROUTES;
    use crate::files::{HTML, SCRIPT, STYLE};

    fn route(method: &str, path: &str) -> &'static Route {
        ROUTES.iter().find(|route| route.method == method && route.path == path).unwrap()
    }

    /// The status with which a request is refused, or 200.
    fn asked(door: &Door, method: &str, path: &str, headers: &[(&'static str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let path = route(method.as_str(), path);
        door.admit(&method, &map, path).map_or_else(|answer| answer.status().as_u16(), |()| 200)
    }

    #[test]
    fn who_may_look_and_who_may_change() {
        let token = Token::new().unwrap();
        let good = format!("Bearer {}", token.text());
        let wrong = format!("Bearer {}0", &token.text()[1..]);
        let door = Door::new("127.0.0.1:9470".parse().unwrap(), token.clone());
        let host = ("host", "127.0.0.1:9470");
        for (method, path, headers, status) in [
            ("GET", "/v1/status", vec![host], 200),
            ("PATCH", "/v1/config", vec![host], 401),
            ("PATCH", "/v1/config", vec![host, ("authorization", wrong.as_str())], 401),
            ("PATCH", "/v1/config", vec![host, ("authorization", &good[7..])], 401),
            ("PATCH", "/v1/config", vec![host, ("authorization", good.as_str())], 200),
            (
                "PATCH",
                "/v1/config",
                vec![host, ("authorization", good.as_str()), ("origin", "http://127.0.0.1:9470")],
                200,
            ),
            (
                "POST",
                "/v1/drain",
                vec![host, ("authorization", good.as_str()), ("origin", "http://127.0.0.1:9471")],
                403,
            ),
            ("POST", "/v1/drain", vec![host, ("authorization", good.as_str()), ("origin", "null")], 403),
            (
                "POST",
                "/v1/drain",
                vec![host, ("authorization", good.as_str()), ("sec-fetch-site", "cross-site")],
                403,
            ),
            ("GET", "/v1/status", vec![host, ("sec-fetch-site", "same-site")], 403),
            ("GET", "/", vec![host, ("sec-fetch-site", "cross-site")], 200),
            ("GET", "/v1/status", vec![("host", "localhost:8000")], 200),
            ("GET", "/v1/status", vec![("host", "[::1]:9470")], 200),
            ("GET", "/v1/status", vec![("host", "evil.example:9470")], 403),
            ("GET", "/v1/status", vec![("host", "localhost.evil.example")], 403),
            ("GET", "/v1/status", vec![host, host], 403),
            ("GET", "/", vec![], 403),
        ] {
            assert_eq!(asked(&door, method, path, &headers), status, "{method} {path} {headers:?}");
        }
        // Where others reach it, looking takes the token, too; the page that asks for it does not.
        let open = Door::new("192.0.2.1:9470".parse().unwrap(), token);
        let host = ("host", "192.0.2.1:9470");
        assert_eq!(asked(&open, "GET", "/v1/events", &[host]), 401);
        assert_eq!(asked(&open, "GET", "/v1/events", &[host, ("authorization", good.as_str())]), 200);
        assert_eq!(asked(&open, "GET", "/page.js", &[host]), 200);
    }

    #[test]
    fn a_token_is_its_owners_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let first = Token::of(folder.path()).unwrap();
        let path = folder.path().join(TOKEN_FILE);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Token::of(folder.path()).unwrap().text(), first.text());
        assert_ne!(Token::new().unwrap().text(), first.text());
        assert!(!format!("{first:?}").contains(first.text()));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Token::of(folder.path()).unwrap_err().to_string().contains("Remedy"));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        assert!(Token::of(folder.path()).is_err(), "an empty token would let everybody in");
    }

    #[test]
    fn the_files_ask_nobody_else() {
        for file in [&HTML, &STYLE, &SCRIPT] {
            let foreign = ["http://", "https://", "//cdn", "@import", "eval(", "innerHTML"];
            // Names of XML vocabularies are asked of nobody.
            let text = file.text.replace("http://www.w3.org/2000/svg", "");
            for words in foreign {
                assert!(!text.contains(words), "{words} in {}", file.kind);
            }
        }
        let list = SCRIPT.text.split("const NUMBERS = [").nth(1).unwrap().split(']').next().unwrap();
        assert_eq!(list.split(',').filter(|name| !name.trim().is_empty()).count(), NUMBERS);
    }
}
