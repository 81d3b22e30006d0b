"""Runs the file system memory tool of LangChain over standard input and output.

Usage: driver.py ROOT_PATH

Each input line is a `tool_use` block or only its `input`, in JSON. Each output line is a `tool_result` block. The files
are in ROOT_PATH/memories.
"""

import json
import sys

from langchain.agents import create_agent
from langchain_anthropic.chat_models import _format_messages
from langchain_anthropic.middleware import FilesystemClaudeMemoryMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

NO_CALL = "Error: The driver takes a tool_use block with id, name and an input object, or the input object alone"


class Model(BaseChatModel):
    """A model that calls a tool once, then ends its turn."""

    call: dict

    @property
    def _llm_type(self):
        return "driver"

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **options):
        done = isinstance(messages[-1], ToolMessage)
        message = AIMessage("done") if done else AIMessage("", tool_calls=[self.call])
        return ChatResult(generations=[ChatGeneration(message=message)])


def main():
    middleware = FilesystemClaudeMemoryMiddleware(root_path=sys.argv[1])
    # Binary mode, because text mode also splits lines at carriage returns.
    for line in sys.stdin.buffer:
        print(json.dumps(answer(middleware, line)), flush=True)


def answer(middleware, line):
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return driver_error(None, f"Error: The driver cannot read the line as JSON: {error}")

    is_block = isinstance(value, dict) and value.get("type") == "tool_use"
    block = value if is_block else {"name": middleware.tool_name, "input": value, "id": "driver"}
    tool_use_id = block["id"] if isinstance(block.get("id"), str) else None
    has_name_and_input = isinstance(block.get("name"), str) and isinstance(block.get("input"), dict)
    if not has_name_and_input or tool_use_id is None:
        return driver_error(tool_use_id if is_block else None, NO_CALL)

    result = run_tool(middleware, block)
    if not is_block:
        del result["tool_use_id"]
    return result


def run_tool(middleware, block):
    """Runs an agent with this call. An exception that ends the agent's run ends the driver too."""
    model = Model(call={"name": block["name"], "args": block["input"], "id": block["id"]})
    messages = create_agent(model, middleware=[middleware]).invoke({"messages": [HumanMessage("")]})["messages"]
    _, formatted = _format_messages(messages, model=None)
    return next(part for message in formatted for part in message["content"] if is_result(part))


def is_result(part):
    return isinstance(part, dict) and part["type"] == "tool_result"


def driver_error(tool_use_id, content):
    result = {"type": "tool_result", "content": content, "is_error": True}
    if tool_use_id is not None:
        result["tool_use_id"] = tool_use_id
    return result


if __name__ == "__main__":
    main()
