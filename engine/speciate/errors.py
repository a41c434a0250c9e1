"""Every error Speciate raises, by whose fault it is.

SpeciateError
├── EventError              the event's: one rejection, one dead letter, the stream goes on
│   ├── DecodeError         not a well-formed event
│   ├── TooLargeError       more bytes than the limit
│   ├── FeatureError        wrong dimension, wrong type, not finite
│   ├── DuplicateError      its id was answered already
│   ├── EncodeError         an image that cannot be turned into features
│   ├── ForwardedError      rejected by a pipeline in front of this one
│   ├── UnknownCategoryError  a category that does not exist
│   └── LabelError          a name that cannot be read
├── OperatorError           the operator's: one message at the start, exit code 2
│   ├── ConfigError         a key, a value, a file of the configuration
│   ├── PluginError         unknown, broken, ambiguous or missing its extra
│   └── SupportError        a support set a head cannot be fitted to
├── StateError              what is on disk does not fit: exit code 3
│   ├── StateDamagedError   no snapshot is whole
│   ├── StateMismatchError  made by another configuration, or outputs changed since
│   ├── StateLockedError    another process is using it
│   └── BundleError         a model that is damaged, of another version, or does not fit together
└── WorldError              the world's: full disk, no rights, a source that went away; exit code 4
    ├── SourceError         the input cannot be read
    ├── OutputError         the output cannot be written
    ├── DeviceError         what encodes images fails, whatever the image
    ├── AwayError           a service is away for now: tried again, with growing pauses
    └── FencedError         another worker has taken over: this one lets go
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from speciate_schemas import DeadLetter  # not for the sake of one name: the help of a command imports this module


def first_line(error: BaseException) -> str:
    """What an error says, without the advice that libraries write below it: a message of ours has one line."""
    return str(error).strip().partition("\n")[0]


class SpeciateError(Exception):
    """The root of all errors raised on purpose."""

    exit_code = 1


class EventError(SpeciateError):
    """One event cannot be used; the others can."""


class DecodeError(EventError):
    """The bytes are not a well-formed event."""


class TooLargeError(EventError):
    """The input has more bytes than the configuration allows."""


class FeatureError(EventError):
    """The feature vector has the wrong dimension or type, or holds NaN or infinity."""


class DuplicateError(EventError):
    """An event of the same stream and id was accepted a short while ago."""


class EncodeError(EventError):
    """The image cannot be turned into features."""


class ForwardedError(EventError):
    """A pipeline in front of this one could not use the event; its dead letter came instead."""

    letter: "DeadLetter"
    """What it sent instead of the event."""

    @classmethod
    def of(cls, letter: "DeadLetter") -> "ForwardedError":
        """The error that a dead letter stands for."""
        error = cls(letter.message)
        error.letter = letter
        return error


class UnknownCategoryError(EventError):
    """The category does not exist (any more)."""


class LabelError(EventError):
    """A name that nobody could read, or that a terminal would obey."""


class OperatorError(SpeciateError):
    """Something the operator wrote or left out."""

    exit_code = 2


class ConfigError(OperatorError):
    """A key or value of the configuration is wrong."""


class PluginError(OperatorError):
    """A plugin is unknown, broken, ambiguous or not usable here."""


class SupportError(OperatorError):
    """The support set does not allow the head to be fitted."""


class StateError(SpeciateError):
    """State or output on disk does not fit this run."""

    exit_code = 3


class StateDamagedError(StateError):
    """No whole snapshot is left."""


class StateMismatchError(StateError):
    """The state was made by another configuration, or the outputs were changed since."""


class StateLockedError(StateError):
    """Another process is using the state."""


class BundleError(StateError):
    """A model bundle is damaged, of another version, or its parts do not belong together."""


class WorldError(SpeciateError):
    """The machine or a service refused: what is committed stays safe, run again when it is mended."""

    exit_code = 4


class SourceError(WorldError):
    """The input cannot be read."""


class OutputError(WorldError):
    """The output cannot be written."""


class DeviceError(WorldError):
    """The encoder fails on images it could encode before: its device is gone, or out of memory."""


class AwayError(WorldError):
    """A service does not answer, or forgot who we are: what is worth trying again from the last commit."""


class FencedError(WorldError):
    """Another worker writes in our place; what we had not committed is void, and it does it again."""
