//! A node that is cut off from the database alone: executors still hear it, and the others go on.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use clawjob_executor::{Ctx, Executor, Failure};
use clawjob_proto::v1::{DisconnectPolicy, Job, OverlapPolicy, RunState};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    ledger::{self, LOOK, PATIENCE},
    load::{at_most, long},
    relay::Relay,
    server::{Schema, Server},
    stage::{APP, Cluster, Manner},
};

/// So long after the cut the executors of that node work for the others.
const MOVED_MAX: Duration = Duration::from_secs(12);
/// The shortest that a job may ask for.
const LOST_AFTER: Duration = Duration::from_secs(30);

/// Two nodes, the second of which reaches the database over a relay.
async fn start(manner: Manner) -> (Cluster, Relay, Server) {
    let server = Server::start(false);
    let port = server.port.expect("a private server");
    let relay = Relay::to_host(&format!("127.0.0.1:{port}")).await;
    let mut cluster = Cluster::start_as(Schema::only(server.url.clone()), 1, manner).await;
    cluster.join_over(&server.tcp_url(relay.port()));
    cluster.balanced(2).await;
    (cluster, relay, server)
}

#[tokio::test(flavor = "multi_thread")]
async fn executors_of_a_node_that_the_database_does_not_see_move_with_their_runs() {
    let (cluster, relay, _server) = start(Manner::Quick).await;
    cluster.executor("e1", 5, &[1]);
    cluster.connected("e1").await;
    let mut jobs = cluster.jobs(0).await;
    ledger::create_job(&mut jobs, APP, "long", long(20_000)).await;
    ledger::create_job(&mut jobs, APP, "short", long(0)).await;
    let long = cluster.trigger(0, "long", "").await;
    ledger::wait_for("it runs", || cluster.ledger.len() == 1).await;
    relay.cut();
    let cut = Instant::now();
    let short = cluster.trigger(0, "short", "").await;
    assert_eq!(cluster.ended(0, &short).await.state(), RunState::Succeeded);
    let gap = cut.elapsed();
    println!("the cut-off node's executor ran the next run {gap:?} after the cut");
    assert!(gap <= at_most(MOVED_MAX), "{gap:?}");
    let ended = cluster.ended(0, &long).await;
    assert_eq!((ended.state(), ended.attempt), (RunState::Succeeded, 1), "{ended:?}");
    assert_eq!(cluster.ledger.len(), 2, "nothing was executed again");
    relay.heal();
    cluster.balanced(2).await;
}

/// An execution, from its begin to its end by whatever.
#[derive(Clone, Copy, Debug)]
struct Stay {
    attempt: u32,
    began: Instant,
    ended: Option<Instant>,
}

type Stays = Arc<Mutex<Vec<Stay>>>;

/// Notes the end of an execution, also where it is dropped.
struct Ends(Stays, usize);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.lock()[self.1].ended = Some(Instant::now());
    }
}

/// An executor of `node` whose handler goes on until it is stopped.
fn holding(
    cluster: &Cluster,
    (id, node): (&str, usize),
    stays: &Stays,
    stop: &CancellationToken,
) -> JoinHandle<Result<(), clawjob_executor::Error>> {
    let stays = stays.clone();
    let executor = Executor::builder()
        .endpoints(vec![cluster.nodes[node].url()])
        .token(cluster.executor_token())
        .app(APP)
        .executor_id(id)
        .handler("hold", move |_: serde_json::Value, ctx: Ctx| {
            let mut all = stays.lock();
            all.push(Stay { attempt: ctx.attempt(), began: Instant::now(), ended: None });
            let end = Ends(stays.clone(), all.len() - 1);
            async move {
                ctx.cancelled().await;
                drop(end);
                Ok::<_, Failure>(())
            }
        });
    tokio::spawn(executor.run_until(stop.clone().cancelled_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn under_stop_a_run_has_ended_before_the_others_send_it_again() {
    let (cluster, relay, _server) = start(Manner::Hidden).await;
    let (stays, stop) = (Stays::default(), CancellationToken::new());
    let _stop = stop.clone().drop_guard();
    holding(&cluster, ("e1", 1), &stays, &stop);
    cluster.connected("e1").await;
    let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    let job = Job {
        handler: "hold".to_owned(),
        overlap: OverlapPolicy::Allow.into(),
        disconnect_policy: DisconnectPolicy::Stop.into(),
        lost_after: seconds(LOST_AFTER.as_secs().cast_signed()),
        kill_grace: seconds(2),
        ..Job::default()
    };
    ledger::create_job(&mut cluster.jobs(0).await, APP, "hold", job).await;
    cluster.trigger(0, "hold", "").await;
    ledger::wait_for("it runs", || stays.lock().len() == 1).await;
    relay.cut();
    let cut = Instant::now();
    holding(&cluster, ("e2", 0), &stays, &stop);
    let end = cut + LOST_AFTER + PATIENCE;
    while stays.lock().len() < 2 {
        assert!(Instant::now() < end, "it is not sent again");
        tokio::time::sleep(LOOK).await;
    }
    let [first, second] = stays.lock()[..] else { panic!("{stays:?}") };
    println!(
        "stopped {:?} after the cut, sent again after {:?}",
        first.ended.map(|ended| ended - cut),
        second.began - cut
    );
    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert!(first.ended.is_some_and(|ended| ended <= second.began), "both at once");
    assert!(second.began >= cut + LOST_AFTER, "it was given up early");
}
