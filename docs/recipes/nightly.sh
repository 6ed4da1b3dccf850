#!/bin/sh
# One nightly run, and a message about it. cron and systemd start this file; docs/recipes.md explains it.
#
# It works in its own folder and reads its settings from nightly.env there. Its exit code is that of lab nightly run
# (0 pass, 1 fail, 2 unusable, 3 inconclusive, 4 could not measure), 75 if another run is going on, and 4 if the
# message after a pass could not be sent.
set -u
cd "$(dirname "$0")" || exit 2
PLAN=plan.toml FORM=text TO='' LINK='' SEND=cat ALWAYS=no LAB=.venv/bin/lab
. ./nightly.env || exit 2
export HF_HUB_OFFLINE=1

# The lock lasts as long as this script and the replay that it started, however they end.
exec 9>nightly.lock
if ! flock --nonblock 9; then
    echo "nightly.sh: another run is going on (nightly.lock)" >&2
    exit 75
fi

"$LAB" nightly run --plan "$PLAN" --json >nightly.json 2>nightly.log
code=$?
if [ "$code" -ne 0 ] || [ "$ALWAYS" = yes ]; then
    if ! { "$LAB" nightly message nightly.json --log nightly.log --as "$FORM" ${TO:+--to "$TO"} ${LINK:+--link "$LINK"} >message.out &&
        sh -c "$SEND" <message.out; }; then
        echo "nightly.sh: the message was not sent; it is in message.out" >&2
        [ "$code" -ne 0 ] || code=4
    fi
fi
exit "$code"
