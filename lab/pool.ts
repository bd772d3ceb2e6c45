import { existsSync, writeFileSync } from 'node:fs'
import { LOOP_NODES } from './loops.ts'
import { execIn } from './exec.ts'
import type { LabState } from './state.ts'

/** Size of the lab's pool; its file is sparse, so it takes only the space of its content. */
const POOL_SIZE = '16G'
const POOL_FILE = '/var/lib/lab/pool.xfs'

/** Mount point of the daemon's pool inside a lab: a real copy-on-write file system. */
export const LAB_POOL = '/var/lib/vmhostd/pool'

/** Gives `/dev/kvm` to the group kvm, as udev does on a host (50-udev-default.rules). */
const MAKE_KVM = [
  'getent group kvm >/dev/null || groupadd --system kvm',
  '[ -e /dev/kvm ] || mknod /dev/kvm c 10 232',
  'chgrp kvm /dev/kvm',
  'chmod 660 /dev/kvm',
].join('\n')

const SCRIPT = '/usr/local/sbin/furnish-lab'
const UNIT = '/etc/systemd/system/furnish-lab.service'

/** Repeats the preparation at each later boot of the lab, as a host mounts its pool before the daemon starts. */
const UNIT_TEXT = `[Unit]
Before=vmhostd.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=${SCRIPT}
[Install]
WantedBy=multi-user.target
`

/**
 * Prepares a booted lab, also for its later boots: loop devices, KVM if this machine has it, a pool that can reflink,
 * and forwarding (only inside the lab's network).
 */
export async function furnish(state: LabState): Promise<void> {
  const script = [
    '#!/bin/sh',
    'set -e',
    '[ -e /dev/loop-control ] || mknod /dev/loop-control c 10 237',
    `for n in $(seq 0 ${LOOP_NODES - 1}); do [ -e /dev/loop$n ] || mknod -m 660 /dev/loop$n b 7 $n; done`,
    // The mode that udev sets on a host (50-udev-default.rules): monitors open the device as separate users.
    'chmod 666 /dev/net/tun',
    // A node of the lab's own, since the group of this machine's node has a number that the lab does not know.
    ...(existsSync('/dev/kvm') ? [MAKE_KVM] : []),
    `mkdir -p ${POOL_FILE.replace(/\/[^/]*$/, '')} ${LAB_POOL}`,
    `[ -e ${POOL_FILE} ] || { truncate -s ${POOL_SIZE} ${POOL_FILE}; mkfs.xfs -q -m reflink=1 ${POOL_FILE}; }`,
    // Bypass the page cache of this machine. Otherwise each flush of one file would write out all files, as no disk
    // does.
    `device=$(losetup --find --show --direct-io=on ${POOL_FILE})`,
    `mount "$device" ${LAB_POOL}`,
    // The device is freed with the last mount.
    'losetup --detach "$device"',
    'for f in /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all/forwarding; do echo 1 >$f; done',
  ]
  const root = `/proc/${state.leader?.pid}/root`
  writeFileSync(root + SCRIPT, `${script.join('\n')}\n`, { mode: 0o755 })
  writeFileSync(root + UNIT, UNIT_TEXT)
  const begin = 'systemctl daemon-reload && systemctl --quiet enable --now furnish-lab'
  const result = await execIn(state, ['sh', '-c', begin], { timeoutMs: 60_000 })
  if (result.code !== 0) throw new Error(`the lab's pool could not be made: ${result.stderr.trim()}`)
}
