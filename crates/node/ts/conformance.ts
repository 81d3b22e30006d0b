// The conformance suite for your own `Store`.

import { test } from 'node:test';
import { settle } from './memory.js';
import { type FixtureCall, native } from './native.js';
import { type Awaitable, locationOfStore, type Store } from './store.js';

/** A case of the suite. */
export interface Case {
  readonly id: string;
  readonly clauses: readonly string[];
  readonly reason: string;
}

/** The result of a case. */
export interface CaseResult extends Case {
  readonly outcome: 'passed' | 'failed' | 'ignored';
  readonly failures?: readonly { readonly message: string }[];
  /** Why the case was ignored. */
  readonly lack?: string;
}

/** The results of a run. */
export interface Report {
  /** Whether no case failed, and at least one passed. */
  readonly isSuccess: boolean;
  /** The report as a table. */
  readonly text: string;
  readonly results: readonly CaseResult[];
}

/** The options of a run. */
export interface SuiteOptions<S extends Store = Store> {
  /** Opens the storage of a store again, as another session does. Without it, cases with several are ignored. */
  reopen?: (store: S) => Awaitable<Store>;
  /** Run only the cases that match one of these. */
  filters?: readonly string[];
  /** The most cases at the same time. */
  jobs?: number;
  /** How often a case with concurrent calls repeats them. */
  races?: number;
  /** The seconds that a case may take. */
  caseTimeout?: number;
}

/** Runs the cases on stores that `create` returns: a new and empty one for each call. */
export async function runConformance<S extends Store>(
  create: () => Awaitable<S>,
  { reopen, filters = [], jobs, races, caseTimeout }: SuiteOptions<S> = {},
): Promise<Report> {
  const stores: S[] = [];
  const answer = async (call: FixtureCall): Promise<void> => {
    try {
      const of = call.of ?? undefined;
      const store = of === undefined ? await create() : await reopen?.(stores[of] as S);
      const number = of ?? stores.push(store as S) - 1;
      call.succeed(locationOfStore(store as Store), number);
    } catch (error) {
      call.fail(String(error));
    }
  };
  const { report } = await settle(() =>
    native.runConformance((call) => void answer(call), reopen !== undefined, [...filters], jobs, races, caseTimeout),
  );
  const { isSuccess, text, json } = report as { isSuccess: boolean; text: string; json: string };
  return { isSuccess, text, results: (JSON.parse(json) as Report).results };
}

/** The cases for stores. */
export function cases(): Case[] {
  return JSON.parse(native.cases()) as Case[];
}

/** Registers a test of `node:test` for each case. */
export function testConformance<S extends Store>(create: () => Awaitable<S>, options: SuiteOptions<S> = {}): void {
  for (const { id } of cases()) {
    test(id, async (context) => {
      const { isSuccess, text, results } = await runConformance(create, { ...options, filters: [id] });
      const lack = results.find(({ outcome }) => outcome === 'ignored')?.lack;
      if (lack !== undefined) context.skip(lack);
      else if (!isSuccess) throw new Error(text);
    });
  }
}
