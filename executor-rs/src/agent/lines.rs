//! What a command prints, line by line, into the run's log.

use clawjob_proto::v1::LogLevel;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::ctx::Ctx;

/// Longest line, in bytes; a longer one is broken.
const LINE_BYTES_MAX: usize = 8 * 1024;
/// Bytes read at once.
const READ_BYTES: usize = 8 * 1024;

/// Copies lines into the log until the end of the stream, which is when every process that holds
/// the other end has closed it. The last line is returned.
pub(super) async fn copy(
    mut from: impl AsyncRead + Unpin,
    ctx: &Ctx,
    level: LogLevel,
    stream: &str,
    last: &mut String,
) -> std::io::Result<()> {
    let mut pending = Vec::new();
    let mut chunk = vec![0; READ_BYTES];
    let mut say = |line: &[u8]| {
        let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned();
        if !line.trim().is_empty() {
            last.clone_from(&line);
        }
        ctx.log_fields(level, line, vec![("stream".to_owned(), stream.to_owned())]);
    };
    loop {
        let read = from.read(&mut chunk).await?;
        if read == 0 {
            if !pending.is_empty() {
                say(&pending);
            }
            return Ok(());
        }
        pending.extend_from_slice(&chunk[..read]);
        let mut start = 0;
        while let Some((line, next)) = next_line(&pending[start..]) {
            say(line);
            start += next;
        }
        pending.drain(..start);
    }
}

/// The first line, and where the next one begins.
fn next_line(bytes: &[u8]) -> Option<(&[u8], usize)> {
    match bytes.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n') {
        Some(end) => Some((&bytes[..end], end + 1)),
        None if bytes.len() >= LINE_BYTES_MAX => Some((&bytes[..LINE_BYTES_MAX], LINE_BYTES_MAX)),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_newlines_and_at_the_bound() {
        assert_eq!(next_line(b"a\nb"), Some((&b"a"[..], 2)));
        assert_eq!(next_line(b"\n"), Some((&b""[..], 1)));
        assert_eq!(next_line(b"b"), None);
        let long = vec![b'x'; LINE_BYTES_MAX + 1];
        assert_eq!(next_line(&long).map(|(line, next)| (line.len(), next)), Some((8192, 8192)));
    }
}
