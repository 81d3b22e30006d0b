// The search of a memory.

/** The options of a search. */
export interface SearchOptions {
  /** Whether the pattern is a regular expression. Default: it is words, in any order, and phrases in double quotes. */
  regex?: boolean;
  /** Whether upper and lower case differ, and accents. Default: `"ignored"`. */
  case?: 'ignored' | 'sensitive';
  /** Find only lines and names with all words. */
  sameLine?: boolean;
  /** The files and directories to search. Default: the whole memory. */
  within?: readonly string[];
  /** Search only files changed at this time or later. */
  since?: Date;
  /** Search only files last changed before this time. */
  before?: Date;
  /** Search only names, or only lines. Default: both. */
  only?: 'names' | 'text';
  /** Search hidden items too. */
  hidden?: boolean;
  /** The number of lines to show before and after each match. Default: 0. */
  context?: number;
  /** Show no lines. */
  pathsOnly?: boolean;
  /** The limit of shown matches. Default: 100. */
  maxMatches?: number;
  /** The limit of shown characters. Default: 16,000. */
  maxCharacters?: number;
  /** Search the memory after this entry of its history. Default: now. */
  at?: number;
}

/** A line of a file. */
export interface FoundLine {
  number: number;
  /** Whether the line matches. Otherwise it is context. */
  isMatch: boolean;
  /** The line. A long one is cut around its first match. */
  text: string;
  /** The number of characters before the text. */
  cutBefore: number;
  /** The number of characters after the text. */
  cutAfter: number;
}

/** A file or directory with matches. */
export interface FoundPath {
  path: string;
  isDirectory: boolean;
  isNameMatch: boolean;
  /** The number of all matching lines. */
  matches: number;
  lines: FoundLine[];
}

/** The matches, sorted by path and line. */
export interface SearchReport {
  results: FoundPath[];
  /** The number of all matching names and lines. */
  matches: number;
  /** The number of matches that are not in `results` because of a limit. */
  moreMatches: number;
  morePaths: number;
  /** The number of files whose text was searched. */
  searched: number;
  /** The items that could not be searched. */
  skipped: { path: string; reason: 'not_text' | 'too_large' | 'unreadable' | 'illegal_name' | 'long_line' }[];
  moreSkipped: number;
  /** The number of hidden items, which were not searched. */
  hidden: number;
  /** The number of files without a known time, which were not searched. */
  undated: number;
  /** The number of files that were not searched because the search stopped early. */
  unsearched: number;
  stopped: 'bytes' | 'timeout' | null;
  /** The report for a model. */
  text: string;
}
