"""What a trained network learned: a report from its checkpoints, the rows it was trained on, and rows it was not."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.diagnostics.probe.answer import probe
    from unlazy.diagnostics.probe.callback import ProbeCallback
    from unlazy.diagnostics.probe.files import probe_files
    from unlazy.diagnostics.probe.report import NetworkReport
    from unlazy.diagnostics.probe.torch_kernel import TangentKernel, tangent_kernel

lazily(__name__)
