//! What links do to the DSCP of packets, as it is written.

use weir_config::{DscpRule, RunConfig};
use weir_wire::dscp::{Dscp, Remarks};

fn text(more: &str) -> String {
    format!("ports = {{ a = \"x\", b = \"y\" }}\n[a_to_b]\n{more}\n")
}

fn read(more: &str) -> RunConfig {
    RunConfig::parse("r.toml", &text(more)).unwrap_or_else(|e| panic!("{e}"))
}

fn refusal(more: &str) -> String {
    RunConfig::parse("r.toml", &text(more)).unwrap_err().to_string()
}

#[test]
fn code_points_have_names_and_numbers_and_are_printed_as_they_are_read() {
    assert!(read("").a_to_b.remarking.remarks().keeps_all());
    for (written, rule) in [
        ("\"keep\"", DscpRule::Keep),
        ("\"wash\"", DscpRule::Wash),
        ("\"ef\"", DscpRule::Set(Dscp::EXPEDITED)),
        ("45", DscpRule::Set(Dscp::NQB)),
        ("5", DscpRule::Set(Dscp::from_number(5).unwrap())),
    ] {
        let config = read(&format!("dscp = {written}"));
        assert_eq!(config.a_to_b.remarking.dscp, rule);
        assert_eq!(RunConfig::parse("x", &config.to_toml()).unwrap(), config, "{}", config.to_toml());
    }
    let both = read("dscp = \"wash\"\nremark = [{ from = \"nqb\", to = 45 }, { from = 3, to = \"le\" }]");
    let le = "le".parse().unwrap();
    let want = Remarks::to(Dscp::DEFAULT).with(Dscp::NQB, Dscp::NQB).with(Dscp::from_number(3).unwrap(), le);
    assert_eq!(both.a_to_b.remarking.remarks(), want);
    assert_eq!(RunConfig::parse("x", &both.to_toml()).unwrap(), both, "{}", both.to_toml());
}

#[test]
fn what_is_no_code_point_is_refused_with_line_key_and_remedy() {
    for (written, words) in [
        ("dscp = 64", "r.toml:3: key `a_to_b.dscp`: 64 is out of range; give a value in 0 .. 63"),
        ("dscp = \"wsh\"", "did you mean \"wash\"?"),
        ("dscp = \"EF\"", "\"EF\""),
        ("dscp = true", "\"keep\", \"wash\" or a code point"),
        ("remark = [{ from = \"ef\" }]", "has no `to`"),
        ("remark = [{ from = \"ef\", to = -1 }]", "0 .. 63"),
        ("remark = [{ from = \"ef\", to = 0, by = 1 }]", "unknown key"),
        ("remark = [{ from = \"ef\", to = 0 }, { from = 46, to = 1 }]", "two entries from ef"),
    ] {
        let told = refusal(written);
        assert!(told.contains(words) && told.contains("r.toml:3"), "{written}: {told}");
    }
}
