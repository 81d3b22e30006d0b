"""A Python agent that uses memory-tool for its memory. Run it: python3 bridge.py 'I take tea without milk'"""

import json, subprocess, sys
from anthropic import Anthropic
from anthropic.lib.tools import BetaBuiltinFunctionTool, ToolError

class Memory(BetaBuiltinFunctionTool):
    def to_dict(self):
        return {"type": "memory_20250818", "name": "memory"}
    def call(self, input):  # sends one line of JSON and reads one line
        print(json.dumps(input), file=program.stdin, flush=True)
        result = json.loads(program.stdout.readline())
        if result.get("is_error"):
            raise ToolError(result["content"])
        return result["content"]

command = ["memory-tool", "run", "--store", "./memory"]
program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
messages = [{"role": "user", "content": sys.argv[1]}]
runner = Anthropic().beta.messages.tool_runner(
    model="claude-opus-5-5", max_tokens=8192, tools=[Memory()], messages=messages)
print(runner.until_done().content[-1].text)
