"""An agent of LangChain with a memory: python agent.py "I take my tea without milk."."""

import asyncio
import sys

from langchain.agents import create_agent
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from memory_tool import AsyncMemoryTool, ToolError


def memory_tool(memory: AsyncMemoryTool) -> BaseTool:
    """The tool for `create_agent`, `create_deep_agent` or a `ToolNode` of LangGraph."""

    async def run(**command):
        try:
            return await memory.call(command)
        except ToolError as error:
            raise ToolException(error.content) from error  # the result has `is_error`

    return StructuredTool(
        name="memory",
        description="Files under /memories.",  # for other models than Claude
        args_schema={"type": "object", "properties": {}},
        coroutine=run,
        handle_tool_error=True,
        extras={"provider_tool_definition": memory.to_dict()},  # what ChatAnthropic sends: memory_20250818
    )


async def main() -> None:
    memory = await AsyncMemoryTool.open("sqlite:memory.db?memory=alice", limits=True)
    agent = create_agent("anthropic:claude-opus-5-5", tools=[memory_tool(memory)])
    state = await agent.ainvoke({"messages": [{"role": "user", "content": sys.argv[1]}]})
    print(state["messages"][-1].text)


if __name__ == "__main__":
    asyncio.run(main())
