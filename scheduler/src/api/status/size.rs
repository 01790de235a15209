//! How large an error may be on its way.
//!
//! gRPC's mapping to HTTP/2 (PROTOCOL-HTTP2, "Responses") lets a client refuse more than 8 KiB of
//! headers, or of trailers, and counts each header as HTTP/2 does (RFC 9113, 6.5.2): its name, its
//! value as it travels, and 32 bytes. An error that is larger never reaches its reader: the call
//! ends with a fault of the transport, and with some clients the connection does.

use crate::hub::wire;

/// Headers, or trailers, that every gRPC client takes, in bytes.
pub const HEADERS_BYTES_MAX: usize = 8 * 1024;
/// One text of an error, such as a field's path or what is wrong with it, in bytes; the rest is cut.
pub const TEXT_BYTES_MAX: usize = 512;

/// All but an error's violations: the other headers and details of the answer, in bytes.
const OTHERS_BYTES_MAX: usize = 1280;
/// Violations in one answer, as they travel, in bytes; one of the longest texts fits.
const VIOLATIONS_BYTES_MAX: usize = HEADERS_BYTES_MAX - OTHERS_BYTES_MAX;

/// The text, or its start.
pub(super) fn cut(text: String) -> String {
    const MARK: &str = "…";
    if text.len() <= TEXT_BYTES_MAX {
        return text;
    }
    format!("{}{MARK}", wire::start(&text, TEXT_BYTES_MAX - MARK.len()))
}

/// What is left for violations.
#[derive(Debug)]
pub(super) struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(VIOLATIONS_BYTES_MAX)
    }
}

impl Room {
    /// Whether one more violation fits; then its room is taken.
    pub(super) fn take(&mut self, field: &str, description: &str) -> bool {
        /// Between two of them in the message.
        const JOINTS: &str = ": ; ";
        /// Tags and lengths of a violation in `BadRequest`.
        const TAGS_BYTES_MAX: usize = 9;
        let text = field.len() + description.len() + JOINTS.len();
        let in_message =
            [field, description, JOINTS].into_iter().map(percent_encoded).sum::<usize>();
        // `grpc-status-details-bin` repeats the message beside the violations.
        let in_details = (2 * text + TAGS_BYTES_MAX).div_ceil(3) * 4;
        match self.0.checked_sub(in_message + in_details) {
            Some(left) => self.0 = left,
            None => return false,
        }
        true
    }
}

/// Bytes of a text in `grpc-message`: a byte that may not stand there takes three.
fn percent_encoded(text: &str) -> usize {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"\"#%<>`?{}".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { 1 } else { 3 }).sum()
}
