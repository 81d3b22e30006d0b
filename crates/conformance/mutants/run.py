#!/usr/bin/env python3
"""Tests the conformance suite: makes faulty copies of a correct driver, and runs the suite on each.

    run.py --program memory-tool             runs each chosen mutant that has no outcome yet, and writes results.md
    run.py --program memory-tool --sample 10 checks every tenth mutant that is recorded as caught

Each mutant is examples/drivers/contract/driver.py with a single fault. outcomes.json records the case that caught it, null
if it passes all cases, or the next stage of its run. survivors.json explains by hand each mutant that passes all:
`equivalent` ones behave like the driver, `allowed` ones differently but as the contract allows, and the rest are gaps.
documentation.json has further faults, which the checks of the basis `documentation` must catch.
"""

import argparse
import ast
import copy
import hashlib
import importlib.util
import json
import marshal
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
DRIVER = ROOT / "examples/drivers/contract/driver.py"
CONTRACT = (ROOT / "docs/contract.md").read_text()
CHOSEN = 320
# Cheap cases that use every command.
FIRST_CASES = ["wire.block", "beyond.many-edits", "rename.directory", "delete.directory", "view.documented-listing"]
# The cases of a function's command or topic, which run before all others.
CASES_OF = {
    "checked_path": "paths.", "problem_of": "paths.", "is_unprintable": "paths.", "has_encoded_traversal": "paths.",
    "quoted": "paths.", "as_integer": "wire.", "spelled": "view.range", "selected": "view.range", "capped": "view.",
    "long_line_note": "view.", "numbered": "view.", "size_text": "view.size", "image_type": "view.", "listing": "view.",
    "main": "view.", "respond": "wire.", "parse": "wire.", "refuse_constant": "wire.", "parse_integer": "wire.",
    "run_request": "wire.", "is_unicode": "wire.", "text_field": "wire.", "path_field": "wire.", "decoded": "view.not",
    "Memory.run": "wire.", "Memory.view": "view.", "Memory.view_file": "view.", "Memory.view_directory": "view.",
    "Memory.create": "create.", "Memory.str_replace": "str_replace.", "Memory.insert": "insert.",
    "Memory.delete": "delete.", "Memory.rename": "rename.", "refuse_long_paths": "beyond.",
}  # fmt: skip
# The disk's functions, the lock and the flushes: the cases that look at the disk come first.
DISK_CASES = ("plain_files.", "power_loss.", "leftovers.", "disk.")
SLOW_CASES = ("sizes.",)
# The cases that neither kill the program nor look at how it works.
SERVED_CASES = ("wire.", "paths.", "view.", "create.", "str_replace.", "insert.", "delete.", "rename.", "beyond.", "lines.")
STAGES = ("topic", "disk", "commands", "others")
TEMPORARY = "/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None

COMPARISONS = {
    ast.Lt: [ast.LtE, ast.GtE], ast.LtE: [ast.Lt, ast.Gt], ast.Gt: [ast.GtE, ast.LtE], ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq], ast.NotEq: [ast.Eq], ast.In: [ast.NotIn], ast.NotIn: [ast.In], ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
}  # fmt: skip
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.FloorDiv, ast.Pow: ast.Mult}
METHODS = {
    "startswith": "endswith", "endswith": "startswith", "removeprefix": "removesuffix", "removesuffix": "removeprefix",
    "strip": "rstrip", "rstrip": "strip", "find": "rfind", "index": "count", "append": "extend", "search": "match",
    "match": "search", "unlink": "rmdir", "rename": "link", "get": "pop",
}  # fmt: skip
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any", "dict": "list"}
# Calls that are replaced by their first argument, or the object of the method.
UNWRAPPED = {"sorted", "list", "round", "int", "fsencode", "encode", "bool", "cache", "str", "len"}
DURABILITY = {"fsync", "flock", "flush", "discard_staged", "settle", "make_room", "umask", "close", "remove_tree", "prune"}
ONE_TREE = threading.Lock()

# The program that the suite starts in most cases: it asks the server below for a process with its own pipes, and waits.
CLIENT = """exec 5<&0 6>&1 7>&2
echo "$$ $*" > {pipe}
kill -STOP $$
"""
# Starting Python anew would take most of the time of a run. The processes belong to the client's group, so that the
# suite can kill them.
SERVER = """
import binascii, fcntl, functools, json, marshal, os, re, signal, stat, sys, unicodedata
code = marshal.loads(open(sys.argv[1], "rb").read()[16:])
pipe = open(os.open(sys.argv[2], os.O_RDWR), "r")
clients = {}
def reap(*_):
    while clients:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not ended:
            return
        try:
            os.kill(clients.pop(ended), signal.SIGKILL)
        except (KeyError, ProcessLookupError):
            pass
signal.signal(signal.SIGCHLD, reap)
while True:
    client, *words = pipe.readline().split()
    client = int(client)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        try:
            os.setpgid(0, client)
            for number, flags in enumerate([os.O_RDONLY, os.O_WRONLY, os.O_WRONLY]):
                opened = os.open(f"/proc/{client}/fd/{number + 5}", flags)
                os.dup2(opened, number)
                os.close(opened)
            os.close(pipe.fileno())
            sys.argv = ["driver.py", *words]
            exec(code, {"__name__": "__main__"})
            sys.stdout.flush()
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(1)
        os._exit(0)
    clients[child] = client
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
"""


class Mutant:
    def __init__(self, function, kind, line, slot, replacement):
        self.function, self.kind, self.line, self.slot, self.replacement = function, kind, line, slot, replacement
        holder, name, index = slot
        before = getattr(holder, name) if index is None else getattr(holder, name)[index]
        self.key = f"{function} | {kind} | {shown(before)} → {shown(replacement)}"


def shown(node):
    text = " ".join(ast.unparse(ast.fix_missing_locations(node)).split())
    return text if len(text) <= 120 else f"{text[:100]}… {hashlib.sha256(text.encode()).hexdigest()[:6]}"


def all_mutants(tree):
    found, used = [], {}
    for function, slot, node in nodes(tree):
        for kind, replacement in faults(node, slot):
            mutant = Mutant(function, kind, getattr(node, "lineno", 0), slot, replacement)
            used[mutant.key] = used.get(mutant.key, 0) + 1
            if used[mutant.key] > 1:
                mutant.key += f" #{used[mutant.key]}"
            found.append(mutant)
    return found


def nodes(node, function="module"):
    """Each node with its function, and the place that holds it."""
    for name, value in ast.iter_fields(node):
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or name in ("decorator_list", "ctx", "ops", "op"):
                continue
            is_scope = isinstance(child, (ast.FunctionDef, ast.ClassDef))
            inside = function
            if is_scope:
                inside = child.name if function == "module" else f"{function}.{child.name}"
            if not is_documentation(child):
                yield inside, (node, name, index), child
                yield from nodes(child, inside)


def is_documentation(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def with_field(node, **fields):
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def without(items, index):
    return items[:index] + items[index + 1 :]


def faults(node, slot):
    """The kind and the replacement of each fault in a node."""
    match node:
        case ast.Compare():
            for index, operator in enumerate(node.ops):
                for other in COMPARISONS[type(operator)]:
                    ops = node.ops[:index] + [other()] + node.ops[index + 1 :]
                    yield "comparison", with_field(node, ops=ops)
        case ast.BoolOp():
            yield "boolean", with_field(node, op=ast.And() if isinstance(node.op, ast.Or) else ast.Or())
            for index in range(len(node.values)):
                rest = without(node.values, index)
                yield "boolean", rest[0] if len(rest) == 1 else with_field(node, values=rest)
        case ast.UnaryOp(op=ast.Not()):
            yield "boolean", node.operand
        case ast.BinOp():
            if isinstance(node.op, ast.BitOr):
                yield "flag", node.left
                yield "flag", node.right
            elif type(node.op) in ARITHMETIC:
                yield "arithmetic", with_field(node, op=ARITHMETIC[type(node.op)]())
        case ast.Constant():
            yield from faults_of_constant(node, slot)
        case ast.Slice():
            for name in ("lower", "upper"):
                if bound := getattr(node, name):
                    yield "slice", with_field(node, **{name: None})
                    yield "slice", with_field(node, **{name: ast.BinOp(bound, ast.Add(), ast.Constant(1))})
                    yield "slice", with_field(node, **{name: ast.BinOp(bound, ast.Sub(), ast.Constant(1))})
        case ast.Call():
            yield from faults_of_call(node)
        case ast.Tuple() | ast.List() if isinstance(node.ctx, ast.Load):
            for index in range(len(node.elts)):
                yield "element", with_field(node, elts=without(node.elts, index))
        case ast.Dict():
            for index in range(len(node.keys)):
                yield "element", with_field(
                    node, keys=without(node.keys, index), values=without(node.values, index)
                )
        case ast.For():
            items = ast.Call(ast.Name("list", ast.Load()), [node.iter], [])
            rest = ast.Subscript(items, ast.Slice(ast.Constant(1)), ast.Load())
            yield "loop", with_field(node, iter=rest)
        case ast.ExceptHandler():
            yield "exception", with_field(node, type=ast.Name("ZeroDivisionError", ast.Load()))
            yield "exception", with_field(node, type=ast.Name("BaseException", ast.Load()))
        case ast.Break():
            yield "loop", ast.Continue()
            yield "loop", ast.Pass()
        case ast.Expr(value=ast.Call(func=function)):
            name = getattr(function, "attr", getattr(function, "id", ""))
            yield "durability" if name in DURABILITY else "statement", ast.Pass()
        case ast.Assign() | ast.AugAssign() | ast.Raise() | ast.Delete():
            yield "statement", ast.Pass()
            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
                yield "arithmetic", ast.Assign([node.target], node.value)
        case ast.Return(value=ast.expr()):
            yield "statement", ast.Return(None)
    if slot[1] == "test" or (isinstance(slot[0], ast.comprehension) and slot[1] == "ifs"):
        yield "condition", ast.Constant(True)
        yield "condition", ast.Constant(False)


def faults_of_constant(node, slot):
    value = node.value
    if isinstance(value, bool):
        yield "constant", ast.Constant(not value)
    elif isinstance(value, int):
        yield "constant", ast.Constant(value + 1)
        yield "constant", ast.Constant(value - 1)
    elif isinstance(value, (str, bytes)) and value and is_fixed(value):
        middle = len(value) // 2
        changed = "x" if isinstance(value, str) else b"x"
        if value[middle : middle + 1] == changed:
            changed = changed.upper()
        yield "string", ast.Constant(value[:middle] + changed + value[middle + 1 :])
        yield "string", ast.Constant(value[1:])
        if len(value) > 1:
            yield "string", ast.Constant(value[:-1])
        if isinstance(value, str) and value.strip() != value:
            yield "string", ast.Constant(value.strip())


def is_fixed(text):
    """Whether a text is not only the driver's own wording, which no test may require."""
    if isinstance(text, bytes) or " " not in text.strip():
        return True
    return text.strip(" `[].\n") in CONTRACT.replace("\n", " ").replace("  ", " ")


def faults_of_call(node):
    function = node.func
    name = getattr(function, "attr", getattr(function, "id", ""))
    if isinstance(function, ast.Attribute) and name in METHODS:
        yield "call", with_field(node, func=with_field(function, attr=METHODS[name]))
    if isinstance(function, ast.Name) and name in FUNCTIONS:
        yield "call", with_field(node, func=ast.Name(FUNCTIONS[name], ast.Load()))
    if name in UNWRAPPED and not (isinstance(function, ast.Name) and not node.args):
        is_method = isinstance(function, ast.Attribute) and not node.args
        yield "call", function.value if is_method else node.args[0]
    if name == "decode" and not node.args and not node.keywords:
        for encoding in ("utf-8-sig", "latin-1"):
            yield "encoding", with_field(node, args=[ast.Constant(encoding)])
        yield "encoding", with_field(node, keywords=[ast.keyword("errors", ast.Constant("replace"))])
    if name == "split" and node.args:
        yield "call", ast.Call(with_field(function, attr="splitlines"), [], [])
    if len(node.args) >= 2:
        yield "arguments", with_field(node, args=[node.args[1], node.args[0], *node.args[2:]])
        yield "arguments", with_field(node, args=node.args[:-1])
    for index in range(len(node.keywords)):
        yield "arguments", with_field(node, keywords=without(node.keywords, index))


def digest(mutant):
    return hashlib.sha256(mutant.key.encode()).digest()


def chosen_mutants(tree):
    """Always the same ones: all of durability, and of each function and kind in turn."""
    groups = {}
    for mutant in sorted(all_mutants(tree), key=digest):
        groups.setdefault((mutant.kind, mutant.function), []).append(mutant)
    chosen = [mutant for (kind, _), group in groups.items() if kind == "durability" for mutant in group]
    rest = [group for (kind, function), group in sorted(groups.items(), key=lambda item: item[0]) if kind != "durability"]
    while len(chosen) < CHOSEN:
        one_of_each = [group.pop(0) for group in rest if group]
        chosen += sorted(one_of_each, key=digest)[: CHOSEN - len(chosen)]
    return sorted(chosen, key=lambda mutant: (mutant.line, mutant.key))


def compiled(tree, mutant):
    """The bytecode of a mutant, which starts faster than its source."""
    holder, name, index = mutant.slot
    with ONE_TREE:
        fields = getattr(holder, name)
        replaced = mutant.replacement
        if index is not None:
            replaced = [*fields[:index], mutant.replacement, *fields[index + 1 :]]
        setattr(holder, name, replaced)
        try:
            return bytecode(tree)
        finally:
            setattr(holder, name, fields)


def bytecode(tree):
    code = compile(ast.fix_missing_locations(tree), "driver.py", "exec", dont_inherit=True)
    return importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code)


class Suite:
    def __init__(self, program, basis="project"):
        self.program, self.basis, self.catches = program, basis, Counter()
        listed = subprocess.run([program, "conformance", "--list"], check=True, capture_output=True, text=True).stdout
        self.ids = [line.split()[0] for line in listed.splitlines() if re.match(r"[a-z_]+\.[a-z]", line)]

    def first_failure(self, code, function="", stages=STAGES, known=None):
        """The case that catches a program, or None."""
        batches = [[known]] if known else [batch for stage in stages for batch in self.batches(function, stage)]
        with tempfile.TemporaryDirectory(dir=TEMPORARY) as directory:
            driver, pipe = pathlib.Path(directory) / "driver.pyc", pathlib.Path(directory) / "pipe"
            driver.write_bytes(code)
            (driver.parent / "client").write_text(CLIENT.format(pipe=pipe))
            os.mkfifo(pipe)
            server = subprocess.Popen([sys.executable, "-SEI", "-c", SERVER, driver, pipe], stderr=subprocess.DEVNULL)
            try:
                for cases in batches:
                    for case in self.failures(driver, cases):
                        # A failure that does not come back is one of the machine.
                        if case in FIRST_CASES or case in self.failures(driver, [case]):
                            self.catches[case] += 1
                            return case
            finally:
                server.kill()
                server.wait()
        return None

    def batches(self, function, stage):
        """Some of the cases, in an order in which the first ones probably fail."""
        served = [case for case in self.ids if case.startswith(SERVED_CASES)]
        slow = [case for case in self.ids if case.startswith(SLOW_CASES)]
        disk = [case for case in self.ids if case.startswith(DISK_CASES)]
        others = [case for case in self.ids if case not in served + slow + disk]
        topic = [case for case in served if case.startswith(CASES_OF.get(function, "plain_files."))]
        served = [case for case in served if case not in topic]
        stages = {
            "topic": ((FIRST_CASES, 5), (topic, 12)),
            "disk": ((disk, 12),),
            "commands": ((served, 40),),
            "others": ((others, 12), (slow, 12)),
        }
        batches, done = [], set(FIRST_CASES if stage != "topic" else [])
        for cases, size in stages[stage]:
            rest = sorted((case for case in cases if case not in done), key=lambda case: -self.catches[case])
            batches += [rest[start : start + size] for start in range(0, len(rest), size)]
            done.update(rest)
        return batches

    def failures(self, driver, cases):
        if all(case.startswith(SERVED_CASES) for case in cases):
            command = f"sh {driver.parent / 'client'} {{dir}} {{options}}"
        else:
            command = f"{sys.executable} -SEI {driver} {{dir}} {{options}}"
        words = [self.program, "conformance", "--command", command, "--plain-files", "{dir}/memories"]
        patience = "60" if cases[0].startswith(SLOW_CASES) else "10"
        words += ["--basis", self.basis, "--format", "json", "--jobs", "4", "--timeout", patience]
        for case in cases:
            words += ["--filter", case]
        try:
            ran = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=driver.parent)
        except subprocess.TimeoutExpired:
            return [cases[0]]
        if not ran.stdout:
            if "--help" in ran.stderr or "filter" in ran.stderr:
                raise RuntimeError(ran.stderr)
            return [cases[0]]  # the program ends at once or never responds
        return [result["id"] for result in json.loads(ran.stdout)["results"] if result["outcome"] == "failed"]


def read(name):
    path = HERE / name
    return json.loads(path.read_text()) if path.exists() else {}


def write(name, value):
    (HERE / name).write_text(json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


def run_each(jobs, tasks, end):
    """Yields each name with its outcome, and begins no task after the time is over."""

    def run(task):
        name, act = task
        return (name, act()) if time.monotonic() < end else None

    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(run, task) for task in tasks]):
            if outcome := done.result():
                print(f"{'survived' if outcome[1] is None else 'caught by ' + outcome[1]}: {outcome[0]}", flush=True)
                yield outcome


def run_mutants(arguments, tree, mutants):
    suite, outcomes = Suite(arguments.program), read("outcomes.json")
    keys = {mutant.key for mutant in mutants}
    outcomes = {key: case for key, case in outcomes.items() if key in keys}
    suite.catches.update(outcomes.values())
    if arguments.again:
        outcomes = {key: case for key, case in outcomes.items() if case}
    # The first cases catch most mutants, so all mutants run them before any runs the others. The outcome of a mutant that
    # passed a stage is the next one.
    for stage, next_stage in zip(STAGES, [*STAGES[1:], None]):
        tasks = [
            (mutant.key, lambda mutant=mutant: suite.first_failure(compiled(tree, mutant), mutant.function, [stage]))
            for mutant in sorted(mutants, key=digest)
            if outcomes.get(mutant.key, STAGES[0]) == stage
        ]
        for key, case in run_each(arguments.jobs, tasks, arguments.end):
            outcomes[key] = case or next_stage
            write("outcomes.json", outcomes)
    waiting = [key for key in keys if outcomes.get(key, STAGES[0]) in STAGES]
    print(f"{len(waiting)} mutants have no outcome yet")
    return outcomes


def documented_faults():
    source = DRIVER.read_text()
    for fault in read("documentation.json"):
        old, new = fault["replace"]
        if source.count(old) != 1:
            raise SystemExit(f"documentation.json: {old!r} occurs {source.count(old)} times in the driver")
        yield fault, bytecode(ast.parse(source.replace(old, new)))


def run_documented(arguments):
    suite, faults = Suite(arguments.program, "documentation"), read("documentation.json")
    by_name = {json.dumps(fault["replace"]): fault for fault in faults}
    tasks = [
        (json.dumps(fault["replace"]), lambda code=code: suite.first_failure(code))
        for fault, code in documented_faults()
        if "caught_by" not in fault or (arguments.again and fault["caught_by"] is None)
    ]
    for name, case in run_each(arguments.jobs, tasks, arguments.end):
        by_name[name]["caught_by"] = case
        (HERE / "documentation.json").write_text(json.dumps(faults, indent=1, ensure_ascii=False) + "\n")


def sample(arguments, tree):
    """Checks that the driver passes, and that every nth recorded mutant still fails its case."""
    suite, outcomes = Suite(arguments.program), read("outcomes.json")
    if case := suite.first_failure(bytecode(tree)):
        raise SystemExit(f"the driver fails {case}")
    recorded = [key for key, case in outcomes.items() if case not in (None, *STAGES)]
    caught = [mutant for mutant in all_mutants(tree) if mutant.key in recorded]
    if len(caught) < 0.9 * len(recorded):
        raise SystemExit("outcomes.json does not fit the driver: run all mutants")
    tasks = [
        (mutant.key, lambda mutant=mutant: suite.first_failure(compiled(tree, mutant), known=outcomes[mutant.key]))
        for mutant in caught[:: arguments.sample]
    ]
    survivors = [key for key, case in run_each(arguments.jobs, tasks, arguments.end) if case is None]
    if survivors:
        raise SystemExit("these mutants are recorded as caught, and survive:\n" + "\n".join(survivors))
    print(f"{len(tasks)} recorded mutants are still caught")


def report(mutants, outcomes):
    """Writes results.md."""
    explained = {key: (kind, why) for kind, keys in read("survivors.json").items() for key, why in keys.items()}
    unfinished = sum(1 for case in outcomes.values() if case in STAGES)
    outcomes = {key: None if case in STAGES else case for key, case in outcomes.items()}
    survivors = [mutant for mutant in mutants if outcomes.get(mutant.key, "") is None]
    groups = {name: [] for name in ("gap", "allowed", "equivalent")}
    for mutant in survivors:
        groups[explained.get(mutant.key, ("gap", ""))[0]].append(mutant)
    gaps, allowed, equivalent = groups.values()
    counted = len(outcomes) - len(allowed) - len(equivalent)
    caught = sum(1 for case in outcomes.values() if case)
    waiting = f" {unfinished} of the survivors have not run all cases yet." if unfinished else ""
    lines = [
        "# Results of the mutation runs\n",
        "`run.py` writes this page.\n",
        "## Mutants of the driver\n",
        f"{len(outcomes)} mutants. {len(equivalent)} are equivalent to the driver, and {len(allowed)} differ in a way that the "
        f"contract allows, so they are no faults. The suite catches {caught} of the other {counted}: "
        f"{100 * caught / counted:.1f} %.{waiting}\n",
        "| kind | caught | gaps | allowed | equivalent |\n|---|---|---|---|---|",
    ]
    for kind in sorted({mutant.kind for mutant in mutants}):
        of_kind = [mutant for mutant in mutants if mutant.kind == kind]
        numbers = [sum(1 for mutant in of_kind if outcomes.get(mutant.key)), *(count(of_kind, group) for group in groups.values())]
        lines.append(f"| {kind} | {' | '.join(map(str, numbers))} |")
    titles = {"gap": "Gaps", "allowed": "Mutants that the contract allows", "equivalent": "Equivalent mutants"}
    for name, group in groups.items():
        lines.append(f"\n### {titles[name]}\n\n| line | mutant | explanation |\n|---|---|---|")
        for mutant in group:
            _, why = explained.get(mutant.key, ("", "not explained"))
            lines.append(f"| {mutant.line} | {cell(mutant.key)} | {why} |")
    faults = read("documentation.json")
    ran = [fault for fault in faults if "caught_by" in fault]
    found = [fault for fault in ran if fault["caught_by"]]
    lines += [
        "\n## Faults against the documentation\n",
        "Each fault of `documentation.json` breaks a statement of the documentation, and was chosen by hand. Only checks of "
        f"the basis `documentation` count. They catch {len(found)} of {len(ran)}: {100 * len(found) / max(len(ran), 1):.1f} %.\n",
        "| statement | fault | explanation |\n|---|---|---|",
    ]
    for fault in ran:
        if not fault["caught_by"]:
            old, new = fault["replace"]
            lines.append(f"| {fault['statement']} | {cell(old + ' → ' + new)} | {fault.get('why', 'not explained')} |")
    paragraphs = [line if line.startswith(("|", "\n#", "#")) else textwrap.fill(line, 120) + "\n" for line in lines]
    (HERE / "results.md").write_text("\n".join(paragraphs) + "\n")


def count(mutants, group):
    return sum(1 for mutant in mutants if mutant in group)


def cell(text):
    return "`` " + " ".join(text.split()).replace("|", "\\|") + " ``"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no mutant after this time")
    parser.add_argument("--again", action="store_true", help="also run the mutants again that survived")
    parser.add_argument("--sample", type=int, metavar="N", help="only check every Nth recorded mutant")
    arguments = parser.parse_args()
    # The usual limit, so that a leak of file descriptors ends a long session.
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    arguments.end = time.monotonic() + arguments.seconds
    tree = ast.parse(DRIVER.read_text())
    mutants = chosen_mutants(tree)
    if arguments.sample:
        return sample(arguments, tree)
    outcomes = run_mutants(arguments, tree, mutants)
    run_documented(arguments)
    report(mutants, outcomes)


if __name__ == "__main__":
    main()
