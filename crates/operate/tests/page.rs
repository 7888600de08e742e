//! The page in a real browser: Chromium opens it, follows a program, applies a policy and is refused.

mod browser;

use browser::{Browser, chromium};
use serde_json::json;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_operate::page::Token;
use weir_operate::{
    Applied, Board, Command, Configuration, Customers, DirectionStatus, Forecast, ForecastPoint, Move,
    Packets, PolicyStatus, PortStatus, Problem, Refusal, Server, Sockets, Status, UserStatus, UsersStatus,
    Valued, WhatIf, Who,
};

/// A program that runs: its status changes as that of a link does.
struct Program {
    address: SocketAddr,
    token: Token,
    policy: Arc<Mutex<PolicyStatus>>,
    /// Who changed something.
    who: Arc<Mutex<Vec<Who>>>,
    end: Arc<AtomicBool>,
    /// Whether it tells how its directions stand, which a program does from its first sample on.
    tells: Arc<AtomicBool>,
}

fn status(pid: u32, t_s: f64, policy: &PolicyStatus) -> Status {
    let wave = (t_s * 1.3).sin();
    let setpoint = 6.0 + 3.0 * (t_s * 0.4).sin();
    let delivered = 48.5e6 + 1.2e6 * wave;
    let measured = [("utilization".to_string(), 0.974), ("depth_ms".to_string(), 4.2)].into();
    let a_move =
        Move { t_s, rule: "raise".into(), from: setpoint - 1.0, to: setpoint, unit: "ms".into(), measured };
    let a_to_b = DirectionStatus {
        name: "a_to_b".into(),
        aqm: "gsp, steered".into(),
        rate_bps: Some(50e6),
        rate_key: Some("a_to_b.rate".into()),
        policy: Some(policy.clone()),
        delivered_bps: delivered,
        utilization: Some(delivered / 50e6),
        delay_mean_ms: Some(setpoint * 0.7 + wave),
        delay_max_ms: setpoint * 1.4 + 2.0,
        setpoint_ms: Some(setpoint),
        // For a second in every four the flows do not respond.
        table_state: if (t_s as u64).is_multiple_of(4) { 4 } else { 3 },
        backlog_bytes: 30_000,
        backlog_packets: 20,
        packets: Packets { dropped_on_arrival: 31, marked: 4711, overflowed: 2, ..Packets::default() },
        moves: [("raise".to_string(), (t_s as u64) + 3), ("lower".to_string(), 2)].into(),
        recent_moves: vec![a_move],
        ..DirectionStatus::default()
    };
    let customer = |name: &str, outcome: Option<f64>| UserStatus {
        name: name.into(),
        rate_bps: Some(20e6),
        delivered_bps: 5e5,
        rtt_ms: Some(12.3),
        outcome,
        ..UserStatus::default()
    };
    let users = vec![customer("baker", Some(0.875)), customer("cooper", None), customer("smith", Some(1.0))];
    let b_to_a = DirectionStatus {
        name: "b_to_a".into(),
        aqm: "unmanaged".into(),
        delivered_bps: 1.1e6,
        users: Some(UsersStatus { planned: 3, with_queue: 3, users, ..UsersStatus::default() }),
        ..DirectionStatus::default()
    };
    let port = |name: &str| PortStatus { name: name.into(), is_up: true, lost_frames: 0 };
    Status {
        verb: "run".into(),
        version: "0.1.0".into(),
        pid,
        title: "eth1 <-> eth2".into(),
        file: "/etc/weir/run/home.toml".into(),
        mode: "AF_XDP, native".into(),
        uptime_s: t_s,
        ports: vec![port("eth1"), port("eth2")],
        directions: vec![a_to_b, b_to_a],
        what_if: true,
        ..Status::default()
    }
}

/// A forecast by what was asked for; the program has the simulator here.
fn compute(asked: &WhatIf, _: &Configuration, _: &AtomicBool) -> Result<Forecast, (u16, Refusal)> {
    let Some(most) = asked.set.get("policy.target_max") else {
        return Err((422, Refusal::plain("key `policy.target_max` is missing. Remedy: name it")));
    };
    let most: f64 = most.trim_end_matches("ms").parse().unwrap();
    let delay = most * 0.6;
    let point = |i: u32| ForecastPoint {
        t_s: f64::from(i) / 2.0,
        utilization: 0.9 + 0.001 * f64::from(i % 7),
        delay_mean_ms: delay + f64::from(i % 5) * 0.2,
        delay_max_ms: most,
        setpoint_ms: Some(most),
    };
    Ok(Forecast {
        direction: asked.direction.clone(),
        aqm: "gsp, steered".into(),
        duration_s: 30.0,
        took_s: 0.4,
        rate_bps: 50e6,
        utilization: 0.903,
        delay_mean_ms: delay,
        delay_p95_ms: most,
        delay_max_ms: most,
        drops: u64::from(asked.flows),
        points: (1..=60).map(point).collect(),
        ..Forecast::default()
    })
}

/// What is put into force, or why not.
fn carry_out(command: &Command, policy: &Mutex<PolicyStatus>) -> Result<Applied, (u16, Refusal)> {
    let Command::Set { values, dry_run } = command else { return Err((409, Refusal::plain("not here"))) };
    let mut changed = Vec::new();
    for (key, value) in values {
        let ms: f64 = value.trim_end_matches("ms").parse().unwrap_or(f64::INFINITY);
        if key != "a_to_b.policy.target_max" || ms > 10_000.0 {
            let problem =
                Problem { key: Some(key.clone()), remedy: "name 10 s at most".into(), ..Problem::default() };
            let error = format!("key `{key}`: {value} is out of range. Remedy: name 10 s at most");
            return Err((422, Refusal { error, problems: vec![problem], needs_restart: false }));
        }
        if !dry_run {
            policy.lock().unwrap().target_max_ms = ms;
        }
        changed.push(Valued {
            key: key.clone(),
            from: Some("\"30ms\"".into()),
            to: Some(format!("\"{value}\"")),
        });
    }
    Ok(Applied { changed, at_s: (!dry_run).then_some(12.5), notes: Vec::new() })
}

fn start(pid: u32, token: Token, tells: bool) -> Program {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let board = Board::default();
    let policy = PolicyStatus {
        key: "a_to_b.policy".into(),
        utilization_low: 0.97,
        utilization_target: 1.0,
        target_min_ms: 0.5,
        target_max_ms: 30.0,
    };
    let policy = Arc::new(Mutex::new(policy));
    let (who, end) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let tells = Arc::new(AtomicBool::new(tells));
    let sockets = Sockets { page: Some((listener, token.clone())), ..Sockets::default() };
    let told = tells.clone();
    let stands = move |t_s: f64, policy: &Mutex<PolicyStatus>| {
        let mut status = status(pid, t_s, &policy.lock().unwrap());
        if !told.load(Ordering::Relaxed) {
            status.directions.clear();
        }
        status
    };
    board.publish(stands(0.0, &policy));
    // One that is not among those with the highest rates, and one that sends nothing.
    let quiet = UserStatus { name: "quiet miller".into(), outcome: Some(0.5), ..UserStatus::default() };
    let mut users = status(pid, 0.0, &policy.lock().unwrap()).directions[1].users.clone().unwrap().users;
    users.push(quiet);
    board.count(Customers {
        planned: Arc::new(vec!["quiet miller".into(), "idle jones".into()]),
        networks: Arc::new(vec![("192.0.2.7".parse().unwrap(), 32, 1)]),
        directions: vec![("b_to_a".into(), Arc::new(users))],
        ..Customers::default()
    });
    let (server, orders) = Server::new(sockets, board.clone());
    server.simulating(Arc::new(compute)).start(|| {}).unwrap();
    let (in_force, asked, stop) = (policy.clone(), who.clone(), end.clone());
    std::thread::spawn(move || {
        let begun = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            if let Ok(order) = orders.recv_timeout(Duration::from_millis(100)) {
                asked.lock().unwrap().push(order.who.clone());
                let answer = carry_out(&order.command, &in_force);
                order.answer(answer);
            }
            board.publish(stands(begun.elapsed().as_secs_f64() * 10.0, &in_force));
        }
    });
    Program { address, token, policy, who, end, tells }
}

/// A way to a program that can be cut and lead to another one.
struct Way {
    address: SocketAddr,
    to: Arc<Mutex<Option<SocketAddr>>>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

fn way(to: SocketAddr) -> Way {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let way = Way { address, to: Arc::new(Mutex::new(Some(to))), open: Arc::default() };
    let (leads, open) = (way.to.clone(), way.open.clone());
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let Some(far) = leads.lock().unwrap().and_then(|to| TcpStream::connect(to).ok()) else {
                continue;
            };
            for (from, to) in [(&near, &far), (&far, &near)] {
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
            open.lock().unwrap().extend([near, far]);
        }
    });
    way
}

impl Way {
    /// Cuts everything; from now on it leads elsewhere, or nowhere.
    fn lead(&self, to: Option<SocketAddr>) {
        *self.to.lock().unwrap() = to;
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Keeps a picture where it was asked for (`WEIR_PICTURES=FOLDER`).
fn keep(browser: &mut Browser, name: &str) {
    if let Some(folder) = std::env::var_os("WEIR_PICTURES") {
        std::fs::write(Path::new(&folder).join(name), browser.picture()).unwrap();
    }
}

const LIVE: &str = "document.getElementById('link').dataset.state === 'live' && document.querySelectorAll('.tile').length === 8";

#[test]
fn a_browser_follows_the_program_applies_a_policy_and_is_refused_without_the_token() {
    let Some(chromium) = chromium() else {
        return println!(
            "SKIPPED: a_browser_follows_the_program_applies_a_policy_and_is_refused_without_the_token: `chromium` is not \
             installed"
        );
    };
    let first = start(4711, Token::new().unwrap(), true);
    let way = way(first.address);
    let url = format!("http://{}/", way.address);
    let mut page = Browser::open(&chromium, &url, |_| {});
    page.until(LIVE);

    // It draws, and follows.
    page.until("document.querySelectorAll('#delay polyline').length >= 4 && document.querySelectorAll('#phase circle').length > 3");
    assert_eq!(page.text("title"), "eth1 <-> eth2");
    assert!(page.text("moves").contains("raise") && page.text("moves").contains("utilization 0.974"));
    let before = page.text("moves");
    page.until(&format!("document.getElementById('moves').innerText !== {}", json!(before)));
    assert!(page.text("used-text").contains("the policy asks for 97.0 %"), "{}", page.text("used-text"));
    page.until("document.querySelectorAll('.tile.bad')[0].innerText.endsWith('the flows do not respond')");

    // Search and sort.
    page.fill("search", "port up");
    assert_eq!(page.text("found"), "2 of 7");
    page.fill("search", "customer baker");
    page.until("document.getElementById('found').innerText.startsWith('1 of')");
    let cells = "[...document.querySelectorAll('#queues tbody td')].map((cell) => cell.innerText).join('|')";
    assert!(page.value(cells).to_string().contains("12.3 ms|87.5 %"), "{}", page.value(cells));
    for (search, row) in [("miller", "quiet miller"), ("192.0.2.7", "idle jones")] {
        page.fill("search", search);
        page.until(&format!(
            "[...document.querySelectorAll('#queues tbody th')].map((c) => c.innerText).join() === '{row}'"
        ));
    }
    page.fill("search", "");
    page.value(
        "[...document.querySelectorAll('#queues th button')].find((b) => b.innerText === 'marks').click()",
    );
    page.value(
        "[...document.querySelectorAll('#queues th button')].find((b) => b.innerText === 'marks').click()",
    );
    let sorted = "document.querySelector('#queues th[aria-sort=descending]').innerText + ': ' + \
                  document.querySelector('#queues tbody th').innerText";
    assert_eq!(page.value(sorted), "marks: a_to_b");

    // Without the token nothing changes; with it the policy does, at once.
    page.fill("target_max", "20");
    page.click("apply");
    page.until("document.getElementById('answer').dataset.kind === 'bad'");
    assert!(page.text("answer").contains("this takes the token"), "{}", page.text("answer"));
    assert!(first.who.lock().unwrap().is_empty() && first.policy.lock().unwrap().target_max_ms == 30.0);
    page.go("about:blank");
    page.go(&format!("{url}#token={}", first.token.text()));
    page.until(LIVE);
    assert_eq!(page.value("location.hash"), "", "the token stays in no history");
    page.fill("target_max", "20");
    page.click("check");
    page.until("document.getElementById('answer').innerText.startsWith('This would change')");
    assert_eq!(first.policy.lock().unwrap().target_max_ms, 30.0);
    page.click("apply");
    page.until("document.getElementById('answer').innerText.startsWith('In force since 12.500 s')");
    assert_eq!(first.policy.lock().unwrap().target_max_ms, 20.0);
    assert!(first.who.lock().unwrap().iter().all(|who| matches!(who, Who::Page(_))));
    page.until("[...document.querySelectorAll('.tile')].some((t) => t.innerText.includes('to 20.0 ms'))");
    page.fill("target_max", "99s");
    page.click("apply");
    page.until("document.getElementById('answer').innerText.includes('Remedy: name 10 s at most')");
    page.click("undo");

    // What changes elsewhere while somebody types is shown, and not changed back.
    page.fill("target_max", "22");
    first.policy.lock().unwrap().utilization_low = 0.5;
    page.until("document.getElementById('utilization_low').value === '50'");
    page.click("check");
    page.until("document.getElementById('answer').innerText.startsWith('This would change')");
    let answer = page.text("answer");
    assert!(answer.contains("target_max") && !answer.contains("utilization_low"), "{answer}");
    first.policy.lock().unwrap().utilization_low = 0.97;
    page.click("undo");
    // The address with the token, given to the page that is open.
    page.fill("token", "");
    page.value(&format!("location.hash = 'token={}'", first.token.text()));
    page.until(&format!("document.getElementById('token').value === '{}'", first.token.text()));
    assert_eq!(page.value("location.hash"), "");

    // What if: drawn beside what is measured, and nothing is put into force.
    assert_eq!(page.value("document.querySelectorAll('svg .guess').length"), 0);
    page.click("compute");
    page.until("document.getElementById('forecast').dataset.kind === 'bad'");
    assert!(page.text("forecast").contains("Remedy: name it"), "{}", page.text("forecast"));
    page.fill("if_most", "12");
    page.fill("if_flows", "17");
    page.click("compute");
    page.until("document.getElementById('forecast').dataset.kind === 'good'");
    let told = page.text("forecast");
    assert!(told.contains("90.3 % used, mean delay 7.20 ms") && told.contains("17 flows of cubic"), "{told}");
    let drawn = "['used', 'delay', 'phase'].map((id) => document.querySelectorAll('#' + id + ' .guess').length).join(' ')";
    assert_eq!(page.value(drawn), "1 2 61");
    assert_eq!(first.policy.lock().unwrap().target_max_ms, 20.0);

    // Keys, names for who does not see, dark and light.
    page.value("document.activeElement.blur()");
    page.press("/");
    assert_eq!(page.value("document.activeElement.id"), "search");
    page.press("Escape");
    page.press("2");
    page.until("document.querySelector('[role=tab][aria-selected=true]').innerText === 'b_to_a'");
    assert_eq!(page.value("document.querySelectorAll('svg .guess').length"), 0, "of another direction");
    let is_seen = |id: &str| format!("document.getElementById('{id}').getClientRects().length > 0");
    assert_eq!(page.value(&is_seen("policy")), false);
    assert_eq!(page.value(&is_seen("token")), true, "what-if takes it, too");
    page.press("1");
    page.press("w");
    assert_eq!(page.value("document.activeElement.id"), "if_flows");
    page.press("Escape");
    let theme = page.value("document.documentElement.dataset.theme");
    page.press("t");
    assert_ne!(page.value("document.documentElement.dataset.theme"), theme);
    let unnamed = "[...document.querySelectorAll('input, select')].filter((i) => !i.labels.length).length + \
                   [...document.querySelectorAll('svg')].filter((s) => !s.getAttribute('aria-labelledby')).length + \
                   [...document.querySelectorAll('button')].filter((b) => !b.innerText.trim()).length";
    assert_eq!(page.value(unnamed), 0);
    keep(&mut page, "page-dark.png");
    page.press("t");
    keep(&mut page, "page-light.png");

    // What was computed is there as long as it is wanted, also at the width of a phone.
    page.size(390, 1800, true);
    page.until("document.documentElement.scrollWidth <= 390");
    keep(&mut page, "page-phone.png");
    page.size(1280, 1400, false);
    page.click("forget");
    page.until("document.querySelectorAll('svg .guess').length === 0");

    // A start anew: what was drawn stays, and what comes is of the new program.
    let drawn = "document.querySelectorAll('#phase circle').length";
    let before = page.value(drawn).as_u64();
    assert!(before > Some(3));
    let second = start(4712, first.token.clone(), false);
    way.lead(None);
    page.until("document.getElementById('link').dataset.state === 'lost'");
    first.end.store(true, Ordering::Relaxed);
    way.lead(Some(second.address));
    page.until("document.getElementById('link').dataset.state === 'live' && document.getElementById('about').innerText.includes('4712')");
    page.until("document.getElementById('answer').innerText.includes('started anew')");
    page.fill("target_max", "25");
    page.click("apply");
    page.until("document.getElementById('answer').innerText.includes('not told yet')");
    page.click("compute");
    page.until("document.getElementById('forecast').innerText.includes('not told yet')");
    assert_eq!(page.value("document.querySelectorAll('.tile').length"), 0, "of the program before");
    second.tells.store(true, Ordering::Relaxed);
    page.until(&format!("{drawn} > {}", before.unwrap()));
    page.click("apply");
    page.until("document.getElementById('answer').innerText.startsWith('In force since')");
    assert_eq!(second.policy.lock().unwrap().target_max_ms, 25.0);
    assert_eq!(page.errors, [] as [String; 0]);
    second.end.store(true, Ordering::Relaxed);
}
