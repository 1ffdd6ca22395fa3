"""The house in numbers: lines and files of every room, hidden files, imports past a door, modules that nobody imports.

python tools/house.py [FOLDER]          # the repository, or another checkout of it
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path


def imports(file: Path, modules: dict[str, Path]) -> set[str]:
    """The modules of the package that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full in modules else node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & set(modules)


def main(root: Path) -> None:
    source = root / "src"
    modules = {
        ".".join(f.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): f
        for f in sorted(source.rglob("*.py"))
    }
    lines = {name: len(file.read_text(encoding="utf-8").splitlines()) for name, file in modules.items()}
    importers = defaultdict(set)
    for name, file in modules.items():
        for other in imports(file, modules) - {name}:
            importers[other].add(name)

    print(f"{'room':<22}{'lines':>8}{'files':>7}{'folders':>9}{'most files in one':>19}")
    rooms = sorted({name.split(".")[1] for name in modules if "." in name})
    for room in rooms:
        inside = [name for name in modules if name.split(".")[1:2] == [room]]
        folders = defaultdict(int)
        for name in inside:
            folders[modules[name].parent] += 1
        most = max(folders.values())
        print(f"{room:<22}{sum(lines[n] for n in inside):>8}{len(inside):>7}{len(folders):>9}{most:>19}")
    tests = list((root / "tests").rglob("*.py"))
    print(f"{'all of src':<22}{sum(lines.values()):>8}{len(modules):>7}")
    print(f"{'tests':<22}{sum(len(f.read_text(encoding='utf-8').splitlines()) for f in tests):>8}{len(tests):>7}")

    hidden = [name for name, file in modules.items() if file.name.startswith("_") and not file.name.startswith("__")]
    past = []
    for name, file in modules.items():
        folder = name.rpartition(".")[0]
        listed = imports(modules[folder], modules) if folder in modules else set()
        if file.name != "__init__.py" and name not in listed:
            past += [f"{i} -> {name}" for i in importers[name] if i != folder and not i.startswith(f"{folder}.")]
    studies = [n for n, f in modules.items() if ".studies." in n and f.name != "__init__.py" and "shared" not in n]
    studies = [n for n in studies if not n.rpartition(".")[2].startswith("_")]
    shared = sum(lines[n] for n in modules if ".studies." in n) - sum(lines[n] for n in studies)
    alone = [n for n in modules if not importers[n] and n not in studies and modules[n].name != "__init__.py"]
    print(f"hidden files {len(hidden)}, imports past a door {len(past)}, modules that no module imports {len(alone)}")
    mean = (sum(lines[n] for n in studies) + shared) / len(studies)
    print(
        f"studies {len(studies)}, lines each {mean:.0f} with what they share, {mean - shared / len(studies):.0f} alone"
    )
    print("\n".join(past[:10]))
    print("not imported:", ", ".join(alone))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
