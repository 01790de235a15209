//! Login, WhoAmI, Logout; the first password; how long a sign-in lasts.

use std::time::Duration;

use clawjob_scheduler::model::principal::Role;
use serde_json::json;
use tonic::Code;

use crate::{
    browser::{Browser, HOME, OTHER, PASSWORD, make_user, password, person, server},
    harness::code,
};

#[tokio::test]
async fn the_first_admin_token_makes_a_user_who_signs_in_and_must_change_the_password() {
    let server = server().await;
    make_user(&server, "ann", json!([{ "app": "*", "role": "ROLE_ADMIN" }])).await;
    let mut ann = Browser::at(HOME);
    let answer = ann.sign_in(&server, password("ann", PASSWORD)).await.ok();
    assert_eq!((answer["passwordExpired"].as_bool(), &answer["token"]), (Some(true), &json!(null)));
    let me = ann.whoami(&server).await.ok();
    assert_eq!(
        (me["principal"].as_str(), me["passwordExpired"].as_bool()),
        (Some("users/ann"), Some(true))
    );
    for path in ["ClusterService/ListApps", "IdentityService/ListUsers", "JobService/PauseJob"] {
        let refused = ann.post(&server, path, json!({})).await;
        assert_eq!((refused.status, refused.reason()), (403, "PASSWORD_EXPIRED"), "{path}");
    }
    make_user(&server, "bob", json!([])).await;
    let bob = json!({ "user": { "name": "users/bob" }, "password": OTHER });
    let refused = ann.post(&server, "IdentityService/UpdateUser", bob).await;
    assert_eq!((refused.status, refused.reason()), (403, "PASSWORD_EXPIRED"), "not of others");

    let change = |current: &str, new: &str| json!({ "user": { "name": "users/ann" }, "password": new, "currentPassword": current });
    for (current, new, field) in [
        ("wrong", OTHER, "current_password"),
        (PASSWORD, PASSWORD, "password"),
        (PASSWORD, "short", "password"),
    ] {
        let refused = ann.post(&server, "IdentityService/UpdateUser", change(current, new)).await;
        assert_eq!(refused.status, 400, "{:?}", refused.body);
        let message = refused.body["message"].as_str().expect("a message");
        assert!(message.starts_with(&format!("{field}:")), "{message}");
        assert!(!message.contains(current) && !message.contains(new), "{message}");
    }
    let user = ann.post(&server, "IdentityService/UpdateUser", change(PASSWORD, OTHER)).await.ok();
    assert_eq!(user["passwordExpired"], json!(null));
    ann.post(&server, "ClusterService/ListApps", json!({})).await.ok();
    assert_eq!(ann.whoami(&server).await.ok()["grants"][0]["role"], "ROLE_ADMIN");
    assert_eq!(Browser::at(HOME).sign_in(&server, password("ann", PASSWORD)).await.status, 401);
    Browser::at(HOME).sign_in(&server, password("ann", OTHER)).await.ok();
}

#[tokio::test]
async fn a_bearer_of_login_works_over_grpc_as_well_until_logout() {
    let server = server().await;
    person(&server, "ann", json!([{ "app": "a", "role": "ROLE_VIEWER" }])).await;
    let answer = server.call("", "IdentityService/Login", password("ann", OTHER)).await;
    let answer = answer.expect("signed in");
    let token = answer["token"].as_str().expect("a token").to_owned();
    assert_eq!(answer["csrfToken"], json!(null));
    let me = server.call(&token, "IdentityService/WhoAmI", json!({})).await.expect("known");
    assert_eq!((me["principal"].as_str(), &me["csrfToken"]), (Some("users/ann"), &json!(null)));
    assert_eq!(me["expireTime"], answer["expireTime"]);
    server.call(&token, "IdentityService/Logout", json!({})).await.expect("signed out");
    let gone = server.call(&token, "IdentityService/WhoAmI", json!({})).await;
    assert_eq!(code(&gone), Code::Unauthenticated);
    assert_eq!(crate::harness::reason(&gone.expect_err("ended")), "SIGN_IN_ENDED");
}

#[tokio::test]
async fn a_token_signs_in_a_browser_and_stays_when_it_signs_out() {
    let server = server().await;
    let token = server.token(&[("a", Role::Viewer)]).await;
    let mut browser = Browser::at(HOME);
    browser.sign_in(&server, json!({ "apiToken": token })).await.ok();
    assert!(
        !browser.cookie.contains(token.split('_').nth(2).expect("a secret")),
        "the cookie has it"
    );
    let me = browser.whoami(&server).await.ok();
    assert!(me["principal"].as_str().expect("a name").starts_with("tokens/"), "{me}");
    browser.post(&server, "IdentityService/Logout", json!({})).await.ok();
    assert_eq!(browser.whoami(&server).await.status, 401);
    Browser::bearing(&token).whoami(&server).await.ok();
    Browser::bearing(&token).post(&server, "IdentityService/Logout", json!({})).await.ok();
    Browser::bearing(&token).whoami(&server).await.ok();
}

#[tokio::test]
async fn a_sign_in_by_token_ends_with_its_token() {
    let server = server().await;
    let token = server.token(&[("a", Role::Viewer)]).await;
    let mut browser = Browser::at(HOME);
    browser.sign_in(&server, json!({ "apiToken": token })).await.ok();
    let name = format!("tokens/{}", token.split('_').nth(1).expect("an id"));
    let admin = Browser::bearing(&server.admin);
    admin.post(&server, "IdentityService/RevokeToken", json!({ "name": name })).await.ok();
    server.clock.advance(clawjob_scheduler::api::auth::TOKEN_CACHE_AGE_MAX);
    let ended = browser.whoami(&server).await;
    assert_eq!((ended.status, ended.reason()), (401, "TOKEN_REVOKED"));
}

#[tokio::test]
async fn a_sign_in_is_no_token_to_sign_in_with() {
    let server = server().await;
    person(&server, "ann", json!([])).await;
    let answer = server.call("", "IdentityService/Login", password("ann", OTHER)).await;
    let token = answer.expect("signed in")["token"].as_str().expect("a token").to_owned();
    let refused = Browser::at(HOME).sign_in(&server, json!({ "apiToken": token })).await;
    assert_eq!(refused.status, 401);
}

#[tokio::test]
async fn a_sign_in_that_is_not_used_ends_and_one_that_is_used_goes_on() {
    let server = server().await;
    let idle = person(&server, "ann", json!([])).await;
    let mut busy = Browser::at(HOME);
    busy.sign_in(&server, password("ann", OTHER)).await.ok();
    for _ in 0..3 {
        server.clock.advance(Duration::from_secs(25 * 60));
        busy.whoami(&server).await.ok();
    }
    let ended = idle.whoami(&server).await;
    assert_eq!((ended.status, ended.reason()), (401, "SIGN_IN_ENDED"));
    busy.whoami(&server).await.ok();
}

#[tokio::test]
async fn a_sign_in_ends_after_its_longest_time_however_much_it_is_used() {
    let server = server().await;
    let ann = person(&server, "ann", json!([])).await;
    for _ in 0..12 {
        server.clock.advance(Duration::from_secs(3600 - 1));
        ann.whoami(&server).await.ok();
    }
    server.clock.advance(Duration::from_secs(3600));
    assert_eq!(ann.whoami(&server).await.status, 401);
}

#[tokio::test]
async fn signing_out_everywhere_ends_all_sign_ins_of_the_user_alone() {
    let server = server().await;
    let ann = person(&server, "ann", json!([])).await;
    let bob = person(&server, "bob", json!([])).await;
    let mut elsewhere = Browser::at("203.0.113.9");
    elsewhere.sign_in(&server, password("ann", OTHER)).await.ok();
    ann.post(&server, "IdentityService/Logout", json!({ "everywhere": true })).await.ok();
    assert_eq!(ann.whoami(&server).await.status, 401);
    assert_eq!(elsewhere.whoami(&server).await.status, 401);
    bob.whoami(&server).await.ok();
}

#[tokio::test]
async fn whatever_is_wrong_with_user_or_password_the_answer_is_the_same() {
    let server = server().await;
    person(&server, "ann", json!([])).await;
    person(&server, "off", json!([])).await;
    let off = json!({ "user": { "name": "users/off", "disabled": true } });
    Browser::bearing(&server.admin).post(&server, "IdentityService/UpdateUser", off).await.ok();
    // Longer than either may be, and within what is read of a stranger.
    let long = "x".repeat(3000);
    let mut seen = Vec::new();
    for (user, word) in [
        ("ann", "wrong"),
        ("nobody", OTHER),
        ("off", OTHER),
        ("off", "wrong"),
        ("no such id!\u{0}", OTHER),
        (&*long, OTHER),
        ("ann", &*long),
    ] {
        let answer = Browser::at(HOME).sign_in(&server, password(user, word)).await;
        assert_eq!(answer.cookie, None);
        let mut body = answer.body;
        body["details"] = json!(null);
        seen.push((answer.status, body));
    }
    assert_eq!(seen[0].0, 401);
    assert!(seen.iter().all(|answer| *answer == seen[0]), "{seen:?}");
}

#[tokio::test]
async fn a_login_needs_one_credential() {
    let server = server().await;
    for request in [
        json!({}),
        json!({ "userId": "ann" }),
        json!({ "password": "x" }),
        json!({ "userId": "ann", "password": "x", "apiToken": "y" }),
    ] {
        let answer = Browser::at(HOME).sign_in(&server, request).await;
        assert_eq!((answer.status, answer.cookie), (400, None));
    }
}

#[tokio::test]
async fn everybody_learns_how_to_sign_in_and_where() {
    let server = server().await;
    let info =
        Browser::at(HOME).post(&server, "ClusterService/GetServerInfo", json!({})).await.ok();
    assert_eq!(info["signInMethods"], json!(["password", "token"]));
    assert!(info["version"].is_string());
}
