//! The audit log: one layer around every call that may change something.
//!
//! An event is written *before* the call reaches its handler, with the code UNKNOWN, and gets the
//! answer's code afterwards. So a change that was committed always has its event, whatever dies
//! when; all that can be missing is how the call ended. A call whose event can't be written is
//! refused. Calls that the gate refuses, and sign-ins, have an event once they have ended: nothing
//! was changed by the former, and a sign-in is given out only after its event was written.

mod about;
mod list;

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use axum::body::Body;
use chrono::{DateTime, Utc};
use http::{Request, Response};
use parking_lot::Mutex;
use prost_reflect::DynamicMessage;
use tonic::Code;

pub(super) use list::list;

use super::{
    caller::{Caller, ClientAddress},
    edge::request_id_of,
    rules::{Rule, reads, rule},
    status::{ApiError, ApiResult, into_grpc_response},
};
use crate::{
    model::audit::{AuditEvent, AuditId},
    store::SharedStore,
};

/// Numbers this process's events, for their order within a millisecond.
static SEQUENCE: AtomicU32 = AtomicU32::new(0);

/// What only the handler knows of its call: who signed in, what was made. In the request's
/// extensions.
#[derive(Clone, Default)]
pub struct Note(Arc<Mutex<Noted>>);

#[derive(Default)]
struct Noted {
    principal: String,
    resource: String,
}

impl Note {
    /// The request's; one that nobody reads, where there is none.
    pub fn of<T>(request: &tonic::Request<T>) -> Self {
        request.extensions().get::<Self>().cloned().unwrap_or_default()
    }

    /// Who signed in, or tried to.
    pub fn principal(&self, name: &str) {
        name.clone_into(&mut self.0.lock().principal);
    }

    /// What the call was about, where the request does not name it.
    pub fn resource(&self, name: &str) {
        name.clone_into(&mut self.0.lock().resource);
    }
}

/// A call that may change something, on its way.
pub struct Entry {
    event: AuditEvent,
    note: Note,
    written: bool,
    /// It only asks whether a change could be made.
    trial: bool,
}

impl Entry {
    /// Of a request, unless what it calls only reads, is an executor's session, or is not there.
    pub fn of(request: &mut Request<Body>, now: DateTime<Utc>) -> Option<Self> {
        let path = request.uri().path().trim_start_matches('/');
        if reads(path) || matches!(rule(path), None | Some(Rule::Session)) {
            return None;
        }
        let address = request.extensions().get::<ClientAddress>();
        let event = AuditEvent {
            id: AuditId::new(now, SEQUENCE.fetch_add(1, Ordering::Relaxed), rand::random()),
            at: now,
            app: String::new(),
            principal: String::new(),
            method: path.trim_start_matches("clawjob.v1.").to_owned(),
            resource: String::new(),
            request_id: request_id_of(request).to_string(),
            peer_address: address.map(|address| address.0.to_string()).unwrap_or_default(),
            code: Code::Unknown as i32,
            changed_fields: Vec::new(),
        };
        let note = Note::default();
        request.extensions_mut().insert(note.clone());
        Some(Self { event, note, written: false, trial: false })
    }

    /// Says who calls.
    pub fn by(&mut self, caller: &Caller) {
        self.event.principal = caller.principal();
    }

    /// Says what the call is about.
    pub fn about(&mut self, message: &DynamicMessage) {
        self.trial = about::is_trial(message);
        self.event.resource = about::resource(&self.event.method, message);
        self.event.app = about::app(&self.event.resource);
        self.event.changed_fields = about::fields(message);
    }

    /// Writes the event before the change, if the caller is known.
    ///
    /// # Errors
    /// UNAVAILABLE, when it can't be written: then nothing may be changed.
    pub async fn begin(&mut self, store: &SharedStore) -> ApiResult<()> {
        if self.trial || self.event.principal.is_empty() {
            return Ok(());
        }
        store.write_audit(&self.event).await.map_err(ApiError::from)?;
        self.written = true;
        Ok(())
    }

    /// Writes down how the call ended. A sign-in without an event is none: its answer is replaced.
    pub async fn end(mut self, store: &SharedStore, response: Response<Body>) -> Response<Body> {
        let code = response.headers().get("grpc-status");
        let code = code.map_or(Code::Ok, |value| Code::from_bytes(value.as_bytes()));
        {
            let mut noted = self.note.0.lock();
            if self.event.principal.is_empty() {
                self.event.principal = std::mem::take(&mut noted.principal);
            }
            if self.event.resource.is_empty() {
                self.event.resource = std::mem::take(&mut noted.resource);
            }
        }
        // Nobody that has a name: a call without a credential that holds changed nothing.
        if self.trial || self.event.principal.is_empty() {
            return response;
        }
        self.event.code = code as i32;
        let written = match self.written {
            true => store.end_audit(self.event.id, self.event.code, &self.event.resource).await,
            false => store.write_audit(&self.event).await,
        };
        match written {
            Ok(()) => response,
            Err(error) if !self.written && code == Code::Ok => into_grpc_response(error.into()),
            Err(error) => {
                let method = self.event.method;
                tracing::warn!(%error, method, "how a call ended is missing in the audit log");
                response
            }
        }
    }
}
