//! Plans of customers on a simulated link: rates, bursts, sites, set points, policies and exemption.

use std::ops::ControlFlow;
use weir_config::Scenario;
use weir_sim::Outcome;

/// Four downloads over one link of 100 Mbit/s, each a customer.
fn run(customers: &str) -> Outcome {
    run_under("codel", customers)
}

/// The same with another algorithm.
fn run_under(aqm: &str, customers: &str) -> Outcome {
    let mut text = format!(
        "title = \"customers\"\n[[links]]\nname = \"access\"\nfrom = \"a\"\nto = \"b\"\nrate = \"100Mbit/s\"\n\
         delay = \"10ms\"\nbuffer = \"500ms\"\nqueue = {{ discipline = \"user\" }}\naqm = {{ name = \"{aqm}\" }}\n{customers}\n\
         [[links]]\nname = \"back\"\nfrom = \"b\"\nto = \"a\"\nrate = \"100Mbit/s\"\ndelay = \"10ms\"\n"
    );
    for _ in 0..4 {
        text += "[[flows]]\nfrom = \"a\"\nto = \"b\"\n";
    }
    text += "[run]\nduration = \"20s\"\nwarmup = \"5s\"\n";
    let scenario = Scenario::parse("customers.toml", &text).unwrap_or_else(|e| panic!("{e}"));
    weir_sim::run(&scenario, 1, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// What each gets, in Mbit/s of the link's bytes.
fn rates(outcome: &Outcome) -> Vec<f64> {
    // A segment of 1448 bytes is a packet of 1500.
    outcome.recording.summary.flows.iter().map(|f| f.goodput_bps * 1500.0 / 1448.0 / 1e6).collect()
}

fn near(rate: f64, want: f64) -> bool {
    (0.95 * want..1.01 * want).contains(&rate)
}

#[test]
fn each_has_its_rate_and_the_others_what_is_left() {
    let outcome =
        run("customers = [{ group = 0, rate = \"5Mbit/s\" }, { group = 2, rate = \"20Mbit/s\" }]\n");
    let rates = rates(&outcome);
    assert!(near(rates[0], 5.0) && near(rates[2], 20.0), "{rates:?}");
    // 75 Mbit/s for two without a plan.
    assert!(near(rates[1], 37.5) && near(rates[3], 37.5), "{rates:?}");
    let link = &outcome.recording.summary.links[0];
    assert!(link.utilization > 0.99, "{}", link.utilization);
}

#[test]
fn a_link_that_is_free_waits_for_the_rates() {
    let each = (0..4).map(|n| format!("{{ group = {n}, rate = \"{}Mbit/s\" }}", 2 * (n + 1)));
    let outcome = run(&format!("customers = [{}]\n", each.collect::<Vec<_>>().join(", ")));
    let rates = rates(&outcome);
    for (n, rate) in rates.iter().enumerate() {
        assert!(near(*rate, 2.0 * (n + 1) as f64), "{rates:?}");
    }
    let link = &outcome.recording.summary.links[0];
    assert!((0.19..0.201).contains(&link.utilization), "{}", link.utilization);
}

#[test]
fn a_site_bounds_its_customers_together_and_they_share_alike() {
    let outcome = run("sites = [{ name = \"tower\", rate = \"12Mbit/s\" }]\n\
                       customers = [{ group = 0, site = \"tower\" }, { group = 1, site = \"tower\" }]\n");
    let rates = rates(&outcome);
    assert!(near(rates[0], 6.0) && near(rates[1], 6.0), "{rates:?}");
    assert!(near(rates[2], 44.0) && near(rates[3], 44.0), "{rates:?}");
}

/// What the policies of customers differ from. Steps of a virtual rate are as printed, which settle sooner
/// than those by time: a run has 20 s.
const USUAL: &str = "target_max = \"30ms\", virtual_by_time = false, virtual_gain = 0.1, virtual_signals = 0";

/// Two customers of 10 Mbit/s with a download each, beside two others who fill the link: what each got of its
/// rate, and how long its packets waited on average, in ms.
fn policies(first: &str, second: &str) -> [(f64, f64); 2] {
    let outcome = run_under(
        "gsp",
        &format!(
            "policy = {{ {USUAL} }}\n\
             customers = [{{ group = 0, rate = \"10Mbit/s\"{first} }}, {{ group = 1, rate = \"10Mbit/s\"{second} }}]\n"
        ),
    );
    let rates = rates(&outcome);
    let flows = &outcome.recording.summary.flows;
    [0, 1].map(|n| (rates[n] / 10.0, flows[n].rtt_ms - 20.0))
}

#[test]
fn each_customer_is_held_to_its_own_policy_at_its_own_rate() {
    let little = ", target_max = \"2ms\"";
    let much = ", utilization_low = \"99%\", target_max = \"80ms\"";
    // Of the rate 97.5 % are packets: each has 38 bytes of Ethernet around it.
    let [(least, short), (most, long)] = policies(little, much);
    assert!(short < 4.5 && least < 0.94, "{short} ms and {least} of the rate with at most 2 ms");
    assert!(long > 1.5 * short && most > 0.95, "{long} ms and {most} of the rate with as much as that takes");
    // The other way round it is the other way round.
    let [(most, long), (least, short)] = policies(much, little);
    assert!(short < 4.5 && least < 0.94, "{short} ms, {least}");
    assert!(long > 1.5 * short && most > 0.95, "{long} ms, {most}");
    // A policy that asks for less is content with less delay.
    let [content, _] = policies(", utilization_low = \"60%\"", "");
    let [eager, _] = policies(", utilization_low = \"99%\"", "");
    assert!(content.1 < 0.75 * eager.1 && content.0 < eager.0, "{content:?} for 60 %, {eager:?} for 99 %");
}

/// One download over a link of 10 Mbit/s with one FIFO: what it got of the rate.
fn alone(policy: &str) -> f64 {
    let text = format!(
        "title = \"alone\"\n[[links]]\nname = \"access\"\nfrom = \"a\"\nto = \"b\"\nrate = \"10Mbit/s\"\n\
         delay = \"10ms\"\nbuffer = \"500ms\"\naqm = {{ name = \"gsp\" }}\npolicy = {{ {USUAL}{policy} }}\n\
         [[links]]\nname = \"back\"\nfrom = \"b\"\nto = \"a\"\nrate = \"100Mbit/s\"\ndelay = \"10ms\"\n\
         [[flows]]\nfrom = \"a\"\nto = \"b\"\n[run]\nduration = \"20s\"\nwarmup = \"5s\"\n"
    );
    let scenario = Scenario::parse("alone.toml", &text).unwrap_or_else(|e| panic!("{e}"));
    rates(&weir_sim::run(&scenario, 1, &mut |_| ControlFlow::Continue(())).unwrap())[0] / 10.0
}

#[test]
fn a_virtual_queue_of_a_customer_is_that_of_a_link_of_its_rate() {
    for (low, aim) in [(79, 80), (49, 50)] {
        let own = format!(", utilization_low = \"{low}%\", utilization_target = \"{aim}%\"");
        let ([(part, short), (whole, long)], link) = (policies(&own, ""), alone(&own));
        println!(
            "{aim} %: {part} of the rate and {short} ms, of a link {link}; {whole} and {long} ms without"
        );
        assert!((part - link).abs() < 0.04 && part < f64::from(aim) / 100.0, "{part} of the rate, {link}");
        assert!(short < 0.7 * long && whole > 0.9, "{short} ms beside {long} ms, {whole} of the rate");
        // The other way round it is the other way round.
        let [_, (part, _)] = policies("", &own);
        assert!((part - link).abs() < 0.04, "{part} of the rate, {link}");
    }
}

/// A link that is short leaves less than the virtual queue is served at: the real queue is held to the
/// policy.
#[test]
fn a_customer_with_a_virtual_queue_on_a_link_that_is_short_waits_for_target_max_at_most() {
    let each = |n: u32| {
        format!(
            "{{ group = {n}, rate = \"80Mbit/s\", utilization_low = \"94%\", utilization_target = \"95%\", target_max = \"4ms\" }}"
        )
    };
    let outcome = run_under(
        "gsp",
        &format!(
            "policy = {{ target_max = \"30ms\" }}\ncustomers = [{}]\n",
            (0..4).map(each).collect::<Vec<_>>().join(", ")
        ),
    );
    let flows = &outcome.recording.summary.flows;
    let delays: Vec<f64> = flows.iter().map(|flow| flow.rtt_ms - 20.0).collect();
    println!("{delays:?} ms at {:?} Mbit/s", rates(&outcome));
    assert!(rates(&outcome).iter().all(|rate| near(*rate, 25.0) || *rate > 22.0), "{:?}", rates(&outcome));
    assert!(delays.iter().all(|ms| *ms < 8.0), "{delays:?}");
}

#[test]
fn who_is_exempt_is_not_signalled() {
    let drops = |exempt: bool| {
        let each = (0..4).map(|n| format!("{{ group = {n}, exempt = {exempt} }}"));
        let outcome = run(&format!("customers = [{}]\n", each.collect::<Vec<_>>().join(", ")));
        outcome.recording.summary.links[0].drops
    };
    assert!(drops(false) > 0);
    assert_eq!(drops(true), 0);
}

#[test]
fn what_does_not_go_together_is_refused_with_key_and_remedy() {
    let refused = |more: &str, queue: &str| {
        let text = format!(
            "title = \"x\"\n[[links]]\nname = \"l\"\nfrom = \"a\"\nto = \"b\"\nrate = \"1Mbit/s\"\ndelay = \"1ms\"\n{queue}\n{more}\n\
             [[flows]]\nfrom = \"a\"\nto = \"b\"\nudp_rate = \"1Mbit/s\"\n[run]\nduration = \"1s\"\n"
        );
        Scenario::parse("x.toml", &text).unwrap_err().to_string()
    };
    let user = "queue = { discipline = \"user\" }\naqm = { name = \"codel\" }";
    for (more, queue, says) in [
        ("customers = [{ group = 0 }]", "", "links.0.customers"),
        ("customers = [{ group = 1 }]", user, "links.0.customers.0.group"),
        ("customers = [{ group = 0 }, { group = 0 }]", user, "links.0.customers.1.group"),
        (
            "customers = [{ group = 0, site = \"towr\" }]\nsites = [{ name = \"tower\" }]",
            user,
            "did you mean \"tower\"?",
        ),
        (
            "customers = [{ group = 0, rate = \"1Mbit/s\", burst = \"9MB\" }]",
            user,
            "links.0.customers.0.burst",
        ),
        ("customers = [{ group = 0, target = \"9ms\" }]\npolicy = { target_max = \"9ms\" }", user, "policy"),
        ("customers = [{ group = 0, rate = \"1Mbit/s\", target_max = \"9ms\" }]", user, "0.target_max"),
        (
            "customers = [{ group = 0, utilization_low = \"90%\" }]\npolicy = { target_max = \"9ms\" }",
            user,
            "0.utilization_low`: needs a rate",
        ),
        (
            "customers = [{ group = 0, rate = \"1Mbit/s\", target_max = \"9us\" }]\npolicy = { target_max = \"9ms\" }",
            user,
            "0.target_max`: target_min",
        ),
        (
            "customers = [{ group = 0, rate = \"1Mbit/s\", target_max = \"9ms\" }]\npolicy = { target_max = \"9ms\" }\n\
             steered_by = \"poll\"",
            user,
            "steered_by",
        ),
        (
            "customers = [{ group = 0, rate = \"1Mbit/s\", utilization_target = \"95%\" }]\npolicy = { target_max = \"9ms\" }",
            user,
            "0.utilization_target`: utilization_low",
        ),
        (
            "customers = [{ group = 0, rate = \"1Mbit/s\", utilization_low = \"94%\", utilization_target = \"95%\" }]\n\
             policy = { target_max = \"9ms\" }",
            "queue = { discipline = \"user\", nqb = true }\naqm = { name = \"codel\" }",
            "0.utilization_target`: below 100% is held by a virtual queue",
        ),
        ("customers = [{ group = 0 }]\nmedium = \"air\"", user, "`medium`"),
        ("customers = [{ group = 0 }]\nupstream = \"follow\"", user, "`upstream`"),
        ("sites = [{ name = \"tower\" }]", user, "links.0.sites"),
        ("customers = [{ group = 0 }]\nsites = [{ name = \"s\" }, { name = \"s\" }]", user, "sites.1.name"),
    ] {
        let told = refused(more, queue);
        assert!(told.contains(says) && told.contains("; "), "{more}: {told}");
    }
}
