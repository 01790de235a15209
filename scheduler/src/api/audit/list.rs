//! ListAuditEvents.

use clawjob_proto::v1 as pb;

use crate::{
    api::{
        Api,
        caller::{Caller, Visible},
        convert::time,
        filter::{self, AUDIT_FIELDS},
        paging,
        status::{ApiResult, Violations},
    },
    model::{
        audit::{AuditEvent, AuditId},
        principal::Role,
    },
    store::audit::AuditQuery,
};

/// A page of events, newest first: of the apps that the caller administers, or all.
pub(in crate::api) async fn list(
    api: &Api,
    caller: &Caller,
    request: pb::ListAuditEventsRequest,
) -> ApiResult<pb::ListAuditEventsResponse> {
    let now = api.clock.now();
    let mut bad = Violations::new();
    let size = paging::size(request.page_size, &mut bad);
    let filter = filter::parse(&request.filter, &AUDIT_FIELDS, &mut bad);
    let page = paging::Query::new(&["ListAuditEvents", &request.filter, &caller.principal()]);
    let key: Option<String> = page.key(&api.page_key, &request.page_token, now, &mut bad);
    bad.finish()?;
    let query = AuditQuery {
        apps: match caller.visible(Role::Admin) {
            Visible::All => None,
            Visible::Only(apps) => Some(apps.into_iter().collect()),
        },
        conditions: filter.conditions,
        before: key.and_then(|id| id.parse::<AuditId>().ok()),
        limit: size.saturating_add(1),
    };
    let rows = api.store.list_audit(&query).await?;
    let (events, last) = paging::cut(&rows, size, |event| to_proto(event.clone()));
    let next_page_token = match last {
        Some(last) => page.token(&api.page_key, &last.id.to_string(), now)?,
        None => String::new(),
    };
    Ok(pb::ListAuditEventsResponse { events, next_page_token })
}

fn to_proto(event: AuditEvent) -> pb::AuditEvent {
    pb::AuditEvent {
        time: Some(time::instant_to_proto(event.at)),
        principal: event.principal,
        method: event.method,
        resource: event.resource,
        request_id: event.request_id,
        peer_address: event.peer_address,
        code: event.code,
        changed_fields: event.changed_fields,
        id: event.id.to_string(),
    }
}
