//! Callers by JSON over HTTP: a browser with its cookie, or a program with a bearer.

use clawjob_scheduler::api::ApiSettings;
use serde_json::{Value, json};

use crate::harness::Server;

pub(crate) const PASSWORD: &str = "seven quiet otters";
pub(crate) const OTHER: &str = "nine loud badgers!";
/// Where requests come from unless a test says otherwise.
pub(crate) const HOME: &str = "203.0.113.1";

/// A server behind a proxy that says where requests come from.
pub(crate) async fn server() -> Server {
    let settings = ApiSettings {
        node_id: "n1".into(),
        behind_proxy: true,
        forwarded_for: true,
        ..ApiSettings::default()
    };
    Server::start_with(settings).await
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) cookie: Option<String>,
}

impl Answer {
    pub(crate) fn reason(&self) -> &str {
        let details = self.body["details"].as_array().map(Vec::as_slice).unwrap_or_default();
        let info = details.iter().find(|detail| detail["type"] == "google.rpc.ErrorInfo");
        info.and_then(|info| info["debug"]["reason"].as_str()).unwrap_or_default()
    }

    pub(crate) fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{:?}", self.body);
        self.body
    }
}

/// Somebody at an address, with what a browser keeps.
#[derive(Clone, Default)]
pub(crate) struct Browser {
    pub(crate) from: String,
    pub(crate) cookie: String,
    pub(crate) csrf: String,
    pub(crate) bearer: String,
}

impl Browser {
    pub(crate) fn at(from: &str) -> Self {
        Self { from: from.to_owned(), ..Self::default() }
    }

    pub(crate) fn bearing(token: &str) -> Self {
        Self { bearer: token.to_owned(), ..Self::at(HOME) }
    }

    pub(crate) async fn post(&self, server: &Server, path: &str, json: Value) -> Answer {
        let url = format!("{}/clawjob.v1.{path}", server.url);
        let mut request = server.http.post(url).header("content-type", "application/json");
        for (name, value) in [
            ("x-forwarded-for", &self.from),
            ("cookie", &self.cookie),
            ("x-clawjob-csrf", &self.csrf),
        ] {
            if !value.is_empty() {
                request = request.header(name, value);
            }
        }
        if !self.bearer.is_empty() {
            request = request.bearer_auth(&self.bearer);
        }
        let response = request.body(json.to_string()).send().await.expect("answers");
        let cookie = response.headers().get("set-cookie");
        let cookie = cookie.map(|value| value.to_str().expect("text").to_owned());
        let status = response.status().as_u16();
        let text = response.text().await.expect("a body");
        Answer { status, body: serde_json::from_str(&text).unwrap_or(Value::String(text)), cookie }
    }

    /// Signs in as a browser does: keeps the cookie and the token of changes.
    pub(crate) async fn sign_in(&mut self, server: &Server, credential: Value) -> Answer {
        let mut request = credential;
        request["cookie"] = true.into();
        let answer = self.post(server, "IdentityService/Login", request).await;
        if let Some(set) = &answer.cookie {
            self.cookie = set.split(';').next().expect("a pair").to_owned();
            self.csrf = answer.body["csrfToken"].as_str().expect("a token").to_owned();
        }
        answer
    }

    pub(crate) async fn whoami(&self, server: &Server) -> Answer {
        self.post(server, "IdentityService/WhoAmI", json!({})).await
    }
}

pub(crate) fn password(user: &str, password: &str) -> Value {
    json!({ "userId": user, "password": password })
}

/// Makes a user by the admin's token, with a first password.
pub(crate) async fn make_user(server: &Server, id: &str, grants: Value) {
    let request = json!({
        "userId": id, "user": { "displayName": id.to_uppercase(), "grants": grants },
        "password": PASSWORD,
    });
    Browser::bearing(&server.admin).post(server, "IdentityService/CreateUser", request).await.ok();
}

/// A user who has changed the first password, signed in.
pub(crate) async fn person(server: &Server, id: &str, grants: Value) -> Browser {
    make_user(server, id, grants).await;
    let mut browser = Browser::at(HOME);
    browser.sign_in(server, password(id, PASSWORD)).await.ok();
    let request = json!({
        "user": { "name": format!("users/{id}") }, "password": OTHER, "currentPassword": PASSWORD,
    });
    browser.post(server, "IdentityService/UpdateUser", request).await.ok();
    browser
}
