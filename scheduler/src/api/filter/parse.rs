//! The text of a filter into a tree.

use super::{DEPTH_MAX, FILTER_MAX, TERMS_MAX};

/// A filter's tree.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    Compare(Comparison),
}

/// `path op value`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Comparison {
    pub(super) path: String,
    pub(super) op: Op,
    pub(super) value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Has,
}

/// The longest spelling first.
const OPS: [(&str, Op); 7] = [
    ("!=", Op::NotEqual),
    ("<=", Op::LessEqual),
    (">=", Op::GreaterEqual),
    ("=", Op::Equal),
    ("<", Op::Less),
    (">", Op::Greater),
    (":", Op::Has),
];

/// The tree of a filter; `None` for an empty one.
///
/// # Errors
/// What is wrong, and where.
pub(super) fn parse(text: &str) -> Result<Option<Expr>, String> {
    if text.len() > FILTER_MAX {
        return Err(format!("has {} bytes; use at most {FILTER_MAX}", text.len()));
    }
    let mut parser = Parser { text, at: 0, terms: 0 };
    parser.skip_spaces();
    if parser.rest().is_empty() {
        return Ok(None);
    }
    let expr = parser.all_of(0)?;
    parser.skip_spaces();
    if parser.rest().is_empty() { Ok(Some(expr)) } else { Err(parser.fault("has a stray )")) }
}

struct Parser<'a> {
    text: &'a str,
    /// Byte offset; always on a character's first byte.
    at: usize,
    terms: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn fault(&self, what: &str) -> String {
        let at = self.text.get(..self.at).unwrap_or_default().chars().count() + 1;
        format!("{what} at character {at}")
    }

    fn skip_spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Takes the word if it stands here by itself.
    fn take_word(&mut self, word: &str) -> bool {
        self.skip_spaces();
        let found = self.rest().strip_prefix(word).is_some_and(|after| {
            after.chars().next().is_none_or(|next| next.is_whitespace() || next == '(')
        });
        if found {
            self.at += word.len();
        }
        found
    }

    /// Terms joined by AND, or standing side by side.
    fn all_of(&mut self, depth: usize) -> Result<Expr, String> {
        if depth > DEPTH_MAX {
            return Err(format!("nests deeper than {DEPTH_MAX} levels"));
        }
        let mut all = vec![self.any_of(depth)?];
        loop {
            let joined = self.take_word("AND");
            self.skip_spaces();
            if !joined && (self.rest().is_empty() || self.rest().starts_with(')')) {
                break;
            }
            all.push(self.any_of(depth)?);
        }
        Ok(match (all.pop(), all.is_empty()) {
            (Some(only), true) => only,
            (last, _) => {
                all.extend(last);
                Expr::And(all)
            }
        })
    }

    /// Terms joined by OR.
    fn any_of(&mut self, depth: usize) -> Result<Expr, String> {
        let first = self.term(depth)?;
        let mut any = Vec::new();
        while self.take_word("OR") {
            any.push(self.term(depth)?);
        }
        if any.is_empty() {
            return Ok(first);
        }
        any.insert(0, first);
        Ok(Expr::Or(any))
    }

    fn term(&mut self, depth: usize) -> Result<Expr, String> {
        self.skip_spaces();
        if depth > DEPTH_MAX {
            return Err(format!("nests deeper than {DEPTH_MAX} levels"));
        }
        if self.take_word("NOT") {
            return Ok(Expr::Not(Box::new(self.term(depth + 1)?)));
        }
        if self.rest().starts_with('-') {
            self.at += 1;
            return Ok(Expr::Not(Box::new(self.term(depth + 1)?)));
        }
        if self.rest().starts_with('(') {
            self.at += 1;
            let inner = self.all_of(depth + 1)?;
            self.skip_spaces();
            if !self.rest().starts_with(')') {
                return Err(self.fault("lacks a )"));
            }
            self.at += 1;
            return Ok(inner);
        }
        self.comparison().map(Expr::Compare)
    }

    fn comparison(&mut self) -> Result<Comparison, String> {
        self.terms += 1;
        if self.terms > TERMS_MAX {
            return Err(format!("has more than {TERMS_MAX} comparisons"));
        }
        let path = self.path()?;
        self.skip_spaces();
        let Some((sign, op)) = OPS.into_iter().find(|(sign, _)| self.rest().starts_with(sign))
        else {
            return Err(self.fault("lacks an operator (=, !=, <, <=, >, >= or :)"));
        };
        self.at += sign.len();
        let value = self.value()?;
        Ok(Comparison { path, op, value })
    }

    /// A field, such as `state` or `labels.team`; the key of a label may be quoted.
    fn path(&mut self) -> Result<String, String> {
        let stops = |c: char| c.is_whitespace() || "()=!<>:\"".contains(c);
        let rest = self.rest();
        let mut path = rest[..rest.find(stops).unwrap_or(rest.len())].to_owned();
        if path.is_empty() {
            return Err(self.fault("lacks a field"));
        }
        if matches!(path.as_str(), "AND" | "OR" | "NOT") {
            return Err(self.fault("has a dangling operator"));
        }
        self.at += path.len();
        if path.ends_with('.') && self.rest().starts_with('"') {
            path.push_str(&self.quoted()?);
        }
        Ok(path)
    }

    fn value(&mut self) -> Result<String, String> {
        self.skip_spaces();
        let rest = self.rest();
        if rest.starts_with('"') {
            return self.quoted();
        }
        let stops = |c: char| c.is_whitespace() || "()\"".contains(c);
        let value = rest[..rest.find(stops).unwrap_or(rest.len())].to_owned();
        if value.is_empty() {
            return Err(self.fault("lacks a value"));
        }
        self.at += value.len();
        Ok(value)
    }

    /// A text in double quotes; a backslash takes the next character as it is.
    fn quoted(&mut self) -> Result<String, String> {
        let mut text = String::new();
        let mut escaped = false;
        for (offset, c) in self.rest().char_indices().skip(1) {
            match c {
                _ if escaped => {
                    text.push(c);
                    escaped = false;
                }
                '\\' => escaped = true,
                '"' => {
                    self.at += offset + 1;
                    return Ok(text);
                }
                _ => text.push(c),
            }
        }
        Err(self.fault("has an unclosed quote"))
    }
}
