"""The tools in the runners of the SDK."""

import asyncio
import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool
from anthropic.lib.tools import ToolError as SdkToolError
from messages_api import messages_api, text, use

from memory_tool import AsyncMemoryTool, Memory, MemoryTool, ToolError

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
MESSAGES = [{"role": "user", "content": "Remember that I like tea."}]
CONVERSATION = [
    [use("t1", command="view", path="/memories")],
    [
        use("t2", command="create", path="/memories/a.txt", file_text="tea\nmilk"),
        use("t3", command="create", path="/memories/b.txt", file_text="b"),
        use("t4", command="view", path="/memories/none.txt"),
    ],
    [use("t5", command="str_replace", path="/memories/a.txt", old_str="tea", new_str="green tea")],
    [text("I will remember it.")],
]


def run_sync(tool, *script):
    with messages_api(*script) as api:
        client = Anthropic(api_key="none", base_url=api.url, max_retries=0)
        runner = client.beta.messages.tool_runner(
            model="claude-opus-5-5", max_tokens=1000, messages=MESSAGES, tools=[tool]
        )
        return api, runner.until_done()


def run_async(tool, *script):
    async def run():
        with messages_api(*script) as api:
            client = AsyncAnthropic(api_key="none", base_url=api.url, max_retries=0)
            runner = client.beta.messages.tool_runner(
                model="claude-opus-5-5", max_tokens=1000, messages=MESSAGES, tools=[tool]
            )
            return api, await runner.until_done()

    return asyncio.run(run())


RUNS = pytest.mark.parametrize("run, tool_class", [(run_sync, MemoryTool), (run_async, AsyncMemoryTool)])


def test_the_tools_are_those_of_the_sdk():
    assert isinstance(MemoryTool("in-process:"), BetaAbstractMemoryTool)
    assert isinstance(AsyncMemoryTool("in-process:"), BetaAsyncAbstractMemoryTool)
    assert ToolError is SdkToolError


@RUNS
def test_a_conversation_with_parallel_calls_and_errors(run, tool_class, url):
    api, message = run(tool_class(url), *CONVERSATION)
    assert message.content[0].text == "I will remember it."
    assert api.requests[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    header = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:"
    assert api.results(1)["t1"] == {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": f"{header}\n0B\t/memories",
    }
    results = api.results(2)
    assert results["t2"]["content"] == "File created successfully at: /memories/a.txt"
    assert results["t3"]["content"] == "File created successfully at: /memories/b.txt"
    assert results["t4"] == {
        "type": "tool_result",
        "tool_use_id": "t4",
        "content": "The path /memories/none.txt does not exist. Please provide a valid path.",
        "is_error": True,
    }
    assert api.results(3)["t5"]["content"].startswith("The memory file has been edited.")
    assert Memory(url).read_text("/memories/a.txt") == "green tea\nmilk"


@RUNS
def test_an_image_is_an_image_block(run, tool_class, tmp_path):
    tool = tool_class(str(tmp_path))
    (tmp_path / "memories" / "dot.png").write_bytes(PNG)
    api, _ = run(tool, [use("t1", command="view", path="/memories/dot.png")], [text("A dot.")])
    block = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}
    assert api.results()["t1"]["content"] == [{"type": "image", "source": block}]


@RUNS
@pytest.mark.parametrize(
    "tool_input, error",
    [
        ({}, "Error: Missing field `command`"),
        ({"command": "shred"}, "Error: Unknown command: shred. The commands are view, create, str_replace, insert, "
                               "delete and rename."),
        ({"command": "view"}, "Error: Missing field `path` of the command view"),
        ({"command": "view", "path": 7}, "Error: Field `path` of the command view must be a string, got an integer: 7"),
        ({"command": "view", "path": "/etc/passwd"}, "Error: Path must start with /memories, got: /etc/passwd"),
    ],
)  # fmt: skip
def test_the_texts_of_wrong_inputs_are_those_of_the_contract(run, tool_class, tool_input, error):
    api, _ = run(tool_class("in-process:"), [use("t1", **tool_input)], [text("Sorry.")])
    assert (api.results()["t1"]["content"], api.results()["t1"]["is_error"]) == (error, True)


def test_the_definition_has_the_cache_control():
    tool = MemoryTool("in-process:", cache_control={"type": "ephemeral"})
    assert tool.to_dict() == {"type": "memory_20250818", "name": "memory", "cache_control": {"type": "ephemeral"}}


def test_a_command_of_the_sdk_is_executed():
    from anthropic.types.beta import BetaMemoryTool20250818CreateCommand

    tool = MemoryTool("in-process:")
    command = BetaMemoryTool20250818CreateCommand(command="create", path="/memories/a", file_text="tea")
    assert tool.execute(command) == tool.create(
        BetaMemoryTool20250818CreateCommand(command="create", path="/memories/b", file_text="tea")
    ).replace("/memories/b", "/memories/a")
    assert tool.clear_all_memory() == "All memory cleared"
    assert tool.memory.list() == []


def test_the_agent_of_the_readme_remembers(tmp_path):
    agent = Path(__file__).parent.parent / "examples" / "agent.py"
    create = use("t1", command="create", path="/memories/tea.txt", file_text="No milk.")
    view = use("t2", command="view", path="/memories/tea.txt")
    with messages_api([create], [text("Noted.")], [view], [text("Black.")]) as api:
        variables = {**os.environ, "ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": api.url}
        for question, answer in [("I take no milk.", "Noted.\n"), ("How do I take my tea?", "Black.\n")]:
            done = subprocess.run(
                [sys.executable, str(agent), question], capture_output=True, text=True, cwd=tmp_path, env=variables
            )
            assert done.stdout == answer, done.stderr
        assert api.results()["t2"]["content"].endswith("     1\tNo milk.")


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("cases", ["str_replace.", pytest.param("", marks=pytest.mark.long)])
def test_the_suite_passes_on_a_program_with_the_tool(kind, cases):
    driver = Path(__file__).with_name("driver.py")
    program = f"'{sys.executable}' -B '{driver}' {kind} {{dir}} {{options}}"
    options = ["--command", program, "--plain-files", "{dir}/memories", "--filter", cases or ".", "--timeout", "60"]
    suite = os.environ.get("MEMORY_TOOL_SUITE")
    assert suite, "there is no program of the suite: start pytest with .ci/python"
    done = subprocess.run([suite, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
