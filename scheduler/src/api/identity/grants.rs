//! Roles in apps, of tokens and of users.

use clawjob_proto::v1 as pb;

use crate::{
    api::{caller::EVERY_APP, convert::names, status::Violations, validate::DISPLAY_NAME_MAX},
    model::principal::{Grant, Role},
};

/// Grants of one token or user.
const GRANTS_MAX: usize = 64;

/// Adds a fault when the text is too long to be shown as a name.
pub(super) fn check_display_name(field: &str, text: &str, bad: &mut Violations) {
    if text.chars().count() > DISPLAY_NAME_MAX {
        bad.invalid(field, format!("is over {DISPLAY_NAME_MAX} characters"));
    }
}

/// Reads roles in apps; what is wrong is added under `path`.
pub(super) fn read_grants(path: &str, drafts: &[pb::Grant], bad: &mut Violations) -> Vec<Grant> {
    if drafts.len() > GRANTS_MAX {
        bad.invalid(path, format!("has over {GRANTS_MAX} entries; use the app *"));
    }
    let mut grants = Vec::new();
    for (at, draft) in drafts.iter().take(GRANTS_MAX).enumerate() {
        let field = format!("{path}[{at}]");
        let role = role_of(draft.role);
        if role.is_none() {
            let text = "must be ROLE_VIEWER, _OPERATOR, _EDITOR, _ADMIN or _EXECUTOR";
            bad.invalid(format!("{field}.role"), text);
        }
        if draft.app == EVERY_APP {
            if role == Some(Role::Executor) {
                let text = "an executor's token is bound to an app; name it instead of *";
                bad.invalid(format!("{field}.app"), text);
            }
        } else {
            names::check_new_id(&format!("{field}.app"), "app", &draft.app, bad);
        }
        grants.extend(role.map(|role| Grant { app: draft.app.clone(), role }));
    }
    grants
}

fn role_of(number: i32) -> Option<Role> {
    match pb::Role::try_from(number).ok()? {
        pb::Role::Unspecified => None,
        pb::Role::Viewer => Some(Role::Viewer),
        pb::Role::Operator => Some(Role::Operator),
        pb::Role::Editor => Some(Role::Editor),
        pb::Role::Admin => Some(Role::Admin),
        pb::Role::Executor => Some(Role::Executor),
    }
}

fn role_to_proto(role: Role) -> pb::Role {
    match role {
        Role::Viewer => pb::Role::Viewer,
        Role::Operator => pb::Role::Operator,
        Role::Editor => pb::Role::Editor,
        Role::Admin => pb::Role::Admin,
        Role::Executor => pb::Role::Executor,
    }
}

/// As the contract has them.
pub(super) fn grants_to_proto(grants: &[Grant]) -> Vec<pb::Grant> {
    grants
        .iter()
        .map(|grant| pb::Grant { app: grant.app.clone(), role: role_to_proto(grant.role).into() })
        .collect()
}
