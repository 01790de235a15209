//! Serves the files of the web console, which are in the binary.
//!
//! In a debug build they are read from `console/` each time, so that a page can be worked on
//! without a build.

use axum::body::Body;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode,
    header::{
        ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
        IF_NONE_MATCH, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
    },
};
use rust_embed::{EmbeddedFile, RustEmbed};

/// The page that all views are in; which one is shown stands behind the `#` of its address.
const INDEX: &str = "index.html";
/// Steps up that a redirect takes at most.
const DEPTH_MAX: usize = 16;

/// Only what is named here runs or is shown: no script or style within a page, nothing of another
/// host, and in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; \
    base-uri 'self'; form-action 'self'; frame-ancestors 'none'";

/// What goes with every file.
const HEADERS: [(HeaderName, &str); 7] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    // Names stay the same over versions: a browser asks each time, and is told what it has.
    (CACHE_CONTROL, "no-cache"),
];

/// Media types by the end of a name; files that end otherwise are not served.
const TYPES: [(&str, &str); 13] = [
    ("html", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("json", "application/json"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("ico", "image/x-icon"),
    ("woff2", "font/woff2"),
    ("txt", "text/plain; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("ts", "text/plain; charset=utf-8"),
    ("webmanifest", "application/manifest+json"),
];

/// The files.
#[derive(RustEmbed)]
#[folder = "console/"]
struct Files;

/// The file at a path, without the context path; a page that is not there leads to the console's
/// own, whose views have no paths. `None` where nothing is served, and for methods but GET and HEAD.
pub fn answer(method: &Method, path: &str, headers: &HeaderMap) -> Option<Response<Body>> {
    if method != Method::GET && method != Method::HEAD {
        return None;
    }
    let name = path.strip_prefix('/')?;
    let name = if name.is_empty() { INDEX } else { name };
    let media_type = media_type(name);
    match Files::get(name).zip(media_type) {
        Some((file, media_type)) => Some(serve(method, &file, media_type, headers)),
        // A script or a picture that is missing is missing; who wants a page gets one.
        None if wants_page(headers) => Some(redirect(&to_root(name))),
        None => None,
    }
}

/// Leads to another address, given relative to the one that was asked for: so it holds whatever a
/// proxy has put before or taken away.
pub fn redirect(to: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::FOUND;
    secure(response.headers_mut());
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(LOCATION, to);
    }
    response
}

/// From a name to the root.
fn to_root(name: &str) -> String {
    match name.matches('/').count() {
        0 => "./".to_owned(),
        depth => "../".repeat(depth.min(DEPTH_MAX)),
    }
}

fn media_type(name: &str) -> Option<&'static str> {
    let (_, end) = name.rsplit_once('.')?;
    TYPES.iter().find(|(known, _)| *known == end).map(|(_, media_type)| *media_type)
}

fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|part| part.trim().starts_with("text/html"))
}

fn serve(
    method: &Method,
    file: &EmbeddedFile,
    media_type: &'static str,
    headers: &HeaderMap,
) -> Response<Body> {
    let tag = format!("\"{}\"", hex::encode(&file.metadata.sha256_hash()[..16]));
    let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let known = known.unwrap_or_default().split(',').map(|tag| tag.trim().trim_start_matches("W/"));
    let unchanged = known.into_iter().any(|known| known == tag || known == "*");
    let mut response = Response::new(Body::empty());
    let head = response.headers_mut();
    secure(head);
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        head.insert(ETAG, tag);
    }
    if unchanged {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    head.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    head.insert(CONTENT_LENGTH, file.data.len().into());
    if method == Method::GET {
        *response.body_mut() = Body::from(file.data.to_vec());
    }
    response
}

fn secure(head: &mut HeaderMap) {
    for (name, value) in HEADERS {
        head.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_is_embedded_is_served() {
        let names: Vec<String> = Files::iter().map(Into::into).collect();
        assert!(names.iter().any(|name| name == INDEX), "{names:?}");
        // These are for whoever works on them.
        let aside = |name: &str| [".md", ".d.ts", "LICENSE"].iter().any(|part| name.contains(part));
        let unknown: Vec<_> =
            names.iter().filter(|name| media_type(name).is_none() && !aside(name)).collect();
        assert!(unknown.is_empty(), "no media type in the table: {unknown:?}");
    }

    #[test]
    fn a_way_to_the_root_leads_there_from_any_depth() {
        assert_eq!(to_root("jobs"), "./");
        assert_eq!(to_root("jobs/a"), "../");
        assert_eq!(to_root("jobs/a/b"), "../../");
    }
}
