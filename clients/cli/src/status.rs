//! `clawjob status`.

use clawjob_proto::{
    json,
    v1::{Cluster, GetClusterRequest, GetServerInfoRequest, Node, ServerInfo, node},
};
use jiff::tz::TimeZone;
use serde_json::json;

use crate::{
    args::OutputFormat,
    client::{Call, cluster},
    context::Context,
    error::CliError,
    names,
    output::{self, Columns, Fields, ListPrinter},
    show::{self, Cell, word_of},
};

const NODES: Columns<Node> = Columns {
    headers: &[
        "NODE",
        "STATE",
        "VERSION",
        "ADDRESS",
        "SESSIONS",
        "PARTITIONS",
        "LAG",
        "CLOCK",
        "DATABASE",
    ],
    row: |node, _| {
        vec![
            names::short(&node.name).into(),
            word_of!(node::State, "STATE_", node.state).into(),
            Cell::from(&node.version),
            Cell::from(&node.advertise_address),
            node.sessions.to_string().into(),
            node.partitions.len().to_string().into(),
            show::duration(node.lag.as_ref()).into(),
            show::duration(node.clock_offset.as_ref()).into(),
            show::duration(node.database_latency.as_ref()).into(),
        ]
    },
};

/// # Errors
/// What the server or the output says; the server's own facts are printed even when the caller
/// may not see the cluster.
pub(crate) async fn run(ctx: &mut Context<'_>) -> Result<(), CliError> {
    let rpc = async |ch, rq| cluster(ch).get_server_info(rq).await;
    let info = ctx.client.call(Call::SAFE, GetServerInfoRequest {}, rpc).await?;
    let rpc = async |ch, rq| cluster(ch).get_cluster(rq).await;
    let cluster = ctx.client.call(Call::SAFE, GetClusterRequest {}, rpc).await;
    if ctx.format == OutputFormat::Table {
        output::print_fields(ctx.term, info_fields(&info, &ctx.term.zone))?;
        let cluster = cluster?;
        output::print_fields(ctx.term, cluster_fields(&cluster))?;
        let mut nodes = ListPrinter::new(ctx.format, "nodes", &NODES);
        nodes.page(ctx.term, &cluster.nodes)?;
        return nodes.end(ctx.term, "");
    }
    let mut both = json!({ "serverInfo": json::to_value(&info)? });
    if let Ok(cluster) = &cluster {
        both["cluster"] = json::to_value(cluster)?;
    }
    output::value(ctx.term, ctx.format, &both)?;
    cluster.map(|_| ())
}

fn info_fields(info: &ServerInfo, zone: &TimeZone) -> Fields {
    vec![
        ("version", Cell::from(&info.version)),
        ("protocol", format!("{}.{}", info.protocol_major, info.protocol_minor).into()),
        ("node", Cell::from(&info.node_id)),
        ("time", show::instant(info.server_time.as_ref(), zone).into()),
        ("features", info.features.join(", ").into()),
    ]
}

fn cluster_fields(cluster: &Cluster) -> Fields {
    let mut fields = vec![
        ("storage", Cell::from(&cluster.storage)),
        ("executors", format!("{} online", cluster.online_executors).into()),
        (
            "runs",
            format!("{} queued, {} running", cluster.queued_runs, cluster.running_runs).into(),
        ),
    ];
    if !cluster.problem.is_empty() {
        fields.push(("problem", format!("no job fires here: {}", cluster.problem).into()));
    }
    fields
}
