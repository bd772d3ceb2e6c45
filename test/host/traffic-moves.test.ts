import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { GATEWAY_MAC } from '../../src/core/network/tap.ts'
import { run } from './run.ts'
import { atEnd } from '../contract/at-end.ts'
import { endChild, linesOf } from '../contract/child.ts'
import { tapSpec } from '../contract/taps-stage.ts'
import { capture } from './captured-frames.ts'
import { Place } from './network-stage.ts'
import { datagramsOf, HOST_PORT, TrafficOnTaps } from './traffic-stage.ts'
import type { DeviceName, UserId } from '../../src/core/ids.ts'
import type { TapSpec } from '../../src/core/network/tap.ts'
import type { HeldPacket } from '../../src/ports/traffic.ts'
import type { PacketJson, SourceCommand } from './moving-source.ts'

const { ipv4Address: ipv4 = '', ipv6Address: ipv6 = '' } = tapSpec
/** The guest of `tapSpec` at its destination, which has a user of its own for it. */
const arrived: TapSpec = { ...tapSpec, device: 'vmt200001' as DeviceName, userId: 200_001 as UserId }
const deliver = { deliver: true }

type Source = {
  send(name: string, to?: string): Promise<void>
  held(after: number): Promise<readonly HeldPacket[]>
  restart(): Promise<void>
}

/** Starts a host with a network of its own, from which the guest of `tapSpec` moves. */
async function startSource(t: TestContext): Promise<Source> {
  await run(['ip', 'netns', 'add', 'source'])
  atEnd(t, () => run(['ip', 'netns', 'del', 'source']))
  const [program, ...argv] = new Place('source').argv([
    process.execPath,
    `${import.meta.dirname}/moving-source.ts`,
  ])
  const child = spawn(program, argv, { stdio: ['pipe', 'pipe', 'inherit'] })
  const line = linesOf(child)
  atEnd(t, () => endChild(child))
  assert.equal(await line(), 'ready')
  const ask = async (command: SourceCommand): Promise<unknown> => {
    child.stdin.write(`${JSON.stringify(command)}\n`)
    return JSON.parse(await line())
  }
  return {
    send: async (name, to = ipv4) => void (await ask({ send: name, to })),
    held: async (after) =>
      ((await ask({ held: after })) as readonly PacketJson[]).map((packet) => ({
        ...packet,
        frame: Buffer.from(packet.frame, 'base64'),
      })),
    restart: async () => void (await ask({ restart: true })),
  }
}

const numbers = (packets: readonly HeldPacket[]): readonly number[] => packets.map(({ number }) => number)

test(
  'a guest that moved gets the packets held at its source, then those held here, none lost or doubled',
  { skip },
  async (t) => {
    const source = await startSource(t)
    const stage = new TrafficOnTaps(t)
    await stage.makeDevice(arrived)
    const traffic = stage.daemon()
    await traffic.ensureHeld(arrived)

    await source.send('one')
    await source.send('two', ipv6)
    await stage.send(arrived, 'here one')
    const first = await source.held(0)
    assert.deepEqual(numbers(first), [1, 2])
    await traffic.inject(arrived, first)
    await source.restart()
    await source.send('three')
    const [again] = [await source.held(1)]
    assert.deepEqual(numbers(again), [2, 3], 'the numbers outlive the daemon of the source')
    await traffic.inject(arrived, again)
    await stage.send(arrived, 'here two')

    const guest = await stage.attach(arrived)
    assert.deepEqual(datagramsOf(guest), [])
    assert.deepEqual(await traffic.ensureFlowing(arrived, deliver), { delivered: 5, dropped: 0 })
    await source.send('late')
    await traffic.inject(arrived, await source.held(3))
    await stage.send(arrived, 'flows')
    assert.deepEqual(datagramsOf(guest), ['one', 'two', 'three', 'here one', 'here two', 'late', 'flows'])
  },
)

test(
  'a guest that moved reaches its gateway at the address that it knew at its source',
  { skip },
  async (t) => {
    const source = await startSource(t)
    const stage = new TrafficOnTaps(t)
    await stage.makeDevice(arrived)
    const traffic = stage.daemon()
    await traffic.ensureWatched(arrived)
    const guest = await stage.attach(arrived)
    for (const [type, address] of [
      ['udp4', ipv4],
      ['udp6', ipv6],
    ] as const) {
      await source.send(`to ${address}`, address)
      const [packet] = (await source.held(0)).slice(-1)
      assert.ok(packet !== undefined)
      await traffic.inject(arrived, [packet])
      const frame = guest.frames().findLast((each) => capture(each).protocol === 'udp')
      assert.ok(frame !== undefined && capture(frame).isSound)
      assert.equal(frame.toString('hex', 0, 6), tapSpec.guestMac.replaceAll(':', ''))
      assert.equal(frame.toString('hex', 6, 12), GATEWAY_MAC.replaceAll(':', ''))

      const socket = createSocket({ type, ipv6Only: type === 'udp6' }).bind(HOST_PORT)
      atEnd(t, () => socket.close())
      await once(socket, 'listening')
      const heard = once(socket, 'message')
      guest.write(answerTo(frame))
      const [message, { address: sender }] = (await heard) as [Buffer, { address: string }]
      assert.deepEqual([message.toString(), sender], [`to ${address}`, address])
    }
  },
)

/** Returns the datagram in a frame on its way back. All checksums stay right, because they are sums of both ways. */
function answerTo(frame: Buffer): Buffer {
  const isIpv4 = frame.readUInt16BE(12) === 0x0800
  const [from, bytes, ports] = isIpv4 ? [26, 4, 34] : [22, 16, 54]
  const answer = Buffer.from(frame)
  const swap = (at: number, length: number): void => {
    frame.copy(answer, at, at + length, at + 2 * length)
    frame.copy(answer, at + length, at, at + length)
  }
  swap(0, 6)
  swap(from, bytes)
  swap(ports, 2)
  return answer
}
