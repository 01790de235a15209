//! Executors that are turned away: a line in the log names who dialled and why it got no session, so
//! that a wrong token is found where the operator looks. However often one dials, its lines are few.

use std::{collections::HashMap, net::SocketAddr, time::Duration};

use axum::body::Body;
use bytes::BytesMut;
use clawjob_proto::v1::{Hello, SessionRequest, session_request::Frame as Up};
use http::Request;
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use prost::Message as _;

use super::{caller::Peer, gate::FRAME_HEADER_BYTES, status::ApiError};
use crate::{
    clock::Clock,
    hub::{admission::Admission, wire},
};

/// One stranger is told of once in so long; what it tries in between is counted.
const LINE_EVERY: Duration = Duration::from_secs(60);
/// Strangers remembered at once. While there are more, those that come new are not told of.
const STRANGERS_MAX: usize = 1_000;
/// First frames that are read per second to learn who a stranger says it is.
const FRAMES_READ_PER_SECOND: u32 = 10;
/// Bytes of such a frame.
const FRAME_BYTES_MAX: usize = 64 * 1024;
/// How long one is waited for: executors send it with the headers.
const FRAME_WAIT_MAX: Duration = Duration::from_millis(500);
/// Bytes of a name in a line.
const NAME_BYTES_MAX: usize = 64;

/// What an executor says it is, whether or not that is so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Claimed {
    app: String,
    executor: String,
}

impl Claimed {
    /// By its Hello.
    pub fn by(hello: &Hello) -> Self {
        let name = |text: &str| wire::start(text, NAME_BYTES_MAX).to_owned();
        Self { app: name(&hello.app), executor: name(&hello.executor_id) }
    }
}

/// Remembers who was turned away lately.
pub struct Strangers {
    frames: Mutex<Admission>,
    /// By host, what it says it is, and the reason.
    seen: Mutex<HashMap<(String, Claimed, &'static str), Seen>>,
}

#[derive(Debug)]
struct Seen {
    told: Duration,
    since: u64,
}

impl Default for Strangers {
    fn default() -> Self {
        let frames = Mutex::new(Admission::new(FRAMES_READ_PER_SECOND));
        Self { frames, seen: Mutex::default() }
    }
}

impl Strangers {
    /// Tells of a request for a session that was refused before its first frame was read.
    pub async fn refuse(&self, request: Request<Body>, error: &ApiError, clock: &dyn Clock) {
        let peer = request.extensions().get::<Peer>().map(|peer| peer.address);
        if self.frames.lock().admit(clock.elapsed()).is_err() {
            return;
        }
        let claimed = tokio::select! {
            hello = first_frame(request.into_body()) => hello,
            () = clock.wait(FRAME_WAIT_MAX) => None,
        };
        let claimed = claimed.as_ref().map(Claimed::by).unwrap_or_default();
        self.tell(peer, &claimed, "", error, clock.elapsed());
    }

    /// Tells of an executor that gets no session; `by` is its credential's name, if that is known.
    pub fn tell(
        &self,
        peer: Option<SocketAddr>,
        claimed: &Claimed,
        by: &str,
        error: &ApiError,
        elapsed: Duration,
    ) {
        // Each dial comes from a port of its own.
        let host = peer.map(|peer| peer.ip().to_string()).unwrap_or_default();
        let Some(again) = self.note(host, claimed, error.reason(), elapsed) else { return };
        let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
        let (app, executor) = (&claimed.app, &claimed.executor);
        tracing::warn!(peer, ?app, ?executor, by, again, %error, "session refused");
    }

    /// How often it came since it was told of last, if it is time to tell of it again.
    fn note(
        &self,
        host: String,
        claimed: &Claimed,
        reason: &'static str,
        elapsed: Duration,
    ) -> Option<u64> {
        let mut seen = self.seen.lock();
        let key = (host, claimed.clone(), reason);
        if let Some(known) = seen.get_mut(&key) {
            if elapsed < known.told + LINE_EVERY {
                known.since += 1;
                return None;
            }
            known.told = elapsed;
            return Some(std::mem::take(&mut known.since));
        }
        if seen.len() >= STRANGERS_MAX {
            seen.retain(|_, known| elapsed < known.told + LINE_EVERY);
        }
        if seen.len() >= STRANGERS_MAX {
            return None;
        }
        seen.insert(key, Seen { told: elapsed, since: 0 });
        Some(0)
    }
}

/// The Hello at the beginning of a stream; None when it begins with anything else.
async fn first_frame(mut body: Body) -> Option<Hello> {
    let mut bytes = BytesMut::new();
    loop {
        if let Some(header) = bytes.first_chunk::<FRAME_HEADER_BYTES>() {
            let [flag, length @ ..] = *header;
            let length = usize::try_from(u32::from_be_bytes(length)).ok()?;
            if flag != 0 || length > FRAME_BYTES_MAX {
                return None;
            }
            let end = FRAME_HEADER_BYTES + length;
            if bytes.len() >= end {
                let frame = SessionRequest::decode(&bytes[FRAME_HEADER_BYTES..end]).ok()?.frame;
                return match frame {
                    Some(Up::Hello(hello)) => Some(hello),
                    _ => None,
                };
            }
        }
        let data = body.frame().await?.ok()?.into_data().ok()?;
        if bytes.len() + data.len() > FRAME_HEADER_BYTES + 2 * FRAME_BYTES_MAX {
            return None;
        }
        bytes.extend_from_slice(&data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimed(executor: &str) -> Claimed {
        let hello = Hello { executor_id: executor.to_owned(), ..Hello::default() };
        Claimed::by(&hello)
    }

    #[test]
    fn a_stranger_is_told_of_once_a_minute_with_how_often_it_came() {
        let strangers = Strangers::default();
        let note = |name: &str, at: u64| {
            strangers.note("10.0.0.7".to_owned(), &claimed(name), "NO", Duration::from_secs(at))
        };
        assert_eq!(note("a", 0), Some(0));
        assert_eq!((note("a", 1), note("a", 59)), (None, None));
        assert_eq!(note("b", 59), Some(0), "another one has a line of its own");
        assert_eq!(note("a", 60), Some(2));
        assert_eq!(note("a", 120), Some(0));
    }

    #[test]
    fn the_memory_of_strangers_is_bounded_and_makes_room() {
        let strangers = Strangers::default();
        let note = |n: usize, at: u64| {
            strangers.note(String::new(), &claimed(&n.to_string()), "NO", Duration::from_secs(at))
        };
        let told = (0..2 * STRANGERS_MAX).filter(|n| note(*n, 0).is_some()).count();
        assert_eq!(told, STRANGERS_MAX);
        assert_eq!(note(9_999, 61), Some(0));
        assert_eq!(strangers.seen.lock().len(), 1);
    }

    #[tokio::test]
    async fn a_hello_is_read_in_whatever_pieces_it_comes() {
        let hello = Hello { app: "billing".to_owned(), ..Hello::default() };
        let frame = SessionRequest { frame: Some(Up::Hello(hello.clone())) }.encode_to_vec();
        let mut whole = vec![0];
        whole.extend(u32::try_from(frame.len()).expect("small").to_be_bytes());
        whole.extend(frame);
        let pieces = whole.chunks(3).map(|piece| Ok::<_, std::io::Error>(piece.to_vec()));
        let pieces: Vec<_> = pieces.collect();
        let body = Body::from_stream(futures::stream::iter(pieces));
        assert_eq!(first_frame(body).await, Some(hello));
        for other in
            [Vec::new(), vec![0; 4], vec![1, 0, 0, 0, 0], vec![0, 255, 0, 0, 0], vec![0; 5]]
        {
            assert_eq!(first_frame(Body::from(other)).await, None);
        }
    }
}
