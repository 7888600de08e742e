//! Asking for the memory of packets to come: each of a user that is in no cache would wait for the table,
//! then for the user, one after the other. Asked for together, they come together.

use super::PerUser;
use crate::{Hosts, memory};

/// Lines of a user that a packet needs: its queue, and what algorithms decide by.
const LINES: usize = 2;

impl<A, T, G> PerUser<A, T, G> {
    /// In two stages, because the table says where the users are; meanwhile those are asked for that leave
    /// next.
    pub(super) fn ask_ahead(&self, hosts: &[Hosts]) {
        let keys = || hosts.iter().map(|hosts| hosts.user(self.by_sender));
        keys().for_each(|key| self.table.expect(key));
        for at in self.rounds.coming(&self.turns).take(hosts.len()) {
            memory::lines_soon(&self.users[at], LINES);
        }
        for at in keys().filter_map(|key| self.table.guess(key)) {
            memory::lines_soon(&self.users[at], LINES);
            memory::soon(&self.turns[at]);
        }
    }
}
