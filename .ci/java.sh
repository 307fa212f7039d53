#!/usr/bin/env bash
# Makes sure that a Java 17 or newer can be started, for Spark; installs a headless one where apt-get may be used.
set -euo pipefail

major() {
    "$1" -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p' | head -n 1
}

new_enough() {
    local java found
    java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
    command -v "$java" >/dev/null 2>&1 || return 1
    found="$(major "$java" || true)"
    [ -n "$found" ] && [ "$found" -ge 17 ]
}

new_enough && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo -n)
fi
if command -v apt-get >/dev/null 2>&1 && { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; }; then
    echo "installing a headless Java through apt-get (Spark needs 17 or newer)"
    "${as_root[@]}" apt-get update -qq || true
    for package in openjdk-17-jre-headless default-jre-headless; do
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >/dev/null || true
        new_enough && exit 0
    done
fi

cat >&2 <<MESSAGE
Spark needs Java 17 or newer, and none was found${JAVA_HOME:+ (JAVA_HOME is $JAVA_HOME)}.
Install one and run this again:
  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless
  Fedora:          sudo dnf install java-17-openjdk-headless
  macOS:           brew install openjdk@17
or set JAVA_HOME to a Java 17 that is already there.
MESSAGE
exit 1
