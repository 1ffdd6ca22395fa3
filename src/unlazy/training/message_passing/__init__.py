"""Message passing on instances of finite size."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.training.message_passing import matrix_amp, sequential

lazily(__name__)
