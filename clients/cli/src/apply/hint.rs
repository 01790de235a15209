//! What may have been meant by a key that the contract lacks.

use prost_reflect::MessageDescriptor;

/// Names the known key that an unknown one most resembles; empty when none is near.
pub(super) fn of(key: &str, descriptor: &MessageDescriptor) -> String {
    let plain = |text: &str| text.to_lowercase().replace(['_', '-'], "");
    let fields = descriptor.fields().map(|field| field.json_name().to_owned());
    let nearest = fields.map(|name| (distance(&plain(&name), &plain(key)), name)).min();
    match nearest {
        Some((steps, name)) if steps <= 2 => format!("; is {name} meant?"),
        _ => String::new(),
    }
}

/// How many letters must change to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_found_and_strangers_are_not() {
        assert_eq!(distance("handlr", "handler"), 1);
        assert_eq!(distance("", "abc"), 3);
        let job = clawjob_proto::json::pool().get_message_by_name("clawjob.v1.Job").unwrap();
        assert_eq!(of("time-out", &job), "; is timeout meant?");
        assert_eq!(of("colour", &job), "");
    }
}
