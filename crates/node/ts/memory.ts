// `Memory`: a memory for your program.

import { toError } from './errors.js';
import { History } from './history.js';
import { type Abort, type Answer, native, type NativeMemory, type Place } from './native.js';
import { type Location, locationOfUrl, mounted, type Options, prepare, unicode } from './options.js';
import { type SearchOptions, type SearchReport, toReport, toRequest } from './search.js';
import { type Entry, locationOfStore, type Usage } from './store.js';
import { toolErrorClass } from './tool_error.js';

/** The options of a call. */
export interface CallOptions {
  /** Cancels the call. It leaves the state before the call or after it. */
  signal?: AbortSignal | null | undefined;
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

  /** Reads a file as UTF-8 text. Throws `NotFound`, `NotAFile` or `NotText` if that is impossible. */
  async readText(path: string, options?: CallOptions): Promise<string> {
    return (await this.#perform('read_text', { path }, options)).text as string;
  }

  /** Creates a file, or replaces its contents. Throws `Refused` if a policy refuses the text. */
  async writeText(path: string, text: string, options?: CallOptions): Promise<void> {
    await this.#perform('write_text', { path, text }, options);
  }

  /** Lists every file under a directory, at any depth, sorted by path. */
  async list(directory = '/memories', options?: CallOptions): Promise<Entry[]> {
    const { entries } = await this.#perform('list', { directory }, options);
    return (entries ?? []).map(({ created, modified, ...entry }) => ({
      ...entry,
      created: created === undefined ? undefined : new Date(created),
      modified: modified === undefined ? undefined : new Date(modified),
    }));
  }

  /** Removes a file, or a directory and every file under it. Throws `NotFound` if there is none. */
  async remove(path: string, options?: CallOptions): Promise<void> {
    await this.#perform('remove', { path }, options);
  }

  /** Moves a file or directory. Throws `AlreadyExists` if `newPath` exists. */
  async rename(oldPath: string, newPath: string, options?: CallOptions): Promise<void> {
    await this.#perform('rename', { oldPath, newPath }, options);
  }

  /** Removes all files. A history keeps their contents. */
  async clear(options?: CallOptions): Promise<void> {
    await this.#perform('clear', {}, options);
  }

  /** Removes all files, the history, the access times and the other records in one step. */
  async forget(options?: CallOptions): Promise<void> {
    await this.#perform('forget', {}, options);
  }

  /** The number and the total size of all files. */
  async usage(options?: CallOptions): Promise<Usage> {
    return (await this.#perform('usage', {}, options)).usage as Usage;
  }

  /**
   * Finds words or a regular expression in the names and lines of all files.
   * Throws `SearchError` for an invalid pattern, and `NotFound` for a path to search that does not exist.
   */
  async search(pattern: string, { signal, ...options }: SearchOptions & CallOptions = {}): Promise<SearchReport> {
    unicode(pattern, 'pattern');
    const { json } = await this.#perform('search', { request: toRequest(pattern, options) }, { signal });
    return toReport(json as string);
  }

  /** The history, to see and take back changes. Open the memory with `history: true` to start it. */
  history(): History {
    return new History(async (request) => (await this.#perform('history', { request })).json as string);
  }

  /** @internal Calls the tool with an input as JSON, when the turn of the place comes. */
  async _call(input: string, place: Place | undefined, options?: CallOptions): Promise<Answer> {
    const memory = this.#native ?? (await this.#ready(options));
    options?.signal?.throwIfAborted();
    return settle((abort) => memory.call(input, place, abort), options);
  }

  async #perform(name: string, texts: Record<string, string>, options?: CallOptions): Promise<Answer> {
    for (const [argument, text] of Object.entries(texts)) {
      if (typeof text !== 'string') throw new TypeError(`invalid ${argument}: expected a string, got ${typeof text}`);
      unicode(text, argument);
    }
    const memory = this.#native ?? (await this.#ready(options));
    options?.signal?.throwIfAborted();
    return settle((abort) => memory.perform(name, Object.values(texts), abort), options);
  }

  #ready(options?: CallOptions): Promise<NativeMemory> {
    options?.signal?.throwIfAborted();
    const opening = this.#open();
    return options?.signal ? unlessAborted(opening, options.signal) : opening;
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
    const opened = new Map<Location, NativeMemory>();
    for (const location of [this.#location, ...mounted(this.#options)]) {
      if (location instanceof Memory) opened.set(location, await location.#open());
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

/** Waits for the answer of a call, and throws its error. */
export async function settle(
  start: (abort?: Abort) => Answer | Promise<Answer>,
  options?: CallOptions,
): Promise<Answer> {
  const signal = options?.signal;
  const abort = signal ? new native.Abort() : undefined;
  const started = start(abort);
  const answer =
    started instanceof Promise && signal
      ? await unlessAborted(started, signal, () => abort?.abort())
      : await started;
  if (answer.error === undefined) return answer;
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
