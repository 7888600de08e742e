//! What pages of the documentation say of algorithms and disciplines, from their declarations.

use crate::table_doc::{Row, markdown_rows};
use crate::{aqm_config, queue_config, settings};
use weir_aqm::ParamInfo;

/// The parameters of an algorithm or a discipline with units, defaults and ranges, as Markdown; `None` if
/// there is nothing of that name.
pub fn parameters(name: &str) -> Option<String> {
    let discipline = queue_config::declared(name);
    let choice =
        if discipline.is_some() { format!("discipline = \"{name}\"") } else { format!("name = \"{name}\"") };
    let table = if discipline.is_some() { "queue" } else { "aqm" };
    let (info, setpoint) = discipline.or_else(|| aqm_config::declared(name))?;
    let steered = setpoint.map(|s| format!(" Steering moves `{s}`.")).unwrap_or_default();
    Some(if info.is_empty() {
        format!("None. In the table `[{table}]`: `{choice}`.\n")
    } else {
        format!("Keys of the table `[{table}]`, beside `{choice}`.{steered}\n\n{}", rows(info))
    })
}

fn rows(info: &[ParamInfo]) -> String {
    let rows: Vec<Row> = info.iter().map(settings::row).collect();
    markdown_rows(&rows)
}
