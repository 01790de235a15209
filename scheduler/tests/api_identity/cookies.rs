//! What a cookie is good for, and what not.

use std::time::Duration;

use clawjob_proto::json::pool;
use clawjob_scheduler::api::watch::BOOKMARK_INTERVAL;
use serde_json::{Value, json};

use crate::{
    browser::{Browser, HOME, OTHER, password, person, server},
    harness::{SOON, Server},
};

fn admin() -> Value {
    json!([{ "app": "*", "role": "ROLE_ADMIN" }])
}

#[tokio::test]
async fn a_cookie_can_not_be_read_by_scripts_nor_sent_by_other_sites() {
    let server = server().await;
    person(&server, "ann", json!([])).await;
    let mut ann = Browser::at(HOME);
    let set = ann.sign_in(&server, password("ann", OTHER)).await.cookie.expect("a cookie");
    for part in ["; HttpOnly", "; SameSite=Strict", "; Secure", "; Path=/"] {
        assert!(set.contains(part), "{set}");
    }
    let out = ann.post(&server, "IdentityService/Logout", json!({})).await;
    let cleared = out.cookie.expect("a cookie");
    assert!(cleared.contains("=; ") && cleared.contains("; Max-Age=0"), "{cleared}");
}

#[tokio::test]
async fn every_change_by_cookie_needs_the_token_and_a_post() {
    let server = server().await;
    let ann = person(&server, "ann", admin()).await;
    let forged = Browser { csrf: String::new(), ..ann.clone() };
    let guessed = Browser { csrf: "0".repeat(32), ..ann.clone() };
    let mut changes = 0;
    for service in pool().services().filter(|service| service.name() != "ExecutorService") {
        for method in service.methods() {
            let path = format!("{}/{}", service.name(), method.name());
            let reads = clawjob_scheduler::api::rules::reads(&format!("clawjob.v1.{path}"));
            if path == "IdentityService/Login" || method.is_server_streaming() {
                continue;
            }
            for browser in [&forged, &guessed] {
                let answer = browser.post(&server, &path, json!({})).await;
                let refused = answer.reason() == "CSRF_TOKEN_MISSING";
                assert_eq!(refused, !reads, "{path}: {:?}", answer.body);
            }
            changes += u32::from(!reads);
            let url = format!("{}/clawjob.v1.{path}", server.url);
            let got = server.http.get(url).header("cookie", &ann.cookie).send().await;
            assert_eq!(got.expect("answers").status(), 405, "{path} by GET");
        }
    }
    assert!(changes > 25, "{changes}");
    ann.post(&server, "ClusterService/CreateApp", json!({ "appId": "a" })).await.ok();
}

#[tokio::test]
async fn the_token_of_changes_comes_again_after_a_reload_and_is_of_one_sign_in() {
    let server = server().await;
    let ann = person(&server, "ann", admin()).await;
    assert_eq!(ann.whoami(&server).await.ok()["csrfToken"], ann.csrf.as_str());
    let bob = person(&server, "bob", admin()).await;
    let crossed = Browser { csrf: bob.csrf, ..ann };
    let refused = crossed.post(&server, "ClusterService/CreateApp", json!({ "appId": "a" })).await;
    assert_eq!((refused.status, refused.reason()), (403, "CSRF_TOKEN_MISSING"));
}

#[tokio::test]
async fn a_cookie_counts_for_json_calls_alone() {
    let server = server().await;
    let ann = person(&server, "ann", admin()).await;
    let page = server.http.get(format!("{}/metrics", server.url)).header("cookie", &ann.cookie);
    assert_eq!(page.send().await.expect("answers").status(), 401);
    let url = format!("{}/clawjob.v1.IdentityService/WhoAmI", server.url);
    for media_type in ["application/grpc", "text/plain", "application/x-www-form-urlencoded"] {
        let request = server.http.post(&url).header("content-type", media_type);
        let answer = request.header("cookie", &ann.cookie).send().await.expect("answers");
        let body = answer.text().await.expect("a body");
        assert!(!body.contains("users/ann"), "{media_type}: {body}");
    }
}

#[tokio::test]
async fn a_bearer_wins_over_a_cookie() {
    let server = server().await;
    let ann = person(&server, "ann", admin()).await;
    let both = Browser { bearer: server.admin.clone(), csrf: String::new(), ..ann };
    let me = both.whoami(&server).await.ok();
    assert!(me["principal"].as_str().expect("a name").starts_with("tokens/"), "{me}");
    both.post(&server, "ClusterService/CreateApp", json!({ "appId": "a" })).await.ok();
    let wrong = Browser { bearer: "clawjob_x_y".into(), ..both };
    assert_eq!(wrong.whoami(&server).await.status, 401, "a wrong one is not passed over");
}

#[tokio::test]
async fn a_credential_of_no_form_is_told_by_the_place_it_stood_in() {
    let server = server().await;
    let mut ann = person(&server, "ann", json!([])).await;
    let name = ann.cookie.split('=').next().expect("a name").to_owned();
    let malformed = Browser { cookie: format!("{name}=hunter2"), ..ann.clone() };
    let by_cookie = malformed.whoami(&server).await;
    let by_login = ann.sign_in(&server, json!({ "apiToken": "hunter2" })).await;
    for (answer, place) in [(by_cookie, "cookie"), (by_login, "api_token")] {
        assert_eq!((answer.status, answer.reason()), (401, "TOKEN_INVALID"));
        let told = answer.body["message"].as_str().expect("a message");
        assert!(told.starts_with(&format!("{place}: not of the form of a token; ")), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
    }
}

#[tokio::test]
async fn a_sign_in_takes_no_cookie_that_was_there_before() {
    let server = server().await;
    let attacker = person(&server, "mallory", json!([])).await;
    person(&server, "ann", json!([])).await;
    // The victim's browser was given the attacker's cookie.
    let mut victim = Browser { csrf: String::new(), ..attacker.clone() };
    victim.sign_in(&server, password("ann", OTHER)).await.ok();
    assert_ne!(victim.cookie, attacker.cookie);
    assert_eq!(victim.whoami(&server).await.ok()["principal"], "users/ann");
    assert_eq!(attacker.whoami(&server).await.status, 401, "the old one has ended");
}

#[tokio::test]
async fn a_cookie_with_another_s_id_ends_nothing_of_theirs() {
    let server = server().await;
    let ann = person(&server, "ann", json!([])).await;
    person(&server, "mallory", json!([])).await;
    let (name, credential) = ann.cookie.split_once('=').expect("a pair");
    let id = credential.split('_').nth(1).expect("an id");
    let mut mallory = Browser::at(HOME);
    mallory.cookie = format!("{name}=clawjob_{id}_{}", "0".repeat(64));
    assert_eq!(mallory.whoami(&server).await.status, 401);
    mallory.sign_in(&server, password("mallory", OTHER)).await.ok();
    ann.whoami(&server).await.ok();
}

#[tokio::test]
async fn the_same_roles_hold_by_cookie_as_by_token() {
    let server = server().await;
    server.app("a").await;
    server.app("b").await;
    let ann = person(&server, "ann", json!([{ "app": "a", "role": "ROLE_VIEWER" }])).await;
    let apps = ann.post(&server, "ClusterService/ListApps", json!({})).await.ok();
    assert_eq!(apps["apps"].as_array().expect("apps").len(), 1);
    let job = json!({ "name": "apps/a/jobs/j" });
    assert_eq!(ann.post(&server, "JobService/PauseJob", job).await.status, 403);
    let job = json!({ "name": "apps/b/jobs/j" });
    assert_eq!(ann.post(&server, "JobService/GetJob", job).await.status, 404);
}

#[tokio::test]
async fn a_browser_s_stream_comes_line_by_line_with_a_word_each_15_seconds() {
    let server = server().await;
    let ann = person(&server, "ann", admin()).await;
    server.app("a").await;
    let watch = open(&server, &ann, "RunService/WatchRuns", json!({ "parent": "apps/-" })).await;
    assert_eq!(watch.headers()["content-type"], "application/x-ndjson");
    assert_eq!(watch.headers()["cache-control"], "no-store");
    assert_eq!(watch.headers()["x-accel-buffering"], "no");
    assert_eq!(watch.headers()["x-content-type-options"], "nosniff");
    let mut lines = Lines { stream: watch, text: String::new() };
    let first = tokio::time::timeout(SOON, lines.hear()).await;
    first.expect("the first line comes while time stands still");
    for _ in 0..3 {
        let line = lines.next(&server).await;
        assert_eq!(line["type"], "TYPE_BOOKMARK", "{line}");
        assert!(line["resumeToken"].is_string());
    }
    ann.post(&server, "IdentityService/Logout", json!({})).await.ok();
    for _ in 0..100 {
        let line = lines.next(&server).await;
        if !line["error"].is_null() {
            assert_eq!(line["error"]["code"], "unauthenticated", "it ends with its sign-in");
            return;
        }
    }
    panic!("the watch outlives its sign-in");
}

async fn open(server: &Server, who: &Browser, path: &str, json: Value) -> reqwest::Response {
    let url = format!("{}/clawjob.v1.{path}", server.url);
    let request = server.http.post(url).header("content-type", "application/json");
    let request = request.header("cookie", &who.cookie).body(json.to_string());
    request.send().await.expect("answers")
}

/// The lines of a stream.
struct Lines {
    stream: reqwest::Response,
    /// What has come of those that nobody took yet.
    text: String,
}

impl Lines {
    /// Waits for the next piece of the stream.
    async fn hear(&mut self) {
        let piece = self.stream.chunk().await.expect("no break").expect("more");
        self.text.push_str(std::str::from_utf8(&piece).expect("text"));
    }

    /// The next line, with the time moved on until there is one.
    async fn next(&mut self, server: &Server) -> Value {
        const LOOKS: u32 = 300;
        for _ in 0..LOOKS {
            if let Some((line, rest)) = self.text.split_once('\n') {
                let line = serde_json::from_str(line).expect("JSON");
                self.text = rest.to_owned();
                return line;
            }
            if tokio::time::timeout(Duration::from_millis(100), self.hear()).await.is_err() {
                server.clock.advance(BOOKMARK_INTERVAL / 2);
            }
        }
        panic!("no line comes");
    }
}
