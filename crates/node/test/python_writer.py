"""Inserts lines into one file with threads: python_writer.py URL NAME THREADS INSERTS."""

import sys
import threading

from memory_tool import MemoryTool

url, name, threads, inserts = sys.argv[1:]
tool = MemoryTool(url, timeout=120)


def insert(thread):
    for number in range(int(inserts)):
        line = f"{name}.{thread}.{number}"
        tool.call({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": line})


workers = [threading.Thread(target=insert, args=[thread]) for thread in range(int(threads))]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
