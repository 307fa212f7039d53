"""The client of a schema registry: what it tries again, what ends a query, who may ask, and that no secret shows."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from avro_events import DDL, FIELDS, message, row, rows_of
from schema_registry import Registry, envelope, event, serving
from server import free_port

from aggloom.connectors import sink_of, source_of
from aggloom.errors import (
    AggloomError,
    InputFormatError,
    OptionError,
    SchemaRegistryError,
    SpecError,
)
from aggloom.runtime.avro import client
from aggloom.runtime.avro.client import client_of
from aggloom.runtime.avro.settings import schema_registry
from aggloom.runtime.connectors.registry import sink_options
from aggloom.runtime.formats.decoder import Decoder, decoder
from aggloom.runtime.local.harness import Harness
from aggloom.tables import table_source
from tests.planner.test_script import table

SECRET = "s3cr%t"
INSERTED = [("+I", 1, "a", 1)]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setattr(client, "_FIRST_WAIT", 0.001)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving() as made:
        yield made


def insertion(registry: Registry) -> bytes:
    return registry.frame(registry.add(envelope(FIELDS)), event("c", None, row(1, "a", 1)))


def decode(value: bytes, policy: str = "drop", **registry: Any) -> list[Any]:
    """Decode a message by a registry with these options; a new client each time, as in a new process."""
    client_of.cache_clear()
    return rows_of(
        decoder("debezium-avro", DDL, None, policy, registry=registry).decode([message(value)])
    )


def test_what_passes_is_tried_again(registry: Registry) -> None:
    value = insertion(registry)
    registry.next = [(503, {"message": "starting"}), (429, b""), (500, b"<html>"), (502, {})]
    assert decode(value, url=registry.url) == INSERTED
    assert len(registry.asked) == 5
    nobody = f"http://127.0.0.1:{free_port()}"
    assert decode(value, url=f"{nobody}, {registry.url}/", attempts=1) == INSERTED
    assert decode(value, url=[registry.url, nobody], attempts=1) == INSERTED


def test_an_outage_is_never_a_bad_message(registry: Registry) -> None:
    """Whatever becomes of bad messages, it ends the query, names the URL, and shows no password."""
    value = insertion(registry)
    nobody = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(
        SchemaRegistryError, match=r"cannot be reached .* 2 tries; see that it"
    ) as raised:
        decode(value, url=nobody.replace("//", f"//user:{SECRET}@"), attempts=2)
    assert nobody in str(raised.value)
    assert SECRET not in str(raised.value)
    path = f"/schemas/ids/{registry.add(envelope(FIELDS))}"
    for answer, said in (
        ((503, {"message": "two\nlines"}), r"answers 503 \(two lines\), 2 tries"),
        ((404, b"<html>not here</html>"), r"answers 404 \(Not Found\); is the URL right"),
        (
            (404, {"error_code": 404, "message": "HTTP 404 Not Found"}),
            "answers 404 .*is the URL right",
        ),
        ((200, b"<html>hello</html>"), "is no JSON object; is the URL right"),
        ((200, {"id": 3}), "its answer has no schema .*; is the URL right"),
        ((200, [1]), "is no JSON object"),
        ((302, b"http://127.0.0.1:1/"), r"sends on to another place \(302\)"),
        ((400, {"message": "no"}), r"answers 400 \(no\)"),
        ((403, {"message": "Forbidden"}), r"answers 403 \(Forbidden\); give user_info or token"),
    ):
        registry.answers[path] = answer
        with pytest.raises(
            SchemaRegistryError, match=rf"^schema registry {registry.url}: .*{said}"
        ):
            decode(value, url=registry.url, attempts=2)
    registry.answers.clear()
    assert decode(value, url=registry.url) == INSERTED


def test_no_answer_in_time() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent, serving() as registry:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(SchemaRegistryError, match=r"\(no answer in time\), 2 tries"):
            decode(insertion(registry), url=url, attempts=2, timeout=0.05)


def test_who_may_ask(registry: Registry) -> None:
    value = insertion(registry)
    told = {"url": registry.url}
    registry.login = "Basic dXNlcjpzM2NyJXQ="
    assert decode(value, **told, user_info=f"user:{SECRET}") == INSERTED
    assert decode(value, url=registry.url.replace("//", "//user:s3cr%25t@")) == INSERTED
    registry.login = f"Bearer {SECRET}"
    assert decode(value, **told, token=SECRET) == INSERTED
    with pytest.raises(
        SchemaRegistryError, match=r"answers 401 \(Unauthorized\); give user_info"
    ) as raised:
        decode(value, **told, token=f"{SECRET}x")
    assert SECRET not in str(raised.value)


def made_files(folder: Path) -> dict[str, str]:
    """Keys and certificates of an authority, a server and a client."""

    def run(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
    run(
        *new,
        "-x509",
        "-nodes",
        "-days",
        "9",
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-subj",
        "/CN=ca",
    )
    for name, how in (("server", ("-nodes",)), ("client", ("-passout", f"pass:{SECRET}"))):
        run(*new, *how, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
        signed = ("-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial")
        run("x509", "-req", *signed, "-days", "9", "-extfile", "names", "-out", f"{name}.pem")
    both = (folder / "client.pem").read_text() + (folder / "client.key").read_text()
    (folder / "both.pem").write_text(both)
    return {path.name: str(path) for path in folder.iterdir()}


def test_certificates(tmp_path: Path) -> None:
    files = made_files(tmp_path)
    own = (files["server.pem"], files["server.key"])
    ca = {"ca_file": files["ca.pem"]}
    with serving(own) as registry:
        value = insertion(registry)
        assert decode(value, url=registry.url, **ca) == INSERTED
        with pytest.raises(
            SchemaRegistryError, match=r"certificate is not trusted .*give the CA's as ca_file"
        ):
            decode(value, url=registry.url)
        with pytest.raises(SchemaRegistryError, match=r"names cannot be read as PEM"):
            decode(value, url=registry.url, ca_file=files["names"])
        with pytest.raises(SpecError, match=r"ca_file 'gone.pem' is not there; workers need it"):
            decode(value, url=registry.url, ca_file="gone.pem")
    with serving(own, files["ca.pem"]) as registry:
        value = insertion(registry)
        mine = {"certificate_file": files["both.pem"], "certificate_password": SECRET}
        assert decode(value, url=registry.url, **ca, **mine) == INSERTED
        with pytest.raises(SchemaRegistryError):
            decode(value, url=registry.url, **ca, attempts=1)
        with pytest.raises(SchemaRegistryError, match=r"both.pem cannot be read") as raised:
            decode(value, url=registry.url, **ca, **(mine | {"certificate_password": "wrong"}))
        assert "wrong" not in str(raised.value)


def test_what_is_said_of_a_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, said in (
        (None, "give its url"),
        ([], "give its url"),
        ("registry:8081", "is no URL such as"),
        ("ftp://h", "'ftp://h' is no URL"),
        ("http://h?x=1", "'http://h' is no URL"),
        ("http://h:port", "its url is not of the form"),
        ({"url": "http://h", "urll": 1}, "no option 'urll'. Did you mean 'url'"),
        ({"url": "http://h", "timeout": "soon"}, "timeout is 'soon'; it must be seconds above 0"),
        ({"url": "http://h", "attempts": 0}, "attempts is 0; it must be a whole number above 0"),
        ({"url": "http://h", "token": 3}, "token must be a text"),
        ({"url": "http://h", "token": f"{SECRET}\n"}, "token has characters"),
        ({"url": "http://h", "user_info": SECRET}, "user_info must read USER:PASSWORD"),
        ({"url": "http://h", "user_info": f"u:{SECRET}", "token": SECRET}, "are both given"),
        ({"url": f"http://u:{SECRET}@h", "token": SECRET}, "the URL has a user and a password"),
        (f"http://u:{SECRET}@h,http://v:{SECRET}@h", "name several users"),
        ({"url": "http://h", "ca_file": "t.jks"}, "a key store of Java's; .*openssl pkcs12"),
        (
            {"url": "http://h", "certificate_password": SECRET},
            "of a certificate_file, which is missing",
        ),
    ):
        with pytest.raises(SpecError, match=said) as raised:
            schema_registry(given)
        assert SECRET not in str(raised.value)
    monkeypatch.setenv("REGISTRY_TOKEN", SECRET)
    told: dict[str, Any] = {"url": "http://h", "token": {"env": "REGISTRY_TOKEN"}}
    assert schema_registry(told).token == SECRET
    for given in ({"env": "REGISTRY_TOKEM"}, {"env": 3}, {"environment": "REGISTRY_TOKEN"}):
        with pytest.raises(
            SpecError, match=r"token (must be a text, or name|is in the environ.*not set)"
        ):
            schema_registry(told | {"token": given})
    several = schema_registry("https://a:1/, http://b/apis/ccompat/v7/")
    assert several.urls == ("https://a:1", "http://b/apis/ccompat/v7")
    assert schema_registry(several) is several


def test_no_secret_shows(registry: Registry) -> None:
    """Not in what is printed, nor in the name of a side table's files; workers get it."""
    told = {"url": registry.url, "user_info": f"user:{SECRET}"}
    made = decoder("debezium-avro", DDL, registry=told)
    source = table_source("t", job(registry=told), "t")
    for shown in (
        made,
        source,
        source.reader_options,
        schema_registry(told),
        schema_registry({**told, "user_info": None, "token": SECRET}),
    ):
        assert SECRET not in f"{shown!r} {shown}"
    sent: Decoder = pickle.loads(pickle.dumps(made))
    assert dict(sent.options)["registry"].user_info == f"user:{SECRET}"
    assert repr(sent) == repr(decoder("debezium-avro", DDL, registry={**told, "user_info": "u:p"}))


def job(**more: Any) -> dict[str, Any]:
    topic = {"connector": "kafka", "servers": "h:1", "topic": "t", "schema": "id INT"}
    return {**topic, "format": "debezium-avro", **more}


def test_a_registry_of_jobs_and_of_a_command_line() -> None:
    told = schema_registry({"url": "http://h:1,http://i:1", "user_info": "u:p,w", "timeout": 3})
    listed = {"url": ["http://h:1", "http://i:1"], "user_info": "u:p,w", "timeout": 3}
    assert table_source("t", job(registry=listed), "t").reader_options["registry"] == told
    for given, said in (
        (job(), "its schemas are in a registry; say where: registry="),
        (job(registry="nowhere"), "is no URL"),
        (job(format="debezium-json", registry="http://h"), "debezium-json has no use for it"),
        (
            {"path": "in", "format": "debezium-avro", "schema": "id INT"},
            "lines of files cannot hold",
        ),
        (job(registry="http://h", decimals="text"), "debezium-avro has no option 'decimals'"),
    ):
        with pytest.raises(SpecError, match=said):
            found = table_source("t", given, "t")
            decoder(found.format, found.columns(), **found.reader_options)
    with (
        Harness.from_sql("SELECT COUNT(*) AS n FROM t", {"t": DDL}, backend="python") as harness,
        pytest.raises(SpecError, match=r"a harness: debezium-avro is bytes, .*read_kafka"),
    ):
        harness.read("in", "debezium-avro")


KAFKA = (
    "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'h:1', "
    "'format' = 'debezium-avro-confluent'"
)
URL = "'debezium-avro-confluent.url' = 'https://h:8081'"


def words(**told: str) -> str:
    own = (f"'debezium-avro-confluent.{name}' = '{value}'" for name, value in told.items())
    return ", ".join((KAFKA, URL, *own))


def test_flinks_words() -> None:
    options = {"basic-auth.credentials-source": "USER_INFO", "basic-auth.user-info": f"u:{SECRET}"}
    options |= {
        "ssl.truststore.location": "ca.pem",
        "ssl.keystore.location": "own.pem",
        "ssl.keystore.password": SECRET,
    }
    source = source_of(
        table(f"{words(**options)}, 'registry.timeout' = '2.5', 'registry.attempts' = '3'")
    )
    expected = {
        "url": "https://h:8081",
        "user_info": f"u:{SECRET}",
        "ca_file": "ca.pem",
        "certificate_file": "own.pem",
        "certificate_password": SECRET,
        "timeout": 2.5,
        "attempts": 3,
    }
    assert (source.format, source.options["registry"]) == (
        "debezium-avro",
        schema_registry(expected),
    )
    bearer = {"bearer-auth.credentials-source": "STATIC_TOKEN", "bearer-auth.token": SECRET}
    assert source_of(table(words(**bearer))).options["registry"].token == SECRET
    again = f"{KAFKA}, 'value.debezium-avro-confluent.schema-registry.url' = 'http://u:p@h'"
    assert source_of(table(again)).options["registry"].user_info == "u:p"
    for told, said in (
        (KAFKA, "'debezium-avro-confluent.url' is missing; it says where the schema registry is"),
        (words(schema="{}"), "schema' is not supported: columns are found by name"),
        (words(subject="x"), "subject' is not supported"),
        (words(**{"properties.x": "y"}), "properties.x' is not supported"),
        (words(**{"basic-auth.credentials-source": "SASL_INHERIT"}), "SASL_INHERIT"),
        (words(**{"bearer-auth.credentials-source": "OAUTHBEARER"}), "OAUTHBEARER"),
        (words(**{"ssl.truststore.location": "t.jks"}), "a key store of Java's"),
        (words(**{"ssl.truststore.password": SECRET}), "which has no password"),
        (
            words(**{"bearer-auth.tokn": SECRET}),
            "Did you mean 'debezium-avro-confluent.bearer-auth.token'",
        ),
        (words(**{"basic-auth.user-info": SECRET}), "user_info must read USER:PASSWORD"),
        (
            f"{KAFKA}, {URL}, 'value.debezium-avro-confluent.url' = 'http://i'",
            "not the same registry",
        ),
    ):
        with pytest.raises(OptionError, match=said) as raised:
            source_of(table(told))
        assert SECRET not in str(raised.value)


def test_flinks_other_formats() -> None:
    url = "'value.avro-confluent.url' = 'http://h', 'key.avro-confluent.url' = 'http://h'"
    both = "'key.format' = 'avro-confluent', 'value.format' = 'avro-confluent'"
    place = "'topic' = 't', 'properties.bootstrap.servers' = 'h:1'"
    upserts = source_of(table(f"'connector' = 'upsert-kafka', {place}, {both}, {url}"))
    assert (upserts.format, upserts.sends, upserts.keys) == ("upsert-avro", "upsert", ("k",))
    assert upserts.reader_options["registry"] == schema_registry("http://h")
    told = f"'connector' = 'kafka', {place}, 'format' = 'avro-confluent', 'avro-confluent.url' = 'http://h'"
    assert (source_of(table(told)).format, table(told).changes) == ("avro-confluent", "append")
    for old, new, said in (
        ("'key.format' = 'avro-confluent'", "'key.format' = 'json'", "'key.format' is 'json'"),
        ("'http://h', 'key", "'http://i', 'key", "are not the same registry"),
        (
            "'value.format' = 'avro-confluent'",
            "'value.format' = 'csv'",
            "known are json, avro-confluent",
        ),
        (url, "'key.avro-confluent.token' = 'x'", "'value.avro-confluent.url' is missing"),
    ):
        words = f"'connector' = 'upsert-kafka', {place}, {both}, {url}".replace(old, new)
        with pytest.raises(OptionError, match=said):
            source_of(table(words))


def test_flinks_words_of_a_sink() -> None:
    told = sink_of(table(words(**{"basic-auth.user-info": f"u:{SECRET}"})))
    assert isinstance(told, dict)
    assert (told["format"], told["registry"].user_info) == ("debezium-avro", f"u:{SECRET}")
    _, options = sink_options(told)
    assert SECRET not in f"{told} {options}"
    both = "'key.format' = 'avro-confluent', 'value.format' = 'avro-confluent'"
    place = "'connector' = 'upsert-kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'h:1'"
    made = sink_of(table(f"{place}, {both}, 'value.avro-confluent.url' = 'http://h'"))
    assert isinstance(made, dict)
    assert (made["format"], made["registry"].urls) == ("upsert-avro", ("http://h",))
    with pytest.raises(OptionError, match=r"subject' is not supported: .* a sink's are TOPIC-key"):
        sink_of(table(words(subject="x")))


def test_a_topics_bad_message_is_still_one(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id that the registry does not know is a bad message, and asked for again only after a while."""
    value = b"\0\0\0\0\7x"
    with pytest.raises(InputFormatError, match=f"the registry {registry.url} has no schema 7"):
        decode(value, "error", url=registry.url)
    assert decode(value, url=registry.url) == []
    assert issubclass(SchemaRegistryError, AggloomError)
    for seconds, asked in ((9_999, 1), (0, 3)):
        monkeypatch.setattr(client, "_UNKNOWN_SECONDS", seconds)
        client_of.cache_clear()
        registry.asked.clear()
        made = decoder("debezium-avro", DDL, None, "drop", registry=registry.url)
        assert len(made.decode([message(value)] * 3).refused) == 3
        assert len(registry.asked) == asked


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(SpecError, match=r"needs the package fastavro.*aggloom\[avro\].*workers"):
        decoder("debezium-avro", DDL, registry="http://h")
