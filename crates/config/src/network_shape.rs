//! Networks that are described in one line: dumbbells, parking lots, trees.

use crate::aqm_config::AqmConfig;
use crate::flows::{Direction, Pairs};
use crate::limits::{FASTEST, SLOWEST};
use crate::problems::Problems;
use crate::queue_config::QueueConfig;
use crate::schema::{Check, Here, absent, list, or, required, within};
use crate::steering::Steering;
use crate::topology::Link;
use crate::variation::Variation;
use weir_units::{Duration, Rate};

/// Most hosts on a side, links in a row, and branches of a node; the links together have a limit too.
const MOST: u32 = 10_000;
/// Most levels of a tree.
const LEVELS: usize = 6;
const LONGEST: Duration = Duration::from_secs(10);
/// The access links of a dumbbell are so many times as fast as its bottleneck, where nothing is said.
const FASTER: u64 = 10;

section! {
    /// A network of many links. It is one of `dumbbell`, `parking_lot` and `tree`, and has links in both
    /// directions, so that acknowledgements have a way back and queues of their own there. Results and
    /// `[record]` call links and nodes by the names that stand here.
    pub struct NetworkShape {
        /// Hosts on each side of a dumbbell, `l1`, `l2` and so on, `r1`, `r2` and so on. Each has a link of
        /// its own, without management, to the node `left` or `right` (`l1-in` and `l1-out`, `r1-out` and
        /// `r1-in`); between these are the managed links `bottleneck` and `bottleneck-back`.
        dumbbell: Option<u32> = absent("another network", within(1, MOST));
        /// Managed links of a parking lot: `hop1` from the node `n0` to `n1`, and so on; `hop1-back` and so
        /// on lead back.
        parking_lot: Option<u32> = absent("another network", within(1, MOST));
        /// Branches of each node of a tree, level by level: [4, 10] are 4 nodes below `root` and 10 leaves
        /// below each of them, `n1-1` to `n4-10`. The managed links `down-1-1` and so on lead away from the
        /// root, `up-1-1` and so on to it.
        tree: Vec<u32> = list("another network", LEVELS, within(1, MOST));
        /// Rates of the links of a tree above its last level, from the root, in both directions. The last
        /// level is like `[link]`.
        rates: Vec<Rate> = list("a tree of one level", LEVELS, within(SLOWEST, FASTEST));
        /// Time from the beginning to the end of each managed link, behind its queue.
        delay: Duration = required(within(Duration::ZERO, LONGEST));
        /// Rate of the managed links of the way back, of a tree those of the last level that lead to the
        /// root, where it is another one than there.
        back_rate: Option<Rate> = absent("that of `[link]`", within(SLOWEST, FASTEST));
        /// Rate of the access links of a dumbbell.
        access_rate: Option<Rate> = absent("ten times that of `[link]`", within(SLOWEST, FASTEST));
        /// Time from the beginning to the end of each access link of a dumbbell.
        access_delay: Duration = or(Duration::ZERO, within(Duration::ZERO, LONGEST));
    }
}

impl Check for NetworkShape {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        let kinds = [
            ("dumbbell", self.dumbbell.is_some()),
            ("parking_lot", self.parking_lot.is_some()),
            ("tree", !self.tree.is_empty()),
        ];
        let given: Vec<&str> = kinds.iter().filter(|(_, given)| *given).map(|(key, _)| *key).collect();
        match given[..] {
            [_] => {}
            [] => {
                let remedy = "add `dumbbell`, `parking_lot` or `tree`, such as `parking_lot = 4`";
                here.wrong(p, "dumbbell", "is missing: nothing says what network it is", remedy);
            }
            [first, other, ..] => {
                here.wrong(p, other, format!("does not go with `{first}`"), "remove one of the two");
            }
        }
        if self.dumbbell.is_none() {
            let keys = [
                ("access_rate", self.access_rate.is_some()),
                ("access_delay", self.access_delay > Duration::ZERO),
            ];
            for (key, _) in keys.iter().filter(|(_, given)| *given) {
                here.wrong(p, key, "is of a `dumbbell`", "remove it: other networks have no access links");
            }
        }
        let above = self.tree.len().saturating_sub(1);
        if self.tree.is_empty() && !self.rates.is_empty() {
            here.wrong(p, "rates", "are of a `tree`", "remove them: all links are like `[link]`");
        } else if self.rates.len() != above {
            let problem = format!("are {}, and {above} levels are above the last one", self.rates.len());
            let remedy =
                "give one for each level but the last, from the root; that of the last is `link.rate`";
            here.wrong(p, "rates", problem, remedy);
        }
    }
}

/// The words for pairs in a sentence.
pub(crate) fn words(pairs: &[Pairs]) -> String {
    let words: Vec<String> = pairs.iter().map(|pairs| format!("`pairs = \"{pairs}\"`")).collect();
    words.join(" or ")
}

impl NetworkShape {
    /// The pairs that this network has.
    pub(crate) fn suited(&self) -> &'static [Pairs] {
        match (self.dumbbell, self.parking_lot) {
            (Some(_), _) => &[Pairs::Each],
            (None, Some(_)) => &[Pairs::Long, Pairs::Cross],
            (None, None) => &[Pairs::Leaves],
        }
    }

    /// The number of links.
    pub fn link_count(&self) -> u64 {
        match (self.dumbbell, self.parking_lot) {
            (Some(hosts), _) => 2 + 4 * u64::from(hosts),
            (None, Some(hops)) => 2 * u64::from(hops),
            (None, None) => self.nodes_of_levels().fold(0, u64::saturating_add).saturating_mul(2),
        }
    }

    /// The number of nodes of each level of a tree.
    fn nodes_of_levels(&self) -> impl Iterator<Item = u64> {
        self.tree.iter().scan(1u64, |nodes, branches| {
            *nodes = nodes.saturating_mul(u64::from(*branches));
            Some(*nodes)
        })
    }

    /// The number of pairs of nodes.
    pub fn pair_count(&self, pairs: Pairs) -> u64 {
        match pairs {
            Pairs::Each => self.dumbbell.unwrap_or(0).into(),
            Pairs::Long => 1,
            Pairs::Cross => self.parking_lot.unwrap_or(0).into(),
            Pairs::Leaves => self.nodes_of_levels().last().unwrap_or(0),
        }
    }

    /// From where to where flows go, pair by pair.
    pub fn pairs(&self, pairs: Pairs, direction: Direction) -> Vec<(String, String)> {
        let ends = |from: String, to: String| match direction {
            Direction::Forward => (from, to),
            Direction::Reverse => (to, from),
        };
        let node = |number: u32| format!("n{number}");
        match pairs {
            Pairs::Each => {
                let hosts = 1..=self.dumbbell.unwrap_or(0);
                hosts.map(|host| ends(format!("l{host}"), format!("r{host}"))).collect()
            }
            Pairs::Long => vec![ends(node(0), node(self.parking_lot.unwrap_or(0)))],
            Pairs::Cross => {
                (0..self.parking_lot.unwrap_or(0)).map(|hop| ends(node(hop), node(hop + 1))).collect()
            }
            Pairs::Leaves => {
                let leaves = self.levels().pop().unwrap_or_default();
                leaves.into_iter().map(|leaf| ends(ROOT.to_string(), format!("n{leaf}"))).collect()
            }
        }
    }

    /// The numbers of the nodes of each level of a tree, such as "4-10".
    fn levels(&self) -> Vec<Vec<String>> {
        let mut levels: Vec<Vec<String>> = Vec::new();
        for branches in &self.tree {
            let next = match levels.last() {
                None => (1..=*branches).map(|n| n.to_string()).collect(),
                Some(above) => above
                    .iter()
                    .flat_map(|node| (1..=*branches).map(move |n| format!("{node}-{n}")))
                    .collect(),
            };
            levels.push(next);
        }
        levels
    }

    /// The links. `like` is a managed one, whose rate is `rate`.
    pub(crate) fn links(&self, like: &Link, rate: Rate) -> Vec<Link> {
        let back = match self.back_rate {
            None => like.clone(),
            Some(rate) => at_rate(like, rate),
        };
        let named =
            |like: &Link, name: String, from: String, to: String| Link { name, from, to, ..like.clone() };
        let mut links = Vec::new();
        if let Some(hosts) = self.dumbbell {
            let access = self.access(like, rate);
            let (left, right) = ("left".to_string(), "right".to_string());
            links.push(named(like, "bottleneck".into(), left.clone(), right.clone()));
            links.push(named(&back, "bottleneck-back".into(), right.clone(), left.clone()));
            for n in 1..=hosts {
                let (l, r) = (format!("l{n}"), format!("r{n}"));
                links.push(named(&access, format!("{l}-in"), l.clone(), left.clone()));
                links.push(named(&access, format!("{r}-out"), right.clone(), r.clone()));
                links.push(named(&access, format!("{r}-in"), r, right.clone()));
                links.push(named(&access, format!("{l}-out"), left.clone(), l));
            }
        } else if let Some(hops) = self.parking_lot {
            let ends = |hop: u32| (format!("n{}", hop - 1), format!("n{hop}"));
            for hop in 1..=hops {
                let (from, to) = ends(hop);
                links.push(named(like, format!("hop{hop}"), from, to));
            }
            for hop in 1..=hops {
                let (to, from) = ends(hop);
                links.push(named(&back, format!("hop{hop}-back"), from, to));
            }
        }
        for (level, nodes) in self.levels().into_iter().enumerate() {
            let above = self.rates.get(level).map(|rate| at_rate(like, *rate));
            let (down, up) = above.as_ref().map_or((like, &back), |above| (above, above));
            for node in nodes {
                let parent =
                    node.rsplit_once('-').map_or(ROOT.to_string(), |(parent, _)| format!("n{parent}"));
                links.push(named(down, format!("down-{node}"), parent.clone(), format!("n{node}")));
                links.push(named(up, format!("up-{node}"), format!("n{node}"), parent));
            }
        }
        links
    }

    /// An access link of a dumbbell: faster, constant, without management.
    fn access(&self, like: &Link, rate: Rate) -> Link {
        let usual = Rate::from_bps(rate.as_bps().saturating_mul(FASTER)).min(FASTEST);
        let mut access = at_rate(like, self.access_rate.unwrap_or(usual));
        access.variation = Variation::default();
        access.steering = Steering::default();
        access.delay = self.access_delay;
        (access.queue, access.aqm, access.policy) = (QueueConfig::default(), Some(AqmConfig::fifo()), None);
        access
    }
}

/// A link of another, constant rate.
fn at_rate(like: &Link, rate: Rate) -> Link {
    let mut link = like.clone();
    link.shape.rate = Some(rate);
    (link.variation.trace, link.variation.steps) = (None, Vec::new());
    (link.variation.wifi, link.variation.grants) = (None, None);
    link
}

/// The node at the top of a tree.
const ROOT: &str = "root";
