//! `memory-tool sync`: makes one memory of two.

use clap::{Args, ValueHint};
use memory_tool::StoreUrl;
use memory_tool::policies::Scope;
use memory_tool::transfer::{SyncOptions, SyncReport, SyncStatus, SyncedSide, TransferError};

use crate::exit_status::ExitStatus;
use crate::failure::{Failure, eprint_error};
use crate::memory::{self, scoped};
use crate::options::encryption::{Encryption, SourceEncryption};
use crate::options::policies::Policies;
use crate::options::values::Age;
use crate::options::{ExistingArgument, TimeoutArgument, store_url_parser};
use crate::terminal::escapes::on_one_line;
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::terminal::output::{count, write_report};
use crate::transfer::{lines_of, lines_of_paths};

#[derive(Args, Debug)]
pub(crate) struct SyncArguments {
    /// The first memory: a directory, or a URL such as sqlite:memory.db
    ///
    /// `memory-tool --help` lists the kinds of stores. MEMORY_TOOL_STORE is ignored.
    #[arg(value_name = "SRC", value_parser = store_url_parser(), value_hint = ValueHint::AnyPath)]
    source: StoreUrl,

    /// The second one, in the same form
    #[arg(id = "store", value_name = "DST", value_parser = store_url_parser(), value_hint = ValueHint::AnyPath)]
    destination: StoreUrl,

    /// Synchronize only the part of SRC that belongs to tenant NAME
    #[arg(long, value_name = "NAME", value_parser = Scope::from_trusted_name)]
    source_scope: Option<Scope>,

    /// Call the memories A and B in the names of files in conflict
    ///
    /// By default, they have the names of their kinds: disk, sqlite, postgres or bucket. Claude sees these names.
    #[arg(long, value_name = "A,B", value_parser = names)]
    names: Option<[String; 2]>,

    /// Synchronize again after each AGE, such as 5m, until interrupted
    ///
    /// A failure is reported, and does not end the command.
    #[arg(long, value_name = "AGE", value_parser = interval)]
    every: Option<Age>,

    /// Remove all files if a memory has lost all of more than ten
    #[arg(long)]
    allow_empty: bool,

    /// Print what would be done, and change neither memory
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    existing: ExistingArgument,

    /// Print the report as JSON
    ///
    /// The field status is in_sync, in_sync_with_conflicts or partly. The objects first and second have the name of the
    /// memory, the counts written, bytes, removed and renamed, the lists redacted, refused and unreadable, and the flag
    /// is_partial. The lists merged, conflicts and conflict_copies are of both. A list has at most 1,000 files, and
    /// more_redacted to more_conflict_copies count the others.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    timeout: TimeoutArgument,

    #[command(flatten)]
    source_encryption: SourceEncryption,

    #[command(flatten)]
    encryption: Encryption,

    #[command(flatten)]
    policies: Policies,
}

/// Synchronizes, and with `--every` repeats it.
pub(crate) fn run(arguments: &SyncArguments) -> Result<ExitStatus, Failure> {
    let Some(every) = arguments.every else {
        let report = run_until_interrupted(CLEANUP_TIME, sync(arguments))?;
        write_report(arguments.json, &report, || to_text(&report))?;
        return Ok(ExitStatus::of(report.is_complete()));
    };
    run_until_interrupted(CLEANUP_TIME, async {
        loop {
            match sync(arguments).await {
                Ok(report) => write_report(arguments.json, &report, || to_text(&report))?,
                Err(error) => eprint_error(&error),
            }
            tokio::time::sleep(every.0).await;
        }
    })
}

async fn sync(arguments: &SyncArguments) -> Result<SyncReport, Failure> {
    let SyncArguments { source, source_scope, destination, policies, timeout, existing, dry_run, .. } = arguments;
    let mut of_source = policies.clone();
    of_source.scope.clone_from(source_scope);
    for url in [source, destination] {
        policies.refuse_temporary(url)?;
    }
    let (one, other) = (scoped(source, source_scope.as_ref()), scoped(destination, policies.scope.as_ref()));
    if one.overlaps(&other).await {
        return Err(Failure::other(TransferError::CannotSync { reason: "they share files" }));
    }
    let encryptions = [&arguments.source_encryption.to_encryption(), &arguments.encryption];
    let mut memories = Vec::new();
    for ((url, policies), encryption) in [(source, &of_source), (destination, policies)].into_iter().zip(encryptions) {
        let mut options = timeout.options(encryption);
        policies.set(&mut options);
        (options.must_exist, options.dry_run) = (existing.must_exist, *dry_run);
        let opened = async {
            if *dry_run { memory::open(url, &options).await } else { memory::open_or_create(url, &options).await }
        };
        memories.push(opened.await?);
    }
    let [first, second] = &memories[..] else { return Err(Failure::new("two memories are required")) };
    let [one, other] = arguments.names.clone().unwrap_or_else(|| default_names(source, destination));
    let options = SyncOptions::new().names(one, other);
    let options = if arguments.allow_empty { options.allow_empty() } else { options };
    first.sync(second, options).await.map_err(Failure::other)
}

/// The kinds of the memories, which tell no place.
fn default_names(first: &StoreUrl, second: &StoreUrl) -> [String; 2] {
    let kind = |url: &StoreUrl| match url {
        StoreUrl::Sqlite { .. } => "sqlite",
        StoreUrl::Postgres { .. } => "postgres",
        StoreUrl::Bucket { .. } => "bucket",
        _ => "disk",
    };
    let [one, other] = [kind(first), kind(second)];
    if one == other { [format!("{one} 1"), format!("{other} 2")] } else { [one, other].map(str::to_owned) }
}

/// At least a second, so that a failure is not reported without end.
fn interval(given: &str) -> Result<Age, &'static str> {
    let age: Age = given.parse()?;
    if age.0.is_zero() { Err("expected at least 1s") } else { Ok(age) }
}

/// Two names that the name of a file can contain.
fn names(given: &str) -> Result<[String; 2], String> {
    let is_name = |name: &str| {
        let is_legal = |character: char| character.is_alphanumeric() || " ._-".contains(character);
        (1..=40).contains(&name.len()) && name.trim() == name && name.chars().all(is_legal)
    };
    match given.split(',').collect::<Vec<_>>()[..] {
        [one, other] if is_name(one) && is_name(other) && one != other => Ok([one, other].map(str::to_owned)),
        _ => {
            Err("expected two different names of letters, digits, spaces, ., _ and -, such as laptop,server".to_owned())
        }
    }
}

fn to_text(report: &SyncReport) -> String {
    let was_merged = if report.dry_run { "would be merged" } else { "was merged" };
    let merged = lines_of_paths(&report.merged, was_merged, "merged", report.more_merged);
    let conflict = |conflict: &memory_tool::transfer::SyncConflict| {
        on_one_line(&format!("{} was changed on both sides; {} has the older text", conflict.path, conflict.copy))
    };
    let conflicts = report.conflicts.iter().map(conflict);
    let new: Vec<_> = report.conflicts.iter().map(|conflict| &conflict.copy).collect();
    let old: Vec<_> = report.conflict_copies.iter().filter(|copy| !new.contains(copy)).cloned().collect();
    let old = lines_of_paths(
        &old,
        "has the older text of a conflict; remove it when it is no longer needed",
        "older texts of conflicts:",
        report.more_conflict_copies,
    );
    let old: Vec<_> = old.collect();
    let sides = [&report.first, &report.second].map(|side| lines_of_side(side, report.dry_run));
    let status = match report.status() {
        SyncStatus::InSync => "in sync",
        SyncStatus::InSyncWithConflicts => "in sync, with conflicts",
        _ => "partly in sync",
    };
    let status = if report.dry_run { format!("would be {status}") } else { status.to_owned() };
    merged.chain(conflicts).chain(old).chain(sides.into_iter().flatten()).chain([status]).collect::<Vec<_>>().join("\n")
}

/// The lines about a memory, the last of them with its changes.
fn lines_of_side(side: &SyncedSide, dry_run: bool) -> Vec<String> {
    let SyncedSide { name, written, bytes, removed, renamed, .. } = side;
    let redacted = lines_of_paths(&side.redacted, "was redacted", "redacted", side.more_redacted);
    let refused = lines_of(&side.refused, "was refused", "refused", side.more_refused);
    let unreadable = lines_of(&side.unreadable, "could not be read", "could not read", side.more_unreadable);
    let partial = side.is_partial.then(|| "not all directories can be read; deletions are left out".to_owned());
    let lines = redacted.chain(refused).chain(unreadable).chain(partial).map(|line| format!("{name}: {line}"));
    let would = if dry_run { "would have " } else { "" };
    let (files, bytes) = (count(*written, "file"), count(*bytes, "byte"));
    let changes = match written + renamed + removed {
        0 => format!("{name}: unchanged"),
        _ => format!("{name}: {would}{files} written ({bytes}), {renamed} renamed, {removed} removed"),
    };
    lines.chain([changes]).collect()
}
