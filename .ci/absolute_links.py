"""Usage: absolute_links.py PAGE. Makes the relative links of a page absolute, for a registry that cannot resolve them.

Does nothing if Cargo.toml has no address of the repository yet.
"""

import json
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
page = pathlib.Path(sys.argv[1]).resolve()
command = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
packages = json.loads(subprocess.run(command, check=True, capture_output=True, cwd=root).stdout)["packages"]
package = next(package for package in packages if package["name"] == "memory-tool")


def absolute(link):
    path, hash, anchor = link[1].partition("#")
    file = (page.parent / path).resolve()
    if not file.exists():
        sys.exit(f"{page} links to {path}, which does not exist")
    place = "tree" if file.is_dir() else "blob"
    return f"]({package['repository']}/{place}/v{package['version']}/{file.relative_to(root).as_posix()}{hash}{anchor})"


if package["repository"]:
    text = page.read_text("utf-8")
    page.write_text(re.sub(r"\]\((?!https?:|#)([^)]+)\)", absolute, text), "utf-8")
