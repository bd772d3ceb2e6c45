import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { remove, setPower, settled } from '../lab/inside/controller.ts'
import { exchange } from '../lab/inside/first-packets.ts'
import { mainPid, sh } from '../lab/inside/shell.ts'
import { asleep, makeSleeper } from '../lab/inside/sleepers.ts'
import { limits } from '../src/config/limits.ts'
import { saveGuest } from '../src/host/qemu/qemu-saving.ts'
import { QmpClient } from '../src/host/qemu/qmp.ts'
import { HandQmp } from './hand-qmp.ts'
import { commandOf } from './monitor-command.ts'
import type { Sleeper } from '../lab/inside/sleepers.ts'

const POOL = '/var/lib/vmhostd/pool'
/** On the file system of the pool, so that both read from the same. */
const FOLDER = `${POOL}/bench-wake`
const SOCKET_FOLDER = '/run/bench-wake'
const SETTLING_WAKES = 3
/** The unit of `st_blocks` (inode(7)). */
const BLOCK_BYTES = 512
const never = new AbortController().signal

/**
 * Lets guests finish their own work after boot, by a few sleeps. Leaves them asleep. They answer one after another: a
 * guest that shares the machine with many others may need longer than its idle timeout for an answer, and then sleeps
 * before it has sent it.
 */
export async function settle(sleepers: readonly Sleeper[]): Promise<void> {
  for (let wakes = 0; wakes < SETTLING_WAKES; wakes += 1) {
    for (const { id, ipv4 } of sleepers) {
      await asleep(id)
      await exchange(ipv4)
    }
  }
  await Promise.all(sleepers.map(({ id }) => asleep(id)))
}

/** Milliseconds from before the spawn. */
export type FloorSample = {
  readonly answersMs: number
  readonly loadedMs: number
  readonly runsMs: number
  readonly firstByteMs: number
  /** The save after it: the time from the first command until its file is flushed, and the bytes of the file. */
  readonly save: { readonly ms: number; readonly bytes: number }
}

/**
 * Measures the least time that a wake can take: the monitor's own restore, with the client's first packet sent when the
 * vCPUs run. It uses a guest that the daemon saved and the command by which the daemon restored it. After each restore
 * it saves the guest again as the daemon does. So its file is as fresh, and as fragmented in the page cache, as those
 * of the daemon's guests.
 */
export class WakeFloor {
  readonly #argv: readonly string[]
  readonly #one: Sleeper
  readonly #copies: ReadonlyMap<string, string>

  private constructor(one: Sleeper, argv: readonly string[], copies: ReadonlyMap<string, string>) {
    this.#one = one
    this.#argv = argv
    this.#copies = copies
  }

  static async prepare(one: Sleeper): Promise<WakeFloor> {
    await makeSleeper(one)
    await settle([one])
    return WakeFloor.ofAsleep(one)
  }

  /** Takes a guest that sleeps from the daemon. */
  static async ofAsleep(one: Sleeper): Promise<WakeFloor> {
    const { id } = one
    mkdirSync(FOLDER, { recursive: true })
    mkdirSync(SOCKET_FOLDER, { recursive: true })
    const own = `${POOL}/disks/${id}`
    const copies = new Map([
      [`${own}/saved/memory`, `${FOLDER}/memory`],
      [`${own}/disk.raw`, `${FOLDER}/disk.raw`],
    ])
    for (const [source, target] of copies) await sh('cp', '--reflink=auto', '--sparse=auto', source, target)
    await exchange(one.ipv4)
    const command = commandOf(await mainPid(`vmhost-${id}`))
    // The tap, its route and its rule stay, and the daemon has nothing more to do with the VM.
    await setPower(id, 'stopped')
    await settled(id, 'stopped')
    return new WakeFloor(one, command, copies)
  }

  async restore(): Promise<FloorSample> {
    rmSync(`${SOCKET_FOLDER}/qmp.sock`, { force: true })
    const [program = '', ...args] = this.#argv.map((word) => this.#byHand(word))
    const startedAt = performance.now()
    const since = (): number => performance.now() - startedAt
    const monitor = spawn(program, args, { stdio: ['ignore', 'ignore', 'inherit'] })
    const gone = once(monitor, 'exit')
    const ended = gone.then(([code]) => Promise.reject(new Error(`the monitor ended with status ${code}`)))
    ended.catch(() => {})
    try {
      const qmp = await Promise.race([HandQmp.open(`${SOCKET_FOLDER}/qmp.sock`), ended])
      const answersMs = since()
      await Promise.race([qmp.loaded(), ended])
      const loadedMs = since()
      await qmp.execute('cont')
      const runsMs = since()
      const { firstByteMs, retransmitted } = await exchange(this.#one.ipv4)
      if (retransmitted > 0) throw new Error('the packet of the floor was not delivered at once')
      qmp.close()
      // Like the daemon's guests: a guest that was idle for longer has more to do when it runs again.
      await delay(limits.awakeMsMin)
      return { answersMs, loadedMs, runsMs, firstByteMs: runsMs + firstByteMs, save: await saveAgain() }
    } finally {
      monitor.kill('SIGKILL')
      await gone
    }
  }

  async takeAway(): Promise<void> {
    await remove(this.#one.id)
    rmSync(FOLDER, { recursive: true })
    rmSync(SOCKET_FOLDER, { recursive: true })
  }

  #byHand(word: string): string {
    const moved = [...this.#copies].reduce((text, [source, target]) => text.replace(source, target), word)
    return moved.replace(`/run/vmhostd/vm/${this.#one.id}/`, `${SOCKET_FOLDER}/`)
  }
}

async function saveAgain(): Promise<FloorSample['save']> {
  const path = `${FOLDER}/memory.next`
  const monitor = await QmpClient.connect(`${SOCKET_FOLDER}/qmp.sock`)
  const startedAt = performance.now()
  await monitor.execute('stop')
  await saveGuest(monitor, { path, form: 'mapped' }, never)
  // The kernel must not write it during the next measurement.
  await sh('sync', path)
  const ms = performance.now() - startedAt
  monitor.close()
  const bytes = statSync(path).blocks * BLOCK_BYTES
  renameSync(path, `${FOLDER}/memory`)
  return { ms, bytes }
}
