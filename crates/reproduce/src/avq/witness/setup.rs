//! A scenario in the words of ns-2.

use crate::avq::experiments::Case;
use crate::avq::spans::{Span, edges};
use crate::host::Error;
use crate::runs::Planned;
use std::fmt::Write;
use weir_aqm::algorithms::{avq, gkvq, pi, red, rem};
use weir_config::{EndHost, FlowGroup, Rtt, Scenario};
use weir_units::{Duration, Rate};

/// The constant of AVQ that is built into ns-2.
const ALPHA: f64 = 0.15;
/// Tick of a clock that is fine.
const TICK: Duration = Duration::from_millis(1);
/// Packets of a window that nothing limits.
const UNLIMITED: f64 = 100_000.0;

/// A queue of ns-2: its class, its parameters, and its limit in packets.
struct Queue {
    kind: &'static str,
    settings: Vec<(&'static str, f64)>,
    limit: f64,
}

/// The setup of a run, as `witness.tcl` reads it.
pub fn setup(planned: &Planned<Case>, spans: &[Span]) -> Result<String, Error> {
    let scenario = &planned.scenario;
    let packet = f64::from(scenario.path.mtu);
    let ecn = scenario.flows.iter().any(|group| group.ecn.is_on());
    let queue = queue(scenario, packet, ecn)?;
    let hosts = hosts(&scenario.flows)?;
    let settings: Vec<String> =
        queue.settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let groups: Vec<String> = scenario.flows.iter().map(|group| flows(group, packet)).collect();
    let edges: Vec<String> = edges(spans).iter().map(f64::to_string).collect();
    let mut text = format!("# {}: {}, run {}\n", scenario.title, planned.case.series, planned.seed + 1);
    let mut set = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "set {name} {{{value}}}");
    };
    set("rate", scenario.rate().as_bps_f64().to_string());
    set("limit", queue.limit.to_string());
    set("packet", packet.to_string());
    set("kind", queue.kind.into());
    set("settings", settings.join(" "));
    set("groups", format!("\n\t{{{}}}\n", groups.join("}\n\t{")));
    set("first", hosts.initial_window.to_string());
    set("most", most(hosts, packet).to_string());
    set("tick", hosts.rto_clock.unwrap_or(TICK).as_secs_f64().to_string());
    // A number is that of all, and nothing stands for that of Linux.
    set("least", hosts.rto_min.map_or(String::new(), |least| least.as_secs_f64().to_string()));
    set("ecn", u32::from(ecn).to_string());
    set("sample", scenario.run.sample.as_secs_f64().to_string());
    set("edges", edges.join(" "));
    set("duration", scenario.run.duration.as_secs_f64().to_string());
    set("seed", planned.seed.to_string());
    Ok(text)
}

/// The end hosts, which have one configuration there.
fn hosts(flows: &[FlowGroup]) -> Result<&EndHost, Error> {
    let of_all = |host: &EndHost| (host.initial_window, host.window, host.rto_min, host.rto_clock);
    let alike = |a: &EndHost, b: &EndHost| of_all(a) == of_all(b);
    match flows.split_first() {
        Some((first, others)) if others.iter().all(|g| alike(&g.host, &first.host)) => Ok(&first.host),
        _ => Err(Error::input(
            "in ns-2 all flows have one `initial_window`, one `window` and one timer".to_string(),
        )),
    }
}

/// Packets of the largest window.
fn most(hosts: &EndHost, packet: f64) -> f64 {
    hosts.window.map_or(UNLIMITED, |window| (window.get() as f64 / payload(packet)).floor())
}

/// Data in a packet: headers with timestamps take 52 bytes.
fn payload(packet: f64) -> f64 {
    packet - 52.0
}

fn flows(group: &FlowGroup, packet: f64) -> String {
    let seconds = |d: Duration| d.as_secs_f64();
    let (shortest, longest) = match group.rtt {
        Some(Rtt::Constant(rtt)) => (rtt, rtt),
        Some(Rtt::Uniform(from, to)) => (from, to),
        None => (Duration::ZERO, Duration::ZERO),
    };
    // A last segment may be short.
    let packets = group.transfer.map_or(-1.0, |size| (size.get() as f64 / payload(packet)).ceil());
    let numbers = [
        f64::from(group.count),
        seconds(shortest),
        seconds(longest),
        seconds(group.start),
        seconds(group.start_spread),
        group.stop.map_or(-1.0, seconds),
        packets,
        group.every.map_or(0.0, seconds),
    ];
    numbers.map(|n| n.to_string()).join(" ")
}

/// What the classes of ns-2 need to know of a link.
struct Link {
    /// Size of a packet in bytes.
    packet: f64,
    /// Packets that leave in a second.
    per_s: f64,
    /// Packets that find room.
    limit: f64,
    /// Whether packets are marked, as a number.
    mark: f64,
}

impl Link {
    /// Packets that the link carries in a time.
    fn packets(&self, d: Duration) -> f64 {
        d.as_secs_f64() * self.per_s
    }
}

fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}

fn queue(scenario: &Scenario, packet: f64, ecn: bool) -> Result<Queue, Error> {
    let room = scenario.link.shape.buffer_bytes().map_or(0.0, |bytes| bytes.get() as f64);
    let per_s = scenario.rate().as_bps_f64() / 8.0 / packet;
    let link = Link { packet, per_s, limit: (room / packet).floor(), mark: flag(ecn) };
    let aqm = &scenario.aqm;
    match aqm.name.as_str() {
        "red" => Ok(red_queue(&aqm.params(), &link)),
        "rem" => Ok(rem_queue(&aqm.params(), &link)),
        "pi" => Ok(pi_queue(&aqm.params(), &link)),
        "gkvq" => Ok(gkvq_queue(&aqm.params(), &link)),
        "avq" => avq_queue(&aqm.params(), &link),
        other => Err(Error::input(format!("ns-2 has no `{other}`"))),
    }
}

fn red_queue(p: &red::Params, link: &Link) -> Queue {
    let (target, spread) = (link.packets(p.target), p.spread.0);
    let settings = vec![
        ("bytes_", 0.0),
        ("queue_in_bytes_", 0.0),
        ("mean_pktsize_", link.packet),
        ("idle_pktsize_", link.packet),
        ("thresh_", target * (1.0 - spread)),
        ("maxthresh_", target * (1.0 + spread)),
        ("linterm_", 1.0 / p.max_p.0),
        ("q_weight_", 1.0 - (-1.0 / link.packets(p.memory)).exp()),
        ("gentle_", flag(p.gentle)),
        ("adaptive_", flag(p.adaptive)),
        ("wait_", flag(p.wait)),
        // Packets are marked up to the upper threshold.
        ("use_mark_p_", flag(!p.mark_above)),
        ("mark_p_", p.max_p.0),
        ("setbit_", link.mark),
    ];
    Queue { kind: "RED", settings, limit: link.limit }
}

fn rem_queue(p: &rem::Params, link: &Link) -> Queue {
    let settings = vec![
        ("pbo_", link.packets(p.target)),
        ("phi_", p.phi),
        ("gamma_", p.gamma),
        ("pupdtime_", p.period.as_secs_f64()),
        ("mean_pktsize_", link.packet),
        ("markpkts_", link.mark),
    ];
    // It discards the packet that makes the queue as long as its limit.
    Queue { kind: "REM", settings, limit: link.limit + 1.0 }
}

fn pi_queue(p: &pi::Params, link: &Link) -> Queue {
    let rate = Rate::from_bps((link.per_s * link.packet * 8.0).round() as u64);
    let gains = pi::design(p.fewest_flows(rate), p.rtt.as_secs_f64(), link.per_s);
    let settings = vec![
        ("qref_", link.packets(p.target)),
        ("a_", gains.a),
        ("b_", gains.b),
        ("w_", gains.frequency),
        ("mean_pktsize_", link.packet),
        ("setbit_", link.mark),
    ];
    Queue { kind: "PI", settings, limit: link.limit }
}

fn gkvq_queue(p: &gkvq::Params, link: &Link) -> Queue {
    let settings = vec![("ecnlim_", p.theta.0), ("mean_pktsize_", link.packet)];
    Queue { kind: "GK", settings, limit: link.limit }
}

fn avq_queue(p: &avq::Params, link: &Link) -> Result<Queue, Error> {
    if p.alpha != ALPHA {
        return Err(Error::input(format!("ns-2 has no other alpha of AVQ than {ALPHA}")));
    }
    let settings = vec![
        ("gamma_", p.utilization.0),
        ("buflim_", link.packets(p.buffer) / link.limit),
        ("ecnlim_", p.initial.0),
        ("mean_pktsize_", link.packet),
        ("markpkts_", link.mark),
    ];
    Ok(Queue { kind: "Vq", settings, limit: link.limit })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::avq::experiments::plan;
    use crate::avq::experiments::tests::arguments;

    fn queues(name: &str, series: &str) -> Queue {
        let plan = plan(&arguments(name, true)).unwrap();
        let planned = plan.iter().find(|p| p.case.series == series).unwrap();
        queue(&planned.scenario, 1000.0, name != "5").unwrap()
    }

    fn setting(queue: &Queue, name: &str) -> f64 {
        queue.settings.iter().find(|(n, _)| *n == name).unwrap().1
    }

    #[test]
    fn parameters_are_those_of_the_paper() {
        let red = queues("2", "RED");
        for (name, value) in
            [("thresh_", 37.0), ("maxthresh_", 75.0), ("q_weight_", 0.002), ("linterm_", 10.0)]
        {
            assert!((setting(&red, name) - value).abs() < 1e-3, "{name} {}", setting(&red, name));
        }
        assert_eq!(setting(&queues("2", "REM"), "pbo_"), 50.0);
        let pi = queues("4", "PI");
        assert!((setting(&pi, "a_") - 1.70518e-4).abs() < 1e-9, "{}", setting(&pi, "a_"));
        let avq = queues("3", "AVQ");
        assert_eq!((avq.limit, setting(&avq, "buflim_")), (50.0, 2.0));
        let full = queues("5", "AVQ 100 %");
        assert_eq!((setting(&full, "gamma_"), setting(&full, "markpkts_")), (1.0, 0.0));
        assert_eq!(setting(&queues("2", "GKVQ"), "ecnlim_"), 0.9);
    }

    #[test]
    fn windows_are_those_of_all_flows() {
        let mut plan = plan(&arguments("1", false)).unwrap();
        let scenario = &mut plan[0].scenario;
        let first = hosts(&scenario.flows).unwrap();
        assert_eq!((first.initial_window, most(first, 1000.0)), (1, 20.0));
        scenario.flows[1].host.initial_window = 10;
        assert!(hosts(&scenario.flows).is_err());
    }

    #[test]
    fn timers_are_those_that_were_chosen() {
        for (timers, lines) in
            [(0, ["set tick {0.001}", "set least {}"]), (1, ["set tick {0.1}", "set least {1}"])]
        {
            let timers = &crate::avq::TIMERS[timers];
            let plan = plan(&crate::avq::Arguments { timers, ..arguments("1", true) }).unwrap();
            assert!(
                plan[0]
                    .scenario
                    .flows
                    .iter()
                    .all(|group| group.host.rto_min.is_some() == timers.value.is_some())
            );
            let text = setup(&plan[0], &[]).unwrap();
            assert!(lines.iter().all(|line| text.contains(line)), "{text}");
        }
    }

    #[test]
    fn short_flows_are_twenty_packets() {
        let plan = plan(&arguments("1", false)).unwrap();
        assert_eq!(flows(&plan[0].scenario.flows[1], 1000.0), "30 0.04 0.13 100 1 -1 20 1");
    }
}
