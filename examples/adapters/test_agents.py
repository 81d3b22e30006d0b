"""The agents in Python talk to a local Messages API with the client of their framework."""

import asyncio
import base64
import os
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from memory_tool import AsyncMemory, AsyncMemoryTool
from pydantic_ai import Agent
from pydantic_ai.capabilities import NativeTool
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.native_tools import MemoryTool
from pydantic_ai.providers.anthropic import AnthropicProvider

HERE = Path(__file__).parent
PYTHON = HERE.parent.parent / "crates" / "python"
sys.path += [str(PYTHON / "tests"), str(PYTHON / "examples")]
from dict_store import DictStore  # noqa: E402
from messages_api import messages_api, text, use  # noqa: E402

MODEL = "claude-opus-5-5"
CREATE = {"command": "create", "path": "/memories/a.txt", "file_text": "tea"}
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def example(framework):
    spec = util.spec_from_file_location(framework, HERE / framework / "agent.py")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def run_langchain(memory, url):
    model = ChatAnthropic(model=MODEL, base_url=url, api_key="none")
    agent = create_agent(model, tools=[example("langchain").memory_tool(memory)])
    await agent.ainvoke({"messages": [{"role": "user", "content": "Hello"}]})


async def run_pydantic_ai(memory, url):
    model = AnthropicModel(MODEL, provider=AnthropicProvider(base_url=url, api_key="none"))
    tools, capabilities = [example("pydantic_ai").memory_tool(memory)], [NativeTool(MemoryTool())]
    agent = Agent(model, tools=tools, capabilities=capabilities, model_settings={"max_tokens": 8192})
    await agent.run("Hello")


RUNS = pytest.mark.parametrize("run", [run_langchain, run_pydantic_ai])


def text_of(result):
    content = result["content"]
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


@pytest.mark.parametrize("framework", ["langchain", "pydantic_ai"])
def test_an_agent_uses_the_memory_and_reads_errors(framework, tmp_path):
    uses = [
        use("t1", **CREATE),
        use("t2", command="str_replace", path="/memories/a.txt", old_str="tea", new_str="milk"),
        use("t3", command="view", path="/memories/a.txt"),
        use("t4", command="view", path="/etc/passwd"),
        use("t5", command="view", path=3),
    ]
    with messages_api(uses, [text("Noted.")]) as api:
        command = [sys.executable, HERE / framework / "agent.py", "No milk."]
        environment = {**os.environ, "ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "none"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("Noted.\n", 0), done.stderr
    assert api.requests[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    results = {id: (text_of(result), result["is_error"]) for id, result in api.results().items()}
    assert list(results) == ["t1", "t2", "t3", "t4", "t5"]
    assert results["t1"] == ("File created successfully at: /memories/a.txt", False)
    assert results["t3"] == ("Here's the content of /memories/a.txt with line numbers:\n     1\tmilk", False)
    assert results["t4"] == ("Error: Path must start with /memories, got: /etc/passwd", True)
    wrong = "Error: Field `path` of the command view must be a string, got an integer: 3"
    assert results["t5"] == (wrong, True)
    assert (tmp_path / "memory.db").is_file()


@RUNS
def test_two_agents_lose_no_edit(run, tmp_path):
    def inserts(agent, round):
        insert = {"command": "insert", "path": "/memories/log.txt", "insert_line": 0}
        return [use(f"t{n}", **insert, insert_text=f"{agent} {round} {n}\n") for n in range(5)]

    async def work():
        await AsyncMemory(tmp_path).write_text("/memories/log.txt", "")
        with (
            messages_api(*[inserts("a", round) for round in range(4)], [text("Done.")]) as api_a,
            messages_api(*[inserts("b", round) for round in range(4)], [text("Done.")]) as api_b,
        ):
            memories = [await AsyncMemoryTool.open(tmp_path) for _ in range(2)]
            await asyncio.gather(run(memories[0], api_a.url), run(memories[1], api_b.url))
        return (await AsyncMemory(tmp_path).read_text("/memories/log.txt")).splitlines()

    lines = asyncio.run(work())
    assert sorted(lines) == [f"{agent} {round} {n}" for agent in "ab" for round in range(4) for n in range(5)]


@RUNS
def test_a_command_does_not_block_the_event_loop(run):
    class LoopStore(DictStore):
        """A store on the event loop: its methods never run if the loop waits for them."""

        async def read(self, path, options):
            await asyncio.sleep(0)
            return super().read(path, options)

        async def apply(self, batch):
            await asyncio.sleep(0)
            super().apply(batch)

    async def work():
        with messages_api([use("t1", **CREATE)], [text("Done.")]) as api:
            memory = await AsyncMemoryTool.open(LoopStore(), timeout=10)
            await run(memory, api.url)
            return api

    assert text_of(asyncio.run(work()).results()["t1"]) == "File created successfully at: /memories/a.txt"


@RUNS
def test_a_view_of_an_image_is_an_image_block(run, tmp_path):
    async def work():
        with messages_api([use("t1", command="view", path="/memories/dot.png")], [text("A dot.")]) as api:
            memory = await AsyncMemoryTool.open(tmp_path)
            (tmp_path / "memories" / "dot.png").write_bytes(PNG)
            await run(memory, api.url)
            return api

    [block] = asyncio.run(work()).results()["t1"]["content"]
    assert block["type"] == "image" and base64.b64decode(block["source"]["data"]) == PNG
