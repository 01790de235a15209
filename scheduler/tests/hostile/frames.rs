//! Sessions of executors that send what they like.

use std::time::Duration;

use bytes::Bytes;
use clawjob_proto::{
    json::pool,
    v1::{Hello, SessionRequest, SessionResponse, session_request::Frame, session_response},
};
use proptest::prelude::*;
use prost::Message as _;
use prost_reflect::DynamicMessage;
use tonic::Status;

use crate::{
    fuzz::fuzz,
    input::{faults, request, spoil},
    stage::{ANSWER_MAX, STAGE, corpus, is_clear},
    wire::{BytesCodec, bearing},
};

/// A session that says nothing for so long has said what it had to say to these frames.
const QUIET: Duration = Duration::from_millis(20);

fn hello(executor: &str) -> Vec<u8> {
    let hello = Hello {
        protocol_major: 1,
        app: "mine".to_owned(),
        executor_id: executor.to_owned(),
        instance_id: format!("{executor}-1"),
        slots: 2,
        handlers: vec![clawjob_proto::v1::Handler { name: "h".to_owned(), ..Default::default() }],
        ..Hello::default()
    };
    SessionRequest { frame: Some(Frame::Hello(hello)) }.encode_to_vec()
}

/// Sends the frames and hears what comes back until the session ends or has nothing to say; its first
/// answer may take as long as `first`.
async fn converse(frames: Vec<Vec<u8>>, first: Duration) -> Result<Vec<Bytes>, Status> {
    let path = "/clawjob.v1.ExecutorService/Session".parse().expect("a path");
    let mut grpc = tonic::client::Grpc::new(STAGE.channel.clone());
    grpc.ready().await.expect("the server lives");
    let frames = tokio_stream::iter(frames.into_iter().map(Bytes::from));
    let open = futures::StreamExt::chain(frames, tokio_stream::pending());
    let mut answers =
        grpc.streaming(bearing(&STAGE.executor, open), path, BytesCodec).await?.into_inner();
    let mut heard = Vec::new();
    let mut patience = first;
    while let Ok(next) = tokio::time::timeout(patience, answers.message()).await {
        match next? {
            Some(frame) => heard.push(frame),
            None => break,
        }
        patience = QUIET;
    }
    Ok(heard)
}

fn survive(frames: Vec<Vec<u8>>) -> Result<(), TestCaseError> {
    let talk = async { tokio::time::timeout(ANSWER_MAX, converse(frames.clone(), QUIET)).await };
    let said = match STAGE.runtime.block_on(talk).expect("hangs") {
        Ok(heard) => heard.concat(),
        Err(status) => {
            prop_assert!(is_clear(status.code()), "{frames:?}: {status:?}");
            status.message().as_bytes().to_vec()
        }
    };
    STAGE.check(&frames, &String::from_utf8_lossy(&said));
    Ok(())
}

/// Frames of the contract with odd values, spoiled or not; bytes where they don't fit.
fn frame() -> BoxedStrategy<Vec<u8>> {
    let of = pool().get_message_by_name("clawjob.v1.SessionRequest").expect("a frame");
    let encoded = request(&of).prop_map(move |json| {
        let json = one_of(json);
        match DynamicMessage::deserialize(of.clone(), &json) {
            Ok(message) => message.encode_to_vec(),
            Err(_) => json.to_string().into_bytes(),
        }
    });
    (encoded, faults()).prop_map(|(bytes, by)| spoil(&bytes, &by)).boxed()
}

/// Of the frames that were filled in the first: a message has one.
fn one_of(json: serde_json::Value) -> serde_json::Value {
    match json {
        serde_json::Value::Object(map) => {
            serde_json::Value::Object(map.into_iter().take(1).collect())
        }
        other => other,
    }
}

#[test]
fn a_session_of_any_frames_ends_or_goes_on_and_leaves_the_others_alone() {
    for kept in corpus("frames") {
        let frames = kept["frames"].as_array().expect("frames").iter();
        let bytes = |frame: &serde_json::Value| {
            hex::decode(frame.as_str().expect("hex digits")).expect("hex digits")
        };
        survive(frames.map(bytes).collect()).expect("a kept input");
    }
    fuzz("tests/data/fuzz/frames.txt", 150, |config| {
        proptest!(config, |(
            first in prop_oneof![4 => Just(hello("wild")), 1 => frame()],
            by in prop_oneof![4 => Just(Vec::new()), 1 => faults()],
            rest in prop::collection::vec(frame(), 0..12),
        )| {
            let mut frames = vec![spoil(&first, &by)];
            frames.extend(rest);
            survive(frames)?;
        });
    });
    // An honest session has an answer, on a busy machine too.
    let calm = converse(vec![hello("calm")], ANSWER_MAX * 2);
    let calm = STAGE.runtime.block_on(calm).expect("a session");
    let first = SessionResponse::decode(calm.first().expect("an answer").clone()).expect("a frame");
    assert!(matches!(first.frame, Some(session_response::Frame::Welcome(_))), "{first:?}");
}
