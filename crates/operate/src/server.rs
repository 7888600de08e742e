//! The thread that answers: HTTP on the control socket and, for metrics, on a TCP address.
//!
//! Everything has a bound: connections, the bytes of a head and of a body, and the time that a client may
//! take to send or to read. Changes go to whoever runs the program, one after the other, through a queue of
//! fixed length.

use crate::answers::{Answer, answer, json, refuse};
use crate::api::{self, Endpoint, ROUTES, Route};
use crate::board::Board;
use crate::metrics;
use crate::model::{Applied, ConfigurationChange, Health, Refused, Status, WhatIf};
use crate::page::{self, Door, Viewed};
use crate::what_if::{Simulate, Simulator};
use http_body_util::{BodyExt, Limited};
use hyper::body::Body;
use hyper::header::{ACCEPT, ALLOW, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio_io_timeout::TimeoutStream;

/// Most bytes of a body that is sent here.
pub const BODY_MAX: usize = 64 << 10;
/// Most bytes of a head, and of what a connection holds of a request at once.
pub const HEADERS_MAX: usize = 16 << 10;
/// Most connections at once of the control socket.
pub const CONNECTIONS_MAX: usize = 64;
/// Most connections at once of the page, of which a browser takes up to six, and of the address of metrics.
pub const PAGE_CONNECTIONS_MAX: usize = 512;
/// How long a client may take to send a request, and to take some bytes of the answer.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// How long a connection of the control socket may rest between requests.
const IDLE: Duration = Duration::from_secs(60);
/// Orders that wait for whoever runs the program.
const ORDERS_MAX: usize = 16;
/// How long an answer to an order is waited for.
const ANSWER: Duration = Duration::from_secs(10);
/// A rest after an error of accepting, such as too many open files.
const REST: Duration = Duration::from_millis(100);

/// Who asked for something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Who {
    /// Somebody at the control socket.
    Process {
        /// Number of the user.
        uid: u32,
        /// Number of the process, where the kernel tells.
        pid: Option<i32>,
    },
    /// Somebody at the page, with the token, from this address.
    Page(SocketAddr),
}

impl std::fmt::Display for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (uid, pid) = match self {
            Who::Process { uid, pid } => (uid, pid),
            Who::Page(address) => return write!(f, "the page, {address}"),
        };
        write!(f, "uid {uid}")?;
        let Some(pid) = pid else { return Ok(()) };
        let program = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        // A name is whatever its process makes of it.
        let program: String = program.trim_end().chars().filter(|c| !c.is_control()).collect();
        if program.is_empty() { write!(f, ", pid {pid}") } else { write!(f, ", pid {pid} ({program})") }
    }
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Keys of the configuration get other values.
    Set {
        /// Keys and values in TOML.
        values: BTreeMap<String, String>,
        /// Whether it is only checked.
        dry_run: bool,
    },
    /// The file is read again.
    Reload {
        /// Whether it is only checked.
        dry_run: bool,
    },
    /// The run ends, and the kernel forwards.
    Drain,
}

/// A command, who gave it, and where the answer goes.
#[derive(Debug)]
pub struct Order {
    /// Who gave it.
    pub who: Who,
    /// What is to be done.
    pub command: Command,
    answer: oneshot::Sender<Result<Applied, Refused>>,
}

impl Order {
    /// Whether nobody waits for the answer any more: who gave it was told that none came.
    pub fn is_given_up(&self) -> bool {
        self.answer.is_closed()
    }

    /// Says what became of it. Whoever gave it may have gone.
    pub fn answer(self, answer: Result<Applied, Refused>) {
        let _ = self.answer.send(answer);
    }
}

/// Where it listens.
#[derive(Debug, Default)]
pub struct Sockets {
    /// For everything.
    pub control: Option<UnixListener>,
    /// For metrics and health, also of other links of this program, by their boards.
    pub metrics: Option<(TcpListener, Vec<Board>)>,
    /// For the page, and who may change something there.
    pub page: Option<(TcpListener, page::Token)>,
}

/// What answers, before its thread begins.
pub struct Server {
    sockets: Sockets,
    asked: Asked,
}

/// What every request needs.
#[derive(Clone)]
struct Asked {
    board: Board,
    orders: SyncSender<Order>,
    viewed: Viewed,
    simulator: Option<Simulator>,
}

/// Where somebody came in.
#[derive(Clone)]
enum Entry {
    /// The control socket.
    Control(Who),
    /// The address of metrics, which are told of these.
    Metrics(Arc<[Board]>),
    /// The page.
    Page(SocketAddr, Arc<Door>),
}

impl Server {
    /// Answers from a board; orders come out at the other end.
    pub fn new(sockets: Sockets, board: Board) -> (Server, Receiver<Order>) {
        let (orders, ordered) = sync_channel(ORDERS_MAX);
        let viewed = Viewed::new(board.clone());
        (Server { sockets, asked: Asked { board, orders, viewed, simulator: None } }, ordered)
    }

    /// What its directions would do can be asked for, too.
    pub fn simulating(mut self, simulate: Simulate) -> Server {
        self.asked.simulator = Some(Simulator::new(simulate));
        self
    }

    /// Answers on a thread of its own until the program ends. `first` is done on that thread before anything
    /// is read, to give up rights.
    pub fn start(self, first: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let Server { sockets, asked } = self;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let Sockets { control, metrics, page } = sockets;
        control.as_ref().map_or(Ok(()), |listener| listener.set_nonblocking(true))?;
        metrics.as_ref().map_or(Ok(()), |(listener, _)| listener.set_nonblocking(true))?;
        page.as_ref().map_or(Ok(()), |(listener, _)| listener.set_nonblocking(true))?;
        let serve = move || {
            first();
            runtime.block_on(async {
                let local = tokio::task::LocalSet::new();
                // Within the runtime, to which they belong.
                let control = control.and_then(|listener| tokio::net::UnixListener::from_std(listener).ok());
                let metrics = metrics.and_then(|(listener, beside)| {
                    let boards = [vec![asked.board.clone()], beside].concat();
                    Some((tokio::net::TcpListener::from_std(listener).ok()?, boards.into()))
                });
                let page = page.and_then(|(listener, token)| {
                    let door = Door::new(listener.local_addr().ok()?, token);
                    Some((tokio::net::TcpListener::from_std(listener).ok()?, Arc::new(door)))
                });
                local.spawn_local(asked.viewed.clone().feed());
                if let Some((listener, door)) = page {
                    local.spawn_local(serve_page(listener, door, asked.clone()));
                }
                let others = asked.clone();
                let on_socket = async move {
                    match control {
                        Some(listener) => serve_control(listener, others).await,
                        None => std::future::pending().await,
                    }
                };
                let on_address = async move {
                    match metrics {
                        Some((listener, boards)) => serve_metrics(listener, boards, asked).await,
                        None => std::future::pending().await,
                    }
                };
                local.spawn_local(on_socket);
                local.spawn_local(on_address);
                local.await;
            });
        };
        std::thread::Builder::new().name("weir-control".into()).spawn(serve)?;
        Ok(())
    }
}

async fn serve_control(listener: tokio::net::UnixListener, asked: Asked) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let who = stream.peer_cred().map(|peer| Who::Process { uid: peer.uid(), pid: peer.pid() });
                // Who does not say who it is is not answered.
                let Ok(who) = who else { continue };
                admit(&open, stream, asked.clone(), Entry::Control(who), (CONNECTIONS_MAX, IDLE));
            }
            Err(_) => tokio::time::sleep(REST).await,
        }
    }
}

async fn serve_metrics(listener: tokio::net::TcpListener, boards: Arc<[Board]>, asked: Asked) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // As at the page: everybody may come here, and nobody is to keep monitoring out.
                let entry = Entry::Metrics(boards.clone());
                admit(&open, stream, asked.clone(), entry, (PAGE_CONNECTIONS_MAX, PATIENCE));
            }
            Err(_) => tokio::time::sleep(REST).await,
        }
    }
}

/// How those stand that run; all of them once none does any more.
fn statuses(boards: &[Board]) -> Vec<Status> {
    let running: Vec<Status> = boards.iter().filter(|board| !board.is_over()).map(Board::status).collect();
    if running.is_empty() { boards.iter().map(Board::status).collect() } else { running }
}

async fn serve_page(listener: tokio::net::TcpListener, door: Arc<Door>, asked: Asked) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Whoever says nothing gives way soon: everybody may come here.
                let entry = Entry::Page(peer, door.clone());
                admit(&open, stream, asked.clone(), entry, (PAGE_CONNECTIONS_MAX, PATIENCE));
            }
            Err(_) => tokio::time::sleep(REST).await,
        }
    }
}

/// A place among the connections, which is given back when it is dropped.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers on a connection, if there is a place for it; else it is closed at once.
fn admit<S>(open: &Arc<AtomicUsize>, stream: S, asked: Asked, entry: Entry, (most, idle): (usize, Duration))
where
    S: AsyncRead + AsyncWrite + 'static,
{
    let place = Place(open.clone());
    if open.fetch_add(1, Ordering::Relaxed) >= most {
        return;
    }
    let mut stream = TimeoutStream::new(stream);
    // Heads and bodies have times of their own; a viewer says nothing as long as it looks.
    stream.set_write_timeout(Some(PATIENCE));
    let service = hyper::service::service_fn(move |request| {
        let (asked, entry) = (asked.clone(), entry.clone());
        async move {
            let mut answer = respond(request, &asked, &entry).await;
            page::harden(answer.headers_mut());
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    tokio::task::spawn_local(async move {
        let _place = place;
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(idle)
            .max_buf_size(HEADERS_MAX)
            .serve_connection(TokioIo::new(Box::pin(stream)), service);
        // What goes wrong here is the client's affair.
        let _ = connection.await;
    });
}

/// The route of a request, or why there is none.
fn find(method: &Method, path: &str, is_public: bool) -> Result<&'static Route, Box<Answer>> {
    let known = || ROUTES.iter().filter(|route| route.is_public || !is_public);
    let here: Vec<&Route> = known().filter(|route| route.path == path).collect();
    if let Some(route) = here.iter().find(|route| route.method == method.as_str()) {
        return Ok(route);
    }
    if here.is_empty() {
        let mut paths: Vec<&str> = known().map(|route| route.path).collect();
        // One with several methods is there for each.
        paths.dedup();
        let error = format!("there is nothing at this path. Remedy: ask for one of {}", paths.join(", "));
        return Err(Box::new(refuse(StatusCode::NOT_FOUND, error)));
    }
    let methods: Vec<&str> = here.iter().map(|route| route.method).collect();
    let methods = methods.join(", ");
    let mut answer = refuse(StatusCode::METHOD_NOT_ALLOWED, format!("this path takes {methods}"));
    if let Ok(value) = HeaderValue::from_str(&methods) {
        answer.headers_mut().insert(ALLOW, value);
    }
    Err(Box::new(answer))
}

async fn respond<B>(request: Request<B>, asked: &Asked, entry: &Entry) -> Answer
where
    B: Body,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let route = match find(request.method(), request.uri().path(), matches!(entry, Entry::Metrics(_))) {
        Ok(route) => route,
        Err(answer) => return *answer,
    };
    let who = match entry {
        Entry::Control(who) => Some(who.clone()),
        Entry::Metrics(_) => None,
        Entry::Page(peer, door) => match door.admit(request.method(), request.headers(), route) {
            Ok(()) => Some(Who::Page(*peer)),
            Err(answer) => return *answer,
        },
    };
    let (told, by_link) = match entry {
        Entry::Metrics(boards) => (statuses(boards), boards.len() > 1),
        _ => (vec![asked.board.status()], false),
    };
    let health = |of: fn(&Status) -> Health| {
        let health = Health::of_all(&told, by_link, of);
        json(if health.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &health)
    };
    match (route.endpoint, who) {
        (Endpoint::Status, _) => json(StatusCode::OK, &asked.board.status()),
        (Endpoint::Users, _) => asked.board.customers().answer(request.uri().query()),
        (Endpoint::Plans, _) => asked.board.customers().answer_plan(request.uri().query()),
        (Endpoint::Configuration, _) => json(StatusCode::OK, &asked.board.configuration()),
        (Endpoint::Description, _) => json(StatusCode::OK, &api::description()),
        (Endpoint::Events, _) => asked.viewed.answer(matches!(entry, Entry::Page(..))),
        (Endpoint::File(file), _) => answer(StatusCode::OK, file.kind, file.text.into()),
        (Endpoint::Health, _) => health(Status::health),
        (Endpoint::Ready, _) => health(Status::readiness),
        (Endpoint::Metrics, _) => {
            let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
            if accept.is_some_and(|accept| accept.contains("application/openmetrics-text")) {
                answer(StatusCode::OK, metrics::OPENMETRICS, metrics::openmetrics(&told, by_link))
            } else {
                answer(StatusCode::OK, metrics::PLAIN, metrics::plain(&told, by_link))
            }
        }
        (endpoint @ (Endpoint::Change | Endpoint::Reload | Endpoint::Drain), Some(who)) => {
            match command(endpoint, request).await {
                Ok(command) => order(asked, who, command).await,
                Err(answer) => *answer,
            }
        }
        (Endpoint::WhatIf, Some(_)) => match (&asked.simulator, what_if(request).await) {
            (_, Err(answer)) => *answer,
            (None, _) => refuse(StatusCode::CONFLICT, "what this program's queues would do is not computed"),
            (Some(simulator), Ok(what_if)) => simulator.answer(what_if, asked.board.configuration()).await,
        },
        // `find` gives no such route to the public.
        (_, None) => refuse(StatusCode::FORBIDDEN, "only the control socket takes this"),
    }
}

/// Reads a body within its bounds.
async fn body<B>(request: Request<B>) -> Result<hyper::body::Bytes, Box<Answer>>
where
    B: Body,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let wrong = |status, error: String| Err(Box::new(refuse(status, error)));
    let body = Limited::new(request.into_body(), BODY_MAX);
    match tokio::time::timeout(PATIENCE, std::pin::pin!(body).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            wrong(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {BODY_MAX} bytes"))
        }
        Ok(Err(_)) => wrong(StatusCode::BAD_REQUEST, "the body did not come whole".into()),
        Err(_) => {
            let error = format!("the body did not come within {} s", PATIENCE.as_secs());
            wrong(StatusCode::REQUEST_TIMEOUT, error)
        }
    }
}

/// Reads what is to be computed.
async fn what_if<B>(request: Request<B>) -> Result<WhatIf, Box<Answer>>
where
    B: Body,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    serde_json::from_slice(&body(request).await?).map_err(|error| {
        let like = "Remedy: send an object such as {\"direction\": \"a_to_b\", \"set\": {\"policy.target_max\": \"20ms\"}}";
        let error = format!("the body is not what is asked for: {error}. {like}");
        Box::new(refuse(StatusCode::BAD_REQUEST, error))
    })
}

/// Reads what is to be done.
async fn command<B>(endpoint: Endpoint, request: Request<B>) -> Result<Command, Box<Answer>>
where
    B: Body,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let wrong = |status, error: String| Err(Box::new(refuse(status, error)));
    let body = body(request).await?;
    let change = match endpoint {
        Endpoint::Drain => return Ok(Command::Drain),
        Endpoint::Reload if body.is_empty() => ConfigurationChange::default(),
        _ => match serde_json::from_slice::<ConfigurationChange>(&body) {
            Ok(change) => change,
            Err(error) => {
                let like = "Remedy: send an object such as {\"set\": {\"a_to_b.rate\": \"50Mbit/s\"}}";
                return wrong(
                    StatusCode::BAD_REQUEST,
                    format!("the body is not what is asked for: {error}. {like}"),
                );
            }
        },
    };
    match endpoint {
        Endpoint::Reload if !change.set.is_empty() => {
            wrong(StatusCode::BAD_REQUEST, "`set` has no place in a reload: the file says it all".into())
        }
        Endpoint::Reload => Ok(Command::Reload { dry_run: change.dry_run }),
        _ if change.set.is_empty() => {
            wrong(StatusCode::BAD_REQUEST, "`set` names no key. Remedy: name at least one".into())
        }
        _ => Ok(Command::Set { values: change.set, dry_run: change.dry_run }),
    }
}

/// Has it done by whoever runs the program.
async fn order(asked: &Asked, who: Who, command: Command) -> Answer {
    let (sender, answered) = oneshot::channel();
    let busy = |error: &str| refuse(StatusCode::SERVICE_UNAVAILABLE, error);
    match asked.orders.try_send(Order { who, command, answer: sender }) {
        Ok(()) => {}
        Err(TrySendError::Full(_)) => {
            return busy("too many changes wait. Remedy: try again when they are done");
        }
        Err(TrySendError::Disconnected(_)) => return busy("it ends"),
    }
    match tokio::time::timeout(ANSWER, answered).await {
        Ok(Ok(Ok(applied))) => json(StatusCode::OK, &applied),
        Ok(Ok(Err((status, refusal)))) => {
            json(StatusCode::from_u16(status).unwrap_or(StatusCode::UNPROCESSABLE_ENTITY), &refusal)
        }
        Ok(Err(_)) => busy("it ends"),
        Err(_) => {
            busy("no answer came, and whether it was done is not known. Remedy: look at the configuration")
        }
    }
}
