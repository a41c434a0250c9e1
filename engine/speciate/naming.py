"""Names that are given by hand: what nobody could read, or what a terminal would obey, is none.

Checked where a name is given and where it first takes effect. What was answered before is never checked again: a
stricter rule must not make old answers unreadable.
"""

from speciate.errors import LabelError
from speciate_schemas import Control, RenameCategory


def check_name(control: Control) -> None:
    """Refuse a rename to something that is no name."""
    if not isinstance(control, RenameCategory):
        return
    label = control.label
    if not any(one.isprintable() and not one.isspace() for one in label):
        raise LabelError(f"label {label!a} has nothing that can be seen: give it a name")
    if any(one < " " or "\x7f" <= one <= "\x9f" for one in label):
        raise LabelError(f"label {label!a} has control characters: leave them out")
