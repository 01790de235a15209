//! The App RPCs of ClusterService.

use std::{collections::BTreeMap, time::Duration};

use clawjob_proto::v1 as pb;

use super::{
    Api,
    caller::{Caller, Visible},
    convert::{names, time},
    jobs, mask, paging, request_id,
    status::{ApiError, ApiResult, Kind, Violations},
    validate::{COUNT_MAX, DISPLAY_NAME_MAX, HANDLER_MAX},
};
use crate::{
    model::{
        app::{App, AppSpec},
        principal::Role,
    },
    store::StoreError,
};

/// Handlers with a limit of their own in one app.
pub(super) const HANDLER_LIMITS_MAX: usize = 256;
/// Bounds of how long an executor may be out of contact.
pub(super) const LOST_AFTER: (Duration, Duration) =
    (Duration::from_secs(30), Duration::from_secs(24 * 3600));
/// Bounds of how long ended runs are kept.
pub(super) const RUN_RETENTION: (Duration, Duration) =
    (Duration::from_secs(3600), Duration::from_secs(3650 * 24 * 3600));
/// Tries of an update that names no etag and meets another one.
const UPDATE_TRIES_MAX: u32 = 5;
/// What an update never sets.
const OUTPUT_ONLY: [&str; 3] = ["name", "create_time", "etag"];

/// A page of the apps that the caller may see.
pub(super) async fn list(
    api: &Api,
    caller: &Caller,
    request: pb::ListAppsRequest,
) -> ApiResult<pb::ListAppsResponse> {
    let now = api.clock.now();
    let mut bad = Violations::new();
    let size = paging::size(request.page_size, &mut bad);
    let query = paging::Query::new(&["ListApps", &caller.principal()]);
    let after: Option<String> = query.key(&api.page_key, &request.page_token, now, &mut bad);
    bad.finish()?;
    let only = match caller.visible(Role::Viewer) {
        Visible::All => None,
        Visible::Only(apps) => Some(apps.into_iter().collect::<Vec<_>>()),
    };
    let after = after.unwrap_or_default();
    // One more than shown tells whether there is a next page.
    let rows = api.store.list_apps(&after, only.as_deref(), size + 1).await?;
    let (apps, last) = paging::cut(&rows, size, to_proto);
    let next_page_token = match last {
        Some(last) => query.token(&api.page_key, &last.name, now)?,
        None => String::new(),
    };
    Ok(pb::ListAppsResponse { apps, next_page_token })
}

/// A new app.
pub(super) async fn create(
    api: &Api,
    caller: &Caller,
    request: pb::CreateAppRequest,
) -> ApiResult<pb::App> {
    let mut bad = Violations::new();
    names::check_new_id("app_id", "app", &request.app_id, &mut bad);
    let principal = caller.principal();
    let id = &request.request_id;
    let key = request_id::key(&principal, "CreateApp", id, &request, &mut bad)?;
    if let Some(made) = request_id::answered(api, key.as_ref(), id).await? {
        let (name, found) = (names::app(&request.app_id), api.store.get_app(&request.app_id).await);
        let is_made = |app: &App| app.id.0.to_string() == made;
        return request_id::still_there(Kind::App, name, found, is_made).map(|app| to_proto(&app));
    }
    let spec = read_spec(&request.app.clone().unwrap_or_default(), &mut bad);
    bad.finish()?;
    let made = api.store.create_app(&request.app_id, &spec, key.as_ref(), api.clock.now()).await;
    let app = made.map_err(|error| match error {
        StoreError::Conflict(_) => request_id::reused(id),
        error => ApiError::of_store(Kind::App, names::app(&request.app_id), error),
    })?;
    Ok(to_proto(&app))
}

/// Changes the fields that the mask names.
pub(super) async fn update(api: &Api, request: pb::UpdateAppRequest) -> ApiResult<pb::App> {
    let patch = request.app.unwrap_or_default();
    let mut bad = Violations::new();
    let name = names::parse_app("app.name", &patch.name, &mut bad);
    bad.finish()?;
    let name = name.unwrap_or_default();
    let full_name = names::app(&name);
    let fault = |error| ApiError::of_store(Kind::App, &full_name, error);
    for _ in 0..UPDATE_TRIES_MAX {
        let current = api.store.get_app(&name).await.map_err(fault)?;
        let shown = to_proto(&current);
        if !patch.etag.is_empty() && patch.etag != shown.etag {
            return Err(ApiError::etag_mismatch(&full_name));
        }
        let merged = mask::merge(&shown, &patch, request.update_mask.as_ref(), &OUTPUT_ONLY)?;
        let mut bad = Violations::new();
        let spec = read_spec(&merged, &mut bad);
        bad.finish()?;
        match api.store.update_app(current.id, &spec, current.version).await {
            Ok(app) => return Ok(to_proto(&app)),
            // Whoever names no etag wants its fields set whatever the others are.
            Err(StoreError::Conflict(_)) if patch.etag.is_empty() => {}
            Err(StoreError::Conflict(_)) => break,
            Err(error) => return Err(fault(error)),
        }
    }
    Err(ApiError::etag_mismatch(&full_name))
}

/// Deletes an app without jobs and open runs; with force its jobs are deleted and their runs
/// stopped first. An app of many jobs takes several calls, each of which goes on where the one before
/// ended and says so (`APP_DELETION_UNFINISHED`). Runs that are with an executor end a little later:
/// until then the app stays.
pub(super) async fn delete(
    api: &Api,
    caller: &Caller,
    request: pb::DeleteAppRequest,
) -> ApiResult<()> {
    let mut bad = Violations::new();
    let name = names::parse_app("name", &request.name, &mut bad);
    bad.finish()?;
    let name = name.unwrap_or_default();
    let fault = |error| ApiError::of_store(Kind::App, &request.name, error);
    let app = api.store.get_app(&name).await.map_err(fault)?;
    if request.force {
        let (jobs, all) = jobs::delete_some(api, caller, app.id).await?;
        tracing::info!(app = %name, jobs, "jobs of an app deleted");
        if !all {
            let text = format!("{jobs} of its jobs are deleted, more are left: repeat the call");
            let name = &request.name;
            return Err(ApiError::precondition("APP_DELETION_UNFINISHED", "APP_EMPTY", name, text));
        }
    }
    api.store.delete_app(app.id).await.map_err(|error| match error {
        StoreError::Conflict(text) if request.force => {
            let text = format!("{text}, which are being stopped; repeat the call in a while");
            ApiError::precondition("APP_NOT_EMPTY", "APP_EMPTY", &request.name, text)
        }
        StoreError::Conflict(text) => {
            ApiError::precondition("APP_NOT_EMPTY", "APP_EMPTY", &request.name, text)
        }
        error => fault(error),
    })?;
    tracing::info!(app = %name, "app deleted");
    Ok(())
}

/// Of an app. The row id is in it: an app made anew under an old name matches no earlier etag.
fn etag(app: &App) -> String {
    format!("{:x}-{:x}", app.id.0, app.version)
}

fn to_proto(app: &App) -> pb::App {
    let limits = app.spec.handler_max_concurrency.clone();
    pb::App {
        name: names::app(&app.name),
        display_name: app.spec.display_name.clone(),
        create_time: Some(time::instant_to_proto(app.created_at)),
        max_concurrency: app.spec.max_concurrency,
        handler_max_concurrency: limits.into_iter().collect(),
        lost_after: app.spec.lost_after.map(time::duration_to_proto),
        run_retention: app.spec.run_retention.map(time::duration_to_proto),
        etag: etag(app),
    }
}

fn read_spec(app: &pb::App, bad: &mut Violations) -> AppSpec {
    if app.display_name.chars().count() > DISPLAY_NAME_MAX {
        bad.invalid("app.display_name", format!("is over {DISPLAY_NAME_MAX} characters"));
    }
    if app.max_concurrency > COUNT_MAX {
        bad.invalid("app.max_concurrency", format!("is over {COUNT_MAX}; 0 means no limit"));
    }
    let limits: BTreeMap<String, u32> =
        app.handler_max_concurrency.iter().map(|(name, max)| (name.clone(), *max)).collect();
    if limits.len() > HANDLER_LIMITS_MAX {
        let text = format!("has over {HANDLER_LIMITS_MAX} entries");
        bad.invalid("app.handler_max_concurrency", text);
    }
    for (handler, max) in limits.iter().take(HANDLER_LIMITS_MAX) {
        if !(1..=HANDLER_MAX).contains(&handler.len()) || *max > COUNT_MAX {
            let text = format!(
                "must be a handler's name of 1 to {HANDLER_MAX} bytes with a number up to \
                 {COUNT_MAX}; 0 means no limit"
            );
            bad.invalid(format!("app.handler_max_concurrency[{handler:?}]"), text);
        }
    }
    let mut duration = |field: &str, value: Option<&prost_types::Duration>, bounds| {
        let (least, most): (Duration, Duration) = bounds;
        value.and_then(|value| time::duration(field, value, least..=most, bad))
    };
    AppSpec {
        display_name: app.display_name.clone(),
        max_concurrency: app.max_concurrency,
        lost_after: duration("app.lost_after", app.lost_after.as_ref(), LOST_AFTER),
        run_retention: duration("app.run_retention", app.run_retention.as_ref(), RUN_RETENTION),
        handler_max_concurrency: limits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::AppId;
    use chrono::DateTime;
    use clawjob_proto::json::pool;

    fn full() -> App {
        App {
            id: AppId(3),
            name: "billing".into(),
            spec: AppSpec {
                display_name: "Billing".into(),
                max_concurrency: 7,
                handler_max_concurrency: [("mail".to_owned(), 2)].into(),
                lost_after: Some(Duration::from_secs(90)),
                run_retention: Some(Duration::from_secs(7200)),
            },
            created_at: DateTime::UNIX_EPOCH,
            version: 4,
        }
    }

    #[test]
    fn every_field_of_an_app_is_shown_and_read() {
        let shown = to_proto(&full());
        let json = clawjob_proto::json::to_value(&shown).expect("has a JSON form");
        let descriptor = pool().get_message_by_name("clawjob.v1.App").expect("in the contract");
        for field in descriptor.fields() {
            assert!(json.get(field.json_name()).is_some(), "{} is not shown", field.name());
        }
        let mut bad = Violations::new();
        assert_eq!(read_spec(&shown, &mut bad), full().spec);
        assert!(bad.is_empty());
    }

    #[test]
    fn every_settable_field_can_be_set_alone_by_a_mask() {
        let (current, patch) = (to_proto(&App { spec: AppSpec::default(), ..full() }), full());
        let patch = to_proto(&patch);
        let descriptor = pool().get_message_by_name("clawjob.v1.App").expect("in the contract");
        for field in descriptor.fields().filter(|field| !OUTPUT_ONLY.contains(&field.name())) {
            let mask = prost_types::FieldMask { paths: vec![field.name().to_owned()] };
            let merged = mask::merge(&current, &patch, Some(&mask), &OUTPUT_ONLY).expect("merges");
            let spec = read_spec(&merged, &mut Violations::new());
            assert_ne!(spec, AppSpec::default(), "{} was not set", field.name());
            let cleared = mask::merge(&patch, &current, Some(&mask), &OUTPUT_ONLY).expect("merges");
            let spec = read_spec(&cleared, &mut Violations::new());
            assert_ne!(spec, full().spec, "{} was not cleared", field.name());
        }
    }

    #[test]
    fn all_faults_of_an_app_are_told_at_once() {
        let mut bad = Violations::new();
        let draft = pb::App {
            display_name: "x".repeat(DISPLAY_NAME_MAX + 1),
            max_concurrency: u32::MAX,
            handler_max_concurrency: [(String::new(), 1)].into(),
            lost_after: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
            run_retention: Some(prost_types::Duration { seconds: -1, nanos: 0 }),
            ..pb::App::default()
        };
        read_spec(&draft, &mut bad);
        let message = bad.finish().expect_err("five faults").message().to_owned();
        for field in
            ["display_name", "max_concurrency", "handler_max", "lost_after", "run_retention"]
        {
            assert!(message.contains(&format!("app.{field}")), "{message}");
        }
    }
}
