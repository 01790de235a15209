//! Progress frames.

use clawjob_proto::v1::{self, session_request::Frame as Up};
use tonic::Status;

use crate::fake::{Fake, Session, command};
use crate::handlers::Running;

async fn progress(session: &mut Session) -> v1::Progress {
    session
        .expect("a Progress", |frame| match frame {
            Up::Progress(progress) => Some(progress),
            _ => None,
        })
        .await
}

#[tokio::test]
async fn c47_progress_is_told_once_a_second_at_most_and_the_newest_wins() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "progress", r#"{"count":2000}"#)).await;
    let mut told = 0;
    loop {
        let progress = progress(&mut session).await;
        told += 1;
        if progress.message == "step 2000" {
            assert_eq!(progress.fraction, Some(1.0));
            break;
        }
    }
    assert!(told <= 5, "{told} frames");
}

#[tokio::test]
async fn the_newest_progress_is_told_again_on_a_new_session() {
    let mut fake = Fake::start().await;
    let _running = Running::start(&fake);
    let mut session = fake.open().await;
    session.begin(command("R1", "progress", r#"{"count":1}"#)).await;
    assert_eq!(progress(&mut session).await.message, "step 1");
    session.end(Status::unavailable("going down")).await;
    let mut session = fake.open().await;
    assert_eq!(progress(&mut session).await.message, "step 1");
}
