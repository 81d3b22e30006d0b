"""A store in a dictionary, with a lock that makes each method atomic."""

from __future__ import annotations

import threading
from typing import Literal

from memory_tool import Batch, Entry, File, ReadOptions, Rename, Store, Usage, Write, is_under, replace_prefix

ROOTS = ("/memories", "/records")


class DictStore(Store):
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, bytes] = {}

    def read(self, path: str, options: ReadOptions) -> File | list[Entry] | None:
        with self._lock:
            options.check(self)
            if path in self._files:
                return File(self._files[path], version=self._files[path])  # equal contents, equal versions
            below = [file for file in self._files if is_under(file, path)]
            return [Entry(file, len(self._files[file])) for file in below] if below or path in ROOTS else None

    def apply(self, batch: Batch) -> None:
        with self._lock:
            batch.check(self)
            files = dict(self._files)  # a copy, so that an error undoes everything
            for change in batch.changes:
                if isinstance(change, Write):
                    files[change.path] = change.content
                    continue
                path = change.old_path if isinstance(change, Rename) else change.path
                for file in [file for file in files if file == path or is_under(file, path)]:
                    content = files.pop(file)
                    if isinstance(change, Rename):
                        files[replace_prefix(file, path, change.new_path)] = content
            self._files = files

    # The state, for the checks of batches. The lock is held.

    def stat(self, path: str) -> bytes | Literal["directory"] | None:
        if path in self._files:
            return self._files[path]
        is_directory = path in ROOTS or any(is_under(file, path) for file in self._files)
        return "directory" if is_directory else None

    def usage(self, path: str) -> Usage:
        files = [file for file in self._files if file == path or is_under(file, path)]
        depth = max((file.count("/") - 1 for file in files), default=0)
        return Usage(len(files), sum(len(self._files[file]) for file in files), depth)
