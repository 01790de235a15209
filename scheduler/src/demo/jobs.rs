//! The demo's four jobs.

use bytes::Bytes;
use clawjob_proto::v1::{CreateJobRequest, Job, Payload, RetryPolicy, Schedule, schedule::Trigger};

pub(super) fn all(app: &str) -> Vec<CreateJobRequest> {
    let jobs = [
        (
            "hello",
            Job {
                description: "Greets every 5 seconds".to_owned(),
                schedules: vec![every(5)],
                params: Some(json(r#"{"name":"Jacky"}"#)),
                ..job("hello")
            },
        ),
        (
            "risky",
            Job {
                description: "Fails twice, succeeds on the third attempt".to_owned(),
                schedules: vec![every(30)],
                retry: Some(RetryPolicy {
                    max_attempts: 3,
                    initial_backoff: Some(seconds(1)),
                    multiplier: 2.0,
                    ..Default::default()
                }),
                ..job("risky")
            },
        ),
        (
            "sleepy",
            Job {
                description: "Sleeps until its timeout kills it".to_owned(),
                schedules: vec![every(20)],
                timeout: Some(seconds(3)),
                kill_grace: Some(seconds(2)),
                ..job("sleepy")
            },
        ),
        (
            "report",
            Job {
                description: "Every morning at nine in Shanghai".to_owned(),
                schedules: vec![Schedule {
                    trigger: Some(Trigger::Cron("0 0 9 * * ?".to_owned())),
                    time_zone: "Asia/Shanghai".to_owned(),
                    ..Default::default()
                }],
                params: Some(json(r#"{"name":"Shanghai"}"#)),
                ..job("hello")
            },
        ),
    ];
    jobs.into_iter()
        .map(|(id, job)| CreateJobRequest {
            parent: format!("apps/{app}"),
            job_id: id.to_owned(),
            job: Some(job),
            ..Default::default()
        })
        .collect()
}

fn job(handler: &str) -> Job {
    Job { handler: handler.to_owned(), params: Some(json("{}")), ..Default::default() }
}

fn every(period: i64) -> Schedule {
    Schedule { trigger: Some(Trigger::Interval(seconds(period))), ..Default::default() }
}

fn seconds(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}

fn json(text: &'static str) -> Payload {
    Payload {
        content_type: "application/json".to_owned(),
        data: Bytes::from_static(text.as_bytes()),
    }
}
