/**
 * An ISO 9660 image of a few small files in one directory (ECMA-119), with a second directory for their names in
 * Unicode (Joliet Specification, 1995). Equal files make equal bytes: every time in the image is the same.
 */
import { assert } from '../../lib/assert.ts'

const SECTOR_BYTES = 2048
/** The first sectors are left to the system (ECMA-119, 6.2.1). */
const FIRST_DESCRIPTOR = 16

/** Kinds of volume descriptors (ECMA-119, 8.1.1). */
const PRIMARY = 1
const SUPPLEMENTARY = 2
const TERMINATOR = 255

/** 2000-01-01T00:00:00Z, in the two forms of ECMA-119: 8.4.26.1 and 9.1.5. Readers derive the volume's UUID from it. */
const DATE_AND_TIME = '2000010100000000\0'
const RECORDING_DATE = [100, 1, 1, 0, 0, 0, 0]
const NEVER = `${'0'.repeat(16)}\0`

/** Identifiers of a directory itself and of its parent (ECMA-119, 7.6.2). */
const SELF = Buffer.from([0])
const PARENT = Buffer.from([1])

const IS_DIRECTORY = 2

/** A file of the image. The name has lower-case letters and `-`. */
export type IsoFile = { readonly name: string; readonly content: string }

/** How one of the two directories writes text, and where it is. */
type Tree = {
  readonly kind: typeof PRIMARY | typeof SUPPLEMENTARY
  /** Says which character set the names have; empty: the standard one (ECMA-119, 8.5.6). */
  readonly escape: string
  readonly text: (text: string) => Buffer
  readonly fileName: (name: string) => Buffer
  /** Sectors. */
  readonly littleEndianPaths: number
  readonly bigEndianPaths: number
  readonly directory: number
}

type Extent = { readonly sector: number; readonly bytes: number }

const ucs2 = (text: string): Buffer => Buffer.from(text, 'utf16le').swap16()

/**
 * In upper case and with a version, because a reader that knows no extension turns such a name into lower case without
 * a version (Linux, fs/isofs/dir.c).
 */
const plainName = (name: string): string => `${name.toUpperCase()}.;1`

const TREES: readonly [Tree, Tree] = [
  {
    kind: PRIMARY,
    escape: '',
    text: (text) => Buffer.from(text, 'ascii'),
    fileName: (name) => Buffer.from(plainName(name), 'ascii'),
    littleEndianPaths: 19,
    bigEndianPaths: 20,
    directory: 23,
  },
  {
    kind: SUPPLEMENTARY,
    // UCS-2 level 3 (Joliet Specification, "Escape Sequences").
    escape: '%/E',
    text: ucs2,
    fileName: (name) => ucs2(`${name};1`),
    littleEndianPaths: 21,
    bigEndianPaths: 22,
    directory: 24,
  },
]
const FIRST_FILE = 25

/**
 * 128 KiB. BusyBox's `findfs` finds no label on a disk that is smaller than the 68 KiB in which it looks for
 * superblocks (util-linux/volume_id/util.c).
 */
const SECTORS_MIN = 64

/** Returns the image, a whole number of sectors. `label` is the name of the volume, at most 16 ASCII characters. */
export function isoImage(label: string, files: readonly IsoFile[]): Buffer {
  const sorted = files.toSorted((one, other) => (one.name < other.name ? -1 : 1))
  let sectors = FIRST_FILE
  const placed = sorted.map(({ name, content }) => {
    assert(/^[a-z-]{1,27}$/.test(name), `${name} is the name of a file in an ISO image`)
    const bytes = Buffer.from(content)
    const extent: Extent = { sector: sectors, bytes: bytes.length }
    sectors += Math.ceil(bytes.length / SECTOR_BYTES)
    return { name, bytes, extent }
  })
  sectors = Math.max(sectors, SECTORS_MIN)
  const image = Buffer.alloc(sectors * SECTOR_BYTES)
  const put = (sector: number, bytes: Buffer): void => {
    image.set(bytes, sector * SECTOR_BYTES)
  }
  for (const [index, tree] of TREES.entries()) {
    put(FIRST_DESCRIPTOR + index, descriptor(tree, label, sectors))
    put(tree.littleEndianPaths, pathTable(tree, 'LE'))
    put(tree.bigEndianPaths, pathTable(tree, 'BE'))
    put(tree.directory, directory(tree, placed))
  }
  put(FIRST_DESCRIPTOR + TREES.length, descriptorHead(TERMINATOR))
  for (const { bytes, extent } of placed) put(extent.sector, bytes)
  return image
}

const descriptorHead = (kind: number): Buffer =>
  Buffer.concat([Buffer.from([kind]), Buffer.from('CD001'), Buffer.from([1])])

/** Makes a volume descriptor (ECMA-119, 8.4 and 8.5), field by field in its order. */
function descriptor(tree: Tree, label: string, sectors: number): Buffer {
  const text = (value: string, bytes: number): Buffer =>
    Buffer.alloc(bytes, tree.text(' ')).fill(tree.text(value), 0, tree.text(value).length)
  return Buffer.concat([
    descriptorHead(tree.kind),
    Buffer.alloc(1),
    text('', 32),
    text(label, 32),
    Buffer.alloc(8),
    bothEndian32(sectors),
    Buffer.from(tree.escape.padEnd(32, '\0'), 'ascii'),
    bothEndian16(1),
    bothEndian16(1),
    bothEndian16(SECTOR_BYTES),
    bothEndian32(pathTable(tree, 'LE').length),
    uint32(tree.littleEndianPaths, 'LE'),
    Buffer.alloc(4),
    uint32(tree.bigEndianPaths, 'BE'),
    Buffer.alloc(4),
    directoryRecord(SELF, { sector: tree.directory, bytes: SECTOR_BYTES }, IS_DIRECTORY),
    // Four names of people and programs, and three of files with further information: none.
    ...[128, 128, 128, 128, 37, 37, 37].map((bytes) => text('', bytes)),
    // Creation, modification, expiration, and the time from which it counts.
    ...[DATE_AND_TIME, DATE_AND_TIME, NEVER, NEVER].map((time) => Buffer.from(time, 'ascii')),
    Buffer.from([1]),
  ])
}

/** Makes a path table whose only entry is the root (ECMA-119, 9.4). */
const pathTable = ({ directory: sector }: Tree, order: 'LE' | 'BE'): Buffer =>
  Buffer.concat([Buffer.from([1, 0]), uint32(sector, order), uint16(1, order), Buffer.from([0, 0])])

function directory(tree: Tree, files: readonly { readonly name: string; readonly extent: Extent }[]): Buffer {
  const own: Extent = { sector: tree.directory, bytes: SECTOR_BYTES }
  const records = Buffer.concat([
    directoryRecord(SELF, own, IS_DIRECTORY),
    directoryRecord(PARENT, own, IS_DIRECTORY),
    ...files.map(({ name, extent }) => directoryRecord(tree.fileName(name), extent, 0)),
  ])
  assert(records.length <= SECTOR_BYTES, 'the directory of an ISO image fits into a sector')
  return records
}

/** Makes an entry of a directory (ECMA-119, 9.1), of an even number of bytes. */
function directoryRecord(identifier: Buffer, { sector, bytes }: Extent, flags: number): Buffer {
  const record = Buffer.concat([
    Buffer.from([0, 0]),
    bothEndian32(sector),
    bothEndian32(bytes),
    Buffer.from([...RECORDING_DATE, flags, 0, 0]),
    bothEndian16(1),
    Buffer.from([identifier.length]),
    identifier,
    Buffer.alloc(identifier.length % 2 === 0 ? 1 : 0),
  ])
  record[0] = record.length
  return record
}

function uint16(value: number, order: 'LE' | 'BE'): Buffer {
  const bytes = Buffer.alloc(2)
  if (order === 'LE') bytes.writeUInt16LE(value)
  else bytes.writeUInt16BE(value)
  return bytes
}

function uint32(value: number, order: 'LE' | 'BE'): Buffer {
  const bytes = Buffer.alloc(4)
  if (order === 'LE') bytes.writeUInt32LE(value)
  else bytes.writeUInt32BE(value)
  return bytes
}

/** Writes a number in both orders of bytes, as most fields are (ECMA-119, 7.2.3 and 7.3.3). */
const bothEndian16 = (value: number): Buffer => Buffer.concat([uint16(value, 'LE'), uint16(value, 'BE')])
const bothEndian32 = (value: number): Buffer => Buffer.concat([uint32(value, 'LE'), uint32(value, 'BE')])
