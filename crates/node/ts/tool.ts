// `MemoryTool`: the handlers for the SDK's `betaMemoryTool`.

import { AsyncLocalStorage } from 'node:async_hooks';
import { type CallOptions, Memory, settle } from './memory.js';
import { native, type Place } from './native.js';
import type { Location, Options } from './options.js';
import { fromJson } from './reports.js';
import { toolErrorClass } from './tool_error.js';

/** The commands of the tool, as in the SDK. */
export type Command =
  | { command: 'view'; path: string; view_range?: number[] }
  | { command: 'create'; path: string; file_text: string }
  | { command: 'str_replace'; path: string; old_str: string; new_str: string }
  | { command: 'insert'; path: string; insert_line: number; insert_text: string }
  | { command: 'delete'; path: string }
  | { command: 'rename'; old_path: string; new_path: string };

type CommandOf<Name> = Extract<Command, { command: Name }>;

/** A block of a `tool_result`. */
export type ContentBlock =
  | { type: 'text'; text: string }
  | { type: 'image'; source: { type: 'base64'; media_type: 'image/jpeg' | 'image/png'; data: string } };

/** The content of a `tool_result`: text, or content blocks for an image. */
export type Content = string | ContentBlock[];

/** The reply or the error of a command, for a function that words it. */
export interface ToolOutcome {
  /**
   * The reply: `"directory"`, `"file"`, `"image"`, `"created"`, `"replaced"`, `"inserted"`, `"deleted"` or `"renamed"`. Or
   * the error, such as `"not_found"`, `"already_exists"`, `"no_match"`, `"multiple_matches"` or `"refused"`.
   */
  readonly kind: string;
  readonly isError: boolean;
  /** The text of the contract. */
  readonly text: string;
  /** What the text is about, such as `path`, `oldPath`, `command`, `snippet`, `oldStr`, `lines` or `reason`. */
  readonly details: { readonly path?: string; readonly [name: string]: unknown };
}

/** Returns the text that Claude reads, or `undefined` for the text of the contract. */
export type Wording = (outcome: ToolOutcome) => string | undefined;

/** The options of a tool. */
export interface ToolOptions extends Options {
  /** Words replies and errors. */
  wording?: Wording;
}

const COMMANDS = ['view', 'create', 'str_replace', 'insert', 'delete', 'rename'] as const;

/** A method that runs a command. */
type Method = (command: never, options?: CallOptions) => Content | PromiseLike<Content>;

/** The places in queues of the overridden methods that this code runs in. */
const places = new AsyncLocalStorage<readonly Place[]>();

/**
 * The memory tool for `betaMemoryTool` of `@anthropic-ai/sdk/helpers/beta/memory`. It works without the SDK too.
 *
 * ```ts
 * const tool = betaMemoryTool(new MemoryTool("sqlite:memory.db?memory=alice", { limits: true }));
 * ```
 *
 * Concurrent calls, such as those of one turn, take effect in the order in which they are made.
 *
 * A subclass can override the method of a command, such as `create`. `call` and the SDK then use it, and pass it only
 * commands that are valid. It runs when the turn of its command comes, and so do the commands that it calls, such as
 * `super.create(command)`.
 */
export class MemoryTool {
  /** The same memory, for your program. */
  readonly memory: Memory;
  readonly #queue = new native.Queue();
  readonly #wording: Wording | undefined;
  /** The methods that take a place in the queue for an overridden method. */
  readonly #queued = new Set<Method>();
  /** The place of the overridden method that runs, and so has the queue for itself. */
  #running: Place | undefined;

  /** `location` can also be a `Memory`. The first call opens it. */
  constructor(location: Location, { wording, ...options }: ToolOptions = {}) {
    const isOpen = location instanceof Memory && Object.keys(options).length === 0;
    this.memory = isOpen ? location : new Memory(location, options);
    this.#wording = wording;
    for (const name of COMMANDS) {
      if (!this.#isOverridden(name)) continue;
      // The SDK calls the method, which must take its place in the queue before it runs.
      const method = this[name] as Method;
      const value: Method = (command, options) => this.#runMethod(method, command, options);
      this.#queued.add(value);
      Object.defineProperty(this, name, { value, writable: true, configurable: true });
    }
  }

  /** Opens the memory. Throws an `OpenError` if that fails. */
  static async open(location: Location, { wording, ...options }: ToolOptions = {}): Promise<MemoryTool> {
    return new MemoryTool(await Memory.open(location, options), wording && { wording });
  }

  /** Runs the `input` of a `tool_use` block. Throws a `ToolError`, which Claude reads. */
  async call(input: unknown, options?: CallOptions): Promise<Content> {
    const name = COMMANDS.find((name) => name === commandOf(input));
    if (name === undefined || !this.#isOverridden(name)) return this.#run(input, options);
    const method = this[name] as Method;
    return this.#queued.has(method) ? method(input as never, options) : this.#runMethod(method, input, options);
  }

  view(command: CommandOf<'view'>, options?: CallOptions): Promise<Content> {
    return this.#runBase('view', command, options);
  }

  create(command: CommandOf<'create'>, options?: CallOptions): Promise<Content> {
    return this.#runBase('create', command, options);
  }

  str_replace(command: CommandOf<'str_replace'>, options?: CallOptions): Promise<Content> {
    return this.#runBase('str_replace', command, options);
  }

  insert(command: CommandOf<'insert'>, options?: CallOptions): Promise<Content> {
    return this.#runBase('insert', command, options);
  }

  delete(command: CommandOf<'delete'>, options?: CallOptions): Promise<Content> {
    return this.#runBase('delete', command, options);
  }

  rename(command: CommandOf<'rename'>, options?: CallOptions): Promise<Content> {
    return this.#runBase('rename', command, options);
  }

  #isOverridden(name: 'call' | Command['command']): boolean {
    return this[name] !== MemoryTool.prototype[name];
  }

  async #runBase(name: Command['command'], command: unknown, options?: CallOptions): Promise<Content> {
    // Only an overridden method calls the method that it overrides.
    if (this.#isOverridden(name)) return this.#run(command, options, this.#running !== undefined);
    return this.#isOverridden('call') ? this.call(command, options) : this.#run(command, options);
  }

  /** Runs a command when its turn comes. One that an overridden method calls does not wait, as it would for itself. */
  async #run(input: unknown, options?: CallOptions, isInside = this.#isInside()): Promise<Content> {
    options?.signal?.throwIfAborted();
    const json = toJson(input);
    if (typeof json !== 'string') throw await json;
    const name = commandOf(input);
    const place = isInside ? undefined : this.#queue.enter(typeof name === 'string' ? name : undefined);
    try {
      const { text, blocks, json: parts } = await this.memory._call(json, place, this.#wording !== undefined, options);
      return this.#words(parts) ?? (blocks === undefined ? (text as string) : (JSON.parse(blocks) as ContentBlock[]));
    } catch (error) {
      const words = this.#words((error as { parts?: string }).parts);
      if (words === undefined) throw error;
      const worded = new (await toolErrorClass())(words);
      const { cause } = error as Error;
      throw cause === undefined ? worded : Object.defineProperty(worded, 'cause', { value: cause, configurable: true });
    } finally {
      place?.leave();
    }
  }

  /** The text of the hook. If the hook throws, the text of the contract stays. */
  #words(parts: string | undefined): string | undefined {
    if (parts === undefined || this.#wording === undefined) return undefined;
    try {
      return this.#wording(fromJson(parts) as ToolOutcome);
    } catch (error) {
      process.emitWarning(`the function for the wording failed: ${error}`, { type: 'MemoryToolWarning' });
      return undefined;
    }
  }

  /** Runs an overridden method when its turn comes. */
  async #runMethod(method: Method, input: unknown, options?: CallOptions): Promise<Content> {
    options?.signal?.throwIfAborted();
    const json = toJson(input);
    const parsed = typeof json === 'string' ? native.parseCommand(json) : null;
    if (parsed === null) return this.#run(input, options); // throws the error
    const command = JSON.parse(parsed) as never;
    if (this.#isInside()) return method.call(this, command, options);
    const place = this.#queue.enter();
    try {
      await settle((abort) => place.wait(abort), options);
      this.#running = place;
      return await places.run([...(places.getStore() ?? []), place], () => method.call(this, command, options));
    } finally {
      if (this.#running === place) this.#running = undefined;
      place.leave();
    }
  }

  #isInside(): boolean {
    return this.#running !== undefined && (places.getStore() ?? []).includes(this.#running);
  }
}

/** The input as JSON, or the error of one that is not JSON. */
function toJson(input: unknown): string | Promise<Error> {
  let reason = 'it is undefined';
  try {
    const json = JSON.stringify(input, requireUnicode) as string | undefined;
    if (json !== undefined) return json;
  } catch (error) {
    reason = (error as Error).message;
  }
  return toolErrorClass().then((ToolError) => new ToolError(`Error: The input cannot be read as JSON: ${reason}`));
}

function requireUnicode(key: string, value: unknown): unknown {
  if (!key.isWellFormed() || (typeof value === 'string' && !value.isWellFormed())) {
    throw new TypeError('a string contains a lone surrogate');
  }
  return value;
}

function commandOf(input: unknown): unknown {
  return (input as Partial<Command> | null | undefined)?.command;
}
