"""An agent with a memory: python agent.py "I take my tea without milk."."""

import sys
from anthropic import Anthropic
from memory_tool import MemoryTool

tool = MemoryTool("sqlite:memory.db?memory=alice", limits=True)
messages = [{"role": "user", "content": sys.argv[1]}]
runner = Anthropic().beta.messages.tool_runner(
    model="claude-opus-5-5", max_tokens=8192, messages=messages, tools=[tool])
print(runner.until_done().content[-1].text)
