/** The demo guest, as a create request. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

/** Folder of its images inside a lab. */
export const GUEST_IMAGES = '/srv/guest'

export type GuestImage = { readonly url: string; readonly sha256: string }

/** Digests by name. The images of a lab never change, and the disk takes a tenth of a second each time. */
const digests = new Map<string, string>()

/** `root` is the root of the lab for this process, which may run beside it. */
export function guestImage(name: string, root = ''): GuestImage {
  const file = `${GUEST_IMAGES}/${name}`
  const sha256 =
    digests.get(name) ??
    createHash('sha256')
      .update(readFileSync(root + file))
      .digest('hex')
  digests.set(name, sha256)
  return { url: `file://${file}`, sha256 }
}

export type GuestOptions = {
  readonly power?: 'running' | 'paused' | 'stopped'
  /** Absent: no network device. */
  readonly network?: { readonly ipv4_address?: string; readonly ipv6_address?: string }
  readonly image?: Partial<Record<'rootfs' | 'kernel' | 'initrd', GuestImage>>
  readonly kernelArguments?: string
  /** Root of the lab, for a process beside it. */
  readonly root?: string
}

export const guestRequest = ({
  power = 'running',
  network,
  image,
  kernelArguments,
  root = '',
}: GuestOptions = {}): object => ({
  power,
  compute: { cpu_millicores: 1000, memory_mib: 256, sleep_after_idle_seconds: 0 },
  disk: { size_mib: 128 },
  image: {
    rootfs: guestImage('rootfs.raw', root),
    kernel: guestImage('vmlinuz', root),
    initrd: guestImage('initrd.cpio.gz', root),
    ...image,
    ...(kernelArguments === undefined ? {} : { kernel_arguments: kernelArguments }),
  },
  ...(network === undefined ? {} : { network }),
})
