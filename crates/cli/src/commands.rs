//! The commands. Each has a file with its arguments and `run`, a page in `crates/cli/pages`, and a line here.

/// Declares the commands of files. The help of commands for operators also prints the options of encryption and of
/// policies in its short form.
macro_rules! commands {
    ($($(#[cfg($condition:meta)])? $name:ident::$arguments:ident for $audience:ident;)+) => {
        $($(#[cfg($condition)])? pub(crate) mod $name;)+

        /// A command with its arguments.
        #[derive(Debug, clap::Subcommand)]
        #[allow(clippy::enum_variant_names, reason = "the variants have the names of their arguments")]
        pub(crate) enum Action {
            $($(#[cfg($condition)])? #[command(name = stringify!($name))] $arguments(Box<$name::$arguments>),)+
        }

        impl Action {
            pub(crate) fn run(&self) -> Result<ExitStatus, Failure> {
                match self {
                    $($(#[cfg($condition)])? Self::$arguments(arguments) => $name::run(arguments).map(ExitStatus::from),)+
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

use crate::exit_status::ExitStatus;
use crate::failure::Failure;

commands! {
    run::RunArguments for operators;
    #[cfg(feature = "mcp")]
    mcp::McpArguments for operators;
    #[cfg(feature = "server")]
    serve::ServeArguments for operators;
    #[cfg(feature = "server")]
    token::TokenArguments for people;
    conformance::ConformanceArguments for operators;
    verify::VerifyArguments for operators;
    gc::GcArguments for operators;
    expire::ExpireArguments for operators;
    keygen::KeygenArguments for people;
    rekey::RekeyArguments for operators;
    copy::CopyArguments for operators;
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
    view::ViewArguments for people;
    create::CreateArguments for people;
    str_replace::StrReplaceArguments for people;
    insert::InsertArguments for people;
    delete::DeleteArguments for people;
    rename::RenameArguments for people;
    completions::CompletionsArguments for people;
    man::ManArguments for people;
}
