//! `memory-tool serve`: the memories of a store over HTTP.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Command, ValueHint};
use memory_tool::store::MemoryName;
use memory_tool::{LogDetail, OpenOptions};
use memory_tool_server::{Server, ServerOptions, TokenEntry, TokenFile};
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::time::sleep;

use crate::commands::run::RunArguments;
use crate::exit_status::ExitStatus;
use crate::failure::{Context as _, Failure, eprint_line};
use crate::log::start_log;
use crate::memory;
use crate::options::values::{Age, host_path};
use crate::options::{NoHistoryArgument, STORE_VARIABLE};
use crate::terminal::interruption::Interruption;
use crate::terminal::output::write_line;

#[derive(Args, Debug)]
pub(crate) struct ServeArguments {
    /// Serve HTTP at ADDRESS [default: 127.0.0.1:8809]
    ///
    /// ADDRESS is an address and port, or unix:PATH for a Unix socket. Port 0 selects a free port, which is printed to
    /// standard error.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<memory_tool_server::Listen>,

    /// Accept the tokens in FILE, which `memory-tool token` writes
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = host_path())]
    #[arg(required_unless_present = "config")]
    pub(crate) tokens: Option<PathBuf>,

    /// Accept HOST in the header `Host`; may be repeated
    ///
    /// Without this option, only the address of --listen and the names of this machine are accepted: localhost,
    /// 127.0.0.1 and ::1. HOST may end with a port. Web pages of the same hosts are accepted, and no others.
    #[arg(long, value_name = "HOST", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) allow_host: Vec<String>,

    #[command(flatten)]
    pub(crate) histories: NoHistoryArgument,

    /// Offer the six commands as separate tools at /mcp
    #[cfg(feature = "mcp")]
    #[arg(long)]
    pub(crate) separate_tools: bool,

    /// Read all settings from FILE in TOML, in place of other options
    ///
    /// It also sets TLS, proxies and limits. `memory-tool serve --help` shows an example.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = host_path())]
    pub(crate) config: Option<PathBuf>,

    /// Check the settings, the tokens and the store, and exit
    #[arg(long)]
    pub(crate) check: bool,

    #[command(flatten)]
    pub(crate) serving: RunArguments,
}

/// Lets `--config` replace the other options of `serve`.
pub(crate) fn configured_by_file(serve: Command) -> Command {
    let is_other = |argument: &&clap::Arg| !["config", "check", "help", "store"].contains(&argument.get_id().as_str());
    let mut others: Vec<_> = serve.get_arguments().filter(is_other).map(|other| other.get_id().clone()).collect();
    if std::env::var_os(STORE_VARIABLE).is_none() {
        others.push("store".into());
    }
    serve.mut_arg("config", |config| config.conflicts_with_all(others)).mut_arg("store", |store| {
        let store = store.required(false).required_unless_present("config");
        store.default_value_if("config", clap::builder::ArgPredicate::IsPresent, "in-process:") // not used
    })
}

/// The buckets of durations in seconds.
const BUCKETS: [f64; 6] = [0.0001, 0.001, 0.01, 0.1, 1.0, 10.0];

const UPKEEP: Duration = Duration::from_secs(60);

/// The open files of a memory, which are fewer most of the time, and of the log, the tokens and the runtime.
#[cfg(unix)]
const FILES_OF_MEMORY: usize = 8;
#[cfg(unix)]
const OTHER_FILES: usize = 64;

/// Serves the memories until a signal arrives.
pub(crate) fn run(arguments: &ServeArguments) -> Result<ExitStatus, Failure> {
    if !arguments.check {
        return_freed_memory();
    }
    let options = options(arguments)?;
    memory::refuse_temporary(&options.store)?;
    options.memory.check().map_err(memory::failed_options)?;
    allow_files(&options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    let ended = runtime.block_on(async { if arguments.check { check(&options).await } else { serve(options).await } });
    runtime.shutdown_background();
    ended
}

fn options(arguments: &ServeArguments) -> Result<ServerOptions, Failure> {
    if let Some(file) = &arguments.config {
        let text = fs::read_to_string(file).context(format!("cannot read {}", file.display()))?;
        let read = ServerOptions::from_toml(&text).context(format!("invalid settings in {}", file.display()));
        return read.map(|mut options| {
            options.configuration = Some(file.clone());
            options
        });
    }
    // Required without a file.
    let tokens = arguments.tokens.as_deref().unwrap_or(Path::new(""));
    let mut options = ServerOptions::new(arguments.serving.memory.store.url.clone(), tokens);
    options.memory = arguments.serving.options();
    options.listen = arguments.listen.clone().unwrap_or_default();
    options.allow_hosts.clone_from(&arguments.allow_host);
    options.history = !arguments.histories.no_history;
    #[cfg(feature = "mcp")]
    {
        options.separate_tools = arguments.separate_tools;
    }
    Ok(options)
}

/// The members of groups whose name no token has. The identity provider can give it.
fn members_without_tokens(options: &ServerOptions, entries: &[TokenEntry]) -> Vec<String> {
    #[cfg(feature = "mcp")]
    if options.issuer.is_some() {
        return Vec::new();
    }
    let has_token = |actor: &str| entries.iter().any(|entry| entry.actor.name() == actor);
    let without = options.groups.members().filter(|(_, member)| !has_token(member));
    let line = |(group, member): (&MemoryName, &str)| {
        format!("the group {:?} has {member:?}, an actor without a token", group.as_str())
    };
    without.map(line).collect()
}

/// The settings and tokens about memories that do not exist.
fn missing_memories(options: &ServerOptions, entries: &[TokenEntry], names: &HashSet<String>) -> Vec<String> {
    let limits = options.quotas.keys().filter(|name| !names.contains(*name));
    let limits = limits.map(|name| format!("the limits of {name:?} wait for a memory of this name"));
    let groups = options.groups.memories().map(MemoryName::as_str).filter(|name| !names.contains(*name));
    let groups = groups.map(|name| format!("the group {name:?} waits for a memory of this name"));
    let mounts = entries.iter().flat_map(|entry| entry.mounts.iter().map(move |mount| (&entry.id, mount)));
    let mounts = mounts.filter(|(_, mount)| !names.contains(mount.memory.as_str()));
    let mounts = mounts.map(|(id, mount)| format!("the token {id} has {mount}, which waits for a memory of this name"));
    limits.chain(groups).chain(mounts).collect()
}

async fn check(options: &ServerOptions) -> Result<ExitStatus, Failure> {
    let ServerOptions { tokens, store, .. } = options;
    let entries = TokenFile::new(tokens).entries().context(format!("cannot read {}", tokens.display()))?;
    let mut found = vec![format!("{} tokens in {}", entries.len(), tokens.display())];
    if entries.is_empty() {
        found.push("without a token, every request is refused: create one with `memory-tool token new`".to_owned());
    }
    found.extend(members_without_tokens(options, &entries));
    if let Some(tls) = &options.tls {
        tls.check().context("cannot use the certificate")?;
        found.push(format!("a valid certificate in {}", tls.certificate.display()));
    }
    #[cfg(feature = "mcp")]
    if let Some(issuer) = &options.issuer {
        let keys = issuer.check().await.context(format!("cannot use the issuer {}", issuer.url.as_str()))?;
        found.push(format!("{keys} keys of the issuer {}", issuer.url.as_str()));
    }
    match store.memories(OpenOptions::new()).await {
        Ok(memories) => {
            let noun = if memories.len() == 1 { "memory" } else { "memories" };
            found.push(format!("{} {noun} in {store}", memories.len()));
            let names: HashSet<_> = memories.iter().filter_map(|memory| memory.name()).collect();
            found.extend(missing_memories(options, &entries, &names));
        }
        Err(error) if error.is_not_found() => {
            found.push(format!("{store} does not exist: the first memory creates it"));
        }
        Err(error) => return Err(memory::failure(error)),
    }
    if let Some(idle) = options.memory.expire_after {
        found.push(format!("files expire after {} without use", Age(idle).in_words()));
    }
    for line in found {
        write_line(&mut io::stdout().lock(), line.into_bytes())?;
    }
    Ok(ExitStatus::Success)
}

async fn serve(mut options: ServerOptions) -> Result<ExitStatus, Failure> {
    start_log(options.memory.log);
    // Without a log, the events of commands are only counted.
    options.memory.log.get_or_insert(LogDetail::Commands);
    let recorder = PrometheusBuilder::new().set_buckets(&BUCKETS).and_then(PrometheusBuilder::install_recorder);
    let recorder = recorder.context("cannot start")?;
    let upkeep = recorder.clone();
    // Durations stay in memory until it.
    tokio::spawn(async move {
        loop {
            sleep(UPKEEP).await;
            upkeep.run_upkeep();
        }
    });
    let mut interruption = Interruption::listen().context("cannot start")?;
    let address = options.listen.to_string();
    let server = Server::listen_with_metrics(options, move || recorder.render()).await;
    let server = server.context(format!("cannot serve at {address}"))?;
    eprint_line(&format!("memory-tool: listening on {}", server.url()));
    let mut status = 0;
    server.serve(async { status = interruption.status().await }).await;
    Ok(ExitStatus::Interrupted { status })
}

/// Starts the program again with settings of glibc's allocator, which would keep hundreds of megabytes of freed memory
/// in its threads after a few large requests. The process stays the same. Without the settings, the server works too.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn return_freed_memory() {
    use std::os::unix::process::CommandExt as _;

    const SETTINGS: [(&str, &str); 2] = [("MALLOC_ARENA_MAX", "2"), ("MALLOC_MMAP_THRESHOLD_", "4194304")];
    // In the packages for Python and Node.js, the program is another one.
    let Some(program) = std::env::current_exe().ok().filter(|program| program.ends_with("memory-tool")) else { return };
    if SETTINGS.iter().any(|(name, _)| std::env::var_os(name).is_some()) {
        return;
    }
    // It returns only if it fails.
    let _ = std::process::Command::new(program).args(std::env::args_os().skip(1)).envs(SETTINGS).exec();
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn return_freed_memory() {}

/// Raises the limit of open files, which is often 1,024, for connections and memories.
#[cfg(unix)]
fn allow_files(options: &ServerOptions) -> Result<(), Failure> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};

    let of_memories = options.max_open_memories.saturating_mul(FILES_OF_MEMORY);
    let files = options.limits.connections.saturating_add(of_memories).saturating_add(OTHER_FILES) as u64;
    let read = getrlimit(Resource::RLIMIT_NOFILE);
    let (limit, most) = read.map_err(std::io::Error::from).context("cannot read the limit of open files")?;
    if limit >= files {
        return Ok(());
    }
    setrlimit(Resource::RLIMIT_NOFILE, files, most).map_err(|_| {
        let message = format!("the limit of open files is {most}, but the server needs {files}");
        Failure::new(format!("{message}: raise the hard limit, for example with `ulimit -n {files}`"))
    })
}

#[cfg(not(unix))]
fn allow_files(_: &ServerOptions) -> Result<(), Failure> {
    Ok(())
}
