//! `clawjob tokens` and `clawjob whoami`.

use std::io::Write as _;

use clap::{Args, Subcommand};
use clawjob_proto::{
    json,
    v1::{CreateTokenRequest, Grant, ListTokensRequest, RevokeTokenRequest, Token, WhoAmIRequest},
};
use jiff::tz::TimeZone;
use prost_types::{Duration, Timestamp};

use crate::{
    args::OutputFormat,
    client::{self, Call, identity},
    context::Context,
    error::CliError,
    grants::{grant, grants},
    names,
    output::{self, Columns, Fields},
    paging::{self, ListArgs},
    show::{self, Cell},
    text, time,
    values::{self, ROLES},
};

/// Commands about tokens.
#[derive(Subcommand, Debug, Clone)]
pub enum TokensCommand {
    /// Create a token; its secret is printed now and never again
    Create(TokenCreateArgs),
    /// List tokens, without their secrets
    List(TokensListArgs),
    /// Revoke a token; it works on open sessions too, within a minute
    Revoke {
        /// The token's name, as `tokens list` shows it
        name: String,
    },
}

/// What `tokens list` takes.
#[derive(Args, Debug, Clone)]
pub struct TokensListArgs {
    #[command(flatten)]
    list: ListArgs,
}

/// What `tokens create` takes.
#[derive(Args, Debug, Clone)]
pub struct TokenCreateArgs {
    /// What it is for, to recognise it in lists
    display_name: String,
    /// What it may do, in the app of --app
    #[arg(long, value_name = "ROLE", value_parser = values::one_of(&ROLES))]
    role: Option<i32>,
    /// APP=ROLE, or '*=ROLE' for all apps; repeatable
    #[arg(long = "grant", value_name = "APP=ROLE", value_parser = grant)]
    grants: Vec<Grant>,
    /// For the role executor: ids it may register, with * as wildcard; repeatable
    #[arg(long = "executor-id", value_name = "PATTERN")]
    executor_ids: Vec<String>,
    /// For the role executor: handlers it may register, with * as wildcard; repeatable
    #[arg(long = "handler", value_name = "PATTERN")]
    handlers: Vec<String>,
    /// It ends after this time
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    expires_in: Option<Duration>,
    /// It ends at this instant
    #[arg(long, value_name = "TIME", conflicts_with = "expires_in")]
    expires_at: Option<String>,
}

const TOKENS: Columns<Token> = Columns {
    headers: &["TOKEN", "FOR", "GRANTS", "PREFIX", "LAST USED", "ENDS"],
    row: |token, zone| {
        let ends = match &token.revoke_time {
            Some(at) => format!("revoked {}", show::instant(Some(at), zone)),
            None => show::instant(token.expire_time.as_ref(), zone),
        };
        vec![
            names::short(&token.name).into(),
            Cell::from(&token.display_name),
            grants(&token.grants).into(),
            Cell::from(&token.prefix),
            show::instant(token.last_used_time.as_ref(), zone).into(),
            ends.into(),
        ]
    },
};

/// # Errors
/// What the server or the output says.
pub(crate) async fn run(ctx: &mut Context<'_>, command: TokensCommand) -> Result<(), CliError> {
    match command {
        TokensCommand::Create(args) => create(ctx, args).await,
        TokensCommand::List(args) => {
            paging::print_list(ctx, &args.list, "tokens", &TOKENS, async |client, size, token| {
                let rq = ListTokensRequest { page_size: size, page_token: token };
                let rpc = async |ch, rq| identity(ch).list_tokens(rq).await;
                let page = client.call(Call::SAFE, rq, rpc).await?;
                Ok((page.tokens, page.next_page_token))
            })
            .await
        }
        TokensCommand::Revoke { name } => {
            let rq = RevokeTokenRequest { name: names::token(&name)? };
            let rpc = async |ch, rq| identity(ch).revoke_token(rq).await;
            let token = ctx.client.call(Call::SAFE, rq, rpc).await?;
            output::message(ctx.term, ctx.format, &token, fields)
        }
    }
}

async fn create(ctx: &mut Context<'_>, args: TokenCreateArgs) -> Result<(), CliError> {
    let token = new_token(args, ctx.app.as_deref(), &ctx.term.zone)?;
    let rq = CreateTokenRequest { token: Some(token), request_id: client::request_id() };
    let rpc = async |ch, rq| identity(ch).create_token(rq).await;
    let answer = ctx.client.call(Call::SAFE, rq, rpc).await?;
    if ctx.format != OutputFormat::Table {
        return output::value(ctx.term, ctx.format, &json::to_value(&answer)?);
    }
    // Only the secret on stdout: TOKEN=$(clawjob tokens create …).
    writeln!(ctx.term.out, "{}", text::line(&answer.secret))?;
    let token = answer.token.unwrap_or_default();
    let (name, what) = (names::short(&token.name), grants(&token.grants));
    ctx.term.remark(&text::line(&format!(
        "token {name} ({what}): keep the secret above, it is not shown again"
    )));
    Ok(())
}

fn new_token(args: TokenCreateArgs, app: Option<&str>, zone: &TimeZone) -> Result<Token, CliError> {
    let mut faults = Vec::new();
    let mut grants = args.grants;
    match (args.role, app) {
        (Some(role), Some(app)) => grants.push(Grant { app: app.into(), role }),
        (Some(_), None) => faults.push(
            "--role: for which app? Give --app APP, or --grant '*=ROLE' for all apps".to_owned(),
        ),
        (None, _) if grants.is_empty() => {
            faults.push("the token could do nothing: give --role with --app, or --grant".into());
        }
        (None, _) => {}
    }
    let expire_time = expiry(args.expires_in, args.expires_at.as_deref(), zone);
    let expire_time = expire_time.unwrap_or_else(|fault| {
        faults.push(format!("--expires-{fault}"));
        None
    });
    if !faults.is_empty() {
        return Err(CliError::Usage(faults));
    }
    Ok(Token {
        display_name: args.display_name,
        grants,
        executor_id_patterns: args.executor_ids,
        handler_patterns: args.handlers,
        expire_time,
        ..Token::default()
    })
}

fn expiry(
    after: Option<Duration>,
    at: Option<&str>,
    zone: &TimeZone,
) -> Result<Option<Timestamp>, String> {
    match (after, at) {
        (Some(after), _) => {
            let end = time::after(time::now(), &after).map_err(|e| format!("in: {e}"))?;
            Ok(Some(time::to_proto(end)))
        }
        (None, Some(at)) => {
            values::instant(at, zone).map(Some).map_err(|fault| format!("at: {fault}"))
        }
        (None, None) => Ok(None),
    }
}

fn fields(token: &Token, zone: &TimeZone) -> Fields {
    vec![
        ("token", names::short(&token.name).into()),
        ("for", Cell::from(&token.display_name)),
        ("grants", grants(&token.grants).into()),
        ("executor ids", token.executor_id_patterns.join(", ").into()),
        ("handlers", token.handler_patterns.join(", ").into()),
        ("prefix", Cell::from(&token.prefix)),
        ("owner", Cell::from(&token.owner)),
        ("created", show::instant(token.create_time.as_ref(), zone).into()),
        ("last used", show::instant(token.last_used_time.as_ref(), zone).into()),
        ("expires", show::instant(token.expire_time.as_ref(), zone).into()),
        ("revoked", show::instant(token.revoke_time.as_ref(), zone).into()),
    ]
}

/// # Errors
/// What the server or the output says.
pub(crate) async fn whoami(ctx: &mut Context<'_>) -> Result<(), CliError> {
    let rpc = async |ch, rq| identity(ch).who_am_i(rq).await;
    let me = ctx.client.call(Call::SAFE, WhoAmIRequest {}, rpc).await?;
    output::message(ctx.term, ctx.format, &me, |me, zone| {
        vec![
            ("principal", Cell::from(&me.principal)),
            ("name", Cell::from(&me.display_name)),
            ("grants", grants(&me.grants).into()),
            ("expires", show::instant(me.expire_time.as_ref(), zone).into()),
        ]
    })
}

#[cfg(test)]
mod tests {
    use clawjob_proto::v1::Role;

    use super::*;

    fn args() -> TokenCreateArgs {
        TokenCreateArgs {
            display_name: "ci".into(),
            role: None,
            grants: Vec::new(),
            executor_ids: Vec::new(),
            handlers: Vec::new(),
            expires_in: None,
            expires_at: None,
        }
    }

    #[test]
    fn all_faults_of_a_token_come_at_once() {
        let wrong = TokenCreateArgs { expires_at: Some("soon".into()), ..args() };
        let CliError::Usage(faults) = new_token(wrong, None, &TimeZone::UTC).unwrap_err() else {
            panic!("not a usage error");
        };
        assert_eq!(faults.len(), 2, "{faults:?}");
    }

    #[test]
    fn a_role_is_granted_in_the_named_app() {
        let role = Some(Role::Viewer as i32);
        let token =
            new_token(TokenCreateArgs { role, ..args() }, Some("demo"), &TimeZone::UTC).unwrap();
        assert_eq!(grants(&token.grants), "demo=viewer");
        assert!(new_token(TokenCreateArgs { role, ..args() }, None, &TimeZone::UTC).is_err());
    }
}
