//! What users of applications notice: on free links by arithmetic, on full ones by order.

use crate::common;

use common::{quiet, run};
use std::ops::ControlFlow;
use weir_config::Scenario;
use weir_measure::applications::{Calls, Datagrams, Realtimes, Videos};
use weir_measure::study::Kind;

fn link(rate: &str, more: &str) -> String {
    format!(
        "[link]\nrate = \"{rate}\"\nbuffer = \"300ms\"\n{more}[path]\nrtt = \"40ms\"\n[aqm]\nname = \"tail_drop\"\nlimit = \"300ms\"\n"
    )
}

fn call(text: &str) -> Calls {
    run(text, 1).study.calls.remove(0)
}

fn game(text: &str) -> Datagrams {
    run(text, 1).study.games.remove(0)
}

fn video(text: &str) -> Videos {
    run(text, 1).study.videos.remove(0)
}

fn near(value: f64, wanted: f64, by: f64) {
    assert!((value / wanted - 1.0).abs() < by, "{value}, expected {wanted}");
}

#[test]
fn a_call_over_a_free_path_has_the_score_of_its_delay() {
    let told = call(&quiet(&link("10Mbit/s", ""), "[[flows]]\ncount = 3\nvoice = {}\n", "20s"));
    let d = &told.datagrams;
    assert_eq!((d.streams, d.lost, d.late), (3, 0.0, 0.0));
    assert!((2990..=3000).contains(&d.sent), "{}", d.sent);
    // 20 ms of path, and 160 bytes of speech in 214 of a frame at 10 Mbit/s.
    near(d.delay_ms.p50, 20.17, 0.01);
    // 20 ms of packet, the path, 60 ms of buffer: 100 ms, R = 93.2 - 0.024 * 100 (Cole and Rosenbluth 2001).
    near(told.mouth_to_ear_ms, 100.17, 0.001);
    near(told.rating, 90.8, 0.01);
    near(told.mos, 4.36, 0.01);
}

#[test]
fn random_loss_costs_a_call_what_g113_says() {
    let lossy = |codec: &str| {
        let flows = format!("[[flows]]\ncount = 20\nvoice = {{ codec = \"{codec}\" }}\n");
        call(&quiet(&link("100Mbit/s", "loss = \"2%\"\n"), &flows, "60s"))
    };
    let (good, bare) = (lossy("g711"), lossy("g711_bare"));
    near(good.datagrams.lost, 0.02, 0.05);
    // Ie,eff is 95 * 2 / (2 + Bpl): 7.01 and 30.16.
    for (told, bpl) in [(&good, 25.1), (&bare, 4.3)] {
        let percent = 100.0 * told.datagrams.lost;
        near(told.rating, 90.8 - 95.0 * percent / (percent / told.burst_ratio + bpl), 0.01);
    }
    near(good.burst_ratio, 1.0, 0.05);
    assert!(bare.mos < good.mos - 0.9 && good.mos_least <= good.mos, "{} {}", bare.mos, good.mos);
}

#[test]
fn downloads_through_a_full_buffer_make_a_call_late_and_a_queue_for_each_flow_does_not() {
    let flows = "[[flows]]\nvoice = {}\n[[flows]]\ncount = 2\nstart = \"2s\"\n[[flows]]\ngame = {}\n";
    let text = quiet(&link("10Mbit/s", ""), flows, "30s").replace("[run]\n", "[run]\nwarmup = \"5s\"\n");
    let (full, fair) = (
        text.clone(),
        text.replace("tail_drop\"\nlimit = \"300ms\"", "codel\"") + "[queue]\ndiscipline = \"flow\"\n",
    );
    let (bad, good) = (run(&full, 1).study, run(&fair, 1).study);
    let calls = [&bad.calls[0], &good.calls[0]];
    assert!(calls[0].datagrams.late > 0.1 && calls[1].datagrams.late < 0.001, "{calls:?}");
    assert!(calls[0].mouth_to_ear_ms > 200.0 && calls[1].mouth_to_ear_ms < 105.0, "{calls:?}");
    assert!(calls[0].mos < 3.0 && calls[1].mos > 4.3, "{calls:?}");
    let games = [&bad.games[0], &good.games[0]];
    assert!(games[0].late > 0.9 && games[1].late == 0.0, "{games:?}");
    assert!(games[0].delay_ms.p99 > 200.0 && games[1].delay_ms.p99 < 30.0, "{games:?}");
}

#[test]
fn a_game_is_forty_packets_up_and_thirty_snapshots_down() {
    let up = game(&quiet(&link("1Mbit/s", ""), "[[flows]]\ngame = { sends = \"client\" }\n", "20s"));
    let down = game(&quiet(&link("1Mbit/s", ""), "[[flows]]\ngame = {}\n", "20s"));
    assert!((797..=800).contains(&up.sent) && (603..=607).contains(&down.sent), "{} {}", up.sent, down.sent);
    // 40 and 130 bytes with 28 of UDP and IP and 14 of Ethernet, behind 20 ms; frames are 60 bytes at the
    // least.
    near(up.delay_ms.p99, 20.0 + 82.0 * 8.0 / 1000.0, 0.01);
    near(down.delay_ms.p99, 20.0 + 172.0 * 8.0 / 1000.0, 0.01);
    assert_eq!((up.lost, down.late, down.jitter_ms.max), (0.0, 0.0, 0.0));
}

#[test]
fn video_on_a_free_link_between_two_rates_plays_what_the_link_carries() {
    // 1.5 Mbit/s of payload: 1448 of 1514 bytes, or of what the link counts.
    let flows = "[[flows]]\nvideo = { buffer = \"60s\" }\n";
    let text = quiet(&link("1.6Mbit/s", ""), flows, "900s").replace("[run]\n", "[run]\nwarmup = \"100s\"\n");
    let outcome = run(&text, 1);
    let told = &outcome.study.videos[0];
    let goodput = outcome.recording.summary.flows[0].goodput_bps;
    // It always loads, as the buffer is never full.
    near(goodput, 1.6e6 * 1448.0 / 1514.0, 0.03);
    near(told.rate_bps, goodput, 0.01);
    // 1050 and 1750 kbit/s: f(B) is 1050 at 22.5 + 31.5 * 815 / 5565 s and 1750 at 31.1 s.
    assert!((25.0..34.0).contains(&told.buffer_s), "{told:?}");
    assert_eq!((told.stalls, told.stalled, told.never_began), (0, 0.0, 0));
    // Four seconds at 235 kbit/s, and slow start.
    assert!((4.0 * 235.0 / 1.5..1000.0).contains(&told.startup_ms.mean), "{told:?}");
}

#[test]
fn video_on_a_fast_link_has_the_best_rate_and_on_one_that_is_too_slow_it_stalls() {
    let flows = "[[flows]]\nvideo = { buffer = \"30s\", ladder = [\"300kbit/s\", \"1Mbit/s\"] }\n";
    let text =
        |rate: &str| quiet(&link(rate, ""), flows, "200s").replace("[run]\n", "[run]\nwarmup = \"50s\"\n");
    let fast = video(&text("20Mbit/s"));
    assert_eq!((fast.rate_bps, fast.switches_per_minute, fast.stalls), (1e6, 0.0, 0));
    // Full when a segment arrives, one shorter when the next is asked for.
    near(fast.buffer_s, 28.0, 0.02);
    // 37.5 segments of 4 s in 150 s.
    assert!((37..=38).contains(&fast.segments), "{fast:?}");
    // A third less than the lowest rate.
    let slow = video(&text("210kbit/s"));
    let share = 1.0 - 210.0 / 300.0 * 1448.0 / 1514.0;
    near(slow.stalled, share, 0.05);
    assert!(slow.rate_bps == 300e3 && slow.stalls > 15, "{slow:?}");
}

fn page(objects: &str, more: &str, link: &str) -> f64 {
    let flows = format!("[[flows]]\n{more}page = {{ objects = {objects}, think = \"5s\" }}\n");
    let study = run(&quiet(link, &flows, "60s"), 1).study;
    let told = study.completions.iter().find(|c| c.kind == Kind::Page).unwrap();
    assert!(told.completed > 3 && told.unfinished < Some(2), "{told:?}");
    told.time_ms.as_ref().unwrap().p50
}

#[test]
fn a_page_on_a_free_path_takes_the_round_trips_of_its_depth_and_of_slow_start() {
    let free = "[link]\nrate = \"1Gbit/s\"\n[path]\nrtt = \"100ms\"\n[aqm]\nname = \"tail_drop\"\n";
    // A document of ten segments fits into the first window: one round trip.
    near(page("[\"14480B\"]", "", free), 100.0, 0.02);
    // Four objects of ten segments each after it: 20 and 20 of 40 segments in two more.
    near(page("[\"14480B\", \"4 x 14480B after 1\"]", "", free), 300.0, 0.02);
    // As many bytes without a document to wait for: 10, 20 and 20 segments.
    near(page("[\"14480B\", \"4 x 14480B\"]", "", free), 300.0, 0.02);
    // A chain of three small objects: a round trip each, all within the window.
    near(page("[\"1kB\", \"1kB after 1\", \"3 x 1kB after 2\"]", "", free), 300.0, 0.02);
    // Where one would follow the other on `web`, twenty objects in parallel take one trip after the document.
    near(page("[\"1kB\", \"20 x 500B after 1\"]", "", free), 200.0, 0.02);
    // HTTP/3 has no losses to gain from here.
    near(page("[\"1kB\", \"20 x 500B after 1\"]", "protocol = \"quic\"\n", free), 200.0, 0.02);
}

#[test]
fn a_described_page_takes_its_round_trips_and_what_the_server_takes() {
    let folder = std::env::temp_dir().join(format!("weir-page-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let object = |name: &str, more: &str| format!("[[objects]]\nname = \"{name}\"\nsize = \"1kB\"\n{more}\n");
    let text = object("document", "server = \"80ms\"")
        + &object("styles", "count = 3\nafter = [\"document\"]")
        + &object("script", "after = [\"document\"]\nserver = \"50ms\"")
        + &object("images", "count = 4\nafter = [\"styles\", \"script\"]");
    std::fs::write(folder.join("page.toml"), text).unwrap();
    let free = "[link]\nrate = \"1Gbit/s\"\n[path]\nrtt = \"100ms\"\n[aqm]\nname = \"tail_drop\"\n";
    let flows = "[[flows]]\nPROTOCOLpage = { file = \"page.toml\", think = \"5s\" }\n";
    let told = ["", "protocol = \"quic\"\n"].map(|protocol| {
        let path = folder.join("scenario.toml");
        std::fs::write(&path, quiet(free, &flows.replace("PROTOCOL", protocol), "60s")).unwrap();
        let scenario = Scenario::load(&path).unwrap();
        let outcome = weir_sim::run(&scenario, 1, &mut |_| ControlFlow::Continue(())).unwrap();
        let pages = outcome.study.completions.into_iter().find(|c| c.kind == Kind::Page).unwrap();
        assert!(pages.completed > 3, "{pages:?}");
        (pages.time_ms.unwrap().p50, pages.slowdown.unwrap().p50)
    });
    std::fs::remove_dir_all(&folder).unwrap();
    for (time_ms, slowdown) in told {
        // Document, script, images: three round trips, and 80 and 50 ms of the server.
        near(time_ms, 430.0, 0.02);
        near(slowdown, 1.0, 0.02);
    }
}

#[test]
fn a_slow_link_takes_the_bytes_of_a_page_at_its_rate() {
    let slow =
        "[link]\nrate = \"2Mbit/s\"\nbuffer = \"2s\"\n[path]\nrtt = \"20ms\"\n[aqm]\nname = \"tail_drop\"\n";
    // 1.01 MB in segments of 1448 with 66 bytes of headers: 4.2 s, and a round trip for each of two levels.
    let bytes = 10_000.0 + 1_000_000.0;
    let wanted = bytes / 1448.0 * 1514.0 * 8.0 / 2e6 * 1e3 + 40.0;
    near(page("[\"10kB\", \"20 x 50kB after 1\"]", "", slow), wanted, 0.02);
}

#[test]
fn streams_of_their_own_spare_what_is_asked_for_after_an_object_the_losses_of_others() {
    let lossy =
        "[link]\nrate = \"200Mbit/s\"\nloss = \"2%\"\n[path]\nrtt = \"80ms\"\n[aqm]\nname = \"tail_drop\"\n";
    // A chain of small objects, each asked for after the one before, beside a large one that fills the
    // stream.
    let chain: String =
        (0..24).map(|i| format!(", \"500B after {}\"", if i == 0 { 1 } else { i + 2 })).collect();
    let mean = |more: &str| {
        let page = format!(
            "page = {{ objects = [\"5kB\", \"150kB after 1\"{chain}], frame = \"1448B\", think = \"1s\" }}"
        );
        let study = run(&quiet(lossy, &format!("[[flows]]\ncount = 40\n{more}{page}\n"), "120s"), 3).study;
        study.completions.iter().find(|c| c.group.is_none()).unwrap().time_ms.as_ref().unwrap().mean
    };
    let (one, streams) = (mean(""), mean("protocol = \"quic\"\n"));
    // 25 round trips at the least; in one stream a loss of the large object is one more for the chain.
    assert!(streams > 2000.0 && streams < 0.98 * one, "{streams} against {one}");
}

fn realtime(text: &str) -> Realtimes {
    run(text, 1).study.realtimes.remove(0)
}

#[test]
fn real_time_video_has_the_delay_of_its_path_and_the_rate_that_the_link_leaves() {
    let flows = "[[flows]]\nrealtime = { rate_max = \"2Mbit/s\" }\n";
    let warm = |text: String| text.replace("[run]\n", "[run]\nwarmup = \"30s\"\n");
    let free = realtime(&warm(quiet(&link("50Mbit/s", ""), flows, "90s")));
    assert_eq!((free.frames.streams, free.frames.lost, free.freezes_per_minute), (1, 0.0, 0.0));
    // 30 frames in each of 60 s.
    assert!((1796..=1801).contains(&free.frames.sent), "{free:?}");
    near(free.rate_bps, 2e6, 0.02);
    assert!((20.0..60.0).contains(&free.frames.delay_ms.p95), "{free:?}");
    // A link that is too slow for the highest rate: it is used, and no frame is lost in 300 ms of buffer.
    let slow = realtime(&warm(quiet(&link("1Mbit/s", ""), flows, "90s")));
    assert!((0.7e6..1e6).contains(&slow.rate_bps) && slow.frames.lost < 0.01, "{slow:?}");
    assert!(slow.frames.delay_ms.p50 < 20.0 + 150.0, "{slow:?}");
    // One frame in how many packets: 2 Mbit/s are 8.3 kB a frame, so that 1 % of loss spoils about 7 %.
    let lossy = realtime(&warm(quiet(&link("50Mbit/s", "loss = \"1%\"\n"), flows, "90s")));
    assert!(lossy.frames.lost > 0.01 && lossy.rate_bps < free.rate_bps, "{lossy:?}");
}

#[test]
fn real_time_video_is_spared_by_marks_and_by_a_queue_for_each_flow() {
    let flows =
        |ecn: bool| format!("[[flows]]\nrealtime = {{}}\necn = {ecn}\n[[flows]]\ncount = 2\necn = {ecn}\n");
    let text = |ecn: bool, more: &str| {
        let text =
            quiet(&link("10Mbit/s", ""), &flows(ecn), "90s").replace("[run]\n", "[run]\nwarmup = \"30s\"\n");
        text.replace("tail_drop\"\nlimit = \"300ms\"", more)
    };
    let codel = realtime(&text(false, "codel\""));
    let marked = realtime(&text(true, "codel\"\necn = true"));
    let fair = realtime(&(text(false, "codel\"") + "[queue]\ndiscipline = \"flow\"\n"));
    assert!(codel.frames.lost > 0.0 && marked.frames.lost < 0.2 * codel.frames.lost, "{codel:?} {marked:?}");
    assert!(
        fair.frames.lost < 0.2 * codel.frames.lost && fair.rate_bps > codel.rate_bps,
        "{codel:?} {fair:?}"
    );
    // Reports pass a queue of the way back, and some of them are lost there.
    let networks = "[[links]]\nname = \"up\"\nfrom = \"a\"\nto = \"b\"\nrate = \"5Mbit/s\"\ndelay = \"5ms\"\n\
                    [[links]]\nname = \"down\"\nfrom = \"b\"\nto = \"a\"\nrate = \"1Mbit/s\"\ndelay = \"5ms\"\nloss = \"10%\"\n";
    let both = "[[flows]]\nfrom = \"a\"\nto = \"b\"\nrealtime = {}\n";
    let outcome = run(&quiet(networks, both, "60s"), 1);
    let told = &outcome.study.realtimes[0];
    assert!(told.frames.lost < 0.01 && told.rate_bps > 1.2e6, "{told:?}");
    let back = &outcome.recording.summary.links[1];
    // 50 reports in a second.
    assert!((2700..=3000).contains(&back.packets), "{}", back.packets);
    let size = back.bytes as f64 / back.packets as f64;
    assert!((80.0..130.0).contains(&size), "{size}");
}
