/*
 * Stand-ins for images of distributions, made of Debian's packages: the disk that Debian publishes for clouds, the same
 * with the partitions that Ubuntu 24.04 has, and the root of Debian's container image.
 */
import { copyFileSync, existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { mmdebstrap } from '../../lab/mmdebstrap.ts'
import { distributionMirror } from '../apt.ts'
import { hashInputs } from '../hash.ts'
import { withLock } from '../lock.ts'
import { cachePath, checkout } from '../paths.ts'
import { publish } from '../publish.ts'
import { step } from '../step.ts'
import type { StepLog } from '../step.ts'

export const DEBIAN_IMAGE = 'debian-12-genericcloud-amd64.qcow2'
export const UBUNTU_IMAGE = 'noble-server-cloudimg-amd64.img'
/** Root file system of the container image. */
export const CONTAINER_ROOT = 'debian-12.tar'
/** Kernel and initrd as they were put into the disks, to compare. */
export const BOOT_FILES = ['vmlinuz', 'initrd'] as const

const SUITE = 'bookworm'
const INPUTS = [import.meta.filename, path.join(checkout, 'lab/mmdebstrap.ts')]

/** Packages of Debian's cloud image, as far as a boot needs them. */
const PACKAGES = [
  ...['systemd', 'systemd-sysv', 'systemd-resolved', 'udev', 'dbus', 'initramfs-tools', 'kmod', 'iproute2'],
  ...['linux-image-cloud-amd64', 'cloud-init', 'cloud-guest-utils', 'netplan.io', 'openssh-server', 'sudo'],
]

const SECTOR_BYTES = 512
const ROOT_SECTORS = 3_072_000
const BOOT_SECTORS = 409_600

type Partition = {
  readonly number: number
  readonly start: number
  readonly size: number
  readonly type: string
}

const ROOT_ID = '11111111-2222-4333-8444-555555555501'
const ESP_ID = '11111111-2222-4333-8444-555555555515'

/** Partition types (UEFI specification, 5.3.3, and the Discoverable Partitions Specification). */
const TYPES = {
  bios: '21686148-6449-6E6F-744E-656564454649',
  esp: 'C12A7328-F81F-11D2-BA4B-00A0C93EC93B',
  linux: '0FC63DAF-8483-4772-8E79-3D69D8477DE4',
  boot: 'BC13C2FF-59E6-4262-A352-B275FD6F7172',
}

type Layout = {
  readonly fstab: string
  readonly partitions: readonly Partition[]
  readonly bootNumber?: number
}

const LAYOUTS: Readonly<Record<string, Layout>> = {
  [DEBIAN_IMAGE]: {
    fstab: [
      `PARTUUID=${ROOT_ID} / ext4 rw,discard,errors=remount-ro,x-systemd.growfs 0 1`,
      `PARTUUID=${ESP_ID} /boot/efi vfat defaults 0 0`,
    ].join('\n'),
    partitions: [
      { number: 1, start: 262_144, size: ROOT_SECTORS, type: `${TYPES.linux}, uuid=${ROOT_ID}` },
      { number: 14, start: 2048, size: 6144, type: TYPES.bios },
      { number: 15, start: 8192, size: 253_952, type: `${TYPES.esp}, uuid=${ESP_ID}` },
    ],
  },
  [UBUNTU_IMAGE]: {
    fstab: [
      'LABEL=cloudimg-rootfs / ext4 discard,errors=remount-ro 0 1',
      'LABEL=BOOT /boot ext4 defaults 0 2',
      'LABEL=UEFI /boot/efi vfat umask=0077 0 1',
    ].join('\n'),
    partitions: [
      { number: 1, start: 700_416, size: ROOT_SECTORS, type: TYPES.linux },
      { number: 14, start: 2048, size: 8192, type: TYPES.bios },
      { number: 15, start: 10_240, size: 217_088, type: TYPES.esp },
      { number: 16, start: 227_328, size: BOOT_SECTORS, type: TYPES.boot },
    ],
    bootNumber: 16,
  },
}

/** Returns the folder with all stand-ins; builds them first if the cache lacks them. */
export async function ensureStandIns(): Promise<string> {
  const folder = path.join(cachePath('images'), hashInputs(INPUTS))
  if (!existsSync(folder)) {
    const mirror = await distributionMirror('Debian')
    await withLock('images', async () => {
      if (existsSync(folder)) return
      await step('build stand-ins for a cloud image and a container image', (log) =>
        publish(folder, (building) => build(mirror, building, log)),
      )
    })
  }
  return folder
}

async function build(mirror: string, building: string, log: StepLog): Promise<void> {
  const tree = path.join(building, 'tree')
  const bootstrap = (packages: readonly string[], target: string): Promise<string> =>
    mmdebstrap(['--variant=minbase', `--include=${packages.join(',')}`, SUITE, target, mirror], log)
  await bootstrap(['ca-certificates'], path.join(building, CONTAINER_ROOT))
  await bootstrap(PACKAGES, tree)
  settle(tree)
  // Without a boot loader, so this is all of /boot.
  for (const name of BOOT_FILES) {
    const [file = ''] = (await log.run(['sh', '-c', `ls ${tree}/boot/${name}*`])).trim().split('\n')
    copyFileSync(file, path.join(building, name))
  }
  // The last one moves /boot out of the tree.
  for (const name of [DEBIAN_IMAGE, UBUNTU_IMAGE]) await writeImage(name, building, log)
  rmSync(tree, { recursive: true })
}

/** Leaves no identity of a machine in the tree, as in an image that is published. */
function settle(tree: string): void {
  writeFileSync(path.join(tree, 'etc/machine-id'), '')
  writeFileSync(path.join(tree, 'etc/default/locale'), 'LANG=C.UTF-8\n')
  for (const name of ['etc/hostname', 'etc/resolv.conf']) rmSync(path.join(tree, name), { force: true })
  symlinkSync('../run/systemd/resolve/stub-resolv.conf', path.join(tree, 'etc/resolv.conf'))
  mkdirSync(path.join(tree, 'boot/efi'))
}

async function writeImage(name: string, building: string, log: StepLog): Promise<void> {
  const { fstab, partitions, bootNumber } = LAYOUTS[name] ?? { fstab: '', partitions: [] }
  const [tree, disk] = [path.join(building, 'tree'), path.join(building, 'disk.raw')]
  writeFileSync(path.join(tree, 'etc/fstab'), `${fstab}\n`)
  const end = Math.max(...partitions.map(({ start, size }) => start + size)) + 2048
  await log.run(['truncate', '--size', String(end * SECTOR_BYTES), disk])
  const table = partitions.map(
    ({ number, start, size, type }) => `${number} : start=${start}, size=${size}, type=${type}`,
  )
  await log.run(['sfdisk', '--quiet', disk], { input: `label: gpt\n${table.join('\n')}\n` })
  const fill = async (number: number, label: string, content: string): Promise<void> => {
    const { start = 0, size = 0 } = partitions.find((partition) => partition.number === number) ?? {}
    const file = `${disk}.part`
    const kib = (size * SECTOR_BYTES) / 1024
    await log.run(['mke2fs', '-q', '-t', 'ext4', '-L', label, '-d', content, file, `${kib}k`])
    const place = ['bs=1M', 'oflag=seek_bytes', `seek=${start * SECTOR_BYTES}`, 'conv=notrunc,sparse']
    await log.run(['dd', `if=${file}`, `of=${disk}`, ...place, 'status=none'])
    rmSync(file)
  }
  const esp = partitions.find(({ type }) => type.startsWith(TYPES.esp))
  if (esp !== undefined) {
    const kib = (esp.size * SECTOR_BYTES) / 1024
    // Without -F it judges by the size of the whole file.
    await log.run(['mkfs.vfat', '-F', '16', '-n', 'UEFI', '--offset', String(esp.start), disk, String(kib)])
  }
  if (bootNumber !== undefined) {
    const boot = path.join(building, 'boot')
    await log.run(['sh', '-c', `mv ${tree}/boot ${boot} && mkdir ${tree}/boot`])
    await fill(bootNumber, 'BOOT', boot)
    rmSync(boot, { recursive: true })
  }
  await fill(1, 'cloudimg-rootfs', tree)
  await log.run(['qemu-img', 'convert', '-O', 'qcow2', disk, path.join(building, name)])
  rmSync(disk)
}
