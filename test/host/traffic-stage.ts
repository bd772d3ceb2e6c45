import { closeSync, readSync, writeSync } from 'node:fs'
import { createSocket } from 'node:dgram'
import { promisify } from 'node:util'
import type { TestContext } from 'node:test'
import { readAsset } from '../../src/daemon/assets.ts'
import { hasErrno } from '../../src/host/ffi/errno-error.ts'
import { setNonBlocking } from '../../src/host/ffi/descriptor.ts'
import { TapTraffic } from '../../src/host/ebpf/tap-traffic.ts'
import { TrafficProgram } from '../../src/host/ebpf/traffic-program.ts'
import { RoutedTaps } from '../../src/host/tap/routed-taps.ts'
import { silentLog } from '../../src/log/log.ts'
import { atEnd, undoAll } from '../contract/at-end.ts'
import { attachTap } from './attach-tap.ts'
import { capture } from './captured-frames.ts'
import { Place } from './network-stage.ts'
import type { TapSpec } from '../../src/core/network/tap.ts'

/** A destination port that the host is configured to ignore. */
export const IGNORED_PORT = 9
export const PORT = 7
/** The port of the host, if the guest must be able to answer. */
export const HOST_PORT = 4000
const UDP_HEADER_BYTES = 8
const FRAME_BYTES_MAX = 70_000

let stages = 0

/** A process that holds a tap and takes every frame as it comes, without a network stack behind it. */
export class BareGuest {
  readonly #fd: number
  readonly #frames: Buffer[] = []

  constructor(device: string) {
    this.#fd = attachTap(device)
    setNonBlocking(this.#fd)
  }

  /** All frames so far. */
  frames(): readonly Buffer[] {
    const bytes = Buffer.alloc(FRAME_BYTES_MAX)
    for (;;) {
      try {
        this.#frames.push(Buffer.from(bytes.subarray(0, readSync(this.#fd, bytes))))
      } catch (error) {
        // EBADFD: the device is gone.
        if (hasErrno(error, 'EAGAIN', 'EBADFD')) return this.#frames
        throw error
      }
    }
  }

  write(frame: Uint8Array): void {
    writeSync(this.#fd, frame)
  }

  close(): void {
    closeSync(this.#fd)
  }
}

/** Returns the datagrams among the frames that a guest got. */
export const datagramsOf = (guest: BareGuest | undefined): readonly string[] =>
  (guest?.frames() ?? [])
    .map(capture)
    .filter(({ protocol }) => protocol === 'udp')
    .map(({ payload }) => payload.subarray(UDP_HEADER_BYTES).toString())

/** Returns the program with its maps in this directory. */
export const trafficProgram = (directory: string): TrafficProgram =>
  new TrafficProgram({
    object: () => readAsset('traffic.bpf.o'),
    directory,
    ignored: {
      ignoreSources: [],
      ignorePortsTcp: [],
      ignorePortsUdp: [IGNORED_PORT],
      ignoreMark: 0,
      ignoreMarkMask: 0,
    },
  })

/** Taps and their traffic, with maps of its own that live until the end of the test. */
export class TrafficOnTaps {
  readonly taps = new RoutedTaps({ storeId: 'store-1' })
  readonly #directory = `/run/netns/.bpf${(stages += 1)}`
  readonly #specs = new Map<string, TapSpec>()
  readonly #guests = new Map<string, BareGuest>()
  readonly #sockets = { ipv4: createSocket('udp4'), ipv6: createSocket('udp6') }
  #traffic: TapTraffic | undefined
  #passedNs = 0n

  constructor(t: TestContext) {
    atEnd(t, () => this.taps.close())
    atEnd(t, () =>
      undoAll(
        [...this.#specs.values()].map(
          ({ device, vmId }) =>
            () =>
              this.taps.remove(device, vmId),
        ),
      ),
    )
    atEnd(t, () => undoAll([...this.#guests.values()].map((guest) => () => guest.close())))
    for (const socket of Object.values(this.#sockets)) atEnd(t, () => socket.close())
    atEnd(t, () => this.#traffic?.close())
  }

  /** The traffic of a new daemon; the previous one left everything as it was. */
  daemon(): TapTraffic {
    this.#traffic?.close()
    const nowNs = (): bigint => process.hrtime.bigint() + this.#passedNs
    this.#traffic = new TapTraffic({ program: this.program(), log: silentLog, nowNs })
    return this.#traffic
  }

  program(): TrafficProgram {
    return trafficProgram(this.#directory)
  }

  async makeDevice(spec: TapSpec): Promise<void> {
    this.#specs.set(spec.device, spec)
    await this.taps.ensure(spec)
  }

  async deleteDevice({ device, vmId }: TapSpec): Promise<void> {
    await this.taps.remove(device, vmId)
  }

  /** Lets a bare guest hold the tap. When this resolves, packets of the kernel reach it. */
  async attach({ device }: TapSpec): Promise<BareGuest> {
    const guest = new BareGuest(device)
    this.#guests.set(device, guest)
    await new Place().isOperational(device)
    return guest
  }

  guest(device: string): BareGuest | undefined {
    return this.#guests.get(device)
  }

  /** Sends one datagram from the host, over IPv4 if no address is given. */
  async send(
    spec: TapSpec,
    payload: string | Buffer,
    to: { port?: number; address?: string } = {},
  ): Promise<void> {
    const address = to.address ?? spec.ipv4Address ?? ''
    const socket = this.#sockets[address.includes(':') ? 'ipv6' : 'ipv4']
    const bytes = Buffer.from(payload)
    await promisify((done: (error: Error | null) => void) =>
      socket.send(bytes, to.port ?? PORT, address, done),
    )()
  }

  pass(ms: number): void {
    this.#passedNs += BigInt(ms) * 1_000_000n
  }
}
