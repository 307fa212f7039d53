"""URLs of databases as Java's drivers take them, in the words of Python's."""

from __future__ import annotations

import pytest

from aggloom.codegen.spec.database_url import DatabaseUrl
from aggloom.codegen.spec.mysql_url import mysql_arguments
from aggloom.errors import OptionError


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("//db:5433/shop", {"host": "db", "port": "5433", "dbname": "shop"}),
        ("shop", {"dbname": "shop"}),
        (
            "//db/shop?user=etl&password=a%26b&currentSchema=x,y",
            {"user": "etl", "password": "a&b", "options": "-c search_path=x,y"},
        ),
        (
            "//db/shop?ApplicationName=my%20job&connectTimeout=3&sslmode=require",
            {"application_name": "my job", "connect_timeout": "3", "sslmode": "require"},
        ),
        ("//db/shop?ssl=true", {"sslmode": "verify-full"}),
        ("//a,b/shop?targetServerType=primary", {"target_session_attrs": "primary"}),
    ],
)
def test_parameters_of_java_are_those_of_libpq(rest: str, expected: dict[str, str]) -> None:
    conninfo = pytest.importorskip("psycopg.conninfo")
    found = conninfo.conninfo_to_dict(DatabaseUrl(f"jdbc:postgresql:{rest}")._of_libpq())
    assert expected.items() <= found.items()


@pytest.mark.parametrize(
    "parameter", ["reWriteBatchedInserts=true", "stringtype=unspecified", "prepareThreshold=0"]
)
def test_parameters_that_mean_nothing_here_are_refused_at_once(parameter: str) -> None:
    with pytest.raises(OptionError, match=f"'url' has {parameter}, a parameter of Java's driver"):
        DatabaseUrl(f"jdbc:postgresql://db/shop?{parameter}")


def test_a_url_of_mysql() -> None:
    words = "user=etl&password=a%26b&connectTimeout=2500"
    assert mysql_arguments(f"mysql://[::1]:3307/shop?{words}") == {
        "host": "::1",
        "port": 3307,
        "database": "shop",
        "charset": "utf8mb4",
        "user": "etl",
        "password": "a&b",
        "connect_timeout": 2,
    }
    assert mysql_arguments("mariadb://a%40b:c@db")["user"] == "a@b"
    assert DatabaseUrl("jdbc:mysql://db/shop").quote == "`"
    for url, why in (
        ("mysql://db/shop?useSSL=false", "has useSSL, or a value of it, that Python"),
        ("mysql://db/shop?connectTimeout=soon", "has connectTimeout"),
        ("mysql:shop", "no URL of MySQL"),
        ("mysql://etl:x/y@db/shop", "cannot be read; .* %2F"),
    ):
        with pytest.raises(OptionError, match=why):
            DatabaseUrl(f"jdbc:{url}")
