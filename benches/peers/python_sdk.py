"""The memory tool of Anthropic's Python SDK in the comparison: runs the jobs of `compare/contestant.rs`.

Each session is a thread, because the tool blocks.
"""

import importlib.metadata
import json
import os
import sys
import threading
import time

from anthropic.tools.memory import BetaLocalFilesystemMemoryTool

tools = {}


def tool(store):
    if store not in tools:
        tools[store] = BetaLocalFilesystemMemoryTool(base_path=store)
    return tools[store]


class Session(threading.Thread):
    def __init__(self, store, commands, barrier):
        super().__init__()
        self.tool, self.commands, self.barrier = tool(store), commands, barrier
        self.seconds, self.failures, self.reply = [], [], ""

    def run(self):
        call, clock = self.tool.call, time.perf_counter
        self.barrier.wait()
        self.start_time = clock()
        for command in self.commands:
            start = clock()
            try:
                self.reply = call(command)
            except Exception as error:
                self.failures.append(repr(error))
            self.seconds.append(clock() - start)
        self.end_time = clock()


def run(job):
    barrier = threading.Barrier(len(job))
    sessions = [Session(**session, barrier=barrier) for session in job]
    for session in sessions:
        session.start()
    for session in sessions:
        session.join()
    start = min(session.start_time for session in sessions)
    end = max(session.end_time for session in sessions)
    return {
        "elapsed": end - start,
        "seconds": [seconds for session in sessions for seconds in session.seconds],
        "failures": [failure for session in sessions for failure in session.failures],
        "replies": [session.reply for session in sessions],
    }


os.chdir(sys.argv[1])
print(json.dumps("anthropic " + importlib.metadata.version("anthropic")), flush=True)
for line in sys.stdin:
    print(json.dumps(run(json.loads(line))), flush=True)
