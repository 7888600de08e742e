//! A queue in somebody else's program: what the C library is told as text.

use crate::aqm_config::AqmConfig;
use crate::limits::{FASTEST, SLOWEST};
use crate::link::Buffer;
use crate::policy_config::PolicyConfig;
use crate::problems::Problems;
use crate::queue_config::{Algorithm, QueueConfig};
use crate::schema::{
    Check, Here, OneTable, OptionalTable, Printer, Range, Section, absent, or, such, tables_of, within,
};
use crate::table_doc::markdown_rows;
use weir_aqm::Value;
use weir_units::{Bytes, Duration, Rate};

/// Most packets of a queue; memory for them is taken when it is made.
const MAX_PACKETS: u32 = 10_000_000;

section! {
    /// A queue in a program that embeds Weir.
    pub struct Embedded {
        /// Rate of the link behind the queue, which algorithms are told, in the bytes that the program
        /// counts.
        rate: Option<Rate> = absent("not known to algorithms", within(SLOWEST, FASTEST));
        /// Whether the queue hands packets out at that rate. Otherwise it hands out whatever is asked for,
        /// and the program knows when its link is free.
        shaped: bool = or(false, Range::Any);
        /// Transmission time, lost while the program did not ask, that a shaped queue makes up for.
        catch_up: Duration = or(Duration::from_millis(1), within(Duration::ZERO, Duration::from_secs(1)));
        /// Room for waiting packets, as the time they take at the link's rate or in bytes. Queues for each
        /// flow or each user have a limit of their own in `queue` beside it.
        buffer: Buffer =
            or(Buffer::Time(Duration::from_millis(100)), such("1us .. 60s or 64B .. 100GB", Buffer::allowed));
        /// Most packets that wait; memory for them is taken when the queue is made.
        packets: u32 = or(16_384, within(1, MAX_PACKETS));
        /// Whether users can be held to rates of their own, where the discipline has users.
        user_rates: bool = or(false, Range::Any);
        /// How packets wait.
        queue: QueueConfig = OneTable;
        /// The algorithm, where the discipline brings none.
        aqm: Option<AqmConfig> = Algorithm;
        /// The policy; its presence turns steering on.
        policy: Option<PolicyConfig> = OptionalTable;
    }
}

impl Check for Embedded {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        self.aqm = self.queue.own_aqm().or(self.aqm.take());
        let Some(aqm) = &self.aqm else {
            let remedy = format!("name one of {}", weir_aqm::names().join(", "));
            here.wrong(p, "aqm.name", "is missing: a queue needs an algorithm", remedy);
            return;
        };
        if let Some(policy) = &mut self.policy {
            policy.check_with(aqm, &self.queue, here, p);
        }
        if self.user_rates && self.queue.user_key().is_none() {
            let problem =
                format!("does not go with the discipline {}, which has no users", self.queue.discipline);
            here.wrong(p, "user_rates", problem, "remove it, or choose a discipline with users");
        }
        if self.queue.settings.contains(&("ack_filter", Value::Flag(true))) {
            let problem = "looks into packets, and the queue of a program holds cookies";
            here.wrong(p, "queue.ack_filter", problem, "remove it");
        }
        if self.rate.is_some() {
            return;
        }
        if self.policy.is_some() {
            let problem = "is missing: utilization is a share of it, so a policy needs one";
            here.wrong(p, "rate", problem, "give a rate, or remove the `policy` table");
        }
        if self.shaped {
            here.wrong(p, "rate", "is missing: a shaped queue needs one", "give a rate, or remove `shaped`");
        }
        if matches!(self.buffer, Buffer::Time(_)) {
            let problem = "is a time, and without a `rate` nobody knows how many bytes that is";
            here.wrong(p, "buffer", problem, "give bytes such as \"1MB\", or a `rate`");
        }
    }
}

impl Embedded {
    /// Room for waiting packets.
    pub fn room(&self) -> Bytes {
        self.buffer.bytes(self.rate.unwrap_or(Rate::ZERO))
    }

    /// The algorithm; that of the discipline where it brings one.
    pub fn algorithm(&self) -> &AqmConfig {
        self.aqm.as_ref().expect("checked when it was read")
    }

    /// The text with every key that has a value, each with its meaning.
    pub fn to_toml(&self) -> String {
        self.print_file(Printer::new(Vec::new(), &[]))
    }

    /// Its own keys with type, default, range and meaning, as Markdown; those of the tables in it are the
    /// same in every configuration.
    pub fn reference() -> String {
        markdown_rows(&tables_of::<Embedded>()[0].rows)
    }
}
