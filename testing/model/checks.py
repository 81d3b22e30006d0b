"""What must hold after each round, seen by new processes and by all that are open."""

import io
import json
import tarfile
from hashlib import sha256
from pathlib import Path

from steps import AGENTS, MEMORIES, SERVERS, require


def check(world):
    world.empty(None, None)
    for name in MEMORIES:
        memory = world.model.memories[name]
        found = exported(world.place, name)
        require(found == memory.texts(), f"{name} has {found}, expected {memory.texts()}")
        views(world, name, memory)
        log(world.place, name, memory)
        for server in world.servers:
            api(world, server, name, memory)
        if not world.held:
            world.verify({"memory": name}, memory)
        if memory.key is not None and memory.exists:
            needs_only(world.place, name, memory.key)
    listed(world)
    erased(world)


def exported(place, name):
    """The files of a memory, by a new process."""
    if place.kind == "local":
        place.command("run", "--store", place.of(name))  # completes what a killed process left
    made = place.command("export", "--store", place.of(name), "-")
    if made.returncode:
        require(b"no files" in made.stderr or b"does not exist" in made.stderr or b"no memory" in made.stderr, made.stderr.decode())
        return {}
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        files = [member for member in archive.getmembers() if member.isfile()]
        return {"/" + file.name.removeprefix("./"): archive.extractfile(file).read().decode() for file in files}


def needs_only(place, name, key):
    """A memory after `rekey`, which sessions with both keys may have changed since."""
    for one in range(2):
        made = place.command("verify", "--store", place.of(name), *place.encryption(one, both=False))
        require((made.returncode == 0) == (one == key), f"{name} has key {key}, but with {one}: {made}")


def views(world, name, memory):
    """Listings and texts, by each front."""
    for front in world.fronts:
        is_made, listing = world.call(front, name, {"command": "view", "path": "/memories"})
        if front in AGENTS and not memory.exists:
            require(not is_made, f"{front} shows a memory that does not exist: {listing}")
            continue
        require("\n" in listing, f"{front}: {listing}")
        lines = [line.partition("\t") for line in listing.split("\n")[1:]]
        sizes = {path.removeprefix("/memories").rstrip("/") or "/": size for size, _, path in lines}
        require(sizes == expected_listing(memory), f"{front} lists {sizes}, expected {expected_listing(memory)}")
        for path, text in memory.texts().items():
            is_made, shown = world.call(front, name, {"command": "view", "path": "/memories" + path})
            expected = "".join(f"\n{number:6}\t{line}" for number, line in enumerate(text.split("\n"), 1))
            require(is_made and shown.endswith("line numbers:" + expected), f"{front} shows {path}: {shown}, expected {text}")


def expected_listing(memory):
    sizes = {"/": sum(len(text) for text in memory.texts().values())}
    for path, text in memory.texts().items():
        parts = path.split("/")
        for end in range(2, min(len(parts), 3) + 1):
            part = "/".join(parts[:end])
            sizes[part] = sizes.get(part, 0) + len(text)
    return {path: f"{size}B" for path, size in sizes.items()}


def log(place, name, memory):
    """The authors, commands and states of the history."""
    made = place.command("log", "--json", "--store", place.of(name))
    entries = [json.loads(line) for line in made.stdout.splitlines()][::-1]
    found = [(entry["number"], entry.get("actor"), command_of(entry)) for entry in entries]
    expected = [(number, entry.actor, entry.command) for number, entry in enumerate(memory.log, 1)]
    require(found == expected, f"log of {name}: {found}, expected {expected}: {made.stderr.decode()}")
    state = {path: digest(text) for path, text in (memory.base or {}).items()}
    for number, entry in enumerate(entries, 1):
        expected = {path: digest(text) for path, text in memory.texts(number).items()}
        if number <= memory.redacted:
            state = expected
        else:
            for change in entry["changes"]:
                state = replayed(state, change)
            require(state == expected, f"{name} after entry {number}: {state}, expected {expected}")
    numbers = range(memory.redacted + 1, len(memory.log) + 1)
    for number in numbers[:: max(1, len(numbers) // 3)]:
        for path, text in list(memory.texts(number).items())[:2]:
            made = place.command("cat", "/memories" + path, "--at", str(number), "--store", place.of(name))
            require(made.stdout.decode() == text, f"{path} at {number}: {made}, expected {text}")


def command_of(entry):
    origin = entry["origin"]
    return entry["command"] if origin == "edit" else next(iter(origin)) if isinstance(origin, dict) else origin


def replayed(state, change):
    """The state after a change of an entry, which holds digests."""
    change = {key: value.removeprefix("/memories") if isinstance(value, str) else value for key, value in change.items()}
    if change["change"] == "write":
        return state | {change["path"]: change["after"]["sha256"]}
    if change["change"] == "remove":
        return {path: text for path, text in state.items() if path != change["path"]}
    old, new = change["from"], change["to"]
    moved = lambda path: new + path[len(old) :] if path == old or path.startswith(old + "/") else path  # noqa: E731
    return {moved(path): text for path, text in state.items()}


def digest(text):
    return sha256(text.encode()).hexdigest()


def api(world, server, name, memory):
    """Lists, ids and versions of the Memory Stores API."""
    items = server.list(f"/{name}/memories")
    require((items is not None) == memory.exists, f"the API has {name}: {items}, expected {memory.exists}")
    files = {item["path"]: item for item in items or [] if item["type"] == "memory"}
    found = {path: item["content_sha256"] for path, item in files.items()}
    expected = {path: digest(text) for path, text in memory.texts().items()}
    require(found == expected, f"the API lists {found}, expected {expected}")
    for of, item, birth in world.ids:
        paths = [path for path, file in memory.files.items() if file.birth == birth and of == memory.birth]
        listed = [path for path, file in files.items() if file["id"] == item]
        # Without a history, an id is one of a path, in any memory.
        require(listed == paths or not paths and memory.base is None, f"{item} is {listed} in {name}, expected {paths}")
    versions = server.list(f"/{name}/memory_versions?view=full") or []
    ids = [version["id"] for version in versions]
    require(len(ids) == len(set(ids)), f"versions of {name} twice: {ids}")
    texts = {digest(text) for entry in memory.log for text in entry.texts.values()} | set(expected.values())
    texts |= {digest(text) for text in (memory.base or {}).values()}
    for version in versions:
        number, found = int(version["id"].split("_")[1]), version["content_sha256"]
        if number and memory.log[number - 1].is_redacted:
            require(version["path"] is found is None, f"a redacted version in {name}: {version}")
        require(found in texts | {None}, f"a version of another memory in {name}: {version}")
        is_whole = memory.redacted or found is None or digest(version["content"] or "") == found
        require(is_whole, f"a version without its contents in {name}: {version}")
        # A file that another program wrote has one version.
        if found and number:
            known = world.versions.setdefault((name, version["id"]), found)
            require(known == found, f"an id of two versions in {name}: {version}, before {known}")


def listed(world):
    """The memories of the storage."""
    expected = {name for name in MEMORIES if world.model.memories[name].exists}
    for server in SERVERS:
        found = {store["id"] for store in world.servers[server].list("")}
        require(found == expected, f"server {server} lists {found}, expected {expected}")


def erased(world):
    """No front shows what was erased, nor has the storage its bytes."""
    hidden = [line.encode() for line in world.model.erased]
    for name in MEMORIES:
        seen = b""
        for server in world.servers:
            versions = server.list(f"/{name}/memory_versions?view=full") or []
            seen += json.dumps(versions).encode()
        require_without(hidden, seen, f"a version of {name}")
        if world.model.memories[name].base is None:
            left = world.place.records(name)
            require(not left, f"{name} has no history, but {left}")
    erased_on_disk(world)


def erased_on_disk(world):
    """The files have no text that was erased."""
    place, hidden = world.place, [line.encode() for line in world.model.erased]
    if place.keys:  # no text at all, nor in backups
        hidden += [line.encode() for name in MEMORIES for line in world.model.pieces(name)]
    if place.keys or place.can_restore:
        files = "*" if place.keys or place.kind == "local" else "memory.db*"
        for path in (Path(place.root) if place.kind == "local" and not place.keys else place.path).rglob(files):
            if path.is_file():
                require_without(hidden, path.read_bytes(), path)


def require_without(hidden, content, place):
    found = [line for line in hidden if line in content]
    require(not found, f"{place} still has {found}")
