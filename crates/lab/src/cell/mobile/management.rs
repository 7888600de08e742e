//! Session management: a session for each phone, over PFCP.

use super::station::{Station, downlink_teid};
use super::{N3, N4};
use crate::error::{Error, Result};
use crate::netns::in_netns;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use weir_upf::client::{Client, Established, usage_reports, usual};
use weir_upf::control::PFCP_PORT;
use weir_upf::rules::{Meter, PerDirection, Seid};

/// The URR of a session, which both of its rules name.
const URR: u32 = 1;

/// Sessions that are there. Heartbeats are answered meanwhile.
pub struct Management {
    sessions: Vec<Established>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Client>>,
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Dataplane(format!("session management: {error}"))
}

impl Management {
    /// Associates from the namespace of the user-plane function and establishes all sessions; the base
    /// station learns their tunnels.
    pub fn start(
        namespace: &str,
        phones: &[Ipv4Addr],
        ambr: PerDirection<u64>,
        station: &Station,
    ) -> Result<Management> {
        let [server, own] = N4;
        let open = || Client::open(own.into(), SocketAddr::new(server.into(), PFCP_PORT));
        let mut client = in_netns(namespace, open)?.map_err(failed)?;
        client.associate(1).map_err(failed)?;
        let mut sessions = Vec::new();
        for (number, phone) in phones.iter().enumerate() {
            let far_end = (N3[1].into(), downlink_teid(number));
            let mut rules = usual(number as u64 + 1, *phone, N3[0], far_end, ambr);
            rules.meters = [Meter { urr: Some(URR), pdrs: [1, 2].into() }].into();
            let session = client.establish(&rules).map_err(failed)?;
            let tunnel = session.tunnels.first().ok_or_else(|| failed("no tunnel was chosen"))?;
            station.attach(*phone, tunnel.1.teid);
            sessions.push(session);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let listen = move || {
            while !stopped.load(Ordering::Relaxed) && client.listen().is_ok() {}
            client
        };
        let thread = std::thread::Builder::new().name("weir-smf".into()).spawn(listen);
        let thread = thread.map_err(|e| Error::system("start the thread of session management", e))?;
        Ok(Management { sessions, stop, thread: Some(thread) })
    }

    /// The sessions, as the user-plane function numbers them.
    pub fn seids(&self) -> Vec<Seid> {
        self.sessions.iter().map(|session| session.seid).collect()
    }

    /// Ends all sessions; what each had used, as it was reported.
    pub fn finish(&mut self) -> Result<Vec<PerDirection<u64>>> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(Vec::new()) };
        let mut client = thread.join().map_err(|_| failed("its thread panicked"))?;
        let mut end = |session: &Established| {
            let answer = client.delete(session.seid).map_err(failed)?;
            let reports = usage_reports(&answer);
            let own = reports.iter().find(|report| report.urr == URR);
            own.map(|report| report.bytes).ok_or_else(|| failed("the end of a session reported no usage"))
        };
        self.sessions.iter().map(&mut end).collect()
    }
}

impl Drop for Management {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
