# Sourced by the scripts beside it: installs packages through apt-get where it may be used, and fails quietly where not.
# apt_install WHAT PACKAGE...: WHAT is said on the terminal.

apt_install() {
    local what="$1" as_root=()
    shift
    if [ "$(id -u)" -ne 0 ]; then
        sudo -n true 2>/dev/null || return 0
        as_root=(sudo -n)
    fi
    command -v apt-get >/dev/null 2>&1 || return 0
    echo "installing $what through apt-get"
    "${as_root[@]}" apt-get update -qq || true
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null || true
}
