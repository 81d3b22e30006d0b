//! `memory-tool token`: the tokens of `memory-tool serve`.

use std::io;
use std::path::Path;
use std::time::SystemTime;

use memory_tool_server::{Grant, Right, TokenEntry, TokenFile};

use crate::arguments::{NewTokenArguments, TokenAction, TokenArguments};
use crate::failure::{Context as _, Failure};
use crate::output::{to_json, write_line, write_text};

pub(crate) fn run(arguments: &TokenArguments) -> Result<(), Failure> {
    match &arguments.action {
        TokenAction::New(new) => create(new),
        TokenAction::List(given) => list(&given.tokens),
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
    let made = TokenEntry::generate(new.actor.clone(), grants, rights);
    let (mut entry, secret) = made.context("cannot create a token")?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    entry.expires = new.expires_in.map(|age| now.saturating_add(age.0).as_secs());
    entry.create = new.create || new.admin;
    let id = entry.id.clone();
    TokenFile::new(&new.file.tokens).add(entry).context(cannot("change", &new.file.tokens))?;
    write_text(&mut io::stdout().lock(), format!("id: {id}\n{secret}\n").as_bytes()).map(drop)
}

fn list(file: &Path) -> Result<(), Failure> {
    for entry in TokenFile::new(file).entries().context(cannot("read", file))? {
        let shown = serde_json::json!({
            "id": entry.id,
            "actor": entry.actor.name(),
            "memories": entry.memories,
            "rights": entry.rights,
            "expires": entry.expires,
            "create": entry.create,
        });
        write_line(&mut io::stdout().lock(), to_json(&io::stdout(), &shown)?)?;
    }
    Ok(())
}

fn cannot(what: &str, file: &Path) -> String {
    format!("cannot {what} {}", file.display())
}
