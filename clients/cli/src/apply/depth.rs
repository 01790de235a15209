//! How deep a file nests, looked at before the parser reads it, whose time grows with the square of
//! the depth.

/// Deepest nesting of brackets; the reader of the parsed file takes no more either.
pub(super) const DEPTH_MAX: usize = 128;

/// The line in which brackets first nest deeper than [`DEPTH_MAX`]. Quoted text and comments are
/// passed over, and a line that begins with `- ` can stand within no bracket: so what is no
/// structure, such as a lone bracket in a description, adds up to nothing.
pub(super) fn too_deep(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_usize, None);
    for (index, line) in text.lines().enumerate() {
        if quote.is_none() && line.trim_start().starts_with("- ") {
            depth = 0;
        }
        let mut before = ' ';
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            match (quote, letter) {
                (Some('"'), '\\') => drop(letters.next()),
                // Two of them within such text are one.
                (Some('\''), '\'') if letters.peek() == Some(&'\'') => drop(letters.next()),
                (Some(open), _) if open == letter => quote = None,
                (Some(_), _) => {}
                (None, '"' | '\'') if " \t[{,:".contains(before) => quote = Some(letter),
                (None, '#') if before.is_whitespace() => break,
                (None, '[' | '{') => depth += 1,
                (None, ']' | '}') => depth = depth.saturating_sub(1),
                (None, _) => {}
            }
            if depth > DEPTH_MAX {
                return Some(index + 1);
            }
            before = letter;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_bracket_too_many_is_found() {
        let deep =
            |levels: usize| format!("a: 1\nb: {}{}\n", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(too_deep(&deep(DEPTH_MAX)), None);
        assert_eq!(too_deep(&deep(DEPTH_MAX + 1)), Some(2));
        assert_eq!(too_deep(&"{a:\n".repeat(200)), Some(DEPTH_MAX + 1));
    }

    #[test]
    fn brackets_that_nest_nothing_are_no_depth() {
        let many = |line: &str| format!("- {line}\n").repeat(1_000);
        assert_eq!(too_deep(&many("text: \"[ \\\" [\"")), None);
        assert_eq!(too_deep(&many("text: 'it''s [ and ['")), None);
        assert_eq!(too_deep(&many("a: 1 # [[[")), None);
        assert_eq!(too_deep(&many("text: a smile :-[ and rock 'n' roll")), None);
        assert_eq!(too_deep(&many("a: [1, {b: 2}]")), None);
    }
}
