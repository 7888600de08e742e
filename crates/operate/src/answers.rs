//! What is sent back to a request.

use crate::model::Refusal;
use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

pub(crate) type Answer = Response<Stream>;

pub(crate) fn answer(status: StatusCode, kind: &'static str, text: String) -> Answer {
    let mut response = Response::new(Stream::whole(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

pub(crate) fn json(status: StatusCode, value: &impl serde::Serialize) -> Answer {
    // Plain data is always JSON.
    let text = serde_json::to_string(value).unwrap_or_default();
    answer(status, "application/json", text + "\n")
}

pub(crate) fn refuse(status: StatusCode, error: impl Into<String>) -> Answer {
    json(status, &Refusal::plain(error))
}

/// What is sent back: a whole text, or events as long as somebody looks.
#[derive(Debug)]
pub(crate) enum Stream {
    Whole(Full<Bytes>),
    Events(mpsc::Receiver<Bytes>),
}

impl Stream {
    pub(crate) fn whole(text: Bytes) -> Stream {
        Stream::Whole(Full::new(text))
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Stream::Whole(full) => Pin::new(full).poll_frame(context),
            Stream::Events(events) => {
                events.poll_recv(context).map(|text| text.map(|text| Ok(Frame::data(text))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Stream::Whole(full) => full.is_end_stream(),
            Stream::Events(_) => false,
        }
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            Stream::Whole(full) => full.size_hint(),
            Stream::Events(_) => hyper::body::SizeHint::default(),
        }
    }
}
