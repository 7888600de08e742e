//! Which name was meant: the nearest one by edit distance (insertions, deletions, replacements, swaps of
//! neighbours).

/// Longer words are not compared: no key is that long, and the comparison is quadratic.
const MAX_WORD: usize = 40;

/// Shorter names may be the end of other words by chance.
const ENDING: usize = 4;

/// The nearest of `names`, in any case, if it is near enough to be what was meant.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > MAX_WORD {
        return None;
    }
    let names: Vec<&str> = names.into_iter().collect();
    let word = word.to_lowercase();
    let slips = names.iter().map(|name| (strsim::osa_distance(&word, &name.to_lowercase()), *name));
    let (slips, name) = slips.min_by_key(|(slips, _)| *slips)?;
    // One slip in a short word, one per three letters in a longer one; nothing is like a single letter.
    let longest = word.chars().count().max(name.chars().count());
    if slips <= (longest / 3).max(1) && slips < longest {
        return Some(name);
    }
    // A variant of a name, such as `newreno`.
    names.into_iter().find(|name| name.len() >= ENDING && word.ends_with(name))
}

/// The algorithm that is meant by the name of a FlowQueue over it, such as Linux's `fq_codel` and `cake`.
pub fn each_flow_of(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    if let Some(known) = weir_aqm::per_flow_elsewhere(&name) {
        return Some(known);
    }
    let meant = name.strip_prefix("fq_").or(name.strip_prefix("fq-"))?;
    weir_aqm::names().iter().copied().find(|known| *known == meant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        assert_eq!(nearest("tarket", ["limit", "target", "interval"]), Some("target"));
        assert_eq!(nearest("taregt", ["target"]), Some("target"));
        assert_eq!(nearest("rate", ["buffer", "accounting"]), None);
        assert_eq!(nearest("", ["ip"]), None);
        assert_eq!(nearest("5", ["4", "6"]), None);
        assert_eq!(nearest(&"x".repeat(1 << 20), ["target"]), None);
        assert_eq!(nearest("CoDel", ["gsp", "codel"]), Some("codel"));
        assert_eq!(nearest("CUBIC", ["reno", "cubic"]), Some("cubic"));
        assert_eq!(nearest("NewReno", ["cubic", "reno", "bbr"]), Some("reno"));
        assert_eq!(nearest("newbbr", ["cubic", "reno", "bbr"]), None);
    }

    #[test]
    fn a_flow_queue_over_an_algorithm_is_known_by_its_usual_name() {
        assert_eq!(each_flow_of("fq_codel"), Some("codel"));
        assert_eq!(each_flow_of("FQ_PIE"), Some("pie"));
        assert_eq!([each_flow_of("Cake"), each_flow_of("sfq")], [Some("cobalt"), Some("tail_drop")]);
        assert_eq!([each_flow_of("codel"), each_flow_of("fq_"), each_flow_of("fq_cake")], [None; 3]);
    }
}
