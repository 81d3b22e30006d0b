"""An agent of Pydantic AI with a memory: python agent.py "I take my tea without milk."."""

import asyncio
import base64
import sys

from memory_tool import AsyncMemoryTool, ToolError
from pydantic_ai import Agent, BinaryContent, Tool, ToolFailed
from pydantic_ai.capabilities import NativeTool
from pydantic_ai.native_tools import MemoryTool


def memory_tool(memory: AsyncMemoryTool) -> Tool:
    """The tool for an `Agent` with `capabilities=[NativeTool(MemoryTool())]`, which sends memory_20250818 to Claude."""

    async def run(**command):
        try:
            result = await memory.call(command)
        except ToolError as error:
            raise ToolFailed(error.content) from error  # the result has `is_error`
        if isinstance(result, str):
            return result
        images = [block["source"] for block in result]
        return [BinaryContent(base64.b64decode(image["data"]), media_type=image["media_type"]) for image in images]

    return Tool.from_schema(run, "memory", "Files under /memories.", {"type": "object", "properties": {}})


async def main() -> None:
    memory = await AsyncMemoryTool.open("sqlite:memory.db?memory=alice", limits=True)
    agent = Agent(
        "anthropic:claude-opus-5-5",
        tools=[memory_tool(memory)],
        capabilities=[NativeTool(MemoryTool())],
        model_settings={"max_tokens": 8192},
    )
    print((await agent.run(sys.argv[1])).output)


if __name__ == "__main__":
    asyncio.run(main())
