import { spawn } from 'node:child_process'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ReadStream } from 'node:tty'
import { setTimeout as delay } from 'node:timers/promises'
import { mutate, remove, settled } from '../lab/inside/controller.ts'
import { leave, view } from '../lab/inside/console.ts'
import { guestRequest } from '../lab/inside/guest.ts'
import { mainPid } from '../lab/inside/shell.ts'
import { makeRaw, openMaster, openSlave, slavePath } from '../src/host/pty/open-pty.ts'
import { measurement, median, progress } from './measurement.ts'
import type { Measurement } from './measurement.ts'

const VM = 'bench-console'
const ROUNDS = 3
const SECONDS = 4
const VIEWERS = 16
/** Nothing but noise, a line at a time, until Ctrl-C. */
const START = 'yes "all work and no play makes a noisy guest"\r'
const STOP = '\u0003'
const READY = /demo guest ready/
const BOOT_BOUND_MS = 120_000

/** A console that is read: by viewers over the daemon, or by a bare program. */
type Reader = {
  received(this: void): number
  type(this: void, text: string): void
}

/** What a guest that writes without a pause gets across: to one viewer, to many, and to a program that reads its pty. */
export async function guestFlow(): Promise<Measurement[]> {
  await mutate('PUT', `/v1/vms/${VM}`, guestRequest())
  await settled(VM, 'running')
  const byHand = await guestByHand()
  const [one, many, alone]: [number[], number[], number[]] = [[], [], []]
  for (let round = 1; round <= ROUNDS; round += 1) {
    alone.push(await mibps([byHand]))
    one.push(await viewed(1))
    many.push(await viewed(VIEWERS))
    progress(`a guest's output: round ${round} of ${ROUNDS}`)
  }
  byHand.end()
  await remove(VM)
  const row = (metric: string, ours: number[]): Measurement =>
    measurement({
      bench: 'console',
      metric,
      unit: 'MiB/s',
      ours: median(ours),
      reference: median(alone),
      reference_name: 'the same guest by hand, its pty read by a bare program',
      runs: ROUNDS,
    })
  return [row('throughput_mibps', one), row(`throughput_${VIEWERS}_mibps`, many)]
}

async function viewed(count: number): Promise<number> {
  const viewers = await Promise.all(Array.from({ length: count }, async () => view(VM)))
  await Promise.all(viewers.map(async (viewer) => viewer.reached(viewer.attached.replay_bytes)))
  const rate = await mibps(
    viewers.map(({ received, socket }) => ({ received, type: (text) => socket.send(Buffer.from(text)) })),
  )
  await Promise.all(viewers.map(leave))
  return rate
}

/** What each reader gets of a guest that is made to write, on average. */
async function mibps(readers: readonly Reader[]): Promise<number> {
  const [first] = readers
  first?.type(START)
  // What was there before, and the start of the program, are over.
  await delay(500)
  const before = readers.map((reader) => reader.received())
  const startedAt = performance.now()
  await delay(SECONDS * 1000)
  const seconds = (performance.now() - startedAt) / 1000
  const bytes = readers.map((reader, index) => reader.received() - (before[index] ?? 0))
  first?.type(STOP)
  await delay(500)
  return bytes.reduce((sum, each) => sum + each, 0) / readers.length / 1024 / 1024 / seconds
}

/** The same machine as the VM's, started by hand from a copy of its disk, without the daemon. */
async function guestByHand(): Promise<Reader & { end(): void }> {
  const directory = mkdtempSync(join(tmpdir(), 'bench-console-'))
  const words = readFileSync(`/proc/${await mainPid(`vmhost-${VM}.service`)}/cmdline`, 'utf8').split('\0')
  const [program = '', ...args] = words.slice(0, -1)
  const disk = /file\.filename=([^, ]+)/.exec(args.join(' '))?.[1]
  if (disk === undefined) throw new Error('the monitor has no disk')
  copyFileSync(disk, join(directory, 'disk'))
  const own = args.map((word) =>
    word.startsWith('unix:')
      ? `unix:${join(directory, 'qmp.sock')},server=on,wait=off`
      : word.replace(disk, join(directory, 'disk')),
  )
  const master = openMaster()
  const slave = openSlave(slavePath(master))
  makeRaw(slave)
  const child = spawn(program, own, { stdio: [slave, slave, 'inherit'] })
  const stream = new ReadStream(master)
  let bytes = 0
  let text = ''
  const booted = Promise.withResolvers<void>()
  const bound = setTimeout(() => booted.reject(new Error('the guest does not boot')), BOOT_BOUND_MS)
  stream.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > 1024 * 1024) return
    text += chunk.toString('latin1')
    if (READY.test(text)) booted.resolve()
  })
  await booted.promise
  clearTimeout(bound)
  const end = (): void => {
    child.kill('SIGKILL')
    stream.destroy()
    rmSync(directory, { recursive: true })
  }
  return { received: () => bytes, type: (typed) => void writeSync(master, typed), end }
}
