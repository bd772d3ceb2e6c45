import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync } from 'node:fs'
import type { TestContext } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import type { UserId } from '../../src/core/ids.ts'
import { run } from './run.ts'
import type { IgnoredTraffic } from '../../src/host/ebpf/ignored-traffic.ts'
import { RingBuffer } from '../../src/host/ebpf/ring-buffer.ts'
import { decodeEvent } from '../../src/host/ebpf/traffic-maps.ts'
import type { TrafficEvent } from '../../src/host/ebpf/traffic-maps.ts'
import { TrafficProgram } from '../../src/host/ebpf/traffic-program.ts'
import { Rtnetlink } from '../../src/host/netlink/rtnetlink.ts'
import { atEnd } from '../contract/at-end.ts'
import { PacketSocket } from './packet-socket.ts'

export const OBJECT = new URL('../../dist/bpf/traffic.bpf.o', import.meta.url).pathname
export const userId = 100_001 as UserId

/** Makes a BPF file system for the test; it ends with the mount namespace of the test file. */
export const bpfDirectory = (): string => mkdtempSync('/run/netns/.bpf-')

let devices = 0

/** A device that carries only the test's packets: one end of a pair with no listener at its other end. */
export class Wire {
  readonly ifindex: number
  readonly name: string
  readonly #links: Rtnetlink

  private constructor(name: string, links: Rtnetlink) {
    this.name = name
    this.#links = links
    this.ifindex = links.link(name)?.index ?? assert.fail(`no link ${name}`)
  }

  static async make(t: TestContext): Promise<Wire> {
    const name = `wire${++devices}`
    // The maximum length of an IP packet.
    const mtu = ['mtu', '65535']
    await run(['ip', 'link', 'add', name, ...mtu, 'type', 'veth', 'peer', 'name', `${name}end`, ...mtu])
    for (const device of [name, `${name}end`]) {
      await run(['sysctl', '-qw', `net.ipv6.conf.${device}.disable_ipv6=1`])
      await run(['ip', 'link', 'set', device, 'up'])
    }
    const links = new Rtnetlink()
    atEnd(t, () => run(['ip', 'link', 'del', name]))
    atEnd(t, () => links.close())
    return new Wire(name, links)
  }

  /** Number of frames that went on to the device. */
  passed(): number {
    return this.#links.statistics(this.name).transmittedPackets
  }
}

export type Fate = 'passed' | 'held' | 'dropped'

export type Stage = {
  readonly wire: Wire
  readonly program: TrafficProgram
  /** Sends a frame, and returns its fate. */
  readonly send: (frame: Buffer, options?: { mark?: number; tcpSegmentBytes?: number; on?: Wire }) => Fate
  /** Number of the guest's packets that counted. */
  readonly counted: () => number
  /** Starts to hold frames: none is held yet, and the guest is not wanted. */
  readonly hold: () => void
  readonly flow: () => void
  /** Copies of the events written to the ring buffer since the last call. */
  readonly events: () => readonly TrafficEvent[]
}

/** Attaches the program to a wire, with a guest behind it. */
export async function setStage(t: TestContext, ignored?: IgnoredTraffic): Promise<Stage> {
  const wire = await Wire.make(t)
  const program = new TrafficProgram({
    object: () => readFileSync(OBJECT),
    directory: bpfDirectory(),
    ...(ignored === undefined ? {} : { ignored }),
  })
  await program.attach(wire.ifindex)
  program.setGuest(wire.ifindex, { userId, frames: 'flowing' })
  const ring = new RingBuffer(program.eventsFd, limits.trafficEventsBytes)
  // Found by mark, because a packet socket takes long to close.
  const sockets = new Map<number, PacketSocket>()
  atEnd(t, () => {
    ring.close()
    for (const socket of sockets.values()) socket.close()
  })
  return {
    wire,
    program,
    send(frame, { mark = 0, tcpSegmentBytes = 0, on = wire } = {}) {
      const before = { passed: on.passed(), held: program.held(on.ifindex)?.frames ?? 0 }
      const socket = sockets.get(mark) ?? new PacketSocket(mark)
      sockets.set(mark, socket)
      const isOnItsWay = socket.send(on.ifindex, frame, { tcpSegmentBytes })
      const after = { passed: on.passed(), held: program.held(on.ifindex)?.frames ?? 0 }
      const fate = fateOf(after.passed - before.passed, after.held - before.held)
      // The sender of a held frame must not get the error of a lost one.
      assert.equal(isOnItsWay, fate !== 'dropped')
      return fate
    },
    counted: () => program.activity(userId)?.packets ?? 0,
    hold() {
      program.startHold(wire.ifindex)
      program.setGuest(wire.ifindex, { userId, frames: 'held' })
    },
    flow: () => program.setGuest(wire.ifindex, { userId, frames: 'flowing' }),
    events: () => drain(ring),
  }
}

function fateOf(passed: number, held: number): Fate {
  assert.ok(passed + held <= 1, 'a frame is somewhere once')
  if (passed === 1) return 'passed'
  return held === 1 ? 'held' : 'dropped'
}

function drain(ring: RingBuffer): readonly TrafficEvent[] {
  const events: TrafficEvent[] = []
  for (let record = ring.next(); record !== undefined; record = ring.next()) {
    if (record.bytes.length > 0) events.push(decodeEvent(Buffer.from(record.bytes)))
    ring.release(record.end)
  }
  return events
}
