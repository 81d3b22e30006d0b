"""The model: a memory is a dictionary of files, and each change has an author.

A memory and a file are born: what another birth of the same name had is not theirs.
"""

import copy
import itertools

births = itertools.count(1)


class Refused(Exception):
    """A command that changes nothing."""


class File:
    """A file keeps its birth when it is edited or renamed."""

    def __init__(self, text):
        self.text, self.birth = text, next(births)


class Entry:
    """A change of a memory: who made it, by which command, what it only moved, and all texts and births after it."""

    def __init__(self, actor, command, files, moved):
        self.actor, self.command, self.moved = actor, command, moved
        self.texts = {path: file.text for path, file in files.items()}
        self.births = {path: file.birth for path, file in files.items()}
        self.is_undone, self.is_redacted = False, False
        self.birth = next(births)


class Memory:
    def __init__(self):
        self.birth = next(births)
        self.files = {}
        # The texts before the first entry, if the memory has a history.
        self.base = None
        self.log = []
        # The newest redacted entry: the past before it cannot be read.
        self.redacted = 0
        # The number of the only key that it needs, if that is known.
        self.key = None
        # The old and the new path of a rename that is not in the log yet.
        self.moved = None

    @property
    def exists(self):
        return bool(self.files or self.log)

    def texts(self, number=None):
        """The text of each path, at present or after an entry."""
        if number is None:
            return {path: file.text for path, file in self.files.items()}
        return self.log[number - 1].texts if number else self.base

    def replaced(self, number):
        """The lines of the texts that an entry replaced, removed or moved."""
        before, after = self.texts(number - 1), self.texts(number)
        texts = [text for path, text in before.items() if after.get(path) != text]
        return {line for text in texts for line in text.split("\n") if line}

    def is_directory(self, path):
        return any(other.startswith(path + "/") for other in self.files)

    def require_free(self, path):
        parts = path.split("/")
        parents = ["/".join(parts[:end]) for end in range(2, len(parts))]
        if path in self.files or self.is_directory(path) or any(parent in self.files for parent in parents):
            raise Refused

    def file(self, path):
        if path not in self.files:
            raise Refused
        return self.files[path]

    def record(self, actor, command, before, starts_history=True):
        if self.base is None and starts_history:
            self.base = before
        if self.base is not None:
            self.log.append(Entry(actor, command, self.files, self.moved))
        self.moved = None

    def amounts(self):
        """The size and depth of each file by its birth, and the number and size of all."""
        files = {file.birth: (len(file.text), path.count("/")) for path, file in self.files.items()}
        return files | {None: (len(files), sum(size for size, _ in files.values()))}

    def refuse_beyond(self, limits, before):
        """Refuses a change that takes an amount beyond its limit, or farther than it was before."""
        if limits:
            former, of_file, of_all = before.amounts(), ("max_file_bytes", "max_depth"), ("max_files", "max_bytes")
            for birth, amounts in self.amounts().items():
                kinds = of_all if birth is None else of_file
                for kind, amount, was in zip(kinds, amounts, former.get(birth, (0, 0))):
                    if amount > max(limits[kind], was):
                        raise Refused

    # The changes, as the contract has them.

    def create(self, path, text):
        self.require_free(path)
        self.files[path] = File(text)

    def write(self, path, text):
        self.file(path).text = text

    def replace(self, path, old, new):
        file = self.file(path)
        if file.text.count(old) != 1:
            raise Refused
        file.text = file.text.replace(old, new)

    def insert(self, path, text):
        file = self.file(path)
        file.text = text + file.text

    def append(self, path, text):
        if path in self.files:
            self.files[path].text += text
        else:
            self.create(path, text)

    def delete(self, path):
        gone = [other for other in self.files if other == path or other.startswith(path + "/")]
        if not gone:
            raise Refused
        for other in gone:
            del self.files[other]

    def rename(self, old, new):
        moved = {other: new + other[len(old) :] for other in self.files if other == old or other.startswith(old + "/")}
        if not moved or new == old or new.startswith(old + "/"):
            raise Refused
        self.require_free(new)
        self.files = {moved.get(path, path): file for path, file in self.files.items()}
        self.moved = (old, new)

    # What people do with the past.

    def revert(self, number):
        """Takes an entry back, if what it changed is as it left it. What it moved can have other texts now."""
        if self.log[number - 1].moved:
            old, new = self.log[number - 1].moved
            return self.rename(new, old)
        before, after, now = self.texts(number - 1), self.texts(number), self.texts()
        touched = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        if not touched or any(now.get(path) != after.get(path) for path in touched):
            raise Refused
        births = self.only_moved(self.log[number - 2 : number]) if number > 1 else {}
        self.set({path: before.get(path) for path in touched}, births)

    def restore(self, number):
        """Restores all files after an entry."""
        wanted, now = self.texts(number), self.texts()
        changes = {path: wanted.get(path) for path in wanted.keys() | now.keys() if wanted.get(path) != now.get(path)}
        if not changes:
            raise Refused
        self.set(changes, self.only_moved(self.log[number - 1 :]))

    @staticmethod
    def only_moved(entries):
        """The births, by the paths after the first entry, of the files whose texts are the same after all."""
        texts = [{birth: entry.texts[path] for path, birth in entry.births.items()} for entry in entries]
        is_same = lambda birth: all(other.get(birth) == texts[0][birth] for other in texts)  # noqa: E731
        return {path: birth for path, birth in entries[0].births.items() if is_same(birth)}

    def set(self, texts, births=None):
        """Sets texts, or removes files whose text is `None`. A file that was only renamed keeps its birth, and one that
        was deleted is born again.
        """
        gone = {path for path, text in texts.items() if text is None}
        come = texts.keys() - gone - self.files.keys()
        if any(one.startswith(other + "/") for some, others in ((gone, come), (come, gone)) for one in some for other in others):
            raise Refused  # a file and a directory would swap places
        removed = {self.files[path].birth: self.files.pop(path) for path in gone}
        for path in texts.keys() - gone:
            if path not in self.files:
                self.files[path] = removed.get((births or {}).get(path)) or File(texts[path])
            self.files[path].text = texts[path]

    def last_to_undo(self):
        """The number of the newest change that no undo took back, or 0."""
        for number in range(len(self.log), 0, -1):
            if self.log[number - 1].command not in ("undo", "redaction") and not self.log[number - 1].is_undone:
                return number
        return 0

    def undo(self):
        number = self.last_to_undo()
        if not number:
            raise Refused
        self.revert(number)
        self.log[number - 1].is_undone = True


class Model:
    """All memories of a store, and the texts that nobody may see again."""

    def __init__(self, names):
        self.memories = {name: Memory() for name in names}
        self.erased = set()

    def copy(self):
        """A copy of the state, in which memories and files keep their births."""
        return copy.deepcopy(self)

    def pieces(self, name):
        """The texts of a memory, present and past, by lines. Each line is unique in a run."""
        memory = self.memories[name]
        states = [memory.base or {}, *(entry.texts for entry in memory.log), memory.texts()]
        return {line for state in states for text in state.values() for line in text.split("\n") if line}

    def present(self):
        lines = (file.text.split("\n") for memory in self.memories.values() for file in memory.files.values())
        return {line for some in lines for line in some if line}

    def redact(self, name, number):
        memory = self.memories[name]
        memory.log[number - 1].is_redacted = True
        entries = enumerate(memory.log, 1)
        kept = [memory.replaced(other) for other, entry in entries if not entry.is_redacted]
        self.erased |= memory.replaced(number) - set().union(self.present(), *kept)
        memory.record("ops", "redaction", memory.texts())
        memory.redacted = max(memory.redacted, number)

    def forget(self, name):
        self.erased |= self.pieces(name)
        self.memories[name] = Memory()

    def clear_history(self, name):
        self.erased |= self.pieces(name) - self.present()
        memory = self.memories[name]
        memory.base, memory.log, memory.redacted = None, [], 0
        for file in memory.files.values():
            file.birth = next(births)  # ids of the API come from the history
