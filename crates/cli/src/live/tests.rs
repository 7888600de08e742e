//! Pictures of the live view, and its use on a real terminal.

use super::board::{Board, Boards, Links, MOVES_MAX, Sum};
use super::draw::{TerminalStyle, draw};
use super::*;
use crate::interrupt::interrupted;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::symbols::Marker;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn about() -> About {
    About {
        title: "Two flows share 100 Mbit/s".into(),
        name: String::new(),
        aqm: "gsp, steered".into(),
        rate_bps: 100e6,
        utilization: Some((0.9, 0.95)),
        target_max_ms: Some(20.0),
    }
}

/// A made-up row: the rate sways, the delay is a sawtooth, the set point falls.
fn row(number: u32) -> LinkSample {
    let t_s = f64::from(number + 1) * 0.1;
    LinkSample {
        t_s,
        arrived_bps: 96e6,
        delivered_bps: 92e6 + 4e6 * (t_s / 3.0).sin(),
        delay_mean_ms: 2.0 + t_s % 5.0,
        delay_max_ms: 4.0 + 2.0 * (t_s % 5.0),
        backlog_bytes: 50_000,
        setpoint_ms: 10.0 - t_s / 10.0,
        drops: u64::from(number.is_multiple_of(10)),
        marks: u64::from(number.is_multiple_of(5)),
        table_state: 3,
        ..LinkSample::default()
    }
}

fn event(number: u32) -> SteeringEvent {
    let from = 10.0 - f64::from(number) / 10.0;
    SteeringEvent {
        t_s: f64::from(number),
        link: "a_to_b".into(),
        rule: if number.is_multiple_of(4) { "to virtual" } else { "lower" }.into(),
        from,
        to: from - 0.1,
        unit: "ms".into(),
        measured: vec![("rate_bps".into(), 94.3e6), ("rate_avg_bps".into(), 93.9e6)],
    }
}

fn board(about: About, rows: u32, length_s: Option<f64>) -> Board {
    let mut board = Board::new(about);
    let samples: Vec<_> = (0..rows).map(row).collect();
    let events: Vec<_> = (1..=rows / 10).map(event).collect();
    board.take(f64::from(rows) * 0.1, length_s, &samples, &events);
    board
}

fn alone(board: &Board) -> Boards {
    Boards { sides: vec![board.clone()], ..Boards::default() }
}

fn picture(board: &Board, width: u16, height: u16) -> String {
    picture_of(&Links { all: vec![alone(board)], ..Links::default() }, width, height)
}

fn picture_of(links: &Links, width: u16, height: u16) -> String {
    let look = TerminalStyle { marker: Marker::Braille };
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, links, &look, false)).unwrap();
    let cells = terminal.backend().buffer().content();
    let line = |row: &[ratatui::buffer::Cell]| row.iter().map(|c| c.symbol()).collect::<String>();
    cells.chunks(usize::from(width)).map(|row| line(row).trim_end().to_string() + "\n").collect()
}

/// Compares with a picture in `golden/`; `WEIR_GOLDEN=write` writes it anew.
fn check(name: &str, picture: &str) {
    let path = format!("{}/src/live/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("WEIR_GOLDEN").is_some_and(|v| v == "write") {
        std::fs::write(&path, picture).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(golden == picture, "{path} shows\n{golden}\nbut the view is now\n{picture}");
}

#[test]
fn a_steered_run_on_80_by_24() {
    check("steered_80x24", &picture(&board(about(), 450, Some(60.0)), 80, 24));
}

#[test]
fn a_steered_run_on_120_by_40() {
    check("steered_120x40", &picture(&board(about(), 450, Some(60.0)), 120, 40));
}

#[test]
fn a_run_with_the_virtual_queue_in_charge() {
    let mut board = board(about(), 800, Some(120.0));
    let virtual_row = LinkSample { virtual_backlog_bytes: 12_345, virtual_rate_bps: 93e6, ..row(800) };
    board.take(80.1, Some(120.0), &[virtual_row], &[]);
    let picture = picture(&board, 80, 24);
    assert!(picture.contains("Virtual     backlog 12.3 kB, served at 93.0 Mbit/s"), "{picture}");
}

#[test]
fn an_unshaped_run_without_end_or_policy() {
    let about = About { title: "eth0 <-> eth1".into(), aqm: "tail_drop".into(), ..About::default() };
    let mut board = Board::new(about);
    let plain = |n| LinkSample { setpoint_ms: f64::NAN, table_state: 0, ..row(n) };
    board.take(3723.4, None, &(0..30).map(plain).collect::<Vec<_>>(), &[]);
    check("unsteered_80x24", &picture(&board, 80, 24));
}

#[test]
fn a_short_run_fills_the_charts() {
    check("short_80x24", &picture(&board(about(), 100, Some(12.0)), 80, 24));
}

#[test]
fn a_warning_is_shown_as_long_as_the_run() {
    let mut board = board(about(), 100, Some(60.0));
    board.warning = Some(
        "a: its MTU was changed from 1500 to 3000 while running; packets of more than 1500 bytes \
        are dropped and counted as faults (`too_long`, `lost_before_queue`). Remedy: start the run again to \
        forward longer ones"
            .into(),
    );
    for (width, height) in [(60, 15), (80, 24), (120, 40)] {
        let picture = picture(&board, width, height);
        assert!(picture.contains("Warning     a: its MTU") && picture.contains("longer ones"), "{picture}");
    }
}

/// Both directions of a link after so many rows; a fifth of the packets go back.
fn both(rows: u32) -> Links {
    let side = |name: &str, rate_bps| About { name: name.into(), rate_bps, ..about() };
    let mut boards = Boards::new("a <-> b", vec![side("a_to_b", 100e6), side("b_to_a", 20e6)], 0);
    let there: Vec<_> = (0..rows).map(row).collect();
    let back: Vec<_> =
        there.iter().map(|r| LinkSample { delivered_bps: r.delivered_bps / 5.0, ..*r }).collect();
    let events: Vec<_> = (1..=rows / 10).map(event).collect();
    boards.take(f64::from(rows) * 0.1, None, &[&there, &back], &events);
    Links { all: vec![boards], chosen: 0, takes_keys: true }
}

#[test]
fn both_directions_on_80_by_24() {
    let mut boards = both(450);
    check("both_80x24", &picture_of(&boards, 80, 24));
    boards.boards_mut().turn();
    let turned = picture_of(&boards, 80, 24);
    assert!(turned.contains("b_to_a: gsp, steered") && turned.contains("\na_to_b      "), "{turned}");
    assert!(turned.contains("none yet"), "the moves are those of the other direction: {turned}");
    boards.boards_mut().turn();
    assert_eq!(boards.boards().shown, 0);
    for (width, height) in [(1, 1), (60, 15), (40, 8), (300, 100)] {
        picture_of(&boards, width, height);
    }
}

/// Twelve links; the second has no carrier, and the third has ended.
fn twelve() -> Links {
    let mut links = both(450);
    let one = links.all.pop().unwrap();
    links.all =
        (0..12).map(|n| Boards { label: format!("eth{n} <-> eth{}", n + 20), ..one.clone() }).collect();
    links.all[1].sides[0].trouble = Some("no carrier on eth21".into());
    links.all[2].has_ended = true;
    links
}

#[test]
fn several_links_have_a_line_each_and_one_is_shown_in_full() {
    let mut links = twelve();
    check("several_80x24", &picture_of(&links, 80, 24));
    // The one that is shown is always among those that have a line.
    for number in 0..12 {
        let picture = picture_of(&links, 80, 24);
        assert!(picture.contains(&format!("> eth{number} <-> eth{}", number + 20)), "{picture}");
        assert!(picture.contains(&format!("({} of 12)", number + 1)), "{picture}");
        assert_eq!(picture.matches(" <-> ").count(), 6, "{picture}");
        links.choose(true);
    }
    assert_eq!(links.chosen, 0);
    links.choose(false);
    assert_eq!(links.chosen, 11);
    // Its other direction is its own.
    links.boards_mut().turn();
    assert_eq!((links.all[11].shown, links.all[0].shown), (1, 0));
    for (width, height) in [(1, 1), (60, 15), (40, 8), (300, 100)] {
        picture_of(&links, width, height);
    }
    assert_eq!(picture_of(&links, 80, 60).matches(" <-> ").count(), 12);
}

/// Each view feeds its own link; the screen that they share goes with the last of them.
#[test]
fn views_of_several_links_feed_a_line_each() {
    let shown = |label: &str| Shown {
        label: label.into(),
        sides: vec![About { name: "a_to_b".into(), ..about() }, About { name: "b_to_a".into(), ..about() }],
        first: 0,
    };
    let output = Output::new(false);
    let mut views = View::several(vec![(shown("x"), output), (shown("y"), output)], &output);
    let screen = views[0].screen.clone();
    views[1].update(1.0, None, &[&[row(0)], &[row(1)]], &[event(1)]);
    views[0].update(2.0, None, &[&[row(5)], &[]], &[]);
    let seen = |links: &Links| {
        let of = |boards: &Boards| boards.sides.iter().map(|side| side.last.map(|row| row.t_s)).collect();
        links.all.iter().map(of).collect::<Vec<Vec<Option<f64>>>>()
    };
    let times = |rows: [Option<u32>; 2]| rows.map(|number| number.map(|number| row(number).t_s)).to_vec();
    assert_eq!(seen(&lock(&screen.links)), [times([Some(5), None]), times([Some(0), Some(1)])]);
    let moves =
        |link: usize| lock(&screen.links).all[link].sides.iter().map(|side| side.moves.len()).sum::<usize>();
    assert_eq!((moves(0), moves(1)), (0, 1));
    drop(views.remove(0));
    let ended = lock(&screen.links).all.iter().map(|boards| boards.has_ended).collect::<Vec<_>>();
    assert_eq!(ended, [true, false]);
    // A row of links is fed by one view, in their order.
    let one = |name: &str| Shown { sides: vec![About { name: name.into(), ..about() }], ..shown(name) };
    let mut view = View::row(vec![one("first"), one("second")], &output);
    let moved = SteeringEvent { link: "second".into(), ..event(1) };
    view.update(1.0, Some(9.0), &[&[row(3)], &[row(4)]], &[moved]);
    let links = lock(&view.screen.links).clone();
    assert_eq!(seen(&links), [[Some(row(3).t_s)], [Some(row(4).t_s)]]);
    assert_eq!(links.all.iter().map(|boards| boards.sides[0].moves.len()).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_dead_link_is_no_state_of_the_queue() {
    let mut board = board(about(), 100, Some(60.0));
    board.last.as_mut().unwrap().table_state = 1;
    assert!(picture(&board, 80, 24).contains("no bottleneck here"));
    board.trouble = Some("no carrier on b".into());
    let dead = picture(&board, 80, 24);
    assert!(
        dead.contains("State       no carrier on b: nothing passes") && !dead.contains("bottleneck"),
        "{dead}"
    );
}

#[test]
fn before_the_first_sample() {
    let mut board = Board::new(about());
    board.take(-0.4, Some(30.0), &[], &[]);
    let picture = picture(&board, 80, 24);
    assert!(picture.contains("starts in 0.4 s") && picture.contains("none yet"), "{picture}");
}

#[test]
fn every_size_of_terminal_can_be_drawn_on() {
    let board = board(about(), 100, Some(60.0));
    for (width, height) in [(1, 1), (10, 3), (59, 24), (60, 15), (80, 14), (81, 25), (300, 100)] {
        picture(&board, width, height);
    }
    assert!(picture(&board, 40, 6).contains("Ctrl-C ends"));
}

#[test]
fn control_characters_in_a_title_do_not_reach_the_terminal() {
    let about = About { title: "a\u{1b}[31mb\nc".into(), ..about() };
    let picture = picture(&board(about, 10, None), 80, 24);
    assert!(!picture.contains('\u{1b}') && picture.lines().count() == 24, "{picture}");
}

#[test]
fn a_board_keeps_a_minute_and_the_last_moves() {
    let board = board(about(), 3000, None);
    assert!(board.steps.len() <= 242, "{}", board.steps.len());
    assert_eq!(board.moves.len(), MOVES_MAX);
    assert_eq!(board.moves[0].t_s, 300.0, "newest first");
    assert_eq!((board.total.drops, board.now().drops), (300, 1));
    assert!((board.now_s() - 1.0).abs() < 0.01, "{}", board.now_s());
}

#[test]
fn a_mean_delay_counts_packets_and_not_periods() {
    let mut sum = Sum::default();
    assert_eq!(sum.delay_mean_ms(), None);
    for (delivered_bps, delay_mean_ms) in [(3e6, 1.0), (0.0, 0.0), (1e6, 5.0)] {
        sum.add(&LinkSample { delivered_bps, delay_mean_ms, ..LinkSample::default() });
    }
    assert_eq!(sum.delay_mean_ms(), Some(2.0));
}

#[test]
fn lines_say_what_they_know() {
    let mut sum = Sum::default();
    sum.add(&row(0));
    let mut board = Board::new(about());
    board.take(2.0, Some(30.0), &[row(0)], &[]);
    assert_eq!(
        words::period_line(&board, 1.9, &sum, &row(0)),
        "   2.0 of 30 s  last 1.9 s:   92.1 Mbit/s (92.1 %)   delay   2.10, max 4.20 ms  set point   9.99 ms  \
         drops 1, overflows 0, marks 1  state 3"
    );
    board.about.name = "a_to_b".into();
    board.trouble = Some("no carrier on b".into());
    let line = words::period_line(&board, 1.9, &sum, &row(0));
    assert!(
        line.contains(" s  a_to_b  last 1.9 s: ") && line.ends_with("marks 1  no carrier on b"),
        "{line}"
    );
    assert_eq!(
        words::event_line(&event(4)),
        "    4.00 s  a_to_b  to virtual: 9.600 -> 9.500 ms  rate 94.3, average 93.9 Mbit/s"
    );
}

/// Feeds a view as a run does, for whoever wants to see it on a terminal:
/// `WEIR_VIEW_S=20 cargo test -p weir-cli --bin weir -- --ignored --nocapture live_view`.
#[test]
#[ignore = "for the eye"]
fn live_view() {
    let length_s: f64 = std::env::var("WEIR_VIEW_S").ok().and_then(|s| s.parse().ok()).unwrap_or(10.0);
    let panics = std::env::var_os("WEIR_VIEW_PANIC").is_some();
    let link = Shown { label: "link".into(), sides: vec![about()], first: 0 };
    let mut view = View::row(vec![link], &Output::new(false));
    let stop = interrupted();
    for number in 0..(length_s * 10.0) as u32 {
        std::thread::sleep(Duration::from_millis(100));
        let events = if number % 20 == 19 { vec![event(number / 10)] } else { Vec::new() };
        view.update(f64::from(number) * 0.1, Some(length_s), &[&[row(number)]], &events);
        assert!(!panics || number < 20, "a panic, as asked for");
        // An end that takes its time, so that a second Ctrl-C finds it.
        if stop.load(Ordering::Relaxed) && number % 30 == 29 {
            break;
        }
    }
}
