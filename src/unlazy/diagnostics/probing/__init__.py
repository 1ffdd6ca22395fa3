"""What a trained network learned: a report from its checkpoints, the rows it was trained on, and rows it was not."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.diagnostics.probing.answer import probe
    from unlazy.diagnostics.probing.callback import ProbeCallback
    from unlazy.diagnostics.probing.files import probe_files
    from unlazy.diagnostics.probing.report import NetworkReport
    from unlazy.diagnostics.probing.torch_kernel import TangentKernel, tangent_kernel

lazily(__name__)
