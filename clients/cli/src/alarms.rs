//! `clawjob alarms` and `clawjob alarm-rules`.

use clap::{ArgAction, Args, Subcommand};
use clawjob_proto::v1::{
    AcknowledgeAlarmRequest, Alarm, AlarmRule, Channel, CreateAlarmRuleRequest,
    DeleteAlarmRuleRequest, GetAlarmRuleRequest, ListAlarmRulesRequest, ListAlarmsRequest,
    TestAlarmRuleRequest, UpdateAlarmRuleRequest, alarm_rule::Condition, channel,
    test_alarm_rule_response::Delivery,
};
use comfy_table::Color;
use jiff::tz::TimeZone;
use prost_types::FieldMask;

use crate::{
    client::{self, Call, Client, alarms},
    context::Context,
    error::CliError,
    filter::Terms,
    names::{self, Kind},
    output::{self, Columns, Fields, ListPrinter},
    paging::{self, ListArgs, Page},
    show::{self, Cell, word_of},
    terminal::Terminal,
    values::{self, CONDITIONS},
};

/// Commands about alarms. A name is APP/ALARM, or ALARM with --app.
#[derive(Subcommand, Debug, Clone)]
pub enum AlarmsCommand {
    /// List alarms, newest first
    List(AlarmsListArgs),
    /// Mark an alarm as seen
    Ack {
        /// APP/ALARM
        name: String,
        /// For the others
        #[arg(long, default_value = "", hide_default_value = true)]
        comment: String,
    },
}

/// What `alarms list` takes.
#[derive(Args, Debug, Clone)]
pub struct AlarmsListArgs {
    /// Only those about this job: APP/JOB
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    /// Only those that this rule raised: APP/RULE
    #[arg(long, value_name = "RULE")]
    rule: Option<String>,
    /// Only those that nobody has acknowledged
    #[arg(long)]
    open: bool,
    /// Only those that match, such as 'condition = RUN_LOST'
    #[arg(long)]
    filter: Option<String>,
    #[command(flatten)]
    list: ListArgs,
}

/// Commands about alarm rules. A name is APP/RULE, or RULE with --app.
#[derive(Subcommand, Debug, Clone)]
pub enum AlarmRulesCommand {
    /// Create a rule
    Create(AlarmRuleArgs),
    /// Show one rule, without its secrets
    Get {
        /// APP/RULE
        name: String,
    },
    /// List rules
    List(AlarmRulesListArgs),
    /// Change a rule: only what is named; channels are replaced together
    Update(AlarmRuleArgs),
    /// Delete a rule; its alarms stay, and what it has not delivered is dropped
    Delete {
        /// APP/RULE
        name: String,
        /// Only if it is still at this etag
        #[arg(long, default_value = "", hide_default_value = true)]
        etag: String,
    },
    /// Send a sample through its channels and show what each answers
    Test {
        /// APP/RULE
        name: String,
    },
}

/// What `alarm-rules list` takes.
#[derive(Args, Debug, Clone)]
pub struct AlarmRulesListArgs {
    #[command(flatten)]
    list: ListArgs,
}

/// A rule's name and content.
#[derive(Args, Debug, Clone, Default)]
pub struct AlarmRuleArgs {
    /// APP/RULE
    name: String,
    /// Its name for people
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,
    /// Which ends of runs it is about
    #[arg(long = "on", value_name = "CONDITION", value_parser = values::one_of(&CONDITIONS))]
    condition: Option<i32>,
    /// Which jobs, such as 'labels.team = "data"'; all of the app when left out
    #[arg(long)]
    filter: Option<String>,
    /// How often in a row before it fires
    #[arg(long, value_name = "COUNT")]
    threshold: Option<u32>,
    /// POST to this URL; repeatable
    #[arg(long = "webhook", value_name = "URL")]
    webhooks: Vec<String>,
    /// File with the secret that signs the webhooks; - is stdin
    #[arg(long, value_name = "FILE", requires = "webhooks")]
    secret_file: Option<String>,
    /// A header of the webhooks, NAME=VALUE or NAME=@FILE; repeatable
    #[arg(long = "header", value_name = "NAME=VALUE", requires = "webhooks")]
    #[arg(value_parser = values::pair)]
    headers: Vec<(String, String)>,
    /// Mail to this address; repeatable
    #[arg(long = "mail", value_name = "ADDRESS")]
    mails: Vec<String>,
    /// Whether it raises nothing for now
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    #[arg(action = ArgAction::Set)]
    disabled: Option<bool>,
}

const ALARMS: Columns<Alarm> = Columns {
    headers: &["ALARM", "FIRED", "SUBJECT", "RULE", "SENT", "ACKNOWLEDGED", "TROUBLE"],
    row: |alarm, zone| {
        vec![
            names::short(&alarm.name).into(),
            show::instant(alarm.fire_time.as_ref(), zone).into(),
            Cell::from(&alarm.subject),
            rule_of(alarm).into(),
            alarm.deliveries.to_string().into(),
            Cell::from(&alarm.acknowledged_by),
            Cell::from(&alarm.last_delivery_error),
        ]
    },
};

const RULES: Columns<AlarmRule> = Columns {
    headers: &["RULE", "ON", "FILTER", "IN A ROW", "CHANNELS", "DISABLED"],
    row: |rule, _| {
        vec![
            names::short(&rule.name).into(),
            condition(rule).into(),
            Cell::from(&rule.filter),
            rule.threshold.max(1).to_string().into(),
            channels(rule).into(),
            if rule.disabled { "yes" } else { "" }.into(),
        ]
    },
};

const DELIVERIES: Columns<Delivery> = Columns {
    headers: &["CHANNEL", "OK", "ANSWER"],
    row: |delivery, _| {
        let (word, colour) = if delivery.ok { ("yes", Color::Green) } else { ("no", Color::Red) };
        vec![
            delivery.channel_index.to_string().into(),
            Cell { text: word.into(), colour: Some(colour) },
            Cell::from(&delivery.detail),
        ]
    },
};

fn rule_of(alarm: &Alarm) -> String {
    match alarm.rule.as_str() {
        "" => "(configuration)".into(),
        rule => names::short(rule),
    }
}

fn condition(rule: &AlarmRule) -> String {
    word_of!(Condition, "CONDITION_", rule.condition).to_lowercase().replace('_', "-")
}

fn channels(rule: &AlarmRule) -> String {
    let of = |channel: &Channel| match &channel.kind {
        Some(channel::Kind::Webhook(hook)) => hook.url.clone(),
        Some(channel::Kind::Email(mail)) => mail.to.join(", "),
        Some(channel::Kind::ChatRobot(robot)) => robot.url.clone(),
        None => String::new(),
    };
    rule.channels.iter().map(of).collect::<Vec<_>>().join(", ")
}

/// # Errors
/// What the server or the output says.
pub(crate) async fn run(ctx: &mut Context<'_>, command: AlarmsCommand) -> Result<(), CliError> {
    match command {
        AlarmsCommand::List(args) => list(ctx, args).await,
        AlarmsCommand::Ack { name, comment } => {
            let rq = AcknowledgeAlarmRequest { name: ctx.name(Kind::Alarm, &name)?, comment };
            let rpc = async |ch, rq| alarms(ch).acknowledge_alarm(rq).await;
            let alarm = ctx.client.call(Call::SAFE, rq, rpc).await?;
            output::message(ctx.term, ctx.format, &alarm, alarm_fields)
        }
    }
}

async fn list(ctx: &mut Context<'_>, args: AlarmsListArgs) -> Result<(), CliError> {
    let mut terms = Terms::new(args.filter.as_deref());
    let named =
        |kind, name: &Option<String>| name.as_deref().map(|name| ctx.name(kind, name)).transpose();
    terms.equal("job", named(Kind::Job, &args.job)?.as_deref());
    terms.equal("rule", named(Kind::AlarmRule, &args.rule)?.as_deref());
    terms.equal("acknowledged", args.open.then_some("false"));
    let (parent, filter) = (ctx.parent(), terms.text());
    paging::print_list(ctx, &args.list, "alarms", &ALARMS, async |client, size, token| {
        let rq = ListAlarmsRequest {
            parent: parent.clone(),
            page_size: size,
            page_token: token,
            filter: filter.clone(),
        };
        let rpc = async |ch, rq| alarms(ch).list_alarms(rq).await;
        let page = client.call(Call::SAFE, rq, rpc).await?;
        Ok((page.alarms, page.next_page_token))
    })
    .await
}

/// # Errors
/// What the server or the output says.
pub(crate) async fn run_rules(
    ctx: &mut Context<'_>,
    command: AlarmRulesCommand,
) -> Result<(), CliError> {
    match command {
        AlarmRulesCommand::Create(args) => create(ctx, args).await,
        AlarmRulesCommand::Update(args) => {
            let (rule, paths) = rule(ctx, args)?;
            if paths.is_empty() {
                return Err(CliError::usage("nothing to change: give at least one option"));
            }
            let update_mask = Some(FieldMask { paths });
            let rq = UpdateAlarmRuleRequest {
                alarm_rule: Some(rule),
                update_mask,
                validate_only: false,
            };
            let rpc = async |ch, rq| alarms(ch).update_alarm_rule(rq).await;
            let rule = ctx.client.call(Call::SAFE, rq, rpc).await?;
            output::message(ctx.term, ctx.format, &rule, fields)
        }
        AlarmRulesCommand::Get { name } => {
            let rq = GetAlarmRuleRequest { name: ctx.name(Kind::AlarmRule, &name)? };
            let rpc = async |ch, rq| alarms(ch).get_alarm_rule(rq).await;
            let rule = ctx.client.call(Call::SAFE, rq, rpc).await?;
            output::message(ctx.term, ctx.format, &rule, fields)
        }
        AlarmRulesCommand::List(args) => list_rules(ctx, args).await,
        AlarmRulesCommand::Delete { name, etag } => {
            let name = ctx.name(Kind::AlarmRule, &name)?;
            let rq = DeleteAlarmRuleRequest { name: name.clone(), etag };
            let rpc = async |ch, rq| alarms(ch).delete_alarm_rule(rq).await;
            ctx.client.call(Call::ONCE, rq, rpc).await?;
            ctx.done(&format!("deleted {}", names::short(&name)))
        }
        AlarmRulesCommand::Test { name } => test(ctx, &name).await,
    }
}

async fn create(ctx: &mut Context<'_>, args: AlarmRuleArgs) -> Result<(), CliError> {
    let (rule, _) = rule(ctx, args)?;
    let Some((app, id)) = names::split(&rule.name) else {
        return Err(CliError::usage("alarm rule: not a name; write APP/RULE"));
    };
    let rq = CreateAlarmRuleRequest {
        parent: format!("apps/{app}"),
        alarm_rule_id: id.to_owned(),
        alarm_rule: Some(rule.clone()),
        request_id: client::request_id(),
        validate_only: false,
    };
    let rpc = async |ch, rq| alarms(ch).create_alarm_rule(rq).await;
    let rule = ctx.client.call(Call::SAFE, rq, rpc).await?;
    output::message(ctx.term, ctx.format, &rule, fields)
}

async fn list_rules(ctx: &mut Context<'_>, args: AlarmRulesListArgs) -> Result<(), CliError> {
    let parent = ctx.parent();
    paging::print_list(ctx, &args.list, "alarmRules", &RULES, async |client, size, token| {
        page_of_rules(client, parent.clone(), size, token).await
    })
    .await
}

/// One page of alarm rules.
///
/// # Errors
/// What the server says.
pub(crate) async fn page_of_rules(
    client: &mut Client,
    parent: String,
    page_size: i32,
    page_token: String,
) -> Result<Page<AlarmRule>, CliError> {
    let rq = ListAlarmRulesRequest { parent, page_size, page_token };
    let rpc = async |ch, rq| alarms(ch).list_alarm_rules(rq).await;
    let page = client.call(Call::SAFE, rq, rpc).await?;
    Ok((page.alarm_rules, page.next_page_token))
}

/// Prints each channel's answer; an error when one did not take the sample.
async fn test(ctx: &mut Context<'_>, name: &str) -> Result<(), CliError> {
    let rq = TestAlarmRuleRequest { name: ctx.name(Kind::AlarmRule, name)? };
    let rpc = async |ch, rq| alarms(ch).test_alarm_rule(rq).await;
    let answer = ctx.client.call(Call::ONCE, rq, rpc).await?;
    let mut printer = ListPrinter::new(ctx.format, "deliveries", &DELIVERIES);
    printer.page(ctx.term, &answer.deliveries)?;
    printer.end(ctx.term, "")?;
    let failed = answer.deliveries.iter().filter(|delivery| !delivery.ok).count();
    match failed {
        0 => Ok(()),
        _ => Err(CliError::NotDelivered { failed: show::counted(failed as u64, "channel") }),
    }
}

/// The rule that the flags describe, and the paths of the fields that they name.
fn rule(ctx: &mut Context<'_>, args: AlarmRuleArgs) -> Result<(AlarmRule, Vec<String>), CliError> {
    let mut paths = Vec::new();
    let mut named = |given: bool, path: &str| {
        if given {
            paths.push(path.into());
        }
    };
    named(args.display_name.is_some(), "display_name");
    named(args.condition.is_some(), "condition");
    named(args.filter.is_some(), "filter");
    named(args.threshold.is_some(), "threshold");
    named(!args.webhooks.is_empty() || !args.mails.is_empty(), "channels");
    named(args.disabled.is_some(), "disabled");
    let rule = AlarmRule {
        name: ctx.name(Kind::AlarmRule, &args.name)?,
        channels: channels_of(&args, ctx.term)?,
        display_name: args.display_name.unwrap_or_default(),
        condition: args.condition.unwrap_or_default(),
        filter: args.filter.unwrap_or_default(),
        threshold: args.threshold.unwrap_or_default(),
        disabled: args.disabled.unwrap_or_default(),
        ..AlarmRule::default()
    };
    Ok((rule, paths))
}

fn channels_of(args: &AlarmRuleArgs, term: &mut Terminal) -> Result<Vec<Channel>, CliError> {
    let line = |text: String| text.trim_end_matches(['\r', '\n']).to_owned();
    let secret = match &args.secret_file {
        Some(file) => line(values::read_input(file, term)?),
        None => String::new(),
    };
    let mut headers = std::collections::HashMap::new();
    for (name, value) in &args.headers {
        let value = match value.strip_prefix('@') {
            Some(file) => line(values::read_input(file, term)?),
            None => value.clone(),
        };
        headers.insert(name.clone(), value);
    }
    let webhooks = args.webhooks.iter().map(|url| {
        let (url, secret, headers) = (url.clone(), secret.clone(), headers.clone());
        channel::Kind::Webhook(channel::Webhook { url, secret, headers })
    });
    let mail = (!args.mails.is_empty())
        .then(|| channel::Kind::Email(channel::Email { to: args.mails.clone() }));
    Ok(webhooks.chain(mail).map(|kind| Channel { kind: Some(kind) }).collect())
}

fn fields(rule: &AlarmRule, _: &TimeZone) -> Fields {
    vec![
        ("rule", names::short(&rule.name).into()),
        ("name", Cell::from(&rule.display_name)),
        ("on", condition(rule).into()),
        ("filter", Cell::from(&rule.filter)),
        ("in a row", rule.threshold.max(1).to_string().into()),
        ("channels", channels(rule).into()),
        ("disabled", if rule.disabled { "yes" } else { "" }.into()),
        ("etag", Cell::from(&rule.etag)),
    ]
}

fn alarm_fields(alarm: &Alarm, zone: &TimeZone) -> Fields {
    vec![
        ("alarm", names::short(&alarm.name).into()),
        ("subject", Cell::from(&alarm.subject)),
        ("message", Cell::lines(&alarm.message)),
        ("rule", rule_of(alarm).into()),
        ("fired", show::instant(alarm.fire_time.as_ref(), zone).into()),
        ("acknowledged", show::instant(alarm.acknowledge_time.as_ref(), zone).into()),
        ("by", Cell::from(&alarm.acknowledged_by)),
        ("sent", alarm.deliveries.to_string().into()),
        ("trouble", Cell::from(&alarm.last_delivery_error)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_and_headers_go_with_every_webhook() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("key"), "k3y\n").unwrap();
        let mut term = Terminal::of_process();
        term.directory = dir.path().into();
        let args = AlarmRuleArgs {
            webhooks: vec!["https://a/".into(), "https://b/".into()],
            secret_file: Some("key".into()),
            headers: vec![("x-a".into(), "1".into()), ("x-b".into(), "@key".into())],
            mails: vec!["a@example.com".into(), "b@example.com".into()],
            ..AlarmRuleArgs::default()
        };
        let made = channels_of(&args, &mut term).unwrap();
        assert_eq!(made.len(), 3, "{made:?}");
        for channel in &made[..2] {
            let Some(channel::Kind::Webhook(hook)) = &channel.kind else { panic!("{channel:?}") };
            assert_eq!((hook.secret.as_str(), hook.headers["x-b"].as_str()), ("k3y", "k3y"));
        }
        let rule = AlarmRule { channels: made, ..AlarmRule::default() };
        assert_eq!(channels(&rule), "https://a/, https://b/, a@example.com, b@example.com");
    }

    #[test]
    fn conditions_are_words() {
        let words: Vec<&str> = CONDITIONS.iter().map(|(word, _)| word.as_str()).collect();
        assert!(words.contains(&"run-failed") && words.contains(&"run-succeeded"), "{words:?}");
    }
}
