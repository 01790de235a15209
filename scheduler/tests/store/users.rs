//! Users and their sign-ins.

use clawjob_scheduler::{
    model::principal::{Grant, Holder, Role, SignIn, Token, User},
    store::{
        StoreError,
        identity::{EndSignIns, SIGN_INS_MAX},
        ops::RequestKey,
    },
};

use super::fixture::{Fixture, at};

fn user(id: &str) -> User {
    User {
        id: id.to_owned(),
        email: format!("{id}@example.org"),
        display_name: "Ann".to_owned(),
        grants: vec![Grant { app: "shop".to_owned(), role: Role::Editor }],
        disabled: false,
        password_hash: "$argon2id$x".to_owned(),
        password_expired: true,
        version: 1,
        created_at: at(1),
        last_login_at: None,
    }
}

fn sign_in(id: &str, holder: Holder, seconds: i64) -> SignIn {
    SignIn {
        id: id.to_owned(),
        secret_hash: vec![7; 32],
        holder,
        created_at: at(seconds),
        last_used_at: at(seconds),
        expires_at: at(seconds + 1000),
    }
}

fn of(id: &str) -> Holder {
    Holder::User(id.to_owned())
}

fn token(id: &str, owner: &str) -> Token {
    Token {
        id: id.to_owned(),
        secret_hash: vec![1; 32],
        display_name: String::new(),
        grants: Vec::new(),
        executor_id_patterns: Vec::new(),
        handler_patterns: Vec::new(),
        owner: owner.to_owned(),
        created_at: at(1),
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
    }
}

async fn lasts(f: &Fixture, id: &str) -> bool {
    match f.store.find_sign_in(id).await {
        Ok(_) => true,
        Err(StoreError::NotFound(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

pub(crate) async fn a_user_is_found_as_it_was_stored(f: &Fixture) {
    f.store.create_user(&user("ann"), None).await.expect("stored");
    assert_eq!(f.store.find_user("ann").await.expect("found"), user("ann"));
    let taken = f.store.create_user(&user("ann"), None).await;
    assert!(matches!(taken, Err(StoreError::AlreadyExists(_))), "{taken:?}");
    let missing = f.store.find_user("bob").await;
    assert!(matches!(missing, Err(StoreError::NotFound(_))), "{missing:?}");
}

pub(crate) async fn a_repeated_request_makes_one_user(f: &Fixture) {
    let key = RequestKey { key: "tokens/x/CreateUser/1".to_owned(), body_hash: vec![1; 32] };
    f.store.create_user(&user("ann"), Some(&key)).await.expect("stored");
    let again = f.store.create_user(&user("ann"), Some(&key)).await.expect("the same answer");
    assert_eq!(again, user("ann"));
    let other = RequestKey { body_hash: vec![2; 32], ..key };
    let reused = f.store.create_user(&user("bob"), Some(&other)).await;
    assert!(matches!(reused, Err(StoreError::Conflict(_))), "{reused:?}");
}

pub(crate) async fn users_are_listed_by_id_page_by_page(f: &Fixture) {
    for id in ["u2", "u1", "u3"] {
        f.store.create_user(&user(id), None).await.expect("stored");
    }
    let ids = async |after: &str, limit| -> Vec<String> {
        let page = f.store.list_users(after, limit).await.expect("users");
        page.into_iter().map(|user| user.id).collect()
    };
    assert_eq!(ids("", 2).await, ["u1", "u2"]);
    assert_eq!(ids("u2", 2).await, ["u3"]);
}

pub(crate) async fn a_user_changes_at_the_version_that_was_seen(f: &Fixture) {
    f.store.create_user(&user("ann"), None).await.expect("stored");
    let wanted = User {
        email: String::new(),
        display_name: "Annika".to_owned(),
        grants: Vec::new(),
        disabled: true,
        password_hash: "$argon2id$y".to_owned(),
        password_expired: false,
        ..user("ann")
    };
    let changed = f.store.update_user(&wanted, &EndSignIns::None).await.expect("changed");
    assert_eq!(changed, User { version: 2, ..wanted.clone() });
    assert_eq!(f.store.find_user("ann").await.expect("found"), changed);
    let stale = f.store.update_user(&wanted, &EndSignIns::None).await;
    assert!(matches!(stale, Err(StoreError::Conflict(_))), "{stale:?}");
    let missing = f.store.update_user(&user("bob"), &EndSignIns::None).await;
    assert!(matches!(missing, Err(StoreError::NotFound(_))), "{missing:?}");
}

pub(crate) async fn a_change_ends_the_sign_ins_it_is_told_to_and_no_others(f: &Fixture) {
    for id in ["ann", "bob"] {
        f.store.create_user(&user(id), None).await.expect("stored");
    }
    for (id, holder) in [("s1", "ann"), ("s2", "ann"), ("s3", "bob")] {
        f.store.create_sign_in(&sign_in(id, of(holder), 5), None).await.expect("signed in");
    }
    let but = EndSignIns::AllBut("s1".to_owned());
    let ann = f.store.update_user(&user("ann"), &but).await.expect("changed");
    assert_eq!(
        [lasts(f, "s1").await, lasts(f, "s2").await, lasts(f, "s3").await],
        [true, false, true]
    );
    f.store.update_user(&ann, &EndSignIns::All).await.expect("changed");
    assert_eq!([lasts(f, "s1").await, lasts(f, "s3").await], [false, true]);
    let stale = f.store.update_user(&User { version: 9, ..user("bob") }, &EndSignIns::All).await;
    assert!(stale.is_err() && lasts(f, "s3").await, "a refused change ends nothing");
}

pub(crate) async fn a_deleted_user_leaves_no_sign_in_and_no_token_that_works(f: &Fixture) {
    for id in ["ann", "bob"] {
        f.store.create_user(&user(id), None).await.expect("stored");
        f.store.create_sign_in(&sign_in(&format!("s-{id}"), of(id), 5), None).await.expect("in");
        let token = token(&format!("t-{id}"), &format!("users/{id}"));
        f.store.create_token(&token, None).await.expect("stored");
    }
    f.store.delete_user("ann", at(9)).await.expect("deleted");
    assert!(!lasts(f, "s-ann").await && lasts(f, "s-bob").await);
    let revoked = async |id: &str| f.store.find_token(id).await.expect("found").revoked_at;
    assert_eq!((revoked("t-ann").await, revoked("t-bob").await), (Some(at(9)), None));
    let again = f.store.delete_user("ann", at(9)).await;
    assert!(matches!(again, Err(StoreError::NotFound(_))), "{again:?}");
}

pub(crate) async fn a_sign_in_is_found_as_it_was_stored_and_noted_with_its_user(f: &Fixture) {
    f.store.create_user(&user("ann"), None).await.expect("stored");
    f.store.create_token(&token("t1", "x"), None).await.expect("stored");
    let by_user = sign_in("s1", of("ann"), 5);
    let by_token = sign_in("s2", Holder::Token("t1".to_owned()), 6);
    for wanted in [&by_user, &by_token] {
        f.store.create_sign_in(wanted, None).await.expect("stored");
        assert_eq!(f.store.find_sign_in(&wanted.id).await.expect("found"), *wanted);
    }
    assert_eq!(f.store.find_user("ann").await.expect("found").last_login_at, Some(at(5)));
    let nobody = f.store.create_sign_in(&sign_in("s3", of("bob"), 5), None).await;
    assert!(matches!(nobody, Err(StoreError::NotFound(_))), "{nobody:?}");
}

pub(crate) async fn a_sign_in_takes_the_place_of_another_and_of_the_oldest(f: &Fixture) {
    f.store.create_user(&user("ann"), None).await.expect("stored");
    f.store.create_sign_in(&sign_in("s-old", of("ann"), 1), None).await.expect("stored");
    f.store.create_sign_in(&sign_in("s-new", of("ann"), 2), Some("s-old")).await.expect("stored");
    assert!(!lasts(f, "s-old").await && lasts(f, "s-new").await);
    for n in 0..i64::from(SIGN_INS_MAX) {
        let next = sign_in(&format!("s{n:03}"), of("ann"), 10 + n);
        f.store.create_sign_in(&next, None).await.expect("stored");
    }
    assert!(!lasts(f, "s-new").await, "the oldest makes room");
    assert!(lasts(f, "s000").await);
}

pub(crate) async fn sign_ins_end_one_by_one_or_all_of_a_holder(f: &Fixture) {
    f.store.create_user(&user("ann"), None).await.expect("stored");
    f.store.create_token(&token("t1", "x"), None).await.expect("stored");
    for (id, holder) in [
        ("s1", of("ann")),
        ("s2", of("ann")),
        ("s3", of("ann")),
        ("s4", Holder::Token("t1".to_owned())),
    ] {
        f.store.create_sign_in(&sign_in(id, holder, 5), None).await.expect("stored");
    }
    f.store.end_sign_in("s1").await.expect("ended");
    f.store.end_sign_in("s1").await.expect("again is no error");
    assert!(!lasts(f, "s1").await && lasts(f, "s2").await);
    f.store.end_sign_ins(&of("ann")).await.expect("ended");
    assert!(!lasts(f, "s2").await && !lasts(f, "s3").await && lasts(f, "s4").await);
}

pub(crate) async fn sign_ins_that_have_ended_by_themselves_are_removed(f: &Fixture) {
    f.store.create_user(&user("ann"), None).await.expect("stored");
    for (id, from) in [("s1", 0), ("s2", 500), ("s3", 900)] {
        f.store.create_sign_in(&sign_in(id, of("ann"), from), None).await.expect("stored");
    }
    for seconds in [1200, 1100] {
        let used = ["s2", "unknown"].map(|id| (id.to_owned(), at(seconds)));
        f.store.touch_sign_ins(&used).await.expect("noted");
    }
    let last_used = f.store.find_sign_in("s2").await.expect("found").last_used_at;
    assert_eq!(last_used, at(1200), "the latest use counts");
    assert_eq!(f.store.prune_sign_ins(at(600), at(1000)).await.expect("pruned"), 1, "expired");
    assert!(!lasts(f, "s1").await);
    assert_eq!(f.store.prune_sign_ins(at(1000), at(1300)).await.expect("pruned"), 1, "not used");
    assert!(lasts(f, "s2").await && !lasts(f, "s3").await);
}
