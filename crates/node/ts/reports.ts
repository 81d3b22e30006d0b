// The reports of `Memory.copyTo`, `sync`, `export`, `import` and `verify`. Each list has at most 1,000 items.

/** A file that was not transferred, and the reason, for you. */
export interface FileProblem {
  readonly path: string;
  readonly reason: string;
}

/** The results of writing files to a memory. */
export interface WriteReport {
  /** Whether every file is in the destination. */
  readonly isComplete: boolean;
  /** Whether the changes were only simulated. */
  readonly dryRun: boolean;
  /** The number of new files. */
  readonly copied: number;
  /** The number of replaced files. */
  readonly overwritten: number;
  /** The total size of the new and replaced files. */
  readonly bytes: number;
  /** The number of files that already had the same contents. */
  readonly unchanged: number;
  /** The files that screening redacted. */
  readonly redacted: readonly string[];
  readonly moreRedacted: number;
  /** The files that were not written because the path has other contents. */
  readonly conflicts: readonly FileProblem[];
  readonly moreConflicts: number;
  /** The files that the destination refused. */
  readonly refused: readonly FileProblem[];
  readonly moreRefused: number;
  /** The files whose contents differed or could not be read after the write. */
  readonly unverified: readonly FileProblem[];
  readonly moreUnverified: number;
  /** The number of files that only the destination has. */
  readonly onlyInDestination: number;
}

/** The result of `Memory.copyTo`. */
export interface CopyReport extends WriteReport {
  /** The number of entries of the history that were copied. */
  readonly entries: number;
  /** The files of the source that cannot be read. */
  readonly unreadable: readonly FileProblem[];
  readonly moreUnreadable: number;
  /** The files that were removed from the source after they were copied. */
  readonly removed: readonly string[];
  readonly moreRemoved: number;
  /** Whether the source still changed during the last attempt. */
  readonly sourceStillChanging: boolean;
}

/** The changes of one of two memories. */
export interface SyncedSide {
  readonly name: string;
  /** The number of files that were written. */
  readonly written: number;
  /** Their total size. */
  readonly bytes: number;
  readonly removed: number;
  readonly renamed: number;
  /** The files that screening redacted. */
  readonly redacted: readonly string[];
  readonly moreRedacted: number;
  /** The files that were not changed, because the memory refused it or they kept changing. */
  readonly refused: readonly FileProblem[];
  readonly moreRefused: number;
  /** The files that cannot be read. */
  readonly unreadable: readonly FileProblem[];
  readonly moreUnreadable: number;
  /** Whether directories cannot be read, so that deleted files of this memory were kept in the other one. */
  readonly isPartial: boolean;
}

/** A file of which both memories had different texts: the newer one in `path`, and the older one in `copy`. */
export interface SyncConflict {
  readonly path: string;
  readonly copy: string;
}

/** The result of `Memory.sync`. */
export interface SyncReport {
  /** Whether both memories have the same files, and no older texts of conflicts. */
  readonly isComplete: boolean;
  readonly status: 'in_sync' | 'in_sync_with_conflicts' | 'partly';
  /** Whether the changes were only simulated. */
  readonly dryRun: boolean;
  readonly first: SyncedSide;
  readonly second: SyncedSide;
  /** The files whose changes of both sides were merged. */
  readonly merged: readonly string[];
  readonly moreMerged: number;
  /** The files of which both texts were kept. */
  readonly conflicts: readonly SyncConflict[];
  readonly moreConflicts: number;
  /** The older texts of conflicts that are still there. */
  readonly conflictCopies: readonly string[];
  readonly moreConflictCopies: number;
}

/** The result of `Memory.import`. */
export interface ImportReport extends WriteReport {
  /** Links, special files, invalid names and files over the size limit. */
  readonly skipped: readonly FileProblem[];
  readonly moreSkipped: number;
  /** The reason why the archive could not be read completely. */
  readonly archiveError: string | null;
}

/** The result of `Memory.export`. */
export interface ExportReport {
  /** Whether every file was exported. */
  readonly isComplete: boolean;
  /** The number of exported files. */
  readonly exported: number;
  /** Their total size. */
  readonly bytes: number;
  /** The files that the target does not support. */
  readonly refused: readonly FileProblem[];
  readonly moreRefused: number;
  /** The files and directories that cannot be read. */
  readonly unreadable: readonly FileProblem[];
  readonly moreUnreadable: number;
  /** The files that were removed from the memory during the export. */
  readonly removed: readonly string[];
  readonly moreRemoved: number;
  /** The reason why the existing archive was kept and nothing was exported. */
  readonly kept: string | null;
}

/** The result of `Memory.verify`. */
export interface VerifyReport {
  /** The number of intact files. */
  readonly files: number;
  /** Their total size. */
  readonly bytes: number;
  /** The damage, one line each. It is empty if the memory is intact. */
  readonly problems: readonly string[];
}

/** A place in a memory that breaks a rule of `Memory.lint`. */
export interface LintFinding {
  /** The name of the rule, such as `broken-link`. */
  readonly rule: string;
  /** The file, or a directory. */
  readonly path: string;
  /** The 1-based number of the line, if it is about a line. */
  readonly line: number | null;
  /** The reason, which can contain a part of the text. It never contains a secret. */
  readonly message: string;
}

/** The result of `Memory.lint`. */
export interface LintReport {
  /** The number of files whose text was checked. */
  readonly files: number;
  /** The number of items whose text was not checked, because they cannot be read or are not text. */
  readonly skipped: number;
  /** The findings, sorted by path, line and rule: at most 1,000 of a rule, and 20 of them in a file. */
  readonly findings: readonly LintFinding[];
  /** The number of findings that are not in `findings`. */
  readonly more: number;
}

/** @internal A value from its JSON text, with names as in TypeScript. */
export function fromJson(json: string | undefined): unknown {
  return JSON.parse(json as string, (_, value: unknown) => {
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject ? Object.fromEntries(Object.entries(value).map(([name, item]) => [camel(name), item])) : value;
  });
}

function camel(name: string): string {
  return name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
}
