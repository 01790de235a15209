//! Somebody to be told: a small web server and a small mail server on loopback.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::{Router, body::Bytes, extract::State, response::IntoResponse};
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// No wait for a message takes this long unless it never comes.
const SOON: Duration = Duration::from_secs(30);

/// What a web server does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This status.
    Status(u16),
    /// Another place.
    Redirect,
    /// Nothing, ever.
    Hang,
}

/// A request that came.
#[derive(Clone, Debug)]
pub struct Posted {
    pub headers: HeaderMap,
    pub body: String,
}

impl Posted {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }
}

#[derive(Default)]
struct Inner {
    answers: VecDeque<Answer>,
    usual: Option<Answer>,
    posted: Vec<Posted>,
}

/// A web server that keeps what it is told.
#[derive(Clone)]
pub struct WebReceiver {
    inner: Arc<Mutex<Inner>>,
    count: Arc<watch::Sender<usize>>,
    pub url: String,
}

impl WebReceiver {
    /// One that answers 204.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let receiver = Self {
            inner: Arc::default(),
            count: Arc::new(watch::Sender::new(0)),
            url: format!("http://{address}/hook"),
        };
        let router = Router::new().fallback(take).with_state(receiver.clone());
        // It ends with the test's runtime.
        tokio::spawn(async move { axum::serve(listener, router).await });
        receiver
    }

    /// The next requests are answered so, one after the other.
    pub fn answer_next(&self, answers: &[Answer]) {
        self.inner.lock().answers.extend(answers);
    }

    /// All further ones are.
    pub fn answer_all(&self, answer: Answer) {
        self.inner.lock().usual = Some(answer);
    }

    /// What came so far.
    pub fn posted(&self) -> Vec<Posted> {
        self.inner.lock().posted.clone()
    }

    /// What came once there are so many.
    pub async fn wait_for(&self, count: usize) -> Vec<Posted> {
        let mut counted = self.count.subscribe();
        let waited = tokio::time::timeout(SOON, counted.wait_for(|had| *had >= count)).await;
        let waited = waited.unwrap_or_else(|_| panic!("{} came", self.posted().len()));
        waited.expect("the sender lives");
        self.posted()
    }
}

async fn take(
    State(receiver): State<WebReceiver>,
    headers: HeaderMap,
    body: Bytes,
) -> axum::response::Response {
    let answer = {
        let mut inner = receiver.inner.lock();
        let body = String::from_utf8(body.to_vec()).expect("text");
        inner.posted.push(Posted { headers, body });
        receiver.count.send_replace(inner.posted.len());
        let next = inner.answers.pop_front();
        next.or(inner.usual).unwrap_or(Answer::Status(204))
    };
    match answer {
        Answer::Status(code) => StatusCode::from_u16(code).expect("a status").into_response(),
        Answer::Redirect => {
            let to = [("location", "http://127.0.0.1:9/elsewhere")];
            (StatusCode::FOUND, to).into_response()
        }
        Answer::Hang => std::future::pending().await,
    }
}

/// A mail server that keeps what it is told.
#[derive(Clone)]
pub struct MailReceiver {
    inner: Arc<Mutex<Vec<Letter>>>,
    count: Arc<watch::Sender<usize>>,
    pub port: u16,
}

/// A mail that came.
#[derive(Clone, Debug, Default)]
pub struct Letter {
    pub to: Vec<String>,
    pub text: String,
}

impl MailReceiver {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let receiver = Self { inner: Arc::default(), count: Arc::new(watch::Sender::new(0)), port };
        let serving = receiver.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().converse(stream));
            }
        });
        receiver
    }

    /// What came once there are so many.
    pub async fn wait_for(&self, count: usize) -> Vec<Letter> {
        let mut counted = self.count.subscribe();
        let waited = tokio::time::timeout(SOON, counted.wait_for(|had| *had >= count)).await;
        waited.expect("a mail comes").expect("the sender lives");
        self.inner.lock().clone()
    }

    async fn converse(self, stream: TcpStream) -> std::io::Result<()> {
        let (read, mut write) = stream.into_split();
        let mut lines = BufReader::new(read).lines();
        write.write_all(b"220 test ready\r\n").await?;
        let mut letter = Letter::default();
        while let Some(line) = lines.next_line().await? {
            let answer = match line.split([' ', ':']).next().unwrap_or_default() {
                "EHLO" | "HELO" => "250 test",
                "RCPT" => {
                    let to = line.split(['<', '>']).nth(1).unwrap_or_default();
                    letter.to.push(to.to_owned());
                    "250 ok"
                }
                "DATA" => {
                    write.write_all(b"354 go on\r\n").await?;
                    while let Some(line) = lines.next_line().await?.filter(|line| line != ".") {
                        letter.text.push_str(&line);
                        letter.text.push('\n');
                    }
                    let mut inner = self.inner.lock();
                    inner.push(std::mem::take(&mut letter));
                    self.count.send_replace(inner.len());
                    "250 taken"
                }
                "QUIT" => {
                    write.write_all(b"221 bye\r\n").await?;
                    return Ok(());
                }
                _ => "250 ok",
            };
            write.write_all(format!("{answer}\r\n").as_bytes()).await?;
        }
        Ok(())
    }
}
