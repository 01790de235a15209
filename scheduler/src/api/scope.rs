//! Which apps a list or watch is over, as the store takes them.

use super::{
    Api,
    caller::{Caller, Visible},
    convert::names::{self, Parent},
    status::{ApiError, ApiResult, Kind},
};
use crate::{
    model::{app::App, ids::AppId, principal::Role},
    store::StoreError,
};

/// Apps read in one step.
const APPS_STEP: u32 = 1000;

/// The apps of a parent: `None` means all there are, now and later.
///
/// # Errors
/// NOT_FOUND for an app that does not exist.
pub async fn apps(api: &Api, caller: &Caller, parent: &Parent) -> ApiResult<Option<Vec<AppId>>> {
    match parent {
        Parent::App(name) => Ok(Some(vec![app(api, name).await?.id])),
        Parent::All => match caller.visible(Role::Viewer) {
            Visible::All => Ok(None),
            Visible::Only(visible) => {
                let visible: Vec<String> = visible.into_iter().collect();
                Ok(Some(existing(api, &visible).await?))
            }
        },
    }
}

/// One app by its id.
///
/// # Errors
/// NOT_FOUND when it does not exist.
pub async fn app(api: &Api, name: &str) -> ApiResult<App> {
    let found = api.store.get_app(name).await;
    found.map_err(|error| ApiError::of_store(Kind::App, names::app(name), error))
}

/// The app of a named thing.
///
/// # Errors
/// NOT_FOUND of the thing, when its app does not exist.
pub async fn app_of(api: &Api, app: &str, kind: Kind, full_name: &str) -> ApiResult<App> {
    match api.store.get_app(app).await {
        Ok(app) => Ok(app),
        Err(StoreError::NotFound(_)) => Err(ApiError::not_found(kind, full_name)),
        Err(error) => Err(error.into()),
    }
}

async fn existing(api: &Api, visible: &[String]) -> ApiResult<Vec<AppId>> {
    let mut ids = Vec::new();
    let mut after = String::new();
    loop {
        let rows = api.store.list_apps(&after, Some(visible), APPS_STEP).await?;
        let more = rows.len() == APPS_STEP as usize;
        ids.extend(rows.iter().map(|app| app.id));
        match rows.last() {
            Some(last) if more => after.clone_from(&last.name),
            _ => return Ok(ids),
        }
    }
}
