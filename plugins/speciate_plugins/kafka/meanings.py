"""What each error of aiokafka means: whose fault it is, and what to do.

Rules are found by the names of the classes, so that nothing of aiokafka is imported here. The names are those that
aiokafka 0.14 was seen to raise against Kafka 3.9; `tests/kafka/test_failures.py` sees them again.
"""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from speciate.errors import AwayError, ConfigError, FencedError, OutputError, SourceError, SpeciateError
from speciate_plugins.kafka.connection import KafkaConnection, password_origin
from speciate_plugins.kafka.remedies import START_OVER

NONE_READY = "no broker of the cluster is ready yet"


class Attempt(NamedTuple):
    """What was tried when the error came."""

    doing: str
    options: KafkaConnection
    topic: str | None

    @property
    def who(self) -> str:
        """Whom the brokers take us for."""
        if self.options.username is not None:
            return f"user {self.options.username!r}"
        certificate = self.options.certificate_file
        return "a client without a login" if certificate is None else f"the owner of {certificate!r}"


Rule = Callable[[Any, Attempt], SpeciateError | None]
"""What an error means; None if it alone does not tell."""


def words(error: BaseException) -> str:
    """What an error says, without the class names and numbers that aiokafka puts in front of it."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ConnectionError):
        return os.strerror(error.errno) if error.errno else "the connection was cut off"
    said = error.strerror if isinstance(error, OSError) else None
    said = said or next((argument for argument in error.args if isinstance(argument, str) and argument), None)
    text = said or getattr(error, "description", None) or type(error).__name__
    return " ".join(text.split()).partition(" (_ssl.c")[0].rstrip(".")


def _names(error: BaseException, otherwise: str | None) -> list[str]:
    """The topics, groups or ids an error is about: aiokafka gives a name, a set of them, or a partition."""
    names: list[str] = []
    for argument in error.args:
        if isinstance(argument, set | frozenset):
            names += [str(name) for name in argument]
        elif isinstance(argument, str):
            names.append(argument)
        elif hasattr(argument, "topic"):
            names.append(argument.topic)
    return sorted(names) or ([otherwise] if otherwise else [])


def _quote(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names)


def away(error: BaseException, attempt: Attempt) -> AwayError:
    """What another try, or a client made anew, may mend."""
    return _away(words(error), attempt)


def none_ready(attempt: Attempt) -> AwayError:
    """The brokers that answer say that the cluster has none: their controller has left them out, for a moment."""
    return _away(NONE_READY, attempt)


def _away(reason: str, attempt: Attempt) -> AwayError:
    servers = ", ".join(attempt.options.servers)
    place = "" if servers in attempt.doing else f" at {servers}"
    return AwayError(f"cannot {attempt.doing}{place}: {reason}")


def _fenced(error: BaseException, attempt: Attempt) -> FencedError:
    return FencedError(f"cannot {attempt.doing}: another worker has taken over ({type(error).__name__})")


def _replicas(error: BaseException, attempt: Attempt) -> SpeciateError:
    """Too few brokers for so many copies; if they are all left out just now, what is asked for is not to blame."""
    return none_ready(attempt) if "All brokers are currently fenced" in str(error) else _refused(error, attempt)


def _refused(error: BaseException, attempt: Attempt) -> ConfigError:
    return ConfigError(f"cannot {attempt.doing}: the brokers refuse it: {words(error)}")


def _login(error: BaseException, attempt: Attempt) -> ConfigError:
    return ConfigError(
        f"cannot {attempt.doing}: the brokers refuse {attempt.who} with the password from "
        f"{password_origin(attempt.options)}: {words(error)}; check both"
    )


def _mechanism(_: BaseException, attempt: Attempt) -> ConfigError:
    return ConfigError(f"cannot {attempt.doing}: the brokers offer no sasl = {attempt.options.sasl!r}: choose another")


def _no_login(_: BaseException, attempt: Attempt) -> ConfigError:
    return ConfigError(
        f"cannot {attempt.doing}: the brokers take no login on this port: remove sasl = {attempt.options.sasl!r}, or "
        "name the port that takes it in servers"
    )


def _tls(error: BaseException, attempt: Attempt) -> ConfigError:
    options = attempt.options
    return ConfigError(
        f"cannot {attempt.doing}: TLS failed: {words(error)}; check ca_file = {options.ca_file!r}, "
        f"certificate_file = {options.certificate_file!r} and the names in servers"
    )


def _not_kafka(error: Any, attempt: Attempt) -> ConfigError | None:
    """Bytes of another protocol, taken for the length of an answer that then never came."""
    start = (error.expected or 0).to_bytes(8, "big")[-4:]
    if start.startswith(b"\x15\x03"):
        return ConfigError(f"cannot {attempt.doing}: the brokers speak TLS on this port: set tls = true")
    if start == b"HTTP":
        return ConfigError(f"cannot {attempt.doing}: this port speaks HTTP, not Kafka: name Kafka's in servers")
    return None


def _no_topic(error: BaseException, attempt: Attempt) -> ConfigError:
    names = _names(error, attempt.topic)
    which = f"topic {_quote(names)}" if names else "a topic"
    return ConfigError(
        f"cannot {attempt.doing}: {which} does not exist: create it with `speciate topics create CONFIG`"
    )


def _no_partition(error: AssertionError, attempt: Attempt) -> ConfigError | None:
    if str(error) != "Unrecognized partition":
        return None
    which = f"topic {attempt.topic!r}" if attempt.topic else "the topic"
    return ConfigError(f"cannot {attempt.doing}: {which} has too few partitions: give it as many as the input has")


def _topic_rights(error: BaseException, attempt: Attempt) -> ConfigError:
    names = _names(error, attempt.topic)
    which = f"topic {_quote(names)}" if names else "a topic"
    return ConfigError(
        f"cannot {attempt.doing}: {attempt.who} has no rights on {which}: grant Describe, and Read or Write"
    )


def _group_rights(error: BaseException, attempt: Attempt) -> ConfigError:
    which = _quote(_names(error, None)) or "in use"
    return ConfigError(f"cannot {attempt.doing}: {attempt.who} has no rights on the group {which}: grant Read")


def _do_without(attempt: Attempt) -> str:
    """How to do without transactions: a sink can be told to, a store cannot."""
    writes = hasattr(attempt.options, "transactional_id_prefix")
    if writes and not hasattr(attempt.options, "delivery"):
        return 'keep the state elsewhere: [store] plugin = "directory"'
    return 'set delivery = "at-least-once"'


def _transaction_rights(error: BaseException, attempt: Attempt) -> ConfigError:
    which = _quote(_names(error, None)) or "in use"
    return ConfigError(
        f"cannot {attempt.doing}: {attempt.who} has no rights on the transactional id {which}: grant Describe and "
        f"Write, or {_do_without(attempt)}"
    )


def _cluster_rights(_: BaseException, attempt: Attempt) -> ConfigError:
    return ConfigError(
        f"cannot {attempt.doing}: {attempt.who} has no rights on the cluster: grant Create for new topics, "
        f"IdempotentWrite for exactly-once output, or {_do_without(attempt)}"
    )


def _no_transactions(error: BaseException, attempt: Attempt) -> ConfigError:
    return ConfigError(
        f"cannot {attempt.doing}: the brokers do not know what exactly-once output needs: {words(error)}; "
        f"{_do_without(attempt)}"
    )


def _too_new(error: BaseException, attempt: Attempt) -> ConfigError | None:
    if not str(error).startswith("Support for "):
        return None
    return ConfigError(f"cannot {attempt.doing}: aiokafka is too old for the brokers: pip install --upgrade aiokafka")


def _transaction_timeout(_: BaseException, attempt: Attempt) -> ConfigError:
    return ConfigError(
        f"cannot {attempt.doing}: the transaction timeout is above the brokers' transaction.max.timeout.ms: lower it"
    )


def _session_timeout(_: BaseException, attempt: Attempt) -> ConfigError:
    return ConfigError(
        f"cannot {attempt.doing}: the session timeout is not between the brokers' group.min.session.timeout.ms and "
        "group.max.session.timeout.ms: change it"
    )


def _group_protocol(_: BaseException, attempt: Attempt) -> ConfigError:
    return ConfigError(f"cannot {attempt.doing}: the group is used by consumers of another kind: choose another group")


def _expired(error: BaseException, attempt: Attempt) -> SourceError:
    places = [place for argument in error.args if isinstance(argument, dict) for place in argument.items()]
    held = "; ".join(
        f"partition {partition.partition} of topic {partition.topic!r} does not hold offset {offset}"
        for partition, offset in places
    )
    return SourceError(
        f"cannot {attempt.doing}: {held or 'the log does not hold the offset asked for'}: it has expired, or the topic "
        f"was made anew; keep it longer (retention.ms, retention.bytes), or {START_OVER}"
    )


def _damaged(error: BaseException, attempt: Attempt) -> SourceError:
    return SourceError(f"cannot {attempt.doing}: a record of the log is damaged: {words(error)}")


def _header_name(error: BaseException, attempt: Attempt) -> SourceError:
    return SourceError(
        f"cannot {attempt.doing}: a message has a header whose name is no UTF-8, which aiokafka cannot read ({error}): "
        "go on behind it, or send it again with another name"
    )


def _codec(error: BaseException, attempt: Attempt) -> ConfigError:
    return ConfigError(f"cannot {attempt.doing}: {words(error)}: pip install 'speciate[kafka]'")


def _too_large(error: BaseException, attempt: Attempt) -> OutputError:
    return OutputError(
        f"cannot {attempt.doing}: a message is too large: {words(error)}; raise max.message.bytes of the topic"
    )


RULES: dict[str, Rule] = {
    # who we are
    "SaslAuthenticationFailed": _login,
    "UnsupportedSaslMechanismError": _mechanism,
    "IllegalSaslStateError": _no_login,
    # the connection; one that is cut off says nothing about certificates
    "SSLEOFError": away,
    "SSLZeroReturnError": away,
    "SSLSyscallError": away,
    "SSLError": _tls,
    "IncompleteReadError": _not_kafka,
    # what is there, and what we may do with it
    "UnknownTopicOrPartitionError": _no_topic,
    "AssertionError": _no_partition,
    "TopicAuthorizationFailedError": _topic_rights,
    "GroupAuthorizationFailedError": _group_rights,
    "TransactionalIdAuthorizationFailed": _transaction_rights,
    "ClusterAuthorizationFailedError": _cluster_rights,
    # what the brokers can do
    "IncompatibleBrokerVersion": _no_transactions,
    "UnsupportedVersionError": _no_transactions,
    "UnsupportedForMessageFormatError": _no_transactions,
    "NotImplementedError": _too_new,
    "InvalidTransactionTimeout": _transaction_timeout,
    "InvalidSessionTimeoutError": _session_timeout,
    "InconsistentGroupProtocolError": _group_protocol,
    "InvalidConfigurationError": _refused,
    "InvalidGroupIdError": _refused,
    "InvalidPartitionsError": _refused,
    "InvalidReplicationFactorError": _replicas,
    "InvalidTopicError": _refused,
    "PolicyViolationError": _refused,
    "TopicAlreadyExistsError": _refused,
    # the records
    "OffsetOutOfRangeError": _expired,
    "NoOffsetForPartitionError": _expired,
    "CorruptRecordException": _damaged,
    "UnicodeDecodeError": _header_name,
    "UnsupportedCodecError": _codec,
    "MessageSizeTooLargeError": _too_large,
    "RecordListTooLargeError": _too_large,
    # who owns the partition now
    "ProducerFenced": _fenced,
    "InvalidProducerEpoch": _fenced,
    "CommitFailedError": _fenced,
}
"""By the name of a class, or of one it derives from. What is not here is away for now."""
