//! Uploads of the homes or downloads to them, and pings and calls beside them.

mod counts;
pub mod transfer;

use super::wires::{SERVER, Wires, home_address};
use super::{AccessConfig, Call, Connection, ConnectionResult, Home, Way};
use crate::error::{Error, Result};
use crate::netns::{enter_netns, in_netns, require_congestion};
use counts::{Count, Counts};
use socket2::SockRef;
use std::collections::BTreeSet;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_wire::dscp::Dscp;

/// What pings beside the transfers are: of the class of the transfers.
const PING: Call = Call { dscp: Dscp::DEFAULT, payload: STAMP, every: Duration::from_millis(20), machine: 0 };
/// Bytes of the time at which a datagram was sent, which it begins with.
const STAMP: usize = 8;
/// Threads look this often whether they shall end.
const NAP: Duration = Duration::from_millis(100);
const TCP_PORT: u16 = 9000;
const UDP_PORT: u16 = 9001;
/// Largest datagram in a frame of 9000 bytes.
const LARGEST: usize = 8972;

/// All traffic that is under way. Dropping it ends it.
pub struct Traffic {
    stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// Starts it.
    pub fn start(wires: &Wires, config: &AccessConfig) -> Result<Traffic> {
        let sizes = |home: &Home| (home.connections.len(), home.calls.len());
        let counts = Counts::new(config.homes.iter().map(sizes));
        let mut traffic = Traffic { stop: Arc::default(), counts: Arc::new(counts), threads: Vec::new() };
        let calls = config.homes.iter().flat_map(|home| &home.calls);
        for dscp in calls.map(|call| call.dscp).chain([PING.dscp]).collect::<BTreeSet<_>>() {
            traffic.echo(&wires.server, dscp)?;
        }
        if config.way == Way::Upload {
            traffic.serve(&wires.server, SERVER)?;
        }
        for (number, (machines, home)) in wires.homes.iter().zip(&config.homes).enumerate() {
            let address = |machine: u32| home_address(number as u32, machine);
            if config.way == Way::Download {
                for (name, machine) in machines.iter().zip(0..) {
                    traffic.serve(name, &address(machine))?;
                }
            }
            for (n, connection) in home.connections.iter().enumerate() {
                let machine = connection.machine;
                let (from, to) = match config.way {
                    Way::Upload => (&machines[machine as usize], SERVER.to_string()),
                    Way::Download => (&wires.server, address(machine)),
                };
                traffic.send(from, &to, traffic.counts.slot(number, n), connection)?;
            }
            traffic.ping(&machines[0], number, None, PING)?;
            for (n, call) in home.calls.iter().enumerate() {
                traffic.ping(&machines[call.machine as usize], number, Some(n), *call)?;
            }
        }
        Ok(traffic)
    }

    /// Bytes received so far, by home and connection.
    pub fn received(&self) -> Vec<Vec<u64>> {
        self.counts.received()
    }

    /// Round trips of a home's pings that came back in a span, in milliseconds.
    pub fn pings(&self, home: usize, from: Instant, until: Instant) -> Vec<f64> {
        self.counts.pings(home, None).within(from, until)
    }

    /// Round trips of the datagrams of one of its calls that came back in a span, in milliseconds.
    pub fn call(&self, home: usize, call: usize, from: Instant, until: Instant) -> Vec<f64> {
        self.counts.pings(home, Some(call)).within(from, until)
    }

    /// Ends it; what came of the connections over the whole run, by home.
    pub fn finish(mut self) -> Vec<Vec<ConnectionResult>> {
        self.end();
        self.counts.results()
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }

    fn thread(&mut self, name: &str, body: impl FnOnce(&AtomicBool, &Counts) + Send + 'static) -> Result<()> {
        let (stop, counts) = (self.stop.clone(), self.counts.clone());
        let thread = std::thread::Builder::new().name(name.into()).stack_size(256 << 10);
        let thread = thread.spawn(move || body(&stop, &counts));
        self.threads.push(thread.map_err(|e| Error::system("start a thread for traffic", e))?);
        Ok(())
    }

    /// Takes what comes.
    fn serve(&mut self, namespace: &str, address: &str) -> Result<()> {
        let failed = |e| Error::system(format!("listen on {address}"), e);
        let listener = in_netns(namespace, || TcpListener::bind((address, TCP_PORT)))?.map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        self.thread("weir-accept", move |stop, counts| {
            std::thread::scope(|scope| {
                while !stop.load(Ordering::Relaxed) {
                    match listener.accept() {
                        Ok((stream, _)) => drop(scope.spawn(move || transfer::drain(stream, counts, stop))),
                        Err(_) => std::thread::sleep(Duration::from_millis(2)),
                    }
                }
            });
        })
    }

    /// Answers pings and calls of a class.
    fn echo(&mut self, namespace: &str, dscp: Dscp) -> Result<()> {
        let failed = |e| Error::system(format!("listen on {SERVER}"), e);
        let echo = in_netns(namespace, || UdpSocket::bind((SERVER, port(dscp))))?.map_err(failed)?;
        echo.set_read_timeout(Some(NAP)).and_then(|()| mark(&echo, dscp)).map_err(failed)?;
        self.thread("weir-echo", move |stop, _| {
            let mut buffer = vec![0; LARGEST];
            while !stop.load(Ordering::Relaxed) {
                if let Ok((len, peer)) = echo.recv_from(&mut buffer) {
                    let _ = echo.send_to(&buffer[..len], peer);
                }
            }
        })
    }

    /// Transfers, one after the other.
    fn send(&mut self, namespace: &str, to: &str, slot: u32, connection: &Connection) -> Result<()> {
        let (namespace, to, connection) = (namespace.to_string(), to.to_string(), connection.clone());
        in_netns(&namespace, || require_congestion(&connection.congestion))??;
        self.thread("weir-transfer", move |stop, counts| {
            let Some(count) = counts.of(slot) else { return };
            if enter_netns(&namespace).is_err() {
                return;
            }
            while !stop.load(Ordering::Relaxed) {
                let Connection { size, congestion, .. } = &connection;
                let sent = transfer::send(&to, congestion, slot, *size, count, stop).is_ok();
                // A connection that failed is tried again, but not at once.
                let Some(pause) = connection.pause.or((!sent).then_some(NAP)) else { return };
                wait(if sent { pause } else { pause.max(NAP) }, stop);
            }
        })
    }

    fn ping(&mut self, namespace: &str, home: usize, number: Option<usize>, call: Call) -> Result<()> {
        let failed = |e| Error::system("open a socket for pings", e);
        let socket = in_netns(namespace, || {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.connect((SERVER, port(call.dscp)))?;
            socket.set_read_timeout(Some(NAP))?;
            mark(&socket, call.dscp)?;
            io::Result::Ok(socket)
        })?
        .map_err(failed)?;
        let (sender, start) = (socket.try_clone().map_err(failed)?, Instant::now());
        self.thread("weir-ping", move |stop, _| {
            let mut datagram = vec![0; call.payload.max(STAMP)];
            while !stop.load(Ordering::Relaxed) {
                datagram[..STAMP].copy_from_slice(&(start.elapsed().as_nanos() as u64).to_be_bytes());
                let _ = sender.send(&datagram);
                std::thread::sleep(call.every);
            }
        })?;
        self.thread("weir-pong", move |stop, counts| {
            let mut stamp = [0; STAMP];
            while !stop.load(Ordering::Relaxed) {
                // What follows the time is cut off.
                if socket.recv(&mut stamp).is_ok_and(|len| len == stamp.len()) {
                    let sent = Duration::from_nanos(u64::from_be_bytes(stamp));
                    counts.pings(home, number).note(start.elapsed().saturating_sub(sent));
                }
            }
        })
    }
}

/// Where datagrams of a class are answered: the code point of an answer is that of its socket.
fn port(dscp: Dscp) -> u16 {
    UDP_PORT + u16::from(dscp.number())
}

/// Gives what a socket sends its class.
fn mark(socket: &UdpSocket, dscp: Dscp) -> io::Result<()> {
    SockRef::from(socket).set_tos_v4(u32::from(dscp.number()) << 2)
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.end();
    }
}

fn wait(length: Duration, stop: &AtomicBool) {
    let end = Instant::now() + length;
    while !stop.load(Ordering::Relaxed) && Instant::now() < end {
        std::thread::sleep(NAP.min(end.saturating_duration_since(Instant::now())));
    }
}
