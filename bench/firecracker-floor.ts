import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { firstEcho, makeBare, udpEcho } from '../lab/inside/bare.ts'
import { remove, setPower, settled } from '../lab/inside/controller.ts'
import { mainPid, sh } from '../lab/inside/shell.ts'
import { asleep, sleepAfter } from '../lab/inside/sleepers.ts'
import { HandFirecracker } from './hand-firecracker.ts'
import { commandOf } from './monitor-command.ts'
import { memoryMib } from './process-memory.ts'
import type { Sleeper } from '../lab/inside/sleepers.ts'

const POOL = '/var/lib/vmhostd/pool'
/** On the file system of the pool, so that both write to the same. */
const FOLDER = `${POOL}/bench-firecracker`
const RUN_FOLDER = '/run/bench-firecracker'
export const MEMORY_MIB = 128
const MIB = 1024 * 1024

export type BootSample = { readonly firstByteMs: number; readonly rssMib: number }
/** Milliseconds from before the spawn. */
export type RestoreSample = {
  readonly answersMs: number
  readonly loadedMs: number
  readonly firstByteMs: number
}

/**
 * Measures what Firecracker needs alone: the commands by which the daemon started it, with the same configuration, disk
 * and tap, and requests to its API by hand.
 */
export class FirecrackerFloor {
  readonly #one: Sleeper
  readonly #boot: readonly string[]
  readonly #restore: readonly string[]

  private constructor(one: Sleeper, boot: readonly string[], restore: readonly string[]) {
    this.#one = one
    this.#boot = boot
    this.#restore = restore
  }

  static async prepare(one: Sleeper): Promise<FirecrackerFloor> {
    const { id } = one
    const run = `/run/vmhostd/vm/${id}`
    for (const folder of [FOLDER, RUN_FOLDER]) mkdirSync(folder, { recursive: true })
    await makeBare(one, { monitor: 'firecracker', memoryMib: MEMORY_MIB })
    const boot = commandOf(await mainPid(`vmhost-${id}`))
    writeFileSync(
      `${RUN_FOLDER}/config.json`,
      readFileSync(`${run}/config.json`, 'utf8').replaceAll(`${run}/`, `${RUN_FOLDER}/`),
    )
    await sleepAfter(id, 1, MEMORY_MIB)
    await asleep(id)
    await sh('cp', '--sparse=always', `${POOL}/disks/${id}/saved/memory`, `${FOLDER}/memory`)
    writeFileSync(`${RUN_FOLDER}/state`, readFileSync(`${FOLDER}/memory`).subarray(MEMORY_MIB * MIB))
    await udpEcho(one.ipv4)
    const restore = commandOf(await mainPid(`vmhost-${id}`))
    // The tap, its route and its rule stay, and the daemon has nothing more to do with the VM.
    await setPower(id, 'stopped')
    await settled(id, 'stopped')
    return new FirecrackerFloor(one, boot, restore)
  }

  async boot(): Promise<BootSample> {
    return this.#run(this.#boot, async (startedAt, monitor) => {
      await firstEcho(this.#one.ipv4)
      return { firstByteMs: performance.now() - startedAt, rssMib: memoryMib(String(monitor.pid)) }
    })
  }

  /**
   * Restores the guest that the daemon saved. The client sends when the vCPUs run, and again until it is answered:
   * nothing holds its packets while the tap has no carrier yet.
   */
  async restore(): Promise<RestoreSample> {
    return this.#run(this.#restore, async (startedAt) => {
      const since = (): number => performance.now() - startedAt
      const api = await HandFirecracker.open(`${RUN_FOLDER}/api.sock`)
      const answersMs = since()
      await api.send('PUT', '/snapshot/load', {
        snapshot_path: `${RUN_FOLDER}/state`,
        mem_backend: { backend_type: 'File', backend_path: `${FOLDER}/memory` },
        vsock_override: { uds_path: `${RUN_FOLDER}/agent.sock` },
        clock_realtime: true,
        resume_vm: true,
      })
      const loadedMs = since()
      await firstEcho(this.#one.ipv4)
      return { answersMs, loadedMs, firstByteMs: since() }
    })
  }

  /** Boots the guest and saves it, flushed to the disk; returns the milliseconds of the save. */
  async save(): Promise<number> {
    return this.#run(this.#boot, async () => {
      await firstEcho(this.#one.ipv4)
      const api = await HandFirecracker.open(`${RUN_FOLDER}/api.sock`)
      const startedAt = performance.now()
      await api.pause()
      await api.send('PUT', '/snapshot/create', {
        snapshot_path: `${FOLDER}/next.state`,
        mem_file_path: `${FOLDER}/next.memory`,
      })
      await sh('sync', `${FOLDER}/next.memory`, `${FOLDER}/next.state`)
      return performance.now() - startedAt
    })
  }

  async takeAway(): Promise<void> {
    await remove(this.#one.id)
    for (const folder of [FOLDER, RUN_FOLDER]) rmSync(folder, { recursive: true })
  }

  async #run<T>(
    argv: readonly string[],
    use: (startedAt: number, monitor: ChildProcess) => Promise<T>,
  ): Promise<T> {
    for (const name of ['api.sock', 'agent.sock']) rmSync(`${RUN_FOLDER}/${name}`, { force: true })
    const [program = '', ...args] = argv.map((word) =>
      word.replace(`/run/vmhostd/vm/${this.#one.id}/`, `${RUN_FOLDER}/`),
    )
    const startedAt = performance.now()
    const monitor = spawn(program, args, { stdio: ['ignore', 'ignore', 'inherit'] })
    const gone = once(monitor, 'exit')
    try {
      return await use(startedAt, monitor)
    } finally {
      monitor.kill('SIGKILL')
      await gone
    }
  }
}
