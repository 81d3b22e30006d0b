"""The history of a memory. `test_scenarios.py` has more tests of it."""

import inspect

from memory_tool import History
from memory_tool.history import AsyncHistory


def test_both_classes_have_the_same_methods():
    def methods(of):
        return {name: inspect.signature(method) for name, method in inspect.getmembers(of, inspect.isfunction)}

    sync, coroutines = methods(History), methods(AsyncHistory)
    assert sync.keys() == coroutines.keys()
    assert all(sync[name].parameters == coroutines[name].parameters for name in sync if name != "__init__")
