#!/usr/bin/env bash
# Fetches the jars of a Kafka broker, of Spark's connector and of Debezium into build/kafka, once: the Ivy that comes with
# Spark finds them. Without them the tests that need them are skipped, and say so.
set -euo pipefail
cd "$(dirname "$0")/.."

into=build/kafka
# What is listed names versions: another list is another directory's content.
wanted="$(cksum <.ci/kafka.xml)"
[ "$(cat "$into/complete" 2>/dev/null || true)" = "$wanted" ] && exit 0

python="${BIN:-.venv/bin}/python"
ivy="$("$python" -c 'import pathlib, pyspark; print(next((pathlib.Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")))')"
echo "fetching a Kafka broker, Spark's connector and Debezium into $into (once)"
rm -rf "$into" && mkdir -p "$into"
if java -jar "$ivy" -cache "$into/ivy" -ivy .ci/kafka.xml -confs broker connector connect -types jar bundle \
    -retrieve "$into/[conf]/[artifact]-[revision].[ext]" >"$into/log" 2>&1; then
    rm -rf "$into/ivy"
    echo "$wanted" >"$into/complete"
else
    echo "no Kafka: the tests that need one will be skipped ($into/log says why)" >&2
fi
