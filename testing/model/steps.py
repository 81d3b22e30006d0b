"""The steps of a run, as data: `make` draws one, and `World.perform` makes it on the storage and in the model."""

import contextlib
import os
import subprocess
import threading
import time
from pathlib import Path

from fronts import Lines, Mcp, Place, Server
from memory import Model, Refused

MEMORIES = ["ann", "bob"]
PATHS = ["/a.md", "/b.md", "/d/a.md", "/d/b.md", "/d/e/c.md", "/d", "/e", "/d/e", "/e/a.md"]
FRONTS = ["run0", "run1", "mcp", "tool0", "tool1", "http_mcp0", "http_mcp1", "python", "node"]
SERVERS = [0, 1]

# The fronts that create no memory.
AGENTS = ["tool1"]

# The kinds of steps with their weights.
KINDS = {
    "create": 14,
    "replace": 10,
    "insert": 4,
    "delete": 5,
    "rename": 7,
    "swap": 2,
    "append": 2,
    "remove": 2,
    "move": 3,
    "api_create": 5,
    "api_update": 6,
    "api_rename": 2,
    "api_delete": 3,
    "page_new": 2,
    "page_edit": 4,
    "page_stale": 2,
    "page_delete": 1,
    "page_keep": 3,
    "page_revert": 3,
    "undo": 3,
    "undo_twice": 2,
    "undo_entry": 3,
    "restore": 2,
    "redact": 2,
    "redact_all": 1,
    "forget": 2,
    "api_forget": 1,
    "page_forget": 1,
    "make_again": 2,
    "many": 1,
    "save": 2,
    "restore_saved": 3,
    "hold": 2,
    "release": 3,
    "fill": 1,
    "empty": 2,
    "disconnect": 1,
    "clock": 1,
    "kill": 2,
    "kill_during": 4,
    "verify": 1,
    "rekey": 5,
    "crowd": 2,
}

# The commands of changes that are no renames and take nothing back.
EDITING = {"create", "str_replace", "insert", "delete", "edit", "append", "rm"}
EDITING |= {"api_create", "api_update", "api_delete", None}

# The commands that bring past texts back. The program has no limits, the page has those of the server.
PAST = {"undo", "revert", "restore"}

# The kinds that a full disk may refuse.
TOOL = {"create", "replace", "insert", "delete", "rename", "swap", "fill", "empty"}

# The kinds that change a file.
EDITS = {"replace", "insert", "rename", "append", "move", "page_edit", "page_stale", "page_delete", "hold", "kill_during"}


def make(random, number):
    """Draws a step. What it depends on is looked up when it is performed, so that a shorter sequence makes sense too."""
    return {
        "kind": random.choices(list(KINDS), KINDS.values())[0],
        "memory": random.choice(MEMORIES),
        "front": random.choice(FRONTS),
        "server": random.choice(SERVERS),
        "path": random.choice(PATHS),
        "to": random.choice(PATHS),
        "pick": random.randrange(1_000),
        # Lines are unique in a run, and many texts are equally long.
        "line": f"line {number:05} {random.randrange(10**6):06}\n",
    }


class Mismatch(Exception):
    """The storage is not what the model says."""


class World:
    """A storage, the processes that reach it, and the model."""

    def __init__(self, programs, store):
        self.place = Place(programs, store)
        self.model = Model(MEMORIES)
        self.saved = None
        self.is_full = False
        # How many changes were made and refused.
        self.made, self.refused = 0, 0
        # The births of files that the disk does not replace.
        self.held = set()
        # What clients keep: ids of the API with the births of their memory and file, forms of the page, and the digests
        # of versions.
        self.ids, self.forms, self.versions = [], [], {}
        all_rights = [word for right in ("tool", "read", "write", "admin") for word in ("--right", right)]
        token = self.place.token("--all-memories", "--create", *all_rights)
        tokens = {name: self.place.token("--memory", name, "--create", "--right", "tool") for name in MEMORIES}
        agent = self.place.token("--all-memories", "--right", "tool")
        self.servers = [Server(self.place, token, tokens, agent) for _ in SERVERS]
        self.sessions, self.last_fronts = {}, {}
        # The seconds that the last change and the last `rekey` took.
        self.took, self.rekeying = 0.03, 0.1
        for name in MEMORIES:
            # A session does not survive that a backup without the directory of its memory is restored.
            self.place.command("run", "--store", self.place.of(name))
            self.sessions |= {(name, front): session for front, session in sessions(self.place, name).items()}
        self.fronts = [front for front in FRONTS if front[-1].isdigit() or (MEMORIES[0], front) in self.sessions]

    def close(self):
        for process in self.processes():
            process.kill()
        self.place.release()
        self.place.close()

    def processes(self):
        return [*self.sessions.values(), *self.servers]

    def perform(self, step):
        if self.is_full and step["kind"] not in TOOL:
            self.empty(step, None)
        memory = self.model.memories[step["memory"]]
        # Most steps that need a file get one.
        if step["kind"] in EDITS and memory.files and step["pick"] % 4:
            step = {**step, "path": sorted(memory.files)[step["pick"] % len(memory.files)]}
        getattr(self, step["kind"])(step, memory)

    # A command of the tool, through any front.

    def front(self, step):
        """The front of a step, or another one if its package is not installed. Some steps have that of the change before,
        which knows the memory as it was then.
        """
        front = step["front"] if step["front"] in self.fronts else "run0"
        return self.last_fronts.get(step["memory"], front) if step["pick"] % 3 == 0 else front

    def call(self, front, name, command):
        if front.startswith("tool"):
            server = self.servers[int(front[-1])]
            return server.tool(name, command, server.agent if front in AGENTS else None)
        if front.startswith("http_mcp"):
            return self.servers[int(front[-1])].mcp(name, command)
        return self.sessions[name, front].call(command)

    def actor(self, front):
        return front if (MEMORIES[0], front) in self.sessions else "web"

    def tool(self, step, memory, command, change):
        front = self.last_fronts[step["memory"]] = self.front(step)
        if front in AGENTS and not memory.exists:
            change = refuse
        with self.changing(step["memory"], self.actor(front), command["command"], change) as change:
            began = time.monotonic()
            change.is_made, change.reply = self.call(front, step["memory"], command)
            self.took = time.monotonic() - began

    @contextlib.contextmanager
    def changing(self, name, actor, command, change, starts_history=True):
        """Makes a change in the model and, in its body, in the storage. Both succeed, or both refuse."""
        memory = self.model.memories[name]
        before, outcome = self.model.copy(), Outcome()
        texts = memory.texts()
        try:
            change(memory)
            if command not in PAST or actor == "web":
                memory.refuse_beyond(self.place.limits, before.memories[name])
            memory.record(actor, command, texts, starts_history)
        except Refused:
            outcome.is_allowed = False
        changed = [path for path in texts if texts[path] != memory.texts().get(path)]
        held = {before.memories[name].files[path].birth for path in changed} & self.held
        outcome.may_fail = bool(held) or self.is_full
        yield outcome
        self.made, self.refused = self.made + outcome.is_made, self.refused + (not outcome.is_made)
        if not outcome.is_made and outcome.is_allowed and outcome.may_fail:
            self.model = before
        elif outcome.is_made != outcome.is_allowed:
            raise Mismatch(f"{command}: made {outcome.is_made}, expected {outcome.is_allowed}: {outcome.reply}")
        elif not outcome.is_made:
            self.model = before

    def create(self, step, memory):
        command = {"command": "create", "path": "/memories" + step["path"], "file_text": step["line"]}
        self.tool(step, memory, command, lambda memory: memory.create(step["path"], step["line"]))

    def replace(self, step, memory):
        old = first_line(memory, step["path"])
        command = {"command": "str_replace", "path": "/memories" + step["path"], "old_str": old, "new_str": step["line"]}
        self.tool(step, memory, command, lambda memory: memory.replace(step["path"], old, step["line"]))

    def insert(self, step, memory):
        command = {"command": "insert", "path": "/memories" + step["path"], "insert_line": 0, "insert_text": step["line"]}
        self.tool(step, memory, command, lambda memory: memory.insert(step["path"], step["line"]))

    def delete(self, step, memory):
        command = {"command": "delete", "path": "/memories" + step["path"]}
        self.tool(step, memory, command, lambda memory: memory.delete(step["path"]))

    def rename(self, step, memory):
        self.rename_to(step, memory, step["path"], step["to"])

    def rename_to(self, step, memory, old, new):
        command = {"command": "rename", "old_path": "/memories" + old, "new_path": "/memories" + new}
        self.tool(step, memory, command, lambda memory: memory.rename(old, new))

    def swap(self, step, memory):
        for old, new in (("/a.md", "/t.md"), ("/b.md", "/a.md"), ("/t.md", "/b.md")):
            self.rename_to(step, self.model.memories[step["memory"]], old, new)

    def crowd(self, step, memory):
        """A session meets a limit after another one made files."""
        fronts = ["run0", "tool0", "tool0", "tool0", "tool0", "run0"]
        for number, (front, path) in enumerate(zip(fronts, ["/a.md", "/b.md", "/e", "/f", "/g", "/h"])):
            again = {**step, "pick": 1, "front": front, "path": path, "line": step["line"].replace("line", f"c{number}")}
            self.create(again, self.model.memories[step["memory"]])

    # Commands for people.

    def command(self, step, words, command, change, starts_history=False, actor=None):
        with self.changing(step["memory"], actor, command, change, starts_history) as change:
            made = self.place.command(*words, "--store", self.place.of(step["memory"]))
            change.is_made, change.reply = made.returncode == 0, made.stderr.decode()

    def append(self, step, memory):
        words = ["append", "/memories" + step["path"], step["line"].strip()]
        if memory.exists:
            self.command(step, words, "append", lambda memory: memory.append(step["path"], step["line"]))

    def remove(self, step, memory):
        words = ["rm", "-r", "-f", "/memories" + step["path"]]
        if step["path"] in memory.files or memory.is_directory(step["path"]):
            self.command(step, words, "rm", lambda memory: memory.delete(step["path"]))

    def move(self, step, memory):
        old, new = step["path"], step["to"]
        if memory.exists and not memory.is_directory(new):
            words = ["mv", "/memories" + old, "/memories" + new]
            self.command(step, words, "mv", lambda memory: memory.rename(old, new))

    def undo(self, step, memory):
        # Texts that were redacted cannot come back.
        newest = memory.last_to_undo()
        if memory.base is not None and (newest > memory.redacted or not memory.redacted):
            self.command(step, ["undo", "--actor", "ops"], "undo", lambda memory: memory.undo(), actor="ops")

    def undo_twice(self, step, memory):
        newest = memory.last_to_undo()
        self.undo(step, memory)
        if newest > 1:  # this restores the present state, which is refused
            self.restore({**step, "pick": newest - 2}, self.model.memories[step["memory"]])
        self.undo(step, self.model.memories[step["memory"]])

    def undo_entry(self, step, memory):
        """Takes any change back, which can be older than others."""
        number = memory.log and step["pick"] % len(memory.log) + 1
        if number and not memory.redacted and (memory.log[number - 1].moved or memory.log[number - 1].command in EDITING):
            words = ["undo", "--entry", str(number), "--actor", "ops"]
            self.command(step, words, "revert", lambda memory: memory.revert(number), actor="ops")

    def restore(self, step, memory):
        if not memory.log:
            return
        number = max(step["pick"] % len(memory.log) + 1, memory.redacted)
        words = ["restore", "/memories", "--to", str(number), "--actor", "ops"]
        self.command(step, words, "restore", lambda memory: memory.restore(number), actor="ops")

    def redact_all(self, step, memory):
        if memory.base is not None and not self.held:
            made = self.place.command("redact", "--all", "--store", self.place.of(step["memory"]))
            require(made.returncode == 0, made.stderr.decode())
            self.model.clear_history(step["memory"])

    def redact(self, step, memory):
        if not memory.log:
            return
        number = step["pick"] % len(memory.log) + 1
        if step["pick"] % 2:  # one that a session may still know
            number = max(len(memory.log) - step["pick"] % 3, 1)
        made = self.place.command("redact", str(number), "--actor", "ops", "--store", self.place.of(step["memory"]))
        if made.returncode == 0:
            if memory.base:
                # A file of the time before the history gets another id, because the former one is made from its path.
                births = {birth for entry in memory.log[max(number - 2, 0) : number] for birth in entry.births.values()}
                self.ids = [known for known in self.ids if known[2] not in births]
            self.model.redact(step["memory"], number)
            if step["pick"] % 4 < 2:  # an undo passes over the redaction
                self.undo(step, self.model.memories[step["memory"]])

    def verify(self, step, memory):
        made = self.place.command("verify", "--store", self.place.of(step["memory"]))
        require(made.returncode == 0 or not memory.exists, made.stdout.decode() + made.stderr.decode())

    def rekey(self, step, memory):
        """Gives a memory the other key, by a process that is killed and by another one, while a session changes it."""
        if not self.place.keys or self.held:
            return
        self.many(step, memory, 1)
        memory = self.model.memories[step["memory"]]
        if not memory.exists:
            return
        first = 0 if memory.key else 1
        words = ["rekey", "--store", self.place.of(step["memory"]), *self.place.encryption(first)]
        for part in range(5):
            moment = (step["pick"] / 1_000 + part) / 5 * self.rekeying
            with subprocess.Popen([self.place.program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                time.sleep(moment)
                process.kill()
        began = time.monotonic()
        made = self.place.command(*words)
        self.rekeying = time.monotonic() - began
        require(made.returncode == 0, made.stdout.decode() + made.stderr.decode())
        memory.key = first
        self.many({**step, "line": step["line"].replace("line", "after")}, memory, 1)
        from checks import needs_only

        needs_only(self.place, step["memory"], first)

    # A memory ends, and another one begins under its name.

    def forget(self, step, memory):
        if memory.exists and not self.held:
            name = step["memory"]
            made = self.place.command("forget", name, "--yes", "--store", self.place.root)
            require(made.returncode == 0, made.stderr.decode())
            self.model.forget(name)
            from checks import erased_on_disk

            erased_on_disk(self)  # before another process removes what was left

    def api_forget(self, step, memory):
        status, body = self.servers[step["server"]].api("DELETE", f"/{step['memory']}")
        if not self.held:
            require((status == 200) == memory.exists, body)
        if status == 200:
            self.model.forget(step["memory"])

    def page_forget(self, step, memory):
        server, path = self.servers[step["server"]], f"/memory/{step['memory']}/forget"
        form = server.form(path, path)
        require((form is not None) == memory.exists, f"the form to delete: {form}")
        if form is not None and not self.held:
            status, text = server.page("POST", path, {**form, "name": step["memory"]})
            require(status == 303, f"{status} {text}")
            self.model.forget(step["memory"])

    def make_again(self, step, memory):
        """Deletes the memory, and makes as many changes as it had. Somebody sends a form of the deleted one then."""
        if step["pick"] % 3 == 0:
            self.many({**step, "line": step["line"].replace("line", "former")}, memory)
            memory = self.model.memories[step["memory"]]
        self.servers[step["server"]].list(f"/{step['memory']}/memory_versions?view=full")
        changes, forms = len(memory.log), len(self.forms)
        self.page_keep(step | {"pick": 1}, memory)
        self.forget(step, memory)
        self.many(step, memory, min(changes, 80))
        if len(self.forms) > forms:
            self.page_revert(step | {"pick": forms}, memory)

    def many(self, step, memory, changes=66):
        """Changes one file so often that the history gets a block of entries."""
        for number in range(changes):
            memory = self.model.memories[step["memory"]]
            again = {**step, "line": step["line"].replace("line", f"line{number}"), "path": "/a.md"}
            if "/a.md" in memory.files:
                self.replace(again, memory)
            else:
                self.create(again, memory)

    # The Memory Stores API, by ids.

    def learn(self, server, name):
        """Keeps the ids of all files."""
        memory = self.model.memories[name]
        for item in self.servers[server].list(f"/{name}/memories") or []:
            if item["type"] == "memory" and item["path"] in memory.files:
                self.keep(memory, item["id"], memory.files[item["path"]])

    def keep(self, memory, item, file):
        known = (memory.birth, item, file.birth)
        if known not in self.ids:
            self.ids.append(known)

    def of_id(self, step, memory):
        """An id that a client keeps, and the path of its file, if it still exists."""
        self.learn(step["server"], step["memory"])
        if not self.ids:
            return None, None
        of, item, birth = self.ids[step["pick"] % len(self.ids)]
        paths = [path for path, file in memory.files.items() if file.birth == birth and memory.birth == of]
        if not paths and memory.base is None:
            return None, None  # the id can be one of a path
        return item, paths[0] if paths else None

    def api(self, step, method, path, body, command, change):
        with self.changing(step["memory"], "web", command, change) as change:
            status, change.reply = self.servers[step["server"]].api(method, f"/{step['memory']}/memories{path}", body)
            change.is_made = status == 200
        return change

    def api_create(self, step, memory):
        def create(memory):
            if not memory.exists:
                raise Refused
            memory.create(step["path"], step["line"])

        body = {"path": step["path"], "content": step["line"]}
        made = self.api(step, "POST", "", body, "api_create", create)
        if made.is_made:
            memory = self.model.memories[step["memory"]]
            self.keep(memory, made.reply["id"], memory.files[step["path"]])

    def api_update(self, step, memory):
        item, path = self.of_id(step, memory)
        if item:
            update = lambda memory: memory.write(path, step["line"])  # noqa: E731
            self.api(step, "POST", f"/{item}", {"content": step["line"]}, "api_update", update)

    def api_rename(self, step, memory):
        item, path = self.of_id(step, memory)
        if item and path != step["to"]:
            rename = lambda memory: memory.rename(path or "/none", step["to"])  # noqa: E731
            self.api(step, "POST", f"/{item}", {"path": step["to"]}, "api_update", rename)

    def api_delete(self, step, memory):
        item, path = self.of_id(step, memory)
        if item:
            self.api(step, "DELETE", f"/{item}", None, "api_delete", lambda memory: memory.delete(path or "/none"))

    # The page.

    def page(self, step, action, form, command, change):
        with self.changing(step["memory"], "web", command, change) as change:
            path = f"/memory/{step['memory']}/{action}"
            status, change.reply = self.servers[step["server"]].page("POST", path, form)
            change.is_made = status == 303

    def form(self, step, action, query=""):
        path = f"/memory/{step['memory']}/{action}"
        return self.servers[step["server"]].form(path + query, path)

    def page_new(self, step, memory):
        form = self.form(step, "new")
        require((form is not None) == memory.exists, f"the form for a new file: {form}")
        if form is not None:
            directory, _, file = step["path"][1:].rpartition("/")
            form |= {"name": file, "directory": directory, "text": step["line"]}
            self.page(step, "new", form, "create", lambda memory: memory.create(step["path"], step["line"]))

    def page_edit(self, step, memory, meanwhile=lambda: None):
        form = self.form(step, "edit", f"?path=/memories{step['path']}")
        require((form is not None) == (step["path"] in memory.files), f"the form to edit {step['path']}: {form}")
        if form is not None:
            text = step["line"] + memory.files[step["path"]].text.partition("\n")[2]
            is_changed = meanwhile()

            def write(memory):
                if is_changed:
                    raise Refused
                memory.write(step["path"], text)

            self.page(step, "edit", {**form, "text": text}, "edit", write)

    def page_stale(self, step, memory):
        """Somebody changes the file, or deletes it and makes it again, between the form and its sending."""

        def meanwhile():
            before = memory.files[step["path"]].text
            between = {**step, "line": step["line"].replace("line", "other")}
            if step["pick"] % 2:
                self.delete(between, memory)
                self.create(between, self.model.memories[step["memory"]])
            else:
                self.replace(between, memory)
            now = self.model.memories[step["memory"]].files.get(step["path"])
            return now is None or now.text != before

        self.page_edit(step, memory, meanwhile)

    def page_delete(self, step, memory):
        form = self.form(step, "delete", f"?path=/memories{step['path']}")
        if form is not None:
            self.page(step, "delete", form, "delete", lambda memory: memory.delete(step["path"]))

    def page_keep(self, step, memory):
        """Opens a change, mostly the newest one, and keeps its form in a tab."""
        number = len(memory.log)
        if number and step["pick"] % 3 == 0:
            number = step["pick"] % number + 1
        path = f"/memory/{step['memory']}"
        form = number and self.servers[step["server"]].form(f"{path}/change/{number}", f"{path}/undo")
        if form:
            self.forms.append((step["server"], step["memory"], memory.birth, memory.log[number - 1].birth, number, form))

    def page_revert(self, step, memory):
        """Sends a kept form, which takes its change back if it still stands in the history of its memory."""
        if not self.forms:
            return
        server, name, birth, entry, number, form = self.forms[step["pick"] % len(self.forms)]
        step = {**step, "server": server, "memory": name}

        def revert(memory):
            kept = memory.birth == birth and number <= len(memory.log) and memory.log[number - 1].birth == entry
            if not kept or memory.redacted:
                raise Refused
            memory.revert(number)

        if not self.model.memories[name].redacted:
            self.page(step, "undo", form, "revert", revert)

    # Backups, disks and crashes.

    def save(self, step, memory):
        if self.place.can_restore and not self.held:
            self.place.save()
            self.saved = self.model.copy()

    def restore_saved(self, step, memory):
        """Restores the backup, or makes the first one. The sessions that changed the memories since may go on."""
        if self.saved is None:
            self.save(step, memory)
        elif not self.held:
            self.place.restore(replaces=step["pick"] % 2 == 0)
            for process in self.processes() if self.place.keys else []:
                process.kill()  # it would refuse the older index
            erased = self.model.erased
            for name in MEMORIES:
                erased = erased | self.model.pieces(name)
            self.model = self.saved.copy()
            kept = set().union(*(self.model.pieces(name) for name in MEMORIES))
            self.model.erased = erased - kept
            if step["pick"] % 4 < 2:
                for name in self.last_fronts:
                    line = step["line"].replace("line", name)
                    self.many({**step, "memory": name, "pick": 0, "line": line}, memory, 1)

    def hold(self, step, memory):
        path = step["path"]
        if path in memory.files and self.place.hold(step["memory"], path):
            self.held.add(memory.files[path].birth)
            self.restore_several(step, memory, path)

    def restore_several(self, step, memory, path):
        """Restores this and other files, which can fail in the middle."""
        now, numbers = memory.texts(), []
        for number in range(max(memory.redacted, 1), len(memory.log) + 1):
            then = memory.texts(number)
            changed = {other for other in now.keys() | then.keys() if now.get(other) != then.get(other)}
            if path in changed and len(changed) > 1:
                numbers.append(number)
        if numbers:
            self.restore({**step, "pick": numbers[step["pick"] % len(numbers)] - 1}, memory)

    def release(self, step, memory):
        self.place.release()
        self.held = set()

    def fill(self, step, memory):
        if self.place.has_disk:
            self.place.fill()
            self.is_full = True

    def empty(self, step, memory):
        self.place.empty()
        self.is_full = False

    def disconnect(self, step, memory):
        self.place.disconnect()

    def clock(self, step, memory):
        """Another clock for a session, from its next start on."""
        processes = list(self.sessions.values())
        process = processes[step["pick"] % len(processes)]
        process.kill()
        process.hours = step["pick"] % 200 - 100

    def kill(self, step, memory):
        processes = self.processes()
        processes[step["pick"] % len(processes)].kill()

    def kill_during(self, step, memory):
        """Kills the process of a front at three times of a change."""
        for number in range(3):
            again = {**step, "line": step["line"].replace("line", f"line{number}")}
            moment = (step["pick"] / 1_000 + number) / 3
            self.kill_at(again, self.model.memories[step["memory"]], moment)

    def kill_at(self, step, memory, moment):
        """Kills the process of a front while it makes a change, which then was made, or not."""
        front, name, path = self.front(step), step["memory"], step["path"]
        process = self.sessions.get((name, front)) or self.servers[int(front[-1])]
        process.running()
        existing = path in memory.files
        old = first_line(memory, path)
        command = {"command": "create", "path": "/memories" + path, "file_text": step["line"]}
        if existing:
            command = {"command": "str_replace", "path": "/memories" + path, "old_str": old, "new_str": step["line"]}
        before = self.model.copy()
        texts = memory.texts()
        try:
            if front in AGENTS and not memory.exists:
                raise Refused
            memory.replace(path, old, step["line"]) if existing else memory.create(path, step["line"])
            memory.refuse_beyond(self.place.limits, before.memories[name])
            memory.record(self.actor(front), command["command"], texts)
        except Refused:
            self.model = before
        sending = threading.Thread(target=ignoring, args=(lambda: self.call(front, name, command),))
        sending.start()
        time.sleep(moment * self.took)
        process.process.kill()
        sending.join()
        process.kill()
        if self.stored(name) != self.model.memories[name].texts():
            self.model = before

    def stored(self, name):
        """The files of a memory, as a new process sees them."""
        from checks import exported

        return exported(self.place, name)


def sessions(place, name):
    """The sessions of a memory by their fronts. Each names itself as the actor."""
    added = [*place.limiting(), *place.encryption()]
    options = lambda actor: ["--store", place.of(name), "--history", "--actor", actor, *added]  # noqa: E731
    found = {front: Lines(place.program, "run", *options(front)) for front in ("run0", "run1")}
    found["mcp"] = Mcp(place.program, "mcp", *options("mcp"))
    here = Path(__file__).parent
    if place.programs.python:
        found["python"] = Lines(place.programs.python, here / "package.py", place.of(name), "python", place.of_package())
    if place.programs.node:
        module = os.path.abspath(place.programs.node)
        found["node"] = Lines("node", here / "package.mjs", module, place.of(name), "node", place.of_package())
    return found


class Outcome:
    is_made, is_allowed, reply, may_fail = False, True, None, False


def refuse(memory):
    raise Refused


def ignoring(act):
    with contextlib.suppress(Exception):
        act()


def require(condition, message):
    if not condition:
        raise Mismatch(message)


def first_line(memory, path):
    file = memory.files.get(path)
    return file.text.partition("\n")[0] + "\n" if file else "nothing"
