"""What several studies of signal noise share."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.studies.signal_noise.shared import attention, checks, contrastive, race, strategies

lazily(__name__)
