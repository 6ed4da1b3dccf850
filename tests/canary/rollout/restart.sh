#!/bin/sh
# Restarts the gateway of a folder, as a service manager does: one restart at a time, ended when the gateway is up.
cd "$1" || exit 2
exec 9>restart.lock
flock 9
if [ -e no-restart ]; then
    echo "the service manager is away" >&2
    exit 5
fi
[ -e pid ] && kill -9 "$(cat pid)" 2>/dev/null
rm -f running.json
"$2" "$3/gateway.py" . >>console.txt 2>&1 9>&- &
echo $! >pid
for _ in $(seq 200); do
    [ -e running.json ] && exit 0
    kill -0 "$(cat pid)" 2>/dev/null || break
    sleep 0.02
done
tail -n 1 console.txt >&2
exit 1
