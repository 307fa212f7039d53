"""Secrets in messages: one function masks them, and every error of aggloom calls it."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa
import pytest

import aggloom.errors as errors
from aggloom.codegen.spec.database_url import DatabaseUrl
from aggloom.errors import AggloomError, OptionError, SinkError
from aggloom.masking import mask_secrets, mask_values
from aggloom.runtime.connectors.database.options import database_options
from aggloom.runtime.connectors.database.sink import DatabaseSink
from aggloom.runtime.values.changelog import parse_kinds

HIDDEN = (
    "postgresql://etl:S3cr@db/shop",
    "jdbc:postgresql://etl:S3cr@db:5432/shop?ssl=true",
    "connection to postgresql://etl:S3/cr@S3cr@db:5432/shop failed",
    "https://key:S3cr@registry:8081, http://other:8081/S",
    "s3a://AKIA:S3cr/S3cr@bucket/path",
    "jdbc:postgresql://db/shop?user=etl&password=S3cr&ssl=true",
    "host=db password=S3cr user=etl",
    "host=db password = S3cr user=etl",
    "host=db password='S3 \\'S3cr' user=etl",
    "invalid dsn: 'host=db passwd=S3cr'",
    repr("host=db password='S3 cr' user=etl"),
    "host=db password=S3'S3cr\"S3cr user=etl",
    "  'url' = 'jdbc:x:', 'password' = 'S3''cr', 'table-name' = 't'",
    "'password' = 'S3 cr that is cut",
    "{'kind': 'database', 'connect': {'host': 'db', 'password': 'S3cr'}}",
    '{"a": 1, "sasl.password": "S3cr", "ssl.key.password":"S3cr"}',
    'properties.sasl.jaas.config\' = \'org.Plain required username="u" password="S3cr";\'',
    'sasl.jaas.config=org.Plain required username="u" password="S3cr";',
    "password: S3cr",
    "AWS_SECRET_ACCESS_KEY=S3cr token=S3cr secret=S3cr api_key=S3cr",
    "s3.secret-access-key: 'S3cr', 'basic.auth.user.info' = 'u:S3cr', 'x.user-info' = 'u:S3cr'",
)
KEPT = (
    "http://registry:8081/subjects?at=a@b",
    "kafka://one:9092,two:9092",
    'password authentication failed for user "etl"',
    "unexpected token: ','; write one",
    "WHERE t.token = u.token AND tokens=5",
    "postgresql://etl@db/shop",
    "mail a@b.example: secret of the table",
)


@pytest.mark.parametrize("text", HIDDEN)
def test_secrets_are_masked(text: str) -> None:
    masked = mask_secrets(text)
    assert "S3" not in masked and "cr'" not in masked and "***" in masked
    assert mask_secrets(masked) == masked
    for word in ("etl", "shop", "table-name", "registry", "other", "bucket"):
        assert (word in masked) == (word in text)
    assert mask_values({"a": [text], "b": 1}) == {"a": [masked], "b": 1}
    assert "S3" not in json.dumps(mask_values([json.dumps({"x": text})]))


@pytest.mark.parametrize("text", KEPT)
def test_other_texts_are_kept(text: str) -> None:
    assert mask_secrets(text) == text


def test_every_error_masks_its_text() -> None:
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    for kind in kinds:
        if issubclass(kind, AggloomError):
            error = pickle.loads(pickle.dumps(kind(f"at {HIDDEN[0]}")))
            assert str(error) == "at postgresql://etl:***@db/shop"
            assert "S3" not in repr(error)


def test_a_driver_that_quotes_what_it_connects_with() -> None:
    for connect in (
        "host=127.0.0.1 port=1 password=S3cr nonsense=1",
        "host=127.0.0.1 password=S3cr x",
    ):
        options = database_options({"table": "t", "connect": connect})
        assert "S3cr" not in repr(options)
        rows = pa.table({"k": pa.array([1], pa.int64())})
        with pytest.raises(SinkError) as caught:
            DatabaseSink(options, ("k",), True).write(
                rows, parse_kinds(pa.array(["+I"]), "t"), 0, "id"
            )
        assert "S3cr" not in f"{caught.value} {caught.value.__cause__!r}"


def test_a_bad_url() -> None:
    with pytest.raises(OptionError, match="known") as caught:
        DatabaseUrl("jdbc:oracle://etl:S3cr@db/shop?password=S3cr")
    assert "S3cr" not in str(caught.value)
    assert "S3cr" not in repr(DatabaseUrl("jdbc:postgresql://etl:S3cr@db/shop"))
