//! Words for people.

/// A count with what is counted: `1 job`, `2 jobs`.
pub fn count(number: u64, one: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        many => format!("{many} {one}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_counted_in_the_singular() {
        assert_eq!(
            [0, 1, 2].map(|n| count(n, "open run")),
            ["0 open runs", "1 open run", "2 open runs"]
        );
    }
}
