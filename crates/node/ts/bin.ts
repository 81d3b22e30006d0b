#!/usr/bin/env node
// The program `memory-tool`: `npx memory-tool --help`.

import { fileURLToPath } from 'node:url';
import { native } from './native.js';

const startedBy = [process.execPath, fileURLToPath(import.meta.url)];
process.exitCode = native.runProgram(['memory-tool', ...process.argv.slice(2)], startedBy);
