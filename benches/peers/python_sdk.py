"""Times the memory tool of Anthropic's Python SDK. Prints the median seconds of each workload as JSON."""

import json
import statistics
import sys
import time

from anthropic.tools.memory import BetaLocalFilesystemMemoryTool

directory, rounds, files, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
tool = BetaLocalFilesystemMemoryTool(base_path=directory + "/few")
many = BetaLocalFilesystemMemoryTool(base_path=directory + "/many")
text = ("line of text\n" * size)[: size - 2] + "A\n"


def median(work, count):
    times = []
    for number in range(count):
        start = time.perf_counter()
        work(number)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def call(on, **command):
    on.call(command)


def edit(number):
    old, new = ("A\n", "B\n") if number % 2 == 0 else ("B\n", "A\n")
    call(tool, command="str_replace", path="/memories/file.txt", old_str=old, new_str=new)


call(tool, command="create", path="/memories/file.txt", file_text=text)
for number in range(files):
    call(many, command="create", path=f"/memories/d{number % 100}/{number}.txt", file_text="x")
print(
    json.dumps(
        {
            "view": median(lambda _: call(tool, command="view", path="/memories/file.txt"), rounds),
            "create": median(
                lambda number: call(tool, command="create", path=f"/memories/new/{number}.txt", file_text=text), rounds
            ),
            "edit": median(edit, rounds),
            "list": median(lambda _: call(many, command="view", path="/memories"), 10),
        }
    )
)
