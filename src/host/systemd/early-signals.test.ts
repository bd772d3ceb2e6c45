import assert from 'node:assert/strict'
import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { MANAGER, MANAGER_PATH, PROPERTIES, UNIT, unitPath } from './bus-names.ts'
import { earlySignal, takeEarly } from './early-signals.ts'

const HEAD_BYTES = 16
const [CALL, SIGNAL] = [1, 4]
const [PATH, INTERFACE, MEMBER] = [1, 2, 3]

type Parts = {
  readonly type?: number
  readonly path: string
  readonly interface: string
  readonly member: string
  /** The first string of the body, if it begins with one. */
  readonly says?: string
}

/** Encodes a message, little endian, as the "Message Format" of the D-Bus specification says. */
function encode({ type = SIGNAL, path, interface: from, member, says }: Parts): Buffer {
  const fields = [
    { code: PATH, signature: 'o', text: path },
    { code: INTERFACE, signature: 's', text: from },
    { code: MEMBER, signature: 's', text: member },
  ]
  let encoded = Buffer.alloc(0)
  for (const { code, signature, text } of fields) {
    const begin = Buffer.concat([padded(encoded), Buffer.of(code, 1), Buffer.from(`${signature}\0`)])
    encoded = Buffer.concat([begin, string(text)])
  }
  const body = says === undefined ? Buffer.alloc(0) : string(says)
  const head = Buffer.alloc(HEAD_BYTES)
  head.write('l')
  head[1] = type
  head.writeUInt32LE(body.length, 4)
  head.writeUInt32LE(encoded.length, 12)
  return Buffer.concat([head, padded(encoded), body])
}

const padded = (bytes: Buffer): Buffer => Buffer.concat([bytes, Buffer.alloc(-bytes.length & 7)])

function string(text: string): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32LE(text.length)
  return Buffer.concat([length, Buffer.from(`${text}\0`)])
}

const early = (message: Buffer) => earlySignal(message.subarray(0, HEAD_BYTES), message.subarray(HEAD_BYTES))

const path = unitPath('vmhost-web-1.service')
const changed = { path, interface: PROPERTIES, member: 'PropertiesChanged' }
const ended = { path: MANAGER_PATH, interface: MANAGER, member: 'JobRemoved' }

test('of a change of properties the path and the interface are read', () => {
  assert.deepEqual(early(encode({ ...changed, says: UNIT })), { ...changed, body: [UNIT] })
})

test('signals that are not listened to are ignored', () => {
  for (const member of ['UnitNew', 'UnitRemoved'])
    assert.equal(early(encode({ ...ended, member, says: 'web-1' })), 'ignored')
})

test('all else is left to the library: other signals, calls, messages without a body or in the other byte order', () => {
  const bigEndian = encode({ ...changed, says: UNIT })
  bigEndian.write('B')
  const others = [
    encode(ended),
    encode({ ...changed, type: CALL }),
    encode({ ...changed, path: '/org/freedesktop/DBus', says: UNIT }),
    encode({ ...changed, interface: MANAGER, says: UNIT }),
    encode(changed),
    bigEndian,
  ]
  for (const message of others) assert.equal(early(message), undefined)
})

test('messages that are taken do not reach the library, in whatever pieces they arrive', async () => {
  const messages = [
    encode(ended),
    encode({ ...changed, says: UNIT }),
    encode({ ...changed, says: UNIT }),
    encode({ ...ended, member: 'Reloading', says: 'x' }),
  ]
  const bytes = Buffer.concat(messages)
  for (const pieceBytes of [1, 7, 100, bytes.length]) {
    const stream = new PassThrough()
    const taken: Buffer[] = []
    takeEarly(stream, (head, rest) => {
      const isTaken = earlySignal(head, rest) !== undefined
      if (isTaken) taken.push(Buffer.concat([head, rest]))
      return isTaken
    })
    const seen = readAll(stream)
    for (let at = 0; at < bytes.length; at += pieceBytes) stream.write(bytes.subarray(at, at + pieceBytes))
    stream.end()
    assert.deepEqual(await seen, [messages[0], messages[3]])
    assert.deepEqual(taken, [messages[1], messages[2]])
  }
})

/** Reads messages as the library does, until the stream ends. */
async function readAll(stream: PassThrough): Promise<readonly Buffer[]> {
  const seen: Buffer[] = []
  let head: Buffer | null = null
  stream.on('readable', () => {
    for (;;) {
      // Node does the same to have more bytes fetched, and drops the result.
      assert.equal(stream.read(0), null)
      head ??= stream.read(HEAD_BYTES) as Buffer | null
      const rest = head && (stream.read(1) as Buffer | null)
      if (head === null || rest === null) return
      seen.push(Buffer.concat([head, rest]))
      head = null
    }
  })
  await once(stream, 'end')
  return seen
}
