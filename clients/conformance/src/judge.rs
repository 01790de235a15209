//! Runs scenarios beside each other and says what became of them.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use parking_lot::Mutex;

use crate::table::{Cell, Table};

/// Lines of a program's output that are told when its scenario fails.
const TOLD_LINES_MAX: usize = 20;

tokio::task_local! {
    /// Where a panic of this scenario is noted, with its place.
    static FAULT: Arc<Mutex<Option<String>>>;
}

/// One scenario for subjects of a kind: a list of what happens, which panics at the first surprise.
pub(crate) struct Scenario<T> {
    /// The function's: perhaps a behaviour, then the id, then what must hold.
    pub(crate) name: &'static str,
    pub(crate) run: fn(T) -> BoxFuture<'static, ()>,
}

/// The scenarios of a file, by the names of their functions.
macro_rules! scenarios {
    ($($name:ident),+ $(,)?) => {
        &[$($crate::judge::Scenario {
            name: stringify!($name),
            run: |subject| Box::pin($name(subject)),
        }),+]
    };
}
pub(crate) use scenarios;

impl<T> Scenario<T> {
    /// The number in the contract: `C01`.
    pub(crate) fn id(&self) -> String {
        let is_id = |part: &&str| {
            part.len() == 3
                && part.starts_with(['b', 'c', 'e', 's', 'v'])
                && part[1..].bytes().all(|byte| byte.is_ascii_digit())
        };
        self.name.split('_').find(is_id).unwrap_or(self.name).to_uppercase()
    }

    /// What must hold, in words.
    pub(crate) fn title(&self) -> String {
        let id = self.id().to_lowercase();
        let words = self.name.split_once(&format!("{id}_")).map_or(self.name, |(_, words)| words);
        words.replace('_', " ")
    }
}

/// What a scenario is about: something that keeps what its processes say.
pub(crate) trait Subject: Send + 'static {
    /// The words of its processes.
    fn words(&self) -> Words;
}

/// The last words of a scenario's processes.
#[derive(Clone, Default)]
pub(crate) struct Words(Arc<Mutex<VecDeque<String>>>);

impl Words {
    pub(crate) fn add(&self, line: String) {
        let mut lines = self.0.lock();
        if lines.len() == TOLD_LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn told(&self) -> String {
        self.0.lock().iter().map(|line| format!("\n    | {line}")).collect()
    }
}

/// What became of a scenario: `None` when it passed, else why it did not.
pub(crate) type Verdict = Option<String>;

/// Scenarios to be run.
pub(crate) struct Judge {
    parallel: usize,
    longest: Duration,
    waiting: Vec<BoxFuture<'static, (Cell, Verdict)>>,
}

impl Judge {
    /// So many beside each other, none of them for longer than that.
    pub(crate) fn new(parallel: usize, longest: Duration) -> Self {
        std::panic::set_hook(Box::new(|panic| {
            let note = |fault: &Arc<Mutex<Option<String>>>| {
                fault.lock().get_or_insert_with(|| panic.to_string());
            };
            if FAULT.try_with(note).is_err() {
                eprintln!("{panic}");
            }
        }));
        Self { parallel: parallel.max(1), longest, waiting: Vec::new() }
    }

    /// Has a scenario run for a cell of the table.
    fn add<T: Subject>(&mut self, cell: Cell, scenario: &Scenario<T>, subject: T) {
        let verdict = verdict(scenario.run, subject, self.longest);
        self.waiting.push(Box::pin(async move { (cell, verdict.await) }));
    }

    /// Has those of the scenarios run that are wanted, in a column of the table.
    pub(crate) fn add_all<'a, T: Subject>(
        &mut self,
        (table, column): (&mut Table, &str),
        scenarios: impl IntoIterator<Item = &'a Scenario<T>>,
        wanted: impl Fn(&str) -> bool,
        subject: impl Fn() -> T,
    ) {
        let column = table.column(column);
        for scenario in scenarios {
            let id = scenario.id();
            let wanted = wanted(&id);
            let row = table.row(id, scenario.title());
            if wanted {
                self.add((row, column), scenario, subject());
            }
        }
    }

    /// Runs them all.
    pub(crate) async fn verdicts(self) -> Vec<(Cell, Verdict)> {
        stream::iter(self.waiting)
            .map(|one| async { tokio::spawn(one).await.unwrap() })
            .buffer_unordered(self.parallel)
            .collect()
            .await
    }
}

async fn verdict<T: Subject>(
    run: fn(T) -> BoxFuture<'static, ()>,
    subject: T,
    longest: Duration,
) -> Verdict {
    let words = subject.words();
    let fault = Arc::new(Mutex::new(None));
    let scenario = tokio::time::timeout(longest, run(subject));
    let ended = FAULT.scope(fault.clone(), AssertUnwindSafe(scenario).catch_unwind()).await;
    let why = match ended {
        Ok(Ok(())) => return None,
        Ok(Err(_)) => format!("took longer than {longest:?}"),
        Err(_) => fault.lock().take().unwrap_or_else(|| "panicked".to_owned()),
    };
    Some(why + &words.told())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing(Words);

    impl Subject for Nothing {
        fn words(&self) -> Words {
            self.0.clone()
        }
    }

    async fn c01_all_is_well(_: Nothing) {}

    async fn c02_one_is_two(subject: Nothing) {
        subject.0.add("said so".to_owned());
        assert_eq!(1, 2, "one is not two");
    }

    const SCENARIOS: &[Scenario<Nothing>] = scenarios![c01_all_is_well, c02_one_is_two];

    #[tokio::test]
    async fn a_failed_scenario_tells_why_and_what_its_processes_said() {
        let mut judge = Judge::new(2, Duration::from_secs(60));
        for (row, scenario) in SCENARIOS.iter().enumerate() {
            judge.add((row, 0), scenario, Nothing(Words::default()));
        }
        let mut verdicts = judge.verdicts().await;
        verdicts.sort_by_key(|(cell, _)| *cell);
        assert_eq!(verdicts[0].1, None);
        let why = verdicts[1].1.clone().unwrap();
        assert!(why.contains("one is not two") && why.contains("judge.rs"), "{why}");
        assert!(why.ends_with("| said so"), "{why}");
    }

    #[test]
    fn a_scenario_is_named_by_its_function() {
        assert_eq!((SCENARIOS[0].id(), SCENARIOS[0].title()), ("C01".into(), "all is well".into()));
    }
}
