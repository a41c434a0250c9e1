"""The options of a connection: what is refused, in which words, and that the password stays where it is."""

import logging
import ssl
import subprocess
import sys

import msgspec
import pytest

from speciate.errors import ConfigError
from speciate.trees import checked
from speciate_plugins.kafka.connection import KafkaConnection, client_arguments, split_server

LOGIN = {"sasl": "scram-sha-512", "username": "robot"}


def options(**changes) -> KafkaConnection:
    """As they come from a file."""
    return checked({"servers": ["kafka:9092"], **changes}, KafkaConnection, "[source]")


def run(*command: str, cwd) -> None:
    subprocess.run(command, cwd=cwd, check=True, capture_output=True)


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    """A certificate with its key, once more encrypted, and the key of somebody else."""
    folder = tmp_path_factory.mktemp("pem")
    make = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=us")
    run(*make, "-nodes", "-keyout", "key.pem", "-out", "certificate.pem", cwd=folder)
    run(*make, "-nodes", "-keyout", "other.pem", "-out", "unused.pem", cwd=folder)
    run("openssl", "pkey", "-in", "key.pem", "-aes128", "-passout", "pass:x", "-out", "encrypted.pem", cwd=folder)
    (folder / "text.pem").write_text("no certificate")
    return folder


def test_nothing_of_aiokafka_is_needed_to_describe_the_options():
    modules = ", ".join(f"speciate_plugins.kafka.{name}" for name in ("connection", "failures", "payloads", "probing"))
    check = f"import sys; sys.modules['aiokafka'] = None; import {modules}"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_every_option_is_described():
    properties = msgspec.json.schema(KafkaConnection)["$defs"]["KafkaConnection"]["properties"]
    assert all(option.get("description") for option in properties.values())
    assert "password" not in properties


def test_the_least_that_works():
    assert client_arguments(options()) == {
        "bootstrap_servers": ["kafka:9092"],
        "client_id": "speciate",
        "request_timeout_ms": 40_000,
        "security_protocol": "PLAINTEXT",
    }


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("kafka-1.example:9092", ("kafka-1.example", 9092)),
        ("[::1]:1", ("::1", 1)),
        ("10.0.0.1:65535", ("10.0.0.1", 65535)),
    ],
)
def test_servers_are_hosts_and_ports(server, expected):
    assert split_server(server) == expected


@pytest.mark.parametrize(
    "server",
    [
        *("", "kafka", "kafka:", ":9092", "kafka:port", "kafka:0", "kafka:65536", "kafka:-1", "kafka:²", "kafka: 9092"),
        *("::1:9092", "[]:9092", "[::1]", "a:1,b:2", "kafka://kafka:9092", "user@kafka:9092"),
    ],
)
def test_what_is_no_server_is_told(server):
    with pytest.raises(ConfigError, match=r"\[source\]: servers: .* must look like host:port"):
        options(servers=["kafka:9092", server])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"servers": []}, "length >= 1"),
        ({"sasl": "gssapi"}, "Invalid enum value 'gssapi' - at `sasl`"),
        ({"password": "secret"}, "has no key 'password': did you mean 'password_"),
        ({"sasl": "plain", "password_env": "PW"}, "sasl = 'plain' needs username"),
        ({**LOGIN, "username": "", "password_env": "PW"}, "needs username"),
        (LOGIN, "sasl = 'scram-sha-512' needs password_env, .* or password_file"),
        ({**LOGIN, "password_env": "PW", "password_file": "pw"}, "two places for one password: remove one"),
        ({"username": "robot"}, "username = 'robot' is for a login: add sasl"),
        ({"password_env": "PW"}, "password_env = 'PW' is for a login: add sasl"),
        ({"password_file": "pw"}, "password_file = 'pw' is for a login: add sasl"),
        ({"ca_file": "ca.pem"}, "ca_file = 'ca.pem' is for tls = true: add it, or remove ca_file"),
        ({"certificate_file": "c", "key_file": "k"}, "certificate_file = 'c' is for tls = true"),
        ({"tls": True, "certificate_file": "c"}, "certificate_file = 'c' is of no use alone: add key_file"),
        ({"tls": True, "key_file": "k"}, "key_file = 'k' is of no use alone: add certificate_file"),
        ({"request_timeout_ms": 1}, "at `request_timeout_ms`"),
        ({"client_id": ""}, "at `client_id`"),
    ],
)
def test_options_that_do_not_fit_each_other_are_told_without_connecting(changes, message):
    with pytest.raises(ConfigError, match=message):
        options(**changes)


def test_the_password_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("KAFKA_PASSWORD", "hünter2")
    found = client_arguments(options(**LOGIN, password_env="KAFKA_PASSWORD"))
    assert found["security_protocol"] == "SASL_PLAINTEXT"
    assert found["sasl_mechanism"] == "SCRAM-SHA-512"
    assert found["sasl_plain_username"] == "robot"
    assert found["sasl_plain_password"] == "hünter2"


@pytest.mark.parametrize(
    ("content", "password"), [(b"pw", "pw"), (b"pw\n", "pw"), (b"pw\r\n", "pw"), (b" pw \n\n", " pw \n")]
)
def test_the_password_comes_from_a_file_without_its_newline(tmp_path, content, password):
    (tmp_path / "pw").write_bytes(content)
    found = client_arguments(options(**LOGIN, password_file=str(tmp_path / "pw")))
    assert found["sasl_plain_password"] == password


def test_a_password_that_cannot_be_had_is_told(tmp_path, monkeypatch):
    monkeypatch.delenv("KAFKA_PASSWORD", raising=False)
    with pytest.raises(ConfigError, match="password_env = 'KAFKA_PASSWORD': there is no such environment variable"):
        client_arguments(options(**LOGIN, password_env="KAFKA_PASSWORD"))
    monkeypatch.setenv("KAFKA_PASSWORD", "")
    with pytest.raises(ConfigError, match=r"password_env = 'KAFKA_PASSWORD' holds an empty password: .* 'robot'"):
        client_arguments(options(**LOGIN, password_env="KAFKA_PASSWORD"))
    monkeypatch.setenv("KAFKA_PASSWORD", "secret-\udcff")
    with pytest.raises(ConfigError, match="no UTF-8") as raised:
        client_arguments(options(**LOGIN, password_env="KAFKA_PASSWORD"))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read: No such file"), (b"", "empty"), (b"\n", "empty"), (b"secret\xff", "no UTF-8")],
)
def test_a_file_that_holds_no_password_is_told(tmp_path, content, message):
    if content is not None:
        (tmp_path / "pw").write_bytes(content)
    with pytest.raises(ConfigError, match=f"password_file = '.*/pw' .*{message}") as raised:
        client_arguments(options(**LOGIN, password_file=str(tmp_path / "pw")))
    assert "secret" not in str(raised.value)


def test_a_password_file_that_is_a_folder_or_no_path_is_told(tmp_path):
    for path in (str(tmp_path), "a\0b"):
        with pytest.raises(ConfigError, match="cannot be read"):
            client_arguments(options(**LOGIN, password_file=path))


def test_the_password_is_in_no_repr_of_the_options(monkeypatch):
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    found = options(**LOGIN, password_env="KAFKA_PASSWORD")
    client_arguments(found)
    assert "hunter2" not in repr(found)
    assert b"hunter2" not in msgspec.json.encode(found)


def test_the_login_that_aiokafka_would_log_is_kept_out(monkeypatch, caplog):
    class SaslAuthenticateRequest_v0:  # noqa: N801 - aiokafka's name
        def __repr__(self):
            return "hunter2"

    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    for _ in range(2):
        client_arguments(options(**LOGIN, password_env="KAFKA_PASSWORD"))
    log = logging.getLogger("aiokafka.conn")
    with caplog.at_level(logging.DEBUG, "aiokafka.conn"):
        log.debug("Request to %s: %s", "kafka", SaslAuthenticateRequest_v0())
        log.debug("Request to %s", "kafka")
        log.debug("Request")
    assert caplog.messages == ["Request to kafka", "Request"]
    assert len(log.filters) == 1


def test_tls_checks_certificates_and_names():
    found = client_arguments(options(tls=True))
    assert found["security_protocol"] == "SSL"
    assert found["ssl_context"].check_hostname
    assert found["ssl_context"].verify_mode == ssl.CERT_REQUIRED


def test_tls_with_files_and_a_login(pem, monkeypatch):
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    files = {name: str(pem / file) for name, file in FILES.items()}
    found = client_arguments(options(tls=True, **files, **LOGIN, password_env="KAFKA_PASSWORD"))
    assert found["security_protocol"] == "SASL_SSL"
    assert found["ssl_context"].cert_store_stats()["x509"] == 1


FILES = {"ca_file": "certificate.pem", "certificate_file": "certificate.pem", "key_file": "key.pem"}


@pytest.mark.parametrize(
    ("field", "file", "message"),
    [
        ("ca_file", "none.pem", "ca_file = '.*none.pem' cannot be used: No such file"),
        ("ca_file", "text.pem", "ca_file = '.*text.pem' cannot be used: .*; name a PEM file"),
        ("ca_file", "a\0b", "ca_file = .* cannot be used: "),
        (
            "certificate_file",
            "none.pem",
            "certificate_file = '.*none.pem' with key_file = '.*' cannot be used: No such",
        ),
        ("certificate_file", "text.pem", "certificate_file = '.*text.pem' with .* cannot be used"),
        (
            "key_file",
            "other.pem",
            "certificate_file = .* with key_file = '.*other.pem' cannot be used: .*; name the PEM",
        ),
        ("key_file", "encrypted.pem", "key_file = '.*encrypted.pem' is encrypted: decrypt it"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_told(pem, field, file, message):
    files = {name: str(pem / name_of) for name, name_of in {**FILES, field: file}.items()}
    with pytest.raises(ConfigError, match=message):
        client_arguments(options(tls=True, **files))
