"""How to reach a Kafka cluster: the options that the source, the sink and the store have in common.

The password is never an option: options are printed, logged and kept in snapshots. It comes from the environment or
from a file, is read when a connection is made, and goes nowhere else.
"""

import logging
import os
import ssl
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from speciate.errors import ConfigError
from speciate_schemas import Strict

MAX_PORT = 65_535


class KafkaConnection(Strict, frozen=True):
    """Options of whatever talks to Kafka."""

    servers: Annotated[
        list[str],
        msgspec.Meta(min_length=1, description="Brokers to ask first, as host:port; the others they know."),
    ]
    tls: Annotated[bool, msgspec.Meta(description="Encrypt, and check the brokers' certificates.")] = False
    ca_file: Annotated[
        str | None,
        msgspec.Meta(description="PEM file of the authorities that sign brokers; without it those of the system."),
    ] = None
    certificate_file: Annotated[
        str | None, msgspec.Meta(description="PEM file of our own certificate, if the brokers ask for one.")
    ] = None
    key_file: Annotated[str | None, msgspec.Meta(description="PEM file of its private key, not encrypted.")] = None
    sasl: Annotated[
        Literal["plain", "scram-sha-256", "scram-sha-512"] | None,
        msgspec.Meta(description="How to log in, if at all."),
    ] = None
    username: Annotated[str | None, msgspec.Meta(description="Whom to log in as.")] = None
    password_env: Annotated[
        str | None, msgspec.Meta(description="Name of the environment variable that holds the password.")
    ] = None
    password_file: Annotated[
        str | None, msgspec.Meta(description="File that holds the password; a newline at its end does not count.")
    ] = None
    client_id: Annotated[str, msgspec.Meta(min_length=1, description="Our name in the brokers' logs and quotas.")] = (
        "speciate"
    )
    request_timeout_ms: Annotated[
        int, msgspec.Meta(ge=100, description="Longest to wait for a broker's answer, in milliseconds.")
    ] = 40_000

    def __post_init__(self) -> None:
        """Refuse what no cluster could understand; a struct that derives from this one calls it from its own."""
        for server in self.servers:
            split_server(server)
        _check_tls(self)
        _check_sasl(self)


def split_server(server: str) -> tuple[str, int]:
    """Host and port of an entry of `servers`; an IPv6 address is in brackets."""
    host, _, port = server.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    known = bare and not set(bare) & set("[]/,@ ") and (bare != host or ":" not in bare)
    if not known or not (port.isascii() and port.isdecimal() and 0 < int(port) <= MAX_PORT):
        raise ValueError(f"servers: {server!r} must look like host:port, such as 'kafka-1:9092' or '[::1]:9092'")
    return bare, int(port)


def _check_tls(options: KafkaConnection) -> None:
    for field in ("ca_file", "certificate_file", "key_file"):
        value = getattr(options, field)
        if value is not None and not options.tls:
            raise ValueError(f"{field} = {value!r} is for tls = true: add it, or remove {field}")
    if (options.certificate_file is None) != (options.key_file is None):
        there, absent = (
            ("certificate_file", "key_file") if options.key_file is None else ("key_file", "certificate_file")
        )
        raise ValueError(f"{there} = {getattr(options, there)!r} is of no use alone: add {absent}")


def _check_sasl(options: KafkaConnection) -> None:
    if options.sasl is None:
        for field in ("username", "password_env", "password_file"):
            value = getattr(options, field)
            if value is not None:
                raise ValueError(f'{field} = {value!r} is for a login: add sasl = "scram-sha-512", or remove {field}')
        return
    if not options.username:
        raise ValueError(f"sasl = {options.sasl!r} needs username: add whom to log in as")
    if options.password_env is None and options.password_file is None:
        raise ValueError(
            f"sasl = {options.sasl!r} needs password_env, the name of an environment variable that holds the password, "
            "or password_file"
        )
    if options.password_env is not None and options.password_file is not None:
        raise ValueError(
            f"password_env = {options.password_env!r} and password_file = {options.password_file!r} are two places "
            "for one password: remove one"
        )


def client_arguments(options: KafkaConnection) -> dict[str, Any]:
    """The keyword arguments that aiokafka's consumer, producer and admin client have in common.

    They hold the password: hand them on, never print them.

    Raises:
        ConfigError: if the password, a certificate or a key cannot be had.
    """
    login = options.sasl is not None
    arguments: dict[str, Any] = {
        "bootstrap_servers": list(options.servers),
        "client_id": options.client_id,
        "request_timeout_ms": options.request_timeout_ms,
        "security_protocol": ("SASL_" if login else "") + ("SSL" if options.tls else "PLAINTEXT"),
    }
    if options.tls:
        arguments["ssl_context"] = _ssl_context(options)
    if options.sasl is not None:
        arguments["sasl_mechanism"] = options.sasl.upper()
        arguments["sasl_plain_username"] = options.username
        arguments["sasl_plain_password"] = _password(options)
        logging.getLogger("aiokafka.conn").addFilter(_without_login)
    return arguments


def _without_login(record: logging.LogRecord) -> bool:
    """Keep the one line out of the log, at level DEBUG, in which aiokafka shows the login that it sends."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    return not any(type(argument).__name__.startswith("SaslAuthenticate") for argument in arguments)


def password_origin(options: KafkaConnection) -> str:
    """For people: where the password comes from."""
    if options.password_env is not None:
        return f"password_env = {options.password_env!r}"
    return f"password_file = {options.password_file!r}"


def _password(options: KafkaConnection) -> str:
    origin = password_origin(options)
    password = _from_environment(options.password_env) if options.password_env is not None else _from_file(options)
    if not password:
        raise ConfigError(f"{origin} holds an empty password: put the one of user {options.username!r} there")
    try:
        password.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{origin} holds bytes that are no UTF-8: put the password there as UTF-8 text") from None
    return password


def _from_environment(name: str) -> str:
    password = os.environ.get(name)
    if password is None:
        raise ConfigError(f"password_env = {name!r}: there is no such environment variable; set it to the password")
    return password


def _from_file(options: KafkaConnection) -> str:
    try:
        # Surrogates stand for what is no UTF-8; the caller refuses them without showing any of it.
        text = Path(options.password_file or "").read_bytes().decode("utf-8", "surrogateescape")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{password_origin(options)} cannot be read: {_reason(error)}") from None
    return text.removesuffix("\n").removesuffix("\r")


def _ssl_context(options: KafkaConnection) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=options.ca_file)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"ca_file = {options.ca_file!r} cannot be used: {_reason(error)}; name a PEM file of certificates"
        ) from None
    if options.certificate_file is not None:
        _load_certificate(context, options)
    return context


def _load_certificate(context: ssl.SSLContext, options: KafkaConnection) -> None:
    def refuse() -> str:
        # Without this OpenSSL would ask on the terminal, and a service would wait there for ever.
        raise ConfigError(f"key_file = {options.key_file!r} is encrypted: decrypt it with `openssl pkey`")

    try:
        context.load_cert_chain(options.certificate_file or "", options.key_file, password=refuse)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"certificate_file = {options.certificate_file!r} with key_file = {options.key_file!r} cannot be used: "
            f"{_reason(error)}; name the PEM files of a certificate and of its own key"
        ) from None


def _reason(error: Exception) -> str:
    """What the system says, without the path, which the message names already."""
    return (getattr(error, "strerror", None) or str(error)).partition(" (_ssl.c")[0]
