//! Reads job files: YAML (JSON is YAML too) of one or more documents, each a job, a list of jobs,
//! or a mapping with `app`, `calendars`, `jobs` and `alarmRules`.

use std::collections::{BTreeMap, BTreeSet};

use clawjob_proto::{
    json,
    v1::{AlarmRule, Calendar, Job},
};
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::{depth, normalize};
use crate::{
    context::Context,
    error::CliError,
    names::{self, Kind},
    show, values,
};

/// Most jobs that are read at once.
const JOBS_MAX: usize = 10_000;
/// Most faults that are told at once.
const FAULTS_MAX: usize = 100;

/// The lists that a document may have, with what is in them.
const LISTS: [(&str, Kind); 3] =
    [("calendars", Kind::Calendar), ("jobs", Kind::Job), ("alarmRules", Kind::AlarmRule)];

/// What the files want.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// In the files' order.
    pub(crate) jobs: Vec<Job>,
    /// In the files' order.
    pub(crate) calendars: Vec<Calendar>,
    /// In the files' order.
    pub(crate) rules: Vec<AlarmRule>,
    /// The apps whose alarm rules the files name, be it an empty list: what prune may touch of them.
    pub(crate) rule_apps: BTreeSet<String>,
    /// The apps that the files name, those without jobs included: what prune may touch.
    pub(crate) apps: BTreeSet<String>,
}

/// Reads all files; `-` is stdin.
///
/// # Errors
/// All faults of all files at once.
pub(crate) fn read(ctx: &mut Context<'_>, files: &[String]) -> Result<Wanted, CliError> {
    let mut reader = Reader { app: ctx.app.clone(), ..Reader::default() };
    for file in files {
        match values::read_input(file, ctx.term) {
            Ok(text) => reader.text(&text, file),
            Err(e) => reader.faults.push(e.to_string()),
        }
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    app: Option<String>,
    wanted: Wanted,
    /// Where each job was first found.
    places: BTreeMap<String, String>,
    faults: Vec<String>,
}

impl Reader {
    fn text(&mut self, text: &str, file: &str) {
        if let Some(line) = depth::too_deep(text) {
            let most = depth::DEPTH_MAX;
            self.faults.push(format!(
                "{file}, line {line}: brackets nest more than {most} deep; nest less, and put \
                 text that has brackets into quotes"
            ));
            return;
        }
        for (index, document) in serde_norway::Deserializer::from_str(text).enumerate() {
            let place =
                if index == 0 { file.into() } else { format!("{file}, document {}", index + 1) };
            match serde_norway::Value::deserialize(document) {
                // An empty document, as after a final `---`.
                Ok(serde_norway::Value::Null) => {}
                Ok(value) => match to_json(value, &place) {
                    Ok(value) => self.document(value, &place),
                    Err(fault) => self.faults.push(fault),
                },
                Err(e) => {
                    // The parser cannot find its way again after such a fault.
                    self.faults.push(format!("{place}: not YAML: {e}"));
                    return;
                }
            }
        }
    }

    fn document(&mut self, value: Value, place: &str) {
        let app = self.app.clone();
        match value {
            Value::Array(jobs) => self.list("jobs", Kind::Job, jobs, app.as_deref(), place),
            Value::Object(map) if LISTS.iter().any(|(key, _)| map.contains_key(*key)) => {
                self.lists(map, place);
            }
            Value::Object(job) => self.item(Kind::Job, job, app.as_deref(), place),
            _ => self.faults.push(format!("{place}: must be a job, or a list of jobs")),
        }
    }

    /// A document of lists.
    fn lists(&mut self, mut map: Map<String, Value>, place: &str) {
        let app = match map.remove("app") {
            Some(Value::String(own)) => match names::app_id(&own) {
                Ok(id) => {
                    // The app of the environment or of a flag is none that a file names.
                    self.wanted.apps.insert(id.to_owned());
                    if map.contains_key("alarmRules") {
                        self.wanted.rule_apps.insert(id.to_owned());
                    }
                    Some(id.to_owned())
                }
                Err(e) => {
                    self.faults.push(format!("{place}: {e}"));
                    self.app.clone()
                }
            },
            Some(_) => {
                self.faults.push(format!("{place}: app: must be a word, such as demo"));
                self.app.clone()
            }
            None => self.app.clone(),
        };
        // What a list of jobs printed by the client carries besides.
        map.remove("nextPageToken");
        for (key, kind) in LISTS {
            match map.remove(key) {
                Some(Value::Array(items)) => self.list(key, kind, items, app.as_deref(), place),
                None => {}
                Some(Value::Null) if kind != Kind::Job => {}
                Some(_) => self.faults.push(format!("{place}: {key}: must be a list")),
            }
        }
        self.faults.extend(map.keys().map(|key| {
            format!(
                "{place}: {key}: unknown beside jobs; only app, calendars and alarmRules may stand \
                 there"
            )
        }));
    }

    fn list(&mut self, key: &str, kind: Kind, items: Vec<Value>, app: Option<&str>, place: &str) {
        for (index, item) in items.into_iter().enumerate() {
            let place = format!("{place}: {key}[{index}]");
            match item {
                Value::Object(map) => self.item(kind, map, app, &place),
                _ => self.faults.push(format!("{place}: must be {}: keys and values", one(kind))),
            }
        }
    }

    fn item(&mut self, kind: Kind, map: Map<String, Value>, app: Option<&str>, place: &str) {
        let Some((name, place, value)) = self.named(kind, map, app, place) else { return };
        let wanted = &mut self.wanted;
        let read = match kind {
            Kind::Calendar => json::from_value::<Calendar>(value, false)
                .map(|calendar| wanted.calendars.push(Calendar { name, ..calendar })),
            Kind::AlarmRule => json::from_value::<AlarmRule>(value, false)
                .map(|rule| wanted.rules.push(AlarmRule { name, ..rule })),
            _ => json::from_value::<Job>(value, false)
                .map(|job| wanted.jobs.push(Job { name, ..job })),
        };
        if let Err(e) = read {
            self.faults.push(format!("{place}: {e}"));
        }
    }

    /// Full name, place for messages, and the contract's JSON; `None` when there are faults, which
    /// are noted.
    fn named(
        &mut self,
        kind: Kind,
        mut map: Map<String, Value>,
        app: Option<&str>,
        place: &str,
    ) -> Option<(String, String, Value)> {
        let own = map.remove("app");
        let app = match &own {
            Some(Value::String(own)) => Some(own.as_str()),
            Some(_) => {
                self.faults.push(format!("{place}.app: must be a word, such as demo"));
                app
            }
            None => app,
        };
        let name = match map.remove("name") {
            Some(Value::String(name)) => names::full(kind, &name, app),
            Some(_) => Err(CliError::usage("must be text: APP/NAME, or NAME with app")),
            None => Err(CliError::usage("missing: write APP/NAME, or NAME with app")),
        };
        let name = match name {
            Ok(name) => name,
            Err(e) => {
                self.faults.push(format!("{place}.name: {e}"));
                // Its other faults are told all the same.
                String::new()
            }
        };
        let place = if name.is_empty() {
            place.into()
        } else {
            format!("{place} ({})", names::short(&name))
        };
        if !name.is_empty()
            && let Some(first) = self.places.insert(name.clone(), place.clone())
        {
            self.faults.push(format!("{place}: the same again; it stands at {first} already"));
        }
        let before = self.faults.len();
        let app = names::split(&name).map(|(app, _)| app.to_owned());
        let value = match kind {
            Kind::Calendar => normalize::calendar(map, &place, &mut self.faults),
            Kind::AlarmRule => normalize::rule(map, &place, &mut self.faults),
            _ => normalize::job(map, app.as_deref(), &place, &mut self.faults),
        };
        if self.faults.len() > before || name.is_empty() {
            return None;
        }
        if kind == Kind::AlarmRule {
            self.wanted.rule_apps.extend(app.clone());
        }
        self.wanted.apps.extend(app);
        Some((name, place, value))
    }

    fn finish(mut self) -> Result<Wanted, CliError> {
        if self.wanted.jobs.len() > JOBS_MAX {
            self.faults.push(format!("more than {JOBS_MAX} jobs: split the file"));
        }
        if self.faults.is_empty() {
            return Ok(self.wanted);
        }
        let more = self.faults.len().saturating_sub(FAULTS_MAX);
        self.faults.truncate(FAULTS_MAX);
        if more > 0 {
            self.faults.push(format!("and {}", show::counted(more as u64, "more fault")));
        }
        Err(CliError::Usage(self.faults))
    }
}

/// What a list of the kind has.
fn one(kind: Kind) -> &'static str {
    match kind {
        Kind::Calendar => "a calendar",
        Kind::AlarmRule => "an alarm rule",
        _ => "a job",
    }
}

/// YAML as JSON: keys are text, numbers finite, tags unknown.
fn to_json(value: serde_norway::Value, place: &str) -> Result<Value, String> {
    use serde_norway::Value as Yaml;
    Ok(match value {
        Yaml::Null => Value::Null,
        Yaml::Bool(value) => Value::Bool(value),
        Yaml::String(value) => Value::String(value),
        Yaml::Number(number) => serde_json::to_value(&number)
            .ok()
            .filter(Value::is_number)
            .ok_or_else(|| format!("{place}: {number} is no number that JSON has"))?,
        Yaml::Sequence(items) => {
            let items = items.into_iter().enumerate();
            let items = items.map(|(index, item)| to_json(item, &format!("{place}[{index}]")));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        Yaml::Mapping(pairs) => {
            let mut map = Map::new();
            for (key, value) in pairs {
                let key = match key {
                    Yaml::String(key) => key,
                    Yaml::Number(key) => key.to_string(),
                    Yaml::Bool(key) => key.to_string(),
                    _ => return Err(format!("{place}: a key must be text")),
                };
                let value = to_json(value, &format!("{place}.{key}"))?;
                map.insert(key, value);
            }
            Value::Object(map)
        }
        Yaml::Tagged(tagged) => return Err(format!("{place}: tag {} is unknown", tagged.tag)),
    })
}

#[cfg(test)]
pub(super) fn parse(text: &str, app: Option<&str>) -> Result<Wanted, Vec<String>> {
    let mut reader = Reader { app: app.map(String::from), ..Reader::default() };
    reader.text(text, "f.yaml");
    reader.finish().map_err(|e| match e {
        CliError::Usage(faults) => faults,
        other => vec![other.to_string()],
    })
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
