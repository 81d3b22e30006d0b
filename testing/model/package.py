"""The tool of the Python package, over lines of JSON. Arguments: the store, the actor and more options."""

import json
import sys

from memory_tool import MemoryTool, ToolError

store, actor, options = sys.argv[1:]
tool = MemoryTool(store, history=True, actor=actor, **json.loads(options))
for line in sys.stdin:
    try:
        result = {"content": tool.call(json.loads(line))}
    except ToolError as error:
        result = {"content": error.content, "is_error": True}
    print(json.dumps(result), flush=True)
