//! The one binary, `clawjob`: scheduler, demo, agent, and the client commands.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{
    ArgMatches, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
    error::ErrorKind, parser::ValueSource,
};
use clawjob_cli::{ClientArgs, ClientCommand};
use clawjob_scheduler::{
    config::{self, Config, LogFormat},
    demo,
    runtime::{self, StopSignals},
    telemetry::{self, Setup, Shape, Telemetry},
};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Runs the cron jobs of a whole company from one place.
#[derive(Parser)]
#[command(name = "clawjob", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = clawjob_cli::EXIT_CODES_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Subcommand)]
enum Command {
    /// The scheduler.
    Server(ServerArgs),
    /// The scheduler on its embedded store, a demo executor and four jobs.
    Dev(ServerArgs),
    /// A ready-made executor for shell commands and HTTP calls. Its file, then the environment,
    /// then --endpoint, --token-file, --app and --ca-file; the later wins.
    Agent(AgentArgs),
    #[command(flatten)]
    Client(ClientCommand),
}

#[derive(Args)]
struct ServerArgs {
    /// YAML or TOML file; every key can also be set by environment (CLAWJOB_LOG_LEVEL) or --set.
    #[arg(long, value_name = "FILE", env = "CLAWJOB_CONFIG")]
    config: Option<PathBuf>,
    /// Where the embedded database and the admin token are.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Address of the one port.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Use this Postgres instead of the embedded database.
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Set any key, such as log.level=debug; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the effective configuration and end.
    #[arg(long)]
    print_config: bool,
}

#[derive(Args)]
struct AgentArgs {
    /// YAML or TOML file with the commands and URLs that may be used.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// A log level or directives.
    #[arg(long, default_value = "info", env = "CLAWJOB_LOG_LEVEL")]
    log_level: String,
}

fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    let cli =
        match Cli::from_arg_matches(&matches).map_err(|fault| fault.format(&mut Cli::command())) {
            Ok(cli) => cli,
            Err(fault) => fault.exit(),
        };
    if let Some(fault) = not_taken(&matches).or_else(|| empty_endpoint(&matches)) {
        Cli::command().error(ErrorKind::ArgumentConflict, fault).exit();
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(fault) => return failed(&fault.into()),
    };
    runtime.block_on(async {
        match cli.command {
            Command::Server(args) => end(server(args).await),
            Command::Dev(args) => end(dev(args).await),
            Command::Agent(args) => end(agent(args, cli.client).await),
            Command::Client(command) => clawjob_cli::run(command, cli.client, Cli::command()).await,
        }
    })
}

/// A client option on a command that would pass it over in silence.
fn not_taken(matches: &ArgMatches) -> Option<String> {
    const CLIENT: [&str; 5] = ["endpoints", "token_file", "app", "ca_file", "output"];
    let (command, given) = matches.subcommand()?;
    let refused = match command {
        "server" | "dev" => &CLIENT[..],
        "agent" => &CLIENT[4..],
        _ => return None,
    };
    let given = |id: &&&str| given.value_source(id) == Some(ValueSource::CommandLine);
    let named: Vec<String> = refused.iter().filter(given).map(|id| flag_of(id)).collect();
    (!named.is_empty())
        .then(|| format!("`clawjob {command}` takes no {}: leave it out", named.join(", ")))
}

/// An `--endpoint` that names nothing would fall back to another one in silence.
fn empty_endpoint(matches: &ArgMatches) -> Option<String> {
    let (_, given) = matches.subcommand()?;
    if given.value_source("endpoints") != Some(ValueSource::CommandLine) {
        return None;
    }
    let empty = given.get_many::<String>("endpoints")?.all(|url| url.trim().is_empty());
    empty.then(|| "--endpoint is empty: name a URL, or leave it out".to_owned())
}

/// How an option is written.
fn flag_of(id: &str) -> String {
    format!("--{}", if id == "endpoints" { "endpoint".to_owned() } else { id.replace('_', "-") })
}

fn end(outcome: Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => failed(&fault),
    }
}

fn failed(fault: &anyhow::Error) -> ExitCode {
    eprintln!("clawjob: {fault:#}");
    ExitCode::FAILURE
}

impl ServerArgs {
    fn load(&self) -> Result<Config> {
        let mut flags = Vec::new();
        for pair in &self.set {
            let Some((key, text)) = pair.split_once('=') else {
                anyhow::bail!("--set {pair}: must be KEY=VALUE, such as log.level=debug");
            };
            flags.push((key, text.to_owned()));
        }
        if let Some(dir) = &self.data_dir {
            flags.push(("data_dir", dir.display().to_string()));
        }
        if let Some(listen) = &self.listen {
            flags.push(("listen", listen.clone()));
        }
        if let Some(url) = &self.database {
            flags.push(("database", url.clone()));
        }
        Ok(config::load(self.config.as_deref(), std::env::vars(), &flags)?)
    }
}

fn start_telemetry(config: &Config) -> Result<Telemetry> {
    let shape = match config.log.format {
        LogFormat::Text => Shape::Text,
        LogFormat::Json => Shape::Json,
    };
    Ok(telemetry::init(&Setup {
        level: &config.log.level,
        shape,
        file: config.log.file.as_deref(),
        files_max: config.log.files_max,
        otlp: config.otlp.endpoint.as_deref(),
        node: &config.listen,
    })?)
}

async fn server(args: ServerArgs) -> Result<()> {
    let config = args.load()?;
    if args.print_config {
        print!("{}", config::print(&config)?);
        return Ok(());
    }
    let _telemetry = start_telemetry(&config)?;
    let mut stop = StopSignals::listen();
    let Some(server) = runtime::start_unless(&mut stop, &config).await? else { return Ok(()) };
    if let Some(token) = server.admin_token() {
        let file = server.token_file().display();
        // What is no terminal is a journal or a file, where a secret would stay for good.
        if std::io::IsTerminal::is_terminal(&std::io::stdout()) {
            println!("admin token (shown once, kept in {file}): {token}");
        } else {
            println!("admin token: in {file}");
        }
    }
    println!("listening on {}", server.url());
    stop.heard().await;
    server.stop().await;
    Ok(())
}

async fn dev(args: ServerArgs) -> Result<()> {
    let mut config = args.load()?;
    if args.print_config {
        print!("{}", config::print(&config)?);
        return Ok(());
    }
    // The demo tells its story on the same terminal: only what is wrong is logged beside it.
    if config.log.level == Config::default().log.level {
        "warn,clawjob_executor=info".clone_into(&mut config.log.level);
    }
    let _telemetry = start_telemetry(&config)?;
    demo::run(&config).await
}

async fn agent(args: AgentArgs, client: ClientArgs) -> Result<()> {
    let _telemetry = telemetry::init(&Setup {
        level: &args.log_level,
        shape: Shape::Text,
        file: None,
        files_max: 1,
        otlp: None,
        node: "agent",
    })?;
    let config = clawjob_executor::agent::load(&args.config)?;
    let mut executor = clawjob_executor::agent::executor(config)?;
    let endpoints: Vec<String> =
        client.endpoints.into_iter().filter(|url| !url.trim().is_empty()).collect();
    if !endpoints.is_empty() {
        executor = executor.endpoints(endpoints);
    }
    if let Some(path) = client.token_file {
        executor = executor.token_file(path);
    }
    if let Some(app) = client.app.filter(|app| !app.is_empty()) {
        executor = executor.app(app);
    }
    if let Some(path) = client.ca_file.filter(|path| !path.as_os_str().is_empty()) {
        executor = executor.ca_file(path);
    }
    Ok(executor.run().await?)
}
