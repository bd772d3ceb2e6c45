/** VMs that run the bare guest, which boots under every monitor (lab/guest/bare/). */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { leave, view } from './console.ts'
import { mutate, settled } from './controller.ts'
import { guestImage } from './guest.ts'
import { ECHO_PORT, keptAwake, sleepAfter } from './sleepers.ts'
import type { Sleeper } from './sleepers.ts'

const BOUND_MS = 20_000
/** Pause between two datagrams to a guest that boots; the resolution of a measurement with them. */
const AGAIN_MS = 2

export type BareOptions = {
  readonly monitor?: 'qemu' | 'firecracker'
  readonly power?: 'running' | 'stopped'
  readonly memoryMib?: number
  readonly sleepAfterIdleSeconds?: number
  readonly kernelArguments?: string
  /** Root of the lab, for a process beside it. */
  readonly root?: string
}

/** Returns its create request. The monitor is the host's choice if `monitor` is absent. */
export const bareRequest = (
  { ipv4, ipv6 }: Sleeper,
  {
    monitor,
    power = 'running',
    memoryMib = 128,
    sleepAfterIdleSeconds = 0,
    kernelArguments,
    root = '',
  }: BareOptions,
): object => ({
  power,
  ...(monitor === undefined ? {} : { monitor }),
  compute: { cpu_millicores: 1000, memory_mib: memoryMib, sleep_after_idle_seconds: sleepAfterIdleSeconds },
  disk: { size_mib: 64 },
  image: {
    rootfs: guestImage('rootfs.raw', root),
    kernel: guestImage('bare.elf', root),
    ...(kernelArguments === undefined ? {} : { kernel_arguments: kernelArguments }),
  },
  network: { ipv4_address: ipv4, ipv6_address: ipv6 },
})

/** Creates it awake, waits until it answers, and only then lets it sleep. */
export async function makeBare(one: Sleeper, options: BareOptions = {}): Promise<void> {
  const { memoryMib = 128, sleepAfterIdleSeconds = 0 } = options
  await mutate('PUT', `/v1/vms/${one.id}`, bareRequest(one, { ...options, sleepAfterIdleSeconds: 0 }))
  await settled(one.id, 'running')
  await firstEcho(one.ipv4)
  if (sleepAfterIdleSeconds > 0) await sleepAfter(one.id, sleepAfterIdleSeconds, memoryMib)
}

/** Sends one datagram to the guest's echo; returns the milliseconds until it comes back. */
export function udpEcho(host: string): Promise<number> {
  return echoed(host, (send) => Promise.resolve(send()))
}

/** Sends datagrams until one comes back; returns the milliseconds since the call. */
export function firstEcho(host: string): Promise<number> {
  return echoed(host, async (send, signal) => {
    while (!signal.aborted) {
      send()
      await delay(AGAIN_MS)
    }
  })
}

async function echoed(
  host: string,
  send: (send: () => void, signal: AbortSignal) => Promise<void>,
): Promise<number> {
  const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
  const ended = new AbortController()
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  const bound = setTimeout(
    () => reject(new Error(`${host}: no answer over UDP within ${BOUND_MS} ms`)),
    BOUND_MS,
  )
  try {
    socket.connect(ECHO_PORT, host)
    await once(socket, 'connect')
    const startedAt = performance.now()
    // A guest that boots has no device yet; the kernel reports that on the socket.
    socket.on('error', () => {})
    socket.on('message', () => resolve(performance.now() - startedAt))
    void send(() => socket.send('echo'), ended.signal)
    return await promise
  } finally {
    clearTimeout(bound)
    ended.abort()
    socket.close()
  }
}

let marks = 0

/**
 * Types a line on the guest's console, and resolves to the first group of its answer (lab/guest/bare/README.md). Input
 * does not wake a guest: one that may fall asleep is kept awake by datagrams to `address` until it has answered.
 */
export async function askBare(id: string, line: string, answer: RegExp, address?: string): Promise<string> {
  // The history may have the same line and its answer; it does not have the mark.
  const mark = `mark-${process.pid}-${++marks}`
  let text = ''
  const answered = Promise.withResolvers<string>()
  const bound = setTimeout(
    () => answered.reject(new Error(`${id} did not answer "${line}", but: ${text.slice(-500)}`)),
    BOUND_MS,
  )
  const viewer = await view(id, {
    onOutput: (chunk) => {
      text += chunk.toString()
      const at = text.indexOf(`> ${mark}\r\n`)
      const found = at === -1 ? null : answer.exec(text.slice(at + mark.length))
      if (found !== null) answered.resolve(found[1] ?? found[0])
    },
  })
  const datagrams = address === undefined ? undefined : keptAwake(address)
  try {
    viewer.socket.send(Buffer.from(`${mark}\n${line}\n`))
    return await answered.promise
  } finally {
    clearTimeout(bound)
    datagrams?.end()
    await leave(viewer)
  }
}

/**
 * Returns the number of the guest's life, which ends with a boot, and advances its counter. `address`:
 * see {@link askBare}.
 */
export const lifeOf = (id: string, address?: string): Promise<string> =>
  askBare(id, 'count', /life ([0-9a-f]{16}) count \d+\r\n/, address)
