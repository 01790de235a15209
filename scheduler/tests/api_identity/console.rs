//! The console's files.

use clawjob_scheduler::api::ApiSettings;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION,
    X_CONTENT_TYPE_OPTIONS,
};

use crate::harness::Server;

fn client() -> reqwest::Client {
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    client.build().expect("a client")
}

async fn get(url: &str, accept: &str) -> reqwest::Response {
    client().get(url).header(ACCEPT, accept).send().await.expect("answers")
}

fn header(response: &reqwest::Response, name: http::HeaderName) -> String {
    let value = response.headers().get(name).map(|value| value.to_str().expect("text"));
    value.unwrap_or_default().to_owned()
}

#[tokio::test]
async fn the_page_comes_without_a_credential_and_allows_nothing_of_others() {
    let server = Server::start().await;
    let page = get(&server.url, "text/html").await;
    assert_eq!(
        (page.status().as_u16(), header(&page, CONTENT_TYPE)),
        (200, "text/html; charset=utf-8".into())
    );
    assert_eq!(header(&page, X_CONTENT_TYPE_OPTIONS), "nosniff");
    let policy = header(&page, CONTENT_SECURITY_POLICY);
    for part in
        ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"]
    {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    let text = page.text().await.expect("a page");
    assert!(text.contains("<title>ClawJob</title>"), "{text}");
    assert!(!text.contains("<style") && !text.contains(" style=") && !text.contains(" onclick="));
    for script in text.split("<script").skip(1) {
        assert!(script.contains(" src=") && script.contains("></script>"), "inline: {script}");
    }
}

#[tokio::test]
async fn a_file_that_the_browser_has_is_not_sent_again() {
    let server = Server::start().await;
    let first = get(&server.url, "text/html").await;
    assert_eq!(header(&first, CACHE_CONTROL), "no-cache");
    let tag = header(&first, ETAG);
    let request = client().get(&server.url).header(IF_NONE_MATCH, &tag);
    let again = request.send().await.expect("answers");
    assert_eq!((again.status().as_u16(), header(&again, ETAG)), (304, tag));
    assert_eq!(again.text().await.expect("no body"), "");
    let request = client().get(&server.url).header(IF_NONE_MATCH, "\"another\"");
    assert_eq!(request.send().await.expect("answers").status(), 200);
    let head = client().head(&server.url).send().await.expect("answers");
    assert_eq!((head.status().as_u16(), head.text().await.expect("no body")), (200, String::new()));
}

#[tokio::test]
async fn a_page_that_is_not_there_leads_to_the_console_and_a_missing_file_is_missing() {
    let server = Server::start().await;
    for (path, to) in [("/jobs", "./"), ("/jobs/a.b/c", "../../"), ("/favicon.gif", "./")] {
        let page = get(&format!("{}{path}", server.url), "text/html,*/*").await;
        assert_eq!((page.status().as_u16(), header(&page, LOCATION)), (302, to.into()), "{path}");
    }
    for path in ["/missing.js", "/..%2f..%2fCargo.toml", "/../Cargo.toml", "/%00", "/index.html/"] {
        let missing = get(&format!("{}{path}", server.url), "*/*").await;
        assert_eq!(missing.status(), 404, "{path}");
    }
    let posted = client().post(&server.url).send().await.expect("answers");
    assert_eq!(posted.status(), 404);
}

#[tokio::test]
async fn under_a_context_path_all_is_served_and_the_bare_path_leads_behind_its_slash() {
    let settings = ApiSettings { context_path: "/tools/clawjob".into(), ..ApiSettings::default() };
    let server = Server::start_with(settings).await;
    let bare = get(&format!("{}/tools/clawjob", server.url), "text/html").await;
    assert_eq!((bare.status().as_u16(), header(&bare, LOCATION)), (302, "clawjob/".into()));
    for path in ["/tools/clawjob/", "/tools/clawjob/index.html", "/"] {
        let page = get(&format!("{}{path}", server.url), "text/html").await;
        assert_eq!(page.status(), 200, "{path}");
        assert!(page.text().await.expect("a page").contains("<title>ClawJob</title>"));
    }
    let url = format!("{}/tools/clawjob/clawjob.v1.ClusterService/GetServerInfo", server.url);
    let info = client().post(url).header(CONTENT_TYPE, "application/json").body("{}").send().await;
    let info: serde_json::Value = info.expect("answers").json().await.expect("JSON");
    assert_eq!(info["contextPath"], "/tools/clawjob");
}
