//! Customers that are asked for by name, by address or in the order of a column: all of them, and not only
//! those with the highest rates.

use crate::answers::{Answer, json, refuse};
use crate::model::{CustomerStatus, CustomersFound, PlanFound, UserStatus};
use hyper::StatusCode;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

/// Customers that are told of at once.
const LIMIT_MAX: usize = 1000;
const LIMIT: usize = 100;

/// A network of a customer: its first address, how many bits of it count, and the place of its customer.
pub type CustomerNetwork = (IpAddr, u8, u32);

/// How all users of a direction stand, made when somebody asks: there may be many, and few ask.
pub trait EachUser: std::fmt::Debug + Send + Sync {
    /// Those with a queue that have a plan.
    fn users(&self) -> Vec<UserStatus>;
}

impl EachUser for Vec<UserStatus> {
    fn users(&self) -> Vec<UserStatus> {
        self.clone()
    }
}

/// Plans of customers in force, of which one is told when somebody asks.
pub trait EachPlan: std::fmt::Debug + Send + Sync {
    /// What a key such as `customers.NAME.down`, or all of `customers.NAME`, has for values; else why there
    /// are none, and what to do.
    fn find(&self, key: &str) -> Result<PlanFound, String>;
}

/// All customers, as of the last look.
#[derive(Clone, Debug, Default)]
pub struct Customers {
    /// Their plans; none where there is no file of plans.
    pub plans: Option<Arc<dyn EachPlan>>,
    /// Names of those with a plan.
    pub planned: Arc<Vec<String>>,
    /// Their networks.
    pub networks: Arc<Vec<CustomerNetwork>>,
    /// How those that have a queue stand, by name of the direction.
    pub directions: Vec<(String, Arc<dyn EachUser>)>,
}

/// What is asked for.
#[derive(Debug)]
struct Question {
    name: Option<String>,
    address: Option<IpAddr>,
    direction: Option<String>,
    sort: Column,
    is_rising: bool,
    limit: usize,
    offset: usize,
}

/// What is compared of two customers.
type Column = fn(&UserStatus, &UserStatus) -> Ordering;

fn numbers(a: Option<f64>, b: Option<f64>) -> Ordering {
    // What is not known is less than what is.
    match (a, b) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

const COLUMNS: [(&str, Column); 14] = [
    ("name", |a, b| a.name.cmp(&b.name)),
    ("rate_bps", |a, b| numbers(a.rate_bps, b.rate_bps)),
    ("delivered_bps", |a, b| a.delivered_bps.total_cmp(&b.delivered_bps)),
    ("delivered_bytes", |a, b| a.delivered_bytes.cmp(&b.delivered_bytes)),
    ("delivered_packets", |a, b| a.delivered_packets.cmp(&b.delivered_packets)),
    ("dropped_packets", |a, b| a.dropped_packets.cmp(&b.dropped_packets)),
    ("marked_packets", |a, b| a.marked_packets.cmp(&b.marked_packets)),
    ("delay_mean_ms", |a, b| numbers(a.delay_mean_ms, b.delay_mean_ms)),
    ("delay_p95_ms", |a, b| numbers(a.delay_p95_ms, b.delay_p95_ms)),
    ("delay_max_ms", |a, b| a.delay_max_ms.total_cmp(&b.delay_max_ms)),
    ("rtt_ms", |a, b| numbers(a.rtt_ms, b.rtt_ms)),
    ("outcome", |a, b| numbers(a.outcome, b.outcome)),
    ("setpoint_ms", |a, b| numbers(a.setpoint_ms, b.setpoint_ms)),
    ("backlog_bytes", |a, b| a.backlog_bytes.cmp(&b.backlog_bytes)),
];

/// Names of the columns by which customers can be sorted.
pub fn columns() -> impl Iterator<Item = &'static str> {
    COLUMNS.iter().map(|(name, _)| *name)
}

/// A part of a query as it was meant (RFC 3986 section 2.1; forms write a blank as `+`).
fn decoded(text: &str) -> Option<String> {
    let mut octets = Vec::new();
    let mut rest = text.bytes();
    while let Some(octet) = rest.next() {
        octets.push(match octet {
            b'%' => {
                let pair = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&pair).ok()?, 16).ok()?
            }
            b'+' => b' ',
            octet => octet,
        });
    }
    String::from_utf8(octets).ok()
}

impl Question {
    fn read(query: &str) -> Result<Question, String> {
        let (_, by_rate) = COLUMNS[2];
        let mut question = Question {
            name: None,
            address: None,
            direction: None,
            sort: by_rate,
            is_rising: false,
            limit: LIMIT,
            offset: 0,
        };
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let value = decoded(value).ok_or_else(|| format!("`{key}` is not written as in a URL"))?;
            let number = || {
                value
                    .parse::<usize>()
                    .map_err(|_| format!("`{key}`: {value:?} is no number. Remedy: give one"))
            };
            match key {
                "name" => question.name = Some(value.to_lowercase()),
                "address" => {
                    let told = |_| format!("`address`: {value:?} is no IP address. Remedy: give one host");
                    question.address = Some(value.parse().map_err(told)?);
                }
                "direction" => question.direction = Some(value),
                "sort" => {
                    let found = COLUMNS.iter().find(|(name, _)| *name == value);
                    let told = || {
                        let all: Vec<&str> = columns().collect();
                        format!("`sort`: {value:?} is no column. Remedy: give one of {}", all.join(", "))
                    };
                    question.sort = found.ok_or_else(told)?.1;
                    question.is_rising |= value == "name";
                }
                "order" => {
                    question.is_rising = match value.as_str() {
                        "asc" => true,
                        "desc" => false,
                        _ => return Err(format!("`order`: {value:?}. Remedy: give asc or desc")),
                    }
                }
                "limit" => match number()? {
                    limit @ 1..=LIMIT_MAX => question.limit = limit,
                    limit => return Err(format!("`limit`: {limit}. Remedy: give 1 to {LIMIT_MAX}")),
                },
                "offset" => question.offset = number()?,
                _ => {
                    let known = "name, address, direction, sort, order, limit, offset";
                    return Err(format!("`{key}` is unknown. Remedy: the parameters are {known}"));
                }
            }
        }
        Ok(question)
    }
}

impl Customers {
    /// Whose an address is: that of the smallest network which has it.
    fn owner(&self, address: IpAddr) -> Option<&str> {
        let has = |(first, length, _): &&CustomerNetwork| match (first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                (u32::from(*first) ^ u32::from(address)).leading_zeros() >= u32::from(*length)
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                (u128::from(*first) ^ u128::from(address)).leading_zeros() >= u32::from(*length)
            }
            _ => false,
        };
        let smallest = self.networks.iter().filter(has).max_by_key(|(_, length, _)| *length)?;
        self.planned.get(smallest.2 as usize).map(String::as_str)
    }

    fn find(&self, question: &Question) -> CustomersFound {
        let owner = question.address.map(|address| self.owner(address));
        let is_meant = |name: &str| {
            let by_address = owner.is_none_or(|owner| owner == Some(name));
            let by_name = question.name.as_ref().is_none_or(|part| name.to_lowercase().contains(part));
            by_address && by_name
        };
        let mut found: Vec<(&str, bool, UserStatus)> = Vec::new();
        let is_wanted = |name: &&(String, _)| question.direction.as_ref().is_none_or(|own| *own == name.0);
        let is_searched = question.name.is_some() || question.address.is_some();
        for (direction, users) in self.directions.iter().filter(is_wanted) {
            let users = users.users();
            let idle: Vec<&String> = if is_searched {
                let there: HashSet<&str> = users.iter().map(|user| user.name.as_str()).collect();
                let has_none = |name: &&String| is_meant(name) && !there.contains(name.as_str());
                self.planned.iter().filter(has_none).collect()
            } else {
                Vec::new()
            };
            let own = users.into_iter().filter(|user| is_meant(&user.name));
            found.extend(own.map(|user| (direction.as_str(), true, user)));
            // Who sends nothing has no queue, and is looked for all the same.
            let idle =
                idle.into_iter().map(|name| UserStatus { name: name.clone(), ..UserStatus::default() });
            found.extend(idle.map(|user| (direction.as_str(), false, user)));
        }
        found.sort_by(|(_, _, a), (_, _, b)| {
            let order = (question.sort)(a, b);
            (if question.is_rising { order } else { order.reverse() }).then_with(|| a.name.cmp(&b.name))
        });
        let matched = found.len() as u64;
        let shown = found.into_iter().skip(question.offset).take(question.limit);
        let customers = shown
            .map(|(direction, has_queue, user)| CustomerStatus {
                direction: direction.into(),
                has_queue,
                user,
            })
            .collect();
        CustomersFound { matched, customers }
    }

    /// The plan that a query asks for, or a key of it.
    pub(crate) fn answer_plan(&self, query: Option<&str>) -> Answer {
        let Some(plans) = &self.plans else {
            let error = "it has no plans of customers. Remedy: name a file of plans, `users.file`, and start it again";
            return refuse(StatusCode::CONFLICT, error);
        };
        let Some(key) = query.and_then(|query| decoded(query.strip_prefix("key=")?)) else {
            let error = "no key is named. Remedy: ask for one, such as `?key=customers.NAME.down`";
            return refuse(StatusCode::UNPROCESSABLE_ENTITY, error);
        };
        match plans.find(&key) {
            Ok(found) => json(StatusCode::OK, &found),
            Err(error) => refuse(StatusCode::NOT_FOUND, error),
        }
    }

    /// Those that a query asks for.
    pub(crate) fn answer(&self, query: Option<&str>) -> Answer {
        match Question::read(query.unwrap_or_default()) {
            Ok(question) => json(StatusCode::OK, &self.find(&question)),
            Err(error) => refuse(StatusCode::UNPROCESSABLE_ENTITY, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn customers() -> Customers {
        let user = |name: &str, bps: f64, rtt: Option<f64>| UserStatus {
            name: name.into(),
            delivered_bps: bps,
            rtt_ms: rtt,
            ..UserStatus::default()
        };
        // Two hundred with high rates, and a quiet one.
        let mut users: Vec<UserStatus> =
            (0..200).map(|n| user(&format!("c{n}"), 1e6 + f64::from(n), None)).collect();
        users.push(user("Meyer, J. & Söhne", 10.0, Some(7.0)));
        let mut planned: Vec<String> = users.iter().map(|user| user.name.clone()).collect();
        planned.push("idle".into());
        let networks = vec![
            ("10.0.0.0".parse().unwrap(), 8, 3),
            ("10.1.0.0".parse().unwrap(), 16, 200),
            ("2001:db8::".parse().unwrap(), 56, 201),
        ];
        let up = Arc::new(Vec::<UserStatus>::new());
        let directions: Vec<(String, Arc<dyn EachUser>)> =
            vec![("down".to_string(), Arc::new(users)), ("up".to_string(), up)];
        Customers { plans: None, planned: Arc::new(planned), networks: Arc::new(networks), directions }
    }

    fn asked(query: &str) -> Result<(u64, Vec<String>), String> {
        let found = customers().find(&Question::read(query)?);
        let shown = |one: &CustomerStatus| {
            let queue = if one.has_queue { "" } else { " (no queue)" };
            format!("{} {}{queue}", one.direction, one.user.name)
        };
        Ok((found.matched, found.customers.iter().map(shown).collect()))
    }

    #[test]
    fn a_quiet_customer_is_found_by_name_and_by_address() {
        let quiet = "down Meyer, J. & Söhne";
        let (matched, first) = asked("").unwrap();
        assert!(matched == 201 && first.len() == 100 && !first.contains(&quiet.to_string()));
        for query in [
            "name=meyer&direction=down",
            "name=J.+%26+S%C3%B6hne&direction=down",
            "address=10.1.2.3&direction=down",
        ] {
            assert_eq!(asked(query).unwrap(), (1, vec![quiet.to_string()]), "{query}");
        }
        assert_eq!(asked("address=10.2.0.1&direction=down").unwrap().1, ["down c3"]);
        assert_eq!(asked("address=2001:db8::7").unwrap().1, ["down idle (no queue)", "up idle (no queue)"]);
        assert_eq!(asked("address=192.0.2.1").unwrap().0, 0);
        assert_eq!(asked("name=nobody").unwrap().0, 0);
    }

    #[test]
    fn all_are_told_page_by_page_in_the_order_of_a_column() {
        let (_, first) = asked("sort=rtt_ms&limit=2").unwrap();
        assert_eq!(first, ["down Meyer, J. & Söhne", "down c0"]);
        let (_, slow) = asked("sort=delivered_bps&order=asc&limit=2&offset=1").unwrap();
        assert_eq!(slow, ["down c0", "down c1"]);
        let (_, named) = asked("sort=name&limit=1").unwrap();
        assert_eq!(named, ["down Meyer, J. & Söhne"]);
        assert_eq!(asked("offset=5000").unwrap(), (201, vec![]));
    }

    #[test]
    fn what_is_not_understood_is_refused_with_a_remedy() {
        for query in
            ["limit=0", "limit=1001", "limit=x", "sort=speed", "order=up", "address=10.0.0.0/8", "nmae=x"]
        {
            assert!(asked(query).unwrap_err().contains("Remedy"), "{query}");
        }
        assert!(asked("name=%zz").is_err() && asked("name=%ff").is_err() && asked("name=%").is_err());
    }
}
