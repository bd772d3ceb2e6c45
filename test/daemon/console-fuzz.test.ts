import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import * as fc from 'fast-check'
import { limits } from '../../src/config/limits.ts'
import { closes } from '../../src/core/console/close.ts'
import { unreachable } from '../../src/lib/assert.ts'
import { until } from '../contract/until.ts'
import { makePki, startControllerHost } from './support/controller-host.ts'
import { createVm, startConsole, watch, WEB } from './support/console-viewer.ts'
import { encode, handshake, rawConnection } from './support/raw-websocket.ts'
import type { TestContext } from 'node:test'
import type { FakeSession } from '../fakes/fake-session.ts'
import type { ControllerHost, Pki } from './support/controller-host.ts'
import type { Frame, RawConnection } from './support/raw-websocket.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

/** An action of a viewer, and its meaning. */
type Act =
  /** Encodes a message in one frame or several, with control frames in between. */
  | { readonly kind: 'input'; readonly parts: readonly Uint8Array[]; readonly masks: readonly Uint8Array[] }
  | { readonly kind: 'text'; readonly payload: Uint8Array }
  | { readonly kind: 'control'; readonly opcode: 9 | 10; readonly payload: Uint8Array }
  /** Breaks the protocol: no later frame counts. */
  | { readonly kind: 'breach'; readonly frame: Frame }

const mask = fc.uint8Array({ minLength: 4, maxLength: 4 })
/** ASCII, so that the guest's input can be compared as text. */
const ascii = (maxLength: number) =>
  fc.uint8Array({ maxLength }).map((bytes) => bytes.map((byte) => byte & 0x7f))

const input = fc.record({
  kind: fc.constant('input' as const),
  parts: fc.array(fc.oneof(ascii(20), ascii(300), ascii(20_000)), { minLength: 1, maxLength: 3 }),
  masks: fc.array(mask, { minLength: 1, maxLength: 3 }),
})
const text = fc.record({
  kind: fc.constant('text' as const),
  payload: fc
    .oneof(fc.string({ unit: 'grapheme' }), fc.json(), fc.constant('{"resize":{"cols":9,"rows":9}}'))
    .map((one) => Buffer.from(one)),
})
const control = fc.record({
  kind: fc.constant('control' as const),
  opcode: fc.constantFrom(9 as const, 10 as const),
  payload: fc.uint8Array({ maxLength: 125 }),
})
const payload = fc.uint8Array({ maxLength: 40 })
const breach = fc
  .oneof(
    fc.record({ opcode: fc.constantFrom(2, 9), payload, mask: fc.constant(null) }),
    fc.record({ opcode: fc.constantFrom(1, 2, 8, 9), payload, rsv: fc.integer({ min: 1, max: 7 }) }),
    fc.record({ opcode: fc.constantFrom(3, 4, 5, 6, 7, 11, 12, 13, 14, 15), payload }),
    fc.record({ opcode: fc.constantFrom(9, 10, 8), fin: fc.constant(false) }),
    fc.record({ opcode: fc.constantFrom(9, 10, 8), saidLength: fc.integer({ min: 126, max: 70_000 }) }),
    fc.record({
      opcode: fc.constantFrom(1, 2),
      saidLength: fc.integer({ min: limits.consoleMessageBytesMax + 1, max: Number.MAX_SAFE_INTEGER }),
    }),
    fc.record({ opcode: fc.constant(0), payload }),
    fc.record({ opcode: fc.constant(1), payload: fc.constant(Uint8Array.of(0xc3, 0x28)) }),
  )
  .map((frame) => ({ kind: 'breach' as const, frame }))

/** Makes mostly well-formed frames; in some runs one breach somewhere. */
const acts: fc.Arbitrary<Act[]> = fc
  .tuple(
    fc.array(fc.oneof(input, input, text, control), { maxLength: 8 }),
    fc.option(breach, { nil: undefined }),
    fc.array(input, { maxLength: 2 }),
  )
  .map(([well, bad, after]) => (bad === undefined ? well : [...well, bad, ...after]))

function framesOf(act: Act): Frame[] {
  switch (act.kind) {
    case 'input':
      return act.parts.flatMap((part, index) => [
        {
          opcode: index === 0 ? 2 : 0,
          payload: part,
          fin: index === act.parts.length - 1,
          mask: act.masks[index % act.masks.length] ?? null,
        },
        ...(index === 0 ? [{ opcode: 9, payload: Buffer.from('in between') }] : []),
      ])
    case 'text':
      return [{ opcode: 1, payload: act.payload }]
    case 'control':
      return [act]
    case 'breach':
      return [act.frame]
    default:
      return unreachable(act)
  }
}

/** Returns the input that the guest must get: the messages before a breach. */
function expectedInput(all: readonly Act[]): string {
  const end = all.findIndex(({ kind }) => kind === 'breach')
  const heard = end === -1 ? all : all.slice(0, end)
  return Buffer.concat(heard.flatMap((act) => (act.kind === 'input' ? act.parts : []))).toString()
}

/** Writes in pieces that are cut anywhere. The network may send each in a packet of its own. */
async function writeInPieces(
  { socket }: RawConnection,
  bytes: Buffer,
  cuts: readonly number[],
): Promise<void> {
  const ends = [...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].toSorted((a, b) => a - b)
  let at = 0
  for (const end of ends) {
    if (end > at) await new Promise((resolve) => socket.write(bytes.subarray(at, end), resolve))
    at = end
  }
}

type Stage = {
  readonly host: ControllerHost
  readonly session: FakeSession
  readonly open: () => Promise<RawConnection>
}

async function stage(t: TestContext): Promise<Stage> {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  return { host, session: await startConsole(host), open: () => rawConnection(t, host, pki) }
}

/** Checks that no viewer is left, and that the next viewer is served as usual. */
async function assertServed(t: TestContext, { host, session }: Stage): Promise<void> {
  await until(
    () => host.hub.viewers(WEB),
    (taken) => taken === 0,
  )
  const viewer = await watch(t, host, pki)
  session.say(Buffer.from('well and alive'))
  await viewer.shows('well and alive')
  assert.ok(!host.logLines.some((line) => /"level":"error"|internal error/.test(line)))
}

const STATUSES: ReadonlySet<number> = new Set(Object.values(closes).map(({ status }) => status))

test('messages arrive whole and in order up to a breach of the protocol, which ends the connection as documented', async (t) => {
  const made = await stage(t)
  const cuts = fc.array(fc.nat(), { maxLength: 12 })
  await fc.assert(
    fc.asyncProperty(acts, cuts, async (all, places) => {
      const typedBefore = made.session.terminal.typed.length
      const connection = await made.open()
      const bytes = Buffer.concat([Buffer.from(handshake()), ...all.flatMap(framesOf).map(encode)])
      await writeInPieces(connection, bytes, places)
      const expected = expectedInput(all)
      await until(
        () => made.session.terminal.typed.length - typedBefore,
        (length) => length >= expected.length,
      )
      if (all.some(({ kind }) => kind === 'breach')) {
        const { status, reason } = await connection.closed()
        assert.ok([1002, 1007, 1009].includes(status), `${status}`)
        assert.ok(Object.hasOwn(closes, reason), reason)
      } else {
        connection.send({ opcode: 9, payload: Buffer.from('the end') })
        await until(
          () => connection.frames().filter((one) => one.opcode === 10 && String(one.payload) === 'the end'),
          ({ length }) => length === 1,
        )
      }
      assert.equal(made.session.terminal.typed.slice(typedBefore), expected)
      connection.socket.destroy()
      await connection.over()
    }),
    { numRuns: 120 },
  )
  await assertServed(t, made)
})

test('any bytes end the connection as documented or leave it waiting for more, and the daemon lives', async (t) => {
  const made = await stage(t)
  const well = acts.map((all) => Buffer.concat(all.flatMap(framesOf).map(encode)))
  const mutated = fc
    .tuple(well, fc.array(fc.tuple(fc.nat(), fc.nat({ max: 255 })), { minLength: 1, maxLength: 6 }))
    .map(([bytes, changes]) => {
      for (const [at, value] of changes) if (bytes.length > 0) bytes[at % bytes.length] = value
      return bytes
    })
  const noise = fc.uint8Array({ minLength: 1, maxLength: 2000 }).map((bytes) => Buffer.from(bytes))
  await fc.assert(
    fc.asyncProperty(fc.oneof(mutated, noise), fc.array(fc.nat(), { maxLength: 6 }), async (bytes, cuts) => {
      const connection = await made.open()
      connection.socket.write(handshake())
      await connection.status()
      await writeInPieces(connection, bytes, cuts)
      // The end of the input ends the connection, if nothing did before.
      connection.socket.end()
      await connection.over()
      for (const { opcode, payload: reason } of connection.frames().filter((one) => one.opcode === 8)) {
        // A viewer that closed with a status of its own is answered with the same.
        const status = reason.length === 0 ? 1000 : reason.readUInt16BE(0)
        assert.equal(opcode, 8)
        assert.ok(STATUSES.has(status) || status >= 1000, `${status}`)
      }
    }),
    { numRuns: 120 },
  )
  await assertServed(t, made)
})
