#!/usr/bin/env bash
# Checks that this machine can build the project, and says what to type when it cannot. `need.sh test` wants what the tests
# need beside that, too: root gets a missing Debian package installed, anybody else gets the command.
set -u

minor=26 # the oldest Go is 1.26; go.mod says the same

fail() {
	printf '%s\n' "cannot build workflowd: $1" "fix: $2" >&2
	exit 1
}

command -v go >/dev/null 2>&1 ||
	fail "there is no go command" "install Go 1.$minor or newer (https://go.dev/doc/install) and open a new shell"
version=$(go env GOVERSION) || fail "go does not start" "go version"
case "$version" in
go1.*)
	have=${version#go1.}
	have=${have%%[!0-9]*}
	[ "${have:-0}" -ge "$minor" ] ||
		fail "Go is $version, 1.$minor or newer is needed" "go env -w GOTOOLCHAIN=auto   # lets go fetch the version that go.mod names"
	;;
esac
[ "$(go env CGO_ENABLED)" = 1 ] ||
	fail "cgo is off, SQLite needs it" "go env -w CGO_ENABLED=1   # and unset CGO_ENABLED in this shell"
cc=$(go env CC)
# CC may hold arguments, so it is split on purpose.
# shellcheck disable=SC2086
if ! printf '#include <stdlib.h>\nint main(void) { return 0; }\n' | ${cc:-gcc} -x c -fsyntax-only - >/dev/null 2>&1; then
	case "$(uname -s)" in
	Darwin) fix="xcode-select --install" ;;
	*)
		fix="sudo apt-get install -y gcc libc6-dev   # or your system's C compiler"
		[ "$(id -u)" = 0 ] && fix="apt-get install -y gcc libc6-dev"
		;;
	esac
	fail "the C compiler \"${cc:-gcc}\" does not work, SQLite needs one" "$fix"
fi

# program wants a program that a Debian package of the same name brings.
program() {
	command -v "$1" >/dev/null 2>&1 && return
	install="apt-get install -y $1"
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
		echo "installing $1, which a test needs" >&2
		{ $install || { apt-get update && $install; }; } >&2 && command -v "$1" >/dev/null 2>&1 && return
	fi
	[ "$(id -u)" = 0 ] || install="sudo $install"
	printf '%s\n' "cannot test workflowd: there is no $1, by which a test sees in which order things are synced" "fix: $install" >&2
	exit 1
}

if [ "${1:-}" = test ] && [ "$(uname -s)" = Linux ]; then
	program strace
fi
