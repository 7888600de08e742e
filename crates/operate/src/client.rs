//! Asks a running program through its control socket.

use crate::model::Refusal;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::runtime::Runtime;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(15);
/// Most bytes of an answer.
const ANSWER_MAX: usize = 16 << 20;

/// A connection to a control socket, for one request after the other.
pub struct Client {
    path: PathBuf,
    runtime: Runtime,
    sender: SendRequest<Full<Bytes>>,
}

/// Why a request brought nothing.
#[derive(Clone, PartialEq, Debug)]
pub enum Failure {
    /// Nobody answered.
    Unreachable(String),
    /// It was refused.
    Refused(u16, Refusal),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Unreachable(why) => f.write_str(why),
            Failure::Refused(_, refusal) => f.write_str(&refusal.error),
        }
    }
}

impl std::error::Error for Failure {}

impl Client {
    /// Connects.
    pub fn connect(path: &Path) -> Result<Client, Failure> {
        let told = |error: io::Error| {
            let remedy = match error.kind() {
                io::ErrorKind::PermissionDenied => ". Remedy: ask as root",
                _ => ". Remedy: look with `weir ctl status` which programs run",
            };
            Failure::Unreachable(format!("cannot connect to {}: {error}{remedy}", path.display()))
        };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(told)?;
        let sender = runtime
            .block_on(async {
                let stream = tokio::net::UnixStream::connect(path).await?;
                let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
                tokio::spawn(async move { drop(connection.await) });
                Ok(sender)
            })
            .map_err(told)?;
        Ok(Client { path: path.to_path_buf(), runtime, sender })
    }

    /// Asks, with a body of JSON where there is one, and gives the answer as it came: status, kind and text.
    pub fn raw(
        &mut self,
        method: &str,
        path: &str,
        body: Option<String>,
    ) -> Result<(u16, String, String), Failure> {
        let told = |why: String| Failure::Unreachable(format!("{}: {why}", self.path.display()));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "localhost")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(|error| told(error.to_string()))?;
        let sender = &mut self.sender;
        let ask = async {
            sender.ready().await.map_err(|error| error.to_string())?;
            let response: Response<_> =
                sender.send_request(request).await.map_err(|error| error.to_string())?;
            let status = response.status();
            let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
            let kind = kind.unwrap_or_default().to_string();
            let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            Ok((status, kind, body))
        };
        let answered: Result<(StatusCode, String, Bytes), String> = self.runtime.block_on(async {
            tokio::time::timeout(PATIENCE, ask)
                .await
                .unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())))
        });
        let (status, kind, body) = answered.map_err(|why| {
            Failure::Unreachable(format!(
                "{}: {why}. Remedy: look whether the program still runs",
                self.path.display()
            ))
        })?;
        Ok((status.as_u16(), kind, String::from_utf8_lossy(&body).into_owned()))
    }

    /// Asks for what is JSON.
    pub fn ask<T: DeserializeOwned>(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&impl serde::Serialize>,
    ) -> Result<T, Failure> {
        let body = body.map(|body| serde_json::to_string(body).unwrap_or_default());
        let (status, _, text) = self.raw(method, path, body)?;
        if status != 200 {
            let refusal = serde_json::from_str(&text).unwrap_or_else(|_| Refusal::plain(text));
            return Err(Failure::Refused(status, refusal));
        }
        serde_json::from_str(&text).map_err(|error| {
            let remedy = "Remedy: use the `weir` of the same version as the program that runs";
            Failure::Unreachable(format!(
                "{}: an answer that is not understood ({error}). {remedy}",
                self.path.display()
            ))
        })
    }
}
