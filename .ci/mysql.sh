#!/usr/bin/env bash
# Installs a MySQL or MariaDB for the tests that start one, where apt-get may be used; without it they are skipped, and say so.
set -euo pipefail
. "$(dirname "$0")/apt.sh"

there() {
    # MariaDB's installer reads its options by a program that Debian has in the package of the clients.
    if command -v mariadb-install-db >/dev/null 2>&1; then command -v my_print_defaults >/dev/null 2>&1 || return 1; fi
    PATH="$PATH:/usr/sbin" command -v mariadbd >/dev/null 2>&1 || PATH="$PATH:/usr/sbin" command -v mysqld >/dev/null 2>&1
}

there && exit 0
# The core alone: no service is started, and no data directory is made.
apt_install "MariaDB (tests of databases start one)" mariadb-server-core mariadb-client-core
there || apt_install "MySQL (tests of databases start one)" default-mysql-server-core
there || echo "no MySQL or MariaDB: the tests that need one will be skipped (apt-get install mariadb-server-core mariadb-client-core)" >&2
