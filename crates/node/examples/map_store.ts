// A store in a `Map`. Its methods are synchronous, which makes each of them atomic.

import { type Batch, type Entry, type File, isUnder, type ReadOptions, replacePrefix, type State } from 'memory-tool';
import type { Store, Usage } from 'memory-tool';

const ROOTS = ['/memories', '/records'];

export class MapStore implements Store, State {
  files = new Map<string, Uint8Array>();

  read(path: string, options: ReadOptions): File | Entry[] | undefined {
    options.check(this);
    const content = this.files.get(path);
    if (content) return { content, version: content }; // equal contents, equal versions
    const below = [...this.files].filter(([file]) => isUnder(file, path));
    if (below.length === 0 && !ROOTS.includes(path)) return undefined;
    return below.map(([file, { length }]) => ({ path: file, size: length }));
  }

  apply(batch: Batch): void {
    batch.check(this);
    const files = new Map(this.files); // a copy, so that an error undoes everything
    for (const change of batch.changes) {
      if (change.kind === 'write') {
        files.set(change.path, change.content);
        continue;
      }
      for (const [file, content] of [...files]) {
        if (file !== change.path && !isUnder(file, change.path)) continue;
        files.delete(file);
        if (change.kind === 'rename') files.set(replacePrefix(file, change.path, change.newPath), content);
      }
    }
    this.files = files;
  }

  // The state, for the checks of batches.

  stat(path: string): Uint8Array | 'directory' | undefined {
    const isDirectory = ROOTS.includes(path) || [...this.files.keys()].some((file) => isUnder(file, path));
    return this.files.get(path) ?? (isDirectory ? 'directory' : undefined);
  }

  usage(path: string): Usage {
    const files = [...this.files].filter(([file]) => file === path || isUnder(file, path));
    const bytes = files.reduce((sum, [, { length }]) => sum + length, 0);
    return { files: files.length, bytes, depth: Math.max(0, ...files.map(([file]) => file.split('/').length - 2)) };
  }
}
