#!/bin/sh
# The demo guest's page. It shows which guest answered, its uptime, its boot id, and the time by its own clock.
read -r uptime _ </proc/uptime
printf 'Content-Type: text/html\r\n\r\n'
boot=$(cat /proc/sys/kernel/random/boot_id)
printf '<!doctype html>\n<title>%s</title>\n<p>This is %s, up for %s seconds.</p>\n' "$(hostname)" "$(hostname)" "$uptime"
printf '<p>Boot <code>%s</code>, and by its clock it is <time>%s</time>.</p>\n' "$boot" "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
