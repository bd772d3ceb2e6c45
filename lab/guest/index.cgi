#!/bin/sh
# The demo guest's page: enough to see which guest answered, since when it has been up, whether it is the same since its
# boot, and what time it is by its own clock.
read -r uptime _ </proc/uptime
printf 'Content-Type: text/html\r\n\r\n'
boot=$(cat /proc/sys/kernel/random/boot_id)
printf '<!doctype html>\n<title>%s</title>\n<p>This is %s, up for %s seconds.</p>\n' "$(hostname)" "$(hostname)" "$uptime"
printf '<p>Boot <code>%s</code>, and by its clock it is <time>%s</time>.</p>\n' "$boot" "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
