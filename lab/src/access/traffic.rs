//! Uploads of the homes, and a ping beside them.
//!
//! Each home has the mix of section 3.3 of draft-kuhn-aqm-eval-guidelines-00: five transfers of 5 MB that start again
//! when they end, one without end, and four users that send pages of 700 kB with a pause after each.

use super::wires::{SERVER, Wires, home_address};
use crate::error::{Error, Result};
use crate::netns::{enter_netns, in_netns};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const TRANSFERS: usize = 5;
const TRANSFER: u64 = 5_000_000;
const USERS: usize = 4;
const PAGE: u64 = 700_000;
/// Between two pages of a user.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two pings.
const PING_EVERY: Duration = Duration::from_millis(20);
/// Threads look this often whether they shall end.
const NAP: Duration = Duration::from_millis(100);
const TCP_PORT: u16 = 9000;
const UDP_PORT: u16 = 9001;

/// What one home did.
#[derive(Debug, Default)]
struct Home {
    /// Bytes that the server received from it.
    received: AtomicU64,
    /// When a ping came back, and its round trip.
    pings: Mutex<Vec<(Instant, Duration)>>,
    pages: AtomicU64,
}

/// All traffic that is under way. Dropping it ends it.
pub struct Traffic {
    stop: Arc<AtomicBool>,
    homes: Arc<Vec<Home>>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// Starts it.
    pub fn start(wires: &Wires) -> Result<Traffic> {
        let homes: Vec<Home> = wires.homes.iter().map(|_| Home::default()).collect();
        let mut traffic = Traffic { stop: Arc::default(), homes: Arc::new(homes), threads: Vec::new() };
        traffic.serve(&wires.server)?;
        for (index, namespace) in wires.homes.iter().enumerate() {
            for _ in 0..TRANSFERS {
                traffic.send(namespace, index, TRANSFER, Duration::ZERO)?;
            }
            traffic.send(namespace, index, u64::MAX, Duration::ZERO)?;
            for _ in 0..USERS {
                traffic.send(namespace, index, PAGE, PAUSE)?;
            }
            traffic.ping(namespace, index)?;
        }
        Ok(traffic)
    }

    /// Bytes received from each home so far.
    pub fn received(&self) -> Vec<u64> {
        self.homes.iter().map(|home| home.received.load(Ordering::Relaxed)).collect()
    }

    /// Round trips of a home's pings that came back in a span, in milliseconds.
    pub fn pings(&self, home: usize, from: Instant, until: Instant) -> Vec<f64> {
        let pings = self.homes[home].pings.lock().unwrap_or_else(PoisonError::into_inner);
        let within = pings.iter().filter(|(at, _)| (from..until).contains(at));
        within.map(|(_, rtt)| rtt.as_secs_f64() * 1e3).collect()
    }

    /// Pages that a home's users sent so far.
    pub fn pages(&self, home: usize) -> u64 {
        self.homes[home].pages.load(Ordering::Relaxed)
    }

    fn thread(&mut self, name: &str, body: impl FnOnce(&AtomicBool, &[Home]) + Send + 'static) -> Result<()> {
        let (stop, homes) = (self.stop.clone(), self.homes.clone());
        let thread = std::thread::Builder::new().name(name.into()).stack_size(256 << 10);
        let thread = thread.spawn(move || body(&stop, &homes));
        self.threads.push(thread.map_err(|e| Error::system("start a thread for traffic", e))?);
        Ok(())
    }

    fn serve(&mut self, namespace: &str) -> Result<()> {
        let failed = |e| Error::system(format!("listen on {SERVER}"), e);
        let listener = in_netns(namespace, || TcpListener::bind((SERVER, TCP_PORT)))?.map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        self.thread("weir-accept", move |stop, homes| {
            std::thread::scope(|scope| {
                while !stop.load(Ordering::Relaxed) {
                    match listener.accept() {
                        Ok((stream, peer)) => {
                            let home = homes.iter().enumerate().find(|(i, _)| is_home(*i, peer.ip()));
                            let Some((_, home)) = home else { continue };
                            scope.spawn(move || drain(stream, home, stop));
                        }
                        Err(_) => std::thread::sleep(Duration::from_millis(2)),
                    }
                }
            });
        })?;
        let echo = in_netns(namespace, || UdpSocket::bind((SERVER, UDP_PORT)))?.map_err(failed)?;
        echo.set_read_timeout(Some(NAP)).map_err(failed)?;
        self.thread("weir-echo", move |stop, _| {
            let mut buffer = [0; 64];
            while !stop.load(Ordering::Relaxed) {
                if let Ok((len, peer)) = echo.recv_from(&mut buffer) {
                    let _ = echo.send_to(&buffer[..len], peer);
                }
            }
        })
    }

    /// Transfers of a size, one after the other.
    fn send(&mut self, namespace: &str, index: usize, size: u64, pause: Duration) -> Result<()> {
        let namespace = namespace.to_string();
        self.thread("weir-upload", move |stop, homes| {
            if enter_netns(&namespace).is_err() {
                return;
            }
            while !stop.load(Ordering::Relaxed) {
                let sent = upload(size, stop).is_ok();
                homes[index].pages.fetch_add(u64::from(sent && size == PAGE), Ordering::Relaxed);
                wait(pause.max(Duration::from_millis(1)), stop);
            }
        })
    }

    fn ping(&mut self, namespace: &str, index: usize) -> Result<()> {
        let failed = |e| Error::system("open a socket for pings", e);
        let socket = in_netns(namespace, || {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.connect((SERVER, UDP_PORT))?;
            socket.set_read_timeout(Some(NAP))?;
            io::Result::Ok(socket)
        })?
        .map_err(failed)?;
        let (sender, start) = (socket.try_clone().map_err(failed)?, Instant::now());
        self.thread("weir-ping", move |stop, _| {
            while !stop.load(Ordering::Relaxed) {
                let _ = sender.send(&(start.elapsed().as_nanos() as u64).to_be_bytes());
                std::thread::sleep(PING_EVERY);
            }
        })?;
        self.thread("weir-pong", move |stop, homes| {
            let mut stamp = [0; 8];
            while !stop.load(Ordering::Relaxed) {
                if socket.recv(&mut stamp).is_ok_and(|len| len == stamp.len()) {
                    let sent = Duration::from_nanos(u64::from_be_bytes(stamp));
                    let mut pings = homes[index].pings.lock().unwrap_or_else(PoisonError::into_inner);
                    pings.push((Instant::now(), start.elapsed().saturating_sub(sent)));
                }
            }
        })
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn is_home(index: usize, peer: IpAddr) -> bool {
    peer.to_string() == home_address(index as u32)
}

fn wait(length: Duration, stop: &AtomicBool) {
    let end = Instant::now() + length;
    while !stop.load(Ordering::Relaxed) && Instant::now() < end {
        std::thread::sleep(NAP.min(end.saturating_duration_since(Instant::now())));
    }
}

/// Takes what a connection brings.
fn drain(mut stream: TcpStream, home: &Home, stop: &AtomicBool) {
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_read_timeout(Some(NAP));
    let mut buffer = vec![0; 64 << 10];
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(len) => {
                home.received.fetch_add(len as u64, Ordering::Relaxed);
            }
            Err(e) if is_timeout(&e) => {}
            Err(_) => return,
        }
    }
}

/// One transfer; it is over when the receiver has all of it and closes.
fn upload(size: u64, stop: &AtomicBool) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(
        &(SERVER.parse::<IpAddr>().map_err(io::Error::other)?, TCP_PORT).into(),
        Duration::from_secs(5),
    )?;
    stream.set_write_timeout(Some(NAP))?;
    stream.set_read_timeout(Some(NAP))?;
    let chunk = [0; 16 << 10];
    let mut left = size;
    while left > 0 {
        stopped(stop)?;
        match stream.write(&chunk[..left.min(chunk.len() as u64) as usize]) {
            Ok(len) => left -= len as u64,
            Err(e) if is_timeout(&e) => {}
            Err(e) => return Err(e),
        }
    }
    stream.shutdown(Shutdown::Write)?;
    loop {
        stopped(stop)?;
        match stream.read(&mut [0; 16]) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(e) if is_timeout(&e) => {}
            Err(e) => return Err(e),
        }
    }
}

fn stopped(stop: &AtomicBool) -> io::Result<()> {
    if stop.load(Ordering::Relaxed) { Err(ErrorKind::Interrupted.into()) } else { Ok(()) }
}

fn is_timeout(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
