//! What `/help` and `memory-tool chat --help` print.

/// The lines that are for the program, and the keys.
pub(crate) const COMMANDS_AND_KEYS: &str = "\
A line that begins with / is a command, any other line a message to Claude:

  /memory       list the memory
  /memory PATH  print a file, or list a directory
  /clear        empty the conversation; the memory stays
  /usage        print how many tokens the responses took so far
  /help         print this
  /quit         end the conversation, as Ctrl-D does

On a terminal, arrow keys edit the line and recall earlier ones, and Ctrl-R
searches them; they are forgotten when the program ends. For a message of
several lines, end a line with a backslash, or paste the lines.

Ctrl-C:

  while you type               clears the line
  on an empty line             ends the program
  while Claude answers         takes your message back; finished commands stay
  while a memory command runs  lets it finish, and starts no other
  during /memory               stops it";

const STREAMS_AND_STATUSES: &str = "\
Claude's answers go to the standard output; all else, such as a line for each memory command, goes to the standard error. \
On a terminal an answer is printed as it comes. In a pipe or a file it is printed once it is whole, or given up, so no \
retry repeats a part of it. There each line of the input is a message, and Ctrl-C between two of them ends the program.

The key of the API is that of ANTHROPIC_API_KEY. ANTHROPIC_BASE_URL is the address of another server that speaks the \
Messages API. What Claude reads of the memory goes to that server.

Exit status:
  0  the input ended, /quit, or the reader of the output is gone
  1  Claude declined to answer a message
  2  an error: wrong usage, no key, a store that cannot be opened, input or output that failed, or a message that the API \
did not answer
  3  an answer is cut off: at --max-tokens, --max-responses or the end of the context window, or because the response \
ended early every time
  130  Ctrl-C on an empty line; another signal that ends the program gives 128 and its number

In an interactive session, a message without an answer is reported and the conversation continues: statuses 1 and 3 \
occur only without a terminal. The last message without a complete answer determines the status.";

/// The end of `memory-tool chat --help`.
pub(crate) fn of_the_program() -> String {
    format!("{COMMANDS_AND_KEYS}\n\n{STREAMS_AND_STATUSES}")
}
