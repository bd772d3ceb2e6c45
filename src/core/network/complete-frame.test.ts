import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { completeFrames } from './complete-frame.ts'

const ETHERNET = '0276000186a10276ffffffff'

type Sample = {
  readonly family: 4 | 6
  readonly protocol: number
  readonly payload: Buffer
  readonly next?: Buffer
}

/** Builds a frame with the checksum field of `payload`; `next` is put between IPv6's header and the payload. */
function frameOf({ family, protocol, payload, next = Buffer.alloc(0) }: Sample): Buffer {
  const ethernet = Buffer.from(`${ETHERNET}${family === 4 ? '0800' : '86dd'}`, 'hex')
  if (family === 4) {
    const header = Buffer.from('450000000000400040000000c0000201c000020a', 'hex')
    header.writeUInt16BE(20 + payload.length, 2)
    header.writeUInt8(protocol, 9)
    return Buffer.concat([ethernet, header, payload])
  }
  const header = Buffer.concat([
    Buffer.from('6000000000000040', 'hex'),
    Buffer.from('20010db8000000000000000000000001', 'hex'),
    Buffer.from('20010db8000000000000000000000010', 'hex'),
  ])
  header.writeUInt16BE(next.length + payload.length, 4)
  header.writeUInt8(next.length === 0 ? protocol : 60, 6)
  return Buffer.concat([ethernet, header, next, payload])
}

const ADDRESSES = {
  4: Buffer.from('c0000201c000020a', 'hex'),
  6: Buffer.from('20010db800000000000000000000000120010db8000000000000000000000010', 'hex'),
}

/** Computes RFC 1071 over the pseudo-header and the given bytes of the payload. */
function sum16({ family, protocol, payload }: Sample, over: Buffer): number {
  let sum = protocol + payload.length
  for (const bytes of [ADDRESSES[family], over]) {
    for (let at = 0; at < bytes.length; at += 2) sum += (bytes[at] ?? 0) * 256 + (bytes[at + 1] ?? 0)
  }
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  return sum
}

const TCP = { protocol: 6, field: 16 }
const UDP = { protocol: 17, field: 6 }

const completed = (frame: Uint8Array, gsoSize: number): Buffer[] =>
  completeFrames(frame, gsoSize).map((bytes) => Buffer.from(bytes))

function payloadOf({ protocol }: { readonly protocol: number }, bytes = 0): Buffer {
  const header = Buffer.alloc(protocol === 6 ? 20 : 8)
  header.writeUInt16BE(40_000, 0)
  header.writeUInt16BE(80, 2)
  if (protocol === 6) header.writeUInt8(0x50, 12)
  else header.writeUInt16BE(8 + bytes, 4)
  return Buffer.concat([header, Buffer.from(Array.from({ length: bytes }, (_, at) => (at * 7) & 0xff))])
}

/**
 * Builds a sample. `write` computes its checksum field from the sums over the pseudo-header alone and over everything.
 */
function sampleWith(kind: Kind, write: (sums: { pseudo: number; all: number }) => number): Sample {
  const { family, protocol, field, bytes = 33, next } = kind
  const payload = payloadOf({ protocol }, bytes)
  const sample = { family, protocol, payload, ...(next === undefined ? {} : { next }) }
  const sums = { pseudo: sum16(sample, Buffer.alloc(0)), all: sum16(sample, payload) }
  payload.writeUInt16BE(write(sums), field)
  return sample
}

type Kind = Pick<Sample, 'family' | 'protocol' | 'next'> & { readonly field: number; readonly bytes?: number }

const partial = ({ pseudo }: { readonly pseudo: number }): number => pseudo
const complete = ({ all }: { readonly all: number }): number => ~all & 0xffff

for (const family of [4, 6] as const) {
  for (const [name, { protocol, field }] of Object.entries({ TCP, UDP })) {
    describe(`${name} over IPv${family}`, () => {
      const kind = { family, protocol, field }
      const whole = frameOf(sampleWith(kind, complete))

      test("a checksum that is the pseudo-header's alone is completed", () => {
        const frame = frameOf(sampleWith(kind, partial))
        const before = Buffer.from(frame)
        assert.deepEqual(completed(frame, 0), [whole])
        assert.deepEqual(frame, before, 'in a copy')
      })

      test('bytes after the packet are not part of it', () => {
        const pad = Buffer.alloc(7, 0xff)
        const padded = Buffer.concat([frameOf(sampleWith(kind, partial)), pad])
        assert.deepEqual(completed(padded, 0), [Buffer.concat([whole, pad])])
      })

      test('a checksum that is right is left alone', () => {
        assert.deepEqual(completeFrames(whole, 0), [whole])
      })

      test('a checksum that is wrong is left to the guest to refuse', () => {
        const frame = frameOf(sampleWith(kind, () => 0x1234))
        assert.deepEqual(completeFrames(frame, 0), [frame])
      })
    })
  }
}

test('UDP over IPv4 without a checksum is left alone', () => {
  const frame = frameOf({ family: 4, protocol: 17, payload: payloadOf(UDP, 8) })
  assert.deepEqual(completeFrames(frame, 0), [frame])
})

test('a checksum of UDP that comes out as 0, which means none, is written as its other form', () => {
  const sample = sampleWith({ family: 6, ...UDP, bytes: 2 }, () => 0)
  // This makes all words add up to 0xffff.
  sample.payload.writeUInt16BE(0, 8)
  sample.payload.writeUInt16BE(~sum16(sample, sample.payload) & 0xffff, 8)
  sample.payload.writeUInt16BE(sum16(sample, Buffer.alloc(0)), UDP.field)
  const [frame] = completed(frameOf(sample), 0)
  assert.equal(frame?.readUInt16BE(54 + UDP.field), 0xffff)
})

for (const family of [4, 6] as const) {
  const start = family === 4 ? 34 : 54

  test(`a frame over IPv${family} that stands for many TCP segments is cut into them`, () => {
    const payload = payloadOf(TCP, 3000)
    payload.writeUInt32BE(0xffff_ff00, 4)
    // FIN, PSH, ACK and CWR.
    payload.writeUInt8(0x99, 13)
    const segments = completed(frameOf({ family, protocol: 6, payload }), 1448)
    assert.deepEqual(
      segments.map((segment) => segment.length - start - 20),
      [1448, 1448, 104],
    )
    assert.deepEqual(
      segments.map((segment) => segment.readUInt32BE(start + 4)),
      [0xffff_ff00, 1192, 2640],
    )
    assert.deepEqual(
      segments.map((segment) => segment.readUInt8(start + 13)),
      [0x90, 0x10, 0x19],
    )
    assert.deepEqual(
      Buffer.concat(segments.map((segment) => segment.subarray(start + 20))),
      payload.subarray(20),
    )
    for (const [index, segment] of segments.entries()) assertSound(family, segment, index)
  })

  test(`a frame over IPv${family} that stands for many datagrams is cut into them`, () => {
    const payload = payloadOf(UDP, 2500)
    payload.writeUInt16BE(0x1234, UDP.field)
    const segments = completed(frameOf({ family, protocol: 17, payload }), 1200)
    assert.deepEqual(
      segments.map((segment) => segment.readUInt16BE(start + 4)),
      [1208, 1208, 108],
    )
    assert.deepEqual(
      Buffer.concat(segments.map((segment) => segment.subarray(start + 8))),
      payload.subarray(8),
    )
    for (const [index, segment] of segments.entries()) assertSound(family, segment, index)
  })
}

/** Checks lengths and checksums of a frame that was cut. */
function assertSound(family: 4 | 6, frame: Buffer, index: number): void {
  const ip = frame.subarray(14)
  const payload = ip.subarray(family === 4 ? 20 : 40)
  const protocol = ip.readUInt8(family === 4 ? 9 : 6)
  assert.equal(sum16({ family, protocol, payload }, payload), 0xffff)
  if (family === 6) return assert.equal(ip.readUInt16BE(4), payload.length)
  assert.deepEqual([ip.readUInt16BE(2), ip.readUInt16BE(4)], [ip.length, index])
  const header = Array.from({ length: 10 }, (_, at) => ip.readUInt16BE(at * 2)).reduce(
    (sum, word) => sum + word,
  )
  assert.equal((header & 0xffff) + (header >>> 16), 0xffff)
}

test('a frame that stands for segments of a tunnel is not cut as if it were TCP or UDP', () => {
  const GRE = 47
  const ofTunnel = { family: 4, protocol: GRE, payload: payloadOf(UDP, 3000) } as const
  assert.deepEqual(completeFrames(frameOf(ofTunnel), 1448), [])
  const ofVxlan = { family: 4, protocol: UDP.protocol, payload: payloadOf(UDP, 3000) } as const
  ofVxlan.payload.writeUInt16BE(0, UDP.field)
  assert.deepEqual(completeFrames(frameOf(ofVxlan), 1448), [])
})

test('a frame is cut into the smallest segments that Linux makes, and not into any number', () => {
  const payload = payloadOf(TCP, 65_000)
  assert.equal(completed(frameOf({ family: 6, protocol: 6, payload }), 48).length, Math.ceil(65_000 / 48))
  assert.deepEqual(completed(frameOf({ family: 6, protocol: 6, payload }), 1), [])
})

test('a frame that stands for one segment is sent as it is, but for its checksum', () => {
  const kind = { family: 4, ...TCP } as const
  const frame = frameOf(sampleWith(kind, partial))
  assert.deepEqual(completed(frame, 1448), [frameOf(sampleWith(kind, complete))])
})

describe('IPv6 extension headers', () => {
  const options = (count: number): Buffer =>
    Buffer.concat(
      Array.from({ length: count }, (_, at) =>
        Buffer.from([at === count - 1 ? 17 : 60, 0, 1, 4, 0, 0, 0, 0]),
      ),
    )
  const withOptions = (count: number, write: typeof partial | typeof complete): Buffer =>
    frameOf(sampleWith({ family: 6, ...UDP, next: options(count) }, write))

  test('are skipped', () => {
    assert.deepEqual(completed(withOptions(2, partial), 0), [withOptions(2, complete)])
  })

  test('are left alone if there are too many', () => {
    const frame = withOptions(7, partial)
    assert.deepEqual(completeFrames(frame, 0), [frame])
  })

  test('that end in a fragment are left alone: its checksum is over the whole', () => {
    const fragment = withOptions(1, partial)
    fragment.writeUInt8(44, 20)
    assert.deepEqual(completeFrames(fragment, 0), [fragment])
  })
})

test('fragments of IPv4 are left alone', () => {
  for (const [what, word] of [
    ['first', 0x2000],
    ['last', 0x0010],
  ] as const) {
    const frame = frameOf(sampleWith({ family: 4, ...UDP }, partial))
    frame.writeUInt16BE(word, 20)
    assert.deepEqual(completeFrames(frame, 0), [frame], what)
  }
})

test('a frame that is cut short or is not IP is left alone', () => {
  const tcp = frameOf(sampleWith({ family: 6, ...TCP }, partial))
  for (let length = 0; length < tcp.length; length++) {
    const short = tcp.subarray(0, length)
    assert.deepEqual(completeFrames(short, 0), [short], `${length} bytes`)
  }
  const arp = Buffer.from(tcp)
  arp.writeUInt16BE(0x0806, 12)
  assert.deepEqual(completeFrames(arp, 0), [arp])
})

test('a frame with a header shorter than it can be is left alone, and not cut', () => {
  const ipv4 = frameOf(sampleWith({ family: 4, ...TCP, bytes: 100 }, complete))
  const tcp = Buffer.from(ipv4)
  for (let words = 0; words < 5; words++) {
    ipv4.writeUInt8(0x40 | words, 14)
    tcp.writeUInt8(words << 4, 14 + 20 + 12)
    for (const frame of [ipv4, tcp]) {
      assert.deepEqual(completeFrames(frame, 0), [frame], `${words} words`)
      assert.deepEqual(completeFrames(frame, 10), [], `${words} words`)
    }
  }
})
