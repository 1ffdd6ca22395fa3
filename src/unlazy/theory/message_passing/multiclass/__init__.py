"""Softmax regression: state evolution with matrices as order parameters."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.theory.message_passing.multiclass.softmax import (
        ClusterState,
        TeacherState,
        multiclass_clusters,
        multiclass_teacher,
    )

lazily(__name__)
