//! Roles in apps as people write and read them: `demo=viewer`.

use clawjob_proto::v1::{Grant, Role};

use crate::{
    show::word_of,
    values::{self, ROLES},
};

/// Reads `APP=ROLE`.
///
/// # Errors
/// What is wrong with it, and which roles there are.
pub(crate) fn grant(text: &str) -> Result<Grant, String> {
    let (app, role) = values::pair(text)?;
    let known = ROLES.iter().find(|(word, _)| *word == role.to_lowercase());
    let role = known.map(|(_, number)| *number).ok_or_else(|| {
        let words: Vec<&str> = ROLES.iter().map(|(word, _)| word.as_str()).collect();
        format!("{role:?} is not a role; there are {}", words.join(", "))
    })?;
    Ok(Grant { app, role })
}

/// All of them in one line.
pub(crate) fn grants(grants: &[Grant]) -> String {
    let of = |g: &Grant| format!("{}={}", g.app, word_of!(Role, "ROLE_", g.role).to_lowercase());
    grants.iter().map(of).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_read_and_shown_alike() {
        let read = grant("demo=executor").unwrap();
        assert_eq!((read.app.as_str(), read.role), ("demo", Role::Executor as i32));
        assert_eq!(grants(&[read, grant("*=admin").unwrap()]), "demo=executor, *=admin");
        assert!(grant("demo=boss").unwrap_err().contains("viewer"));
        assert!(grant("demo").is_err());
    }
}
