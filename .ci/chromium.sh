#!/usr/bin/env bash
# Installs Chromium for the test that looks at the page, where apt-get may be used; without it that one is skipped, and says so.
set -euo pipefail

there() {
    command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1
}

there && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo -n)
fi
if command -v apt-get >/dev/null 2>&1 && { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; }; then
    echo "installing Chromium through apt-get (a test looks at the page in it)"
    "${as_root[@]}" apt-get update -qq || true
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null || true
fi
there || echo "no Chromium: the test of the page in a browser will be skipped (apt-get install chromium)" >&2
