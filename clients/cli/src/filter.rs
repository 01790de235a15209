//! Filters made from flags: terms joined by AND.

/// Terms of a filter.
pub(crate) struct Terms(Vec<String>);

impl Terms {
    /// Begins with the filter that the user wrote, set in parentheses as it may hold an OR.
    pub(crate) fn new(own: Option<&str>) -> Terms {
        let own = own.map(str::trim).filter(|text| !text.is_empty());
        Terms(own.map(|text| format!("({text})")).into_iter().collect())
    }

    /// `field = "value"`, when there is a value.
    pub(crate) fn equal(&mut self, field: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.0.push(format!("{field} = {}", quoted(value)));
        }
    }

    /// `field != "value"`.
    pub(crate) fn unequal(&mut self, field: &str, value: &str) {
        self.0.push(format!("{field} != {}", quoted(value)));
    }

    /// `labels.key = "value"`.
    pub(crate) fn label(&mut self, key: &str, value: &str) {
        // A key with a dot or a slash is no bare word.
        let bare = key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        let key = if bare { key.into() } else { quoted(key) };
        self.0.push(format!("labels.{key} = {}", quoted(value)));
    }

    /// `(field = A OR field = B)` with the contract's names of an enum's values.
    pub(crate) fn any_enum(&mut self, field: &str, name: &str, numbers: &[i32]) {
        let of = clawjob_proto::json::pool().get_enum_by_name(name);
        let name = |number: &i32| of.as_ref()?.get_value(*number).map(|v| v.name().to_owned());
        let terms: Vec<_> =
            numbers.iter().filter_map(name).map(|n| format!("{field} = {n}")).collect();
        match terms.as_slice() {
            [] => {}
            [one] => self.0.push(one.clone()),
            more => self.0.push(format!("({})", more.join(" OR "))),
        }
    }

    /// `field > "instant"`.
    pub(crate) fn after(&mut self, field: &str, from: jiff::Timestamp) {
        self.0.push(format!("{field} > \"{from}\""));
    }

    /// The whole filter; a lone one of the user's is as it was written.
    pub(crate) fn text(&self) -> String {
        match self.0.as_slice() {
            [one] => {
                let inner = one.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
                inner.unwrap_or(one).into()
            }
            all => all.join(" AND "),
        }
    }
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_joined_and_values_quoted() {
        let mut terms = Terms::new(Some("a = 1 OR b = 2"));
        assert_eq!(terms.text(), "a = 1 OR b = 2");
        terms.equal("job", Some("say \"hi\""));
        terms.equal("handler", None);
        terms.any_enum("state", "clawjob.v1.RunState", &[7, 9]);
        terms.label("team", "a");
        terms.label("x.y/z", "b");
        assert_eq!(
            terms.text(),
            "(a = 1 OR b = 2) AND job = \"say \\\"hi\\\"\" AND \
             (state = RUN_STATE_FAILED OR state = RUN_STATE_TIMED_OUT) AND \
             labels.team = \"a\" AND labels.\"x.y/z\" = \"b\""
        );
    }

    #[test]
    fn no_terms_are_no_filter() {
        let mut terms = Terms::new(Some(" "));
        terms.any_enum("state", "clawjob.v1.RunState", &[]);
        assert_eq!(terms.text(), "");
    }

    #[test]
    fn a_single_list_of_states_needs_no_parentheses() {
        let mut terms = Terms::new(None);
        terms.any_enum("state", "clawjob.v1.Job.State", &[2]);
        assert_eq!(terms.text(), "state = STATE_PAUSED");
    }
}
