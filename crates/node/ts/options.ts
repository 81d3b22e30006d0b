// The options of memories and tools.

import { fileURLToPath } from 'node:url';
import { toError } from './errors.js';
import type { Memory } from './memory.js';
import { native, type Location as NativeLocation, type NativeOpening } from './native.js';
import { fromJson } from './reports.js';
import type { Store } from './store.js';
import type { MemoryChange } from './watch.js';

/**
 * A path, a URL, your own store, or another memory.
 *
 * | path or URL | storage |
 * |---|---|
 * | `memory`, `file:///srv/memory` | plain files in a local directory |
 * | `sqlite:memory.db?memory=alice` | a memory in a SQLite database |
 * | `postgres://user@host/database?memory=alice` | a memory in a PostgreSQL database |
 * | `s3://bucket/prefix`, `gs://...`, `az://...` | a prefix in a bucket |
 * | `in-process:` | a temporary memory in this process |
 */
export type Location = string | URL | Store | Memory;

/** Other memories, by their paths under `/memories`. */
export type Mounts = Readonly<Record<string, Location>> | ReadonlyMap<string, Location>;

/** The options of a memory. They have the names of the options of the program `memory-tool`. Times are in seconds. */
export interface Options {
  /** Open the memory only if it exists. Default: create it. */
  mustExist?: boolean;
  /** How long an operation waits for other processes, for requests and for a `Store`. Default: 30. */
  timeout?: number;
  /** Collect the garbage of a bucket this often. Default: never. */
  gcEvery?: number;
  /** Simulate changes, without writing anything. */
  dryRun?: boolean;
  /** Whether `create` replaces a file. Default: `create` fails if the file exists. */
  createOverwrites?: boolean;
  /** The most characters that `view` returns. Default: 16,000. `null` is no limit. */
  maxViewCharacters?: number | null;

  /** Work only in the part of the storage that belongs to this tenant. Take the name from a trusted source. */
  scope?: string;
  /** Refuse every change. */
  readOnly?: boolean;
  /** Other memories. The keys apply to those that are paths and URLs. */
  mounts?: Mounts;
  /** Other memories that can only be read. */
  readOnlyMounts?: Mounts;

  /** Limit the memory to sizes that suit an agent. The four options below replace one limit each. */
  limits?: boolean;
  /** The largest file in bytes. */
  maxFileBytes?: number;
  /** The most files. */
  maxFiles?: number;
  /** The most bytes of all files together. */
  maxBytes?: number;
  /** The most levels of directories and files. */
  maxDepth?: number;

  /** Keep a history of all changes. Later openings of the memory continue it without this option. */
  history?: boolean;
  /** Start a history too, and remove its entries after this number of seconds, 64 at once. */
  historyAge?: number;

  /** Called after each change through this memory, before its call returns. `watch` reports changes by others too. */
  onChange?: (change: MemoryChange) => void;

  /** Hide files that are not read or written for this time. `Memory.expire` removes them. */
  expireAfter?: number;
  /** Files and directories that never expire. */
  pins?: readonly string[];

  /** Refuse texts with passwords, tokens and keys, or redact those. */
  screen?: 'refuse' | 'redact';
  /** More kinds of data to screen, such as `"iban"`, or `"personal"` for all personal data. */
  screenAlso?: readonly string[];

  /** The name of the proposal where all changes wait for a person's consent. Mounted memories are read-only. */
  propose?: string;
  /** Files and directories whose changes count at once. */
  proposeExcept?: readonly string[];
  /** The number of lines of a file that can change at once. */
  proposeOver?: number;

  /** A file that records each change before and after it is made. Requires `actor`. */
  auditLog?: string;
  /** The name of the user or agent in the audit log and the history. */
  actor?: string;
  /** Record views too. */
  auditViews?: boolean;
  /** Wait until each audit record is on the disk. */
  auditSync?: boolean;

  /** Log commands, or operations of the storage too, as JSON lines to standard error. */
  log?: 'commands' | 'operations';
  /** Log paths too. */
  logPaths?: boolean;

  /** Encrypt the memory with these 32 bytes. */
  key?: Uint8Array;
  /** Encrypt with the key in this file. */
  keyFile?: string;
  /** Encrypt with the key in this environment variable. */
  keyEnv?: string;
  /** Encrypt with the passphrase in this file. */
  passphraseFile?: string;
  /** Decrypt with these keys too. */
  oldKeys?: readonly Uint8Array[];
  /** Decrypt with the keys in these files too. */
  oldKeyFiles?: readonly string[];
  /** Decrypt with the keys in these environment variables too. */
  oldKeyEnvs?: readonly string[];
  /** Decrypt with the passphrases in these files too. */
  oldPassphraseFiles?: readonly string[];
  /** Hide the sizes of files: at most 12 % larger, or multiples of this number of bytes. */
  padding?: 'padme' | number;
  /** The label of the encrypted memory. A memory with another label is refused. */
  label?: string;
  /** Accept these labels too. */
  oldLabels?: readonly string[];
  /** Accept a memory without a label too. */
  wasUnlabeled?: boolean;
}

/** Checks options, and prepares the memory to be opened. Throws a `TypeError` or `RangeError`. */
export function prepare(
  location: Location,
  options: Options,
  locate: (location: Location) => NativeLocation,
): NativeOpening {
  const opening = new native.NativeOpening();
  for (const [name, value] of Object.entries(options) as [string, unknown][]) {
    if (value === undefined || (value === null && name !== 'maxViewCharacters')) continue;
    if (name === 'key') {
      opening.setKey(keyOf(value, name));
    } else if (name === 'oldKeys') {
      if (!Array.isArray(value)) throw new TypeError(`invalid ${name}: expected a list`);
      for (const key of value) opening.addOldKey(keyOf(key, name));
    } else if (name === 'onChange') {
      if (typeof value !== 'function') throw new TypeError(`invalid ${name}: expected a function`);
      opening.setOnChange(reporterTo(value as (change: MemoryChange) => void));
    } else if (name === 'mounts' || name === 'readOnlyMounts') {
      if (typeof value !== 'object') throw new TypeError(`invalid ${name}: expected memories by their paths`);
      for (const [point, mounted] of pairs(value as Mounts)) {
        opening.mount(unicode(point, name), locate(mounted), name === 'readOnlyMounts');
      }
    } else {
      if (name.includes('_')) throw new TypeError(`unknown option ${name}`);
      opening.set(name.replace(/[A-Z]/g, (initial) => `_${initial.toLowerCase()}`), toJson(value, name));
    }
  }
  const { error } = opening.prepare(locate(location));
  if (error) throw toError(error);
  return opening;
}

/** Calls a function with each change. Its exceptions are warnings, because no call caused them. */
function reporterTo(onChange: (change: MemoryChange) => void): (json: string) => void {
  return (json) => {
    try {
      onChange(fromJson(json) as MemoryChange);
    } catch (error) {
      process.emitWarning(`the function for changes failed: ${error}`, { type: 'MemoryToolWarning' });
    }
  };
}

/** The locations of mounted memories. */
export function mounted({ mounts, readOnlyMounts }: Options): Location[] {
  return [mounts, readOnlyMounts].flatMap((given) => Array.from(given ? pairs(given) : [], ([, location]) => location));
}

/** The location of a path or URL. */
export function locationOfUrl(location: string | URL): NativeLocation {
  const isFile = location instanceof URL && location.protocol === 'file:';
  return native.Location.url(unicode(isFile ? fileURLToPath(location) : String(location), 'location'));
}

/**
 * Refuses text with a lone surrogate. The native module would replace it, and so give the same name to two tenants.
 * `name` is the option that the text belongs to.
 */
export function unicode(text: string, name: string): string {
  if (typeof text !== 'string' || text.isWellFormed()) return text;
  const units = Array.from(text, (character) => character.codePointAt(0) as number);
  const surrogate = units.find((unit) => unit >= 0xd800 && unit < 0xe000) as number;
  const code = surrogate.toString(16).toUpperCase();
  throw new RangeError(`invalid ${name}: the text contains U+${code}, a lone surrogate, which is half of a character`);
}

function pairs(mounts: Mounts): Iterable<[string, Location]> {
  return mounts instanceof Map ? mounts.entries() : Object.entries(mounts);
}

function keyOf(value: unknown, name: string): Uint8Array {
  if (value instanceof Uint8Array) return value;
  throw new TypeError(`invalid ${name}: expected 32 bytes`);
}

function toJson(given: unknown, name: string): string {
  try {
    return JSON.stringify(given, (_, value: unknown) => {
      // JSON has no form for these, and would replace or omit them.
      if (typeof value === 'function' || typeof value === 'symbol') throw new TypeError(`unexpected ${typeof value}`);
      if (typeof value === 'number' && !Number.isFinite(value)) throw new RangeError(`unexpected ${value}`);
      return value;
    });
  } catch (error) {
    const ErrorClass = error instanceof RangeError ? RangeError : TypeError;
    throw new ErrorClass(`invalid ${name}: ${(error as Error).message}`);
  }
}
