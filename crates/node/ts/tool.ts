// `MemoryTool`: the handlers for the SDK's `betaMemoryTool`.

import { type CallOptions, Memory } from './memory.js';
import type { Location, Options } from './options.js';
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

/**
 * The memory tool for `betaMemoryTool` of `@anthropic-ai/sdk/helpers/beta/memory`. It works without the SDK too.
 *
 * ```ts
 * const tool = betaMemoryTool(new MemoryTool("sqlite:memory.db?memory=alice", { limits: true }));
 * ```
 */
export class MemoryTool {
  /** The same memory, for your program. */
  readonly memory: Memory;

  /** `location` can also be a `Memory`. The first call opens it. */
  constructor(location: Location, options?: Options) {
    this.memory = location instanceof Memory && options === undefined ? location : new Memory(location, options);
  }

  /** Opens the memory. Throws an `OpenError` if that fails. */
  static async open(location: Location, options?: Options): Promise<MemoryTool> {
    return new MemoryTool(await Memory.open(location, options));
  }

  /** Runs the `input` of a `tool_use` block. Throws a `ToolError`, which Claude reads. */
  async call(input: unknown, options?: CallOptions): Promise<Content> {
    const { text, blocks } = await this.memory._call(await toJson(input), options);
    return blocks === undefined ? (text as string) : (JSON.parse(blocks) as ContentBlock[]);
  }

  view(command: CommandOf<'view'>): Promise<Content> {
    return this.call(command);
  }

  create(command: CommandOf<'create'>): Promise<Content> {
    return this.call(command);
  }

  str_replace(command: CommandOf<'str_replace'>): Promise<Content> {
    return this.call(command);
  }

  insert(command: CommandOf<'insert'>): Promise<Content> {
    return this.call(command);
  }

  delete(command: CommandOf<'delete'>): Promise<Content> {
    return this.call(command);
  }

  rename(command: CommandOf<'rename'>): Promise<Content> {
    return this.call(command);
  }
}

async function toJson(input: unknown): Promise<string> {
  let reason = 'it is undefined';
  try {
    const json = JSON.stringify(input) as string | undefined;
    if (json !== undefined) return json;
  } catch (error) {
    reason = (error as Error).message;
  }
  throw new (await toolErrorClass())(`Error: The input cannot be read as JSON: ${reason}`);
}
