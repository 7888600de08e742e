//! Results: rows of a table, each with what was required of it and beside whom it was measured.

use serde::Serialize;

/// What became of a requirement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It was met.
    Held,
    /// It was not met: the program ends with an error.
    Missed,
    /// Nothing is required; the value is told for its own sake.
    Told,
    /// It could not be measured here, for lack of a tool or a privilege; the note says of which.
    Skipped,
    /// It was to be measured and could not: the program ends with an error.
    Failed,
}

/// One result.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Part of the benchmark.
    pub part: &'static str,
    /// What was measured.
    pub what: String,
    /// The value; absent where it was not measured.
    pub value: Option<f64>,
    /// Unit of the value.
    pub unit: &'static str,
    /// What is required of it, in words; empty for nothing.
    pub required: String,
    /// Whether it was met.
    pub verdict: Verdict,
    /// How often it was measured.
    pub repetitions: u32,
    /// What was measured beside it in the same run.
    pub peer: String,
    /// What else there is to say.
    pub note: String,
}

impl Row {
    /// A value of which nothing is required.
    pub fn told(part: &'static str, what: impl Into<String>, value: f64, unit: &'static str) -> Row {
        Row {
            part,
            what: what.into(),
            value: Some(value),
            unit,
            required: String::new(),
            verdict: Verdict::Told,
            repetitions: 1,
            peer: String::new(),
            note: String::new(),
        }
    }

    /// Something that could not be measured.
    pub fn skipped(part: &'static str, what: impl Into<String>, why: impl Into<String>) -> Row {
        let row = Row::told(part, what, 0.0, "");
        Row { value: None, verdict: Verdict::Skipped, repetitions: 0, note: why.into(), ..row }
    }

    /// Something that went wrong while it was measured.
    pub fn failed(part: &'static str, what: impl Into<String>, why: impl Into<String>) -> Row {
        Row { verdict: Verdict::Failed, ..Row::skipped(part, what, why) }
    }

    /// The value must be at most `most`.
    pub fn at_most(self, most: f64) -> Row {
        let held = self.value.is_some_and(|v| v <= most);
        self.required(format!("<= {}", short(most)), held)
    }

    /// The value must be at least `least`.
    pub fn at_least(self, least: f64) -> Row {
        let held = self.value.is_some_and(|v| v >= least);
        self.required(format!(">= {}", short(least)), held)
    }

    fn required(self, required: String, held: bool) -> Row {
        // Where nothing passed there is no ratio: it was not measured.
        let verdict = match self.value {
            Some(value) if !value.is_finite() => Verdict::Failed,
            _ if held => Verdict::Held,
            _ => Verdict::Missed,
        };
        Row { required, verdict, ..self }
    }

    /// How often it was measured.
    pub fn times(self, repetitions: u32) -> Row {
        Row { repetitions, ..self }
    }

    /// What was measured beside it.
    pub fn beside(self, peer: impl Into<String>) -> Row {
        Row { peer: peer.into(), ..self }
    }

    /// What else there is to say.
    pub fn note(self, note: impl Into<String>) -> Row {
        Row { note: note.into(), ..self }
    }
}

/// The machine of a run: numbers of different machines do not compare.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Model of the processor.
    pub processor: String,
    /// Processors this program may use.
    pub processors: usize,
    /// The kernel.
    pub kernel: String,
    /// Load average over one minute at the start: what else the machine was doing.
    pub load: String,
}

impl Machine {
    /// The machine this runs on.
    pub fn this() -> Machine {
        let cpus = weir_lab::host::cpus();
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Machine {
            processor: cpus.model,
            processors: cpus.allowed.len(),
            kernel: read("/proc/sys/kernel/osrelease").trim().into(),
            load: read("/proc/loadavg").split(' ').next().unwrap_or_default().into(),
        }
    }
}

/// A number with three or four significant digits.
pub fn short(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// The rows as a table in Markdown.
pub fn table(machine: &Machine, rows: &[Row]) -> String {
    let head = ["part", "what", "value", "required", "verdict", "times", "peer in the same run", "note"];
    let mut lines = vec![head.map(String::from)];
    lines.extend(rows.iter().map(cells));
    let width = |column: usize| lines.iter().map(|l| l[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let print = |line: &[String; 8]| {
        let cells: Vec<String> = line.iter().zip(&widths).map(|(c, w)| format!("{c:w$}")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
    let Machine { processor, processors, kernel, load } = machine;
    let mut text =
        format!("{processor}, {processors} processors, Linux {kernel}, load {load} at the start\n\n");
    text += &print(&lines[0]);
    text += &format!("| {} |\n", rule.join(" | "));
    text.extend(lines[1..].iter().map(print));
    text
}

fn cells(row: &Row) -> [String; 8] {
    let value = row.value.map_or("-".into(), |v| format!("{} {}", short(v), row.unit).trim().to_string());
    let verdict = match row.verdict {
        Verdict::Held => "held",
        Verdict::Missed => "MISSED",
        Verdict::Told => "",
        Verdict::Skipped => "SKIPPED",
        Verdict::Failed => "FAILED",
    };
    let cell = |text: &str| text.replace('|', "/");
    [
        row.part.into(),
        cell(&row.what),
        value,
        row.required.clone(),
        verdict.into(),
        row.repetitions.to_string(),
        cell(&row.peer),
        cell(&row.note),
    ]
}

/// The middle value; NaN of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    weir_measure::median(&sorted).unwrap_or(f64::NAN)
}

/// All values, for a note that shows how far they lie apart.
pub fn all(values: &[f64]) -> String {
    values.iter().map(|v| short(*v)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requirement_decides_the_verdict() {
        let row = |v| Row::told("x", "y", v, "");
        assert_eq!(row(1.0).at_least(1.0).verdict, Verdict::Held);
        assert_eq!(row(0.99).at_least(1.0).verdict, Verdict::Missed);
        for nothing in [f64::NAN, f64::INFINITY] {
            assert_eq!(row(nothing).at_least(1.0).verdict, Verdict::Failed, "no number holds nothing");
        }
        assert_eq!(Row::skipped("x", "y", "no tool").verdict, Verdict::Skipped);
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}
