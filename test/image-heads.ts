/** The first bytes of images, with the fields that identify them. */

/** Head of an ext4 file system of 64 MiB, as mkfs.ext4 1.47 writes it. */
export function ext4Head(): Buffer {
  const head = Buffer.alloc(70_000)
  const superblock = head.subarray(1024)
  for (const [offset, value] of [
    [0x0, 16_384],
    [0x4, 16_384],
    [0x18, 2],
    [0x20, 32_768],
    [0x28, 16_384],
    [0x4c, 1],
  ] as const)
    superblock.writeUInt32LE(value, offset)
  superblock.writeUInt16LE(0xef53, 0x38)
  return head
}

/** Head of a Linux kernel for x86: it begins as a PE file, and its setup header is at 0x1f1. */
export function bzImageHead(): Buffer {
  const head = Buffer.alloc(70_000)
  head.write('MZ', 0)
  head.writeUInt16LE(0xaa55, 0x1fe)
  head.write('HdrS', 0x202)
  return head
}
