#!/usr/bin/env bash
# Installs Chromium for the test that looks at the page, where apt-get may be used; without it that one is skipped, and says so.
set -euo pipefail
. "$(dirname "$0")/apt.sh"

there() {
    command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1
}

there && exit 0
apt_install "Chromium (a test looks at the page in it)" chromium
there || echo "no Chromium: the test of the page in a browser will be skipped (apt-get install chromium)" >&2
