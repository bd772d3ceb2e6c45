/**
 * Host side of libvirt's guests in this lab: its daemon behind mutual TLS like ours, disks in the same pool, one routed
 * tap.
 */
import { appendFileSync, mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { sh } from '../lab/inside/shell.ts'

const TLS = '/etc/vmhostd/tls'
const CLIENT_FILES = '/run/bench-peers'
/** Beside our disks, so that both are on the same file system. */
const POOL_FOLDER = '/var/lib/vmhostd/pool/bench-peers'
const SAVES_FOLDER = `${POOL_FOLDER}-saves`
/** Folder of libvirt's saved guests. */
const LIBVIRT_SAVES = '/var/lib/libvirt/qemu/save'
/** A folder that libvirt's own user can reach. */
const IMAGES = '/var/lib/libvirt/images'

export const LIBVIRT_URI = `qemu+tls://localhost/system?pkipath=${CLIENT_FILES}`

export const LIBVIRT_GUEST = {
  ipv4Address: '192.0.2.21',
  tap: { device: 'lvtap0', macAddress: '02:76:ff:00:00:01' },
} as const

/**
 * Makes libvirtd listen with our daemon's certificates, and lets a client find the controller's (libvirtd.conf,
 * remote.html).
 */
export async function prepareLibvirt(): Promise<void> {
  await sh(
    'systemctl',
    'stop',
    'libvirtd.service',
    'libvirtd.socket',
    'libvirtd-ro.socket',
    'libvirtd-admin.socket',
  )
  const lines = [
    ['ca', 'ca.crt'],
    ['cert', 'server.crt'],
    ['key', 'server.key'],
  ] as const
  appendFileSync(
    '/etc/libvirt/libvirtd.conf',
    lines.map(([key, file]) => `${key}_file = "${TLS}/${file}"\n`).join(''),
  )
  mkdirSync(CLIENT_FILES, { recursive: true })
  symlinkSync(`${TLS}/ca.crt`, `${CLIENT_FILES}/cacert.pem`)
  symlinkSync(`${TLS}/controller.crt`, `${CLIENT_FILES}/clientcert.pem`)
  symlinkSync(`${TLS}/controller.key`, `${CLIENT_FILES}/clientkey.pem`)
  await sh('systemctl', 'start', 'libvirtd-tls.socket', 'libvirtd.service')
  mkdirSync(POOL_FOLDER)
  await sh('mount', '--bind', POOL_FOLDER, IMAGES)
  mkdirSync(SAVES_FOLDER)
  await sh('mount', '--bind', SAVES_FOLDER, LIBVIRT_SAVES)
}

/** Prepares a tap as our daemon does: the gateway on it, the guest routed to it, a permanent neighbour. */
export async function prepareTap(): Promise<void> {
  const { ipv4Address, tap } = LIBVIRT_GUEST
  await sh('ip', 'tuntap', 'add', 'dev', tap.device, 'mode', 'tap', 'vnet_hdr')
  await sh('ip', 'link', 'set', 'dev', tap.device, 'up')
  await sh('ip', 'address', 'add', '169.254.0.1/32', 'dev', tap.device)
  await sh('ip', 'route', 'add', `${ipv4Address}/32`, 'dev', tap.device)
  const neighbour = ['lladdr', tap.macAddress, 'dev', tap.device, 'nud', 'permanent']
  await sh('ip', 'neighbour', 'replace', ipv4Address, ...neighbour)
}

/**
 * Copies one of our files for a guest of libvirt, as our daemon makes a disk: a clone, then its size. Returns the path.
 */
export async function cloneFile(source: string, name: string, sizeMib?: number): Promise<string> {
  await sh('cp', '--reflink=auto', source, `${POOL_FOLDER}/${name}`)
  if (sizeMib !== undefined) await sh('truncate', `--size=${sizeMib}M`, `${POOL_FOLDER}/${name}`)
  return `${IMAGES}/${name}`
}

export async function takeAwayLibvirt(): Promise<void> {
  await sh('umount', IMAGES, LIBVIRT_SAVES)
  for (const folder of [POOL_FOLDER, SAVES_FOLDER]) rmSync(folder, { recursive: true })
  await sh('ip', 'link', 'delete', 'dev', LIBVIRT_GUEST.tap.device)
}
