use proptest::prelude::*;

use super::*;

fn runs(text: &str) -> Result<Filter, String> {
    read(text, &RUN_FIELDS)
}

fn conditions(text: &str) -> Vec<Condition> {
    runs(text).unwrap_or_else(|why| panic!("{text}: {why}")).conditions
}

fn one_of(field: &'static str, values: &[&str], negated: bool) -> Condition {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    Condition::OneOf { field, values, negated }
}

fn label(key: &str, value: Option<&str>, negated: bool) -> Condition {
    Condition::Label { key: key.to_owned(), value: value.map(str::to_owned), negated }
}

#[test]
fn terms_side_by_side_and_joined_by_and_must_all_hold() {
    let wanted = vec![one_of("state", &["RUNNING"], false), label("team", Some("a b"), false)];
    for text in [
        r#"state = RUNNING AND labels.team = "a b""#,
        r#"state=RUNNING labels.team="a b""#,
        r#"  (state:RUN_STATE_RUNNING) AND (labels."team" : "a b") "#,
    ] {
        assert_eq!(conditions(text), wanted, "{text}");
    }
    assert!(conditions("").is_empty() && conditions("  ").is_empty());
}

#[test]
fn or_binds_tighter_than_and_and_joins_values_of_one_field() {
    assert_eq!(
        conditions("trigger = API AND state = LOST OR state = FAILED"),
        [one_of("trigger", &["API"], false), one_of("state", &["LOST", "FAILED"], false)]
    );
    assert_eq!(
        conditions("(state = LOST OR (state = FAILED OR state = TIMED_OUT))"),
        [one_of("state", &["LOST", "FAILED", "TIMED_OUT"], false)]
    );
}

#[test]
fn not_reaches_every_comparison_below_it() {
    assert_eq!(
        conditions("NOT (state = LOST OR trigger = API)"),
        [one_of("state", &["LOST"], true), one_of("trigger", &["API"], true)]
    );
    assert_eq!(
        conditions("NOT (state != LOST AND NOT state = FAILED)"),
        [one_of("state", &["LOST", "FAILED"], false)]
    );
    assert_eq!(conditions("-labels:team"), [label("team", None, true)]);
    assert_eq!(conditions("labels.team:*"), [label("team", None, false)]);
}

#[test]
fn instants_become_bounds_of_whole_microseconds() {
    let at = |text: &str| Some(text.parse::<DateTime<Utc>>().expect("an instant"));
    let time = |from, until| vec![Condition::Time { field: "create_time", from, until }];
    let (noon, after) = (at("2026-01-31T12:00:00Z"), at("2026-01-31T12:00:00.000001Z"));
    assert_eq!(conditions("create_time >= 2026-01-31T12:00:00Z"), time(noon, None));
    assert_eq!(conditions("create_time > \"2026-01-31T13:00:00+01:00\""), time(after, None));
    assert_eq!(conditions("create_time < 2026-01-31T12:00:00Z"), time(None, noon));
    assert_eq!(conditions("NOT create_time > 2026-01-31T12:00:00Z"), time(None, after));
    assert_eq!(conditions("create_time = 2026-01-31T12:00:00Z"), time(noon, after));
}

#[test]
fn r63_a_job_is_named_in_full_and_never_by_a_prefix() {
    let filter = runs("job = apps/a/jobs/reindex OR job = apps/a/jobs/other").expect("parses");
    assert!(filter.conditions.is_empty());
    let jobs = filter.jobs.expect("names jobs");
    assert_eq!(jobs.len(), 2);
    assert!(!jobs.iter().any(|name| name.job == "reindex_all"));
    let none = runs("job = apps/a/jobs/x AND job = apps/a/jobs/y").expect("parses").jobs;
    assert_eq!(none, Some(BTreeSet::new()));
    assert!(runs("job = reindex").is_err());
}

#[test]
fn the_states_that_are_asked_for_are_known() {
    let states = |text: &str| {
        let filter = runs(text).expect("parses");
        filter.states().map(|set| set.into_iter().map(str::to_owned).collect::<Vec<_>>())
    };
    assert_eq!(states("trigger = API"), None);
    assert_eq!(states("state != FAILED"), None);
    assert_eq!(states("state = SCHEDULED"), Some(vec!["SCHEDULED".to_owned()]));
    assert_eq!(states("state = LOST AND state = FAILED"), Some(vec![]));
}

#[test]
fn what_cannot_be_answered_is_refused_with_the_reason() {
    for (text, part) in [
        ("state = RUNNING OR trigger = API", "OR works only"),
        ("state = RUNNING OR (state = LOST AND trigger = API)", "OR works only"),
        ("state = RUNNING OR state != LOST", "OR works only"),
        ("labels.a = b OR labels.a = c", "OR works only"),
        ("NOT (state = LOST AND trigger = API)", "OR works only"),
        ("color = red", "is no field"),
        ("state = GREEN", "is no value of state"),
        ("state < RUNNING", "= and != only"),
        ("create_time = tomorrow", "is no instant"),
        ("create_time != 2026-01-31T12:00:00Z", "="),
        ("NOT job = apps/a/jobs/b", "can't be negated"),
        ("state", "or :) at character 6"),
        ("state =", "lacks a value"),
        ("= RUNNING", "lacks a field"),
        ("(state = LOST", "lacks a )"),
        ("state = LOST)", "stray )"),
        ("state = LOST AND", "lacks a field"),
        ("labels.a = \"b", "unclosed quote"),
    ] {
        let why = runs(text).expect_err(text);
        assert!(why.contains(part), "{text}: {why}");
    }
    assert!(runs(&"(".repeat(3000)).is_err());
    assert!(runs(&"NOT ".repeat(1000)).is_err());
    assert!(runs(&"-".repeat(4000)).is_err());
    assert!(runs(&"state=LOST ".repeat(65)).is_err());
    assert!(runs(&"x".repeat(FILTER_MAX + 1)).is_err());
}

proptest! {
    #[test]
    fn any_text_gives_an_answer(text in ".{0,200}") {
        let _ = runs(&text);
        let _ = read(&text, &JOB_FIELDS);
    }

    #[test]
    fn any_row_of_tokens_gives_an_answer(tokens in prop::collection::vec(
        prop::sample::select(vec![
            "(", ")", "AND", "OR", "NOT", "-", "state", "=", "!=", ":", "<", "\"", "LOST",
            "labels.a", "job", "create_time", "2026-01-01T00:00:00Z", " ", "ü",
        ]),
        0..40,
    )) {
        let _ = runs(&tokens.join(" "));
        let _ = runs(&tokens.concat());
    }
}
