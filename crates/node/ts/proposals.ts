// `Proposals`: changes that wait for a person's consent.

import type { Answer } from './native.js';

/** A proposal in a list. */
export interface ProposalSummary {
  readonly name: string;
  /** The number of files that it changes. */
  readonly files: number;
  /** The size of their texts before and after the changes. */
  readonly bytes: number;
  /** The time of its first change. */
  readonly created: Date;
  /** The time of its last change. */
  readonly changed: Date;
  /** Whether it cannot be read, so that it can only be dropped. */
  readonly isDamaged: boolean;
}

/** The change of a file that waits. */
export interface ProposedChange {
  readonly path: string;
  /** The text that the proposal changed. `undefined` if there was no file, or if it is not text. */
  readonly before: string | undefined;
  /** The proposed text. `undefined` if the file is removed, or if it is not text. */
  readonly after: string | undefined;
  /** The text in the memory now. */
  readonly present: string | undefined;
  /** The file from which this one was renamed without a change. */
  readonly renamedFrom: string | undefined;
  /** The actors of its changes. */
  readonly authors: readonly string[];
  /** The reasons that they gave. */
  readonly reason: string | undefined;
  readonly modified: Date;
  /** The effect of taking it. `merged` means with later changes of the memory. */
  readonly outcome: 'clean' | 'merged' | 'conflict';
  /** The change in the unified format. */
  readonly diff: string;
  /** The parts that can be taken singly, counted from 0. */
  readonly parts: readonly string[];
}

/** A proposal with its changes. */
export interface Proposal {
  readonly name: string;
  /** Another one follows each change. Pass it on, so that only the changes that a person read are taken. */
  readonly revision: string;
  readonly created: Date;
  readonly changes: readonly ProposedChange[];
}

/** The options of a decision. */
export interface DecisionOptions {
  /** Throws if the proposal has another revision. */
  revision?: string;
}

/** Which changes to take. */
export interface TakeOptions extends DecisionOptions {
  /** Only these parts of the changes of other files. */
  parts?: Readonly<Record<string, readonly number[]>>;
}

/** A proposal in a list, as the native module returns it. */
interface Listed extends Pick<ProposalSummary, 'name' | 'files' | 'bytes'> {
  readonly created: number;
  readonly changed: number;
  readonly is_damaged: boolean;
}

/** A change as the native module returns it. */
interface Stored extends Pick<ProposedChange, 'path' | 'authors' | 'outcome' | 'diff' | 'parts'> {
  readonly before: string | null;
  readonly after: string | null;
  readonly present: string | null;
  readonly renamed_from: string | null;
  readonly reason: string | null;
  readonly modified: number;
}

type Perform = (name: string, given: object) => Promise<Answer>;

/** The proposals of a memory, from `memory.proposals()`. For people, and not for a session of the tool. */
export class Proposals {
  readonly #perform: Perform;

  /** @internal */
  constructor(perform: Perform) {
    this.#perform = perform;
  }

  /** Lists the proposals, sorted by name. */
  async list(): Promise<ProposalSummary[]> {
    const listed = (await this.#call('list', {})) as Listed[];
    return listed.map(({ created, changed, is_damaged: isDamaged, ...summary }) => ({
      ...summary,
      created: new Date(created),
      changed: new Date(changed),
      isDamaged,
    }));
  }

  /** Reads a proposal. Throws a `ProposalError` if there is none. */
  async get(name: string): Promise<Proposal> {
    const found = (await this.#call('get', { name })) as Proposal & { created: number; changes: Stored[] };
    return { ...found, created: new Date(found.created), changes: found.changes.map(changeOf) };
  }

  /**
   * Takes the changes at these paths into the memory, and parts of others. By default, it takes all. The proposal keeps
   * the rest. Throws a `ProposalError` if the memory changed the same lines, and takes nothing then.
   */
  async take(name: string, paths?: readonly string[], { parts, revision }: TakeOptions = {}): Promise<void> {
    await this.#perform('take', { name, paths, parts, revision });
  }

  /** Replaces the proposed text of a file. */
  async edit(name: string, path: string, text: string, { revision }: DecisionOptions = {}): Promise<void> {
    await this.#perform('edit', { name, path, text, revision });
  }

  /** Drops the changes at these paths. By default, it drops all. */
  async drop(name: string, paths?: readonly string[], { revision }: DecisionOptions = {}): Promise<void> {
    await this.#perform('drop', { name, paths, revision });
  }

  async #call(name: string, given: object): Promise<unknown> {
    return JSON.parse((await this.#perform(name, given)).json as string);
  }
}

function changeOf({ renamed_from: renamedFrom, before, after, present, reason, modified, ...rest }: Stored): ProposedChange {
  return {
    ...rest,
    before: before ?? undefined,
    after: after ?? undefined,
    present: present ?? undefined,
    renamedFrom: renamedFrom ?? undefined,
    reason: reason ?? undefined,
    modified: new Date(modified),
  };
}
