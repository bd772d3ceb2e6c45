import type { ImageRole } from '../desired.ts'
import type { Sha256 } from '../ids.ts'
import type { ImageLook, KernelFormat, UnfitImage } from '../world/world.ts'

/** How much of an image {@link lookOfImage} reads. The magic number of btrfs is the furthest from the start. */
export const IMAGE_LOOK_BYTES = 0x10048

/**
 * Returns the kind of an image, from its first bytes; undefined unless that is certain. Signs of two kinds at once are
 * not certain.
 */
export function lookOfImage(head: Uint8Array): ImageLook | undefined {
  const bytes = Buffer.from(head.buffer, head.byteOffset, Math.min(head.length, IMAGE_LOOK_BYTES))
  const found = SIGNS.filter(({ shows }) => shows(bytes)).map(({ look }) => look)
  const [first] = found
  return found.every(({ kind }) => kind === first?.kind) ? first : undefined
}

/**
 * Returns whether an image cannot fill its role. An initrd may be a file system, because the kernel still accepts such
 * a RAM disk. Only a disk must not be packed: kernels unpack themselves and their initrd.
 */
export function isUnfit(role: ImageRole, { kind }: ImageLook): boolean {
  if (kind === 'qcow2') return true
  // A guest with an empty initrd boots, as without one.
  if (kind === 'empty') return role !== 'initrd'
  if (kind === 'packed') return role === 'rootfs'
  return role === 'kernel' ? kind === 'disk' : kind === 'kernel'
}

/** Describes what is wrong with images, and what to do. */
export function unfitWords(unfit: readonly UnfitImage[]): string {
  const found = unfit.map(({ role, sha256, look }) => `the ${role} image ${sha256} is ${look.words}`)
  const waysOut = (['qcow2', 'packed'] as const)
    .filter((kind) => unfit.some(({ look }) => look.kind === kind))
    .map((kind) => WAYS_OUT[kind])
  const first = [...waysOut, 'stop the VM'].join(', then ')
  const remedies = unfit.map(({ role }) =>
    role === 'rootfs' ? 'rebuild it from another image' : `give it another ${role}`,
  )
  return `${found.join(', and ')}; ${first} and ${remedies.join(', and ')}`
}

const WAYS_OUT = {
  qcow2: 'convert it with "qemu-img convert -O raw"',
  packed: 'unpack it, or pack it with zstd and give the digest of the unpacked disk',
}

/** Returns why a monitor cannot read a kernel, and what to do; undefined if it may be able to. */
export function unreadableKernel(
  { sha256, look }: { readonly sha256: Sha256; readonly look: ImageLook | undefined },
  formats: readonly KernelFormat[],
): string | undefined {
  if (look?.format === undefined || formats.includes(look.format)) return undefined
  return `the kernel image ${sha256} is ${look.words}, and the monitor of the VM boots only ${formats.join(' and ')} kernels; stop the VM and give it another kernel, or create it with another monitor`
}

type Sign = { readonly look: ImageLook; readonly shows: (head: Buffer) => boolean }

const sign = (kind: ImageLook['kind'], words: string, shows: Sign['shows']): Sign => ({
  look: { kind, words },
  shows,
})

const kernel = (format: KernelFormat, words: string, shows: Sign['shows']): Sign => ({
  look: { kind: 'kernel', format, words },
  shows,
})

/** Signs, each with the document that defines it; `Documentation/` is that of the Linux kernel. */
const SIGNS: readonly Sign[] = [
  // Documentation/arch/x86/boot.rst: boot_flag and header.
  kernel('bzImage', 'a Linux kernel for x86 (bzImage)', (head) => isBzImage(head)),
  // Documentation/arch/arm64/booting.rst: magic, at 56.
  kernel('Image', 'a Linux kernel for arm64 (Image)', (head) => has(head, 56, 'ARM\x64')),
  // elf(5): magic, then class, data and version.
  kernel(
    'ELF',
    'an ELF program, as vmlinux is',
    (head) => has(head, 0, '\x7fELF') && isOneOf(head[4], 1, 2) && isOneOf(head[5], 1, 2) && head[6] === 1,
  ),
  // Documentation/filesystems/ext4/super.rst.
  sign('disk', 'an ext2, ext3 or ext4 file system', (head) => isExt(head)),
  // xfs_format.h: sb_magicnum.
  sign('disk', 'an XFS file system', (head) => has(head, 0, 'XFSB')),
  // fs/btrfs/disk-io.h: BTRFS_SUPER_INFO_OFFSET, with the magic at 64.
  sign('disk', 'a btrfs file system', (head) => has(head, 0x10040, '_BHRfS_M')),
  // fs/squashfs/squashfs_fs.h: s_magic and s_major.
  sign(
    'disk',
    'a squashfs file system',
    (head) => has(head, 0, 'hsqs') && head.length > 30 && head.readUInt16LE(28) === 4,
  ),
  // fs/erofs/erofs_fs.h: EROFS_SUPER_OFFSET and EROFS_SUPER_MAGIC_V1.
  sign('disk', 'an EROFS file system', (head) => has(head, 1024, '\xe2\xe1\xf5\xe0')),
  // ECMA-119, 8.1: the type and identifier of a volume descriptor, in sector 16.
  sign('disk', 'an ISO 9660 file system', (head) => has(head, 32_768, '\x01CD001')),
  // UEFI specification, 5.3.2: the header of a GPT, in the second sector of 512 or 4096 bytes.
  sign(
    'disk',
    'a disk with a partition table (GPT)',
    (head) => has(head, 512, 'EFI PART') || has(head, 4096, 'EFI PART'),
  ),
  // UEFI specification, 5.2.1: the partition records of a legacy MBR.
  sign('disk', 'a disk with a partition table (MBR)', (head) => !isBzImage(head) && hasPartitions(head)),
  // QEMU, docs/interop/qcow2: magic and version.
  sign(
    'qcow2',
    'a qcow2 file and not a raw disk',
    (head) => has(head, 0, 'QFI\xfb') && head.length > 8 && isOneOf(head.readUInt32BE(4), 2, 3),
  ),
  // RFC 8878, 3.1.1: Magic_Number.
  sign('packed', 'a file packed with zstd', (head) => has(head, 0, '\x28\xb5\x2f\xfd')),
  // RFC 1952, 2.3.1: ID1, ID2 and CM, and bits of FLG that must be zero.
  sign(
    'packed',
    'a file packed with gzip',
    (head) => has(head, 0, '\x1f\x8b\x08') && ((head[3] ?? 0) & 0xe0) === 0,
  ),
  // The .xz File Format, 2.1.1.1: Header Magic Bytes.
  sign('packed', 'a file packed with xz', (head) => has(head, 0, '\xfd7zXZ\0')),
  // bzip2, compress.c, BZ2_compressBlock: the header of the file, the size of its blocks, and the header of a block.
  sign('packed', 'a file packed with bzip2', (head) =>
    /^BZh[1-9]1AY&SY/.test(head.toString('latin1', 0, 10)),
  ),
  sign('empty', 'an empty file', (head) => head.length === 0),
]

const has = (head: Buffer, offset: number, magic: string): boolean =>
  head.subarray(offset, offset + magic.length).equals(Buffer.from(magic, 'latin1'))

const isOneOf = (value: number | undefined, one: number, other: number): boolean =>
  value === one || value === other

const BOOT_SIGNATURE = '\x55\xaa'

const isBzImage = (head: Buffer): boolean => has(head, 0x1fe, BOOT_SIGNATURE) && has(head, 0x202, 'HdrS')

/**
 * Returns whether this is an ext file system. Random content has its two-byte magic once in 65,536 times, so other
 * fields must be plausible too.
 */
function isExt(head: Buffer): boolean {
  if (head.length < 2048 || !has(head, 1024 + 0x38, '\x53\xef')) return false
  const field = (offset: number): number => head.readUInt32LE(1024 + offset)
  const counts = [field(0x0), field(0x4), field(0x20), field(0x28)]
  const [firstDataBlock, logBlockSize, revision] = [field(0x14), field(0x18), field(0x4c)]
  return counts.every((count) => count > 0) && firstDataBlock <= 1 && logBlockSize <= 6 && revision <= 1
}

const PARTITION_BYTES = 16

/**
 * Returns whether there are four records, each empty or a partition of some length after the first sector, and at least
 * one of these.
 */
function hasPartitions(head: Buffer): boolean {
  if (!has(head, 0x1fe, BOOT_SIGNATURE)) return false
  const records = [0, 1, 2, 3].map((index) => head.subarray(0x1be + index * PARTITION_BYTES))
  const isUsed = (record: Buffer): boolean => record[4] !== 0
  const makesSense = (record: Buffer): boolean =>
    isUsed(record)
      ? isOneOf(record[0], 0, 0x80) && record.readUInt32LE(8) > 0 && record.readUInt32LE(12) > 0
      : record.subarray(0, PARTITION_BYTES).every((byte) => byte === 0)
  return records.every(makesSense) && records.some(isUsed)
}
