//! The configuration as it may be shown.

use std::fmt::Write as _;

use super::Config;

/// The effective configuration as YAML, without what a connection string keeps secret.
///
/// # Errors
/// None in practice: every value has a YAML form.
pub fn print(config: &Config) -> Result<String, serde_norway::Error> {
    let mut shown = config.clone();
    for url in [&mut shown.database, &mut shown.database_pool].into_iter().flatten() {
        *url = without_password(url);
    }
    shown.alarm.hide();
    serde_norway::to_string(&shown)
}

/// A connection string with its password replaced.
pub fn without_password(url: &str) -> String {
    let mut shown = String::with_capacity(url.len());
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => {
            let user = &url[scheme + 3..at];
            let name = user.split(':').next().unwrap_or_default();
            let secret = if user.contains(':') { ":***" } else { "" };
            let _ = write!(shown, "{}://{name}{secret}{}", &url[..scheme], &url[at..]);
        }
        _ => shown.push_str(url),
    }
    match shown.find("password=") {
        Some(start) => {
            let rest = &shown[start..];
            let end = rest.find('&').map_or(shown.len(), |end| start + end);
            format!("{}password=***{}", &shown[..start], &shown[end..])
        }
        None => shown,
    }
}
