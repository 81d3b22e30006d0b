// `History`: what changed in a memory, and how to take it back.

import type { Answer } from './native.js';

/** A change of a file. A `write` without `before` created it. */
export type FileChange =
  | { readonly change: 'write'; readonly path: string; readonly before?: Kept; readonly after: Digest }
  | { readonly change: 'remove'; readonly path: string; readonly before: Kept }
  | { readonly change: 'rename'; readonly from: string; readonly to: string }
  | { readonly change: 'redacted'; readonly operation: 'created' | 'modified' | 'deleted'; readonly before?: Kept };

/** The size and SHA-256 of contents. */
export interface Digest {
  readonly size: number;
  readonly sha256: string;
}

/** Contents before a change. Without a size, they could not be read. */
export type Kept = Partial<Digest>;

/** A change of a memory. */
export interface HistoryEntry {
  /** The first entry is 1, and no number is left out. */
  readonly number: number;
  readonly time: Date;
  readonly actor: string | undefined;
  /** The actors who wrote the change, if another one agreed to it. */
  readonly authors: readonly string[];
  /** The reason that was given. */
  readonly reason: string | undefined;
  /** The command of the tool, if one made the change. */
  readonly command: string | undefined;
  readonly origin: 'edit' | 'undo' | 'redo' | 'revert' | 'restore' | 'redaction';
  /** The entries that it takes back, restores or redacts. */
  readonly of: readonly number[];
  readonly changes: readonly FileChange[];
  readonly redacted: boolean;
  /** Files that an undo, a redo, a revert or a restoration left as they were: earlier contents had expired or were redacted. */
  readonly missing: readonly string[];
}

/** Where a text was found, and erased unless it was a dry run. */
export interface TextRedaction {
  /** The present files in which the text was replaced, and how often. */
  readonly files: readonly (readonly [path: string, count: number])[];
  /** The present files whose names contain the text. They stay: rename them, and redact the text again. */
  readonly names: readonly string[];
  /** The present files that cannot be read, and so may contain the text. */
  readonly unreadable: readonly string[];
  /** The entries that had the text in the contents or names of files. */
  readonly entries: readonly number[];
  /** The new entry. `undefined` after a dry run, and if the text was not found. */
  readonly entry: HistoryEntry | undefined;
}

/** Which entries to list. */
export interface LogFilter {
  /** A file or directory, followed through renames. */
  path?: string;
  actor?: string;
  command?: string;
  /** Only entries that have this text in names, or in contents before or after them. */
  text?: string;
  /** Only deletions of files that do not exist now. */
  deleted?: boolean;
  since?: Date;
  until?: Date;
  /** Only entries before this number. */
  before?: number;
  limit?: number;
}

/** The options of taking changes back. */
export interface ChangeOptions {
  /** Replaces files that have changed since. */
  force?: boolean;
}

/** The options of the erasure of a text. */
export interface RedactTextOptions {
  /** Finds the text, and erases nothing. */
  dryRun?: boolean;
}

/** An entry as the native module returns it. */
interface Stored extends Pick<HistoryEntry, 'number' | 'changes'> {
  readonly time: number;
  readonly actor?: string;
  readonly authors?: readonly string[];
  readonly reason?: string;
  readonly command?: string;
  readonly origin?: string | Record<string, number | number[]>;
  readonly is_redacted?: boolean;
  readonly missing?: readonly string[];
}

type Perform = (name: string, given: object) => Promise<Answer>;

/** The history of a memory, from `memory.history()`. An entry is named by its number; 0 is the beginning. */
export class History {
  readonly #perform: Perform;

  /** @internal */
  constructor(perform: Perform) {
    this.#perform = perform;
  }

  /** Lists entries, newest first. */
  async log(filter: LogFilter = {}): Promise<HistoryEntry[]> {
    return ((await this.#call('log', filter)) as Stored[]).map(entryOf);
  }

  /** Reads a file in its state after an entry. */
  async readText(path: string, entry: number): Promise<string> {
    return (await this.#perform('read_text', { path, entry })).text as string;
  }

  /** The differences between two entries in the unified format. */
  async diff(from: number, to: number, path = '/memories'): Promise<string> {
    return (await this.#perform('diff', { from, to, path })).text as string;
  }

  /** Takes back the last changes in one step. Throws a `HistoryError` if a file has changed since. */
  async undo(count = 1, { force = false }: ChangeOptions = {}): Promise<HistoryEntry> {
    return entryOf((await this.#call('undo', { count, force })) as Stored);
  }

  /** Takes back the last undo. */
  async redo({ force = false }: ChangeOptions = {}): Promise<HistoryEntry> {
    return entryOf((await this.#call('redo', { force })) as Stored);
  }

  /** Takes back certain entries. */
  async revert(entries: readonly number[], { force = false }: ChangeOptions = {}): Promise<HistoryEntry> {
    return entryOf((await this.#call('revert', { entries, force })) as Stored);
  }

  /** Restores a file or directory to its state after an entry, or a deleted one as it was last. */
  async restore(path: string, to?: number): Promise<HistoryEntry> {
    return entryOf((await this.#call('restore', { path, to })) as Stored);
  }

  /** Removes the contents, paths, sizes and hashes of entries from the history. */
  async redact(entries: readonly number[]): Promise<HistoryEntry> {
    return entryOf((await this.#call('redact', { entries })) as Stored);
  }

  /**
   * Redacts all changes of a file or directory under all its names, and no others of the same entries. Throws a
   * `HistoryError` if there are none.
   */
  async redactPath(path: string): Promise<HistoryEntry> {
    return entryOf((await this.#call('redact_path', { path })) as Stored);
  }

  /**
   * Erases a text: `[redacted]` replaces it in the present files, and the history loses the earlier texts and names that
   * contain it.
   */
  async redactText(text: string, { dryRun = false }: RedactTextOptions = {}): Promise<TextRedaction> {
    const found = (await this.#call('redact_text', { text, dryRun })) as TextRedaction & { entry: Stored | null };
    return { ...found, entry: found.entry === null ? undefined : entryOf(found.entry) };
  }

  /** Removes the whole history, even if it is damaged. */
  async clear(): Promise<void> {
    await this.#perform('clear', {});
  }

  async #call(name: string, given: object): Promise<unknown> {
    return JSON.parse((await this.#perform(name, given)).json as string);
  }
}

function entryOf(stored: Stored): HistoryEntry {
  const { number, time, actor, authors = [], reason, command, origin = 'edit', changes } = stored;
  const { is_redacted: redacted = false, missing = [] } = stored;
  const [[kind, of]] = Object.entries(typeof origin === 'string' ? { [origin]: [] } : origin) as [[string, number | number[]]];
  return {
    number,
    time: new Date(time),
    actor,
    authors,
    reason,
    command,
    origin: kind as HistoryEntry['origin'],
    of: [of].flat(),
    changes,
    redacted,
    missing,
  };
}
