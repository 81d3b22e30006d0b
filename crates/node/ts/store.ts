// `Store`: your own storage, and the values of its methods.

import { partsOf, toError } from './errors.js';
import { native, type Conditions, type Returned, type StoreCall } from './native.js';
import { unicode } from './options.js';

/** A value, or a promise of one. */
export type Awaitable<T> = T | PromiseLike<T>;

/** The contents and the version of a file. */
export interface File {
  readonly content: Uint8Array;
  /** Bytes that you choose: equal versions of a path must mean equal contents. */
  readonly version: Uint8Array;
}

/** A file in a listing. Memories in a bucket have no times. */
export interface Entry {
  readonly path: string;
  readonly size: number;
  readonly created?: Date | undefined;
  readonly modified?: Date | undefined;
  readonly damaged?: boolean | undefined;
}

/** The number of files, their total size in bytes, and the number of names in the longest path. */
export interface Usage {
  readonly files: number;
  readonly bytes: number;
  readonly depth: number;
}

/** Limits of a directory. A missing one is no limit. */
export interface Quota {
  readonly files?: number;
  readonly bytes?: number;
  readonly fileBytes?: number;
  readonly depth?: number;
}

/** A change: `write` creates a file or replaces it, the others concern a file or a whole directory. */
export type Change =
  | { readonly kind: 'write'; readonly path: string; readonly content: Uint8Array }
  | { readonly kind: 'remove'; readonly path: string }
  | { readonly kind: 'rename'; readonly path: string; readonly newPath: string };

/** A path and its required version. Without a version, it must not exist. */
export interface Precondition {
  readonly of: string;
  readonly version?: Uint8Array;
}

/** The state of a store, for `check`. It must not change during the check. */
export interface State {
  /** The version of the file, `"directory"`, or `undefined` if the path does not exist. A root is a directory. */
  stat(path: string): Uint8Array | 'directory' | undefined;
  /** The usage of the file, or of all files under the directory. */
  usage(path: string): Usage;
}

/** The preconditions of a read. */
export class ReadOptions {
  /** @internal */
  protected readonly conditions: Conditions;

  /** @internal */
  constructor(conditions: Conditions) {
    this.conditions = conditions;
  }

  /** Paths and their required versions. */
  get preconditions(): Precondition[] {
    return this.conditions.preconditions;
  }

  /** Checks them against the state of the store. Throws the `StoreError` of a read or batch that does not fit. */
  check(state: State): void {
    const stat = (path: string) => {
      const found = state.stat(path);
      if (found === undefined) return null;
      return found === 'directory' ? {} : { version: found };
    };
    const { error } = this.conditions.check(stat, (path) => state.usage(path));
    if (error) throw toError(error);
  }
}

/**
 * Changes to apply atomically. No two of them overlap, so their order does not matter. `check` also checks quotas and
 * conflicts with existing files, but not the length of paths: `replacePrefix` does.
 */
export class Batch extends ReadOptions {
  /** The changes of files and directories. */
  get changes(): Change[] {
    return this.conditions.changes.map(({ path, content, newPath }) => {
      if (content) return { kind: 'write', path, content };
      return newPath === undefined ? { kind: 'remove', path } : { kind: 'rename', path, newPath };
    });
  }

  /** Directories and their limits after the batch. */
  get quotas(): (Quota & { readonly path: string })[] {
    return this.conditions.quotas;
  }
}

/**
 * Your own storage. Paths are under `/memories`, or under `/records` for data of policies. The methods can return
 * promises. They run on the thread that opened the memory. A cancelled call
 * does not cancel them, and neither does one that exceeds the timeout.
 *
 * Throw `StoreFailure` to state the kind of a failure. Every other exception is a failure too: one of `apply` means that
 * the change may have been made.
 */
export interface Store {
  /**
   * Reads a path: a `File`, an `Entry` for every file under a directory, or `undefined`. A root is always a directory.
   * First call `options.check(state)`, in the same transaction.
   */
  read(path: string, options: ReadOptions): Awaitable<File | Iterable<Entry> | undefined>;
  /** Applies a batch atomically. First call `batch.check(state)`, in the same transaction. Return when it is durable. */
  apply(batch: Batch): Awaitable<void>;
}

/** Whether a path is below a directory. */
export function isUnder(path: string, directory: string): boolean {
  return path.startsWith(`${directory}/`);
}

/** The new path of a file when `old` is renamed to `new`. Throws `InvalidPath` if it is too long. */
export function replacePrefix(path: string, old: string, replacement: string): string {
  const { text, error } = native.replacePrefix(unicode(path, 'path'), unicode(old, 'old'), unicode(replacement, 'new'));
  if (error) throw toError(error);
  return text as string;
}

const METHODS = ['read', 'apply'] as const;

/** The location of a store. */
export function locationOfStore(store: Store) {
  for (const method of METHODS) {
    if (typeof (store as Partial<Store> | null)?.[method] !== 'function') {
      const given = typeof store === 'object' ? 'an object' : String(store);
      throw new TypeError(`expected a path, URL, memory or store, got ${given}, which has no ${method}`);
    }
  }
  return native.Location.store((call) => void answer(store, call));
}

async function answer(store: Store, call: StoreCall): Promise<void> {
  try {
    call.succeed(returned(await perform(store, call)));
  } catch (error) {
    call.fail(error, ...partsOf(error));
  }
}

function perform(store: Store, call: StoreCall): Awaitable<File | Iterable<Entry> | undefined | void> {
  switch (call.method) {
    case 'read':
      return store.read(call.subject, new ReadOptions(call.conditions));
    default:
      return store.apply(new Batch(call.conditions));
  }
}

function returned(value: File | Iterable<Entry> | undefined | null | void): Returned {
  if (value === undefined || value === null) return {};
  if ('content' in value) return { file: value };
  const entries = Array.from(value, ({ path, size, created, modified, damaged }) => ({
    path: unicode(path, 'path'),
    size,
    damaged: damaged ?? false,
    ...(created && { created: created.getTime() }),
    ...(modified && { modified: modified.getTime() }),
  }));
  return { entries };
}
