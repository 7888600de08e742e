//! Links that wait for their turn: radios that contend, modems that are granted what they ask for.

use crate::dice::Dice;
use crate::grants::Grants;
use crate::radio::Radio;
use weir_config::{NetworkLink, Wifi};
use weir_units::Time;

/// How the links of a medium come to their turn.
pub enum Turns {
    /// By contention.
    Radio(Radio),
    /// By requests.
    Grants(Grants),
}

impl Turns {
    /// Packets that were taken from queues and not sent yet.
    pub fn held(&self) -> u64 {
        match self {
            Turns::Radio(radio) => radio.held(),
            Turns::Grants(grants) => grants.held(),
        }
    }

    /// Of the links of a medium, if they have to wait for their turn.
    pub fn of(members: &[usize], links: &[NetworkLink], seed: u64) -> Option<Turns> {
        let first = &links[*members.first()?];
        let dice = |number: usize, what: &str| Dice::of(seed, &format!("link {} {what}", links[number].name));
        if let Some(grants) = &first.variation.grants {
            let modems = members.iter().map(|number| (*number, dice(*number, "requests"))).collect();
            return Some(Turns::Grants(Grants::new(grants.clone(), first.rate, modems)));
        }
        first.variation.wifi.as_ref()?;
        // The links that begin at a node are sent by its radio.
        let mut stations: Vec<Vec<(usize, Wifi)>> = Vec::new();
        for number in members {
            let link = &links[*number];
            let Some(wifi) = link.variation.wifi.clone() else { continue };
            let same = |station: &&mut Vec<(usize, Wifi)>| links[station[0].0].from == link.from;
            match stations.iter_mut().find(same) {
                Some(station) => station.push((*number, wifi)),
                None => stations.push(vec![(*number, wifi)]),
            }
        }
        let with_dice = |station: Vec<(usize, Wifi)>| {
            let dice = dice(station[0].0, "slots");
            (station, dice)
        };
        Some(Turns::Radio(Radio::new(stations.into_iter().map(with_dice).collect())))
    }

    /// When the next turn is, from `now` on; `waits` tells the packets and bytes that wait at a link.
    pub fn next(&self, now: Time, waits: impl Fn(usize) -> (u32, u64)) -> Time {
        match self {
            Turns::Radio(radio) => radio.next(now, |link| waits(link).0 > 0),
            Turns::Grants(grants) => grants.next(now, |link| waits(link).1),
        }
    }
}
