//! How many executors an app may have: whoever holds its token chooses their ids.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::Driver;
use crate::{
    api::status::{ApiError, ApiResult},
    hub::settings::APP_FULL_RETRY_AFTER,
    model::{executor::Executor, ids::AppId},
    store::StoreError,
};

/// Of the room that is left the part that one node fills before it looks again: others fill it too.
const SHARE: u32 = 4;

/// How many more executors each app may get before they are counted again.
#[derive(Default)]
pub(in crate::api) struct Room {
    left: Mutex<HashMap<AppId, u32>>,
}

impl Room {
    /// A session was opened.
    pub(super) fn opened(&self, executor: &Executor) {
        const FIRST: u64 = 1;
        if executor.session_epoch == FIRST
            && let Some(left) = self.left.lock().get_mut(&executor.app)
        {
            *left = left.saturating_sub(1);
        }
    }
}

impl Driver {
    /// RESOURCE_EXHAUSTED if the app has no room for the executor and does not know it yet.
    pub(super) async fn find_room(&self, app: AppId, app_name: &str, name: &str) -> ApiResult<()> {
        let seen = self.api.room.left.lock().get(&app).copied();
        // After a start very many come whom the app knows: its room is counted once, not each looked up.
        let left = match seen {
            Some(left) => left,
            None => self.count_room(app).await?,
        };
        if left > 0 {
            return Ok(());
        }
        match self.api.store.get_executor(app, name).await {
            Ok(_) => return Ok(()),
            Err(StoreError::NotFound(_)) => {}
            Err(fault) => return Err(fault.into()),
        }
        if self.count_room(app).await? > 0 {
            return Ok(());
        }
        let max = self.hub.settings().app_executors_max;
        let text = format!(
            "app {app_name} has {max} executors, which is all it may have; give each process an \
             executor_id that it keeps, and delete those that are gone for good"
        );
        let subject = format!("apps/{app_name}/executors");
        Err(ApiError::exhausted("APP_QUOTA", subject, text, APP_FULL_RETRY_AFTER))
    }

    /// How many more executors the app may get; makes room first where there is none.
    async fn count_room(&self, app: AppId) -> ApiResult<u32> {
        let (max, now) = (self.hub.settings().app_executors_max, self.api.clock.now());
        let left = self.api.store.room_for_executors(app, max, now).await?;
        self.api.room.left.lock().insert(app, left.div_ceil(SHARE));
        Ok(left)
    }
}
