// `Memory`: a memory for your program.

import { fileURLToPath } from 'node:url';
import { MemoryToolError, toError } from './errors.js';
import { History } from './history.js';
import { Proposals } from './proposals.js';
import { type Abort, type Answer, native, type NativeMemory, type NativeWatch, type Place } from './native.js';
import { type Location, locationOfUrl, mounted, type Options, prepare, unicode } from './options.js';
import { type CopyReport, type ExportReport, fromJson, type ImportReport, type LintReport, type SyncReport, type VerifyReport } from './reports.js';
import type { SearchOptions, SearchReport } from './search.js';
import { type Entry, locationOfStore, type Usage } from './store.js';
import { toolErrorClass } from './tool_error.js';
import { Watch } from './watch.js';

/** The options of a call. */
export interface CallOptions {
  /** Cancels the call. It leaves the state before the call or after it. */
  signal?: AbortSignal | null | undefined;
}

/** The options of a write. */
export interface WriteOptions extends CallOptions {
  /** Write only if the path does not exist. Otherwise the call throws `AlreadyExists`. */
  ifAbsent?: boolean;
}

/** The options of `Memory.lint`, with the names of rules of `memory-tool lint`. */
export interface LintOptions extends CallOptions {
  /** Only these rules. Default: all. */
  only?: readonly string[];
  /** Not these rules. */
  off?: readonly string[];
  /** Only these files and directories. Default: all. */
  within?: readonly string[];
}

/** The options of `Memory.writeText`. */
export interface WriteTextOptions extends WriteOptions {
  /** Replace only this text. If the file has another one or does not exist, the call throws `VersionMismatch`. */
  ifText?: string;
}

/** The options of `Memory.writeBytes`. */
export interface WriteBytesOptions extends WriteOptions {
  /** Replace only these bytes. If the file has others or does not exist, the call throws `VersionMismatch`. */
  ifBytes?: Uint8Array;
}

/** The options of a copy, an export or an import. */
export interface TransferOptions extends CallOptions {
  /** Replace files that have other contents. Default: keep them. */
  overwrite?: boolean;
}

/** The options of a copy. */
export interface CopyOptions extends TransferOptions {
  /** Also copy the history, to a memory without files. Default: false. */
  withHistory?: boolean;
}

/** The options of a synchronization. */
export interface SyncOptions extends CallOptions {
  /** The names of this and the other memory, for the names of files in conflict and the history. */
  names?: readonly [string, string];
  /** Remove all files if one memory has lost all of more than ten. Default: that is an error. */
  allowEmpty?: boolean;
}

/** The options of an export. */
export interface ExportOptions extends TransferOptions {
  /** The files and directories to export. Default: all. */
  within?: readonly string[];
}

/**
 * A memory, with the methods for a program. `new MemoryTool(memory)` is the tool for Claude.
 *
 * ```ts
 * const memory = new Memory("sqlite:memory.db?memory=alice", { limits: true });
 * await memory.writeText("/memories/profile.md", "Prefers tea.");
 * ```
 */
export class Memory {
  readonly #location: Location;
  readonly #options: Options;
  #native: NativeMemory | undefined;
  #opening: Promise<NativeMemory> | undefined;
  #isClosed = false;
  /** The memory and the actor of a handle from `by`. */
  #handle: { of: Memory; actor: string; reason: string } | undefined;

  /**
   * Checks the options. The first call opens the memory, and creates it if it does not exist.
   * Throws a `TypeError` or `RangeError` for an invalid option.
   */
  constructor(location: Location, options: Options = {}) {
    const placeholder = native.Location.url('in-process:');
    prepare(location, options, (given) => (given instanceof Memory ? placeholder : locate(given)));
    this.#location = location;
    this.#options = { ...options };
  }

  /** Opens a memory. Throws an `OpenError` if that fails. */
  static async open(location: Location, options?: Options): Promise<Memory> {
    const memory = new Memory(location, options);
    await memory.#open();
    return memory;
  }

  /**
   * A handle on the same memory whose changes are by this actor, for the history, `watch` and the audit log. The
   * history keeps up to 500 characters of the reason.
   *
   * Take the name from a trusted source, such as the user of an authenticated request, and never from the model.
   * Throws a `RangeError` for an empty name, control characters and more than 256 bytes. Close each handle that was
   * used.
   */
  by(actor: string, { reason = '' }: { reason?: string } = {}): Memory {
    prepare('in-process:', { actor }, () => native.Location.url('in-process:')); // checks the name
    const handle = new Memory(this.#location, this.#options);
    handle.#handle = { of: this, actor, reason };
    return handle;
  }

  /** Reads a file as UTF-8 text. Throws `NotFound`, `NotAFile` or `NotText` if that is impossible. */
  async readText(path: string, options?: CallOptions): Promise<string> {
    return (await this.#perform('files', 'read_text', { path }, options)).text as string;
  }

  /** Reads a file. Throws `NotFound` or `NotAFile` if that is impossible. */
  async readBytes(path: string, options?: CallOptions): Promise<Uint8Array> {
    return (await this.#perform('files', 'read', { path }, options)).bytes as Uint8Array;
  }

  /** Whether there is a file or directory. `/memories` always exists. */
  async exists(path: string, options?: CallOptions): Promise<boolean> {
    return fromJson((await this.#perform('files', 'exists', { path }, options)).json) as boolean;
  }

  /**
   * Creates a file, or replaces its contents. Throws `Refused` if a policy refuses the text. With a condition, no
   * concurrent change is lost.
   */
  async writeText(path: string, text: string, options?: WriteTextOptions): Promise<void> {
    if (typeof text !== 'string') throw new TypeError(`invalid text: expected a string, got ${typeof text}`);
    const condition = conditionOf(options, 'ifText', (value) => typeof value === 'string');
    await this.#perform('files', 'write', { path, text, ...condition }, options);
  }

  /** The same as `writeText` for any bytes. */
  async writeBytes(path: string, content: Uint8Array, options?: WriteBytesOptions): Promise<void> {
    if (!(content instanceof Uint8Array)) throw new TypeError(`invalid content: expected bytes, got ${typeof content}`);
    const condition = conditionOf(options, 'ifBytes', (value) => value instanceof Uint8Array);
    await this.#perform('files', 'write', { path, content, ...condition }, options);
  }

  /** Adds text or bytes at the end of a file, and creates it if it does not exist. No concurrent change is lost. */
  async append(path: string, content: string | Uint8Array, options?: CallOptions): Promise<void> {
    await this.#perform('files', 'append', { path, content }, options);
  }

  /** Lists every file under a directory, at any depth, sorted by path. */
  async list(directory = '/memories', options?: CallOptions): Promise<Entry[]> {
    const { entries } = await this.#perform('files', 'list', { directory }, options);
    return (entries ?? []).map(({ created, modified, ...entry }) => ({
      ...entry,
      created: created === undefined ? undefined : new Date(created),
      modified: modified === undefined ? undefined : new Date(modified),
    }));
  }

  /** Removes a file, or a directory and every file under it. Throws `NotFound` if there is none. */
  async remove(path: string, options?: CallOptions): Promise<void> {
    await this.#perform('files', 'remove', { path }, options);
  }

  /** Moves a file or directory. Throws `AlreadyExists` if `newPath` exists. */
  async rename(oldPath: string, newPath: string, options?: CallOptions): Promise<void> {
    await this.#perform('files', 'rename', { oldPath, newPath }, options);
  }

  /** Removes all files. A history keeps their contents. */
  async clear(options?: CallOptions): Promise<void> {
    await this.#perform('files', 'clear', {}, options);
  }

  /** Removes all files, the history, the access times and the other records in one step. */
  async forget(options?: CallOptions): Promise<void> {
    await this.#perform('care', 'forget', {}, options);
  }

  /**
   * Removes the files that have expired, which are already hidden, and returns their paths. If most files have expired,
   * the clock may be wrong. They are then removed by a call at least a day, or 1/24 of the time of `expireAfter`, later.
   */
  async expire(options?: CallOptions): Promise<string[]> {
    return fromJson((await this.#perform('care', 'expire', {}, options)).json) as string[];
  }

  /** Like `expire`, also if most files have expired. Call it if the clock is known to be right. */
  async expireAll(options?: CallOptions): Promise<string[]> {
    return fromJson((await this.#perform('care', 'expire_all', {}, options)).json) as string[];
  }

  /** The number and the total size of all files. */
  async usage(options?: CallOptions): Promise<Usage> {
    return (await this.#perform('care', 'usage', {}, options)).usage as Usage;
  }

  /**
   * Finds words or a regular expression in the names and lines of all files.
   * Throws `SearchError` for an invalid pattern, and `NotFound` for a path to search that does not exist.
   */
  async search(pattern: string, { signal, ...options }: SearchOptions & CallOptions = {}): Promise<SearchReport> {
    const { json } = await this.#request({ search: toRequest({ ...options, pattern }) }, { signal });
    return fromJson(json) as SearchReport;
  }

  /** The history, to see and take back changes. Open the memory with `history: true` to start it. */
  history(): History {
    return new History((name, given) => this.#perform('history', name, given));
  }

  /** The changes that wait for a person's consent. Open the memory with `propose` to make some. */
  proposals(): Proposals {
    return new Proposals((name, given) => this.#perform('proposals', name, given));
  }

  /** Reads the whole storage, also files that policies hide, and reports damage. */
  async verify(options?: CallOptions): Promise<VerifyReport> {
    return fromJson((await this.#perform('care', 'verify', {}, options)).json) as VerifyReport;
  }

  /** Finds text that Claude misreads or does not see. */
  async lint({ signal, ...given }: LintOptions = {}): Promise<LintReport> {
    return fromJson((await this.#perform('care', 'lint', given, { signal })).json) as LintReport;
  }

  /** Copies all files to another memory. Throws `TransferError` if the copy stops. Run it again to continue. */
  async copyTo(destination: Memory, given: CopyOptions = {}): Promise<CopyReport> {
    const { overwrite = false, withHistory = false, ...options } = given;
    const opened = await destination.#ready(options);
    const request = { overwrite, withHistory };
    return fromJson((await this.#perform('transfer', 'copy', request, options, opened)).json) as CopyReport;
  }

  /**
   * Makes one memory of this and another one, with the changes of both since they were synchronized. If both changed
   * the same lines of a file, the older text is kept beside it as `NAME (conflict DATE SIDE).EXT`. Throws
   * `TransferError` if the synchronization stops. Run it again to continue.
   */
  async sync(other: Memory, given: SyncOptions = {}): Promise<SyncReport> {
    const { names = ['first', 'second'], allowEmpty = false, ...options } = given;
    const opened = await other.#ready(options);
    const request = { names, allowEmpty };
    return fromJson((await this.#perform('transfer', 'sync', request, options, opened)).json) as SyncReport;
  }

  /**
   * Writes the files to a directory, or to an archive if the name ends in `.tar`, `.tar.gz`, `.tgz` or `.zip`.
   * Throws `TransferError` if that fails, or if the target exists and `overwrite` is not set.
   */
  async export(path: string | URL, { overwrite = false, within = [], ...options }: ExportOptions = {}): Promise<ExportReport> {
    const given = { path: file(path), overwrite, within };
    return fromJson((await this.#perform('transfer', 'export', given, options)).json) as ExportReport;
  }

  /**
   * Writes the files of a directory or of a tar archive, which can be untrusted, to this memory.
   * Throws `TransferError` if the source cannot be read.
   */
  async import(path: string | URL, { overwrite = false, ...options }: TransferOptions = {}): Promise<ImportReport> {
    return fromJson((await this.#perform('transfer', 'import', { path: file(path), overwrite }, options)).json) as ImportReport;
  }

  /** The scopes that have files in the whole storage. `new Memory(location, { scope: name })` opens one. */
  async scopes(options?: CallOptions): Promise<string[]> {
    return fromJson((await this.#perform('care', 'scopes', {}, options)).json) as string[];
  }

  /** The changes by anyone from now on: `for await (const change of await memory.watch())`. */
  async watch(options?: CallOptions): Promise<Watch> {
    return new Watch((await this.#perform('files', 'watch', {}, options)).watch as NativeWatch);
  }

  /** The URLs of the memories in a database, or at and right under a directory or prefix. */
  static async memories(location: string | URL, options?: CallOptions): Promise<string[]> {
    options?.signal?.throwIfAborted();
    const url = unicode(file(location), 'location');
    return fromJson((await settle((abort) => native.memories(url, abort), options)).json) as string[];
  }

  /** Closes the memory. Calls that run still end; later calls throw a `MemoryToolError`. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#opening?.catch(() => undefined);
    this.#native?.close();
    this.#native = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** @internal Calls the tool with an input as JSON, when the turn of the place comes. */
  async _call(input: string, place: Place | undefined, isWorded: boolean, options?: CallOptions): Promise<Answer> {
    const memory = this.#native ?? (await this.#ready(options));
    options?.signal?.throwIfAborted();
    return this.#settle((abort) => memory.call(input, place, isWorded, abort), options);
  }

  #perform(
    group: string,
    name: string,
    given: object,
    options?: CallOptions,
    destination?: NativeMemory,
  ): Promise<Answer> {
    return this.#request({ [group]: { [name]: toRequest(given) } }, options, destination);
  }

  async #request(request: object, options?: CallOptions, destination?: NativeMemory): Promise<Answer> {
    const memory = this.#native ?? (await this.#ready(options));
    options?.signal?.throwIfAborted();
    return this.#settle((abort) => memory.perform(request, destination, abort), options);
  }

  /** Waits for the answer of a call, and until `onChange` has received its changes. */
  async #settle(start: (abort?: Abort) => Answer | Promise<Answer>, options?: CallOptions): Promise<Answer> {
    try {
      return await settle(start, options);
    } finally {
      // The changes were queued before the answer, so the next turn of the event loop calls the function. This turn may
      // have passed their queue.
      for (let turn = 0; this.#options.onChange && turn < 2; turn++) await new Promise(setImmediate);
    }
  }

  async #ready(options?: CallOptions): Promise<NativeMemory> {
    options?.signal?.throwIfAborted();
    if (this.#isClosed) throw new MemoryToolError('the memory is closed');
    const opening = this.#open();
    const memory = await (options?.signal ? unlessAborted(opening, options.signal) : opening);
    if (this.#isClosed) throw new MemoryToolError('the memory is closed');
    return memory;
  }

  /** Opens the memory once. After an error, the next call tries again. */
  #open(): Promise<NativeMemory> {
    this.#opening ??= this.#openNow().catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  async #openNow(): Promise<NativeMemory> {
    if (this.#handle) {
      const { of, actor, reason } = this.#handle;
      return (this.#native = (await of.#ready()).by(actor, reason));
    }
    const opened = new Map<Location, NativeMemory>();
    for (const location of [this.#location, ...mounted(this.#options)]) {
      if (location instanceof Memory) opened.set(location, await location.#ready());
    }
    const opening = prepare(this.#location, this.#options, (given) => {
      const memory = opened.get(given);
      return memory ? native.Location.memory(memory) : locate(given as Exclude<Location, Memory>);
    });
    const { memory } = await settle((abort) => opening.open(abort));
    this.#native = memory as NativeMemory;
    return this.#native;
  }
}

function locate(location: Exclude<Location, Memory>) {
  const isUrl = typeof location === 'string' || location instanceof URL;
  return isUrl ? locationOfUrl(location) : locationOfStore(location);
}

function file(path: string | URL): string {
  return path instanceof URL && path.protocol === 'file:' ? fileURLToPath(path) : String(path);
}

/** The arguments of a request for the native module. Dates are seconds since 1970. */
function toRequest(given: object): object {
  const arguments_ = Object.entries(given).filter(([, value]) => value !== undefined);
  return Object.fromEntries(arguments_.map(([name, value]) => [snake(name), toArgument(value, name)]));
}

function toArgument(value: unknown, name: string): unknown {
  if (typeof value === 'string') return unicode(value, name);
  if (value instanceof Date) return value.getTime() / 1000;
  return Array.isArray(value) ? value.map((item) => toArgument(item, name)) : value;
}

function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** The condition of a write, for the native module. */
function conditionOf<Name extends string>(
  options: (WriteOptions & { [name in Name]?: unknown }) | undefined,
  name: Name,
  isExpected: (value: unknown) => boolean,
): object {
  // A value that is `undefined`, such as the result of a failed read, must not write without a condition.
  if (options === undefined || !(name in options)) return { ifAbsent: options?.ifAbsent ?? false };
  if (!isExpected(options[name]) || options.ifAbsent) {
    throw new TypeError(`invalid ${name}: expected the contents to replace, without ifAbsent, which creates a file`);
  }
  return { ifContent: options[name] };
}

/** Waits for the answer of a call, and throws its error. */
export async function settle<A extends Pick<Answer, 'error'> | void>(
  start: (abort?: Abort) => A | Promise<A>,
  options?: CallOptions,
): Promise<A> {
  const signal = options?.signal;
  const abort = signal ? new native.Abort() : undefined;
  const started = start(abort);
  const answer =
    started instanceof Promise && signal
      ? await unlessAborted(started, signal, () => abort?.abort())
      : await started;
  if (!answer?.error) return answer;
  const [error, cause] = answer.error;
  const raised = toError(answer.error, error?.class === 'ToolError' ? await toolErrorClass() : undefined);
  if (error?.class === 'ToolError' && cause !== undefined) warn(raised as Error);
  throw raised;
}

/** Waits for a promise until the signal is aborted. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal, stopWork?: () => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      reject(signal.reason as Error);
      stopWork?.();
    };
    signal.addEventListener('abort', stop, { once: true });
    const end = () => signal.removeEventListener('abort', stop);
    promise.then(resolve, reject).then(end, end);
  });
}

/** Reports the cause of an error that Claude reads, because the SDK drops it. */
function warn(error: Error): void {
  const causes = [];
  for (let cause = error.cause; cause !== undefined; cause = (cause as Error).cause) causes.push(String(cause));
  process.emitWarning(error.message, { type: 'MemoryToolWarning', detail: causes.join('\n') });
}
