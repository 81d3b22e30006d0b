"""Serves a tool over standard input and output, for the conformance suite of programs.

Usage: driver.py sync|async DIRECTORY [--create-overwrites] [--max-view-chars N|none]
"""

import asyncio
import json
import sys

sys.modules["anthropic"] = None  # without the SDK, whose import takes a second in each process

from memory_tool import AsyncMemoryTool, MemoryTool, ToolError  # noqa: E402


def main():
    kind, directory, *words = sys.argv[1:]
    options = {"create_overwrites": "--create-overwrites" in words}
    if "--max-view-chars" in words:
        characters = words[words.index("--max-view-chars") + 1]
        options["max_view_characters"] = None if characters == "none" else int(characters)
    event_loop = asyncio.new_event_loop()
    if kind == "sync":
        call = MemoryTool(directory, **options).call
    else:
        tool = event_loop.run_until_complete(AsyncMemoryTool.open(directory, **options))

        def call(tool_input):
            return event_loop.run_until_complete(tool.call(tool_input))

    for line in sys.stdin.buffer:
        print(json.dumps(answer(call, line)), flush=True)


def answer(call, line):
    """The `tool_result` of a line."""
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return result(None, f"Error: The line is not JSON: {error}", is_error=True)
    is_block = isinstance(value, dict) and value.get("type") == "tool_use"
    block = value if is_block else {"name": "memory", "input": value}
    tool_use_id = block["id"] if isinstance(block.get("id"), str) else None
    if block.get("name") != "memory" or "input" not in block or (is_block and tool_use_id is None):
        text = f"Error: Expected an id, the name memory and an input, got {json.dumps(value)[:1000]}"
        return result(tool_use_id, text, is_error=True)
    try:
        return result(tool_use_id, call(block["input"]))
    except ToolError as error:
        return result(tool_use_id, error.content, is_error=True)


def result(tool_use_id, content, is_error=False):
    block = {"type": "tool_result", "content": content}
    if tool_use_id is not None:
        block["tool_use_id"] = tool_use_id
    if is_error:
        block["is_error"] = True
    return block


if __name__ == "__main__":
    main()
