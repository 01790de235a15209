//! What every client command takes, and the table of the commands.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::{
    alarms::{AlarmRulesCommand, AlarmsCommand},
    apply::{ApplyArgs, ExportArgs},
    apps::AppsCommand,
    audit::AuditCommand,
    calendars::CalendarsCommand,
    cron::CronCommand,
    error::EXIT_CODES_HELP,
    executors::{ExecutorsCommand, HandlersCommand},
    forecast::ForecastArgs,
    jobs::JobsCommand,
    runs::RunsCommand,
    tokens::TokensCommand,
    users::UsersCommand,
};

/// The heading of these options in `--help`.
const HEADING: &str = "Client options";

/// How to reach the server and how to print; accepted before and after the command's name.
#[derive(Args, Debug, Clone, Default)]
pub struct ClientArgs {
    /// Server URLs, tried in turn [default: http://127.0.0.1:7700]
    #[arg(
        long = "endpoint", global = true, env = "CLAWJOB_ENDPOINTS", value_name = "URL,…",
        value_delimiter = ',', help_heading = HEADING
    )]
    pub endpoints: Vec<String>,

    /// File with the token [else CLAWJOB_TOKEN, CLAWJOB_TOKEN_FILE, and for a server on this
    /// machine ./clawjob-data/admin.token]
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING)]
    pub token_file: Option<PathBuf>,

    /// The app that short names belong to, and the one that lists are about [default: all apps]
    #[arg(long, global = true, env = "CLAWJOB_APP", value_name = "APP", help_heading = HEADING)]
    pub app: Option<String>,

    /// PEM file of the authority that signed the server's certificate [default: the system's]
    #[arg(
        long, global = true, env = "CLAWJOB_CA_FILE", value_name = "FILE", help_heading = HEADING
    )]
    pub ca_file: Option<PathBuf>,

    /// How to print: table (for people), json (the contract's own) or yaml (the same)
    #[arg(
        short = 'o', long, global = true, value_enum, default_value_t, value_name = "FORMAT",
        help_heading = HEADING, hide_possible_values = true
    )]
    pub output: OutputFormat,
}

/// How answers are printed.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputFormat {
    /// Columns for people; not for scripts.
    #[default]
    Table,
    /// The contract's JSON (the protobuf mapping).
    Json,
    /// The same as YAML.
    Yaml,
}

/// The client commands of `clawjob`.
#[derive(Subcommand, Debug, Clone)]
pub enum ClientCommand {
    /// Jobs: what runs, when and where
    #[command(subcommand, after_help = EXIT_CODES_HELP)]
    Jobs(JobsCommand),
    /// Runs: what happened
    #[command(subcommand, after_help = EXIT_CODES_HELP)]
    Runs(RunsCommand),
    /// Executors: who does the work
    #[command(subcommand)]
    Executors(ExecutorsCommand),
    /// Handlers that connected executors offer
    #[command(subcommand)]
    Handlers(HandlersCommand),
    /// Apps: sets of interchangeable executors with their jobs
    #[command(subcommand)]
    Apps(AppsCommand),
    /// Alarms that rules raised
    #[command(subcommand)]
    Alarms(AlarmsCommand),
    /// Alarm rules: who is told of which ends of runs
    #[command(subcommand)]
    AlarmRules(AlarmRulesCommand),
    /// Calendars: days that schedules include or exclude
    #[command(subcommand)]
    Calendars(CalendarsCommand),
    /// Make the server's jobs, calendars and alarm rules equal to a file
    #[command(after_help = EXIT_CODES_HELP)]
    Apply(ApplyArgs),
    /// Print jobs, calendars and alarm rules in the shape that `apply` takes
    Export(ExportArgs),
    /// Try cron expressions
    #[command(subcommand)]
    Cron(CronCommand),
    /// The coming fires of all jobs, and where they clash
    Forecast(ForecastArgs),
    /// Tokens: what programs may do
    #[command(subcommand)]
    Tokens(TokensCommand),
    /// Users: who may sign in, and do what
    #[command(subcommand)]
    Users(UsersCommand),
    /// The audit log: who changed what
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Who the server takes you for
    Whoami,
    /// The server and its nodes
    Status,
    /// Print a completion script for a shell
    Completions {
        /// The shell to complete for
        shell: Shell,
    },
}
