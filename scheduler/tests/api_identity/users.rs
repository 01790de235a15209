//! Users: made, changed, disabled, deleted; by whom.

use serde_json::{Value, json};

use crate::browser::{Browser, HOME, OTHER, PASSWORD, make_user, password, person, server};

fn viewer() -> Value {
    json!([{ "app": "a", "role": "ROLE_VIEWER" }])
}

#[tokio::test]
async fn a_user_is_made_shown_and_listed_without_the_password() {
    let server = server().await;
    let admin = Browser::bearing(&server.admin);
    let request = json!({
        "userId": "ann", "password": PASSWORD, "requestId": "r1",
        "user": { "email": "ann@example.org", "displayName": "Ann", "grants": viewer() },
    });
    let made = admin.post(&server, "IdentityService/CreateUser", request.clone()).await.ok();
    assert_eq!(
        (made["name"].as_str(), made["passwordExpired"].as_bool()),
        (Some("users/ann"), Some(true))
    );
    assert!(!made.to_string().contains(PASSWORD) && !made.to_string().contains("argon2"), "{made}");
    let again = admin.post(&server, "IdentityService/CreateUser", request).await.ok();
    assert_eq!(again, made, "a repeated request makes no second");
    let taken = json!({ "userId": "ann", "password": PASSWORD });
    let taken = admin.post(&server, "IdentityService/CreateUser", taken).await;
    assert_eq!((taken.status, taken.reason()), (409, "USER_EXISTS"));
    let name = json!({ "name": "users/ann" });
    assert_eq!(admin.post(&server, "IdentityService/GetUser", name).await.ok(), made);
    make_user(&server, "bob", json!([])).await;
    let page = json!({ "pageSize": 1 });
    let first = admin.post(&server, "IdentityService/ListUsers", page).await.ok();
    assert_eq!(first["users"], json!([made]));
    let page = json!({ "pageSize": 1, "pageToken": first["nextPageToken"] });
    let last = admin.post(&server, "IdentityService/ListUsers", page).await.ok();
    assert_eq!(
        (last["users"][0]["name"].as_str(), &last["nextPageToken"]),
        (Some("users/bob"), &json!(null))
    );
}

#[tokio::test]
async fn all_faults_of_a_new_user_are_told_at_once_and_quote_no_password() {
    let server = server().await;
    let request = json!({
        "userId": "No Id", "password": "hunter2",
        "user": { "email": "none", "grants": [{ "app": "a", "role": "ROLE_EXECUTOR" }] },
    });
    let admin = Browser::bearing(&server.admin);
    let refused = admin.post(&server, "IdentityService/CreateUser", request).await;
    let message = refused.body["message"].as_str().expect("a message");
    for field in ["user_id", "password", "user.email", "user.grants"] {
        assert!(message.contains(&format!("{field}:")), "{message}");
    }
    assert!(!refused.body.to_string().contains("hunter2"));
}

#[tokio::test]
async fn users_change_their_own_name_and_address_and_nothing_that_gives_rights() {
    let server = server().await;
    let ann = person(&server, "ann", viewer()).await;
    person(&server, "bob", viewer()).await;
    let update = |json: Value| ann.post(&server, "IdentityService/UpdateUser", json);
    let own = json!({ "user": { "name": "users/ann", "displayName": "A.", "email": "a@b.c" } });
    assert_eq!(update(own).await.ok()["displayName"], "A.");
    for change in
        [json!({ "grants": [{ "app": "*", "role": "ROLE_ADMIN" }] }), json!({ "disabled": true })]
    {
        let mut user = change;
        user["name"] = "users/ann".into();
        let refused = update(json!({ "user": user })).await;
        assert_eq!((refused.status, refused.reason()), (403, "ROLE_MISSING"));
    }
    let mask = json!({ "user": { "name": "users/ann" }, "updateMask": "grants" });
    assert_eq!(update(mask).await.status, 403, "not by clearing either");
    let bob = json!({ "user": { "name": "users/bob", "displayName": "B." } });
    assert_eq!(update(bob).await.status, 403);
    for (name, status) in [("users/ann", 200), ("users/bob", 403), ("users/nobody", 403)] {
        let got = ann.post(&server, "IdentityService/GetUser", json!({ "name": name })).await;
        assert_eq!(got.status, status, "{name}");
    }
    for path in ["ListUsers", "CreateUser", "DeleteUser"] {
        let path = format!("IdentityService/{path}");
        assert_eq!(ann.post(&server, &path, json!({})).await.status, 403, "{path}");
    }
}

#[tokio::test]
async fn new_grants_hold_at_once_and_a_stale_etag_changes_nothing() {
    let server = server().await;
    server.app("a").await;
    let ann = person(&server, "ann", json!([])).await;
    let admin = Browser::bearing(&server.admin);
    assert_eq!(ann.post(&server, "ClusterService/ListApps", json!({})).await.status, 403);
    let etag =
        ann.post(&server, "IdentityService/GetUser", json!({ "name": "users/ann" })).await.ok();
    let change =
        json!({ "user": { "name": "users/ann", "grants": viewer(), "etag": etag["etag"] } });
    admin.post(&server, "IdentityService/UpdateUser", change.clone()).await.ok();
    ann.post(&server, "ClusterService/ListApps", json!({})).await.ok();
    let stale = admin.post(&server, "IdentityService/UpdateUser", change).await;
    assert_eq!((stale.status, stale.reason()), (409, "ETAG_MISMATCH"));
}

#[tokio::test]
async fn a_disabled_user_is_out_at_once_and_can_come_back() {
    let server = server().await;
    let ann = person(&server, "ann", viewer()).await;
    let admin = Browser::bearing(&server.admin);
    let set = |disabled: bool| json!({ "user": { "name": "users/ann", "disabled": disabled }, "updateMask": "disabled" });
    admin.post(&server, "IdentityService/UpdateUser", set(true)).await.ok();
    assert_eq!(ann.whoami(&server).await.status, 401);
    assert_eq!(Browser::at(HOME).sign_in(&server, password("ann", OTHER)).await.status, 401);
    admin.post(&server, "IdentityService/UpdateUser", set(false)).await.ok();
    assert_eq!(ann.whoami(&server).await.status, 401, "the old sign-in stays ended");
    Browser::at(HOME).sign_in(&server, password("ann", OTHER)).await.ok();
}

#[tokio::test]
async fn a_new_password_ends_the_other_sign_ins() {
    let server = server().await;
    let ann = person(&server, "ann", viewer()).await;
    let mut elsewhere = Browser::at("203.0.113.9");
    elsewhere.sign_in(&server, password("ann", OTHER)).await.ok();
    let change = json!({
        "user": { "name": "users/ann" }, "password": "ten patient herons", "currentPassword": OTHER,
    });
    ann.post(&server, "IdentityService/UpdateUser", change).await.ok();
    ann.whoami(&server).await.ok();
    assert_eq!(elsewhere.whoami(&server).await.status, 401);
    let reset = json!({ "user": { "name": "users/ann" }, "password": PASSWORD });
    let admin = Browser::bearing(&server.admin);
    let user = admin.post(&server, "IdentityService/UpdateUser", reset).await.ok();
    assert_eq!(user["passwordExpired"], true, "set by somebody else");
    assert_eq!(ann.whoami(&server).await.status, 401);
}

#[tokio::test]
async fn a_deleted_user_is_gone_with_sign_ins_and_tokens() {
    let server = server().await;
    let ann = person(&server, "ann", json!([{ "app": "a", "role": "ROLE_ADMIN" }])).await;
    let token = json!({ "token": { "grants": viewer() } });
    let made = ann.post(&server, "IdentityService/CreateToken", token).await.ok();
    assert_eq!(made["token"]["owner"], "users/ann");
    let bearer = Browser::bearing(made["secret"].as_str().expect("a secret"));
    bearer.whoami(&server).await.ok();
    let admin = Browser::bearing(&server.admin);
    let name = json!({ "name": "users/ann" });
    admin.post(&server, "IdentityService/DeleteUser", name.clone()).await.ok();
    assert_eq!(ann.whoami(&server).await.status, 401);
    let revoked = bearer.whoami(&server).await;
    assert_eq!((revoked.status, revoked.reason()), (401, "TOKEN_REVOKED"));
    assert_eq!(admin.post(&server, "IdentityService/DeleteUser", name).await.status, 404);
    make_user(&server, "ann", json!([])).await;
    assert_eq!(ann.whoami(&server).await.status, 401, "another of that name is another");
}

#[tokio::test]
async fn what_is_stored_of_a_user_opens_nothing() {
    let server = server().await;
    let ann = person(&server, "ann", viewer()).await;
    let secret = ann.cookie.rsplit('_').next().expect("a secret").to_owned();
    server.store.close().await;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(server.dir.path()).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.to_string_lossy().contains("clawjob.db") {
            found.extend(std::fs::read(path).expect("readable"));
        }
    }
    let holds = |text: &str| found.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("$argon2id$") && holds("ann"));
    for text in [PASSWORD, OTHER, &secret] {
        assert!(!holds(text), "{text} is in the file");
    }
}
