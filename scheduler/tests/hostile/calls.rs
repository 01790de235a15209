//! Every method with odd messages, over JSON and over gRPC.

use proptest::prelude::*;
use prost::Message as _;
use prost_reflect::DynamicMessage;
use serde_json::Value;

use crate::{
    fuzz::fuzz,
    input::{self, faults, spoil},
    stage::{STAGE, corpus, is_clear},
};

fn post(path: &str, body: Vec<u8>) -> Result<(), TestCaseError> {
    let shown = String::from_utf8_lossy(&body).into_owned();
    let (status, said) = STAGE.post(path, body);
    prop_assert!(status < 500 || [501, 503].contains(&status), "{path} {shown}: {status} {said}");
    STAGE.check(&(path, shown), &said);
    Ok(())
}

fn method_and_body() -> BoxedStrategy<(String, Value)> {
    let all = input::methods().into_iter().map(|(path, method)| {
        input::request(&method.input()).prop_map(move |body| (path.clone(), body)).boxed()
    });
    // Waiting and watching take real time and are a few methods of many.
    prop::strategy::Union::new(all).boxed()
}

#[test]
fn a_message_over_json_gets_an_answer_or_a_clear_error() {
    for kept in corpus("json") {
        let path = kept["path"].as_str().expect("a path");
        post(path, kept["body"].to_string().into_bytes()).expect("a kept input");
    }
    fuzz("tests/data/fuzz/json.txt", 1500, |config| {
        proptest!(config, |((path, mut body) in method_and_body())| {
            // A wait of its whole minute shows nothing more.
            if path.ends_with("WaitRun") {
                body["timeout"] = Value::from("0.001s");
            }
            post(&path, body.to_string().into_bytes())?;
        });
    });
}

#[test]
fn a_body_that_is_no_message_gets_a_clear_error() {
    for kept in corpus("body") {
        let path = kept["path"].as_str().expect("a path");
        let body = kept["body"].as_str().expect("a text").as_bytes().to_vec();
        post(path, body).expect("a kept input");
    }
    fuzz("tests/data/fuzz/body.txt", 800, |config| {
        proptest!(config, |((path, body) in method_and_body(), by in faults())| {
            if !path.ends_with("WaitRun") {
                post(&path, spoil(body.to_string().as_bytes(), &by))?;
            }
        });
    });
}

/// Sends bytes as the message of a unary method.
fn call(path: &str, bytes: Vec<u8>) -> Result<(), TestCaseError> {
    let answer = STAGE.call(path, bytes.clone());
    let said = match &answer {
        Ok(answer) => String::from_utf8_lossy(answer).into_owned(),
        Err(status) => {
            prop_assert!(is_clear(status.code()), "{path} {bytes:?}: {status:?}");
            format!("{} {}", status.message(), String::from_utf8_lossy(status.details()))
        }
    };
    STAGE.check(&(path, bytes), &said);
    Ok(())
}

#[test]
fn bytes_over_grpc_get_an_answer_or_a_clear_error() {
    for kept in corpus("bytes") {
        let bytes = hex::decode(kept["hex"].as_str().expect("hex digits")).expect("hex digits");
        call(kept["path"].as_str().expect("a path"), bytes).expect("a kept input");
    }
    fuzz("tests/data/fuzz/bytes.txt", 1500, |config| {
        let methods = input::methods();
        proptest!(config, |((path, body) in method_and_body(), by in faults(), raw in any::<Vec<u8>>())| {
            let (_, method) = methods.iter().find(|(known, _)| *known == path).expect("known");
            if method.is_server_streaming() || path.ends_with("WaitRun") {
                return Ok(());
            }
            let bytes = match DynamicMessage::deserialize(method.input(), body) {
                Ok(message) => spoil(&message.encode_to_vec(), &by),
                Err(_) => raw,
            };
            call(&path, bytes)?;
        });
    });
}
