"""The doors of folders: what an `__init__` imports for type checkers is public, and loaded when it is asked for.

    if TYPE_CHECKING:
        from unlazy.theory.regression.ridge import RidgeEquivalent, ridge_equivalent

    lazily(__name__)

One list serves editors, type checkers, `dir` and the reader, and naming a module in it costs no start-up time. What is
not listed is the folder's own business: the contract `doors` of import-linter holds it.
"""

import sys


def lazily(package: str) -> None:
    """Give the package `__all__`, `__dir__`, and a `__getattr__` that loads what it imports for type checkers."""
    module = sys.modules[package]
    table: dict[str, str] = {}

    def listed() -> dict[str, str]:
        # Not before anybody asks: until `unlazy.__main__` runs, Ctrl-C is a traceback.
        if not table:
            table.update(contents(package))
        return table

    def load(name: str) -> object:
        import importlib

        found: object
        if name == "__all__":
            found = sorted(listed())
        elif (home := listed().get(name)) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        elif home == package:
            found = importlib.import_module(f"{package}.{name}")
        else:
            found = getattr(importlib.import_module(home), name)
        setattr(module, name, found)
        return found

    vars(module).update(__dir__=lambda: sorted({*vars(module), *listed(), "__all__"}), __getattr__=load)


def contents(package: str) -> dict[str, str]:
    """The names that a package's `__init__` lists and the modules that have them; `*` is the list of another door.

    A module is no door: it has what it has.
    """
    import ast
    import importlib.util
    from pathlib import Path

    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None or spec.origin is None:
        return {}
    table: dict[str, str] = {}
    for block in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        for node in block.body if isinstance(block, ast.If) else ():
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                for alias in node.names:
                    listed = contents(node.module) if alias.name == "*" else [alias.name]
                    table.update(dict.fromkeys(listed, node.module))
    return table
