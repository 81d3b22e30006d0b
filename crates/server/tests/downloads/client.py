"""Runs every method of the memory stores of the Python SDK, and its sync of a directory."""

import asyncio
import hashlib
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import anthropic
from anthropic.lib.tools._memories import SessionMemoryStores

URL, TOKEN = sys.argv[1:]


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def with_sync_client():
    client = anthropic.Anthropic(base_url=URL, api_key=TOKEN)
    stores = client.beta.memory_stores
    store = stores.create(name="Notes", description="d", metadata={"a": "1", "b": "2"})
    assert stores.retrieve(store.id) == store
    changed = stores.update(store.id, name="New", metadata={"a": None, "c": "3"})
    assert (changed.name, changed.description, changed.metadata) == ("New", "d", {"b": "2", "c": "3"})
    for _ in range(2):
        stores.create(name="Other")
    listed = list(stores.list(limit=1, created_at_gte=store.created_at))
    assert len(listed) == 3 and listed[-1].id == store.id

    memories = stores.memories
    memory = memories.create(store.id, path="/a/b.md", content="one")
    assert memory.content is None and memory.content_sha256 == sha("one")
    full = memories.retrieve(memory.id, memory_store_id=store.id)
    assert full.content == "one" and full.memory_version_id == memory.memory_version_id
    for index in range(5):
        memories.create(store.id, path=f"/many/{index}", content=str(index))
    assert [item.path for item in memories.list(store.id, limit=2)] == ["/a/b.md"] + [f"/many/{i}" for i in range(5)]
    assert [item.type for item in memories.list(store.id, depth=1)] == ["memory_prefix", "memory_prefix"]
    assert [item.content for item in memories.list(store.id, path_prefix="/a/", view="full")] == ["one"]
    condition = {"type": "content_sha256", "content_sha256": sha("one")}
    two = memories.update(
        memory.id, memory_store_id=store.id, content="two", path="/c.md", precondition=condition, view="full"
    )
    assert (two.id, two.path, two.content) == (memory.id, "/c.md", "two")
    for refused in [
        lambda: memories.update(memory.id, memory_store_id=store.id, content="x", precondition=condition),
        lambda: memories.create(store.id, path="/c.md", content="x"),
        lambda: memories.delete(memory.id, memory_store_id=store.id, expected_content_sha256=sha("x")),
    ]:
        try:
            refused()
            raise AssertionError("not refused")
        except anthropic.ConflictError:
            pass
    versions = stores.memory_versions
    listed = list(versions.list(store.id, memory_id=memory.id, limit=1, view="full"))
    assert [(it.operation, it.content) for it in listed] == [("modified", "two"), ("created", "one")]
    first = versions.redact(listed[-1].id, memory_store_id=store.id)
    assert first.redacted_at and first.path is None and first.redacted_by.type == "api_actor"
    assert versions.retrieve(listed[0].id, memory_store_id=store.id).content == "two"
    assert memories.delete(memory.id, memory_store_id=store.id).type == "memory_deleted"
    assert [it.operation for it in versions.list(store.id, operation="deleted", api_key_id="key")] == ["deleted"]
    assert stores.archive(store.id).archived_at
    assert stores.delete(store.id).type == "memory_store_deleted"


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


async def with_async_client():
    async with anthropic.AsyncAnthropic(base_url=URL, api_key=TOKEN) as client:
        await edit_concurrently(client)
        await sync_directory(client)


with_sync_client()
asyncio.run(with_async_client())
print("passed")
