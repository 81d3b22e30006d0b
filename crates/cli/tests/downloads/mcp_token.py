"""Creates a token for the memory of a directory, waits until the server accepts it, and runs the driver with it.

    mcp_token.py PROGRAM TOKENS URL DIRECTORY DRIVER
"""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

program, tokens, url, directory, driver = sys.argv[1:]
memory = directory.strip("/").replace("/", "-")
new = [program, "token", "new", "--tokens", tokens, "--actor", "agent", "--memory", memory, "--right", "tool", "--create"]
token = subprocess.run(new, capture_output=True, check=True, text=True).stdout.split()[-1]
while True:
    try:
        urllib.request.urlopen(urllib.request.Request(url, headers={"authorization": f"Bearer {token}"}))
    except urllib.error.HTTPError as error:
        if error.code != 401:
            break
    time.sleep(0.05)
os.execv(sys.executable, [sys.executable, "-B", driver, url, token])
