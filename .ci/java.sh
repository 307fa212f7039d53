#!/usr/bin/env bash
# Makes sure that a Java 17 or newer can be started, for Spark; installs a headless one where apt-get may be used.
set -euo pipefail
. "$(dirname "$0")/apt.sh"

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

for package in openjdk-17-jre-headless default-jre-headless; do
    apt_install "a headless Java (Spark needs 17 or newer)" "$package"
    new_enough && exit 0
done

cat >&2 <<MESSAGE
Spark needs Java 17 or newer, and none was found${JAVA_HOME:+ (JAVA_HOME is $JAVA_HOME)}.
Install one and run this again:
  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless
  Fedora:          sudo dnf install java-17-openjdk-headless
  macOS:           brew install openjdk@17
or set JAVA_HOME to a Java 17 that is already there.
MESSAGE
exit 1
