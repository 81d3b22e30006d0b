"""Runs the local-disk memory tool of Anthropic's Python SDK over standard input and output.

Usage: driver.py BASE_PATH

Each input line is a `tool_use` block or only its `input`, in JSON. Each output line is a `tool_result` block. The files
are in BASE_PATH/memories.
"""

import json
import sys

from anthropic.lib.tools._tool_dispatch import tool_error_content, tool_result_content
from anthropic.tools import BetaLocalFilesystemMemoryTool

NO_CALL = "Error: The driver takes a tool_use block with id, name and an input object, or the input object alone"


def main():
    tool = BetaLocalFilesystemMemoryTool(sys.argv[1])
    # Binary mode, because text mode also splits lines at carriage returns.
    for line in sys.stdin.buffer:
        print(json.dumps(answer(tool, line)), flush=True)


def answer(tool, line):
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return tool_result(None, f"Error: The driver cannot read the line as JSON: {error}", is_error=True)

    is_block = isinstance(value, dict) and value.get("type") == "tool_use"
    block = value if is_block else {"name": tool.name, "input": value}
    tool_use_id = block["id"] if isinstance(block.get("id"), str) else None
    has_name_and_input = isinstance(block.get("name"), str) and isinstance(block.get("input"), dict)
    if not has_name_and_input or (is_block and tool_use_id is None):
        return tool_result(tool_use_id, NO_CALL, is_error=True)
    return run_tool(tool, tool_use_id, block["name"], block["input"])


def run_tool(tool, tool_use_id, name, tool_input):
    """Mirrors `_generate_tool_call_response` and `_run_tool` of the SDK's `BaseSyncToolRunner`."""
    if name != tool.name:
        return tool_result(tool_use_id, f"Error: Tool '{name}' not found", is_error=True)
    try:
        return tool_result(tool_use_id, tool_result_content(tool.call(tool_input)))
    except Exception as error:
        return tool_result(tool_use_id, tool_error_content(error), is_error=True)


def tool_result(tool_use_id, content, is_error=False):
    result = {"type": "tool_result", "content": content}
    if tool_use_id is not None:
        result["tool_use_id"] = tool_use_id
    if is_error:
        result["is_error"] = True
    return result


if __name__ == "__main__":
    main()
