#!/usr/bin/env bash
# Makes sure that a PostgreSQL server can be started by a test; installs one where apt-get may be used. Without it that test is skipped.
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
    echo "installing PostgreSQL through apt-get (for the test of lookup joins)"
    "${as_root[@]}" apt-get update -qq || true
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null || true
fi
there || echo "PostgreSQL cannot be installed here; its test is skipped" >&2
