//! The house keeps its shape: layers point down, SQL and statuses stay where they belong, files
//! stay small enough to read.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Production lines of one file.
const FILE_LINES_MAX: usize = 500;

/// Modules of the scheduler with what they may use besides their own; a name ending in `::` must
/// match as a path, others as a module.
const MAY_USE: [(&str, &[&str]); 22] = [
    ("model", &[]),
    ("clock", &[]),
    ("telemetry", &["model"]),
    ("store", &["model", "clock", "telemetry"]),
    ("board", &["model", "store"]),
    ("hub", &["model", "store", "clock", "telemetry"]),
    ("fleet", &["model", "store", "hub", "clock", "telemetry"]),
    ("node", &["model", "store", "clock", "board", "telemetry"]),
    ("route", &["model"]),
    ("trigger", &["model", "store", "board", "telemetry"]),
    ("dispatch", &["model", "store", "board", "hub", "fleet", "route", "clock", "telemetry"]),
    ("janitor", &["model", "store", "board", "hub", "fleet", "telemetry"]),
    ("follow", &["model", "store", "board", "alarm", "telemetry"]),
    ("results", &["model", "store", "board", "hub", "fleet", "clock", "telemetry"]),
    (
        "owner",
        &[
            "model",
            "store",
            "board",
            "clock",
            "fleet",
            "node",
            "trigger",
            "dispatch",
            "janitor",
            "telemetry",
        ],
    ),
    ("alarm", &["model", "store", "clock", "telemetry"]),
    ("api", &["model", "store", "hub", "alarm", "clock", "telemetry", "console"]),
    ("console", &[]),
    ("config", &["model"]),
    ("demo", &["config", "runtime"]),
    ("lib", &[]),
    (
        "runtime",
        &[
            "alarm",
            "api",
            "board",
            "clock",
            "config",
            "dispatch",
            "fleet",
            "follow",
            "hub",
            "janitor",
            "model",
            "node",
            "owner",
            "results",
            "store",
            "telemetry",
            "trigger",
        ],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("a readable directory") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" {
                dirs.push(path);
            } else if name.ends_with(".rs") {
                found.push(path);
            }
        }
    }
    found
}

/// The lines before the unit tests.
fn production(text: &str) -> Vec<&str> {
    text.lines().take_while(|line| line.trim() != "#[cfg(test)]").collect()
}

fn module_of(path: &Path) -> String {
    let inner = path.strip_prefix(root().join("src")).expect("a file of the scheduler");
    let first = inner.components().next().expect("a name").as_os_str().to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

fn is_test(path: &Path) -> bool {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    name == "tests" || path.components().any(|part| part.as_os_str() == "tests")
}

#[test]
fn layers_only_point_down() {
    let mut faults = Vec::new();
    for path in rust_files(&root().join("src")).into_iter().filter(|path| !is_test(path)) {
        let module = module_of(&path);
        if module == "main" {
            continue;
        }
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == module) else {
            faults.push(format!("{} has no place in the house", path.display()));
            continue;
        };
        let text = fs::read_to_string(&path).expect("readable");
        for used in used_modules(&production(&text).join("\n")) {
            if used != module && !allowed.contains(&used.as_str()) {
                faults.push(format!("{}: {module} uses {used}", path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Modules that a text names by `crate::`, grouped imports included.
fn used_modules(text: &str) -> Vec<String> {
    let mut used = Vec::new();
    for (start, _) in text.match_indices("crate::") {
        let rest = &text[start + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut name = String::new();
            for c in group.chars() {
                match c {
                    '}' if depth == 0 => {
                        used.push(std::mem::take(&mut name));
                        break;
                    }
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    ',' if depth == 0 => used.push(std::mem::take(&mut name)),
                    c if depth == 0 => name.push(c),
                    _ => {}
                }
            }
        } else {
            used.push(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
    }
    used.iter()
        .map(|name| name.trim().split("::").next().unwrap_or_default().trim().to_owned())
        .filter(|name| !name.is_empty() && *name != "self")
        .collect()
}

#[test]
fn sql_lives_under_store_only() {
    let verbs = ["SELECT ", "INSERT INTO ", "DELETE FROM ", "UPDATE SET "];
    for path in rust_files(&root().join("src")).into_iter().filter(|path| !is_test(path)) {
        if module_of(&path) == "store" {
            continue;
        }
        let text = fs::read_to_string(&path).expect("readable");
        for line in production(&text) {
            let code = line.split("//").next().unwrap_or_default();
            assert!(!verbs.iter().any(|verb| code.contains(verb)), "{}: {line}", path.display());
        }
    }
}

#[test]
fn statuses_are_built_in_one_file() {
    for path in rust_files(&root().join("src")).into_iter().filter(|path| !is_test(path)) {
        if path.ends_with("api/status.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("readable");
        for line in production(&text) {
            let builds = ["Status::new(", "Status::invalid_argument(", "Status::internal("];
            assert!(!builds.iter().any(|b| line.contains(b)), "{}: {line}", path.display());
        }
    }
}

#[test]
fn files_can_be_read_in_one_sitting() {
    let workspace = root().join("..");
    for part in [
        "scheduler/src",
        "executor-rs/src",
        "clients/cli/src",
        "clients/bench/src",
        "clients/conformance/src",
        "proto/src",
    ] {
        for path in rust_files(&workspace.join(part)) {
            let text = fs::read_to_string(&path).expect("readable");
            let lines = production(&text).len();
            assert!(lines <= FILE_LINES_MAX, "{} has {lines} lines", path.display());
        }
    }
}

/// What users of such systems ran into, line by line: id, where it is shown, whether its test is
/// still to come, and what must hold.
const BEHAVIOURS: &str = include_str!("data/behaviours.tsv");

/// A line of the list: id, where, still to come.
fn behaviours() -> Vec<(&'static str, &'static str, bool)> {
    let line = |line: &'static str| {
        let parts: Vec<&str> = line.split('\t').collect();
        let &[id, place, pending, summary] = &parts[..] else { panic!("four columns: {line:?}") };
        assert!(["here", "cluster", "console", "sdk"].contains(&place), "{line}");
        assert!(["pending", "-"].contains(&pending) && !summary.is_empty(), "{line}");
        (id, place, pending == "pending")
    };
    BEHAVIOURS.lines().map(line).collect()
}

/// The ids that the name of a test begins with: `x36_r48_a_kill_takes_all` has two.
fn ids_of(name: &str) -> Vec<String> {
    let is_id = |part: &&str| {
        part.strip_prefix(['x', 'r'])
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    name.split('_').take_while(is_id).map(str::to_uppercase).collect()
}

/// The ids of the console's tests, whose names are sentences: `test("r73 30 jobs switched …`.
fn console_ids() -> Vec<String> {
    let tests = fs::read_dir(root().join("tests/console")).expect("the console's tests");
    let files = tests.map(|entry| entry.expect("an entry").path());
    let texts = files.filter(|path| path.extension().is_some_and(|end| end == "js"));
    let texts = texts.map(|path| fs::read_to_string(path).expect("readable"));
    let ids = |text: String| -> Vec<String> {
        let names = text.lines().filter_map(|line| line.strip_prefix("test(\""));
        names.flat_map(|name| ids_of(&name.replace(' ', "_"))).collect()
    };
    texts.flat_map(ids).collect()
}

#[test]
fn each_behaviour_has_a_test_that_carries_its_id() {
    let mut shown: Vec<String> = Vec::new();
    for part in ["scheduler", "executor-rs", "clients", "proto", "migrations"] {
        for path in rust_files(&root().join("..").join(part)) {
            let text = fs::read_to_string(&path).expect("readable");
            let names = text.lines().filter_map(|line| line.trim_start().split_once("fn "));
            shown.extend(names.flat_map(|(_, name)| ids_of(name.split('(').next().unwrap_or(""))));
        }
    }
    shown.extend(console_ids());
    let listed = behaviours();
    let mut faults = Vec::new();
    for (at, (id, place, pending)) in listed.iter().enumerate() {
        let has_test = shown.iter().any(|name| name == id);
        if listed[..at].iter().any(|(other, ..)| other == id) {
            faults.push(format!("{id} is listed twice"));
        }
        if ["here", "console"].contains(place) && !pending && !has_test {
            faults.push(format!("{id} has no test: a fn named {}_...", id.to_lowercase()));
        }
        if *pending && has_test {
            faults.push(format!("{id} has its test: put - for pending in behaviours.tsv"));
        }
    }
    shown.retain(|id| !listed.iter().any(|(other, ..)| other == id));
    faults.extend(shown.iter().map(|id| format!("a test carries {id}, which is not listed")));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let pending: Vec<_> = listed.iter().filter(|(.., pending)| *pending).map(|l| l.0).collect();
    println!("still to come: {}", pending.join(" "));
}
