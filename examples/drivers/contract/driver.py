"""A memory tool on a local disk, written from docs/contract.md with Python's standard library.

Usage: driver.py DIRECTORY [--create-overwrites] [--max-view-chars N]

Each input line is a `tool_use` block or only its `input`, in JSON. Each output line is a `tool_result` block. The files
are in DIRECTORY/memories. N is `none` for no cap.
"""

import binascii
import fcntl
import functools
import json
import os
import re
import stat
import struct
import sys
import unicodedata
import zlib

ROOT = "/memories"
MAX_PATH_BYTES = 1024
MAX_NAME_BYTES = 255
MAX_LINES = 999_999
LISTED_LEVELS = 2
IMAGE_NAMES = (".png", ".jpg", ".jpeg")
MAX_IMAGE_SIDE = 8000
MAX_BASE64_CHARACTERS = 5_242_880
# The file that is being written, or the directory that is being deleted, next to the memory.
STAGED = "staged"
FILE, DIRECTORY, NOTHING, EMPTY, TAKEN = range(5)
# Why an item is not listed. Links and special files are not counted.
UNREADABLE, ILLEGAL, SPECIAL = "unreadable", "with illegal names", "special"
OPEN_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW
# Unicode's Default_Ignorable_Code_Point, except for control and format characters.
IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
ENCODED = re.compile("%([0-9a-f]{2})", re.IGNORECASE)
ENCODED_TRAVERSAL = re.compile("%(2e|2f|5c)", re.IGNORECASE)


class Refusal(Exception):
    """An error that Claude reads."""


# Requests


def main(words):
    overwrites = "--create-overwrites" in words
    cap = words[words.index("--max-view-chars") + 1] if "--max-view-chars" in words else "16000"
    memory = Memory(words[0], overwrites, sys.maxsize if cap == "none" else int(cap))
    # Binary mode, because text mode also splits lines at carriage returns.
    for line in sys.stdin.buffer:
        sys.stdout.write(json.dumps(respond(memory, line)) + "\n")
        sys.stdout.flush()


def respond(memory, line):
    result = {"type": "tool_result"}
    try:
        result["content"] = run_request(memory, parse(line), result)
    except Refusal as refusal:
        result.update(content=str(refusal), is_error=True)
    except OSError as error:
        print(error, file=sys.stderr)  # for the operator
        result.update(content=f"Error: The storage of {ROOT} failed. Try again later.", is_error=True)
    return result


def parse(line):
    try:
        return json.loads(line.decode(), parse_constant=refuse_constant, parse_int=parse_integer)
    except (ValueError, RecursionError):
        raise Refusal("Error: The line is not valid JSON") from None


def refuse_constant(name):
    raise ValueError(name)


def parse_integer(digits):
    return int(digits) if len(digits) < 300 else float(digits)  # which is not an integer if it is infinite


def run_request(memory, value, result):
    is_block = isinstance(value, dict) and value.get("type") == "tool_use"
    if is_block and isinstance(value.get("id"), str) and is_unicode(value["id"]):
        result["tool_use_id"] = value["id"]
    if not is_unicode(json.dumps(value, ensure_ascii=False)):
        raise Refusal("Error: A string contains half a surrogate pair, which is not a character")
    if is_block:
        if "tool_use_id" not in result:
            raise Refusal("Error: The tool_use block has no id")
        if value.get("name") != "memory":
            raise Refusal(f"Error: This tool has the name memory, got: {quoted(str(value.get('name')))}")
        if "input" not in value:
            raise Refusal("Error: The tool_use block has no input")
        value = value["input"]
    if not isinstance(value, dict):
        raise Refusal("Error: The input must be an object")
    return memory.run(value)


def is_unicode(text):
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_utf8(content):
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def text_field(fields, name, alias=None):
    value = fields.get(name)
    if value is None and alias:
        value = fields.get(alias)
    if not isinstance(value, str):
        raise Refusal(f"Error: The field {name} must be a string")
    return value


def content_field(fields, name, alias=None):
    text = text_field(fields, name, alias)
    if "\0" in text:
        raise Refusal(f"Error: The field {name} contains the character U+0000, which no file may contain. Leave it out.")
    return text


def path_field(fields, name, alias=None):
    return checked_path(text_field(fields, name, alias))


def as_integer(value):
    """The integer that a JSON number is, in any spelling, or None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if isinstance(value, int) else None


def spelled(value):
    integer = as_integer(value)
    if integer is None:
        return json.dumps(value)
    return str(integer) if -(2**63) <= integer < 2**64 else repr(float(integer))


# Paths


def checked_path(path):
    """The path in its canonical form."""
    if path == "":
        raise Refusal("Error: The path is empty")
    if path != ROOT and not path.startswith(ROOT + "/"):
        raise Refusal(f"Error: Path must start with {ROOT}, got: {quoted(path)}")
    path = path[:-1] if path.endswith("/") else path
    if ".." in path.split("/") or "\\" in path or has_encoded_traversal(path):
        raise Refusal(f"Error: Path {quoted(path)} would escape {ROOT} directory")
    if len(path.encode()) > MAX_PATH_BYTES:
        raise Refusal(f"Error: Path {quoted(path)} is longer than {MAX_PATH_BYTES} bytes")
    for name in path.split("/")[2:]:
        if problem := problem_of(name):
            raise Refusal(f"Error: Path {quoted(path)} {problem}")
    if not unicodedata.is_normalized("NFC", path):
        raise Refusal(f"Error: Path {quoted(path)} is not in the Unicode form NFC")
    return path


def problem_of(name):
    if name == "":
        return "has an empty segment"
    if name == ".":
        return "has a segment that is a single dot"
    if len(name.encode()) > MAX_NAME_BYTES:
        return f"has a segment of more than {MAX_NAME_BYTES} bytes"
    if any(is_unprintable(character) for character in name):
        return "has a control, format or invisible character"
    return None


@functools.cache
def is_unprintable(character):
    return unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp") or bool(IGNORABLE.match(character))


def has_encoded_traversal(path):
    while not ENCODED_TRAVERSAL.search(path):
        decoded = ENCODED.sub(lambda match: chr(int(match[1], 16)), path)
        if decoded == path:
            return False
        path = decoded
    return True


def is_legal(path):
    try:
        checked_path(path)
    except (Refusal, UnicodeEncodeError):
        return False
    return True


def quoted(path):
    start = path.encode()[:MAX_PATH_BYTES].decode(errors="ignore")
    return "".join(f"\\u{{{ord(c):x}}}" if is_unprintable(c) else c for c in start)


# Texts


def numbered(number, line):
    return f"{number:6}\t{line}"


def size_text(size):
    if size < 1024:
        return f"{size}B"
    for unit in "KMG":
        size /= 1024
        if round(size, 1) < 1024 or unit == "G":
            return f"{size:.1f}{unit}"


def selected(view_range, count):
    """The first and the last line of the range, or None if it does not fit the number of lines."""
    numbers = [as_integer(number) for number in view_range]
    if len(numbers) != 2 or None in numbers:
        return None
    first, last = numbers
    last = count if last == -1 else min(last, count)
    return (first, last) if 1 <= first <= last else None


def capped(lines, first, last, cap, form=numbered, remarks=()):
    """The lines from first to last, the remarks, and a note if the lines exceed the cap."""
    shown, length = [], -1
    for number in range(first, last + 1):
        text = form(number, lines[number - 1])
        length += 1 + len(text)
        if length > cap:
            break
        shown.append(text)
    if not shown:
        text = form(first, lines[first - 1])
        start = len(text) - len(lines[first - 1])
        room = max(cap, start + 1)
        if form is numbered and len(text) > room:
            return text[:room] + long_line_note(first, len(lines), len(text) - start, room - start)
        shown.append(text)
    end = first + len(shown) - 1
    shown += remarks
    if end < last:
        next_lines = f"To read on, use view_range [{end + 1}, -1].]"
        shown.append(f"[Showing lines {first}-{end} of {len(lines)}. {next_lines}")
    return "\n".join(shown)


def long_line_note(number, count, length, shown):
    note = (
        f"\n[Line {number} of {count} has {length} characters; the first {shown} are shown. "
        "To read the rest, use str_replace to break the line after the last words shown."
    )
    if number < count:
        note += f" To continue with the next line, use view_range [{number + 1}, -1]."
    return note + "]"


def decoded(path, content):
    if not is_utf8(content):
        raise Refusal(f"Error: The file {path} is not UTF-8 text. You can delete or rename it.")
    if b"\0" in content:
        raise Refusal(f"Error: The file {path} contains the character U+0000. You can delete or rename it.")
    return content.decode()


# Images

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# The samples of a pixel, and their possible bits, by the color type.
PNG_COLORS = {0: (1, (1, 2, 4, 8, 16)), 2: (3, (8, 16)), 3: (1, (1, 2, 4, 8)), 4: (2, (8, 16)), 6: (4, (8, 16))}
# The first column and row of each pass, and the steps to the next ones.
PNG_PASSES = [(0, 0, 1, 1)]
PNG_INTERLACED = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
PNG_PIECE_BYTES = 1 << 20
JPEG_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
JPEG_WITHOUT_PARAMETERS = {0x01, *range(0xD0, 0xD8)}
JPEG_MARKER_AFTER_SCAN = re.compile(rb"\xff[^\x00\xd0-\xd7]")


def image_block(path, content):
    """A block with an image that the API accepts. Its content determines the media type."""
    characters = (len(content) + 2) // 3 * 4
    if characters > MAX_BASE64_CHARACTERS:
        limit = f"over the limit of {MAX_BASE64_CHARACTERS:,} for images"
        raise Refusal(f"Error: The file {path} has {characters:,} characters in base64, {limit}")
    is_png = content.startswith(PNG_SIGNATURE)
    try:
        width, height = png_sides(content) if is_png else jpeg_sides(content)
    except (ValueError, IndexError, struct.error, zlib.error):
        raise Refusal(f"Error: The file {path} is neither UTF-8 text nor a complete PNG or JPEG image") from None
    if not has_accepted_sides(width, height):
        limit = f"each side must have 1 to {MAX_IMAGE_SIDE:,}"
        raise Refusal(f"Error: The file {path} is an image of {width} × {height} pixels, and {limit}")
    data = binascii.b2a_base64(content, newline=False).decode()
    media_type = "image/png" if is_png else "image/jpeg"
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def has_accepted_sides(width, height):
    return 1 <= width <= MAX_IMAGE_SIDE and 1 <= height <= MAX_IMAGE_SIDE


def png_sides(content):
    chunks = list(png_chunks(content))
    kinds = [kind for kind, _ in chunks]
    width, height, depth, color, compression, filters, interlacing = struct.unpack(">IIBBBBB", chunks[0][1])
    samples, depths = PNG_COLORS.get(color, (0, ()))
    if kinds[0] != b"IHDR" or depth not in depths or compression or filters or interlacing > 1:
        raise ValueError("invalid header")
    if color == 3 and b"PLTE" not in kinds[: kinds.index(b"IDAT")]:
        raise ValueError("no palette")
    if has_accepted_sides(width, height):  # otherwise decoding it could take too long
        data = b"".join(data for kind, data in chunks if kind == b"IDAT")
        decode_png(data, width, height, samples * depth, PNG_INTERLACED if interlacing else PNG_PASSES)
    return width, height


def png_chunks(content):
    kind, position = None, len(PNG_SIGNATURE)
    while kind != b"IEND":
        length, kind = struct.unpack_from(">I4s", content, position)
        data = content[position + 8 : position + 8 + length]
        if struct.unpack_from(">I", content, position + 8 + length) != (zlib.crc32(kind + data),):
            raise ValueError("wrong checksum")
        yield kind, data
        position += 12 + length


def decode_png(data, width, height, bits, passes):
    """Inflates the rows, each of which starts with the number of its filter."""
    stream = zlib.decompressobj()
    for column, row, columns, rows in passes:
        pixels, count = -((column - width) // columns), -((row - height) // rows)
        row_bytes = 1 + (pixels * bits + 7) // 8
        while pixels and count:
            rows_at_once = min(count, PNG_PIECE_BYTES // row_bytes)
            piece = stream.decompress(data, rows_at_once * row_bytes)
            if len(piece) < rows_at_once * row_bytes or max(piece[::row_bytes]) > 4:
                raise ValueError("invalid row")
            data, count = stream.unconsumed_tail, count - rows_at_once
    if stream.decompress(data, 1) or not stream.eof:
        raise ValueError("no end of the rows")


def jpeg_sides(content):
    """The sides of an image with a frame, a scan and an end."""
    if not content.startswith(b"\xff\xd8"):
        raise ValueError("no start")
    position, sides, has_scan = 2, None, False
    while True:
        if content[position] != 0xFF:
            raise ValueError("no marker")
        while content[position] == 0xFF:  # fill bytes can precede a marker
            position += 1
        marker = content[position]
        position += 1
        if marker == 0xD9:
            break
        if marker in JPEG_WITHOUT_PARAMETERS:
            continue
        (length,) = struct.unpack_from(">H", content, position)
        if marker in JPEG_FRAMES:
            sides = struct.unpack_from(">HH", content[position : position + length], 3)
        position += length
        if marker == 0xDA:
            has_scan = True
            after = JPEG_MARKER_AFTER_SCAN.search(content, position)
            position = after.start() if after else len(content)
    if not sides or not has_scan:
        raise ValueError("no frame or no scan")
    return sides[1], sides[0]


# Commands


class Memory:
    def __init__(self, directory, overwrites, cap):
        self.base = os.open(directory, os.O_RDONLY)
        self.overwrites = overwrites
        self.cap = cap

    def run(self, fields):
        commands = {
            "view": self.view,
            "create": self.create,
            "str_replace": self.str_replace,
            "insert": self.insert,
            "delete": self.delete,
            "rename": self.rename,
        }
        command = text_field(fields, "command")
        if command not in commands:
            raise Refusal(f"Error: Unknown command {quoted(command)}. The commands are {', '.join(commands)}.")
        fcntl.flock(self.base, fcntl.LOCK_EX)
        try:
            if command != "view":
                self.discard_staged()  # of a program that was killed
            return commands[command](fields)
        finally:
            fcntl.flock(self.base, fcntl.LOCK_UN)

    def view(self, fields):
        path = path_field(fields, "path")
        view_range = fields.get("view_range")
        if not isinstance(view_range, (list, type(None))):
            raise Refusal("Error: The field view_range must be an array of two integers")
        with Place(self.base, path) as place:
            kind = place.kind()
            if kind == FILE:
                return self.view_file(path, view_range, place.read())
            if kind == DIRECTORY or path == ROOT:
                return self.view_directory(path, view_range, place)
            raise Refusal(f"The path {path} does not exist. Please provide a valid path.")

    def view_file(self, path, view_range, content):
        if path.lower().endswith(IMAGE_NAMES) and not is_utf8(content):
            return [image_block(path, content)]
        lines = decoded(path, content).split("\n")
        if len(lines) > MAX_LINES:
            raise Refusal(f"File {path} exceeds maximum line limit of {MAX_LINES:,} lines.")
        chosen = (1, len(lines)) if view_range is None else selected(view_range, len(lines))
        if chosen is None:
            shown = ", ".join(spelled(number) for number in view_range)
            raise Refusal(
                f"Error: Invalid `view_range` parameter: [{shown}]. "
                f"It should be within the range of lines of the file: [1, {len(lines)}]"
            )
        return f"Here's the content of {path} with line numbers:\n" + capped(lines, *chosen, self.cap)

    def view_directory(self, path, view_range, place):
        lines = listing(path, place.contents)
        chosen = selected(view_range or [], len(lines)) or (1, len(lines))
        return (
            f"Here're the files and directories up to {LISTED_LEVELS} levels deep in {path}, "
            "excluding hidden items and node_modules:\n"
        ) + capped(lines, *chosen, self.cap, lambda _, line: line, unlisted(path, place.contents))

    def create(self, fields):
        path = path_field(fields, "path")
        text = content_field(fields, "file_text")
        if path == ROOT:
            raise Refusal(f"Error: File {path} already exists")
        with Place(self.base, path) as place:
            place.refuse_file_above()
            kind = place.kind()
            if kind in (DIRECTORY, TAKEN) or (kind == FILE and not self.overwrites):
                raise Refusal(f"Error: File {path} already exists")
            self.write(place, text)
        return f"File created successfully at: {path}"

    def str_replace(self, fields):
        path = path_field(fields, "path")
        old = content_field(fields, "old_str")
        new = "" if fields.get("new_str") is None else content_field(fields, "new_str")
        with Place(self.base, path) as place:
            if place.kind() != FILE:
                raise Refusal(f"Error: The path {path} does not exist. Please provide a valid path.")
            text = decoded(path, place.read())
            if old == "":
                raise Refusal("Error: The field old_str must not be empty")
            parts = text.split(old)
            if len(parts) == 1:
                raise Refusal(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
            if len(parts) > 2:
                numbers, number, lines_of_old = [], 1, old.count("\n")
                for part in parts[:-1]:
                    number += part.count("\n")
                    numbers.append(number)
                    number += lines_of_old
                raise Refusal(
                    f"No replacement was performed. Multiple occurrences of old_str `{old}` "
                    f"in lines: {', '.join(map(str, numbers))}. Please ensure it is unique"
                )
            edited = parts[0] + new + parts[1]
            self.write(place, edited)
        lines = edited.split("\n")
        changed = parts[0].count("\n") + 1
        first, last = max(changed - 2, 1), min(changed + 2, len(lines))
        snippet = "\n".join(numbered(number, lines[number - 1]) for number in range(first, last + 1))
        if len(snippet) > self.cap:
            snippet = capped(lines, changed, last, self.cap)
        return "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n" + snippet

    def insert(self, fields):
        path = path_field(fields, "path")
        text = content_field(fields, "insert_text", "new_str")
        line = as_integer(fields.get("insert_line"))
        if line is None:
            raise Refusal("Error: The field insert_line must be an integer")
        with Place(self.base, path) as place:
            if place.kind() != FILE:
                raise Refusal(f"Error: The path {path} does not exist")
            lines = decoded(path, place.read()).split("\n")
            if not 0 <= line <= len(lines):
                raise Refusal(
                    f"Error: Invalid `insert_line` parameter: {spelled(line)}. "
                    f"It should be within the range of lines of the file: [0, {len(lines)}]"
                )
            lines.insert(line, text.removesuffix("\n"))
            self.write(place, "\n".join(lines))
        return f"The file {path} has been edited."

    def delete(self, fields):
        path = path_field(fields, "path")
        if path == ROOT:
            raise Refusal(f"Error: Cannot delete the {ROOT} directory itself")
        with Place(self.base, path) as place:
            kind = place.kind()
            if kind == FILE:
                os.unlink(place.name, dir_fd=place.parent)
            elif kind == DIRECTORY:
                refuse_protected(place)
                os.rename(place.name, STAGED, src_dir_fd=place.parent, dst_dir_fd=self.base)
            else:
                raise Refusal(f"Error: The path {path} does not exist")
            place.settle()
        self.discard_staged()
        return f"Successfully deleted {path}"

    def rename(self, fields):
        old_path = path_field(fields, "old_path", "path")
        new_path = path_field(fields, "new_path")
        if old_path == ROOT:
            raise Refusal(f"Error: Cannot rename the {ROOT} directory itself")
        with Place(self.base, old_path) as old, Place(self.base, new_path) as new:
            kind = old.kind()
            if kind not in (FILE, DIRECTORY):
                raise Refusal(f"Error: The path {old_path} does not exist")
            new.refuse_file_above()
            if new_path == ROOT or new.kind() in (FILE, DIRECTORY, TAKEN):
                raise Refusal(f"Error: The destination {new_path} already exists")
            if new_path.startswith(old_path + "/"):
                raise Refusal(f"Error: Cannot move {old_path} into its own subdirectory {new_path}")
            if kind == DIRECTORY:
                refuse_long_paths(old, old_path, new_path)
            new.make_room()
            try:
                os.rename(old.name, new.name, src_dir_fd=old.parent, dst_dir_fd=new.parent)
            except OSError:
                new.settle()
                raise
            os.fsync(new.parent)
            old.settle()
        return f"Successfully renamed {old_path} to {new_path}"

    def write(self, place, text):
        """Replaces the file in one step, and returns when that is on the disk."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            with open(STAGED, "wb", opener=lambda name, _: os.open(name, flags, 0o600, dir_fd=self.base)) as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            place.make_room()
            os.rename(STAGED, place.name, src_dir_fd=self.base, dst_dir_fd=place.parent)
            os.fsync(place.parent)
        except OSError:
            self.discard_staged()
            place.settle()
            raise

    def discard_staged(self):
        remove_tree(self.base, STAGED)


def refuse_long_paths(place, old_path, new_path):
    for path, size, _ in place.contents:
        moved = new_path + path.removeprefix(old_path)
        if size is not None and len(moved.encode()) > MAX_PATH_BYTES:
            raise Refusal(f"Error: Path {quoted(moved)} is longer than {MAX_PATH_BYTES} bytes")


def refuse_protected(place):
    """Refuses to delete a directory of which a part would remain."""

    def refuse(error):
        raise error

    for _, _, _, directory in os.fwalk(place.name, dir_fd=place.parent, onerror=refuse):
        if not os.access(".", os.R_OK | os.W_OK | os.X_OK, dir_fd=directory):
            raise PermissionError(f"no access to a directory in {place.path}")


def visible_names(path, item):
    """The names that lead from the directory to the item, and how many of them precede a hidden one."""
    names = item.removeprefix(path).split("/")[1:]
    hidden = [level for level, name in enumerate(names) if name.startswith(".") or name == "node_modules"]
    return names, min(hidden, default=len(names))


def unlisted(path, contents):
    """The line that counts the visible items that the listing lacks, if there are any."""
    items = [(visible_names(path, item), reason) for item, _, reason in contents]
    found = [reason for (names, visible), reason in items if visible == len(names)]
    counts = [(found.count(reason), reason) for reason in (UNREADABLE, ILLEGAL) if reason in found]
    reasons = ", ".join(f"{count} {reason}" for count, reason in counts)
    return [f"[{sum(count for count, _ in counts)} items could not be listed: {reasons}.]"] if counts else []


def listing(path, contents):
    """The lines for the directory and the visible items in it."""
    sizes = {path: 0}
    for file, size, _ in contents:
        if size is None:
            continue
        names, visible = visible_names(path, file)
        size = size if visible == len(names) else 0
        sizes[path] += size
        for level in range(1, min(visible, LISTED_LEVELS) + 1):
            item = "/".join([path, *names[:level]]) + ("/" if level < len(names) else "")
            sizes[item] = sizes.get(item, 0) + size
    return [f"{size_text(size)}\t{item}" for item, size in sizes.items()]


# The disk. Each name is opened in the directory above it, so that no symbolic link is followed.


class Place:
    """A path of the memory on the disk."""

    def __init__(self, base, path):
        self.base, self.path = base, path
        *above, self.name = path.split("/")[1:]
        self.above, self.missing, self.file_above = above, [], None
        self.contents = []
        self.parent = os.dup(base)
        try:
            for depth, name in enumerate(above):
                mode = self.mode_of(name)
                if mode is None:
                    self.missing = above[depth:]
                    break
                if not stat.S_ISDIR(mode):
                    self.file_above = "/".join(["", *above[: depth + 1]])
                    break
                self.descend(name)
        except BaseException:
            os.close(self.parent)
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.parent)

    def descend(self, name):
        child = os.open(name, OPEN_DIRECTORY, dir_fd=self.parent)
        os.close(self.parent)
        self.parent = child

    def mode_of(self, name):
        """The mode of a file or directory, or None."""
        try:
            mode = os.stat(name, dir_fd=self.parent, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(mode):
            raise Refusal(f"Error: Path {self.path} would escape {ROOT} directory via a symbolic link")
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise Refusal(f"Error: Path {self.path} leads to a pipe, socket or device: {name}")
        return mode

    def kind(self):
        if self.missing or self.file_above:
            return NOTHING
        mode = self.mode_of(self.name)
        if mode is None:
            return NOTHING
        if stat.S_ISREG(mode):
            return FILE
        self.contents = list(walk(self.parent, self.name, self.path))
        if any(size is not None for _, size, _ in self.contents):
            return DIRECTORY
        return TAKEN if self.contents else EMPTY

    def refuse_file_above(self):
        if self.file_above:
            raise Refusal(f"Error: Cannot make {self.path}, because {self.file_above} is a file")

    def read(self):
        flags = os.O_NOFOLLOW | os.O_NONBLOCK
        with open(self.name, "rb", opener=lambda name, _: os.open(name, flags, dir_fd=self.parent)) as file:
            return file.read()

    def make_room(self):
        """Makes the directories above, and removes an empty directory at the path."""
        for name in self.missing:
            os.mkdir(name, 0o700, dir_fd=self.parent)
            os.fsync(self.parent)
            self.descend(name)
        self.missing = []
        if self.kind() == EMPTY:
            remove_tree(self.parent, self.name)

    def settle(self):
        """Removes the directories above that are empty now, and flushes the one that remains."""
        prune(self.base, self.above)


def walk(parent, name, path):
    """The path of each item in order, with its size if it is a file, and the reason why it is not listed."""
    directory = os.open(name, OPEN_DIRECTORY, dir_fd=parent)
    try:
        with os.scandir(directory) as entries:
            entries = sorted(entries, key=lambda entry: os.fsencode(entry.name))
        for entry in entries:
            item = f"{path}/{entry.name}"
            is_directory = entry.is_dir(follow_symlinks=False)
            if not is_directory and not entry.is_file(follow_symlinks=False):
                yield item, None, SPECIAL
            elif not is_legal(item):
                yield item, None, ILLEGAL
            elif not is_directory:
                yield item, entry.stat(follow_symlinks=False).st_size, None
            else:
                try:
                    yield from list(walk(directory, entry.name, item))
                except PermissionError:
                    yield item, None, UNREADABLE
    finally:
        os.close(directory)


def prune(directory, names):
    if names:
        try:
            child = os.open(names[0], OPEN_DIRECTORY, dir_fd=directory)
        except FileNotFoundError:
            return
        try:
            prune(child, names[1:])
        finally:
            os.close(child)
        try:
            os.rmdir(names[0], dir_fd=directory)
        except OSError:
            return  # it has other files
    os.fsync(directory)


def remove_tree(parent, name):
    try:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        directory = os.open(name, OPEN_DIRECTORY, dir_fd=parent)
        try:
            for child in os.listdir(directory):
                remove_tree(directory, child)
        finally:
            os.close(directory)
        os.rmdir(name, dir_fd=parent)
    else:
        os.unlink(name, dir_fd=parent)


if __name__ == "__main__":
    main(sys.argv[1:])
