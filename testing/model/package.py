"""The tool of the Python package, over lines of JSON. Arguments: the store and the actor."""

import json
import sys

from memory_tool import MemoryTool, ToolError

store, actor = sys.argv[1:]
tool = MemoryTool(store, history=True, actor=actor)
for line in sys.stdin:
    try:
        result = {"content": tool.call(json.loads(line))}
    except ToolError as error:
        result = {"content": error.content, "is_error": True}
    print(json.dumps(result), flush=True)
