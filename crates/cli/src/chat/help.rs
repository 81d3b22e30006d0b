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
