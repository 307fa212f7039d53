#!/usr/bin/env bash
# Installs a PostgreSQL for the tests that start one, where apt-get may be used; without it they are skipped, and say so.
set -euo pipefail

there() {
    command -v initdb >/dev/null 2>&1 || compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null
}

there && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo -n)
fi
if command -v apt-get >/dev/null 2>&1 && { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; }; then
    echo "installing PostgreSQL through apt-get (tests of databases start one)"
    "${as_root[@]}" apt-get update -qq || true
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql >/dev/null || true
fi
there || echo "no PostgreSQL: the tests that need one will be skipped (apt-get install postgresql)" >&2
