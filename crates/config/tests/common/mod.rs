//! What tests of scenario files share: a small one, and what is made of it.

use weir_config::Scenario;

/// Not much more than a scenario must say.
pub const SMALL: &str = r#"
title = "Small"
link.rate = "100Mbit/s"
path.rtt = "20ms"
aqm.name = "gsp"
flows = [{}]
run.duration = "5s"
"#;

/// What a text means, which must be right.
pub fn read(text: &str) -> Scenario {
    Scenario::parse("small.toml", text).unwrap_or_else(|e| panic!("{e}"))
}

/// What is told of a text, which must be wrong.
pub fn refusal(text: &str) -> String {
    Scenario::parse("small.toml", text).unwrap_err().to_string()
}
