import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { bzImageHead, ext4Head } from '../../../test/image-heads.ts'
import { isUnfit, lookOfImage, unfitWords } from './image-look.ts'
import type { ImageRole } from '../desired.ts'
import type { Sha256 } from '../ids.ts'

/** Returns zeros with these bytes in them. */
function headWith(...parts: readonly (readonly [number, string])[]): Buffer {
  const head = Buffer.alloc(70_000)
  for (const [offset, text] of parts) head.write(text, offset, 'latin1')
  return head
}

/** A used partition record: active, Linux, from sector 2048 on, 4096 sectors long. */
const PARTITION = '\x80\0\0\0\x83\0\0\0\x00\x08\0\0\x00\x10\0\0'
const MBR = [0x1fe, '\x55\xaa'] as const

const certain: readonly (readonly [string, Buffer])[] = [
  ['a Linux kernel for x86 (bzImage)', bzImageHead()],
  ['a Linux kernel for arm64 (Image)', headWith([0, 'MZ'], [56, 'ARM\x64'])],
  ['an ELF program, as vmlinux is', headWith([0, '\x7fELF\x02\x01\x01'])],
  ['an ext2, ext3 or ext4 file system', ext4Head()],
  ['an XFS file system', headWith([0, 'XFSB'])],
  ['a btrfs file system', headWith([0x10040, '_BHRfS_M'])],
  ['a squashfs file system', headWith([0, 'hsqs'], [28, '\x04\0'])],
  ['an EROFS file system', headWith([1024, '\xe2\xe1\xf5\xe0'])],
  ['an ISO 9660 file system', headWith([32_768, '\x01CD001\x01'])],
  ['a disk with a partition table (GPT)', headWith([512, 'EFI PART'], MBR, [0x1be, PARTITION])],
  ['a disk with a partition table (GPT)', headWith([4096, 'EFI PART'])],
  ['a disk with a partition table (MBR)', headWith([0x1be, PARTITION], MBR)],
  ['a qcow2 file and not a raw disk', headWith([0, 'QFI\xfb\0\0\0\x03'])],
  ['a file packed with zstd', zstdCompressSync('a disk')],
  ['a file packed with gzip', gzipSync('a disk')],
  ['a file packed with xz', headWith([0, '\xfd7zXZ\0'])],
  ['a file packed with bzip2', headWith([0, 'BZh91AY&SY'])],
  ['an empty file', Buffer.alloc(0)],
]

for (const [words, head] of certain) {
  test(`the first bytes of ${words} say so`, () => {
    assert.equal(lookOfImage(head)?.words, words)
  })
}

const packedAndDisk = headWith([0, '\x1f\x8b\x08'], [32_768, '\x01CD001\x01'])
/** Only the magic number of ext4, as one of 65,536 compressed kernels has it. */
const chance = headWith([1024 + 0x38, '\x53\xef'])
const both = headWith([0, 'XFSB'], [56, 'ARM\x64'])
const unclear = {
  'an image of a few bytes': Buffer.from('QFI'),
  'an image with the signs of a packed file and of a disk': packedAndDisk,
  'an image with bits that gzip reserves': headWith([0, '\x1f\x8b\x08\xe0']),
  'an image with two bytes of ext4': chance,
  'an image with the signs of a kernel and of a disk': both,
  'a boot sector without partitions': headWith(MBR),
  'a boot sector with code in place of its partitions': headWith(
    [0x1be, '\xeb\xfe\x90\x90\x90\x90\x90\x90'],
    MBR,
  ),
  zeros: Buffer.alloc(70_000),
}

for (const [what, head] of Object.entries(unclear)) {
  test(`${what} may be anything`, () => {
    assert.equal(lookOfImage(head), undefined)
  })
}

test('random bytes are never taken for an image of some kind', () => {
  for (let round = 0; round < 200; round += 1) assert.equal(lookOfImage(randomBytes(70_000)), undefined)
})

test('each part takes what it can use', () => {
  const unfit: Record<ImageRole, string[]> = { rootfs: [], kernel: [], initrd: [] }
  for (const role of ['rootfs', 'kernel', 'initrd'] as const)
    for (const kind of ['kernel', 'disk', 'qcow2', 'packed', 'empty'] as const)
      if (isUnfit(role, { kind, words: '' })) unfit[role].push(kind)
  assert.deepEqual(unfit, {
    rootfs: ['kernel', 'qcow2', 'packed', 'empty'],
    kernel: ['disk', 'qcow2', 'empty'],
    initrd: ['kernel', 'qcow2'],
  })
})

test('the words name each image and what to do', () => {
  const kernel = { kind: 'kernel', words: 'a kernel' } as const
  const swapped = [
    { role: 'rootfs', sha256: 'aa' as Sha256, look: kernel },
    { role: 'kernel', sha256: 'bb' as Sha256, look: { kind: 'disk', words: 'a disk' } },
  ] as const
  assert.equal(
    unfitWords(swapped),
    'the rootfs image aa is a kernel, and the kernel image bb is a disk; stop the VM and rebuild it from another image, and give it another kernel',
  )
  const qcow2 = {
    role: 'rootfs',
    sha256: 'aa' as Sha256,
    look: { kind: 'qcow2', words: 'a qcow2 file' },
  } as const
  assert.equal(
    unfitWords([qcow2]),
    'the rootfs image aa is a qcow2 file; convert it with "qemu-img convert -O raw", then stop the VM and rebuild it from another image',
  )
  const packed = {
    role: 'rootfs',
    sha256: 'aa' as Sha256,
    look: { kind: 'packed', words: 'a file packed with xz' },
  } as const
  assert.equal(
    unfitWords([packed]),
    'the rootfs image aa is a file packed with xz; unpack it, or pack it with zstd and give the digest of the unpacked disk, then stop the VM and rebuild it from another image',
  )
})
