//! Text from the server made safe for a terminal.

use std::borrow::Cow;

/// Whether a character could steer a terminal or reorder what is shown: controls of both sets,
/// and the direction marks that make text read otherwise than it is.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{61c}'
            | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// One line: every unsafe character as `\n`, `\t` or `\u{1b}`.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// Several lines: line feeds and tabs stay, and each line after the first is set in by `indent`,
/// so that no text can pose as a line of its own.
pub(crate) fn block<'a>(text: &'a str, indent: &str) -> Cow<'a, str> {
    let safe = escape(text.trim_end_matches('\n'), |c| c == '\n' || c == '\t');
    if safe.contains('\n') { safe.replace('\n', &format!("\n{indent}")).into() } else { safe }
}

/// JSON text with the unsafe characters that JSON lets through written as `\uXXXX`: the value
/// stays the same, as such characters stand only within its strings.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| is_unsafe(c) && c != '\n') {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        // All of them lie in the first plane, so one escape is enough.
        if is_unsafe(c) && c != '\n' {
            out.push_str(&format!("\\u{:04x}", c as u32));
        } else {
            out.push(c);
        }
    }
    out.into()
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|c| is_unsafe(c) && !keep(c)) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_unsafe(c) && !keep(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_controls_and_direction_marks_as_escapes() {
        assert_eq!(line("a\x1b[31mb\r\nc"), "a\\u{1b}[31mb\\r\\nc");
        assert_eq!(line("\u{9b}2J \u{202e}exe"), "\\u{9b}2J \\u{202e}exe");
        assert_eq!(line("héllo 世界"), "héllo 世界");
    }

    #[test]
    fn a_block_keeps_its_lines_but_sets_them_in() {
        assert_eq!(block("one\ntwo\x07\n", "  "), "one\n  two\\u{7}");
    }

    #[test]
    fn json_keeps_its_value() {
        let text = serde_json::to_string(&serde_json::json!({"a": "\u{9b}\u{202e}\n"})).unwrap();
        let safe = json(&text);
        assert!(!safe.chars().any(is_unsafe), "{safe}");
        let back: serde_json::Value = serde_json::from_str(&safe).unwrap();
        assert_eq!(back["a"], "\u{9b}\u{202e}\n");
    }
}
