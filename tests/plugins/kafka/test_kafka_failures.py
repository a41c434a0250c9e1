"""What errors of aiokafka mean, without a broker; `tests/kafka/test_failures.py` sees a real one raise them."""

import asyncio
import copy
import socket
import ssl

import pytest

pytest.importorskip("aiokafka")

from aiokafka import TopicPartition, errors

from speciate.errors import (
    AwayError,
    ConfigError,
    FencedError,
    OutputError,
    SourceError,
    SpeciateError,
    StateLockedError,
    WorldError,
)
from speciate_plugins.kafka.connection import KafkaConnection
from speciate_plugins.kafka.failures import telling, told
from speciate_plugins.kafka.meanings import RULES, words

OPTIONS = KafkaConnection(servers=["kafka-1:9092", "kafka-2:9092"], sasl="plain", username="robot", password_env="PW")
EVERY = sorted(
    (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)),
    key=lambda kind: kind.__name__,
)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def broken(expected: int) -> Exception:
    """How a connection ends when its first bytes were those of another protocol."""
    return caused(errors.KafkaConnectionError("closed"), asyncio.IncompleteReadError(b"", expected))


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (errors.SaslAuthenticationFailed("Invalid username or password"), ConfigError, "refuse user 'robot' with the"),
        (errors.UnsupportedSaslMechanismError(object()), ConfigError, "offer no sasl = 'plain'"),
        (errors.IllegalSaslStateError(object()), ConfigError, "take no login on this port"),
        (ssl.SSLCertVerificationError(1, "self-signed"), ConfigError, "TLS failed: self-signed; check ca_file = None"),
        (caused(errors.KafkaConnectionError(), ssl.SSLError(1, "[SSL] alert")), ConfigError, "TLS failed: .SSL. alert"),
        (caused(errors.KafkaConnectionError(), ssl.SSLEOFError(8, "EOF")), AwayError, "EOF"),
        (broken(0x15030300), ConfigError, "set tls = true"),
        (broken(int.from_bytes(b"HTTP")), ConfigError, "speaks HTTP, not Kafka"),
        (broken(4), AwayError, "kafka-1:9092, kafka-2:9092: closed"),
        (
            errors.UnknownTopicOrPartitionError(),
            ConfigError,
            "topic 'mine' does not exist: create it with `speciate top",
        ),
        (errors.UnknownTopicOrPartitionError(TopicPartition("other", 3)), ConfigError, "topic 'other' does not exist"),
        (errors.TopicAuthorizationFailedError("t"), ConfigError, "user 'robot' has no rights on topic 't'"),
        (errors.TopicAuthorizationFailedError({"b", "a"}), ConfigError, "no rights on topic 'a', 'b'"),
        (errors.TopicAuthorizationFailedError(), ConfigError, "no rights on topic 'mine'"),
        (errors.GroupAuthorizationFailedError("g"), ConfigError, "no rights on the group 'g'"),
        (
            errors.TransactionalIdAuthorizationFailed("i"),
            ConfigError,
            "transactional id 'i'.*delivery = \"at-least-once\"",
        ),
        (errors.ClusterAuthorizationFailedError(), ConfigError, "no rights on the cluster"),
        (errors.IncompatibleBrokerVersion("InitProducerIdRequest …"), ConfigError, "InitProducerId.*at-least-once"),
        (errors.UnsupportedVersionError(), ConfigError, "at-least-once"),
        (NotImplementedError("Support for FetchRequest v12 has not"), ConfigError, "pip install --upgrade aiokafka"),
        (errors.InvalidTransactionTimeout(), ConfigError, r"transaction\.max\.timeout\.ms"),
        (errors.InvalidReplicationFactorError("only 1 broker"), ConfigError, "the brokers refuse it: only 1 broker"),
        (
            errors.OffsetOutOfRangeError({TopicPartition("t", 1): 7}),
            SourceError,
            "partition 1 of topic 't' .* offset 7: it",
        ),
        (errors.OffsetOutOfRangeError(), SourceError, "has expired"),
        (errors.CorruptRecordException("Invalid CRC"), SourceError, "damaged: Invalid CRC"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), SourceError, "a header whose name is no UTF-8"),
        (errors.UnsupportedCodecError("no snappy"), ConfigError, "no snappy: pip install"),
        (errors.MessageSizeTooLargeError(), OutputError, r"max\.message\.bytes"),
        (errors.RecordListTooLargeError(), OutputError, r"max\.message\.bytes"),
        (errors.ProducerFenced(), FencedError, "another worker has taken over"),
        (errors.InvalidProducerEpoch(), FencedError, "another worker has taken over"),
        (errors.CommitFailedError(), FencedError, "another worker has taken over"),
        (errors.OutOfOrderSequenceNumber(), AwayError, "out of order sequence number"),
        (errors.UnknownProducerId(), AwayError, "could not locate"),
        (errors.InvalidTxnState(), AwayError, "invalid state"),
        (errors.InvalidProducerIdMapping(), AwayError, "not currently assigned"),
        (errors.NotLeaderForPartitionError(), AwayError, "not the leader"),
        (errors.CoordinatorLoadInProgressError(), AwayError, "loading"),
        (errors.NodeNotReadyError("node 1"), AwayError, "node 1"),
        (errors.KafkaTimeoutError("in 3000 ms"), AwayError, "in 3000 ms"),
        (errors.UnknownError(), AwayError, "unexpected server error"),
        (errors.IllegalOperation("Can't send messages while not in transaction"), AwayError, "not in transaction"),
        (AssertionError("Invalid state transition FATAL_ERROR -> X"), AwayError, "Invalid state transition"),
        (AssertionError("Unrecognized partition"), ConfigError, "topic 'mine' has too few partitions"),
        (TimeoutError(), AwayError, "kafka-1:9092, kafka-2:9092: no answer in time"),
        (ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 9)"), AwayError, "Connection refused"),
        (ConnectionResetError(), AwayError, "cut off"),
        (socket.gaierror(-2, "Name or service not known"), AwayError, "Name or service not known"),
        (OSError("Multiple exceptions: …"), AwayError, "Multiple exceptions"),
        (ValueError("a bug"), WorldError, "cannot read: ValueError: a bug"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_an_error_means(error, kind, message):
    found = told(error, "read", OPTIONS, "mine")
    assert type(found) is kind
    with pytest.raises(kind, match=message):
        raise found
    assert str(found).startswith("cannot read")


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_error_of_aiokafka_means_something(kind):
    for found in (
        told(kind(), "read", OPTIONS),
        told(kind("words", 7), "read", OPTIONS) if kind is not PLAIN else None,
    ):
        assert found is None or isinstance(found, ConfigError | AwayError | FencedError | SourceError | OutputError)


PLAIN = errors.ProducerFenced  # takes nothing but its message


def test_rules_are_for_classes_there_are():
    there = {kind.__name__ for kind in EVERY} | set(vars(ssl)) | {"IncompleteReadError"} | set(__builtins__)
    assert set(RULES) <= there


@pytest.mark.parametrize(
    ("inner", "kind"),
    [(errors.ProducerFenced(), FencedError), (errors.IncompatibleBrokerVersion("InitProducerId"), ConfigError)],
)
def test_what_aiokafka_wraps_is_unwrapped(inner, kind):
    assert type(told(caused(errors.KafkaError("Unexpected error"), inner), "write", OPTIONS)) is kind


@pytest.mark.parametrize(
    ("inner", "kind", "message"),
    [
        (errors.GroupAuthorizationFailedError("g"), ConfigError, "the group 'g'"),
        (errors.InconsistentGroupProtocolError(), ConfigError, "consumers of another kind"),
        (errors.UnknownError(), AwayError, "Unexpected"),
        (ValueError("x"), AwayError, "Unexpected"),
    ],
)
def test_what_is_left_as_text_only_is_read_from_it(inner, kind, message):
    """A copied exception, as the waiting tasks get one, has no cause any more."""
    outer = copy.copy(caused(errors.KafkaError(f"Unexpected error during coordination {inner!r}"), inner))
    assert outer.__cause__ is None
    found = told(outer, "read", OPTIONS)
    assert type(found) is kind
    assert message in str(found)


def test_who_it_was():
    certificate = KafkaConnection(servers=["k:1"], tls=True, certificate_file="us.pem", key_file="us.key")
    refused = errors.TopicAuthorizationFailedError("t")
    assert "the owner of 'us.pem' has no rights" in str(told(refused, "read", certificate))
    assert "a client without a login has no rights" in str(told(refused, "read", KafkaConnection(servers=["k:1"])))


def test_the_block_translates_what_is_kafkas_and_lets_the_rest_pass():
    with pytest.raises(AwayError) as raised, telling("read", OPTIONS):
        raise errors.NodeNotReadyError
    assert isinstance(raised.value.__cause__, errors.NodeNotReadyError)
    own = StateLockedError("taken")
    with pytest.raises(StateLockedError) as raised, telling("read", OPTIONS):
        raise own
    assert raised.value is own
    for bug in (ValueError("a bug"), AssertionError("a bug"), NotImplementedError("a bug"), asyncio.CancelledError()):
        with pytest.raises(type(bug)) as raised, telling("read", OPTIONS):
            raise bug
        assert raised.value is bug


def test_an_error_of_ours_stays_what_it_is():
    error = SpeciateError("told already")
    assert told(error, "read", OPTIONS) is error


def test_words_are_one_line_without_numbers_and_names():
    assert words(errors.CommitFailedError()).startswith(
        "Commit cannot be completed since the group has already rebalanced"
    )
    assert words(errors.StaleMetadata()) == "StaleMetadata"
    assert words(ssl.SSLError(1, "[SSL: X] bad (_ssl.c:1006)")) == "[SSL: X] bad"
