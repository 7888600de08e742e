//! What applications refuse, with a remedy.

use weir_config::Scenario;

fn told(flows: &str) -> String {
    let text = format!(
        "title = \"t\"\n[link]\nrate = \"10Mbit/s\"\n[path]\nrtt = \"20ms\"\n[aqm]\nname = \"codel\"\n[run]\n\
         duration = \"10s\"\n[[flows]]\n{flows}\n"
    );
    match Scenario::parse("t.toml", &text) {
        Ok(_) => String::new(),
        Err(e) => e.to_string(),
    }
}

#[test]
fn what_does_not_go_together_is_refused_where_it_stands() {
    for (flows, part) in [
        ("voice = { packet_time = \"25ms\" }", "flows.0.voice.packet_time"),
        ("voice = { codec = \"opus\" }", "one of \"g711\""),
        ("voice = {}\ncongestion = \"cubic\"", "voice"),
        ("voice = {}\npacket = \"200B\"", "the application says what it sends"),
        ("game = {}\nudp_rate = \"1Mbit/s\"", "remove one of the two"),
        ("game = {}\nprotocol = \"quic\"", "says nothing about datagrams"),
        ("video = { ladder = [\"2Mbit/s\", \"1Mbit/s\"] }", "does not rise"),
        ("video = { buffer = \"6s\" }", "does not hold two segments"),
        ("video = { reservoir = \"236s\" }", "flows.0.video.cushion"),
        ("video = { buffer = \"30s\", cushion = \"15s\" }", "segments are chosen with 26s at the most"),
        ("video = { play_at = \"240s\" }", "is never reached"),
        ("video = {}\npage = {}", "does not go with `video`"),
        ("page = { objects = [\"30kB\", \"2 x 3kB after 2\"] }", "flows.0.page.objects.1"),
        ("page = { objects = [\"2 x 30kB\"] }", "begin with one object"),
        ("page = { objects = [\"30\"] }", "objects such as \"30kB\""),
        ("page = { objects = [\"0 x 30kB\"] }", "1 .. 1000 objects"),
        ("realtime = { rate_max = \"100kbit/s\" }", "flows.0.realtime.rate_max"),
        ("realtime = { delay_target_max = \"50ms\" }", "flows.0.realtime.delay_target_max"),
        ("realtime = {}\ncongestion = \"cubic\"", "real-time video has SCReAM"),
        ("realtime = {}\nvideo = {}", "does not go with `video`"),
        ("realtime = { payload = \"1400B\" }\nmtu = 1400", "flows.0.realtime.payload"),
    ] {
        let told = told(flows);
        assert!(told.contains(part) && told.contains("t.toml:"), "{flows}: {told}");
    }
    for flows in [
        "voice = { codec = \"gsm_efr\", packet_time = \"60ms\" }\nclass = \"ef\"",
        "game = { sends = \"client\", interval = \"16ms\" }\ndirection = \"reverse\"",
        "video = { segment = \"2s\", buffer = \"12s\", ladder = [\"1Mbit/s\"] }\nprotocol = \"quic\"",
        "page = { objects = [\"30kB\", \"5 x 1kB\", \"2kB after 2\"], frame = \"1kB\" }",
        "realtime = { delay_target = \"60ms\", delay_target_max = \"60ms\", spread = \"0%\" }\necn = true\nip = 6",
    ] {
        assert_eq!(told(flows), "", "{flows}");
    }
}

/// What is printed is read back as it was.
#[test]
fn applications_are_printed_as_they_were_read() {
    let flows = "page = { objects = [\"30kB\", \"5 x 1kB after 1\"] }\n[[flows]]\nvoice = {}\n[[flows]]\n\
                 video = { ladder = [\"1Mbit/s\", \"2Mbit/s\"] }\n[[flows]]\ngame = { payload = \"100B\" }\n\
                 [[flows]]\nrealtime = { frame_rate = 60 }";
    let text = format!(
        "title = \"t\"\n[link]\nrate = \"10Mbit/s\"\n[path]\nrtt = \"20ms\"\n[aqm]\nname = \"codel\"\n[run]\n\
         duration = \"10s\"\n[[flows]]\n{flows}\n"
    );
    let read = Scenario::parse("t.toml", &text).unwrap();
    let again = Scenario::parse("t.toml", &read.to_toml()).unwrap();
    assert_eq!(read, again);
}
