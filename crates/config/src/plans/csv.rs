//! A table of plans (RFC 4180) as the document that it stands for, in which each value knows its line.

use crate::document::Document;
use crate::errors::{Errors, Place, Wrong};
use crate::problems::Problems;
use crate::tree::{Entry, Item, Node, Table};

/// Columns of sites, too.
const OF_SITES: [&str; 3] = ["name", "down", "up"];

/// The document; lines with an address or a VLAN are customers, the others sites.
pub(super) fn document(name: &str, text: &str) -> Result<Document, Errors> {
    let mut p = Problems::new(name);
    let mut lines = lines(text);
    let Some((first, heads)) = lines.next() else {
        let wrong = Wrong::new("is empty", "write the names of the columns in its first line");
        return Err(Errors::of_file(name, &Place::File, wrong));
    };
    let Some(heads) = heads else {
        let wrong = Wrong::new("has a quote that does not end", "end each quoted field with a quote");
        return Err(Errors::of_file(name, &Place::Line(first), wrong));
    };
    let heads: Vec<String> = heads.iter().map(|head| head.trim().to_string()).collect();
    if let Some(twice) = heads.iter().enumerate().find(|(at, head)| heads[..*at].contains(head)) {
        p.add(
            &Place::Line(first),
            twice.1,
            Wrong::new("is the name of two columns", "name each column once"),
        );
    }
    let (mut customers, mut sites) = (Vec::new(), Vec::new());
    for (number, fields) in lines {
        let place = Place::Line(number);
        let Some(fields) = fields else {
            p.add_form(
                &place,
                Wrong::new("has a quote that does not end", "end each quoted field with a quote"),
            );
            break;
        };
        if fields.len() != heads.len() {
            let problem = format!("has {} fields where the first line names {}", fields.len(), heads.len());
            p.add_form(
                &place,
                Wrong::new(problem, "write a field for each column; quote fields with commas"),
            );
            continue;
        }
        let given = heads.iter().zip(&fields).filter(|(_, field)| !field.trim().is_empty());
        let entry = |(head, field): (&String, &String)| Entry {
            key: head.clone(),
            place: place.clone(),
            item: Item { node: value(head, field.trim(), &place), place: place.clone() },
        };
        let entries: Vec<Entry> = given.map(entry).collect();
        let is_site = !entries.iter().any(|entry| matches!(entry.key.as_str(), "address" | "vlan"));
        if is_site && let Some(odd) = entries.iter().find(|entry| !OF_SITES.contains(&entry.key.as_str())) {
            let problem = "is given, but neither `address` nor `vlan`: without them the line is a site";
            p.add(&place, &odd.key, Wrong::new(problem, "name what the customer is known by"));
            continue;
        }
        let table = Node::Table(Table { entries, place: place.clone(), is_dotted: false });
        let list = if is_site { &mut sites } else { &mut customers };
        list.push(Item { node: table, place });
    }
    let lists =
        [("sites", sites), ("customers", customers)].into_iter().filter(|(_, items)| !items.is_empty());
    let place = Place::Line(first);
    let entries = lists.map(|(key, items)| Entry {
        key: key.into(),
        place: place.clone(),
        item: Item { node: Node::List(items), place: place.clone() },
    });
    let root = Table { entries: entries.collect(), place: Place::Line(1), is_dotted: false };
    p.finish(Some(Document { file: name.into(), folder: Default::default(), root, traces: Vec::new() }))
}

/// A field of that line as it would be written in TOML.
fn value(head: &str, field: &str, place: &Place) -> Node {
    let item = |node| Item { node, place: place.clone() };
    match head {
        "address" => Node::List(field.split_whitespace().map(|part| item(Node::Text(part.into()))).collect()),
        "vlan" => {
            let number = |part: &str| part.parse().map_or(Node::Text(part.into()), Node::Int);
            Node::List(field.split_whitespace().map(|part| item(number(part))).collect())
        }
        "exempt" => match field {
            "true" | "yes" | "1" => Node::Flag(true),
            "false" | "no" | "0" => Node::Flag(false),
            other => Node::Text(other.into()),
        },
        _ => Node::Text(field.into()),
    }
}

/// Fields of each line that is not empty, with its number; `None` where a quote does not end.
fn lines(text: &str) -> impl Iterator<Item = (u32, Option<Vec<String>>)> + '_ {
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text).chars().peekable();
    let mut number = 0;
    std::iter::from_fn(move || {
        loop {
            rest.peek()?;
            number += 1;
            let begun = number;
            let (mut fields, mut field, mut is_quoted) = (Vec::new(), String::new(), false);
            loop {
                match rest.next() {
                    None if is_quoted => return Some((begun, None)),
                    None => break,
                    Some('"') if is_quoted && rest.peek() == Some(&'"') => {
                        rest.next();
                        field.push('"');
                    }
                    Some('"') if is_quoted || field.trim().is_empty() => is_quoted = !is_quoted,
                    Some(',') if !is_quoted => fields.push(std::mem::take(&mut field)),
                    Some('\n') if !is_quoted => break,
                    Some('\n') => {
                        number += 1;
                        field.push('\n');
                    }
                    Some('\r') if !is_quoted => {}
                    Some(c) => field.push(c),
                }
            }
            fields.push(field);
            if fields.iter().any(|field| !field.trim().is_empty()) {
                return Some((begun, Some(fields)));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::PlansFile;
    use weir_units::{Bytes, Rate};

    /// What is read while a file is being written anew must not lift all limits.
    #[test]
    fn a_file_without_customers_is_refused() {
        for (table, what) in [
            ("", "is empty"),
            ("\"name,address\na,10.0.0.1\n", "has a quote that does not end"),
            ("name,address\n", "`customers`: are missing"),
        ] {
            let told = PlansFile::parse_csv("p.csv", table).unwrap_err().to_string();
            assert!(told.contains(what), "{told}");
        }
        let told = PlansFile::parse("p.toml", "").unwrap_err().to_string();
        assert!(told.contains("`customers`: are missing"), "{told}");
    }

    #[test]
    fn a_table_is_what_the_same_keys_say() {
        let table = "name,site,address,down,up,burst,exempt\r\n\
                     \"tower, 3\",,,400Mbit/s,100Mbit/s,,\r\n\r\n\
                     \"Meyer, \"\"J.\"\"\",\"tower, 3\",192.0.2.7 2001:db8:7::/56,50Mbit/s,10Mbit/s,100kB,yes\n\
                     b,,198.51.100.0/24,,,,\n";
        let plans = PlansFile::parse_csv("p.csv", table).unwrap();
        let text = "[[sites]]\nname = \"tower, 3\"\ndown = \"400Mbit/s\"\nup = \"100Mbit/s\"\n\
                    [[customers]]\nname = 'Meyer, \"J.\"'\nsite = \"tower, 3\"\n\
                    address = [\"192.0.2.7\", \"2001:db8:7::/56\"]\ndown = \"50Mbit/s\"\nup = \"10Mbit/s\"\n\
                    burst = \"100kB\"\nexempt = true\n[[customers]]\nname = \"b\"\naddress = [\"198.51.100.0/24\"]\n";
        assert_eq!(plans, PlansFile::parse("p.toml", text).unwrap());
        assert_eq!(
            (plans.customers[0].down, plans.customers[0].terms.burst),
            (Some(Rate::from_mbps(50)), Bytes::new(100_000))
        );
    }

    #[test]
    fn an_ipv4_address_in_the_form_of_ipv6_is_the_ipv4_address() {
        let table = "name,address\na,::ffff:10.0.0.1\nb,::ffff:10.0.1.0/120\nc,10.0.0.1\n";
        let told = PlansFile::parse_csv("p.csv", table).unwrap_err().to_string();
        assert!(told.contains("p.csv:4") && told.contains("10.0.0.1/32 is that of \"a\""), "{told}");
        let plans = PlansFile::parse_csv("p.csv", &table[..table.len() - 11]).unwrap();
        let networks: Vec<String> = plans.customers.iter().map(|c| c.address[0].to_string()).collect();
        assert_eq!(networks, ["10.0.0.1/32", "10.0.1.0/24"]);
    }

    #[test]
    fn a_burst_without_a_rate_is_refused() {
        let table = "name,address,down,burst\na,10.0.0.1,1Mbit/s,1kB\nb,10.0.0.2,,1kB\n";
        let told = PlansFile::parse_csv("p.csv", table).unwrap_err().to_string();
        assert!(told.contains("customers.1.burst") && !told.contains("customers.0"), "{told}");
    }

    #[test]
    fn who_is_exempt_has_no_policy_and_no_set_point_of_its_own() {
        let table = "name,address,down,exempt,target,utilization_low,utilization_target,target_max\n\
                     a,10.0.0.1,1Mbit/s,yes,,90%,95%,9ms\nb,10.0.0.2,1Mbit/s,no,,90%,95%,9ms\n\
                     c,10.0.0.3,1Mbit/s,yes,9ms,,,\nd,10.0.0.4,1Mbit/s,yes,,,,\n";
        let told = PlansFile::parse_csv("p.csv", table).unwrap_err().to_string();
        for key in ["2: key `customers.0.utilization_low", "2: key `customers.0.utilization_target"] {
            assert!(told.contains(&format!("p.csv:{key}`: does not go with `exempt`")), "{told}");
        }
        assert!(told.contains("p.csv:2: key `customers.0.target_max`"), "{told}");
        assert!(told.contains("p.csv:4: key `customers.2.target`") && told.lines().count() == 4, "{told}");
    }

    #[test]
    fn each_element_of_a_field_is_told_with_its_line() {
        let table =
            "name,address,vlan\na,10.0.0.1,\nb,10.0.0.2 10.0.0.300,\nc,10.0.1.1/24,\nd,,7 x\ne,,9999\n";
        let told = PlansFile::parse_csv("p.csv", table).unwrap_err().to_string();
        for words in [
            "p.csv:3: key `customers.1.address.1`",
            "p.csv:4: key `customers.2.address.0`",
            "p.csv:5: key `customers.3.vlan.1`",
            "p.csv:6: key `customers.4.vlan.0`",
        ] {
            assert!(told.contains(words), "{words}: {told}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_line_key_and_remedy_and_all_of_it() {
        let table =
            "name,site,address,down,nmae\nt,,,1Gbit/s,\na,tt,10.0.0.1/24,5,\na,t,10.0.0.2,-1Mbit/s,x\n\"b";
        let told = PlansFile::parse_csv("p.csv", table).unwrap_err().to_string();
        assert!(told.contains("p.csv:5") && told.contains("quote"), "{told}");
        let told = PlansFile::parse_csv("p.csv", &table[..table.len() - 2]).unwrap_err().to_string();
        for words in [
            "p.csv:3",
            "p.csv:4",
            "nmae",
            "did you mean `name`",
            "customers.0.down",
            "first address",
            "customers.1.down",
        ] {
            assert!(told.contains(words), "{words}: {told}");
        }
        let told = PlansFile::parse_csv("p.csv", "name,site,address\nt,,\na,tt,10.0.0.1\na,t,10.0.0.1\n")
            .unwrap_err();
        let told = told.to_string();
        for words in [
            "\"tt\" is no site",
            "did you mean \"t\"",
            "p.csv:4",
            "is the name of customer 0",
            "10.0.0.1/32 is that of \"a\"",
        ] {
            assert!(told.contains(words), "{words}: {told}");
        }
        for (table, words) in [
            ("", "is empty"),
            ("name,name,address\n", "two columns"),
            ("name,address\na\n", "has 1 fields"),
            ("name,address,burst\na,,5kB\n", "without them the line is a site"),
            ("name,vlan\na,9999\n", "4094"),
            ("name,vlan\na,x\n", "whole number"),
        ] {
            let told = PlansFile::parse_csv("p.csv", table).unwrap_err().to_string();
            assert!(told.contains(words), "{words}: {told}");
        }
    }

    #[test]
    fn five_thousand_customers_are_read_in_either_form() {
        use std::fmt::Write;
        let (mut table, mut text) = ("name,site,address,down,up\ns,,,1Gbit/s,\n".to_string(), String::new());
        text.push_str("[[sites]]\nname = \"s\"\ndown = \"1Gbit/s\"\n");
        for n in 0..5000 {
            let (high, low) = (n / 250, n % 250);
            writeln!(table, "c{n},s,10.{high}.{low}.0/24,50Mbit/s,10Mbit/s").unwrap();
            writeln!(
                text,
                "[[customers]]\nname = \"c{n}\"\nsite = \"s\"\naddress = [\"10.{high}.{low}.0/24\"]\n\
                 down = \"50Mbit/s\"\nup = \"10Mbit/s\""
            )
            .unwrap();
        }
        let plans = PlansFile::parse_csv("p.csv", &table).unwrap();
        assert_eq!((plans.customers.len(), plans.sites.len()), (5000, 1));
        assert_eq!(plans, PlansFile::parse("p.toml", &text).unwrap());
    }
}
