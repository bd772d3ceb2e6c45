import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isoImage } from './iso-image.ts'

const SECTOR = 2048
const FILES = [
  { name: 'user-data', content: 'ü\n' },
  { name: 'meta-data', content: 'a'.repeat(SECTOR + 1) },
  { name: 'vendor-data', content: '' },
]

/** A record of a directory (ECMA-119, 9.1). */
type Entry = {
  readonly identifier: Buffer
  readonly sector: number
  readonly bytes: number
  readonly flags: number
}

function entryAt(image: Buffer, at: number): Entry {
  const length = image.readUInt8(at + 32)
  assert.equal(image.readUInt32LE(at + 2), image.readUInt32BE(at + 6), 'both orders of bytes agree')
  assert.equal(image.readUInt32LE(at + 10), image.readUInt32BE(at + 14), 'both orders of bytes agree')
  return {
    identifier: image.subarray(at + 33, at + 33 + length),
    sector: image.readUInt32LE(at + 2),
    bytes: image.readUInt32LE(at + 10),
    flags: image.readUInt8(at + 25),
  }
}

/** Reads the directory whose root is in the descriptor of a sector. */
function entriesOf(image: Buffer, descriptor: number): Entry[] {
  const root = entryAt(image, descriptor * SECTOR + 156)
  const entries: Entry[] = []
  for (let at = root.sector * SECTOR; image.readUInt8(at) > 0; at += image.readUInt8(at))
    entries.push(entryAt(image, at))
  return entries
}

const contentOf = (image: Buffer, { sector, bytes }: Entry): string =>
  image.toString('utf8', sector * SECTOR, sector * SECTOR + bytes)

test('both directories list each file by its name, in order, and lead to the same content', () => {
  const image = isoImage('cidata', FILES)
  const [plain, joliet] = [16, 17].map((descriptor) => entriesOf(image, descriptor)) as [Entry[], Entry[]]
  assert.deepEqual(
    plain.map(({ identifier }) => identifier.toString('latin1')),
    ['\0', '\u0001', 'META-DATA.;1', 'USER-DATA.;1', 'VENDOR-DATA.;1'],
  )
  assert.deepEqual(
    joliet.slice(2).map(({ identifier }) => Buffer.from(identifier).swap16().toString('utf16le')),
    ['meta-data;1', 'user-data;1', 'vendor-data;1'],
  )
  assert.deepEqual(
    plain.map(({ flags }) => flags),
    [2, 2, 0, 0, 0],
  )
  const contents = ['a'.repeat(SECTOR + 1), 'ü\n', '']
  for (const entries of [plain, joliet])
    assert.deepEqual(
      entries.slice(2).map((entry) => contentOf(image, entry)),
      contents,
    )
})

test('the descriptors name the volume, its size and the tables of paths, and a last one ends them', () => {
  const image = isoImage('cidata', FILES)
  const kinds = [16, 17, 18].map((sector) => image.toString('latin1', sector * SECTOR, sector * SECTOR + 7))
  assert.deepEqual(kinds, ['\u0001CD001\u0001', '\u0002CD001\u0001', '\u00ffCD001\u0001'])
  const label = image.subarray(16 * SECTOR + 40, 16 * SECTOR + 72)
  assert.equal(label.toString('latin1'), 'cidata'.padEnd(32))
  const unicode = Buffer.from(image.subarray(17 * SECTOR + 40, 17 * SECTOR + 72)).swap16()
  assert.equal(unicode.toString('utf16le'), 'cidata'.padEnd(16))
  for (const descriptor of [16, 17]) {
    const at = descriptor * SECTOR
    assert.equal(image.readUInt32LE(at + 80) * SECTOR, image.length)
    const root = entryAt(image, at + 156).sector
    assert.equal(image.readUInt32LE(image.readUInt32LE(at + 140) * SECTOR + 2), root)
    assert.equal(image.readUInt32BE(image.readUInt32BE(at + 148) * SECTOR + 2), root)
  }
})

test('an image of small files is large enough for a reader that looks for superblocks behind its own', () => {
  assert.equal(isoImage('cidata', FILES).length, 128 * 1024)
})

test('equal files make equal bytes, in whatever order they come', () => {
  assert.ok(isoImage('cidata', FILES).equals(isoImage('cidata', FILES.toReversed())))
})

test('a name that the plain directory cannot show is refused', () => {
  for (const name of ['User-data', 'user_data', '', 'a'.repeat(28)])
    assert.throws(() => isoImage('cidata', [{ name, content: '' }]), /is the name of a file/)
})
