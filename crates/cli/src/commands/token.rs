//! `memory-tool token`: the tokens of `memory-tool serve`.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{array, io};

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args, Subcommand, ValueHint};
use memory_tool::{Actor, MemoryPath};
use memory_tool_server::{Grant, Mount, Right, TokenEntry, TokenFile};
use serde_json::{Value, json};

use crate::failure::{Context as _, Failure};
use crate::options::values::{Age, by_name, host_path};
use crate::terminal::escapes::on_one_line;
use crate::terminal::output::{to_json, write_line, write_text};

/// The end of the year 9999, after which times have no usual form.
const LAST_SECOND: u64 = 253_402_300_799;

#[derive(Args, Debug)]
pub(crate) struct TokenArguments {
    #[command(subcommand)]
    pub(crate) action: TokenAction,
}

/// The subcommands of `token`.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenAction {
    /// Create a token and print it
    New(NewTokenArguments),
    /// Print all tokens without their secrets
    List(ListTokensArguments),
    /// Revoke a token
    Revoke(RevokeArguments),
}

/// The file of the tokens.
#[derive(Args, Debug)]
pub(crate) struct TokensArgument {
    /// The file of the tokens
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = host_path())]
    pub(crate) tokens: PathBuf,
}

/// The arguments of `token list`.
#[derive(Args, Debug)]
pub(crate) struct ListTokensArguments {
    /// Print JSON, one value per line
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) file: TokensArgument,
}

/// The arguments of `token new`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("reached").args(["admin", "memory", "memory_prefix", "all_memories"])
    .required(true).multiple(true))]
pub(crate) struct NewTokenArguments {
    #[command(flatten)]
    pub(crate) file: TokensArgument,

    /// The name of the user or agent in histories and audit logs
    #[arg(long, value_name = "NAME", value_parser = Actor::from_trusted_name)]
    pub(crate) actor: Actor,

    /// Allow everything in all memories
    #[arg(long, conflicts_with_all = ["memory", "memory_prefix", "all_memories", "right"])]
    pub(crate) admin: bool,

    /// Reach the memory NAME; may be repeated
    #[arg(long, value_name = "NAME", value_parser = memory_tool::store::MemoryName::parse)]
    pub(crate) memory: Vec<memory_tool::store::MemoryName>,

    /// Reach all memories whose names start with TEXT; may be repeated
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) memory_prefix: Vec<String>,

    /// Reach all memories
    #[arg(long)]
    pub(crate) all_memories: bool,

    /// Show another memory at POINT in these: POINT=MEMORY:read or POINT=MEMORY:write; may be repeated
    ///
    /// The rights of the token also hold in MEMORY, apart from admin. With :read, it cannot be changed.
    #[arg(long, value_name = "MOUNT", conflicts_with = "admin")]
    pub(crate) mount: Vec<memory_tool_server::Mount>,

    /// Give a right: tool, propose, read, write or admin; may be repeated
    #[arg(long, value_name = "RIGHT", value_parser = by_name::<memory_tool_server::Right>)]
    #[arg(required_unless_present = "admin")]
    pub(crate) right: Vec<memory_tool_server::Right>,

    /// End the token after AGE, such as 90d
    #[arg(long, value_name = "AGE")]
    pub(crate) expires_in: Option<Age>,

    /// Create a memory that the token reaches with its first command
    #[arg(long)]
    pub(crate) create: bool,
}

/// The arguments of `token revoke`.
#[derive(Args, Debug)]
pub(crate) struct RevokeArguments {
    #[command(flatten)]
    pub(crate) file: TokensArgument,

    /// The id, as `memory-tool token list` prints it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

pub(crate) fn run(arguments: &TokenArguments) -> Result<(), Failure> {
    match &arguments.action {
        TokenAction::New(new) => create(new),
        TokenAction::List(given) => list(given),
        TokenAction::Revoke(given) => {
            let found = TokenFile::new(&given.file.tokens).revoke(&given.id);
            if found.context(cannot("change", &given.file.tokens))? {
                Ok(())
            } else {
                Err(Failure::new(format!("there is no token {:?}", given.id)))
            }
        }
    }
}

fn create(new: &NewTokenArguments) -> Result<(), Failure> {
    let (grants, rights) = if new.admin {
        (vec![Grant::All], Right::ALL.to_vec())
    } else {
        let names = new.memory.iter().cloned().map(Grant::Name);
        let prefixes = new.memory_prefix.iter().cloned().map(Grant::Prefix);
        let all = new.all_memories.then_some(Grant::All);
        (names.chain(prefixes).chain(all).collect(), new.right.clone())
    };
    if let Some(twice) = repeated_point(&new.mount) {
        return Err(Failure::new(format!("two memories are mounted at {twice}")));
    }
    let made = TokenEntry::generate(new.actor.clone(), grants, rights);
    let (mut entry, secret) = made.context("cannot create a token")?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    entry.expires = new.expires_in.map(|age| now.saturating_add(age.0).as_secs());
    entry.create = new.create || new.admin;
    entry.mounts.clone_from(&new.mount);
    let id = entry.id.clone();
    TokenFile::new(&new.file.tokens).add(entry).context(cannot("change", &new.file.tokens))?;
    write_text(&mut io::stdout().lock(), format!("id: {id}\n{secret}\n").as_bytes()).map(drop)
}

fn repeated_point(mounts: &[Mount]) -> Option<&MemoryPath> {
    let points = mounts.iter().map(|mount| &mount.point).enumerate();
    points
        .clone()
        .find(|(index, point)| points.clone().take(*index).any(|(_, other)| other == *point))
        .map(|(_, point)| point)
}

fn list(arguments: &ListTokensArguments) -> Result<(), Failure> {
    let file = &arguments.file.tokens;
    let entries = TokenFile::new(file).entries().context(cannot("read", file))?;
    if arguments.json {
        for entry in &entries {
            write_line(&mut io::stdout().lock(), to_json(&io::stdout(), &in_json(entry))?)?;
        }
        return Ok(());
    }
    let rows: Vec<_> = [HEADINGS.map(str::to_owned)].into_iter().chain(entries.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; HEADINGS.len()] = array::from_fn(width);
    for row in &rows {
        let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        write_line(&mut io::stdout().lock(), cells.join("  ").trim_end().into())?;
    }
    Ok(())
}

fn in_json(entry: &TokenEntry) -> Value {
    json!({
        "id": entry.id,
        "actor": entry.actor.name(),
        "memories": entry.memories,
        "rights": entry.rights,
        "mounts": entry.mounts,
        "expires": entry.expires.map(time),
        "create": entry.create,
        "last_use": entry.last_use.map(time),
    })
}

const HEADINGS: [&str; 6] = ["ID", "ACTOR", "MEMORIES", "RIGHTS", "EXPIRES", "LAST USE"];

fn row(entry: &TokenEntry) -> [String; HEADINGS.len()] {
    let mounts = entry.mounts.iter().map(|mount| on_one_line(&mount.to_string()).to_string());
    let memories: Vec<_> = entry.memories.iter().map(grant).chain(mounts).collect();
    let rights = entry.rights.iter().map(|right| right.name());
    let rights: Vec<_> = rights.chain(entry.create.then_some("create")).collect();
    let expires = entry.expires.map_or_else(|| "never".to_owned(), time);
    let last_use = entry.last_use.map_or_else(|| "none yet".to_owned(), time);
    let actor = on_one_line(entry.actor.name()).to_string();
    [entry.id.clone(), actor, memories.join(", "), rights.join(", "), expires, last_use]
}

fn grant(grant: &Grant) -> String {
    match grant {
        Grant::Name(name) => on_one_line(name.as_str()).to_string(),
        Grant::Prefix(prefix) => format!("{}*", on_one_line(prefix)),
        _ => "all".to_owned(),
    }
}

/// A time in seconds since 1970, which another program can have written.
fn time(seconds: u64) -> String {
    match SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds.min(LAST_SECOND))) {
        Some(time) => humantime::format_rfc3339_seconds(time).to_string(),
        None => seconds.to_string(),
    }
}

fn cannot(what: &str, file: &Path) -> String {
    format!("cannot {what} {}", file.display())
}
