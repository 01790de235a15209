//! What keeps the hub and the store in step: signs of life, credentials that stopped working,
//! executors that moved to another node.

use std::{collections::HashMap, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::{Hub, Link, session::End};
use crate::store::{SharedStore, StoreError, Topic};

/// How often answers that are overdue are looked for.
pub const TICK_INTERVAL: Duration = Duration::from_millis(200);
/// Executors whose signs of life are written in one statement.
pub const TOUCH_BATCH_MAX: usize = 1_000;
/// Prefix of a token's resource name.
const TOKEN_PREFIX: &str = "tokens/";

impl Hub {
    /// Ticks the sessions, writes signs of life, looks tokens up again and gives way to sessions on
    /// other nodes; runs until `stop`. A store out of reach holds up none of the rest.
    pub async fn upkeep(self: Arc<Self>, store: SharedStore, stop: CancellationToken) {
        tokio::join!(
            self.ticks(&stop),
            self.touches(&store, &stop),
            self.token_checks(&store, &stop),
            self.hints(&store, &stop),
        );
    }

    async fn ticks(&self, stop: &CancellationToken) {
        while self.pause(TICK_INTERVAL, stop).await {
            self.tick(self.clock.now(), self.clock.elapsed());
        }
    }

    async fn touches(&self, store: &SharedStore, stop: &CancellationToken) {
        while self.pause(self.settings.touch_interval, stop).await {
            self.touch(store, self.clock.now()).await;
        }
    }

    async fn token_checks(&self, store: &SharedStore, stop: &CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.tokens_changed.notified() => {}
                () = self.clock.wait(self.settings.token_check_interval) => {}
            }
            self.check_tokens(store, self.clock.now()).await;
        }
    }

    async fn hints(&self, store: &SharedStore, stop: &CancellationToken) {
        let mut hints = store.hints();
        loop {
            let hint = tokio::select! {
                () = stop.cancelled() => return,
                hint = hints.recv() => hint,
            };
            match hint {
                Ok(Topic::Session { executor, epoch }) => {
                    self.give_way_to(store, executor, epoch).await;
                }
                Ok(Topic::Tokens) | Err(RecvError::Lagged(_)) => self.tokens_changed.notify_one(),
                Ok(_) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Ends the older session here of an executor that has a newer one elsewhere.
    async fn give_way_to(&self, store: &SharedStore, row: i64, epoch: u64) {
        let Some(link) = self.older(row, epoch) else { return };
        // A node that drains moves all its sessions at once: of those nothing need be asked.
        let newer = match link.was_asked_to_move() {
            true => None,
            false => store.get_executor(link.origin.app, &link.origin.executor).await.ok(),
        };
        self.supersede(row, epoch, newer.as_ref().map(|newer| newer.instance_id.as_str()));
    }

    /// False when it is time to stop.
    async fn pause(&self, wait: Duration, stop: &CancellationToken) -> bool {
        tokio::select! {
            () = stop.cancelled() => false,
            () = self.clock.wait(wait) => true,
        }
    }

    /// Writes signs of life of the sessions that gave one since two touches ago.
    pub async fn touch(&self, store: &SharedStore, now: DateTime<Utc>) {
        let elapsed = self.clock.elapsed();
        let recent = self.settings.touch_interval * 2;
        let alive: Vec<(i64, u64)> = self
            .all()
            .iter()
            .filter(|link| {
                let silence = link.session.lock().silence(elapsed);
                silence <= recent
            })
            .map(|link| (link.origin.row, link.origin.epoch))
            .collect();
        for batch in alive.chunks(TOUCH_BATCH_MAX) {
            if let Err(fault) = store.touch_executors(batch, now).await {
                tracing::debug!(%fault, "signs of life were not written");
                return;
            }
        }
    }

    /// Ends the sessions whose token was revoked or has expired.
    pub async fn check_tokens(&self, store: &SharedStore, now: DateTime<Utc>) {
        let mut by_principal: HashMap<String, Vec<Arc<Link>>> = HashMap::new();
        for link in self.all() {
            by_principal.entry(link.principal.clone()).or_default().push(link);
        }
        for (principal, links) in by_principal {
            let Some(id) = principal.strip_prefix(TOKEN_PREFIX) else { continue };
            let fault = match store.find_token(id).await {
                Ok(token) if token.revoked_at.is_some() => "its token was revoked",
                Ok(token) if token.expires_at.is_some_and(|at| at <= now) => "its token expired",
                Err(StoreError::NotFound(_)) => "its token is gone",
                // A store out of reach revokes nothing.
                Ok(_) | Err(_) => continue,
            };
            for link in links {
                self.finish(&link, End::Revoked(fault.to_owned()));
            }
        }
    }
}
