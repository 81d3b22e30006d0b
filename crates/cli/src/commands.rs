//! The commands. Each has a file with its arguments and `run`, a page in `crates/cli/pages`, and two lines here.

pub(crate) mod append;
pub(crate) mod cat;
pub(crate) mod completions;
pub(crate) mod copy;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod diff;
pub(crate) mod edit;
pub(crate) mod expire;
pub(crate) mod export;
pub(crate) mod forget;
pub(crate) mod gc;
#[cfg(feature = "server")]
pub(crate) mod healthcheck;
pub(crate) mod import;
pub(crate) mod insert;
pub(crate) mod keygen;
pub(crate) mod lint;
pub(crate) mod log;
pub(crate) mod ls;
pub(crate) mod man;
#[cfg(feature = "mcp")]
pub(crate) mod mcp;
pub(crate) mod memories;
pub(crate) mod migrate;
pub(crate) mod mv;
pub(crate) mod proposal;
pub(crate) mod proposals;
pub(crate) mod redact;
pub(crate) mod redo;
pub(crate) mod rekey;
pub(crate) mod rename;
pub(crate) mod restore;
pub(crate) mod rm;
pub mod run;
pub(crate) mod search;
#[cfg(feature = "server")]
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod str_replace;
pub(crate) mod sync;
#[cfg(feature = "mcp")]
pub(crate) mod tidy;
#[cfg(feature = "server")]
pub(crate) mod token;
pub(crate) mod undo;
pub(crate) mod verify;
pub(crate) mod view;

use clap::{Args as _, Command};

use crate::command_line::complete;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;

/// Declares the commands, in the order of the help. The short help of commands for operators also prints the options of
/// encryption and of policies.
macro_rules! commands {
    ($($(#[cfg($condition:meta)])? $name:ident::$arguments:ident for $audience:ident;)+) => {
        /// A command with its arguments.
        #[derive(Debug, clap::Subcommand)]
        #[allow(clippy::enum_variant_names, reason = "the variants have the names of their arguments")]
        pub(crate) enum Action {
            $($(#[cfg($condition)])? #[command(name = stringify!($name))] $arguments(Box<$name::$arguments>),)+
        }

        /// The commands without their arguments, which clap adds to the one that it parses.
        pub(crate) fn definitions() -> impl Iterator<Item = Command> {
            [$($(#[cfg($condition)])?
            Command::new(stringify!($name)).defer(|command| complete($name::$arguments::augment_args(command)))),+]
            .into_iter()
        }

        impl Action {
            pub(crate) fn run(&self) -> Result<ExitStatus, Failure> {
                match self {
                    $($(#[cfg($condition)])?
                    Self::$arguments(arguments) => $name::run(arguments.as_ref()).map(ExitStatus::from),)+
                }
            }
        }

        /// The pages by the names of the commands, those of commands that are not compiled too.
        pub(crate) const PAGES: &[(&str, &str)] =
            &[$((stringify!($name), include_str!(concat!("../pages/", stringify!($name), ".md")))),+];

        /// The names of the commands for operators.
        pub(crate) fn is_for_operators(name: &str) -> bool {
            [$((stringify!($name), stringify!($audience))),+].contains(&(name, "operators"))
        }
    };
}

commands! {
    run::RunArguments for operators;
    #[cfg(feature = "mcp")]
    mcp::McpArguments for operators;
    #[cfg(feature = "server")]
    serve::ServeArguments for operators;
    #[cfg(feature = "server")]
    token::TokenArguments for people;
    #[cfg(feature = "server")]
    healthcheck::HealthcheckArguments for people;
    verify::VerifyArguments for operators;
    lint::LintArguments for people;
    gc::GcArguments for operators;
    expire::ExpireArguments for operators;
    keygen::KeygenArguments for people;
    rekey::RekeyArguments for operators;
    copy::CopyArguments for operators;
    sync::SyncArguments for operators;
    export::ExportArguments for operators;
    import::ImportArguments for operators;
    ls::LsArguments for people;
    cat::CatArguments for people;
    edit::EditArguments for people;
    append::AppendArguments for people;
    mv::MvArguments for people;
    rm::RmArguments for people;
    memories::MemoriesArguments for operators;
    forget::ForgetArguments for operators;
    migrate::MigrateArguments for operators;
    search::SearchArguments for people;
    log::LogArguments for people;
    show::ShowArguments for people;
    diff::DiffArguments for people;
    undo::UndoArguments for people;
    redo::RedoArguments for people;
    restore::RestoreArguments for people;
    redact::RedactArguments for people;
    proposals::ProposalsArguments for people;
    proposal::ProposalArguments for people;
    #[cfg(feature = "mcp")]
    tidy::TidyArguments for people;
    view::ViewArguments for people;
    create::CreateArguments for people;
    str_replace::StrReplaceArguments for people;
    insert::InsertArguments for people;
    delete::DeleteArguments for people;
    rename::RenameArguments for people;
    completions::CompletionsArguments for people;
    man::ManArguments for people;
}
