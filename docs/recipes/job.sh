#!/bin/sh
# Runs one job of `lab canary plan`: job.sh [--again] NAME COMMAND…
#
# Silent if the command succeeds. Otherwise it sends a message, with the settings of nightly.env. Its exit code is that
# of the command, and 75 if the job is still running. The output of the last time is in NAME.out and NAME.log.
# With --again it does nothing if the job runs, or ended the last time with 0, 1 or 2, which another start would repeat:
# NAME.code holds that.
set -u
cd "$(dirname "$0")" || exit 2
FORM=text TO='' LINK='' SEND=cat LAB=.venv/bin/lab
. ./nightly.env || exit 2
export HF_HUB_OFFLINE=1
# cron does not set it, and systemctl --user needs it.
export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/run/user/$(id -u)}"
again=
if [ "$1" = --again ]; then
    again=yes
    shift
fi
name=$1
shift

# The lock lasts as long as this script and the command that it started, however they end.
exec 9>"$name.lock"
if ! flock --nonblock 9; then
    [ -z "$again" ] || exit 0
    echo "job.sh: $name is still running ($name.lock)" >&2
    exit 75
fi

[ -z "$again" ] || ! grep -qx '[012]' "$name.code" 2>/dev/null || exit 0
rm -f "$name.code"

"$@" >"$name.out" 2>"$name.log"
code=$?
echo "$code" >"$name.code"
if [ "$code" -ne 0 ]; then
    : >"$name.none"
    if ! { "$LAB" nightly message "$name.none" --log "$name.log" --as "$FORM" ${TO:+--to "$TO"} >message-"$name".out &&
        sh -c "$SEND" <message-"$name".out; }; then
        echo "job.sh: the message was not sent; it is in message-$name.out" >&2
    fi
fi
exit "$code"
