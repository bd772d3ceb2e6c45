/** libvirt's guest on two hosts, which moves over mutual TLS with the certificates of our nodes. */
import { setTimeout as sleep } from 'node:timers/promises'
import { AS_NODE, fileUrl, serve, SERVED } from './migrate-stream.ts'
import { labExec } from '../lab/lab.ts'
import { TLS } from '../test/two-hosts/lab-host.ts'
import type { LabHost } from '../test/two-hosts/lab-host.ts'

/** On the file system of our disks, at a path that libvirt's own user can reach. */
const POOL_FOLDER = '/var/lib/vmhostd/pool/bench-migrate'
export const LIBVIRT_IMAGES = '/var/lib/libvirt/images'
const PKI = '/etc/pki/vmhostd-bench'
const MOVE_BOUND_MS = 120_000
const EVENTS_READY_MS = 300

/** The host side of every tap of libvirt's guest: a guest keeps the address of its gateway when it moves. */
const GATEWAY_MAC = '02:76:ff:00:00:fe'

export const LIBVIRT_GUEST = {
  name: 'bench-migrate',
  ipv4Address: '192.0.2.21',
  tap: { device: 'lvtap0', macAddress: '02:76:ff:00:00:01' },
} as const

/** Files that `migrate_tls_x509_cert_dir` of qemu.conf wants, and the files of our node. */
const CERTIFICATES = [
  ['ca-cert.pem', 'nodes-ca.crt'],
  ['server-cert.pem', 'node.crt'],
  ['server-key.pem', 'node.key'],
  ['client-cert.pem', 'node.crt'],
  ['client-key.pem', 'node.key'],
] as const

/** Lets libvirt listen, and makes the place of its disk. */
export async function prepareHost(host: LabHost, diskMib: number): Promise<void> {
  const script = [
    'set -e',
    'systemctl stop libvirtd.service libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket',
    `echo 'auth_tcp = "none"' >>/etc/libvirt/libvirtd.conf`,
    `printf '%s\\n' 'migrate_tls_x509_cert_dir = "${PKI}"' 'migrate_tls_x509_verify = 1' >>/etc/libvirt/qemu.conf`,
    `mkdir -p ${PKI}`,
    ...CERTIFICATES.map(([theirs, ours]) => `cp ${TLS}/${ours} ${PKI}/${theirs}`),
    `chgrp -R libvirt-qemu ${PKI}; chmod 750 ${PKI}; chmod 640 ${PKI}/*`,
    'systemctl start libvirtd-tcp.socket libvirtd.service',
    `mkdir ${POOL_FOLDER}`,
    `mount --bind ${POOL_FOLDER} ${LIBVIRT_IMAGES}`,
    `truncate --size=${diskMib}M ${LIBVIRT_IMAGES}/disk`,
  ]
  await host.run('sh', '-c', script.join('\n'))
}

/** Makes a tap like ours. */
export async function prepareTap(host: LabHost): Promise<void> {
  const { ipv4Address, tap } = LIBVIRT_GUEST
  const { device, macAddress } = tap
  const script = [
    'set -e',
    `ip tuntap add dev ${device} mode tap vnet_hdr`,
    `ip link set dev ${device} address ${GATEWAY_MAC} up`,
    `ip address add 169.254.0.1/32 dev ${device}`,
    `ip route add ${ipv4Address}/32 dev ${device}`,
    `ip neighbour replace ${ipv4Address} lladdr ${macAddress} dev ${device} nud permanent`,
  ]
  await host.run('sh', '-c', script.join('\n'))
}

/** Starts the guest of this XML. */
export async function startGuest(host: LabHost, xml: string): Promise<void> {
  await host.run(
    'sh',
    '-c',
    `cat >/root/guest.xml <<'XML'\n${xml}\nXML\nvirsh --quiet create /root/guest.xml`,
  )
}

/**
 * Moves the guest with its disk. `onRunning` is called when libvirt of the destination reports that the guest runs
 * there, which is before the command has ended. Returns the milliseconds that the command took.
 */
export async function moveGuest(from: LabHost, to: LabHost, onRunning: () => Promise<void>): Promise<number> {
  const running = Promise.withResolvers<void>()
  const events = labExec(
    to.lab,
    ['timeout', '60', 'stdbuf', '-oL', 'virsh', 'event', '--event', 'lifecycle', '--loop'],
    {
      onOutput: (chunk) => {
        if (/Resumed/.test(chunk.toString())) void onRunning().then(running.resolve, running.reject)
      },
    },
  )
  await sleep(EVENTS_READY_MS)
  const startedAt = performance.now()
  const target = [`qemu+tcp://${to.address}/system`, `tcp://${to.address}`]
  const options = ['--live', '--copy-storage-all', '--tls']
  const { code, stderr } = await labExec(
    from.lab,
    ['virsh', '--quiet', 'migrate', ...options, LIBVIRT_GUEST.name, ...target],
    { timeoutMs: MOVE_BOUND_MS },
  )
  const tookMs = performance.now() - startedAt
  if (code !== 0) throw new Error(`libvirt does not move the guest: ${stderr}`)
  await running.promise
  await to.run('pkill', '-x', 'virsh')
  await events
  return tookMs
}

/**
 * Moves the memory of the guest by hand: `virsh save`, curl over the TLS of the nodes, `virsh restore`. The disk of the
 * destination stays as it is, so the guest is only good for its time. `onRunning` is called when it runs again.
 */
export async function moveByHand(
  from: LabHost,
  to: LabHost,
  onRunning: () => Promise<void>,
): Promise<number> {
  const end = await serve(from)
  const startedAt = performance.now()
  await from.run('virsh', '--quiet', 'save', LIBVIRT_GUEST.name, `${SERVED}/file`)
  const copy = '/root/bench-memory'
  await to.run('curl', '--silent', '--fail', '--output', copy, ...AS_NODE, fileUrl(from))
  await to.run('virsh', '--quiet', 'restore', copy)
  await onRunning()
  const tookMs = performance.now() - startedAt
  await end()
  await from.run('rm', '-r', SERVED)
  await to.run('rm', copy)
  return tookMs
}

/** Ends the guest wherever it is, and removes what was prepared. */
export async function takeAway(host: LabHost): Promise<void> {
  await labExec(host.lab, ['virsh', 'destroy', LIBVIRT_GUEST.name])
  await host.run('umount', LIBVIRT_IMAGES)
  await host.run('rm', '-r', POOL_FOLDER)
  await host.run('ip', 'link', 'delete', 'dev', LIBVIRT_GUEST.tap.device)
}
