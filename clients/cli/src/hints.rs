//! How to look around in a server that was just started.

use std::path::Path;

use crate::{client::DEFAULT_ENDPOINT, token::ADMIN_TOKEN_FILE};

/// Lines for the terminal of `clawjob dev`: commands that work as printed, in a shell in the same
/// directory. `program` is how the binary is called, `url` the server's, `token_file` the file with
/// the admin token, `app` the app to look at.
pub fn hints(program: &str, url: &str, token_file: &Path, app: &str) -> Vec<String> {
    let token_file = token_file.display().to_string();
    let program = quoted(program);
    let mut flags = String::new();
    if url.trim_end_matches('/') != DEFAULT_ENDPOINT {
        flags += &format!(" --endpoint {}", quoted(url));
    }
    if token_file.trim_start_matches("./") != ADMIN_TOKEN_FILE {
        flags += &format!(" --token-file {}", quoted(&token_file));
    }
    let bearer = format!("-H \"authorization: Bearer $(cat {})\"", quoted(&token_file));
    let url = url.trim_end_matches('/');
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    let plain = if url.starts_with("https:") { "" } else { " -plaintext" };
    let body = quoted(&format!("{{\"parent\":\"apps/{app}\"}}"));
    vec![
        format!("{program} runs list{flags}"),
        format!("{program} runs watch{flags}"),
        format!("{program} jobs list{flags}"),
        format!("{program} jobs --help"),
        format!("grpcurl{plain} {bearer} -d {body} {address} clawjob.v1.JobService/ListJobs"),
        format!(
            "curl {bearer} -H 'content-type: application/json' -d {body} \
             {url}/clawjob.v1.JobService/ListJobs"
        ),
    ]
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_need_no_flags() {
        let lines =
            hints("clawjob", "http://127.0.0.1:7700", Path::new("./clawjob-data/admin.token"), "a");
        assert_eq!(lines[0], "clawjob runs list");
        assert_eq!(
            lines[4],
            "grpcurl -plaintext -H \"authorization: Bearer $(cat ./clawjob-data/admin.token)\" \
             -d '{\"parent\":\"apps/a\"}' 127.0.0.1:7700 clawjob.v1.JobService/ListJobs"
        );
    }

    #[test]
    fn another_address_and_directory_are_named_and_quoted() {
        let lines = hints("./c", "https://h:1", Path::new("/my data/admin.token"), "a");
        assert_eq!(
            lines[0],
            "./c runs list --endpoint https://h:1 --token-file '/my data/admin.token'"
        );
        assert!(lines[4].starts_with("grpcurl -H "), "{}", lines[4]);
        assert!(lines[5].contains("$(cat '/my data/admin.token')"), "{}", lines[5]);
    }
}
