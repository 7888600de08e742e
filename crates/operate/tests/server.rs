//! The server over real sockets: what it answers, and what it refuses within which bounds.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_operate::client::{Client, Failure};
use weir_operate::page::Token;
use weir_operate::{
    AlarmStatus, Applied, BODY_MAX, Board, CONNECTIONS_MAX, Command, Configuration, ConfigurationChange,
    ControlSocket, Customers, Delays, DirectionStatus, Forecast, HEADERS_MAX, PAGE_CONNECTIONS_MAX, Packets,
    PlanFound, PortStatus, Refusal, SensingStatus, Server, Sockets, Status, UserPlaneStatus, VIEWERS_MAX,
    Valued, WhatIf, Who, api, metrics,
};

struct Running {
    _folder: tempfile::TempDir,
    socket: ControlSocket,
    address: SocketAddr,
    page: SocketAddr,
    token: Token,
    board: Board,
    /// Whether a computation was ended as nobody waited any more.
    was_left: Arc<AtomicBool>,
}

/// Longest wait for what should happen at once, on a machine that others use.
const AT_LAST: Duration = Duration::from_secs(60);
/// Flows with which a computation goes on until nobody waits any more.
const ENDLESS: u32 = 999;

/// Computes nothing, and says on what it was computed.
fn compute(
    asked: &WhatIf,
    configuration: &Configuration,
    stop: &AtomicBool,
    left: &AtomicBool,
) -> Result<Forecast, (u16, Refusal)> {
    let begun = Instant::now();
    while asked.flows == ENDLESS && !stop.load(Ordering::Relaxed) {
        if begun.elapsed() > 2 * AT_LAST {
            return Err((503, Refusal::plain("nobody went")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    left.store(stop.load(Ordering::Relaxed), Ordering::Relaxed);
    // SAFETY: it has no arguments but this thread.
    let scheduler = unsafe { libc::sched_getscheduler(0) };
    let notes = vec![configuration.file.clone(), format!("scheduler {scheduler}")];
    Ok(Forecast { direction: asked.direction.clone(), notes, ..Forecast::default() })
}

fn status() -> Status {
    let delays = Delays { bounds_s: vec![0.001, 0.002], counts: vec![3, 2, 1], sum_s: 0.01 };
    let direction = DirectionStatus {
        name: "a_to_b".into(),
        rate_bps: Some(8e6),
        capacity_bytes: 1000.0,
        utilization: Some(0.99),
        delays,
        setpoint_ms: Some(2.5),
        moves: [("raise".to_string(), 7)].into(),
        ..DirectionStatus::default()
    };
    let port = PortStatus { name: "eth\"1".into(), is_up: true, lost_frames: 2 };
    Status {
        title: "eth1 <-> eth2".into(),
        version: "1.2.3".into(),
        directions: vec![direction],
        ports: vec![port],
        ..Status::default()
    }
}

/// A server whose orders are answered with what was asked for.
fn start() -> Running {
    let folder = tempfile::tempdir().unwrap();
    let mut socket = ControlSocket::bind(folder.path(), 0).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let board = Board::default();
    board.publish(status());
    let file = "bridge.toml".to_string();
    board.configured(Configuration { file, ..Configuration::default() });
    let page = TcpListener::bind("127.0.0.1:0").unwrap();
    let page_address = page.local_addr().unwrap();
    let token = Token::new().unwrap();
    let sockets = Sockets {
        control: socket.take(),
        metrics: Some((listener, Vec::new())),
        page: Some((page, token.clone())),
    };
    let (server, orders) = Server::new(sockets, board.clone());
    let was_left = Arc::<AtomicBool>::default();
    let left = was_left.clone();
    let simulate = move |asked: &WhatIf, configuration: &Configuration, stop: &AtomicBool| {
        compute(asked, configuration, stop, &left)
    };
    server.simulating(Arc::new(simulate)).start(|| {}).unwrap();
    std::thread::spawn(move || {
        for order in orders {
            let own = std::process::id() as i32;
            match &order.who {
                Who::Process { pid, .. } => assert_eq!(*pid, Some(own), "who asks is told by the kernel"),
                Who::Page(address) => assert!(address.ip().is_loopback()),
            }
            let changed = match &order.command {
                Command::Set { values, .. } => values
                    .iter()
                    .map(|(key, to)| Valued { key: key.clone(), from: None, to: Some(to.clone()) })
                    .collect(),
                Command::Reload { .. } => Vec::new(),
                Command::Drain => {
                    order.answer(Err((409, Refusal::plain("not now"))));
                    continue;
                }
            };
            order.answer(Ok(Applied { changed, ..Applied::default() }));
        }
    });
    Running { _folder: folder, socket, address, page: page_address, token, board, was_left }
}

fn client(running: &Running) -> Client {
    Client::connect(running.socket.path()).unwrap()
}

/// What comes back on a connection of its own for bytes as they are.
fn exchange(mut stream: impl Read + Write, request: &[u8]) -> String {
    // The other side may close while this one still sends.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut part) {
        answer.extend_from_slice(&part[..n]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn unix(running: &Running) -> UnixStream {
    let stream = UnixStream::connect(running.socket.path()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

#[test]
fn what_if_is_computed_one_at_a_time_on_what_nobody_wants_and_only_as_long_as_somebody_waits() {
    let running = start();
    let asked = |flows| WhatIf { direction: "a_to_b".into(), flows, ..WhatIf::default() };
    let mut first = client(&running);
    let told: Forecast = first.ask("POST", "/v1/what-if", Some(&asked(5))).unwrap();
    assert_eq!(told.direction, "a_to_b");
    assert_eq!(told.notes, ["bridge.toml".to_string(), format!("scheduler {}", libc::SCHED_IDLE)]);
    // At the page it takes the token; what is not understood is refused.
    let post = |token: &str, body: &str| {
        format!(
            "POST /v1/what-if HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            running.page,
            body.len()
        )
    };
    let ask = |request: String| exchange(TcpStream::connect(running.page).unwrap(), request.as_bytes());
    assert!(ask(post("no", "{}")).starts_with("HTTP/1.1 401"));
    assert!(ask(post(running.token.text(), "{}")).starts_with("HTTP/1.1 200"));
    let told = ask(post(running.token.text(), r#"{"flow": 5}"#));
    assert!(told.starts_with("HTTP/1.1 400") && told.contains("Remedy"), "{told}");
    // A second question is refused while one is computed.
    let mut busy = TcpStream::connect(running.page).unwrap();
    let endless = post(running.token.text(), &format!("{{\"flows\": {ENDLESS}}}"));
    busy.write_all(endless.as_bytes()).unwrap();
    let deadline = Instant::now() + AT_LAST;
    while !ask(post(running.token.text(), "{}")).starts_with("HTTP/1.1 503") {
        assert!(Instant::now() < deadline);
    }
    // Others are answered meanwhile.
    assert_eq!(client(&running).raw("GET", "/v1/status", None).unwrap().0, 200);
    // Whoever asked goes: the computation ends, and the place is free.
    running.was_left.store(false, Ordering::Relaxed);
    drop(busy);
    let deadline = Instant::now() + AT_LAST;
    while !running.was_left.load(Ordering::Relaxed) {
        assert!(Instant::now() < deadline, "it goes on though nobody waits");
        std::thread::sleep(Duration::from_millis(5));
    }
    while !ask(post(running.token.text(), "{}")).starts_with("HTTP/1.1 200") {
        assert!(Instant::now() < deadline);
    }
}

#[test]
fn every_route_of_the_description_is_answered_as_described() {
    let running = start();
    let mut client = client(&running);
    // Events do not end.
    for route in api::ROUTES.iter().filter(|route| route.endpoint != api::Endpoint::Events) {
        let body = match route.endpoint {
            api::Endpoint::Change => Some(r#"{"set":{"a":"1"}}"#.to_string()),
            api::Endpoint::WhatIf => Some("{}".into()),
            _ => None,
        };
        let (status, kind, text) = client.raw(route.method, route.path, body).unwrap();
        let described = &api::description()["paths"][route.path][route.method.to_lowercase()];
        let wanted = if status == 200 { "200" } else { "default" };
        assert!(
            described["responses"][wanted]["content"][&kind].is_object(),
            "{route:?}: {status} {kind} {text}"
        );
        // This program does not end, and has no plans of customers.
        let is_refused = ["/v1/drain", "/v1/plans"].contains(&route.path);
        assert_eq!(status, if is_refused { 409 } else { 200 }, "{route:?}: {text}");
    }
    let told: Status = client.ask("GET", "/v1/status", None::<&()>).unwrap();
    assert_eq!((told.title.as_str(), told.directions.len()), ("eth1 <-> eth2", 1));
    let configuration: Configuration = client.ask("GET", "/v1/config", None::<&()>).unwrap();
    assert_eq!(configuration.file, "bridge.toml");
    let (_, _, description) = client.raw("GET", "/v1/openapi.json", None).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&description).unwrap(), api::description());
    let change = ConfigurationChange {
        set: [("a_to_b.rate".to_string(), "5Mbit/s".to_string())].into(),
        dry_run: true,
    };
    let applied: Applied = client.ask("PATCH", "/v1/config", Some(&change)).unwrap();
    assert_eq!(applied.changed[0].to.as_deref(), Some("5Mbit/s"));
}

#[test]
fn bad_requests_are_refused_with_a_reason_and_the_next_is_answered() {
    let running = start();
    let mut client = client(&running);
    let long = format!(r#"{{"set":{{"a":"{}"}}}}"#, "x".repeat(BODY_MAX));
    let deep = "[".repeat(10_000);
    let cases = [
        ("GET", "/nothing", None, 404, "/v1/status"),
        ("GET", "/v1/status/", None, 404, "nothing at this path"),
        ("DELETE", "/v1/config", None, 405, "GET, PATCH"),
        ("PATCH", "/v1/config", None, 400, "Remedy"),
        ("PATCH", "/v1/config", Some("{"), 400, "Remedy"),
        ("PATCH", "/v1/config", Some("\u{0}"), 400, "Remedy"),
        ("PATCH", "/v1/config", Some(r#"{"set":{}}"#), 400, "names no key"),
        ("PATCH", "/v1/config", Some(r#"{"sett":{"a":"1"}}"#), 400, "unknown field `sett`"),
        ("PATCH", "/v1/config", Some(r#"{"set":{"a":1}}"#), 400, "expected a string"),
        ("PATCH", "/v1/config", Some(deep.as_str()), 400, "Remedy"),
        ("PATCH", "/v1/config", Some(long.as_str()), 413, "65536"),
        ("POST", "/v1/reload", Some(r#"{"set":{"a":"1"}}"#), 400, "the file says it all"),
    ];
    for (method, path, body, status, words) in cases {
        let mut client = Client::connect(running.socket.path()).unwrap();
        let (found, _, text) = client.raw(method, path, body.map(String::from)).unwrap();
        let refusal: Refusal = serde_json::from_str(&text).unwrap();
        assert_eq!(found, status, "{method} {path}: {text}");
        assert!(refusal.error.contains(words), "{method} {path}: {text}");
    }
    assert!(client.ask::<Status>("GET", "/v1/status", None::<&()>).is_ok());
    let refused = client.ask::<Applied>("POST", "/v1/drain", None::<&()>);
    assert_eq!(refused, Err(Failure::Refused(409, Refusal::plain("not now"))));
    // What is no HTTP, and a head that does not end.
    for request in [&b"\x16\x03\x01 hello\r\n\r\n"[..], &b"GET / HTTP/1.1\r\nx: ".repeat(HEADERS_MAX)] {
        let answer = exchange(unix(&running), request);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    assert!(client.ask::<Status>("GET", "/v1/status", None::<&()>).is_ok());
}

#[test]
fn a_body_that_does_not_come_is_waited_for_so_long_and_no_longer() {
    let running = start();
    let begun = Instant::now();
    let slow = b"PATCH /v1/config HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 10\r\n\r\n{";
    let answer = exchange(unix(&running), slow);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(begun.elapsed() >= weir_operate::PATIENCE && begun.elapsed() < 3 * weir_operate::PATIENCE);
}

#[test]
fn connections_beyond_the_bound_are_closed_and_others_go_on() {
    let running = start();
    let mut early = client(&running);
    assert!(early.ask::<Status>("GET", "/v1/status", None::<&()>).is_ok());
    let held: Vec<UnixStream> = (1..CONNECTIONS_MAX).map(|_| unix(&running)).collect();
    let late = exchange(unix(&running), b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(late, "");
    assert!(early.ask::<Status>("GET", "/v1/status", None::<&()>).is_ok());
    // The TCP address has bounds of its own.
    let scrape = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    assert!(exchange(TcpStream::connect(running.address).unwrap(), scrape).contains("weir_uptime_seconds"));
    drop(held);
    let deadline = Instant::now() + AT_LAST;
    while Client::connect(running.socket.path())
        .and_then(|mut client| client.ask::<Status>("GET", "/v1/status", None::<&()>))
        .is_err()
    {
        assert!(Instant::now() < deadline, "places are given back");
    }
}

#[test]
fn a_tcp_address_has_metrics_and_health_and_nothing_else() {
    let running = start();
    let ask = |request: &str, accept: &str| {
        let request = format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{accept}\r\n");
        exchange(TcpStream::connect(running.address).unwrap(), request.as_bytes())
    };
    for route in api::ROUTES {
        let answer = ask(&format!("{} {}", route.method, route.path), "");
        let wanted = if route.is_public { "HTTP/1.1 200" } else { "HTTP/1.1 404" };
        assert!(answer.starts_with(wanted), "{route:?}: {answer}");
    }
    let open = ask("GET /metrics", "accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n");
    assert!(open.contains(metrics::OPENMETRICS) && open.trim_end().ends_with("# EOF"), "{open}");
    let plain = ask("GET /metrics", "");
    assert!(plain.contains(metrics::PLAIN) && !plain.contains("# EOF"), "{plain}");
    running.board.publish(Status { silent_s: 4.0, ..status() });
    assert!(ask("GET /health", "").starts_with("HTTP/1.1 503"));
    let down = PortStatus { name: "eth1".into(), ..PortStatus::default() };
    running.board.publish(Status { ports: vec![down], ..status() });
    assert!(ask("GET /health", "").starts_with("HTTP/1.1 200"));
    let ready = ask("GET /ready", "");
    assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("eth1 is down"), "{ready}");
}

#[test]
fn metrics_are_named_and_typed_by_the_conventions() {
    let open = metrics::openmetrics(&[status()], false);
    for line in [
        "# TYPE weir_queue_delay_seconds histogram",
        "# UNIT weir_queue_delay_seconds seconds",
        "weir_queue_delay_seconds_bucket{le=\"0.002\",direction=\"a_to_b\"} 5",
        "weir_queue_delay_seconds_bucket{le=\"+Inf\",direction=\"a_to_b\"} 6",
        "weir_queue_delay_seconds_count{direction=\"a_to_b\"} 6",
        "weir_queue_moves_total{direction=\"a_to_b\",rule=\"raise\"} 7",
        "weir_link_capacity_bytes_total{direction=\"a_to_b\"} 1000.0",
        "weir_queue_setpoint_seconds{direction=\"a_to_b\"} 0.0025",
        "weir_port_lost_frames_total{port=\"eth\\\"1\"} 2",
    ] {
        assert!(open.lines().any(|found| found == line), "{line}\n{open}");
    }
    let plain = metrics::plain(&[status()], false);
    assert!(plain.contains("# TYPE weir_queue_moves_total counter\n"), "{plain}");
    assert!(plain.contains("# HELP weir_queue_moves_total "), "{plain}");
    check("metrics_are_named_and_typed_by_the_conventions", &plain);
}

#[test]
fn an_address_of_several_links_tells_of_each_by_its_name_and_of_none_that_has_ended() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let boards = [Board::default(), Board::default()];
    let titled = |title: &str| Status { title: title.into(), ..status() };
    boards[0].publish(titled("first"));
    boards[1].publish(Status { silent_s: 4.0, ..titled("second") });
    let sockets = Sockets { metrics: Some((listener, vec![boards[1].clone()])), ..Sockets::default() };
    let (server, _orders) = Server::new(sockets, boards[0].clone());
    server.start(|| {}).unwrap();
    let ask = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        exchange(TcpStream::connect(address).unwrap(), request.as_bytes())
    };
    let told = ask("/metrics");
    for link in ["first", "second"] {
        for line in [
            format!("weir_queue_moves_total{{link=\"{link}\",direction=\"a_to_b\",rule=\"raise\"}} 7"),
            format!("weir_port_lost_frames_total{{link=\"{link}\",port=\"eth\\\"1\"}} 2"),
        ] {
            assert!(told.lines().any(|found| found == line), "{line}\n{told}");
        }
    }
    assert_eq!(told.matches("# TYPE weir_queue_delay_seconds histogram").count(), 1, "one family: {told}");
    if promtool().is_some() {
        let test = "an_address_of_several_links_tells_of_each_by_its_name_and_of_none_that_has_ended";
        check(test, told.split_once("\r\n\r\n").unwrap().1);
    }
    let health = ask("/health");
    assert!(health.starts_with("HTTP/1.1 503") && health.contains("second: the packet loop"), "{health}");
    boards[1].end();
    let told = ask("/metrics");
    assert!(told.contains("link=\"first\"") && !told.contains("link=\"second\""), "{told}");
    assert!(ask("/health").starts_with("HTTP/1.1 200"));
}

/// Prometheus's own judgement, where it is installed.
fn check(test: &str, plain: &str) {
    let Some(promtool) = promtool() else {
        return println!("SKIPPED: {test}: `promtool` is not installed");
    };
    let mut child = std::process::Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(plain.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}\n{plain}");
}

fn promtool() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("promtool")).find(|program| program.is_file())
}

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data");

/// Names of metrics in a text.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("weir_")).map(String::from).collect()
}

#[test]
fn customers_are_told_one_by_one_up_to_a_bound_and_all_together() {
    let user = |n: u32| weir_operate::UserStatus {
        name: format!("c{n}"),
        delivered_bytes: 1000 + u64::from(n),
        rate_bps: Some(8e6),
        ..weir_operate::UserStatus::default()
    };
    let users = weir_operate::UsersStatus {
        planned: 5000,
        delivered_bps: 80e6,
        users: (0..100).map(user).collect(),
        ..weir_operate::UsersStatus::default()
    };
    let direction = DirectionStatus { users: Some(users), ..status().directions[0].clone() };
    let open = metrics::openmetrics(&[Status { directions: vec![direction], ..status() }], false);
    for line in [
        "weir_user_delivered_bytes_total{direction=\"a_to_b\",user=\"c19\"} 1019",
        "weir_user_rate_bytes_per_second{direction=\"a_to_b\",user=\"c0\"} 1000000.0",
        "weir_users_delivered_bytes_per_second{direction=\"a_to_b\"} 10000000.0",
        "weir_users_planned{direction=\"a_to_b\"} 5000",
    ] {
        assert!(open.lines().any(|found| found == line), "{line}\n{open}");
    }
    let told = open.lines().filter(|line| line.starts_with("weir_user_delivered_bytes_total")).count();
    assert_eq!(told, 20, "series are bounded however many customers there are");
}

/// A status of which every metric has a value.
fn whole() -> Status {
    let user = weir_operate::UserStatus {
        name: "Meyer, \"J.\"".into(),
        rate_bps: Some(5e6),
        delay_mean_ms: Some(1.5),
        delay_p95_ms: Some(4.5),
        rtt_ms: Some(12.5),
        outcome: Some(0.875),
        ..weir_operate::UserStatus::default()
    };
    let direction = DirectionStatus {
        policy: Some(weir_operate::PolicyStatus::default()),
        faults: [("runt".to_string(), 1)].into(),
        users_placed: Some(1),
        users: Some(weir_operate::UsersStatus { users: vec![user], ..weir_operate::UsersStatus::default() }),
        delay_p95_ms: Some(3.0),
        packets: Packets { came_marked: Some(7), acks_filtered: 3, ..Packets::default() },
        sensing: Some(SensingStatus {
            state: "fallen back".into(),
            sent: 10,
            lost: 4,
            rtt_ms: Some(20.0),
            is_fallen_back: Some(false),
            cuts: Some(3),
            ..SensingStatus::default()
        }),
        ..status().directions[0].clone()
    };
    let counts = || [("one".to_string(), 1)].into();
    let user_plane = UserPlaneStatus {
        session_events: counts(),
        messages: counts(),
        reports: counts(),
        discarded: counts(),
        ..UserPlaneStatus::default()
    };
    let gaps = direction.delays.clone();
    let alarm = |name: &str| AlarmStatus { alarm: name.into(), ..AlarmStatus::default() };
    let alarms = vec![
        AlarmStatus { direction: Some("a_to_b".into()), is_raised: true, ..alarm("drops") },
        AlarmStatus { port: Some("eth1".into()), ..alarm("port_down") },
    ];
    Status { directions: vec![direction], gaps, alarms, user_plane: Some(user_plane), ..status() }
}

/// Names of the families of metrics in the older text format.
fn families(plain: &str) -> BTreeSet<String> {
    let named = |line: &str| Some(line.strip_prefix("# TYPE ")?.split(' ').next()?.to_string());
    plain.lines().filter_map(named).collect()
}

/// Metrics that `docs/operation.md` has in its table.
fn documented() -> BTreeSet<String> {
    let text = std::fs::read_to_string(format!("{DATA}/../docs/operation.md")).unwrap();
    let section = text.split("\n## Metrics\n").nth(1).unwrap();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `weir_")?.split(" |").next());
    let names = cells.flat_map(|cell| {
        let cell = format!("`weir_{cell}");
        let quoted: Vec<String> = cell.split('`').skip(1).step_by(2).map(String::from).collect();
        quoted
    });
    names.map(|name| name.split('{').next().unwrap().to_string()).collect()
}

#[test]
fn the_page_on_operation_has_every_metric_and_no_other() {
    let (there, told) = (families(&metrics::plain(&[whole()], false)), documented());
    let missing: Vec<_> = there.difference(&told).collect();
    let unknown: Vec<_> = told.difference(&there).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing: {missing:?}; not emitted: {unknown:?}");
    // Labels, too.
    let text = std::fs::read_to_string(format!("{DATA}/../docs/operation.md")).unwrap();
    let labels = text.lines().find(|line| line.starts_with("Labels are ")).unwrap();
    let open = metrics::openmetrics(&[whole()], false);
    let samples = open.lines().filter(|line| !line.starts_with('#'));
    let keys =
        samples.flat_map(|line| line.split(['{', ',']).skip(1).filter_map(|pair| pair.split_once("=\"")));
    for key in
        keys.map(|(key, _)| key).filter(|key| *key != "le" && key.chars().all(|c| c.is_ascii_lowercase()))
    {
        assert!(labels.contains(&format!("`{key}`")), "{key}: {labels}");
    }
}

/// As `docs/operation.md` says.
#[test]
fn series_are_bounded_however_many_customers_and_flows_there_are() {
    let buckets = Delays { bounds_s: (0..21).map(f64::from).collect(), counts: vec![1; 22], sum_s: 1.0 };
    let rules = ["lower", "raise", "to virtual", "virtual on", "virtual off", "rate down", "rate up"];
    let faults = ["runt", "malformed", "too_long", "delay_line_full", "stale"];
    let count = |names: &[&str]| names.iter().map(|name| (name.to_string(), 1)).collect();
    let of_run = |users: Option<weir_operate::UsersStatus>| {
        let direction = |name: &str, sensing: Option<SensingStatus>| DirectionStatus {
            name: name.into(),
            delays: buckets.clone(),
            moves: count(&rules),
            faults: count(&faults),
            users: users.clone(),
            delay_p95_ms: None,
            sensing,
            ..whole().directions[0].clone()
        };
        let sensing = whole().directions[0].sensing.clone();
        let directions = vec![direction("a_to_b", sensing), direction("b_to_a", None)];
        let port = |name: &str| PortStatus { name: name.into(), ..PortStatus::default() };
        let ports = vec![port("a"), port("b")];
        let status = Status { directions, gaps: buckets.clone(), ports, user_plane: None, ..status() };
        // Which alarms there are follows from what there is.
        let board = Board::default();
        board.publish(status);
        assert!(board.take_alarmed().is_empty());
        board.status()
    };
    let series = |status: &Status| {
        metrics::plain(std::slice::from_ref(status), false)
            .lines()
            .filter(|line| !line.starts_with('#'))
            .count()
    };
    let user = whole().directions[0].users.as_ref().unwrap().users[0].clone();
    let users =
        (0..100).map(|n| weir_operate::UserStatus { name: format!("c{n}"), ..user.clone() }).collect();
    let users = weir_operate::UsersStatus { users, ..weir_operate::UsersStatus::default() };
    let queue =
        DirectionStatus { delay_p95_ms: Some(1.0), aqm: "codel".into(), ..DirectionStatus::default() };
    let of_plane = |queues: usize| Status {
        directions: vec![queue.clone(); queues],
        ports: Vec::new(),
        user_plane: whole().user_plane,
        ..status()
    };
    let found =
        [series(&of_run(None)), series(&of_run(Some(users))), series(&of_plane(2)) - series(&of_plane(1))];
    let text = std::fs::read_to_string(format!("{DATA}/../docs/operation.md")).unwrap();
    let [alone, with_users, of_queue] = found;
    let said = [
        format!("fewer than {} of `weir run`", alone.next_multiple_of(10)),
        format!("with customers fewer than {}", with_users.next_multiple_of(10)),
        format!("`weir upf` {of_queue} of each queue"),
    ];
    for words in said {
        assert!(text.contains(&words), "{words}: {found:?}");
    }
}

#[test]
fn every_metric_is_named_and_typed_by_the_conventions() {
    let open = metrics::openmetrics(&[whole()], false);
    for line in [
        "weir_user_outcome_ratio{direction=\"a_to_b\",user=\"Meyer, \\\"J.\\\"\"} 0.875",
        "weir_user_delay_p95_seconds{direction=\"a_to_b\",user=\"Meyer, \\\"J.\\\"\"} 0.0045",
        "weir_alarm{alarm=\"drops\",direction=\"a_to_b\"} 1",
        "weir_alarm{alarm=\"port_down\",port=\"eth1\"} 0",
        "weir_link_arrived_marked_packets_total{direction=\"a_to_b\"} 7",
        "weir_link_filtered_acknowledgements_total{direction=\"a_to_b\"} 3",
        "weir_sense_sent_probes_total{direction=\"a_to_b\"} 10",
        "weir_sense_probes_total{direction=\"a_to_b\",outcome=\"lost\"} 4",
        "weir_sense_state{direction=\"a_to_b\"} 3",
        "weir_sense_rtt_seconds{direction=\"a_to_b\"} 0.02",
    ] {
        assert!(open.lines().any(|found| found == line), "{line}\n{open}");
    }
    check("every_metric_is_named_and_typed_by_the_conventions", &metrics::plain(&[whole()], false));
}

#[test]
fn dashboard_and_alerts_ask_for_metrics_that_there_are() {
    let there = metrics_in(&metrics::plain(&[whole()], false));
    for file in ["grafana/weir.json", "prometheus/alerts.yml"] {
        let text = std::fs::read_to_string(format!("{DATA}/{file}")).unwrap();
        let asked = metrics_in(&text);
        assert!(asked.len() > 8, "{file}: {asked:?}");
        let missing: Vec<_> = asked.difference(&there).collect();
        assert!(missing.is_empty(), "{file}: {missing:?}");
    }
    let dashboard = std::fs::read(format!("{DATA}/grafana/weir.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_slice(&dashboard).unwrap();
    // Whatever can be drawn is drawn.
    let drawn = metrics_in(&dashboard.to_string());
    let left: Vec<&String> = there
        .iter()
        .filter(|name| {
            // The utilization is drawn from the counters, over the time that the reader looks at.
            ![
                "build_info",
                "uptime",
                "arrived_packets",
                "delivered_packets",
                "backlog_packets",
                "queue_users",
                "link_utilization",
            ]
            .iter()
            .any(|no| name.contains(no))
        })
        .filter(|name| {
            let family = ["_bucket", "_count", "_sum"].iter().find_map(|end| name.strip_suffix(end));
            !drawn.iter().any(|drawn| drawn.starts_with(family.unwrap_or(name)))
        })
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn every_alarm_has_a_rule_that_asks_for_it() {
    let rules = std::fs::read_to_string(format!("{DATA}/prometheus/alerts.yml")).unwrap();
    let docs = std::fs::read_to_string(format!("{DATA}/../docs/operation.md")).unwrap();
    for alarm in weir_operate::ALARMS {
        assert!(docs.contains(&format!("| `{alarm}` |")), "{alarm}: docs/operation.md");
        // That of a silent loop asks for how long: whoever tells of alarms may be silent, too.
        let asks = rules.contains(&format!("alarm=\"{alarm}\"}} == 1")) || alarm == "loop_silent";
        assert!(asks, "{alarm}");
    }
}

#[test]
fn alerts_fire_when_a_fault_is_made_and_not_before() {
    let Some(promtool) = promtool() else {
        return println!(
            "SKIPPED: alerts_fire_when_a_fault_is_made_and_not_before: `promtool` is not installed"
        );
    };
    for arguments in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]] {
        let output = std::process::Command::new(&promtool)
            .args(arguments)
            .current_dir(format!("{DATA}/prometheus"))
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
    }
}

/// A request to the page, as a browser would send it.
fn at_page(running: &Running, request: &str, headers: &str, body: &str) -> String {
    let host = running.page;
    let length = body.len();
    let request = format!(
        "{request} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    exchange(tcp(running.page), request.as_bytes())
}

fn tcp(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

#[test]
fn at_the_page_everybody_of_this_machine_looks_and_who_has_the_token_changes() {
    let running = start();
    let page = at_page(&running, "GET /", "", "");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<title>Weir</title>"), "{page}");
    for header in [
        "content-security-policy: default-src 'none'",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
    ] {
        assert!(page.contains(header), "{header}: {page}");
    }
    let change = r#"{"set":{"a_to_b.rate":"5Mbit/s"}}"#;
    let origin = format!("origin: http://{}\r\n", running.page);
    let good = format!("authorization: Bearer {}\r\n", running.token.text());
    let wrong = format!("authorization: Bearer {}\r\n", Token::new().unwrap().text());
    for (headers, wanted) in [
        (origin.clone(), "HTTP/1.1 401"),
        (origin.clone() + &wrong, "HTTP/1.1 401"),
        (origin.clone() + &good, "HTTP/1.1 200"),
        ("origin: http://evil.example\r\n".to_string() + &good, "HTTP/1.1 403"),
    ] {
        let answer = at_page(&running, "PATCH /v1/config", &headers, change);
        assert!(answer.starts_with(wanted), "{headers}: {answer}");
    }
    // A body that is too long is refused, and what waits behind it, too.
    let long = format!(r#"{{"set":{{"a":"{}"}}}}"#, "x".repeat(BODY_MAX));
    assert!(at_page(&running, "PATCH /v1/config", &good, &long).starts_with("HTTP/1.1 413"));
    assert!(at_page(&running, "GET /v1/status", "", "").starts_with("HTTP/1.1 200"));
}

/// Reads events until something is in them.
fn read_until(stream: &mut impl Read, words: &str) -> String {
    let (mut text, mut part) = (String::new(), [0; 4096]);
    while !text.contains(words) {
        let length = stream.read(&mut part).unwrap();
        assert!(length > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&part[..length]));
    }
    text
}

fn viewer(running: &Running) -> TcpStream {
    let mut stream = tcp(running.page);
    write!(stream, "GET /v1/events HTTP/1.1\r\nhost: {}\r\n\r\n", running.page).unwrap();
    stream
}

#[test]
fn viewers_are_told_twice_a_second_and_those_who_do_not_read_cost_nothing() {
    let running = start();
    let mut first = viewer(&running);
    let begin = read_until(&mut first, "event: status");
    assert!(begin.contains("text/event-stream") && begin.contains("event: history"), "{begin}");
    // What was written to the board comes with the next.
    running.board.publish(Status { title: "another title".into(), ..status() });
    read_until(&mut first, "another title");
    // A hundred who look, and as many as there is room for who never read.
    let idle: Vec<TcpStream> = (1..VIEWERS_MAX).map(|_| viewer(&running)).collect();
    let mut readers: Vec<TcpStream> = idle.iter().take(100).map(|one| one.try_clone().unwrap()).collect();
    readers.iter_mut().for_each(|one| drop(read_until(one, "event: status")));
    let late = read_until(&mut viewer(&running), "others look already");
    assert!(late.contains("HTTP/1.1 503"), "{late}");
    let begun = Instant::now();
    let text = (0..4).map(|_| read_until(&mut first, "event: status")).collect::<String>();
    assert!(text.matches("event: status").count() <= 10, "{text}");
    assert!(begun.elapsed() < AT_LAST);
    // Places are given back.
    drop((readers, idle));
    let deadline = Instant::now() + AT_LAST;
    loop {
        let mut again = viewer(&running);
        let answer = read_until(&mut again, "\r\n\r\n");
        if answer.contains("HTTP/1.1 200") {
            break;
        }
        assert!(Instant::now() < deadline, "{answer}");
    }
}

#[test]
fn viewers_of_the_page_take_no_place_of_those_of_the_control_socket() {
    let running = start();
    let mut at_page: Vec<TcpStream> = (0..VIEWERS_MAX).map(|_| viewer(&running)).collect();
    at_page.iter_mut().for_each(|one| drop(read_until(one, "event: status")));
    let mut at_socket = unix(&running);
    at_socket.write_all(b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let answer = read_until(&mut at_socket, "\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn silent_connections_do_not_keep_monitoring_out_and_give_way() {
    let running = start();
    let held: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| tcp(running.address)).collect();
    let scrape = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    assert!(exchange(tcp(running.address), scrape).contains("weir_uptime_seconds"));
    for mut silent in held {
        silent.set_read_timeout(Some(8 * weir_operate::PATIENCE)).unwrap();
        silent.read_to_end(&mut Vec::new()).expect("it is closed long before a minute is over");
    }
}

#[test]
fn a_thousand_connections_leave_the_control_socket_and_metrics_alone_and_give_way() {
    let running = start();
    // Both ends are here.
    // SAFETY: the pointers are to a plain struct.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max.min(8192);
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
    let mut held = Vec::new();
    for _ in 0..1000 {
        // The kernel may refuse some, too.
        held.extend(TcpStream::connect_timeout(&running.page, Duration::from_secs(2)));
    }
    assert!(held.len() > PAGE_CONNECTIONS_MAX, "{}", held.len());
    let begun = Instant::now();
    assert!(client(&running).ask::<Status>("GET", "/v1/status", None::<&()>).is_ok());
    let scrape = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    assert!(exchange(tcp(running.address), scrape).contains("weir_uptime_seconds"));
    assert!(begun.elapsed() < weir_operate::PATIENCE, "{:?}", begun.elapsed());
    // Who says nothing has no place for long, and not for the minute that others have between two requests.
    let deadline = Instant::now() + 8 * weir_operate::PATIENCE;
    loop {
        let answer = at_page(&running, "GET /v1/status", "", "");
        if answer.starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(Instant::now() < deadline, "silent connections keep others out: {answer}");
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(held);
}

#[derive(Debug)]
struct OnePlan;

impl weir_operate::EachPlan for OnePlan {
    fn find(&self, key: &str) -> Result<PlanFound, String> {
        let values = [(key.to_string(), "\"5Mbit/s\"".to_string())].into();
        if key == "customers.a b.down" { Ok(PlanFound { values }) } else { Err("nobody".into()) }
    }
}

#[test]
fn a_plan_is_told_by_its_key() {
    let running = start();
    let mut client = client(&running);
    let mut ask = |path: &str| client.ask::<PlanFound>("GET", path, None::<&()>).map(|found| found.values);
    let refused = |answer: Result<_, Failure>| match answer {
        Err(Failure::Refused(status, refusal)) => (status, refusal.error),
        other => panic!("{other:?}"),
    };
    let (status, error) = refused(ask("/v1/plans?key=customers.a"));
    assert!(status == 409 && error.contains("users.file"), "{status} {error}");
    running.board.count(Customers { plans: Some(Arc::new(OnePlan)), ..Customers::default() });
    let values = ask("/v1/plans?key=customers.a%20b.down").unwrap();
    assert_eq!(values["customers.a b.down"], "\"5Mbit/s\"");
    assert_eq!(refused(ask("/v1/plans?key=customers.c")), (404, "nobody".into()));
    assert_eq!(refused(ask("/v1/plans")).0, 422);
}
