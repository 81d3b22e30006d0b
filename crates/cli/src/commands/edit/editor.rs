//! [`Editor`]: the program in which a person edits a file.

use std::env;
use std::path::Path;

use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::failure::{Context as _, Failure};
use crate::files::Stop;
use crate::terminal::interruption::{CLEANUP_TIME, CTRL_C, Interruption, QUIT};

/// The words that start the editor.
pub(super) struct Editor(Vec<String>);

impl Editor {
    /// The editor in `VISUAL` or `EDITOR`, or `vi`.
    pub(super) fn of_environment() -> Result<Self, Failure> {
        for name in ["VISUAL", "EDITOR"] {
            let value = env::var_os(name).unwrap_or_default();
            let words = value.to_str().and_then(shlex::split);
            let words = words.ok_or_else(|| Failure::new(format!("{name} is not a command line")))?;
            if !words.is_empty() {
                return Ok(Self(words));
            }
        }
        Ok(Self(vec!["vi".to_owned()]))
    }

    /// Waits until the person closes the file. An error if the editor fails.
    pub(super) async fn edit(&self, file: &Path) -> Result<(), Stop> {
        let Self(words) = self;
        // The keyboard sends these to both programs, and the editor decides what they mean.
        let mut signals = Interruption::listen_beside_editor().context("cannot start")?;
        let mut editor = Command::new(&words[0]);
        let editor = editor.args(&words[1..]).arg(file).spawn();
        let mut editor = editor.context(format!("cannot start the editor {}", words[0]))?;
        loop {
            let signal = tokio::select! {
                ended = editor.wait() => {
                    let status = ended.context("cannot wait for the editor")?;
                    let failed = || format!("the editor failed ({status}), so nothing was saved");
                    return if status.success() { Ok(()) } else { Err(Stop::Wrong(failed())) };
                }
                signal = signals.status() => signal,
            };
            if ![CTRL_C, QUIT].contains(&signal) {
                terminate(&mut editor).await;
                return Err(Failure::Interrupted { status: signal }.into());
            }
        }
    }
}

/// Ends the editor with this program, so that it restores the terminal.
async fn terminate(editor: &mut Child) {
    #[cfg(unix)]
    if let Some(Ok(id)) = editor.id().map(i32::try_from) {
        use nix::sys::signal::{Signal, kill};

        let _ = kill(nix::unistd::Pid::from_raw(id), Signal::SIGTERM);
    }
    // An editor may ignore the signal.
    drop(timeout(CLEANUP_TIME, editor.wait()).await);
}
