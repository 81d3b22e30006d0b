//! A program that is stopped in the middle of an edit while another one edits the same file.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures::future::{Either, join, select};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::cases::interruption::calls_of;
use crate::cases::races::long_line;
use crate::disk::on_disk;
use crate::failure::{CaseError, expect_text};
use crate::sandbox::{self, CALLS_TO_SIGNAL, Sandbox, Trace};
use crate::session::{Answer, Client, insert};
use crate::target::Target;

/// The file that both programs edit.
const PATH: &str = "/memories/d/large.txt";

/// How long a program is stopped, for each race: a second with the default number of races.
const PAUSE_FOR_EACH_RACE: Duration = Duration::from_millis(10);

/// The most checks of whether the program has stopped, and their interval.
const STOP_CHECKS: u32 = 400;
const BETWEEN_STOP_CHECKS: Duration = Duration::from_millis(5);

cases! {
    |target| &target;
    stopped_process;
}

/// Stops a program in the middle of an edit while another one starts, and edits the same file. Later, the first one
/// continues. Its edit must succeed, or may fail after a longer stop. The other one may only be refused because the
/// file is in use.
async fn stopped_process(target: &Target) -> Result<(), CaseError> {
    let text = format!("{}\n", long_line()).repeat(20);
    target.client().must_create(PATH, text.as_str()).await?;
    let traces = on_disk("make a directory", TempDir::new).await?;
    let trace = |name: &str| Trace(traces.path().join(name));
    let started = Instant::now();
    let sandboxes = sandboxes(target, trace).await?;
    let course = started.elapsed();
    let mut content = format!("first\n{text}");
    for (round, sandbox) in sandboxes.into_iter().map(Some).chain([None, None]).take(2).enumerate() {
        let stopped = match &sandbox {
            Some(sandbox) => target.process_client_under(sandbox).await?,
            None => target.process_client().await?,
        };
        let moment = if sandbox.is_some() { Moment::OfItsOwn(trace("one")) } else { Moment::After(course / 4) };
        content = Round { target, stopped, number: round }.run(moment, &content).await?;
    }
    Ok(())
}

/// When a program is stopped.
enum Moment {
    /// After this time.
    After(Duration),
    /// It stops itself, which the trace shows.
    OfItsOwn(Trace),
}

/// Makes the first edit, and returns the conditions under which a program stops itself in the middle of the next ones:
/// at its first flush or write, and at its last change of a name.
async fn sandboxes(target: &Target, trace: impl Fn(&str) -> Trace) -> Result<Vec<Sandbox>, CaseError> {
    // The calls of a client of a server differ between runs.
    if !target.limits.has_tracing || target.directory().is_err() || sandbox::expect_tracing().await.is_err() {
        let client = target.process_client().await?;
        client.insert(PATH, 0, "first").await?.text(false)?;
        return Ok(Vec::new());
    }
    let calls = calls_of(target, &insert(PATH, 0, "first"), trace("all"), CALLS_TO_SIGNAL).await?;
    // A signal takes effect after the call. The first flush is usually that of a new file.
    let of = |names: &'static [&'static str]| {
        calls.iter().filter(move |call| names.iter().any(|name| call.name.starts_with(name)))
    };
    let writing = of(&["fsync", "fdatasync"]).chain(of(&["pwrite", "write"])).next();
    let chosen = writing.into_iter().chain(of(&["rename", "link"]).next_back());
    Ok(chosen.map(|call| Sandbox::Signal("STOP", call.clone(), trace("one"))).collect())
}

/// One stop of a program.
struct Round<'a> {
    target: &'a Target,
    stopped: Client,
    number: usize,
}

impl Round<'_> {
    /// Stops the program, and returns the content of the file afterwards.
    async fn run(&self, moment: Moment, before: &str) -> Result<String, CaseError> {
        let [own, others] = ["stopped", "other"].map(|program| format!("{} of the {program} program", self.number));
        let acting = async {
            self.stopped.view("/memories").await?.text(false)?;
            let (edit, edited) =
                join(self.stopped.insert(PATH, 0, own.as_str()), self.edit_meanwhile(moment, &others)).await;
            Ok::<_, CaseError>((edit?, edited?))
        };
        let (edit, edited) = match select(pin!(acting), pin!(self.keep_resuming())).await {
            Either::Left((answers, _)) => answers?,
            Either::Right((never, _)) => never,
        };
        let limits = &self.target.limits;
        edit.text(edit.is_error() && limits.stop.is_some())?;
        let found = self.target.client().text(PATH).await?;
        let with = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>() + before;
        let acknowledged: &[&str] = if edited.is_error() { &[] } else { &[&others] };
        let mut possible = vec![with(&[&[own.as_str()], acknowledged].concat())];
        possible.push(with(&[acknowledged, &[&own]].concat()));
        possible.extend(edit.is_error().then(|| with(acknowledged)));
        if !possible.contains(&found) {
            expect_text(&possible[0], &found)
                .map_err(|stop| stop.in_step("after a program was stopped while another one edited the same file"))?;
        }
        Ok(found)
    }

    /// Edits the file with another program while the first one is stopped, and lets that one continue later.
    async fn edit_meanwhile(&self, moment: Moment, line: &str) -> Result<Answer, CaseError> {
        match moment {
            Moment::After(time) => {
                sleep(time).await;
                self.stopped.session.pause();
            }
            Moment::OfItsOwn(trace) => wait_for_stop(&trace).await?,
        }
        let other = self.target.process_client().await?;
        let edited = async {
            other.view("/memories").await?;
            other.insert(PATH, 0, line).await
        };
        let resumed = async {
            sleep(self.pause()).await;
            self.stopped.session.resume();
        };
        join(edited, resumed).await.0
    }

    fn pause(&self) -> Duration {
        let limits = &self.target.limits;
        let pause = PAUSE_FOR_EACH_RACE.saturating_mul(u32::try_from(limits.races).unwrap_or(u32::MAX));
        limits.stop.unwrap_or(pause.min(limits.answer_timeout / 2))
    }

    /// Lets the program continue now and then. It may stop before the edit, or on a busy machine only after it was
    /// resumed.
    async fn keep_resuming(&self) -> ! {
        let limits = &self.target.limits;
        loop {
            sleep(limits.stop.unwrap_or_default() + limits.answer_timeout / 4).await;
            self.stopped.session.resume();
        }
    }
}

async fn wait_for_stop(trace: &Trace) -> Result<(), CaseError> {
    for _ in 0..STOP_CHECKS {
        let trace = trace.clone();
        if on_disk("read a trace", move || trace.has_stop()).await? {
            break;
        }
        sleep(BETWEEN_STOP_CHECKS).await;
    }
    Ok(())
}
