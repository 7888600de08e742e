//! Flow descriptions: the part of IPFilterRule (RFC 6733 section 4.3.1) that session management may write (TS
//! 29.212 section 5.4.2): `permit out PROTOCOL from REMOTE [PORTS] to LOCAL [PORTS]`.

use super::{Endpoint, Filter, PortRange, Prefix};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Longest description.
pub const DESCRIPTION_MAX: usize = 1024;
/// Most port ranges of an end.
pub const PORTS_MAX: usize = 32;

/// What is wrong with a description, and what to write instead.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{problem}. Remedy: {remedy}")]
pub struct FilterError {
    /// What is wrong.
    pub problem: String,
    /// What to write instead.
    pub remedy: &'static str,
}

const FORM: &str = "write `permit out PROTOCOL from ADDRESS [PORTS] to ADDRESS [PORTS]`, such as \
                    `permit out 6 from 192.0.2.0/24 80,443 to assigned`";

fn wrong<T>(problem: impl Into<String>, remedy: &'static str) -> Result<T, FilterError> {
    Err(FilterError { problem: problem.into(), remedy })
}

/// A word of the description for a message: what is not plain is escaped, what is long is cut.
fn shown(word: &str) -> String {
    const MOST: usize = 40;
    let cut: String = word.chars().take(MOST).flat_map(char::escape_default).collect();
    let dots = if word.chars().nth(MOST).is_some() { "..." } else { "" };
    format!("`{cut}{dots}`")
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Filter, FilterError> {
        if text.len() > DESCRIPTION_MAX {
            return wrong(format!("has {} bytes", text.len()), "write at most 1024 bytes");
        }
        let mut words = text.split_ascii_whitespace().peekable();
        match words.next() {
            Some("permit") => {}
            Some("deny") => {
                return wrong("`deny` is not done", "permit what is meant; the rest is not matched");
            }
            other => return wrong(format!("begins with {}", shown(other.unwrap_or(""))), FORM),
        }
        let is_in = match words.next() {
            Some("out") => false,
            Some("in") => true,
            other => return wrong(format!("{} is no direction", shown(other.unwrap_or(""))), "write `out`"),
        };
        let protocol = protocol(words.next().unwrap_or(""))?;
        keyword(words.next(), "from")?;
        let source = endpoint(&mut words)?;
        keyword(words.next(), "to")?;
        let destination = endpoint(&mut words)?;
        if let Some(option) = words.next() {
            return wrong(format!("the option {} is not done", shown(option)), "end behind the destination");
        }
        let (remote, local) = if is_in { (destination, source) } else { (source, destination) };
        if remote.1 {
            return wrong(
                "`assigned` stands for the end in the network",
                "write it for the user equipment: behind `to` of `permit out`",
            );
        }
        let filter = Filter { protocol, remote: remote.0, local: local.0, is_in, ..Filter::default() };
        filter.agrees()?;
        Ok(filter)
    }
}

impl Filter {
    /// Whether its parts go together.
    fn agrees(&self) -> Result<(), FilterError> {
        if let (Some(remote), Some(local)) = (self.remote.prefix, self.local.prefix)
            && remote.address.is_ipv4() != local.address.is_ipv4()
        {
            return wrong("its addresses are of two IP versions", "write a filter for each version");
        }
        let has_ports = !(self.remote.ports.is_empty() && self.local.ports.is_empty());
        match self.protocol {
            Some(number) if has_ports && !PORTED.contains(&number) => {
                wrong(format!("protocol {number} has no ports"), "remove the ports, or name another protocol")
            }
            _ => Ok(()),
        }
    }
}

/// Protocols with ports where TCP and UDP have them: TCP, UDP, DCCP, SCTP, UDP-Lite.
const PORTED: [u8; 5] = [6, 17, 33, 132, 136];

fn protocol(word: &str) -> Result<Option<u8>, FilterError> {
    match word {
        "ip" => Ok(None),
        _ => match digits::<u8>(word) {
            Some(number) => Ok(Some(number)),
            None => wrong(
                format!("{} is no protocol", shown(word)),
                "write its number, such as 6 for TCP and 17 for UDP, or `ip` for any",
            ),
        },
    }
}

fn keyword(word: Option<&str>, expected: &'static str) -> Result<(), FilterError> {
    match word {
        Some(word) if word == expected => Ok(()),
        Some(word) => wrong(format!("{} stands where `{expected}` is needed", shown(word)), FORM),
        None => wrong(format!("ends before `{expected}`"), FORM),
    }
}

/// A number of digits alone: no sign, no blank.
fn digits<T: FromStr>(word: &str) -> Option<T> {
    word.bytes().all(|b| b.is_ascii_digit()).then(|| word.parse().ok()).flatten()
}

/// An end, and whether it is "assigned".
fn endpoint<'a>(
    words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
) -> Result<(Endpoint, bool), FilterError> {
    let Some(word) = words.next() else { return wrong("ends before an address", FORM) };
    let prefix = match word {
        "any" | "assigned" => None,
        _ => Some(prefix(word)?),
    };
    let starts_ports = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit() || c == ',' || c == '-');
    let ports = match words.next_if(starts_ports) {
        Some(list) => ports(list)?,
        None => Box::default(),
    };
    Ok((Endpoint { prefix, ports }, word == "assigned"))
}

fn prefix(word: &str) -> Result<Prefix, FilterError> {
    if word.starts_with('!') {
        return wrong(
            format!("{} is inverted", shown(word)),
            "name the addresses that are meant, without `!`",
        );
    }
    let (address, length) = match word.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (word, None),
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        let remedy =
            "write an IP address, with `/` and the number of bits for a prefix, or `any`, or `assigned`";
        return wrong(format!("{} is no address", shown(word)), remedy);
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    match length.map(digits::<u8>) {
        None => Ok(Prefix::new(address, most)),
        Some(Some(length)) if length <= most => Ok(Prefix::new(address, length)),
        Some(_) => {
            wrong(format!("{} has no such prefix", shown(word)), "give 0 to 32 bits, or to 128 under IPv6")
        }
    }
}

fn ports(list: &str) -> Result<Box<[PortRange]>, FilterError> {
    let ranges: Result<Vec<PortRange>, FilterError> =
        list.split(',').take(PORTS_MAX + 1).map(range).collect();
    let ranges = ranges?;
    if ranges.len() > PORTS_MAX {
        return wrong("names more than 32 ranges of ports", "write several filters");
    }
    Ok(ranges.into())
}

fn range(text: &str) -> Result<PortRange, FilterError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (digits(first), digits(last)) {
        (Some(first), Some(last)) if first <= last => Ok(PortRange { first, last }),
        (Some(_), Some(_)) => {
            wrong(format!("the ports {} run backwards", shown(text)), "write the lower first")
        }
        _ => wrong(
            format!("{} are no ports", shown(text)),
            "write ports such as 443 or 8000-8099, with commas between",
        ),
    }
}

impl Prefix {
    /// The addresses that share the first `length` bits with `address`.
    pub fn new(address: IpAddr, length: u8) -> Prefix {
        let address = match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask))
            }
        };
        let most = if address.is_ipv4() { 32 } else { 128 };
        Prefix { address, length: length.min(most) }
    }
}

impl fmt::Display for Filter {
    /// As it is written. What other fields than the description say is not in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = self.protocol.map_or("ip".to_string(), |number| number.to_string());
        let (remote, local) = (end(&self.remote, "any"), end(&self.local, "assigned"));
        match self.is_in {
            false => write!(f, "permit out {protocol} from {remote} to {local}"),
            true => write!(f, "permit in {protocol} from {local} to {remote}"),
        }
    }
}

fn end(end: &Endpoint, all: &str) -> String {
    let mut text = end.prefix.map_or(all.to_string(), |p| format!("{}/{}", p.address, p.length));
    for (at, range) in end.ports.iter().enumerate() {
        text.push(if at == 0 { ' ' } else { ',' });
        text.push_str(&range.first.to_string());
        if range.last != range.first {
            text.push_str(&format!("-{}", range.last));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Filter {
        text.parse().unwrap_or_else(|wrong| panic!("{text}: {wrong}"))
    }

    #[test]
    fn what_session_management_writes_is_read() {
        let filter = read("permit out ip from 192.0.2.10 443 to assigned");
        assert_eq!(filter.protocol, None);
        assert_eq!(filter.remote.prefix, Some(Prefix { address: "192.0.2.10".parse().unwrap(), length: 32 }));
        assert_eq!(*filter.remote.ports, [PortRange { first: 443, last: 443 }]);
        assert_eq!(filter.local, Endpoint::default());
        let filter = read("permit out 17 from 2001:db8::7/32 to any 1-2,70,8000-8099");
        assert_eq!(filter.protocol, Some(17));
        assert_eq!(filter.remote.prefix.unwrap().to_owned(), Prefix::new("2001:db8::".parse().unwrap(), 32));
        assert_eq!(filter.local.ports.len(), 3);
        assert_eq!(read("permit out ip from any to assigned"), Filter::default());
    }

    #[test]
    fn both_directions_name_the_same_ends() {
        let (out, into) = (
            read("permit out 6 from 192.0.2.1 80 to 10.0.0.0/8 5000"),
            read("permit in 6 from 10.0.0.0/8 5000 to 192.0.2.1 80"),
        );
        assert_eq!(Filter { is_in: false, ..into.clone() }, out);
        assert!(into.is_in && !out.is_in);
    }

    #[test]
    fn what_is_written_reads_back() {
        for text in [
            "permit out ip from any to assigned",
            "permit in 6 from assigned 1-65535 to 2001:db8::/32 80,443",
            "permit out 17 from 0.0.0.0/0 53 to 10.1.0.0/16",
        ] {
            assert_eq!(read(text).to_string(), text);
        }
    }

    #[test]
    fn what_cannot_be_kept_is_refused_with_its_word() {
        for (text, word) in [
            ("", "``"),
            ("deny out ip from any to assigned", "deny"),
            ("permit sideways ip from any to assigned", "sideways"),
            ("permit out tcp from any to assigned", "tcp"),
            ("permit out 256 from any to assigned", "256"),
            ("permit out +6 from any to assigned", "+6"),
            ("permit out 6 from !10.0.0.1 to assigned", "inverted"),
            ("permit out 6 from 10.0.0.1/33 to assigned", "/33"),
            ("permit out 6 from 10.0.0.1 90-80 to assigned", "backwards"),
            ("permit out 6 from 10.0.0.1 80,,81 to assigned", "ports"),
            ("permit out 6 from 10.0.0.1 70000 to assigned", "70000"),
            ("permit out 1 from 10.0.0.1 80 to assigned", "no ports"),
            ("permit out 6 from 10.0.0.1 to 2001:db8::1", "two IP versions"),
            ("permit out 6 from assigned to 10.0.0.1", "assigned"),
            ("permit out 6 from any to assigned established", "established"),
            ("permit out 6 from any", "ends before"),
            ("permit out 6 to any", "`from`"),
        ] {
            let told = text.parse::<Filter>().expect_err(text).to_string();
            assert!(told.contains(word) && told.contains("Remedy"), "{text}: {told}");
        }
        assert!("x".repeat(DESCRIPTION_MAX + 1).parse::<Filter>().is_err());
        let many = vec!["1"; PORTS_MAX + 1].join(",");
        assert!(format!("permit out 6 from any {many} to assigned").parse::<Filter>().is_err());
    }

    #[test]
    fn prefixes_contain_what_begins_like_them() {
        let net = Prefix::new("192.0.2.77".parse().unwrap(), 24);
        assert!(net.contains("192.0.2.1".parse().unwrap()));
        assert!(!net.contains("192.0.3.1".parse().unwrap()));
        assert!(!net.contains("2001:db8::1".parse().unwrap()));
        assert!(Prefix::new("::1".parse().unwrap(), 0).contains("2001:db8::1".parse().unwrap()));
        assert!(!Prefix::new("::1".parse().unwrap(), 128).contains("::2".parse().unwrap()));
    }
}
