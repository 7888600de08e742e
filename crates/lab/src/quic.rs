//! QUIC between end hosts of a lab, by the library quinn, which sets the spin bit.
//!
//! A server sends as many bytes as it is asked for and notes its own round-trip times; clients ask. Each runs
//! on a thread of its own, in the namespace that it is made in.

use crate::error::{Error, Result};
use crate::netns::in_netns;
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The name in the certificate, which the server makes for itself.
const NAME: &str = "lab";
/// Bytes that may be under way or wait for the program: more than any path here holds.
const WINDOW: u32 = 32 << 20;
/// Between two looks at a connection's round-trip time.
const PERIOD: Duration = Duration::from_millis(50);
/// How often one who waits looks whether it is to end.
const NAP: Duration = Duration::from_millis(50);

/// A round-trip time as the sending library has it.
#[derive(Clone, Copy, Debug)]
pub struct QuicSample {
    /// When it was looked at.
    pub at: Instant,
    /// The address of the peer.
    pub peer: SocketAddr,
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// Datagrams that came from the peer so far: acknowledgements, mostly.
    pub received: u64,
}

/// Where a server is, and what proves that it is the one.
#[derive(Clone, Debug)]
pub struct QuicAddress {
    address: SocketAddr,
    certificate: CertificateDer<'static>,
}

/// A server on a thread of its own. Dropping it ends it.
#[derive(Debug)]
pub struct QuicServer {
    handle: QuicAddress,
    samples: Arc<Mutex<Vec<QuicSample>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn failed(what: &str, error: impl std::fmt::Display) -> Error {
    Error::system(what, io::Error::other(error.to_string()))
}

fn runtime() -> Result<Runtime> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|e| Error::system("make a runtime for QUIC", e))
}

/// Without a fixed bit that is random (RFC 9287), which hides half of the packets from who observes.
fn endpoint_config() -> EndpointConfig {
    let mut config = EndpointConfig::default();
    config.grease_quic_bit(false);
    config
}

fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config
        .allow_spin(true)
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(u64::from(WINDOW));
    Arc::new(config)
}

impl QuicServer {
    /// Starts it in a namespace.
    pub fn start(namespace: &str, address: SocketAddr) -> Result<QuicServer> {
        let key = rcgen::generate_simple_self_signed([NAME.to_string()])
            .map_err(|e| failed("make a certificate for QUIC", e))?;
        let certificate = key.cert.der().clone();
        let secret = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
        let mut config = ServerConfig::with_single_cert(vec![certificate.clone()], secret.into())
            .map_err(|e| failed("set QUIC up", e))?;
        config.transport_config(transport());
        let socket = bind(namespace, address)?;
        let runtime = runtime()?;
        let (samples, stop) = (Arc::<Mutex<Vec<QuicSample>>>::default(), Arc::<AtomicBool>::default());
        let (noted, stopped) = (samples.clone(), stop.clone());
        let body = move || {
            runtime.block_on(async move {
                let endpoint = Endpoint::new(endpoint_config(), Some(config), socket, Arc::new(TokioRuntime));
                if let Ok(endpoint) = endpoint {
                    serve(&endpoint, &noted, &stopped).await;
                }
            });
        };
        let thread = std::thread::Builder::new().name("weir-quic".into()).spawn(body);
        let thread = Some(thread.map_err(|e| Error::system("start a thread for QUIC", e))?);
        Ok(QuicServer { handle: QuicAddress { address, certificate }, samples, stop, thread })
    }

    /// What clients need to connect.
    pub fn handle(&self) -> QuicAddress {
        self.handle.clone()
    }

    /// All samples so far, in order of time.
    pub fn samples(&self) -> Vec<QuicSample> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for QuicServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn bind(namespace: &str, address: SocketAddr) -> Result<UdpSocket> {
    let socket = in_netns(namespace, || UdpSocket::bind(address))?;
    socket.map_err(|e| Error::system(format!("bind {address} in `{namespace}`"), e))
}

async fn serve(endpoint: &Endpoint, samples: &Arc<Mutex<Vec<QuicSample>>>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let Ok(Some(incoming)) = tokio::time::timeout(NAP, endpoint.accept()).await else { continue };
        let samples = samples.clone();
        tokio::spawn(async move {
            // A handshake that fails is the client's to tell.
            let Ok(connection) = incoming.await else { return };
            let watched = connection.clone();
            tokio::spawn(async move { note(&watched, &samples).await });
            answer(&connection).await;
        });
    }
    endpoint.close(VarInt::from_u32(0), b"end");
}

/// Sends what is asked for until the connection ends.
async fn answer(connection: &Connection) {
    let chunk = vec![0; 64 << 10];
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        let mut wanted = [0; 8];
        if receive.read_exact(&mut wanted).await.is_err() {
            continue;
        }
        let mut left = u64::from_be_bytes(wanted);
        while left > 0 {
            let part = left.min(chunk.len() as u64);
            match send.write_all(&chunk[..part as usize]).await {
                Ok(()) => left -= part,
                Err(_) => break,
            }
        }
        let _ = send.finish();
    }
}

async fn note(connection: &Connection, samples: &Mutex<Vec<QuicSample>>) {
    while connection.close_reason().is_none() {
        tokio::time::sleep(PERIOD).await;
        let sample = QuicSample {
            at: Instant::now(),
            peer: connection.remote_address(),
            rtt: connection.rtt(),
            received: connection.stats().udp_rx.datagrams,
        };
        samples.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
    }
}

/// A connection of a client, driven by the thread that uses it.
#[derive(Debug)]
pub struct QuicClient {
    runtime: Runtime,
    endpoint: Endpoint,
    connection: Connection,
}

impl QuicClient {
    /// Connects from an address of a namespace.
    pub fn connect(namespace: &str, from: IpAddr, server: &QuicAddress) -> Result<QuicClient> {
        let mut roots = RootCertStore::empty();
        roots.add(server.certificate.clone()).map_err(|e| failed("trust the QUIC server", e))?;
        let mut config =
            ClientConfig::with_root_certificates(Arc::new(roots)).map_err(|e| failed("set QUIC up", e))?;
        config.transport_config(transport());
        let (socket, runtime) = (bind(namespace, (from, 0).into())?, runtime()?);
        let connected = runtime.block_on(async {
            let endpoint = Endpoint::new(endpoint_config(), None, socket, Arc::new(TokioRuntime))?;
            let connecting = endpoint.connect_with(config, server.address, NAME).map_err(io::Error::other)?;
            io::Result::Ok((endpoint, connecting.await?))
        });
        let (endpoint, connection) = connected.map_err(|e| Error::system("connect by QUIC", e))?;
        Ok(QuicClient { runtime, endpoint, connection })
    }

    /// The port of this side.
    pub fn port(&self) -> u16 {
        self.endpoint.local_addr().map_or(0, |address| address.port())
    }

    /// Fetches so many bytes, which are added to `received` as they come; how long it took, and `None` if it
    /// was stopped before the end.
    pub fn fetch(&self, bytes: u64, received: &AtomicU64, stop: &AtomicBool) -> Result<Option<Duration>> {
        let start = Instant::now();
        let fetched = self.runtime.block_on(async {
            let (mut send, mut receive) = self.connection.open_bi().await?;
            send.write_all(&bytes.to_be_bytes()).await?;
            send.finish().map_err(io::Error::other)?;
            while !stop.load(Ordering::Relaxed) {
                let Ok(chunk) = tokio::time::timeout(NAP, receive.read_chunk(usize::MAX, true)).await else {
                    continue;
                };
                match chunk.map_err(io::Error::other)? {
                    Some(chunk) => received.fetch_add(chunk.bytes.len() as u64, Ordering::Relaxed),
                    None => return Ok(Some(start.elapsed())),
                };
            }
            io::Result::Ok(None)
        });
        fetched.map_err(|e| Error::system("fetch by QUIC", e))
    }
}

impl Drop for QuicClient {
    fn drop(&mut self) {
        self.connection.close(VarInt::from_u32(0), b"end");
        // The end is told to the server, shortly.
        let _ = self.runtime.block_on(async { tokio::time::timeout(NAP, self.endpoint.wait_idle()).await });
    }
}
