// Loads the native module. `build.mjs` generates its types.

import { createRequire } from 'node:module';
import type * as generated from './generated.js';

const file = `./memory-tool.${process.platform}-${process.arch}.node`;

function load(): typeof generated {
  try {
    return createRequire(import.meta.url)(file) as typeof generated;
  } catch (cause) {
    const where = `${process.platform}-${process.arch}`;
    throw new Error(`memory-tool is not built for ${where}: see "Other platforms" in its README`, { cause });
  }
}

export const native = load();
export type * from './generated.js';
