//! Where the token comes from.

use std::{
    fs,
    io::{self, ErrorKind, Read as _},
    path::Path,
};

use tonic::metadata::{Ascii, MetadataValue};

use crate::{args::ClientArgs, terminal::Terminal};

/// Where a server started in this directory leaves the first token.
pub(crate) const ADMIN_TOKEN_FILE: &str = "clawjob-data/admin.token";
/// Longest token in bytes; more is surely another file.
const TOKEN_BYTES_MAX: usize = 8 << 10;

/// What calls are made with.
#[derive(Debug)]
pub(crate) struct Token {
    /// The `authorization` header.
    pub(crate) header: MetadataValue<Ascii>,
    /// Where it was found, for who looks into a refusal.
    pub(crate) source: String,
}

/// The token: `--token-file`, else CLAWJOB_TOKEN, else CLAWJOB_TOKEN_FILE, else,
/// and only for a server of this machine, the file that the server itself wrote.
///
/// # Errors
/// A file that was named but cannot be read, or a token that no header can carry.
pub(crate) fn find(
    args: &ClientArgs,
    term: &Terminal,
    local: bool,
) -> Result<Option<Token>, String> {
    if let Some(path) = &args.token_file {
        return read(path, "--token-file").map(Some);
    }
    if let Some(token) = term.var("CLAWJOB_TOKEN") {
        return checked(token, "CLAWJOB_TOKEN").map(Some);
    }
    if let Some(path) = term.var("CLAWJOB_TOKEN_FILE") {
        return read(Path::new(path), "CLAWJOB_TOKEN_FILE").map(Some);
    }
    let fallback = term.directory.join(ADMIN_TOKEN_FILE);
    match fs::metadata(&fallback) {
        Ok(_) if local => match text_of(&fallback) {
            Ok(token) => checked(&token, ADMIN_TOKEN_FILE).map(Some),
            // Another user's server: go on without a token.
            Err(e) if e.kind() == ErrorKind::PermissionDenied => Ok(None),
            Err(e) => Err(format!("{}: {e}", fallback.display())),
        },
        _ => Ok(None),
    }
}

fn read(path: &Path, source: &str) -> Result<Token, String> {
    let named = format!("{source} {}", path.display());
    let token = text_of(path).map_err(|e| format!("{named}: {e}"))?;
    checked(&token, &named)
}

/// The beginning of a file, which is all of it if a token is what it holds.
fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(2 * TOKEN_BYTES_MAX as u64).read_to_string(&mut text)?;
    Ok(text)
}

fn checked(token: &str, source: &str) -> Result<Token, String> {
    let token = token.trim();
    let fault = if token.is_empty() {
        "is empty"
    } else if token.len() > TOKEN_BYTES_MAX {
        "is longer than any token"
    } else if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        "is not one word of ASCII characters"
    } else {
        let header = format!("Bearer {token}").parse();
        let mut header: MetadataValue<Ascii> = header.map_err(|e| format!("{source}: {e}"))?;
        header.set_sensitive(true);
        return Ok(Token { header, source: source.to_owned() });
    };
    Err(format!("{source}: {fault}; put the token there as `clawjob tokens create` printed it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminal(dir: &Path, vars: &[(&str, &str)]) -> Terminal {
        let mut term = Terminal::of_process();
        term.directory = dir.into();
        term.env = vars.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        term
    }

    fn shown(found: Result<Option<Token>, String>) -> Option<String> {
        found.unwrap().map(|token| token.header.to_str().unwrap().into())
    }

    #[test]
    fn sources_have_an_order() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t");
        fs::write(&file, "from-file\n").unwrap();
        let file_text = file.to_str().unwrap();
        let args = ClientArgs { token_file: Some(file.clone()), ..ClientArgs::default() };
        let both = [("CLAWJOB_TOKEN", "from-env"), ("CLAWJOB_TOKEN_FILE", file_text)];
        let of = |args: &ClientArgs, vars: &[(&str, &str)]| {
            shown(find(args, &terminal(dir.path(), vars), true))
        };
        assert_eq!(of(&args, &both).as_deref(), Some("Bearer from-file"));
        let none = ClientArgs::default();
        assert_eq!(of(&none, &both).as_deref(), Some("Bearer from-env"));
        assert_eq!(of(&none, &both[1..]).as_deref(), Some("Bearer from-file"));
        assert_eq!(of(&none, &[("CLAWJOB_TOKEN", "")]), None);
    }

    #[test]
    fn the_admin_token_file_serves_only_a_server_of_this_machine() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("clawjob-data")).unwrap();
        fs::write(dir.path().join(ADMIN_TOKEN_FILE), "secret\n").unwrap();
        let (args, term) = (ClientArgs::default(), terminal(dir.path(), &[]));
        assert_eq!(shown(find(&args, &term, true)).as_deref(), Some("Bearer secret"));
        assert_eq!(shown(find(&args, &term, false)), None);
    }

    #[test]
    fn a_file_without_an_end_is_no_token() {
        let dir = tempfile::tempdir().unwrap();
        let args = ClientArgs { token_file: Some("/dev/zero".into()), ..ClientArgs::default() };
        let fault = find(&args, &terminal(dir.path(), &[]), true).unwrap_err();
        assert!(fault.contains("/dev/zero: is longer than any token"), "{fault}");
    }

    #[test]
    fn a_named_source_must_be_there_and_hold_one_word() {
        let dir = tempfile::tempdir().unwrap();
        let term = terminal(dir.path(), &[("CLAWJOB_TOKEN_FILE", "/nonexistent/token")]);
        let fault = find(&ClientArgs::default(), &term, true).unwrap_err();
        assert!(fault.contains("CLAWJOB_TOKEN_FILE /nonexistent/token"), "{fault}");
        let long = "x".repeat(TOKEN_BYTES_MAX + 1);
        for (token, fault) in [
            (" \n", "is empty; "),
            ("two words", "is not one word of ASCII characters; "),
            ("\u{e9}", "is not one word of ASCII characters; "),
            (long.as_str(), "is longer than any token; "),
        ] {
            let term = terminal(dir.path(), &[("CLAWJOB_TOKEN", token)]);
            let told = find(&ClientArgs::default(), &term, true).unwrap_err();
            assert!(told.starts_with(&format!("CLAWJOB_TOKEN: {fault}")), "{told}");
            assert!(told.contains("clawjob tokens create"), "{told}");
        }
    }
}
