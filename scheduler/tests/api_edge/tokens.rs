//! Tokens: the first one, making, listing, revoking, expiring.

use std::{os::unix::fs::PermissionsExt as _, time::Duration};

use clawjob_proto::v1::{WhoAmIRequest, identity_service_client::IdentityServiceClient};
use clawjob_scheduler::{
    api::auth::{self, TOKEN_TOUCH_INTERVAL, bootstrap_admin_token},
    clock::Clock as _,
    model::principal::Role,
};
use serde_json::{Value, json};
use tonic::{Code, Request, metadata::MetadataValue};

use crate::harness::{SOON, Server, code, reason};

const WHO: &str = "IdentityService/WhoAmI";

fn grant(app: &str, role: &str) -> Value {
    json!([{ "app": app, "role": role }])
}

#[tokio::test]
async fn the_first_start_leaves_an_admin_token_that_its_owner_alone_can_read() {
    let server = Server::start().await;
    let file = server.dir.path().join(auth::ADMIN_TOKEN_FILE);
    let text = std::fs::read_to_string(&file).expect("the file is there");
    assert_eq!(text.trim(), server.admin);
    let mode = std::fs::metadata(&file).expect("metadata").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let who = server.call(&server.admin, WHO, json!({})).await.expect("it works");
    assert_eq!(who["grants"], grant("*", "ROLE_ADMIN"));

    let again = bootstrap_admin_token(&server.store, server.dir.path(), server.clock.now()).await;
    assert_eq!(again.expect("no fault"), None, "a second start makes none");
    assert_eq!(std::fs::read_to_string(&file).expect("still there"), text);
}

#[tokio::test]
async fn a_cluster_whose_admins_are_all_revoked_gets_a_new_one_at_the_next_start() {
    let server = Server::start().await;
    let id = server.admin.split('_').nth(1).expect("an id");
    server.store.revoke_token(id, server.clock.now()).await.expect("revoked");
    server.clock.advance(Duration::from_secs(1));
    let fresh = bootstrap_admin_token(&server.store, server.dir.path(), server.clock.now()).await;
    let fresh = fresh.expect("no fault").expect("a new token");
    assert_eq!(code(&server.call(&fresh, WHO, json!({})).await), Code::Ok);
}

/// Raw values of the header that carry no token, each with its fault.
fn tokenless() -> Vec<(Option<Vec<u8>>, &'static str)> {
    let all: [(Option<&[u8]>, _); 10] = [
        (None, "missing"),
        (Some(b""), "empty"),
        (Some(b"Bearer"), "without a token behind Bearer"),
        (Some(b"bearer  "), "without a token behind Bearer"),
        (Some(b"Basic aHVudGVyMg=="), "without the word Bearer"),
        (Some(b"clawjob_1_hunter2"), "without the word Bearer"),
        (Some(b"Bearer hunter2"), "not of the form of a token"),
        (Some(b"Bearer clawjob_hunter2"), "not of the form of a token"),
        (Some(&[b"Bearer ".as_slice(), &b"hunter2".repeat(90)].concat()), "longer than any token"),
        (Some("Bearer hunter2\u{e9}".as_bytes()), "not plain text"),
    ];
    all.map(|(value, fault)| (value.map(<[u8]>::to_vec), fault)).into()
}

/// Over gRPC and as JSON alike; and since it may be a secret, it is not repeated.
#[tokio::test]
async fn a_header_without_a_token_is_named_with_its_fault_and_the_remedy() {
    let server = Server::start().await;
    for (value, fault) in tokenless() {
        let mut request = Request::new(WhoAmIRequest {});
        let url = format!("{}/clawjob.v1.{WHO}", server.url);
        let mut post = server.http.post(url).header("content-type", "application/json");
        if let Some(value) = value {
            let metadata = MetadataValue::try_from(value.as_slice()).expect("a header's value");
            request.metadata_mut().insert("authorization", metadata);
            post = post.header("authorization", value);
        }
        let mut client = IdentityServiceClient::new(server.channel.clone());
        let refused = client.who_am_i(request).await.expect_err("refused");
        assert_eq!(
            (refused.code(), reason(&refused).as_str()),
            (Code::Unauthenticated, "TOKEN_INVALID")
        );
        let told = refused.message();
        assert!(told.starts_with(&format!("authorization header: {fault}")), "{told}");
        assert!(told.contains("clawjob_<id>_<secret>") && !told.contains("hunter2"), "{told}");

        let answer = post.body("{}").send().await.expect("answers");
        assert_eq!(answer.status(), 401, "{fault}");
        let body: Value = answer.json().await.expect("JSON");
        assert_eq!(body["message"].as_str(), Some(told), "both forms say the same");
    }
}

#[tokio::test]
async fn the_secret_is_shown_once_and_never_stored() {
    let server = Server::start().await;
    let token = json!({ "displayName": "ci", "grants": grant("a", "ROLE_EDITOR") });
    let request = json!({ "token": token, "requestId": "r1" });
    let made = server.call(&server.admin, "IdentityService/CreateToken", request.clone()).await;
    let made = made.expect("made");
    let secret = made["secret"].as_str().expect("a secret").to_owned();
    let prefix = made["token"]["prefix"].as_str().expect("a prefix");
    assert!(secret.starts_with(prefix), "{prefix}");
    assert_eq!(code(&server.call(&secret, WHO, json!({})).await), Code::Ok);

    let listed = server.call(&server.admin, "IdentityService/ListTokens", json!({})).await;
    let listed = listed.expect("listed").to_string();
    let hidden = secret.rsplit('_').next().expect("a secret part");
    assert!(listed.contains("\"ci\"") && !listed.contains(hidden), "{listed}");

    let again = server.call(&server.admin, "IdentityService/CreateToken", request).await;
    let again = again.expect_err("the secret can't be shown again");
    assert_eq!(
        (again.code(), reason(&again).as_str()),
        (Code::FailedPrecondition, "SECRET_SHOWN_ONCE")
    );
}

#[tokio::test]
async fn all_faults_of_a_token_are_told_at_once() {
    use tonic_types::StatusExt as _;
    let server = Server::start().await;
    let request = json!({ "token": {
        "displayName": "x".repeat(500),
        "grants": [
            { "app": "NO", "role": "ROLE_VIEWER" },
            { "app": "a" },
            { "app": "*", "role": "ROLE_EXECUTOR" },
        ],
        "handlerPatterns": ["", "ok"],
        "expireTime": "2001-01-01T00:00:00Z",
    } });
    let refused = server.call(&server.admin, "IdentityService/CreateToken", request).await;
    let refused = refused.expect_err("refused");
    assert_eq!(refused.code(), Code::InvalidArgument);
    let details = refused.get_error_details();
    let fields: Vec<_> = details
        .bad_request()
        .expect("violations")
        .field_violations
        .iter()
        .map(|violation| violation.field.as_str())
        .collect();
    for field in [
        "token.display_name",
        "token.grants[0].app",
        "token.grants[1].role",
        "token.grants[2].app",
        "token.grants",
        "token.handler_patterns[0]",
        "token.expire_time",
    ] {
        assert!(fields.contains(&field), "{field} in {fields:?}");
    }
    assert!(details.request_info().is_some_and(|info| !info.request_id.is_empty()));
}

#[tokio::test]
async fn a_revoked_token_ends_at_once_here_and_by_a_hint_elsewhere() {
    let server = Server::start().await;
    let token = server.token(&[("a", Role::Viewer)]).await;
    assert_eq!(code(&server.call(&token, WHO, json!({})).await), Code::Ok);
    let id = token.split('_').nth(1).expect("an id");
    let name = format!("tokens/{id}");
    let revoke = server.call(&server.admin, "IdentityService/RevokeToken", json!({ "name": name }));
    let revoked = revoke.await.expect("revoked");
    assert!(revoked["revokeTime"].is_string(), "{revoked}");
    let refused = server.call(&token, WHO, json!({})).await.expect_err("refused");
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::Unauthenticated, "TOKEN_REVOKED")
    );

    // Another node learns of it by the store's hint.
    let token = server.token(&[("a", Role::Viewer)]).await;
    assert_eq!(code(&server.call(&token, WHO, json!({})).await), Code::Ok);
    let id = token.split('_').nth(1).expect("an id");
    server.store.revoke_token(id, server.clock.now()).await.expect("revoked");
    let refused = tokio::time::timeout(SOON, async {
        while code(&server.call(&token, WHO, json!({})).await) == Code::Ok {}
    });
    refused.await.expect("the hint arrives");
}

#[tokio::test]
async fn a_token_expires_by_the_clock_though_it_is_remembered() {
    let server = Server::start().await;
    let token = server
        .token_with(&[("a", Role::Viewer)], |token| {
            token.expires_at = Some(token.created_at + Duration::from_secs(10));
        })
        .await;
    let who = server.call(&token, WHO, json!({})).await.expect("it works");
    assert_eq!(who["expireTime"], "2026-01-01T00:00:10Z");
    server.clock.advance(Duration::from_secs(10));
    let refused = server.call(&token, WHO, json!({})).await.expect_err("refused");
    assert_eq!(reason(&refused), "TOKEN_EXPIRED");
}

#[tokio::test]
async fn an_app_admin_sees_and_revokes_the_tokens_of_its_apps_only() {
    let server = Server::start().await;
    let admin_of_a = server.token(&[("a", Role::Admin)]).await;
    for grants in [[("a", Role::Viewer)], [("b", Role::Viewer)]] {
        server.token(&grants).await;
    }
    let both = server.token(&[("a", Role::Viewer), ("b", Role::Viewer)]).await;
    let listed = server.call(&admin_of_a, "IdentityService/ListTokens", json!({})).await;
    let listed = listed.expect("listed");
    assert_eq!(listed["tokens"].as_array().expect("tokens").len(), 2, "{listed}");

    let id = both.split('_').nth(1).expect("an id");
    let name = json!({ "name": format!("tokens/{id}") });
    let refused = server.call(&admin_of_a, "IdentityService/RevokeToken", name).await;
    assert_eq!(code(&refused), Code::NotFound);
    let wide = json!({ "token": { "grants": grant("*", "ROLE_VIEWER") } });
    let refused = server.call(&admin_of_a, "IdentityService/CreateToken", wide).await;
    assert_eq!(code(&refused), Code::PermissionDenied);
}

#[tokio::test]
async fn tokens_come_in_pages_each_once() {
    let server = Server::start().await;
    for _ in 0..7 {
        server.token(&[("a", Role::Viewer)]).await;
    }
    let (mut names, mut page_token, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let request = json!({ "pageSize": 3, "pageToken": page_token });
        let page = server.call(&server.admin, "IdentityService/ListTokens", request).await;
        let page = page.expect("a page");
        let tokens = page["tokens"].as_array().cloned().unwrap_or_default();
        assert!(tokens.len() <= 3);
        names.extend(tokens.iter().map(|token| token["name"].to_string()));
        pages += 1;
        match page["nextPageToken"].as_str() {
            Some(next) => page_token = next.to_owned(),
            None => break,
        }
    }
    names.sort();
    names.dedup();
    assert_eq!((names.len(), pages), (8, 3), "seven and the admin's");
}

#[tokio::test]
async fn the_use_of_a_token_is_written_down_in_batches() {
    let server = Server::start().await;
    let token = server.token(&[("a", Role::Viewer)]).await;
    let id = token.split('_').nth(1).expect("an id").to_owned();
    assert_eq!(code(&server.call(&token, WHO, json!({})).await), Code::Ok);
    let unused = server.store.find_token(&id).await.expect("found").last_used_at;
    assert_eq!(unused, None, "not at each call");
    server.clock.advance(TOKEN_TOUCH_INTERVAL);
    let written = tokio::time::timeout(SOON, async {
        while server.store.find_token(&id).await.expect("found").last_used_at.is_none() {
            tokio::task::yield_now().await;
        }
    });
    written.await.expect("it is written");
}
