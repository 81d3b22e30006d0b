// `Watch`: the changes of a memory.

import type { NativeWatch } from './native.js';
import { fromJson } from './reports.js';

/** A change of a memory, without the contents. */
export interface MemoryChange {
  /** `"write"` for a file that was created or replaced. */
  readonly operation: 'write' | 'edit' | 'remove' | 'rename';
  /** The file or directory; the new path of a rename. Removing `/memories` removes all files. */
  readonly path: string;
  /** The old path of a rename. */
  readonly oldPath: string | null;
  /** The new size of a written or edited file in bytes. */
  readonly size: number | null;
  /** The name of the user or agent, if it is known. */
  readonly actor: string | null;
}

/**
 * The changes of a memory by anyone, from `Memory.watch`. Changes by other programs are found within a few seconds. A
 * change may be reported twice. For a loop that lags far behind, a `"write"` of `/memories` stands for all changes that
 * it missed.
 */
export class Watch implements AsyncIterableIterator<MemoryChange> {
  readonly #native: NativeWatch;
  #changes: MemoryChange[] = [];
  /** The last call of `next`: calls wait for each other, so that changes stay in order. */
  #last: Promise<unknown> = Promise.resolve();

  /** @internal */
  constructor(watch: NativeWatch) {
    this.#native = watch;
  }

  /** Waits for the next change. */
  next(): Promise<IteratorResult<MemoryChange, undefined>> {
    const next = this.#last.then(() => this.#next());
    this.#last = next.catch(() => undefined);
    return next;
  }

  async #next(): Promise<IteratorResult<MemoryChange, undefined>> {
    while (this.#changes.length === 0) {
      const json = await this.#native.next();
      if (json === null) return { done: true, value: undefined };
      this.#changes.push(...(fromJson(json) as MemoryChange[]));
    }
    return { done: false, value: this.#changes.shift() as MemoryChange };
  }

  /** Ends the watch, and a loop that waits for changes. `break` in a `for await` loop does so too. */
  async return(): Promise<IteratorReturnResult<undefined>> {
    this.#native.close();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }
}
