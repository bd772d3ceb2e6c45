import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, copyFileSync, mkdtempSync, openSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { mutate, remove, settled } from '../lab/inside/controller.ts'
import { leave, view } from '../lab/inside/console.ts'
import { guestRequest } from '../lab/inside/guest.ts'
import { mainPid } from '../lab/inside/shell.ts'
import { until } from '../lab/inside/until.ts'
import { measurement, median, progress } from './measurement.ts'
import { commandOf } from './monitor-command.ts'
import type { Measurement } from './measurement.ts'

const VM = 'bench-console'
const ROUNDS = 3
const SECONDS = 4
const VIEWERS = 16
/** Writes lines until Ctrl-C. */
const START = 'yes "all work and no play makes a noisy guest"\r'
const STOP = '\u0003'
const READY = /demo guest ready/
const BOOT_BOUND_MS = 120_000
/** A file system in memory (tmpfs(5)). */
const IN_MEMORY = '/dev/shm'

/** Something that reads a console: viewers over the daemon, or a file. */
type Reader = {
  received(this: void): number
  type(this: void, text: string): void
}

/**
 * Measures how much a guest that writes without a pause can transfer: to one viewer, to many, and to a file in memory.
 */
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
  await byHand.end()
  await remove(VM)
  const row = (metric: string, ours: number[]): Measurement =>
    measurement({
      bench: 'console',
      metric,
      unit: 'MiB/s',
      ours: median(ours),
      reference: median(alone),
      reference_name: 'the same guest by hand, its serial port a file in memory',
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

/** Returns what each reader receives from a guest that writes, on average. */
async function mibps(readers: readonly Reader[]): Promise<number> {
  const [first] = readers
  first?.type(START)
  // By then the earlier output and the start of the program are over.
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

/**
 * Starts the VM's machine by hand, from a copy of its disk. Its serial port writes to a file in memory. That never
 * waits, and no reader takes processor time from the emulated guest.
 */
async function guestByHand(): Promise<Reader & { end(): Promise<void> }> {
  const directory = mkdtempSync(join(IN_MEMORY, 'bench-console-'))
  const [program = '', ...args] = commandOf(await mainPid(`vmhost-${VM}.service`))
  const disk = /file\.filename=([^, ]+)/.exec(args.join(' '))?.[1]
  if (disk === undefined) throw new Error('the monitor has no disk')
  copyFileSync(disk, join(directory, 'disk'))
  const own = args.map((word) =>
    word.replace(`/run/vmhostd/vm/${VM}/`, `${directory}/`).replace(disk, join(directory, 'disk')),
  )
  const output = join(directory, 'output')
  const file = openSync(output, 'w')
  const child = spawn(program, own, { stdio: ['pipe', file, 'inherit'] })
  closeSync(file)
  const booted = async (): Promise<true | undefined> =>
    READY.test(readFileSync(output, 'latin1')) ? true : undefined
  await until('the guest by hand boots', booted, BOOT_BOUND_MS)
  return {
    received: () => statSync(output).size,
    type: (text) => void child.stdin?.write(text),
    async end() {
      const gone = once(child, 'exit')
      child.kill('SIGKILL')
      await gone
      rmSync(directory, { recursive: true })
    },
  }
}
