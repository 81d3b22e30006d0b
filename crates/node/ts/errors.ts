// The errors of memories and stores. They are for you: Claude reads only `ToolError`.

import { getSystemErrorName } from 'node:util';
import { native, type Raised, type RejectedPath } from './native.js';

/** An error of this package, or the cause of one. */
export class MemoryToolError extends Error {
  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }

  /** Whether the same call may succeed later, because the storage is busy. */
  get retryable(): boolean {
    return (this as { kind?: unknown }).kind === 'busy';
  }
}

/** A memory cannot be opened. `cause` is the error of the storage. */
export class OpenError extends MemoryToolError {
  /** `"not_found"` if it does not exist; other kinds are `"invalid"`, `"access_denied"`, `"busy"`, ... */
  readonly kind: string;

  constructor(message: string, kind = 'other') {
    super(message);
    this.kind = kind;
  }
}

/** An operation on a memory failed. */
export class StoreError extends MemoryToolError {}

/** A kind of failure. All but `"outcome_unknown"` promise that nothing was changed. */
export type FailureKind =
  | 'access_denied'
  | 'busy'
  | 'damaged'
  | 'full'
  | 'outcome_unknown'
  | 'unsupported_name'
  | 'other';

/** The storage failed. `cause` is its error. A store throws it to state the kind. */
export class StoreFailure extends StoreError {
  readonly kind: FailureKind;

  constructor(message: string, kind: FailureKind = 'other') {
    super(message);
    this.kind = kind;
  }
}

/** The history cannot do this. The text names the reason, such as a file that has changed since. */
export class HistoryError extends MemoryToolError {}

/** The proposal cannot be decided like this. The text names the reason, such as a file that has changed since. */
export class ProposalError extends MemoryToolError {}

/** The pattern or an option of a search is invalid. The text names the mistake. */
export class SearchError extends MemoryToolError {}

/** A copy, an export or an import stopped. `cause` is the error of the storage. */
export class TransferError extends MemoryToolError {
  /** `"already_exists"`, `"invalid"`, `"not_found"`, `"unsupported"` or the kind of the failure. */
  readonly kind: string;

  constructor(message: string, kind = 'other') {
    super(message);
    this.kind = kind;
  }
}

/** The path is invalid. */
export class InvalidPath extends StoreError {
  /** @internal The error in the native module. */
  declare readonly rejected?: RejectedPath;
}

/** The batch is invalid. */
export class InvalidBatch extends StoreError {}

/** An error that the name of its class and its arguments describe. */
class DescribedError extends StoreError {
  /** @internal */
  declare readonly parts: { class: string; arguments: string };

  constructor(name: string, ...words: (string | number)[]) {
    const parts = { class: name, arguments: JSON.stringify(words) };
    super(native.describe(parts.class, parts.arguments));
    Object.defineProperty(this, 'parts', { value: parts });
  }
}

class ErrorAtPath extends DescribedError {
  readonly path: string;

  constructor(name: string, path: string) {
    super(name, path);
    this.path = path;
  }
}

/** The path must not exist, but does. */
export class AlreadyExists extends ErrorAtPath {
  constructor(path: string) {
    super('AlreadyExists', path);
  }
}

/** The path does not exist. */
export class NotFound extends ErrorAtPath {
  constructor(path: string) {
    super('NotFound', path);
  }
}

/** The file is not at the required version, or has other contents than required. Read it again. */
export class VersionMismatch extends ErrorAtPath {
  constructor(path: string) {
    super('VersionMismatch', path);
  }
}

/** The path is a file, and a directory is required. */
export class NotADirectory extends ErrorAtPath {
  constructor(path: string) {
    super('NotADirectory', path);
  }
}

/** The path is a directory, and a file is required. */
export class NotAFile extends ErrorAtPath {
  constructor(path: string) {
    super('NotAFile', path);
  }
}

/** The file is not UTF-8 text. */
export class NotText extends ErrorAtPath {
  constructor(path: string) {
    super('NotText', path);
  }
}

/** The path is a symbolic link, which is never followed. */
export class SymbolicLink extends ErrorAtPath {
  constructor(path: string) {
    super('SymbolicLink', path);
  }
}

/** The path is a pipe, socket or device. */
export class NotARegularFile extends ErrorAtPath {
  constructor(path: string) {
    super('NotARegularFile', path);
  }
}

/** The change exceeds a limit. */
export class OverQuota extends DescribedError {
  readonly path: string;
  readonly kind: 'files' | 'bytes' | 'file_bytes' | 'depth';
  readonly limit: number;
  readonly requested: number;
  readonly remaining: number;

  constructor(path: string, kind: OverQuota['kind'], limit: number, requested: number, remaining: number) {
    super('OverQuota', path, kind, limit, requested, remaining);
    this.path = path;
    this.kind = kind;
    this.limit = limit;
    this.requested = requested;
    this.remaining = remaining;
  }
}

/** A policy refused the operation. Claude reads `reason`. */
export class Refused extends DescribedError {
  readonly path: string;
  readonly reason: string;
  /** The policy, such as `"limits"`, `"read-only"` or `"screening"`. */
  readonly policy: string;

  constructor(path: string, reason: string, policy = 'store') {
    super('Refused', path, reason, policy);
    this.path = path;
    this.reason = reason;
    this.policy = policy;
  }
}

const CLASSES: Record<string, new (...words: never[]) => Error> = {
  TypeError,
  RangeError,
  MemoryToolError,
  OpenError,
  StoreError,
  StoreFailure,
  InvalidPath,
  HistoryError,
  ProposalError,
  SearchError,
  TransferError,
  InvalidBatch,
  AlreadyExists,
  NotFound,
  VersionMismatch,
  NotADirectory,
  NotAFile,
  NotText,
  SymbolicLink,
  NotARegularFile,
  OverQuota,
  Refused,
};

/** The error that the native module raised, with its causes. */
export function toError(raised: readonly Raised[], toolError?: new (text: string) => Error): unknown {
  const [{ class: name, arguments: words, parts, errno, rejected, thrown }, ...causes] = raised as [Raised, ...Raised[]];
  if (thrown !== undefined) return thrown;
  const ErrorClass = (name === 'ToolError' ? toolError : CLASSES[name]) ?? Error;
  const error = new ErrorClass(...(JSON.parse(words) as never[]));
  if (parts !== undefined) Object.defineProperty(error, 'parts', { value: parts });
  if (error instanceof InvalidPath) Object.defineProperty(error, 'rejected', { value: rejected });
  if (errno !== undefined && process.platform !== 'win32') {
    Object.assign(error, { errno: -errno, code: getSystemErrorName(-errno) });
  }
  if (causes.length > 0) Object.defineProperty(error, 'cause', { value: toError(causes), configurable: true });
  return error;
}

/** The parts of an exception that a store threw, for the native module. */
export function partsOf(error: unknown): [name?: string | null, words?: string | null, kind?: string | null, rejected?: RejectedPath | null] {
  if (error instanceof DescribedError) return [error.parts.class, error.parts.arguments];
  if (error instanceof StoreFailure) return [null, null, error.kind];
  if (error instanceof InvalidPath) return [null, null, null, error.rejected ?? null];
  return [];
}
