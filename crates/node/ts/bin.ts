#!/usr/bin/env node
// The program `memory-tool`: `npx memory-tool --help`.

import { native } from './native.js';

// Restores the default actions. The program runs earlier handlers after its own, and those of Node.js raise the signal
// again, without end.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  const ignore = () => {};
  process.on(signal, ignore);
  process.off(signal, ignore);
}
process.exitCode = native.runProgram(['memory-tool', ...process.argv.slice(2)]);
