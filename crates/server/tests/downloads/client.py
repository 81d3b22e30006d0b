"""Runs every method of the memory stores of the Python SDK, and its sync of a directory."""

import asyncio
import hashlib
import inspect
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import anthropic
from anthropic.lib.tools._memories import MIN_MEMORY_SYNC_INTERVAL, SessionMemoryStores

URL, TOKEN = sys.argv[1:]


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


async def done(result):
    """The result of a method of either client."""
    return await result if inspect.isawaitable(result) else result


async def items(pages):
    """The items of all pages of either client."""
    return [item async for item in pages] if hasattr(pages, "__aiter__") else list(pages)


async def every_method(client):
    stores = client.beta.memory_stores
    store = await done(stores.create(name="Notes", description="d", metadata={"a": "1", "b": "2"}))
    assert (await done(stores.retrieve(store.id))) == store
    changed = await done(stores.update(store.id, name="New", metadata={"a": None, "c": "3"}))
    assert (changed.name, changed.description, changed.metadata) == ("New", "d", {"b": "2", "c": "3"})
    for _ in range(2):
        await done(stores.create(name="Other"))
    listed = await items(stores.list(limit=1, created_at_gte=store.created_at))
    assert len(listed) == 3 and listed[-1].id == store.id

    memories = stores.memories
    memory = await done(memories.create(store.id, path="/a/b.md", content="one"))
    assert memory.content is None and memory.content_sha256 == sha("one")
    full = await done(memories.retrieve(memory.id, memory_store_id=store.id))
    assert full.content == "one" and full.memory_version_id == memory.memory_version_id
    for index in range(5):
        await done(memories.create(store.id, path=f"/many/{index}", content=str(index)))
    assert [item.path for item in await items(memories.list(store.id, limit=2))] == ["/a/b.md"] + [f"/many/{i}" for i in range(5)]
    assert [item.type for item in await items(memories.list(store.id, depth=1))] == ["memory_prefix", "memory_prefix"]
    assert [item.content for item in await items(memories.list(store.id, path_prefix="/a/", view="full"))] == ["one"]
    condition = {"type": "content_sha256", "content_sha256": sha("one")}
    two = await done(memories.update(
        memory.id, memory_store_id=store.id, content="two", path="/c.md", precondition=condition, view="full"
    ))
    assert (two.id, two.path, two.content) == (memory.id, "/c.md", "two")
    for refused in [
        lambda: done(memories.update(memory.id, memory_store_id=store.id, content="x", precondition=condition)),
        lambda: done(memories.create(store.id, path="/c.md", content="x")),
        lambda: done(memories.delete(memory.id, memory_store_id=store.id, expected_content_sha256=sha("x"))),
    ]:
        try:
            await refused()
            raise AssertionError("not refused")
        except anthropic.ConflictError:
            pass
    versions = stores.memory_versions
    listed = await items(versions.list(store.id, memory_id=memory.id, limit=1, view="full"))
    assert [(it.operation, it.content) for it in listed] == [("modified", "two"), ("created", "one")]
    first = await done(versions.redact(listed[-1].id, memory_store_id=store.id))
    assert first.redacted_at and first.path is None and first.redacted_by.type == "api_actor"
    assert (await done(versions.retrieve(listed[0].id, memory_store_id=store.id))).content == "two"
    assert (await done(memories.delete(memory.id, memory_store_id=store.id))).type == "memory_deleted"
    assert [it.operation for it in await items(versions.list(store.id, operation="deleted", api_key_id="key"))] == ["deleted"]
    assert (await done(stores.archive(store.id))).archived_at
    assert (await done(stores.delete(store.id))).type == "memory_store_deleted"


async def edit_concurrently(client):
    stores = client.beta.memory_stores
    store = await stores.create(name="Shared")
    memory = await stores.memories.create(store.id, path="/count", content="0")

    async def add():
        while True:
            found = await stores.memories.retrieve(memory.id, memory_store_id=store.id)
            condition = {"type": "content_sha256", "content_sha256": found.content_sha256}
            try:
                return await stores.memories.update(
                    memory.id, memory_store_id=store.id, content=str(int(found.content) + 1), precondition=condition
                )
            except anthropic.ConflictError:
                pass

    await asyncio.gather(*(add() for _ in range(8)))
    assert (await stores.memories.retrieve(memory.id, memory_store_id=store.id)).content == "8"
    versions = [it.operation async for it in stores.memory_versions.list(store.id, limit=4)]
    assert versions == ["modified"] * 8 + ["created"]


async def sync_directory(client):
    stores = client.beta.memory_stores
    store = await stores.create(name="Synced")
    await stores.memories.create(store.id, path="/remote.md", content="remote")
    with tempfile.TemporaryDirectory() as directory:
        resource = SimpleNamespace(
            type="memory_store", memory_store_id=store.id, name="notes", mount_path=None, access="read_write"
        )
        synced = SessionMemoryStores(client, workdir=directory)
        await synced.download(SimpleNamespace(resources=[resource]))
        root = synced.roots[0]
        assert (root / "remote.md").read_text() == "remote"
        (root / "local.md").write_text("local")
        (root / "remote.md").write_text("changed")
        await stores.memories.create(store.id, path="/dir/later.md", content="later")
        await synced.finish()
        assert (root / "dir" / "later.md").read_text() == "later"
        found = {it.path: it.content async for it in stores.memories.list(store.id, view="full")}
        assert found == {"/dir/later.md": "later", "/local.md": "local", "/remote.md": "changed"}, found
        await synced.dispose()


async def sync_while_others_edit(client):
    stores = client.beta.memory_stores
    store = await stores.create(name="Busy")
    count = await stores.memories.create(store.id, path="/count", content="0")
    edits = 40

    async def edit():
        for number in range(edits):
            found = await stores.memories.retrieve(count.id, memory_store_id=store.id)
            condition = {"type": "content_sha256", "content_sha256": found.content_sha256}
            content = str(int(found.content) + 1)
            await stores.memories.update(
                count.id, memory_store_id=store.id, content=content, precondition=condition
            )
            await stores.memories.create(store.id, path=f"/other/{number}", content=str(number))
            await asyncio.sleep(0.05)

    with tempfile.TemporaryDirectory() as directory:
        resource = SimpleNamespace(
            type="memory_store", memory_store_id=store.id, name="notes", mount_path=None, access="read_write"
        )
        synced = SessionMemoryStores(client, workdir=directory, sync_interval=MIN_MEMORY_SYNC_INTERVAL)
        await synced.download(SimpleNamespace(resources=[resource]))
        root = synced.roots[0]
        editing = asyncio.create_task(edit())
        written = 0
        while not editing.done():
            (root / f"local-{written}").write_text(str(written))
            written += 1
            await synced.flush_writes()
            await synced.sync_if_due()
            await asyncio.sleep(0.02)
        await editing
        await synced.finish()
        expected = {f"/other/{number}": str(number) for number in range(edits)}
        expected |= {f"/local-{number}": str(number) for number in range(written)}
        expected["/count"] = str(edits)
        found = {it.path: it.content async for it in stores.memories.list(store.id, view="full")}
        assert found == expected, (len(found), len(expected), found.get("/count"))
        assert all((root / path[1:]).read_text() == content for path, content in expected.items())
        await synced.dispose()


async def with_async_client():
    async with anthropic.AsyncAnthropic(base_url=URL, api_key=TOKEN) as client:
        await every_method(client)
        await edit_concurrently(client)
        await sync_directory(client)
        await sync_while_others_edit(client)


with anthropic.Anthropic(base_url=URL, api_key=TOKEN) as client:
    asyncio.run(every_method(client))
asyncio.run(with_async_client())
print("passed")
