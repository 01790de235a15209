//! Which role each method needs, and where. What is not in this table is refused.

use crate::model::principal::Role;

use Role::{Admin, Editor, Operator, Viewer};

/// Who may call a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Anybody, without a credential.
    Open,
    /// Tokens with the executor role; the session checks app, id and handlers of its Hello.
    Session,
    /// Whoever has a credential that holds, whatever its roles; it is about the caller alone.
    Anyone,
    /// Whoever has the role in some app; the handler shows just what belongs to those apps.
    Somewhere(Role),
    /// Whoever has the role in all apps (`*`).
    Everywhere(Role),
    /// Whoever has the role in the app of the resource that the field names. To others the resource
    /// does not exist.
    Named(Role, &'static str),
    /// Whoever has the role in the app (`apps/{app}`) that the field names, or, when it says
    /// `apps/-`, in some app. To others the app does not exist.
    Listed(Role, &'static str),
    /// Like `Listed`; the field may also be empty, which means some app.
    Offhand(Role, &'static str),
    /// Whoever has the role in the app (`apps/{app}`) that the field names, to make something.
    Within(Role, &'static str),
    /// Whoever has the role in the app whose bare id the field gives.
    AppId(Role, &'static str),
    /// Whoever has the role in every app that the grants in the field name.
    Granting(Role, &'static str),
    /// Whoever has the role in all apps, and the user that the field names.
    Oneself(Role, &'static str),
}

/// The rule of a method by its path without the leading slash; `None` means nobody may call it.
pub fn rule(path: &str) -> Option<Rule> {
    let (service, method) = path.split_once('/')?;
    match service {
        "grpc.health.v1.Health" => Some(Rule::Open),
        "grpc.reflection.v1.ServerReflection" | "grpc.reflection.v1alpha.ServerReflection" => {
            Some(Rule::Somewhere(Viewer))
        }
        "clawjob.v1.ExecutorService" => (method == "Session").then_some(Rule::Session),
        "clawjob.v1.JobService" => job(method),
        "clawjob.v1.RunService" => run(method),
        "clawjob.v1.FleetService" => fleet(method),
        "clawjob.v1.CalendarService" => calendar(method),
        "clawjob.v1.AlarmService" => alarm(method),
        "clawjob.v1.IdentityService" => identity(method),
        "clawjob.v1.ClusterService" => cluster(method),
        _ => None,
    }
}

fn job(method: &str) -> Option<Rule> {
    Some(match method {
        "CreateJob" => Rule::Within(Editor, "parent"),
        "GetJob" | "ListJobRevisions" => Rule::Named(Viewer, "name"),
        "ListJobs" | "ForecastRuns" => Rule::Listed(Viewer, "parent"),
        "UpdateJob" => Rule::Named(Editor, "job.name"),
        "DeleteJob" | "RollbackJob" => Rule::Named(Editor, "name"),
        "PauseJob" | "ResumeJob" | "TriggerJob" | "BackfillJob" => Rule::Named(Operator, "name"),
        "PreviewSchedule" => Rule::Offhand(Viewer, "parent"),
        _ => return None,
    })
}

fn run(method: &str) -> Option<Rule> {
    Some(match method {
        "GetRun" | "WaitRun" | "ListRunLogs" | "TailRunLogs" => Rule::Named(Viewer, "name"),
        "ListRuns" | "WatchRuns" => Rule::Listed(Viewer, "parent"),
        "CancelRun" | "RerunRun" => Rule::Named(Operator, "name"),
        _ => return None,
    })
}

fn fleet(method: &str) -> Option<Rule> {
    Some(match method {
        "GetExecutor" => Rule::Named(Viewer, "name"),
        "ListExecutors" | "ListHandlers" => Rule::Listed(Viewer, "parent"),
        "CordonExecutor" | "UncordonExecutor" | "DisconnectExecutor" | "DeleteExecutor" => {
            Rule::Named(Operator, "name")
        }
        _ => return None,
    })
}

fn calendar(method: &str) -> Option<Rule> {
    Some(match method {
        "CreateCalendar" => Rule::Within(Editor, "parent"),
        "GetCalendar" => Rule::Named(Viewer, "name"),
        "ListCalendars" => Rule::Listed(Viewer, "parent"),
        "UpdateCalendar" => Rule::Named(Editor, "calendar.name"),
        "DeleteCalendar" => Rule::Named(Editor, "name"),
        _ => return None,
    })
}

fn alarm(method: &str) -> Option<Rule> {
    Some(match method {
        "CreateAlarmRule" => Rule::Within(Editor, "parent"),
        "GetAlarmRule" => Rule::Named(Viewer, "name"),
        "ListAlarmRules" | "ListAlarms" => Rule::Listed(Viewer, "parent"),
        "UpdateAlarmRule" => Rule::Named(Editor, "alarm_rule.name"),
        "DeleteAlarmRule" => Rule::Named(Editor, "name"),
        "TestAlarmRule" | "AcknowledgeAlarm" => Rule::Named(Operator, "name"),
        _ => return None,
    })
}

fn identity(method: &str) -> Option<Rule> {
    Some(match method {
        "Login" => Rule::Open,
        "Logout" | "WhoAmI" => Rule::Anyone,
        "CreateUser" | "ListUsers" | "DeleteUser" => Rule::Everywhere(Admin),
        "GetUser" => Rule::Oneself(Admin, "name"),
        "UpdateUser" => Rule::Oneself(Admin, "user.name"),
        "CreateToken" => Rule::Granting(Admin, "token.grants.app"),
        "ListTokens" | "RevokeToken" => Rule::Somewhere(Admin),
        _ => return None,
    })
}

fn cluster(method: &str) -> Option<Rule> {
    Some(match method {
        "GetServerInfo" => Rule::Open,
        "GetCluster" | "ListApps" => Rule::Somewhere(Viewer),
        "DrainNode" => Rule::Everywhere(Admin),
        "ListAuditEvents" => Rule::Somewhere(Admin),
        "CreateApp" => Rule::AppId(Admin, "app_id"),
        "UpdateApp" => Rule::Named(Admin, "app.name"),
        "DeleteApp" => Rule::Named(Admin, "name"),
        _ => return None,
    })
}

/// Whether a method changes nothing. It is told by the first word of its name; what is not known to
/// read is taken for a change.
pub fn reads(path: &str) -> bool {
    const READING: [&str; 8] =
        ["Get", "List", "Watch", "Tail", "Wait", "Preview", "Forecast", "WhoAmI"];
    let Some((service, method)) = path.split_once('/') else { return false };
    let own = service.starts_with("clawjob.v1.");
    !own || READING.iter().any(|word| method.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawjob_proto::json::pool;

    #[test]
    fn every_method_of_the_contract_has_a_rule_whose_field_exists() {
        let mut seen = 0;
        for service in pool().services() {
            for method in service.methods() {
                let path = format!("{}/{}", service.full_name(), method.name());
                let rule = rule(&path).unwrap_or_else(|| panic!("{path} has no rule"));
                seen += 1;
                let (Rule::Named(_, field)
                | Rule::Listed(_, field)
                | Rule::Offhand(_, field)
                | Rule::Within(_, field)
                | Rule::AppId(_, field)
                | Rule::Oneself(_, field)
                | Rule::Granting(_, field)) = rule
                else {
                    continue;
                };
                let mut message = Some(method.input());
                for part in field.split('.') {
                    let at = message.take().unwrap_or_else(|| panic!("{path}: {field}"));
                    let found = at.get_field_by_name(part);
                    let found = found.unwrap_or_else(|| panic!("{path}: no field {field}"));
                    message = found.kind().as_message().cloned();
                }
                assert!(message.is_none(), "{path}: {field} is no text");
            }
        }
        assert!(seen > 50, "{seen}");
    }

    #[test]
    fn what_reads_is_told_from_what_changes() {
        let mut changes: Vec<String> = pool()
            .services()
            .flat_map(|service| service.methods().collect::<Vec<_>>())
            .map(|m| format!("{}/{}", m.parent_service().full_name(), m.name()))
            .filter(|path| !reads(path))
            .filter_map(|path| path.rsplit('/').next().map(str::to_owned))
            .collect();
        changes.sort_unstable();
        // Written by hand: a method that changes something must stand here.
        let expected = [
            "AcknowledgeAlarm",
            "BackfillJob",
            "CancelRun",
            "CordonExecutor",
            "CreateAlarmRule",
            "CreateApp",
            "CreateCalendar",
            "CreateJob",
            "CreateToken",
            "CreateUser",
            "DeleteAlarmRule",
            "DeleteApp",
            "DeleteCalendar",
            "DeleteExecutor",
            "DeleteJob",
            "DeleteUser",
            "DisconnectExecutor",
            "DrainNode",
            "Login",
            "Logout",
            "PauseJob",
            "RerunRun",
            "ResumeJob",
            "RevokeToken",
            "RollbackJob",
            "Session",
            "TestAlarmRule",
            "TriggerJob",
            "UncordonExecutor",
            "UpdateAlarmRule",
            "UpdateApp",
            "UpdateCalendar",
            "UpdateJob",
            "UpdateUser",
        ];
        assert_eq!(changes, expected);
        assert!(!reads("clawjob.v1.NewService/Do") && !reads("x"));
    }

    #[test]
    fn what_nobody_declared_is_refused() {
        for path in ["clawjob.v1.JobService/Explode", "clawjob.v1.NewService/Get", "x/y", "x", ""] {
            assert_eq!(rule(path), None, "{path}");
        }
    }

    #[test]
    fn only_what_needs_no_credential_is_open() {
        let open: Vec<_> = pool()
            .services()
            .flat_map(|service| service.methods().collect::<Vec<_>>())
            .filter(|m| {
                rule(&format!("{}/{}", m.parent_service().full_name(), m.name()))
                    == Some(Rule::Open)
            })
            .map(|method| method.name().to_owned())
            .collect();
        assert_eq!(open, ["GetServerInfo", "Login"]);
    }
}
