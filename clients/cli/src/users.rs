//! `clawjob users`.

use std::io::Write as _;

use clap::{ArgAction, Args, Subcommand};
use clawjob_proto::{
    json,
    v1::{
        CreateUserRequest, DeleteUserRequest, GetUserRequest, Grant, ListUsersRequest,
        UpdateUserRequest, User,
    },
};
use jiff::tz::TimeZone;
use prost_types::FieldMask;

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
    terminal::Terminal,
    text,
    values::{self, ROLES},
};

/// Commands about users.
#[derive(Subcommand, Debug, Clone)]
pub enum UsersCommand {
    /// Create a user; a password that was made up is printed now and never again
    Create(UserCreateArgs),
    /// List users
    List(UsersListArgs),
    /// Show one user
    Get {
        /// The user
        name: String,
    },
    /// Change a user: only what is named
    Update(UserArgs),
    /// Delete a user; sign-ins end, and tokens that the user made are revoked
    Delete {
        /// The user
        name: String,
    },
    /// Give a user another first password; sign-ins end
    ResetPassword {
        /// The user
        name: String,
        #[command(flatten)]
        password: PasswordArgs,
    },
}

/// What `users list` takes.
#[derive(Args, Debug, Clone)]
pub struct UsersListArgs {
    #[command(flatten)]
    list: ListArgs,
}

/// A user's name and settings.
#[derive(Args, Debug, Clone, Default)]
pub struct UserArgs {
    /// The user: what is typed to sign in
    name: String,
    /// The person's name
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,
    /// The person's address
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,
    /// What the user may do, in the app of --app
    #[arg(long, value_name = "ROLE", value_parser = values::one_of(&ROLES))]
    role: Option<i32>,
    /// APP=ROLE, or '*=ROLE' for all apps; repeatable, replaces all grants
    #[arg(long = "grant", value_name = "APP=ROLE", value_parser = grant)]
    grants: Vec<Grant>,
    /// Take all grants away
    #[arg(long, conflicts_with_all = ["role", "grants"])]
    no_grants: bool,
    /// Whether the user is kept from signing in
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    #[arg(action = ArgAction::Set)]
    disabled: Option<bool>,
}

/// What `users create` takes.
#[derive(Args, Debug, Clone, Default)]
pub struct UserCreateArgs {
    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    password: PasswordArgs,
}

/// A first password.
#[derive(Args, Debug, Clone, Default)]
pub struct PasswordArgs {
    /// File with the first password; - is stdin [default: one is made up]
    #[arg(long, value_name = "FILE")]
    password_file: Option<String>,
}

const USERS: Columns<User> = Columns {
    headers: &["USER", "NAME", "GRANTS", "LAST SIGN-IN", "STATE"],
    row: |user, zone| {
        vec![
            names::short(&user.name).into(),
            Cell::from(&user.display_name),
            grants(&user.grants).into(),
            show::instant(user.last_login_time.as_ref(), zone).into(),
            state(user).into(),
        ]
    },
};

fn state(user: &User) -> &'static str {
    match (user.disabled, user.password_expired) {
        (true, _) => "disabled",
        (false, true) => "first password",
        (false, false) => "",
    }
}

/// # Errors
/// What the server or the output says.
pub(crate) async fn run(ctx: &mut Context<'_>, command: UsersCommand) -> Result<(), CliError> {
    match command {
        UsersCommand::Create(args) => create(ctx, args).await,
        UsersCommand::List(args) => list(ctx, args).await,
        UsersCommand::Get { name } => {
            let rq = GetUserRequest { name: names::user(&name)? };
            let rpc = async |ch, rq| identity(ch).get_user(rq).await;
            let user = ctx.client.call(Call::SAFE, rq, rpc).await?;
            output::message(ctx.term, ctx.format, &user, fields)
        }
        UsersCommand::Update(args) => {
            let (user, paths) = user(args, ctx.app.as_deref())?;
            if paths.is_empty() {
                return Err(CliError::usage("nothing to change: give at least one option"));
            }
            let update_mask = Some(FieldMask { paths });
            let rq =
                UpdateUserRequest { user: Some(user), update_mask, ..UpdateUserRequest::default() };
            let rpc = async |ch, rq| identity(ch).update_user(rq).await;
            let user = ctx.client.call(Call::SAFE, rq, rpc).await?;
            output::message(ctx.term, ctx.format, &user, fields)
        }
        UsersCommand::Delete { name } => {
            let name = names::user(&name)?;
            let rq = DeleteUserRequest { name: name.clone() };
            let rpc = async |ch, rq| identity(ch).delete_user(rq).await;
            ctx.client.call(Call::ONCE, rq, rpc).await?;
            ctx.done(&format!("deleted {}", names::short(&name)))
        }
        UsersCommand::ResetPassword { name, password } => reset(ctx, &name, password).await,
    }
}

async fn list(ctx: &mut Context<'_>, args: UsersListArgs) -> Result<(), CliError> {
    paging::print_list(ctx, &args.list, "users", &USERS, async |client, size, token| {
        let rq = ListUsersRequest { page_size: size, page_token: token };
        let rpc = async |ch, rq| identity(ch).list_users(rq).await;
        let page = client.call(Call::SAFE, rq, rpc).await?;
        Ok((page.users, page.next_page_token))
    })
    .await
}

async fn create(ctx: &mut Context<'_>, args: UserCreateArgs) -> Result<(), CliError> {
    let (mut user, _) = user(args.user, ctx.app.as_deref())?;
    let user_id = names::short(&std::mem::take(&mut user.name));
    let (password, made_up) = password(args.password, ctx.term)?;
    let rq = CreateUserRequest {
        user_id,
        user: Some(user),
        password: password.clone(),
        request_id: client::request_id(),
    };
    let rpc = async |ch, rq| identity(ch).create_user(rq).await;
    let user = ctx.client.call(Call::SAFE, rq, rpc).await?;
    print(ctx, &user, made_up.then_some(password))
}

async fn reset(ctx: &mut Context<'_>, name: &str, args: PasswordArgs) -> Result<(), CliError> {
    let (password, made_up) = password(args, ctx.term)?;
    let user = User { name: names::user(name)?, ..User::default() };
    let rq = UpdateUserRequest {
        user: Some(user),
        password: password.clone(),
        ..UpdateUserRequest::default()
    };
    let rpc = async |ch, rq| identity(ch).update_user(rq).await;
    let user = ctx.client.call(Call::ONCE, rq, rpc).await?;
    print(ctx, &user, made_up.then_some(password))
}

/// Prints the user; a password that was made up alone on stdout, as with tokens, or beside the
/// user in JSON and YAML.
fn print(ctx: &mut Context<'_>, user: &User, password: Option<String>) -> Result<(), CliError> {
    let Some(password) = password else {
        return output::message(ctx.term, ctx.format, user, fields);
    };
    if ctx.format != OutputFormat::Table {
        let value = serde_json::json!({ "user": json::to_value(user)?, "password": password });
        return output::value(ctx.term, ctx.format, &value);
    }
    writeln!(ctx.term.out, "{password}")?;
    let (name, may) = (names::short(&user.name), grants(&user.grants));
    ctx.term.remark(&text::line(&format!(
        "user {name} ({may}): the first password is above, is not shown again, and must be \
         changed at the first sign-in"
    )));
    Ok(())
}

/// The password of the file, without the end of its line, or one that is made up.
fn password(args: PasswordArgs, term: &mut Terminal) -> Result<(String, bool), CliError> {
    let Some(file) = args.password_file else { return Ok((made_up(), true)) };
    let text = values::read_input(&file, term)?;
    Ok((text.trim_end_matches(['\r', '\n']).to_owned(), false))
}

/// 80 random bits in groups that can be read out and typed.
fn made_up() -> String {
    let random = *uuid::Uuid::new_v4().as_bytes();
    // What a UUID fixes lies between these.
    let bytes = [&random[..5], &random[11..]].concat();
    let groups: Vec<String> =
        bytes.chunks(2).map(|pair| format!("{:02x}{:02x}", pair[0], pair[1])).collect();
    groups.join("-")
}

/// The user that the flags describe, and the paths of the fields that they name.
fn user(args: UserArgs, app: Option<&str>) -> Result<(User, Vec<String>), CliError> {
    let mut grants = args.grants;
    match (args.role, app) {
        (Some(role), Some(app)) => grants.push(Grant { app: app.into(), role }),
        (Some(_), None) => {
            return Err(CliError::usage(
                "--role: for which app? Give --app APP, or --grant '*=ROLE' for all apps",
            ));
        }
        (None, _) => {}
    }
    let mut paths = Vec::new();
    let mut named = |given: bool, path: &str| {
        if given {
            paths.push(path.into());
        }
    };
    named(args.display_name.is_some(), "display_name");
    named(args.email.is_some(), "email");
    named(!grants.is_empty() || args.no_grants, "grants");
    named(args.disabled.is_some(), "disabled");
    let user = User {
        name: names::user(&args.name)?,
        display_name: args.display_name.unwrap_or_default(),
        email: args.email.unwrap_or_default(),
        grants,
        disabled: args.disabled.unwrap_or_default(),
        ..User::default()
    };
    Ok((user, paths))
}

fn fields(user: &User, zone: &TimeZone) -> Fields {
    vec![
        ("user", names::short(&user.name).into()),
        ("name", Cell::from(&user.display_name)),
        ("email", Cell::from(&user.email)),
        ("grants", grants(&user.grants).into()),
        ("state", state(user).into()),
        ("created", show::instant(user.create_time.as_ref(), zone).into()),
        ("last sign-in", show::instant(user.last_login_time.as_ref(), zone).into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_that_is_made_up_is_long_and_new_each_time() {
        let (one, other) = (made_up(), made_up());
        assert_ne!(one, other);
        assert_eq!((one.len(), one.split('-').count()), (24, 5), "{one}");
    }

    #[test]
    fn only_what_is_named_is_changed() {
        let name = || "ann".to_owned();
        let args = UserArgs { name: name(), disabled: Some(false), ..UserArgs::default() };
        let (user, paths) = user(args, None).unwrap();
        assert_eq!((user.name.as_str(), paths), ("users/ann", vec!["disabled".to_owned()]));
        let args = UserArgs { name: name(), no_grants: true, ..UserArgs::default() };
        assert_eq!(super::user(args, None).unwrap().1, ["grants"]);
        let role = ROLES.iter().find(|(word, _)| word == "viewer").map(|(_, number)| *number);
        let args = UserArgs { name: name(), role, ..UserArgs::default() };
        assert!(super::user(args.clone(), None).is_err());
        assert_eq!(grants(&super::user(args, Some("demo")).unwrap().0.grants), "demo=viewer");
    }
}
