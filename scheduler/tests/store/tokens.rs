//! Tokens.

use clawjob_scheduler::{
    model::principal::{Grant, Role, Token},
    store::{StoreError, ops::RequestKey},
};

use super::fixture::{Fixture, at};

fn token(id: &str) -> Token {
    Token {
        id: id.to_owned(),
        secret_hash: vec![7; 32],
        display_name: "ci".to_owned(),
        grants: vec![Grant { app: "shop".to_owned(), role: Role::Executor }],
        executor_id_patterns: vec!["web-*".to_owned()],
        handler_patterns: Vec::new(),
        owner: "users/ann".to_owned(),
        created_at: at(1),
        expires_at: Some(at(1000)),
        revoked_at: None,
        last_used_at: None,
    }
}

pub(crate) async fn a_token_is_found_as_it_was_stored(f: &Fixture) {
    f.store.create_token(&token("t1"), None).await.expect("stored");
    assert_eq!(f.store.find_token("t1").await.expect("found"), token("t1"));
    let taken = f.store.create_token(&token("t1"), None).await;
    assert!(matches!(taken, Err(StoreError::AlreadyExists(_))), "{taken:?}");
    let missing = f.store.find_token("t2").await;
    assert!(matches!(missing, Err(StoreError::NotFound(_))), "{missing:?}");
}

pub(crate) async fn a_repeated_request_makes_no_second_token(f: &Fixture) {
    let key = RequestKey { key: "ann/CreateToken/1".to_owned(), body_hash: vec![1; 32] };
    f.store.create_token(&token("t1"), Some(&key)).await.expect("stored");
    let again = f.store.create_token(&token("t2"), Some(&key)).await;
    assert!(matches!(again, Err(StoreError::Conflict(_))), "{again:?}");
    assert_eq!(f.store.list_tokens("", 10).await.expect("tokens").len(), 1);
}

pub(crate) async fn tokens_are_listed_by_id_page_by_page(f: &Fixture) {
    for id in ["t2", "t1", "t3"] {
        f.store.create_token(&token(id), None).await.expect("stored");
    }
    let ids = async |after: &str, limit| -> Vec<String> {
        let page = f.store.list_tokens(after, limit).await.expect("tokens");
        page.into_iter().map(|token| token.id).collect()
    };
    assert_eq!(ids("", 2).await, ["t1", "t2"]);
    assert_eq!(ids("t2", 2).await, ["t3"]);
}

pub(crate) async fn the_first_revocation_counts(f: &Fixture) {
    f.store.create_token(&token("t1"), None).await.expect("stored");
    let revoked = f.store.revoke_token("t1", at(5)).await.expect("revoked");
    assert_eq!(revoked.revoked_at, Some(at(5)));
    let again = f.store.revoke_token("t1", at(9)).await.expect("no error");
    assert_eq!(again.revoked_at, Some(at(5)));
    assert_eq!(f.store.find_token("t1").await.expect("found"), revoked);
    let missing = f.store.revoke_token("t2", at(9)).await;
    assert!(matches!(missing, Err(StoreError::NotFound(_))), "{missing:?}");
}

pub(crate) async fn the_last_use_is_noted(f: &Fixture) {
    f.store.create_token(&token("t1"), None).await.expect("stored");
    let used = ["t1".to_owned(), "unknown".to_owned()];
    f.store.touch_tokens(&used, at(60)).await.expect("noted");
    assert_eq!(f.store.find_token("t1").await.expect("found").last_used_at, Some(at(60)));
}
