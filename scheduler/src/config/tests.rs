//! Files, environment and flags as one configuration; all faults at once.

use super::{bounds::is_log_level, *};

fn read(file: &str, name: &str) -> Result<Config, ConfigFaults> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join(name);
    std::fs::write(&path, file).expect("written");
    load(Some(&path), std::iter::empty(), &[])
}

fn faults(file: &str, name: &str) -> Vec<(String, String)> {
    read(file, name)
        .err()
        .map_or(Vec::new(), |all| all.0.into_iter().map(|fault| (fault.key, fault.fault)).collect())
}

#[test]
fn all_faults_of_a_file_are_told_at_once() {
    let found = faults(
        "listen: here\nlgo:\n  level: info\nlog:\n  format: xml\nlimits:\n  sessions: -3\n",
        "clawjob.yaml",
    );
    let keys: Vec<_> = found.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["lgo", "limits.sessions", "log.format", "listen"]);
    assert!(found[0].1.contains("did you mean log"), "{}", found[0].1);
}

#[test]
fn a_bad_value_is_told_in_words_for_people() {
    let told = |line: &str| faults(line, "a.yaml").pop().expect("a fault").1;
    for (line, fault) in [
        ("limits:\n  sessions: -3", "must be a whole number from 0 up to 4294967295, not -3"),
        ("log:\n  format: xml", "must be text or json, not \"xml\""),
        ("log: 5", "must hold keys of its own, not a number"),
        ("behind_proxy: maybe", "must be true or false, not \"maybe\""),
        ("timings:\n  lost_after: 90", "must be a duration such as 90s, 5m or 2h, not 90"),
        ("database: 5", "must be a text (in quotes where it looks otherwise), not a number"),
    ] {
        assert_eq!(told(line), fault, "{line}");
    }
    let flag = load(None, std::iter::empty(), &[("log.leve", "x".to_owned())]);
    assert!(flag.expect_err("unknown").0[0].fault.contains("did you mean log.level?"));
}

#[test]
fn no_key_tells_a_bad_value_in_the_words_of_the_program() {
    let builder = Builder::default();
    for key in builder.keys() {
        for bad in [serde_json::json!([[1]]), serde_json::json!({"a": 1}), Value::from(-1.5)] {
            let mut builder = Builder::default();
            builder.set("here", &key, bad);
            let Some(fault) = builder.faults.pop() else { continue };
            let words = ["invalid", "expected", "struct", "u32", "usize", "variant", "string"];
            assert!(fault.fault.starts_with("must "), "{key}: {}", fault.fault);
            assert!(!words.iter().any(|word| fault.fault.contains(word)), "{}", fault.fault);
        }
    }
}

#[test]
fn yaml_and_toml_say_the_same() {
    let yaml = "log:\n  level: debug\ntimings:\n  lost_after: 2m\n";
    let toml = "[log]\nlevel = \"debug\"\n[timings]\nlost_after = \"2m\"\n";
    assert_eq!(faults(yaml, "a.yaml"), faults(toml, "a.toml"));
    assert!(faults(yaml, "a.yaml").is_empty());
}

#[test]
fn a_context_path_stays_on_its_host_and_a_pool_has_its_database() {
    let told = |text: &str| {
        let found = faults(text, "a.yaml");
        found.iter().map(|(key, fault)| format!("{key} {fault}; ")).collect::<String>()
    };
    assert!(told("context_path: /a/b\n").is_empty());
    for path in ["//evil.example", "/a//b", "/a/", "a"] {
        let text = told(&format!("context_path: {path}\n"));
        assert!(text.contains("context_path"), "{path}: {text}");
    }
    let pool = "database_pool: postgres://p/x\n";
    assert!(told(pool).contains("goes with database"), "{}", told(pool));
    assert!(told(&format!("{pool}database: postgres://d/x\n")).is_empty());
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("c.yaml");
    let text = "listen: 127.0.0.1:1\ncontext_path: /a\ndatabase_pool_size: 3\n";
    std::fs::write(&path, text).expect("written");
    let env = [
        ("CLAWJOB_LISTEN", "127.0.0.1:2"),
        ("CLAWJOB_CONTEXT_PATH", "/b"),
        ("CLAWJOB_TOKEN", "not the server's"),
        ("CLAWJOB_CONFIG", "read by the command line"),
        ("CLAWJOB_TEST_PYTHON", "of the tests"),
        ("CLAWJOB_SERVICE_HOST", "10.0.0.1"),
        ("CLAWJOB_PORT", "tcp://10.0.0.1:7700"),
        ("CLAWJOB_PORT_7700_TCP", "tcp://10.0.0.1:7700"),
        ("CLAWJOB_TIMINGS_LOST_AFTER", "90s"),
        ("OTHER", "x"),
    ];
    let env = env.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned()));
    let flags = [("listen", "127.0.0.1:3".to_owned())];
    let config = load(Some(&path), env, &flags).expect("no faults");
    assert_eq!(config.listen, "127.0.0.1:3");
    assert_eq!(config.context_path, "/b");
    assert_eq!(config.database_pool_size, 3);
    assert_eq!(config.timings.lost_after, Duration::from_secs(90));
}

#[test]
fn a_level_with_a_typing_error_is_a_fault_and_not_silence() {
    for level in ["info", "WARN", "info,hyper=off", "clawjob_scheduler::hub=debug,warn"] {
        assert!(is_log_level(level), "{level}");
    }
    for level in ["loud", "wran", "info,debgu", "hyper=loud"] {
        assert!(!is_log_level(level), "{level}");
    }
}

#[test]
fn a_variable_that_means_nothing_is_a_fault() {
    let env = [("CLAWJOB_LISTN".to_owned(), "x".to_owned())].into_iter();
    let found = load(None, env, &[]).expect_err("unknown");
    assert_eq!(found.0[0].origin, "CLAWJOB_LISTN");
    assert!(found.0[0].fault.contains("did you mean listen"));
}

#[test]
fn a_printed_configuration_can_be_read_again_and_keeps_passwords_to_itself() {
    let url = "postgres://claw:s3cret@db/claw?password=x&sslmode=require".to_owned();
    let config = Config { database: Some(url), ..Config::default() };
    let text = print(&config).expect("prints");
    assert!(!text.contains("s3cret") && !text.contains("password=x"), "{text}");
    assert!(faults(&text, "printed.yaml").is_empty());
}

#[test]
fn times_are_printed_in_the_unit_they_are_whole_in_and_read_back() {
    let mut config = Config::default();
    config.timings.lost_after = Duration::from_secs(90);
    config.timings.heartbeat_interval = Duration::from_millis(2500);
    let text = print(&config).expect("prints");
    for line in ["audit: 365d", "runs: 30d", "absolute_end: 12h", "lost_after: 90s"] {
        assert!(text.contains(&format!("  {line}\n")), "{line} in {text}");
    }
    assert_eq!(read(&text, "printed.yaml").expect("no faults"), config);
}
