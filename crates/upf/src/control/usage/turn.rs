//! Usage of sessions while they go on: what is due is looked at and reported.

use super::super::nodes::reached_at;
use super::super::requests::About;
use super::super::{Control, Outgoing};
use super::{UsageRecord, wants};
use crate::codec::Codec;
use crate::message::{Element, Value, ie, kind};
use crate::rules::{Measured, Plane, Seid};
use weir_units::{Duration, Time};

/// Report Type (TS 29.244 section 8.2.21).
const USAGE: u64 = 2;
/// Most sessions that are looked at in a turn.
const LOOKED_AT_MAX: usize = 256;
/// When it is looked again where no report can be sent now.
const LATER: Duration = Duration::from_millis(100);

/// Reports of books with a trigger, as groups of a type of element.
pub fn reports<'a>(
    books: impl Iterator<Item = &'a mut UsageRecord>,
    id: u16,
    why: u64,
    (now, start): (Time, u32),
    measured: &[Measured],
) -> Vec<Element> {
    let one = |book: &mut UsageRecord| {
        let elements = book.report(now, &book.total(measured), why, start);
        Element::new(id, Value::Group(elements))
    };
    books.map(one).collect()
}

impl<P: Plane, C: Codec> Control<P, C> {
    /// Looks at sessions whose time has come.
    pub(in super::super) fn look_at_usage(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        for _ in 0..LOOKED_AT_MAX {
            let Some((due, seid)) = self.usage_due.first().copied() else { return };
            if due > now {
                return;
            }
            self.usage_due.pop_first();
            self.look_at(now, seid, out);
        }
    }

    /// Reports what there is to report of a session.
    pub(in super::super) fn look_at(&mut self, now: Time, seid: Seid, out: &mut Vec<Outgoing>) {
        if self.sessions.get(seid).is_none() {
            return;
        }
        if !self.requests.has_room(About::Usage(seid)) {
            // What is measured goes on, so that nothing is lost.
            return self.note_usage(seid, Some(now + LATER));
        }
        let measured = self.plane.measured(seid);
        let start = self.recovery;
        let Some(entry) = self.sessions.get_mut(seid) else { return };
        let (to, cp_seid) = (reached_at(entry.cp_address), entry.cp_seid);
        let mut elements = vec![Element::number(ie::REPORT_TYPE, USAGE)];
        for book in entry.usage.iter_mut().flat_map(|usage| &mut usage.books) {
            let counted = book.total(&measured);
            let why = book.look(now, &counted);
            let group = |elements| Element::new(ie::USAGE_REPORT, Value::Group(elements));
            if why & wants::START != 0 {
                elements.push(group(book.started()));
            }
            if why & !wants::START != 0 {
                elements.push(group(book.report(now, &counted, why & !wants::START, start)));
            }
        }
        if elements.len() > 1
            && self.ask(
                now,
                to,
                kind::SESSION_REPORT_REQUEST,
                Some(cp_seid),
                elements,
                About::Usage(seid),
                out,
            )
        {
            self.counts.reports += 1;
        }
        self.note_change(seid);
        self.plan_usage(seid);
    }

    /// Tells the plane the bounds of a session's meters, and notes when it is to be looked at.
    pub(in super::super) fn plan_usage(&mut self, seid: Seid) {
        let Some(entry) = self.sessions.get(seid) else { return };
        for book in entry.books() {
            self.plane.bound(seid, book.place, book.bounds());
        }
        let due = entry.books().filter_map(UsageRecord::due).min();
        self.note_usage(seid, due);
    }

    /// Notes when a session is to be looked at, and not when it was to be before.
    fn note_usage(&mut self, seid: Seid, due: Option<Time>) {
        let Some(usage) = self.sessions.get_mut(seid).and_then(|entry| entry.usage.as_mut()) else { return };
        let former = std::mem::replace(&mut usage.due, due);
        if let Some(due) = former {
            self.usage_due.remove(&(due, seid));
        }
        self.usage_due.extend(due.map(|due| (due, seid)));
    }
}
