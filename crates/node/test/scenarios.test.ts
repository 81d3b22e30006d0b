// The tests that the packages for Python and TypeScript have in common. `testing/scenarios.json` describes them.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import * as memoryTool from 'memory-tool';
import { type Location, Memory, MemoryTool, type Options, ToolError } from 'memory-tool';
import { MapStore } from '../examples/map_store.js';
import { full, newPlace, root, testOnDisks, testOnStores, testWithoutServer } from './support.js';

type Fields = Record<string, unknown>;
type Method = (...given: unknown[]) => unknown;
type ErrorClass = new (...given: unknown[]) => Error;

interface Step {
  do?: [string, ...unknown[]];
  open?: string;
  at?: unknown;
  with?: Fields;
  file?: string;
  text?: string;
  gives?: unknown;
  soon?: boolean;
  fails?: [string, string?, Fields?];
}

interface Scenario {
  name: string;
  on: string;
  with?: Fields;
  steps: Step[];
}

interface Table {
  scenarios: Scenario[];
  wrong_options: [Fields, string, string][];
  errors_of_a_store: { throws: [string, ...unknown[]]; retryable: boolean; reply: string }[];
}

const table = JSON.parse(readFileSync(join(root, '..', '..', 'testing', 'scenarios.json'), 'utf8')) as Table;
const VALUES = ['bytes', 'repeat', 'memory', 'ago'];
const RESULTS = ['like', 'unlike', 'text', 'near'];

const camel = (text: string) => text.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
const isObject = (given: unknown): given is Fields => typeof given === 'object' && given !== null && !Array.isArray(given);

/** The name of the form of an object, if it is one of these. */
function formOf(given: unknown, forms: string[]): string | undefined {
  const names = isObject(given) ? Object.keys(given) : [];
  return names.length === 1 ? names.find((name) => forms.includes(name)) : undefined;
}

function classOf(name: string): ErrorClass {
  const classes = { ...memoryTool, TypeError, ValueError: RangeError } as unknown as Record<string, ErrorClass>;
  return classes[name] as ErrorClass;
}

class Runner {
  readonly #memories = new Map<string, Memory>();
  readonly #place = newPlace();

  constructor(
    readonly scenario: Pick<Scenario, 'steps' | 'with'>,
    readonly location: Location,
  ) {}

  async run(): Promise<void> {
    for (const step of this.scenario.steps) {
      if (step.fails === undefined) {
        let found = await this.#take(step);
        while (step.soon && isDeepStrictEqual(found, [])) found = await this.#take(step);
        if ('gives' in step) expect(this.value(step.gives), found);
        continue;
      }
      const [name, text = '', { cause, ...fields } = {}] = step.fails;
      await assert.rejects(this.#take(step), (error: Error) => {
        assert(error instanceof classOf(name), String(error));
        const message = error instanceof ToolError ? error.content : error.message;
        assert(String(message).includes(String(this.value(text))), String(message));
        expect(fields, error);
        if (cause !== undefined) expect(cause, String(error.cause));
        return true;
      });
    }
  }

  async #take(step: Step): Promise<unknown> {
    if (step.do) return this.#call(step.do[0].split('.'), step.do.slice(1));
    if (step.open !== undefined) return this.#open(step.open, step.with, step.at);
    const file = this.value(step.file) as string;
    if (step.text !== undefined) writeFileSync(file, step.text, { mode: 0o600 });
    return existsSync(file) ? readFileSync(file, 'utf8') : null;
  }

  async #open(name: string, options: Fields = {}, location: unknown = this.location): Promise<void> {
    const given = [this.value(location) as Location, this.named(options)] as const;
    this.#memories.set(name, await Memory.open(...given));
  }

  /** The memory of a step. The first one is opened when it is needed. */
  #memory(name: string): Memory {
    const memory = this.#memories.get(name) ?? new Memory(this.location, this.named(this.scenario.with ?? {}));
    this.#memories.set(name, memory);
    return memory;
  }

  async #call(names: string[], given: unknown[]): Promise<unknown> {
    const memory = this.#memory(this.#memories.has(names[0] as string) ? (names.shift() as string) : 'memory');
    const method = camel(names.pop() as string);
    const parts: Record<string, () => object> = { history: () => memory.history(), proposals: () => memory.proposals(), tool: () => new MemoryTool(memory) };
    const target = (parts[names[0] ?? '']?.() ?? memory) as Record<string, Method>;
    const named = isObject(given.at(-1)) && !formOf(given.at(-1), VALUES) ? [this.named(given.pop() as Fields)] : [];
    const call = target[method] ?? (Memory as unknown as Record<string, Method>)[method]; // `memories` is static
    return (call as Method).call(target, ...(this.value(given) as unknown[]), ...named);
  }

  /** Named arguments or options, with their names in TypeScript. */
  named(given: Fields): Options {
    return Object.fromEntries(Object.entries(given).map(([name, value]) => [camel(name), this.value(value)]));
  }

  value(given: unknown): unknown {
    if (typeof given === 'string') return given.replaceAll('{place}', this.#place);
    if (Array.isArray(given)) return given.map((item) => this.value(item));
    if (!isObject(given) || given instanceof MapStore) return given;
    switch (formOf(given, VALUES)) {
      case 'bytes':
        return Buffer.from(given['bytes'] as string, 'base64');
      case 'repeat': {
        const [text, number] = given['repeat'] as [string, number];
        return text.repeat(number);
      }
      case 'memory':
        return this.#memory(given['memory'] as string);
      case 'ago':
        return new Date(Date.now() - 1000 * (given['ago'] as number));
    }
    return Object.fromEntries(Object.entries(given).map(([name, value]) => [name, this.value(value)]));
  }
}

function expect(expected: unknown, found: unknown): void {
  if (Array.isArray(expected)) {
    assert(Array.isArray(found));
    assert.equal(found.length, expected.length);
    return expected.forEach((item, index) => expect(item, found[index]));
  }
  if (expected instanceof Buffer) return assert.deepEqual(Buffer.from(found as Uint8Array), expected);
  if (!isObject(expected)) return assert.deepEqual(found, expected);
  const [value] = Object.values(expected);
  switch (formOf(expected, RESULTS)) {
    case 'like':
      return assert.match(String(found), new RegExp(value as string));
    case 'unlike':
      return assert.doesNotMatch(String(found), new RegExp(value as string));
    case 'text':
      return assert.equal((found as Fields)['text'], value);
    case 'near':
      return assert(Math.abs(Number(found) - Date.now()) < 1000 * (value as number));
  }
  for (const [name, item] of Object.entries(expected)) expect(item, (found as Fields)[camel(name)]);
}

for (const scenario of table.scenarios) {
  const { name, on } = scenario;
  const run = (location: Location) => new Runner(scenario, location).run();
  if (on === 'disks') testOnDisks(name, run);
  else if (on === 'stores') testOnStores(name, run);
  else if (on === 'all stores') testOnStores(name, run, {}, full);
  else if (on === 'stores without a server') testWithoutServer(name, run);
  else test(name, () => run('in-process:'));
}

for (const [given, name, text] of table.wrong_options) {
  test(`a wrong option is refused: ${text}`, () => {
    const options = new Runner({ steps: [] }, 'in-process:').named(given);
    const isExpected = (error: Error) => error instanceof classOf(name) && error.message.includes(camel(text));
    assert.throws(() => new Memory('in-process:', options), isExpected);
    assert.throws(() => new MemoryTool('in-process:', options), isExpected);
  });
}

for (const { throws, retryable, reply } of table.errors_of_a_store) {
  for (const isAsync of [false, true]) {
    test(`a store can ${isAsync ? 'reject with' : 'throw'} ${throws.join(' ')}`, async () => {
      const [name, ...words] = throws;
      const thrown = new (classOf(name))(...words);
      const store = new MapStore();
      store.apply = () => {
        if (isAsync) return Promise.reject(thrown) as unknown as void;
        throw thrown;
      };
      const call = new MemoryTool(store).call({ command: 'create', path: '/memories/a', file_text: 'tea' });
      await assert.rejects(call, (error) => error instanceof ToolError && error.content === reply);
      await assert.rejects(new Memory(store).writeText('/memories/a', 'tea'), (error) => {
        assert(error instanceof memoryTool.StoreError);
        assert.equal(error.retryable, retryable);
        if (error instanceof memoryTool.StoreFailure) assert.equal(error.cause, thrown);
        else assert.deepEqual([error.constructor, error.message], [thrown.constructor, thrown.message]);
        return true;
      });
    });
  }
}
