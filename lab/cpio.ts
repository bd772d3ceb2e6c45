/** One member of an initrd archive. Parents must come before their children. */
export type CpioEntry =
  | { readonly kind: 'folder'; readonly path: string }
  | { readonly kind: 'file'; readonly path: string; readonly mode: number; readonly content: Buffer }
  | { readonly kind: 'link'; readonly path: string; readonly target: string }

const S_IFDIR = 0o040_000
const S_IFREG = 0o100_000
const S_IFLNK = 0o120_000
const ALIGNMENT = 4

/**
 * Writes an initrd in the "new ASCII" cpio format, all owned by root and dated 1970, so that equal content gives an
 * equal archive. Format: kernel documentation, driver-api/early-userspace/buffer-format.
 */
export function renderCpio(entries: readonly CpioEntry[]): Buffer {
  const members = entries.map((entry, index) => renderMember(entry, index + 1))
  return Buffer.concat([...members, renderHeader('TRAILER!!!', { inode: 0, mode: 0, size: 0 })])
}

function renderMember(entry: CpioEntry, inode: number): Buffer {
  const { mode, body } = modeAndBody(entry)
  return Buffer.concat([renderHeader(entry.path, { inode, mode, size: body.length }), pad(body)])
}

function modeAndBody(entry: CpioEntry): { mode: number; body: Buffer } {
  switch (entry.kind) {
    case 'folder':
      return { mode: S_IFDIR | 0o755, body: Buffer.alloc(0) }
    case 'file':
      return { mode: S_IFREG | entry.mode, body: entry.content }
    case 'link':
      return { mode: S_IFLNK | 0o777, body: Buffer.from(entry.target) }
    default:
      return entry satisfies never
  }
}

function renderHeader(name: string, fields: { inode: number; mode: number; size: number }): Buffer {
  const hex = (value: number) => value.toString(16).toUpperCase().padStart(8, '0')
  const { inode, mode, size } = fields
  const numbers = [inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, Buffer.byteLength(name) + 1, 0]
  return pad(Buffer.from(`070701${numbers.map(hex).join('')}${name}\0`))
}

function pad(block: Buffer): Buffer {
  const missing = (ALIGNMENT - (block.length % ALIGNMENT)) % ALIGNMENT
  return missing === 0 ? block : Buffer.concat([block, Buffer.alloc(missing)])
}
