#!/bin/sh
# verified.sh COMMAND STAMP FILE [OPTIONS]: the stamp is made where every site of FILE is right.
set -u
command=$1
stamp=$2
shift 2
"$command" verify "$@" || exit
: >"$stamp"
