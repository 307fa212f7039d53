#!/usr/bin/env bash
# Installs a PostgreSQL for the tests that start one, where apt-get may be used; without it they are skipped, and say so.
set -euo pipefail
. "$(dirname "$0")/apt.sh"

there() {
    command -v initdb >/dev/null 2>&1 || compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null
}

there && exit 0
apt_install "PostgreSQL (tests of databases start one)" postgresql
there || echo "no PostgreSQL: the tests that need one will be skipped (apt-get install postgresql)" >&2
