/**
 * Claude's memory tool on the storage you already run.
 *
 * `MemoryTool` is for `betaMemoryTool` of the SDK. `Memory` is the same memory for your program. `Store` is the interface
 * of your own storage.
 */

export {
  AlreadyExists,
  type FailureKind,
  HistoryError,
  ProposalError,
  InvalidBatch,
  InvalidPath,
  MemoryToolError,
  NotADirectory,
  NotAFile,
  NotARegularFile,
  NotFound,
  NotText,
  OpenError,
  OverQuota,
  Refused,
  SearchError,
  StoreError,
  StoreFailure,
  SymbolicLink,
  TransferError,
  VersionMismatch,
} from './errors.js';
export {
  type ChangeOptions,
  type Digest,
  type FileChange,
  History,
  type HistoryEntry,
  type Kept,
  type LogFilter,
  type RedactTextOptions,
  type TextRedaction,
} from './history.js';
export {
  type DecisionOptions,
  type Proposal,
  Proposals,
  type ProposalSummary,
  type ProposedChange,
  type TakeOptions,
} from './proposals.js';
export {
  type CallOptions,
  type CopyOptions,
  type ExportOptions,
  Memory,
  type LintOptions,
  type SyncOptions,
  type TransferOptions,
  type WriteBytesOptions,
  type WriteOptions,
  type WriteTextOptions,
} from './memory.js';
export type { Location, Mounts, Options } from './options.js';
export type {
  CopyReport,
  ExportReport,
  FileProblem,
  ImportReport,
  LintFinding,
  LintReport,
  SyncConflict,
  SyncedSide,
  SyncReport,
  VerifyReport,
  WriteReport,
} from './reports.js';
export type { FoundLine, FoundPath, SearchOptions, SearchReport } from './search.js';
export {
  type Awaitable,
  type Batch,
  type Change,
  type Entry,
  type File,
  isUnder,
  type Precondition,
  type Quota,
  type ReadOptions,
  replacePrefix,
  type State,
  type Store,
  type Usage,
} from './store.js';
export {
  type Command,
  type Content,
  type ContentBlock,
  MemoryTool,
  type ToolOptions,
  type ToolOutcome,
  type Wording,
} from './tool.js';
export { ToolError } from './tool_error.js';
export { type MemoryChange, Watch } from './watch.js';
