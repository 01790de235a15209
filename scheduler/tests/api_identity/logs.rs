//! What the server's log says of people, and what it never says.

use std::{io::Write, sync::Arc};

use clawjob_scheduler::api::identity::attempts::PAIR_TRIES_FREE;
use parking_lot::Mutex;
use serde_json::json;

use crate::browser::{Browser, OTHER, PASSWORD, password, person, server};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_log_names_callers_and_guessers_and_no_secret() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter("clawjob_scheduler=trace")
        .with_writer(move || writer.clone())
        .finish();
    // Of this thread, on which the whole server of this test runs.
    let _guard = tracing::subscriber::set_default(subscriber);
    let server = server().await;
    // Another test may be the first to come by the same place in the code just now, which is then
    // taken to interest nobody.
    person(&server, "first", json!([])).await;
    tracing::callsite::rebuild_interest_cache();
    let ann = person(&server, "ann", json!([{ "app": "*", "role": "ROLE_ADMIN" }])).await;
    let token = json!({ "token": { "grants": [{ "app": "a", "role": "ROLE_VIEWER" }] } });
    let made = ann.post(&server, "IdentityService/CreateToken", token).await.ok();
    let bearer = server.call("", "IdentityService/Login", password("ann", OTHER)).await;
    let bearer = bearer.expect("signed in")["token"].as_str().expect("a token").to_owned();
    let mut bad = Browser::at("198.51.100.66");
    for _ in 0..=PAIR_TRIES_FREE {
        bad.sign_in(&server, password("ann", "a wrong guess")).await;
        bad.sign_in(&server, password("hunter2-typed-here", "a wrong guess")).await;
    }
    let said = String::from_utf8_lossy(&lines.0.lock()).into_owned();
    assert!(said.contains("users/ann") && said.contains("user created"), "{said}");
    assert!(said.contains("sign-ins fail again and again"), "{said}");
    let made = made["secret"].as_str().expect("a secret");
    let cookie = ann.cookie.split_once('=').expect("a pair").1;
    let secret = |text: &str| text.rsplit('_').next().expect("a part").to_owned();
    for hidden in [
        PASSWORD,
        OTHER,
        "a wrong guess",
        "hunter2",
        "argon2id",
        &ann.csrf,
        &secret(made),
        &secret(cookie),
        &secret(&bearer),
        &secret(&server.admin),
    ] {
        assert!(!said.contains(hidden), "{hidden} in:\n{said}");
    }
}
