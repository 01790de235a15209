//! Every client command once against a real server, in each way of printing, with its exit code.

#![allow(clippy::disallowed_methods, reason = "tests of real processes run in real time")]

#[path = "support/lines.rs"]
mod lines;
#[path = "support/node.rs"]
mod node;

use std::{
    collections::BTreeSet,
    path::PathBuf,
    process::{Output, Stdio},
    time::Duration,
};

use clap::Subcommand as _;
use clawjob_executor::{Ctx, Executor, Failure, Reconnect};
use lines::{Process, clawjob};
use nix::sys::signal::Signal;
use node::Node;
use serde_json::Value;
use tokio::{sync::oneshot, task::JoinHandle};

const APP: &str = "shop";
const FORMATS: [&str; 3] = ["table", "json", "yaml"];
/// No command takes this long unless it hangs.
const STEP: Duration = Duration::from_secs(60);

/// A server, and the client commands for it in one format.
struct Shell<'a> {
    node: &'a Node,
    dir: PathBuf,
    format: &'static str,
    /// The commands that were tried, such as `jobs get`.
    tried: &'a mut BTreeSet<String>,
}

impl Shell<'_> {
    fn run(&mut self, line: &str) -> Output {
        let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        let is_name = |word: &str| {
            !word.starts_with('-') && word.chars().all(|c| c.is_alphabetic() || c == '-')
        };
        let group = words.iter().take_while(|word| is_name(word));
        self.tried.extend(group.clone().take(1).map(|word| (*word).to_owned()));
        self.tried.insert(group.take(2).copied().collect::<Vec<_>>().join(" "));
        clawjob()
            .args(words)
            .args(["-o", self.format])
            .current_dir(&self.dir)
            .env("CLAWJOB_ENDPOINTS", self.node.url())
            .env("CLAWJOB_TOKEN", self.node.admin_token())
            .stdin(Stdio::null())
            .output()
            .expect("it starts")
    }

    fn is_table(&self) -> bool {
        self.format == FORMATS[0]
    }

    /// A command that ends with the exit code.
    fn ends(&mut self, line: &str, code: i32) -> Output {
        let output = self.run(line);
        let (said, errors) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{line}:\n{said}{errors}");
        output
    }

    /// A command that is refused with the exit code, which is the same however it prints.
    fn refused(&mut self, line: &str, code: i32) {
        if self.format == FORMATS[0] {
            self.ends(line, code);
        }
    }

    /// A command that is done, and prints `part` in the shell's format.
    fn shows(&mut self, line: &str, part: &str) -> String {
        let said = text(&self.ends(line, 0).stdout);
        assert!(said.contains(part), "{part} in what {line} says:\n{said}");
        match self.format {
            "json" => drop(serde_json::from_str::<Value>(&said).expect("JSON")),
            "yaml" => drop(serde_norway::from_str::<Value>(&said).expect("YAML")),
            _ => assert!(!said.starts_with(['{', '[']), "a table: {said}"),
        }
        said
    }

    /// What a list holds, whatever the shell's format.
    fn first(&mut self, line: &str, list: &str, field: &str) -> String {
        let format = std::mem::replace(&mut self.format, "json");
        let said = self.ends(line, 0).stdout;
        self.format = format;
        let said: Value = serde_json::from_slice(&said).expect("JSON");
        said[list][0][field].as_str().unwrap_or_else(|| panic!("{list} in {said}")).to_owned()
    }

    /// A watch that goes on until Ctrl-C: it says what `job` has done already, so it watches, and
    /// then the run that is made by hand.
    fn watches(&mut self, job: &str) {
        let words = ["runs", "watch", "--all", "-o", self.format];
        self.tried.insert(words[..2].join(" "));
        let mut command = clawjob();
        command
            .args(words)
            .env("CLAWJOB_ENDPOINTS", self.node.url())
            .env("CLAWJOB_TOKEN", self.node.admin_token());
        let mut process = Process::start(command, Stdio::inherit());
        process.line_with("job-", STEP);
        self.ends(&format!("jobs trigger {job} --wait"), 0);
        let run = self.first(&format!("runs list --job {job}"), "runs", "name");
        process.line_with(run.rsplit('/').next().expect("a name has parts"), STEP);
        process.signal(Signal::SIGINT);
        process.wait(STEP);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// An executor of the SDK.
struct Worker {
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), clawjob_executor::Error>>,
}

impl Worker {
    async fn start(node: &Node, id: &str) -> Self {
        let quick = Duration::from_millis(50);
        let reconnect =
            Reconnect { first: quick, base: quick, cap: quick * 4, ..Reconnect::default() };
        let executor = Executor::builder()
            .endpoints([node.url()])
            .token(node.executor_token(APP).await)
            .app(APP)
            .executor_id(id)
            .slots(8)
            .reconnect(reconnect)
            .handler("hello", async |name: String, _: Ctx| {
                tracing::info!("saying hello");
                Ok::<_, Failure>(format!("hello {name}"))
            })
            .handler("fail", async |_: (), _: Ctx| {
                Err::<(), _>(Failure::new("NO_LUCK", "it was not to be").non_retryable())
            })
            .handler("wait", async |_: (), ctx: Ctx| {
                ctx.cancelled().await;
                Err::<(), _>(ctx.stopped())
            });
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(executor.run_until(async {
            let _ = stopped.await;
        }));
        Self { stop, running }
    }

    async fn leave(self) {
        self.stop.send(()).expect("it runs");
        self.running.await.expect("no panic").expect("a clean end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_command_works_in_every_format() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::start(dir.path(), &["--set", "timings.heartbeat_interval=200ms"]);
    let mut tried = BTreeSet::new();
    for format in FORMATS {
        let mut shell =
            Shell { node: &node, dir: dir.path().to_path_buf(), format, tried: &mut tried };
        let worker = Worker::start(&node, &format!("w-{format}")).await;
        apps(&mut shell);
        executors(&mut shell);
        jobs(&mut shell);
        runs(&mut shell);
        schedules(&mut shell);
        alarms(&mut shell);
        files(&mut shell);
        tokens(&mut shell);
        users(&mut shell);
        others(&mut shell);
        worker.leave().await;
        gone(&mut shell);
    }
    let missing: Vec<String> = commands().into_iter().filter(|c| !tried.contains(c)).collect();
    assert!(missing.is_empty(), "give each of these its line here: {missing:?}");
}

/// Every command, as words.
fn commands() -> Vec<String> {
    let whole = clawjob_cli::ClientCommand::augment_subcommands(clap::Command::new("clawjob"));
    whole
        .get_subcommands()
        .flat_map(|group| {
            let name = group.get_name();
            let inner: Vec<String> = group
                .get_subcommands()
                .map(|command| format!("{name} {}", command.get_name()))
                .collect();
            if inner.is_empty() { vec![name.to_owned()] } else { inner }
        })
        .collect()
}

fn apps(shell: &mut Shell<'_>) {
    let app = format!("app-{}", shell.format);
    shell.shows(&format!("apps create {app} --display-name First"), &app);
    shell.shows("apps list", &app);
    shell.shows(&format!("apps update {app} --display-name Second"), "Second");
    shell.refused(&format!("apps create {app}"), 6);
    shell.ends(&format!("apps delete {app}"), 0);
    shell.refused(&format!("apps delete {app}"), 3);
}

fn executors(shell: &mut Shell<'_>) {
    let name = format!("{APP}/w-{}", shell.format);
    let end = std::time::Instant::now() + STEP;
    while !text(&shell.run("handlers list").stdout).contains("hello") {
        assert!(std::time::Instant::now() < end, "the executor does not come");
    }
    shell.shows("handlers list", "hello");
    shell.shows("executors list", &format!("w-{}", shell.format));
    shell.shows(&format!("executors get {name}"), "w-");
    shell.shows(&format!("executors cordon {name} --reason disks"), "w-");
    shell.shows(&format!("executors uncordon {name}"), "w-");
    shell.refused(&format!("executors delete {name}"), 6);
    shell.shows(&format!("executors disconnect {name}"), "w-");
    shell.refused(&format!("executors get {APP}/nobody"), 3);
    shell.refused("executors get not/a/name", 2);
}

/// What is left when the executor has gone.
fn gone(shell: &mut Shell<'_>) {
    let name = format!("{APP}/w-{}", shell.format);
    let end = std::time::Instant::now() + STEP;
    while shell.run(&format!("executors delete {name}")).status.code() != Some(0) {
        assert!(std::time::Instant::now() < end, "its end is not written");
    }
    shell.refused(&format!("executors get {name}"), 3);
}

fn jobs(shell: &mut Shell<'_>) {
    let job = format!("{APP}/job-{}", shell.format);
    let short = format!("job-{}", shell.format);
    let every = "--every 1h --params \"Jacky\" --label team=a";
    shell.shows(&format!("jobs create {job} --handler hello {every}"), &short);
    shell.refused(&format!("jobs create {job} --handler hello"), 6);
    shell.refused(&format!("jobs create {job} --handler hello --cron bad"), 2);
    shell.shows(&format!("jobs get {job}"), &short);
    shell.refused(&format!("jobs get {APP}/nothing"), 3);
    shell.shows(&format!("jobs list --app {APP}"), &short);
    shell.shows(&format!("jobs update {job} --timeout 1m"), &short);
    shell.shows(&format!("jobs next {job}"), "20");
    shell.shows(&format!("jobs pause {job} --reason holiday"), "PAUSED");
    shell.shows(&format!("jobs get {job}"), "holiday");
    shell.shows(&format!("jobs resume {job}"), &short);
    shell.shows(&format!("jobs revisions {job}"), "hello");
    shell.shows(&format!("jobs diff {job} --from 1 --to 2"), "60s");
    shell.refused(&format!("jobs diff {job} --from 1 --to 99"), 2);
    shell.shows(&format!("jobs rollback {job} 1"), &short);
    let done = shell.ends(&format!("jobs trigger {job} --wait"), 0);
    assert!(text(&done.stdout).contains("SUCCEEDED"), "{}", text(&done.stdout));
    let fails = format!("{APP}/fails-{}", shell.format);
    shell.shows(&format!("jobs create {fails} --handler fail"), "fails-");
    let failed = shell.ends(&format!("jobs trigger {fails} --wait"), 1);
    assert!(text(&failed.stdout).contains("NO_LUCK"), "{}", text(&failed.stdout));
    shell.ends(&format!("jobs delete {fails}"), 0);
    shell.refused(&format!("jobs delete {fails}"), 3);
}

fn runs(shell: &mut Shell<'_>) {
    let job = format!("{APP}/job-{}", shell.format);
    let run = shell.first(&format!("runs list --job {job} --state succeeded"), "runs", "name");
    shell.shows("runs list", "job-");
    shell.shows(&format!("runs get {run}"), "job-");
    let log = text(&shell.ends(&format!("runs logs {run}"), 0).stdout);
    assert!(shell.format != "json" || log.is_empty() || log.starts_with('{'), "{log}");
    shell.ends(&format!("runs wait {run}"), 0);
    shell.ends(&format!("runs rerun {run} --wait"), 0);
    shell.shows(&format!("runs cancel {run}"), "SUCCEEDED");
    shell.watches(&job);
    let waits = format!("{APP}/waits-{}", shell.format);
    shell.shows(&format!("jobs create {waits} --handler wait"), "waits-");
    shell.ends(&format!("jobs trigger {waits} --wait --timeout 300ms"), 7);
    let run = shell.first(&format!("runs list --job {waits}"), "runs", "name");
    shell.ends(&format!("runs cancel {run} --reason enough"), 0);
    shell.ends(&format!("runs wait {run}"), 1);
    shell.refused(&format!("runs get {APP}/01JQ0000000000000000000000"), 3);
}

/// Calendars, and what is foreseen and made up for by schedules.
fn schedules(shell: &mut Shell<'_>) {
    let (id, job) = (format!("days-{}", shell.format), format!("{APP}/cron-{}", shell.format));
    let calendar = format!("{APP}/{id}");
    shell.shows(&format!("calendars create {calendar} --date 2026-12-25 --weekdays sat,sun"), &id);
    shell.refused(&format!("calendars create {calendar}"), 6);
    shell.refused(&format!("calendars create {APP}/bad --date 2026-02-30"), 2);
    shell.shows(&format!("calendars get {calendar}"), "2026-12-25");
    shell.refused(&format!("calendars get {APP}/nothing"), 3);
    shell.shows(&format!("calendars list --app {APP}"), &id);
    shell.shows(&format!("calendars update {calendar} --display-name Off"), "Off");

    let cron = format!("--cron @hourly --spread 30m --exclude-calendar {id}");
    shell.shows(&format!("jobs create {job} --handler hello --params \"Ann\" {cron}"), "cron-");
    shell.refused(&format!("calendars delete {calendar}"), 6);
    shell.shows(&format!("jobs get {job}"), if shell.is_table() { "within 30m" } else { "1800s" });
    shell
        .shows(&format!("jobs next {job}"), if shell.is_table() { "  due 20" } else { "dueTimes" });
    shell.shows(&format!("forecast --hours 200 --limit 0 --app {APP}"), "cron-");
    shell.refused("forecast --from yesterday-ish", 2);
    shell.refused("forecast --app no-such-app", 3);

    // Tuesday.
    let range = "--from 2026-06-09T00:00:00Z --to 2026-06-09T03:00:00Z";
    let count = if shell.is_table() { "3 to be made" } else { "3" };
    shell.shows(&format!("jobs backfill {job} {range} --dry-run"), count);
    shell.shows(&format!("jobs backfill {job} {range}"), "3");
    shell.refused(&format!("jobs backfill {job} --from 2026-06-09T00:00:00Z --to never"), 2);
    shell.refused(&format!("jobs backfill {APP}/nothing {range}"), 3);
    let end = std::time::Instant::now() + STEP;
    let done = format!("runs list --job {job} --state succeeded");
    while text(&shell.run(&done).stdout).matches("01").count() < 3 {
        assert!(std::time::Instant::now() < end, "the backfill does not end");
    }
    let run = shell.first(&done, "runs", "name");
    shell.ends(&format!("jobs delete {job}"), 0);
    shell.refused(&format!("runs rerun {run}"), 6);
    shell.ends(&format!("calendars delete {calendar}"), 0);
    shell.refused(&format!("calendars delete {calendar}"), 3);
}

/// Alarm rules, and the alarm that one raises.
fn alarms(shell: &mut Shell<'_>) {
    let (rule, job) = (format!("{APP}/r-{}", shell.format), format!("{APP}/bad-{}", shell.format));
    let hook = "--webhook http://127.0.0.1:9/hook";
    let only = format!("name=\"bad-{}\"", shell.format);
    let create = format!("alarm-rules create {rule} --on run-failed --filter {only} {hook}");
    shell.shows(&create, "r-");
    shell.refused(&create, 6);
    shell.refused(&format!("alarm-rules create {APP}/bad --on run-failed"), 2);
    shell.shows(&format!("alarm-rules get {rule}"), "127.0.0.1:9");
    shell.refused(&format!("alarm-rules get {APP}/nothing"), 3);
    shell.shows(&format!("alarm-rules list --app {APP}"), "r-");
    shell.shows(&format!("alarm-rules update {rule} --display-name Broken"), "Broken");
    shell.ends(&format!("alarm-rules test {rule}"), 1);

    shell.shows(&format!("jobs create {job} --handler fail"), "bad-");
    shell.ends(&format!("jobs trigger {job} --wait"), 1);
    let list = format!("alarms list --job {job}");
    let end = std::time::Instant::now() + STEP;
    while !text(&shell.run(&list).stdout).contains("FAILED") {
        assert!(std::time::Instant::now() < end, "no alarm is raised");
    }
    shell.shows(&list, "FAILED");
    let alarm = shell.first(&list, "alarms", "name");
    shell.shows(&format!("alarms ack {alarm} --comment seen"), "seen");
    shell.refused(&format!("alarms ack {APP}/01JQ0000000000000000000000"), 3);
    shell.ends(&format!("alarm-rules delete {rule}"), 0);
    shell.refused(&format!("alarm-rules delete {rule}"), 3);
}

fn files(shell: &mut Shell<'_>) {
    let file = format!("jobs-{}.yaml", shell.format);
    let job = format!("filed-{}", shell.format);
    let yaml = format!("app: {APP}\njobs:\n- name: {job}\n  handler: hello\n  every: 1h\n");
    std::fs::write(shell.dir.join(&file), yaml).expect("written");
    let dry = text(&shell.ends(&format!("apply -f {file} --dry-run"), 0).stdout);
    assert!(dry.contains(&job), "{dry}");
    shell.refused(&format!("jobs get {APP}/{job}"), 3);
    shell.ends(&format!("apply -f {file}"), 0);
    shell.shows(&format!("jobs get {APP}/{job}"), &job);
    let again = text(&shell.ends(&format!("export {APP}/{job}"), 0).stdout);
    assert!(again.contains(&job), "{again}");
    shell.refused("apply -f no-such-file.yaml", 2);
    let rules = format!(
        "app: {APP}\nalarmRules:\n- name: filed-{}\n  condition: run-lost\n  channels:\n  \
         - webhook: {{url: 'http://127.0.0.1:9/', secret: s3cret}}\n",
        shell.format
    );
    std::fs::write(shell.dir.join(&file), &rules).expect("written");
    let applied = |shell: &mut Shell<'_>, line: &str, action: &str| {
        let said = text(&shell.ends(line, 0).stdout);
        assert!(said.contains(action), "{action} in {said}");
    };
    applied(shell, &format!("apply -f {file} --dry-run"), "create");
    applied(shell, &format!("apply -f {file}"), "create");
    applied(shell, &format!("apply -f {file}"), "unchanged");
    let whole = text(&shell.ends(&format!("export --app {APP}"), 0).stdout);
    assert!(whole.contains("alarmRules") && !whole.contains("s3cret"), "{whole}");
    std::fs::write(shell.dir.join(&file), whole).expect("written");
    applied(shell, &format!("apply -f {file}"), "unchanged");
    std::fs::write(shell.dir.join(&file), rules.replace("s3cret", "another")).expect("written");
    applied(shell, &format!("apply -f {file} --dry-run"), "update");
}

fn tokens(shell: &mut Shell<'_>) {
    let what = format!("reader-{}", shell.format);
    let secret = shell.ends(&format!("tokens create {what} --role viewer --app {APP}"), 0);
    let secret = text(&secret.stdout);
    assert!(secret.contains("clawjob_"), "shown once");
    shell.shows("tokens list", &what);
    let format = std::mem::replace(&mut shell.format, "json");
    let listed: Value =
        serde_json::from_slice(&shell.ends("tokens list --limit 0", 0).stdout).expect("JSON");
    shell.format = format;
    let tokens = listed["tokens"].as_array().expect("tokens");
    let made = tokens.iter().find(|token| token["displayName"] == *what).expect("listed");
    let name = made["name"].as_str().expect("a name");
    shell.shows(&format!("tokens revoke {name}"), &what);
    shell.refused("tokens revoke tokens/nobody", 3);
    shell.refused("tokens create useless", 2);
}

fn users(shell: &mut Shell<'_>) {
    let user = format!("ann-{}", shell.format);
    let made = shell.ends(&format!("users create {user} --role editor --app {APP}"), 0);
    let made = text(&made.stdout);
    assert!(made.contains('-') && made.trim().len() >= 24, "a first password, once: {made}");
    shell.refused(&format!("users create {user}"), 6);
    shell.shows("users list", &user);
    shell.shows(&format!("users get {user}"), &user);
    shell.shows(&format!("users update {user} --display-name Ann --grant *=viewer"), "Ann");
    shell.ends(&format!("users reset-password {user}"), 0);
    let file = shell.dir.join("password");
    std::fs::write(&file, "three tall herons\n").expect("written");
    shell.shows(&format!("users reset-password {user} --password-file password"), &user);
    shell.shows("audit list", "IdentityService/CreateUser");
    shell.shows("audit list --failed --method IdentityService/CreateUser --since 1h", "");
    let log = text(&shell.ends("audit list --limit 0", 0).stdout);
    assert!(!log.contains("three tall herons") && !log.contains(made.trim()), "{log}");
    shell.ends(&format!("users delete {user}"), 0);
    shell.refused(&format!("users get {user}"), 3);
    shell.refused("users update nobody", 2);
}

fn others(shell: &mut Shell<'_>) {
    shell.shows("status", "sqlite");
    shell.shows("whoami", "tokens/");
    shell.shows("cron next @hourly --tz Europe/Berlin -n 2", "20");
    shell.ends("completions bash", 0);
    shell.refused("jobs list --no-such-flag", 2);
    if shell.format != FORMATS[0] {
        return;
    }
    let call = |token: &str, url: &str| {
        let output = clawjob()
            .args(["jobs", "list", "-o", shell.format])
            .env("CLAWJOB_ENDPOINTS", url)
            .env("CLAWJOB_TOKEN", token)
            .output();
        output.expect("it starts").status.code()
    };
    assert_eq!(call("clawjob_nobody_x", &shell.node.url()), Some(4), "no such token");
    assert_eq!(call(&shell.node.admin_token(), "http://127.0.0.1:9"), Some(5), "nobody there");
}
