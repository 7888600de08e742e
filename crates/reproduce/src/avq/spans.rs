//! The spans of an experiment in which the load stays.

use weir_config::Scenario;

/// Times at which what was delivered must be known to tell the spans apart, without the start of the run.
pub fn edges(spans: &[Span]) -> Vec<f64> {
    let begin = spans.first().map(|s| s.from_s).filter(|s| *s > 0.0);
    begin.into_iter().chain(spans.iter().map(|s| s.to_s)).collect()
}

/// A span of time with its load.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Its beginning in seconds.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// The long flows that are there, by their numbers among the long flows.
    pub long: Vec<usize>,
    /// Short flows that begin in a second.
    pub short_per_s: f64,
}

/// The spans of a scenario after its warm-up, in order of time.
pub fn spans(scenario: &Scenario) -> Vec<Span> {
    let (begin, end) = (scenario.run.warmup, scenario.run.duration);
    let starts = scenario.flows.iter().map(|g| g.start);
    let mut edges: Vec<_> =
        starts.chain(scenario.flows.iter().filter_map(|g| g.stop)).chain([begin, end]).collect();
    edges.sort_unstable();
    edges.dedup();
    edges.retain(|edge| (begin..=end).contains(edge));
    let span = |pair: &[weir_units::Duration]| {
        let (mut long, mut number, mut short_per_s) = (Vec::new(), 0, 0.0);
        for group in &scenario.flows {
            let count = group.count as usize;
            let is_there = group.start <= pair[0] && group.stop.is_none_or(|stop| stop >= pair[1]);
            match group.every {
                Some(every) if is_there => short_per_s += f64::from(group.count) / every.as_secs_f64(),
                Some(_) => {}
                None if is_there => long.extend(number..number + count),
                None => {}
            }
            number += if group.every.is_none() { count } else { 0 };
        }
        Span { from_s: pair[0].as_secs_f64(), to_s: pair[1].as_secs_f64(), long, short_per_s }
    };
    edges.windows(2).map(span).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::avq::experiments::plan;
    use crate::avq::experiments::tests::arguments;

    fn spans_of(name: &str) -> Vec<(f64, usize, f64)> {
        let plan = plan(&arguments(name, false)).unwrap();
        spans(&plan[0].scenario).iter().map(|s| (s.to_s, s.long.len(), s.short_per_s)).collect()
    }

    #[test]
    fn loads_are_those_of_the_paper() {
        assert_eq!(spans_of("1"), [(100.0, 180, 0.0), (200.0, 180, 30.0)]);
        assert_eq!(spans_of("2")[8], (900.0, 180, 0.0));
        let two = plan(&arguments("2", false)).unwrap();
        let two = spans(&two[0].scenario);
        assert_eq!((two[0].from_s, two[0].to_s, two.len()), (10.0, 100.0, 9));
        assert_eq!(edges(&two)[..2], [10.0, 100.0]);
        let three = [(100.0, 140, 0.0), (150.0, 35, 0.0), (250.0, 140, 0.0)];
        assert_eq!(spans_of("3"), three);
        assert_eq!(spans_of("4")[5], (600.0, 40, 50.0));
    }

    #[test]
    fn flows_that_left_are_not_those_that_came() {
        let plan = plan(&arguments("3", false)).unwrap();
        let spans = spans(&plan[0].scenario);
        assert_eq!((spans[0].long.last(), spans[2].long.get(35)), (Some(&139), Some(&140)));
    }
}
