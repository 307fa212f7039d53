"""Time zones of formats: the names that Java takes mean the same, others are refused with the nearest name."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

import aggloom as al
from aggloom.codegen import spell_zone
from aggloom.errors import OptionError, SpecError
from aggloom.runtime.formats.times import find_zone

NOON = "2026-07-01 12:00:00"
ZONES = {
    "UTC": 12, "Z": 12, "GMT": 12, "UT": 12, "GMT0": 12, "UTC+0": 12, "-00:00": 12, "Etc/UTC": 12,
    "GMT+08:00": 4, "UTC+8": 4, "UT+08": 4, "+8": 4, "+08": 4, "+0800": 4, "+08:00": 4, "+8:00": 4,
    "Asia/Shanghai": 4, "Etc/GMT-8": 4, "CTT": 4, "-03:30": 15.5, "GMT-3:30": 15.5, "-033000": 15.5,
    "+00:00:36": 11.99, "Europe/Berlin": 10, "PST": 19, "EST": 17, "+18:00": -6,
}  # fmt: skip
"""The hour in UTC of noon in a zone; EST has no summer in Java."""
NONE = [
    ("+19", "18 hours"), ("GMT+18:01", "18 hours"), ("europe/berlin", "Did you mean 'Europe/Berlin'"),
    ("Europe/Berlim", "Did you mean 'Europe/Berlin'"), ("+800", "write one such"), ("", "write one such"),
    ("UTC+", "Did you mean 'UTC'"), ("right/Europe/Berlin", "there is no time zone"),
    ("posixrules", "there is no time zone"), ("../UTC", "there is no time zone"), ("gmt", "GMT"),
    ("+08:60", "there is no time zone"), ("localtime", "there is no time zone"),
]  # fmt: skip


@pytest.mark.parametrize(("zone", "hour"), ZONES.items())
def test_a_text_without_a_zone_is_in_the_one_that_is_said(
    tmp_path: Path, zone: str, hour: float
) -> None:
    (tmp_path / "t.jsonl").write_text(json.dumps({"ts": NOON}) + "\n")
    harness = al.Harness.from_sql("SELECT ts FROM t", {"t": "ts TIMESTAMP"})
    harness.read(tmp_path, "jsonl", zone=zone)
    harness.flush()
    ((found,),) = harness.table()
    start = dt.datetime(2026, 7, 1, tzinfo=dt.UTC)
    assert round((found - start) / dt.timedelta(hours=1), 2) == hour
    offset = find_zone(zone).utcoffset(dt.datetime(2026, 7, 1, 12))
    assert offset is not None and round(12 - offset / dt.timedelta(hours=1), 2) == hour


@pytest.mark.parametrize(("zone", "hint"), NONE)
def test_what_java_does_not_take_is_refused_with_the_nearest_name(
    tmp_path: Path, zone: str, hint: str
) -> None:
    with pytest.raises(OptionError, match="no time zone") as refused:
        spell_zone(zone)
    assert hint in str(refused.value)
    (tmp_path / "t.jsonl").write_text("{}\n")
    harness = al.Harness.from_sql("SELECT ts FROM t", {"t": "ts TIMESTAMP"})
    with pytest.raises(SpecError, match="no time zone"):
        harness.read(tmp_path, "jsonl", zone=zone)


@pytest.mark.spark
def test_java_has_the_same_offsets(spark: object) -> None:
    """Each name as the zone of a session, read by Java."""
    from aggloom.runtime.spark.read.messages import session_zone

    before = spark.conf.get("spark.sql.session.timeZone")  # type: ignore[attr-defined]
    try:
        for zone, hour in ZONES.items():
            spark.conf.set("spark.sql.session.timeZone", zone)  # type: ignore[attr-defined]
            text = f"SELECT unix_micros(TIMESTAMP '{NOON}') AS us"
            found = spark.sql(text).collect()[0][0] / 3.6e9  # type: ignore[attr-defined]
            start = dt.datetime(2026, 7, 1, tzinfo=dt.UTC).timestamp() / 3600
            assert round(found - start, 2) == hour, zone
            assert session_zone(spark) == spell_zone(zone)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMP_NTZ"])
@pytest.mark.parametrize("text", ["0000-00-00", "2026-00-10", "2026-01-00", "0000-00-00 00:00:00"])
def test_a_zero_date_in_csv_names_the_option_that_reads_it(
    tmp_path: Path, kind: str, text: str
) -> None:
    (tmp_path / "t.csv").write_text(f"d,v\n2026-01-01,1\n{text},2\n")
    columns = f"d {kind}, v INT"
    harness = al.Harness.from_sql("SELECT v FROM t WHERE d IS NULL", {"t": columns})
    with pytest.raises(al.errors.InputFormatError, match=r'line 3: .*zero_dates="null"'):
        harness.read(tmp_path, "csv")
    harness.read(tmp_path, "csv", zero_dates="null")
    harness.flush()
    assert harness.table() == [(2,)]
    table = al.lookup_table(
        columns, files=str(tmp_path / "t.csv"), format_options={"zero_dates": "null"}
    )
    asked = (
        "SELECT r.v FROM t JOIN r FOR SYSTEM_TIME AS OF PROCTIME() ON t.v = r.v WHERE r.d IS NULL"
    )
    looked = al.Harness.from_sql(asked, {"t": "v INT"}, lookups={"r": table})
    looked.process([("+I", 1), ("+I", 2)])
    looked.flush()
    assert looked.table() == [(2,)]


def test_zero_dates_of_csv_is_error_or_null(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("v\n1\n")
    harness = al.Harness.from_sql("SELECT v FROM t", {"t": "v INT"})
    with pytest.raises(SpecError, match="zero_dates is 'keep'; it is error or null"):
        harness.read(tmp_path, "csv", zero_dates="keep")


@pytest.mark.spark
def test_zero_dates_of_csv_on_spark(spark: object, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("d,v\n0000-00-00,1\n")

    def read(**options: object) -> object:
        return al.read_changes(  # type: ignore[arg-type]
            spark, tmp_path, "csv", "d DATE, v INT", streaming=False, **options
        )

    rows = read(zero_dates="null").collect()  # type: ignore[attr-defined]
    assert [tuple(row)[:2] for row in rows] == [(None, 1)]
    with pytest.raises(SpecError, match="zero_dates is for formats of messages"):
        read(zero_dates="null", whole_files=False)
