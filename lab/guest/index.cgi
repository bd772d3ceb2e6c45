#!/bin/sh
# The demo guest's page: enough to see which guest answered, and since when it has been up.
read -r uptime _ </proc/uptime
printf 'Content-Type: text/html\r\n\r\n'
printf '<!doctype html>\n<title>%s</title>\n<p>This is %s, up for %s seconds.</p>\n' "$(hostname)" "$(hostname)" "$uptime"
