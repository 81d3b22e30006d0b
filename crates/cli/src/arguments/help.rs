//! What follows the options in the help of each command: details, exit statuses and examples.
//!
//! Lines of a table are at most 80 columns wide, because clap breaks longer ones without their indentation. Other paragraphs are one
//! line each: clap wraps them.

/// The end of a command's help.
pub(crate) struct Ending {
    /// What does not fit into the description of the command. It may be empty.
    details: &'static str,
    exit_statuses: &'static str,
    examples: &'static str,
}

impl Ending {
    /// For `-h`.
    pub(crate) fn short(&self) -> String {
        format!("Examples:\n{}", self.examples)
    }

    /// For `--help`, and for the man page.
    pub(crate) fn long(&self) -> String {
        let separator = if self.details.is_empty() { "" } else { "\n\n" };
        format!("{}{separator}Exit status:\n{}\n\n{}", self.details, self.exit_statuses, self.short())
    }
}

pub(crate) const PROGRAM: Ending = Ending {
    details: "\
Stores:
  memory, file:memory             a directory on this machine
  sqlite:memory.db?memory=NAME    a memory in a SQLite database
  s3://bucket/prefix              a bucket of Amazon S3 or a compatible service
  gs://bucket/prefix              a bucket of Google Cloud Storage
  az://container/prefix           a container of Azure Blob Storage
  in-process:                     a temporary memory, to try `run`

run, chat, create, copy and import create a store that does not exist. All other commands, and these with --read-only, report it \
and create nothing.

Environment:
  MEMORY_TOOL_STORE               the default of --store; it is ignored by copy
                                  and conformance
  AWS_*, GOOGLE_*, AZURE_*        credentials, region and endpoint of a bucket
  AWS_ENDPOINT_URL                the address of a service that speaks S3, such
                                  as MinIO, R2 or SeaweedFS
  AWS_ALLOW_HTTP=true             allows an address that begins with http:",
    exit_statuses: "  \
  0  success
  1  a negative result: the tool replied with an error, a case failed, a file is
     damaged, or not every file was transferred
  2  no result: wrong usage, a store that cannot be opened, or input or output
     that failed",
    examples: "  \
  memory-tool create /memories/notes.txt --text \"Tea, no milk\" --store ./memory
  memory-tool view --store ./memory
  memory-tool run --store ./memory
  memory-tool help run",
};

pub(crate) const RUN: Ending = Ending {
    details: "",
    exit_statuses: "  \
  0  the input ended, or the reader of the output is gone
  2  wrong usage, a store that cannot be opened, or input or output that failed",
    examples: "  \
  memory-tool run --store ./memory
  memory-tool run --store sqlite:users.db --scope alice --limits --screen refuse
  echo '{\"command\": \"view\", \"path\": \"/memories\"}' | \\
      memory-tool run --store ./memory",
};

#[cfg(feature = "chat")]
pub(crate) const CHAT: Ending = Ending {
    details: crate::chat::help::COMMANDS_AND_KEYS,
    exit_statuses: "  \
  0    the input ended, /quit, or the reader of the output is gone
  1    Claude declined to answer a message
  2    wrong usage, no key, a store that cannot be opened, input or output that
       failed, or a message that the API did not answer
  3    an answer is cut off: at --max-tokens, at --max-responses, at the end of
       the context window, or because every response ended early
  130  Ctrl-C on an empty line; another signal gives 128 and its number

In an interactive session, a message without an answer is reported and the conversation continues: statuses 1 and 3 occur only \
without a terminal. The last message without a complete answer determines the status.",
    examples: "  \
  memory-tool chat --store ./memory
  echo \"What do you know about me?\" | memory-tool chat --store ./memory",
};

pub(crate) const CONFORMANCE: Ending = Ending {
    details: "\
Placeholders:
  {dir}      the directory of the memory, empty at the start and used by one
             case only
  {options}  the options of the case, each as a separate word:
             --create-overwrites, --max-view-chars N, --max-view-chars none

Without {options}, cases with options are ignored; most cases have none. Cases that need something unavailable are ignored too, \
and the report gives the reason. A program that hangs, dies, or replies with something other than a `tool_result` block fails \
these cases only.",
    exit_statuses: "  \
  0    no case failed, and one or more passed
  1    a case failed, or every case was ignored
  2    no report: wrong usage, a program that cannot be started, or a suite that
       cannot run
  130  interrupted by Ctrl-C; another signal gives 128 and its number",
    examples: "  \
  memory-tool conformance --command 'python3 my_driver.py {dir}'
  memory-tool conformance --command './driver {dir} {options}' --filter view.
  memory-tool conformance --store ./new --format junit > report.xml
  memory-tool conformance --store s3://bucket/prefix",
};

pub(crate) const VERIFY: Ending = Ending {
    details: "",
    exit_statuses: "  \
  0  no problem was found
  1  a problem was found
  2  no result: wrong usage, or a store that does not exist or cannot be opened",
    examples: "  \
  memory-tool verify --store ./memory
  memory-tool verify --store sqlite:memory.db --json",
};

pub(crate) const GC: Ending = Ending {
    details: "",
    exit_statuses: "  \
  0  unused objects were removed, if there were any
  2  wrong usage, a store that is not in a bucket or cannot be opened, or a
     bucket that failed",
    examples: "  \
  memory-tool gc --store s3://bucket/prefix
  memory-tool gc --store s3://bucket/prefix --older-than 7d",
};

pub(crate) const EXPIRE: Ending = Ending {
    details: "",
    exit_statuses: "  \
  0  expired files were removed, if there were any
  2  wrong usage, or a store that does not exist, cannot be opened or failed",
    examples: "  \
  memory-tool expire --store ./memory --expire-after 90d --dry-run
  memory-tool expire --store sqlite:users.db --scope alice --expire-after 90d \\
      --pin /memories/profile.md",
};

pub(crate) const KEYGEN: Ending = Ending {
    details: "",
    exit_statuses: "  \
  0  the key was written
  2  the key was not written: the file exists, or writing failed",
    examples: "  \
  memory-tool keygen --output memory.key
  memory-tool run --store ./encrypted --key-file memory.key",
};

pub(crate) const REKEY: Ending = Ending {
    details: "",
    exit_statuses: "  \
  0  every file is encrypted with the new key
  1  some are not: a file is damaged, or others keep writing with an old key
  2  no result: wrong usage, a store that cannot be opened or is not encrypted,
     or input or output that failed",
    examples: "  \
  memory-tool keygen --output new.key
  memory-tool rekey --store ./memory \\
      --key-file new.key --old-key-file memory.key",
};

pub(crate) const COPY: Ending = Ending {
    details: "",
    exit_statuses: "  \
  0  DST holds all files of SRC
  1  not all: a file conflicts, is refused or cannot be read, or SRC keeps
     changing or holds no file
  2  no result: wrong usage, no store SRC, or a store that cannot be opened or
     fails",
    examples: "  \
  memory-tool copy ./memory sqlite:memory.db
  memory-tool copy ./memory s3://bucket/prefix --key-file memory.key
  memory-tool copy 'sqlite:old.db?memory=alice' sqlite:all.db --scope alice \\
      --screen redact",
};

pub(crate) const EXPORT: Ending = Ending {
    details: "",
    exit_statuses: "  \
  0    all files were exported
  1    not all: TARGET cannot hold a file, or a file cannot be read, and then an
       existing archive stays; or there is no file to replace an archive with
  2    no result: wrong usage, no store, a store that cannot be opened or fails,
       or a TARGET that cannot be written
  130  interrupted by Ctrl-C; 143 by SIGTERM",
    examples: "  \
  memory-tool export --store ./memory backup.tar.gz
  memory-tool export --store s3://bucket/prefix --key-file memory.key - | \\
      zstd > backup.tar.zst",
};

pub(crate) const IMPORT: Ending = Ending {
    details: "",
    exit_statuses: "  \
  0  all files were imported
  1  not all: a file conflicts, is refused or skipped, or the archive is damaged
     or cut off
  2  no result: wrong usage, no SOURCE, nothing under --beneath in it, or a
     store that cannot be opened or fails",
    examples: "  \
  memory-tool import --store ./memory backup.tar.gz
  memory-tool import --store sqlite:memory.db --screen redact ./notes
  zstd -dc backup.tar.zst | memory-tool import --store ./memory -
  tar -c ./old | memory-tool import --store ./memory --beneath old/memories -",
};

const STATUSES_OF_A_COMMAND: &str = "  \
  0  success
  1  the tool replied with an error, which is printed on the standard error
  2  no reply: wrong usage, a store that does not exist or cannot be opened, or
     input or output that failed";

const fn ending_of_a_command(examples: &'static str) -> Ending {
    Ending { details: "", exit_statuses: STATUSES_OF_A_COMMAND, examples }
}

pub(crate) const VIEW: Ending = ending_of_a_command(
    "  \
  memory-tool view --store ./memory
  memory-tool view /memories/notes.txt --view-range 1 20 --store ./memory
  memory-tool view /memories --json --store sqlite:memory.db",
);

pub(crate) const CREATE: Ending = ending_of_a_command(
    "  \
  memory-tool create /memories/notes.txt --text \"Tea, no milk\" --store ./memory
  memory-tool create /memories/log.txt --store ./memory < log.txt",
);

pub(crate) const STR_REPLACE: Ending = ending_of_a_command(
    "  \
  memory-tool str_replace /memories/notes.txt --store ./memory \\
      --old-str \"no milk\" --new-str \"with milk\"",
);

pub(crate) const INSERT: Ending = ending_of_a_command(
    "  \
  memory-tool insert /memories/notes.txt --store ./memory \\
      --insert-line 0 --insert-text \"# Drinks\"
  memory-tool insert /memories/a.txt --insert-line 3 --store ./memory < b.txt",
);

pub(crate) const DELETE: Ending = ending_of_a_command(
    "  \
  memory-tool delete /memories/log.txt --store ./memory",
);

pub(crate) const RENAME: Ending = ending_of_a_command(
    "  \
  memory-tool rename /memories/notes.txt /memories/tea.txt --store ./memory",
);

pub(crate) const COMPLETIONS: Ending = Ending {
    details: "",
    exit_statuses: "  \
  0  the script was printed
  2  wrong usage, or output that failed",
    examples: "  \
  source <(memory-tool completions bash)
  memory-tool completions zsh > ~/.zfunc/_memory-tool
  memory-tool completions fish > ~/.config/fish/completions/memory-tool.fish",
};

pub(crate) const MAN: Ending = Ending {
    details: "",
    exit_statuses: "  \
  0  the page was printed, or the pages were written
  2  wrong usage, or output that failed",
    examples: "  \
  memory-tool man | man -l -
  memory-tool man --directory ~/.local/share/man/man1",
};
