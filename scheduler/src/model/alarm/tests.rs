use super::*;

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + seconds, 0).expect("in range")
}

fn ended(state: RunState) -> EndedRun {
    let failure = Failure {
        code: "BOOM".to_owned(),
        message: "x".repeat(3 * FAILURE_SHOWN_MAX),
        ..Failure::default()
    };
    EndedRun {
        run: RunId::by_hand(at(0), 7),
        app: AppId(1),
        app_name: "shop".into(),
        job: JobId(2),
        job_name: "nightly".into(),
        spec: Arc::new(JobSpec {
            handler: "import".to_owned(),
            owner: "team@example.com".to_owned(),
            labels: [("team".to_owned(), "data".to_owned())].into(),
            ..JobSpec::default()
        }),
        state,
        trigger: TriggerKind::Schedule,
        attempt: 3,
        fire_at: at(0),
        ended_at: at(9),
        executor: Some("host-1".into()),
        failure: (state != RunState::Succeeded).then_some(failure),
        message: String::new(),
        is_shard: false,
    }
}

fn rule(id: i64, condition: AlarmCondition) -> AlarmRule {
    let mail = Channel::Mail(Mail { to: vec!["ops@example.com".to_owned()] });
    AlarmRule {
        id: AlarmRuleId(id),
        app: AppId(1),
        app_name: "shop".to_owned(),
        name: format!("r{id}"),
        spec: AlarmRuleSpec { condition, channels: vec![mail], ..AlarmRuleSpec::default() },
        version: 1,
    }
}

fn raised(ended: &EndedRun, rules: &[AlarmRule]) -> Vec<NewAlarm> {
    raise(ended, rules, None, |_| panic!("no rule has a threshold"))
}

fn with(tests: Vec<JobTest>) -> AlarmRule {
    let mut rule = rule(1, AlarmCondition::RunFailed);
    rule.spec.tests = tests;
    rule
}

#[test]
fn each_end_meets_its_condition_and_no_other() {
    use AlarmCondition as C;
    let rules = [rule(1, C::RunFailed), rule(2, C::RunLost), rule(3, C::RunSucceeded)];
    for (state, id) in [
        (RunState::Failed, Some(1)),
        (RunState::TimedOut, Some(1)),
        (RunState::Lost, Some(2)),
        (RunState::Succeeded, Some(3)),
        (RunState::Canceled, None),
        (RunState::Skipped, None),
    ] {
        let ids: Vec<_> =
            raised(&ended(state), &rules).iter().filter_map(|alarm| alarm.rule).collect();
        assert_eq!(ids, id.map(AlarmRuleId).into_iter().collect::<Vec<_>>(), "{state:?}");
    }
}

#[test]
fn a_rule_of_another_app_a_disabled_one_and_shards_raise_nothing() {
    let run = ended(RunState::Failed);
    let mut foreign = rule(1, AlarmCondition::RunFailed);
    foreign.app = AppId(9);
    let mut disabled = rule(2, AlarmCondition::RunFailed);
    disabled.spec.disabled = true;
    assert_eq!(raised(&run, &[foreign, disabled]), []);
    let shard = EndedRun { is_shard: true, ..run };
    assert_eq!(raised(&shard, &[rule(3, AlarmCondition::RunFailed)]), []);
}

#[test]
fn a_filter_looks_at_name_handler_owner_and_labels() {
    let run = ended(RunState::Failed);
    let is = |field, value: &str, negated| JobTest::OneOf {
        field,
        values: vec!["other".to_owned(), value.to_owned()],
        negated,
    };
    let has = |text: &str, negated| JobTest::Contains {
        field: JobField::Owner,
        text: text.to_owned(),
        negated,
    };
    let label = |value: Option<&str>, negated| JobTest::Label {
        key: "team".to_owned(),
        value: value.map(str::to_owned),
        negated,
    };
    for test in [
        is(JobField::Name, "nightly", false),
        is(JobField::Handler, "import", false),
        is(JobField::Handler, "export", true),
        has("TEAM@", false),
        has("nobody", true),
        label(None, false),
        label(Some("data"), false),
        label(Some("web"), true),
    ] {
        assert_eq!(raised(&run, &[with(vec![test.clone()])]).len(), 1, "{test:?}");
    }
    for test in [
        is(JobField::Name, "nightl", false),
        is(JobField::DisplayName, "nightly", false),
        has("nobody", false),
        label(None, true),
        label(Some("web"), false),
    ] {
        assert_eq!(raised(&run, &[with(vec![test.clone()])]), [], "{test:?}");
    }
    let both = with(vec![label(None, false), has("nobody", false)]);
    assert_eq!(raised(&run, &[both]), [], "all tests must hold");
}

#[test]
fn a_threshold_waits_for_so_many_ends_in_a_row() {
    use RunState::{Failed, Lost, Succeeded, TimedOut};
    let mut three = rule(1, AlarmCondition::RunFailed);
    three.spec.threshold = 3;
    let run = ended(Failed);
    let asked = streaks(&run, std::slice::from_ref(&three));
    let [asked] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((asked.until, asked.take), (at(9), 3 + STREAK_MARGIN));
    for (row, fires) in [
        (vec![Failed, Failed], false),
        (vec![Failed, TimedOut, Failed], true),
        (vec![Failed, Failed, Succeeded, Failed], false),
        (vec![Failed, Lost, Failed, Failed], false),
        (vec![Failed, Failed, Failed, Failed], true),
    ] {
        let alarms = raise(&run, std::slice::from_ref(&three), None, |_| row.clone());
        assert_eq!(alarms.len(), usize::from(fires), "{row:?}");
    }
}

#[test]
fn the_default_speaks_for_jobs_that_no_rule_covers() {
    let default = DefaultAlarm {
        on_failure: true,
        on_success: false,
        channel: Channel::Webhook(Webhook {
            url: "https://hooks.example.com/x".to_owned(),
            ..Webhook::default()
        }),
    };
    let alarms = |ended: &EndedRun, rules: &[AlarmRule]| {
        raise(ended, rules, Some(&default), |_| vec![RunState::Failed])
    };
    let failed = ended(RunState::Failed);
    let [alarm] = &alarms(&failed, &[])[..] else { panic!("no alarm") };
    assert_eq!((alarm.rule, alarm.rule_name.as_str()), (None, ""));
    assert_eq!(alarm.targets, ["https://hooks.example.com"]);
    assert_eq!(alarms(&ended(RunState::Succeeded), &[]), []);
    assert_eq!(alarms(&ended(RunState::Lost), &[]).len(), 1);

    let mut waits = rule(1, AlarmCondition::RunFailed);
    waits.spec.threshold = 2;
    assert_eq!(alarms(&failed, &[waits]), [], "a rule that still counts speaks for the job");
    let mut disabled = rule(1, AlarmCondition::RunFailed);
    disabled.spec.disabled = true;
    assert_eq!(alarms(&failed, &[disabled]).len(), 1, "a disabled one does not");
}

#[test]
fn an_alarm_has_one_id_however_often_it_is_raised_and_says_what_happened() {
    let run = ended(RunState::Failed);
    let rules = [rule(1, AlarmCondition::RunFailed), rule(2, AlarmCondition::RunFailed)];
    let alarms = raised(&run, &rules);
    assert_eq!(alarms, raised(&run, &rules));
    assert_ne!(alarms[0].id, alarms[1].id);
    assert_eq!(alarms[0].id.to_string().parse(), Ok(alarms[0].id));
    let facts = &alarms[0].facts;
    assert_eq!(facts.subject(), "FAILED: shop/jobs/nightly");
    let message = facts.message();
    assert!(message.contains("after 3 attempts") && message.contains("BOOM: xxx"), "{message}");
    assert_eq!(facts.failure_message.len(), FAILURE_SHOWN_MAX);
    assert_eq!(facts.owner, "team@example.com");
}
