//! Whoever guesses passwords gets slower, and nobody else does.

use clawjob_scheduler::api::{
    ApiSettings,
    identity::attempts::{PAIR_TRIES_FREE, PAIR_WAIT_FIRST, PEER_TRIES_MAX, PEER_TRY_EVERY},
};
use serde_json::json;

use crate::browser::{Browser, HOME, OTHER, password, person, server};

#[tokio::test]
async fn guessing_one_user_s_password_locks_out_the_guesser_alone() {
    let server = server().await;
    let ann = person(&server, "ann", json!([])).await;
    person(&server, "bob", json!([])).await;
    let mut bad = Browser::at("198.51.100.66");
    for n in 0..PAIR_TRIES_FREE {
        let answer = bad.sign_in(&server, password("ann", &format!("guess number {n}"))).await;
        assert_eq!((answer.status, answer.reason()), (401, "SIGN_IN_FAILED"));
    }
    let locked = bad.sign_in(&server, password("ann", OTHER)).await;
    assert_eq!((locked.status, locked.reason()), (429, "SIGN_IN_RATE"), "even the right one");
    let details = locked.body["details"].to_string();
    assert!(details.contains("google.rpc.RetryInfo"), "{details}");

    ann.whoami(&server).await.ok();
    Browser::at(HOME).sign_in(&server, password("ann", OTHER)).await.ok();
    Browser::at("192.0.2.77").sign_in(&server, password("ann", OTHER)).await.ok();
    bad.sign_in(&server, password("bob", OTHER)).await.ok();

    server.clock.advance(PAIR_WAIT_FIRST);
    bad.sign_in(&server, password("ann", OTHER)).await.ok();
}

#[tokio::test]
async fn an_unknown_user_is_locked_like_a_known_one() {
    let server = server().await;
    person(&server, "ann", json!([])).await;
    let mut bad = Browser::at("198.51.100.66");
    let mut seen = Vec::new();
    for user in ["ann", "nobody"] {
        for _ in 0..PAIR_TRIES_FREE + 1 {
            let answer = bad.sign_in(&server, password(user, "a wrong guess")).await;
            seen.push((answer.status, answer.body["message"].clone()));
        }
    }
    let half = seen.len() / 2;
    assert_eq!(seen[..half], seen[half..]);
}

#[tokio::test]
async fn trying_many_users_uses_up_one_address_and_no_other() {
    let server = server().await;
    person(&server, "ann", json!([])).await;
    person(&server, "cat", json!([])).await;
    let office = "198.51.100.1";
    Browser::at(office).sign_in(&server, password("ann", OTHER)).await.ok();
    let mut refused = 0;
    for n in 0..PEER_TRIES_MAX + 5 {
        let user = format!("user{n}");
        let answer = Browser::at(office).sign_in(&server, password(&user, "one for all")).await;
        refused += u32::from(answer.status == 429);
    }
    assert_eq!(refused, 5);
    let late = Browser::at(office).sign_in(&server, password("cat", OTHER)).await;
    assert_eq!(late.status, 429, "the address has no try left");
    Browser::at(office).sign_in(&server, password("ann", OTHER)).await.ok();
    Browser::at(HOME).sign_in(&server, password("cat", OTHER)).await.ok();
    server.clock.advance(PEER_TRY_EVERY);
    Browser::at(office).sign_in(&server, password("cat", OTHER)).await.ok();
}

#[tokio::test]
async fn guessing_the_old_password_from_a_sign_in_left_open_is_slowed_down_too() {
    let server = server().await;
    let ann = person(&server, "ann", json!([])).await;
    let change = |n: u32| {
        json!({
            "user": { "name": "users/ann" }, "password": "ten patient herons",
            "currentPassword": format!("guess number {n}"),
        })
    };
    for n in 0..PAIR_TRIES_FREE {
        let answer = ann.post(&server, "IdentityService/UpdateUser", change(n)).await;
        assert_eq!(answer.reason(), "PASSWORD_WRONG");
    }
    let answer = ann.post(&server, "IdentityService/UpdateUser", change(99)).await;
    assert_eq!((answer.status, answer.reason()), (429, "SIGN_IN_RATE"));
}

#[tokio::test]
async fn what_a_client_writes_of_itself_does_not_count_unless_a_proxy_writes_it() {
    let settings = ApiSettings { behind_proxy: true, ..ApiSettings::default() };
    let server = crate::harness::Server::start_with(settings).await;
    let mut last = 0;
    for n in 0..PAIR_TRIES_FREE + 1 {
        let mut browser = Browser::at(&format!("203.0.113.{n}"));
        last = browser.sign_in(&server, password("ann", "a wrong guess")).await.status;
    }
    assert_eq!(last, 429);
}
