// `ToolError`: the error that Claude reads.

import { realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const MODULE = '@anthropic-ai/sdk/lib/tools/ToolError';

/** An error that Claude reads. If the SDK is installed, the tool throws the SDK's class, which counts as this one. */
export class ToolError extends Error {
  /** The text that Claude reads. */
  readonly content: string;

  constructor(content: string) {
    super(content);
    this.name = 'ToolError';
    this.content = content;
  }

  static override [Symbol.hasInstance](error: unknown): boolean {
    return error instanceof Error && error.name === 'ToolError';
  }
}

type ToolErrorClass = new (content: string) => Error;
let found: Promise<ToolErrorClass> | undefined;

/** The class to throw: the SDK's runner recognizes only the class of its own copy. */
export function toolErrorClass(): Promise<ToolErrorClass> {
  return (found ??= find());
}

async function find(): Promise<ToolErrorClass> {
  // First the copy of the program: this package may be a link to a folder with another copy.
  const program = process.argv[1];
  for (const file of [program, fileURLToPath(import.meta.url), join(process.cwd(), 'index.js')]) {
    if (file === undefined) continue;
    try {
      const require = createRequire(realpathOf(file));
      const common = require.resolve(MODULE);
      const isCommon = require.main !== undefined && common in require.cache;
      const loaded: unknown = isCommon ? require(common) : await import(moduleOf(require));
      return (loaded as { ToolError: ToolErrorClass }).ToolError;
    } catch {
      // The SDK is not installed there.
    }
  }
  return ToolError;
}

function moduleOf(require: NodeJS.Require): string {
  return pathToFileURL(require.resolve(`${MODULE}.mjs`)).href;
}

function realpathOf(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return file; // such as a program without its extension
  }
}
