"""The contract `doors` of import-linter: an `__init__` lists what others may import; the rest is the folder's own."""

from __future__ import annotations

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output


class DoorsContract(Contract):
    """No module imports another folder's module that the folder's `__init__` does not name."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        broken = []
        for imported in sorted(graph.modules):
            folder = imported.rpartition(".")[0]
            if not imported.startswith("unlazy.") or graph.find_children(imported):
                continue
            listed = graph.find_modules_directly_imported_by(folder)
            for importer in sorted(graph.find_modules_that_directly_import(imported)):
                inside = importer == folder or importer.startswith(f"{folder}.")
                if not inside and imported not in listed:
                    broken.append(f"{importer} imports {imported}, which {folder} does not list")
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for line in check.metadata["broken"]:
            output.print_error(line)
