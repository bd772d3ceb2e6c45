import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync, writeSync } from 'node:fs'
import { mkdir, mkdtemp, rm, truncate, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { VmId } from '../../src/core/ids.ts'
import type { TapSpec } from '../../src/core/network/tap.ts'
import { agentSocketPath } from '../../src/core/monitor/qemu-command.ts'
import { run } from './run.ts'
import { QemuMonitor } from '../../src/host/qemu/qemu-monitor.ts'
import { silentLog } from '../../src/log/log.ts'
import { atEnd } from '../contract/at-end.ts'
import { endChild } from '../contract/child.ts'
import { until } from '../contract/until.ts'
import { machineOf } from '../fakes/machine.ts'
import { firecracker, skipWithoutFirecracker } from './with-firecracker.ts'

/** The bare guest, which the lab provides; lab/guest/bare has its commands. */
export const BARE_GUEST = '/srv/guest/bare.elf'

/** Reason why there is no bare guest here, or false. */
export const skipWithoutBareGuest = ((): string | false => {
  if (process.arch !== 'x64') return 'the bare guest is a program for x86-64'
  return existsSync(BARE_GUEST) ? false : 'needs the bare guest: run it in the lab'
})()

const MIB = 1024 * 1024
const MEMORY_MIB = 64
const BOUND_MS = 60_000

/** A monitor process and the console of its guest. */
export class BareGuest {
  #output = ''
  readonly #child: ChildProcess
  readonly #input: number

  /**
   * Starts a monitor. Its standard input is a pipe with a name, since Firecracker does not read a socket, which Node
   * would make.
   */
  static async start(t: TestContext, command: readonly [string, ...string[]]): Promise<BareGuest> {
    const folder = await mkdtemp(join(tmpdir(), 'console-'))
    atEnd(t, () => rm(folder, { recursive: true }))
    await run(['mkfifo', join(folder, 'input')])
    const guest = new BareGuest(command, openSync(join(folder, 'input'), 'r+'))
    atEnd(t, () => guest.end())
    return guest
  }

  private constructor([program, ...args]: readonly [string, ...string[]], input: number) {
    this.#input = input
    this.#child = spawn(program, args, { stdio: [input, 'pipe', 'pipe'] })
    this.#child.once('exit', () => closeSync(input))
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.on('data', (chunk: Buffer) => (this.#output += chunk.toString('latin1')))
  }

  /** Resolves when the guest has said this, to its first group. */
  async said(what: RegExp, from = 0): Promise<string> {
    const text = await until(
      () => this.#output.slice(from),
      (output) => what.test(output) || this.#child.exitCode !== null,
      BOUND_MS,
    )
    const found = what.exec(text)
    if (found === null) throw new Error(`the guest did not say ${what}, but: ${text}`)
    return found[1] ?? found[0]
  }

  /** Types a line, and resolves to the first group of its answer. */
  ask(line: string, answer: RegExp): Promise<string> {
    const from = this.#output.length
    writeSync(this.#input, `${line}\n`)
    return this.said(answer, from)
  }

  /** Types a line that ends the monitor, and resolves to its exit status. */
  async ends(line: string): Promise<number | null> {
    const ended = once(this.#child, 'exit')
    writeSync(this.#input, `${line}\n`)
    await ended
    return this.#child.exitCode
  }

  end(): Promise<void> {
    return endChild(this.#child)
  }
}

/** A monitor under which a bare guest runs, with a disk, random numbers, and maybe a tap. */
export type BareStage = {
  readonly diskPath: string
  start(tap?: TapSpec): Promise<BareGuest>
  /** Makes the file of the disk larger, and the running guest see it. */
  grow(mib: number): Promise<void>
  /** Saves the guest, ends its monitor, and restores it under another one, where it runs. */
  saveAndRestore(guest: BareGuest, tap?: TapSpec): Promise<BareGuest>
  /** The socket of the guest's agent. */
  readonly agentPath: string
}

export type StartBareStage = (t: TestContext) => Promise<BareStage>

async function makeFolder(t: TestContext): Promise<{ folder: string; diskPath: string; seedPath: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'bare-'))
  atEnd(t, () => rm(folder, { recursive: true }))
  const [diskPath, seedPath] = [join(folder, 'disk'), join(folder, 'seed')]
  for (const path of [diskPath, seedPath]) {
    await writeFile(path, '')
    await truncate(path, MIB)
  }
  return { folder, diskPath, seedPath }
}

/** QEMU with the exact command that units get. */
export const bareUnderQemu: StartBareStage = async (t) => {
  const { folder, diskPath, seedPath } = await makeFolder(t)
  const [id, never] = ['bare-1' as VmId, new AbortController().signal]
  const memory = join(folder, 'memory')
  const compute = { ...machineOf(id).compute, memoryMib: MEMORY_MIB }
  const program = '/usr/bin/qemu-system-x86_64'
  const monitor = new QemuMonitor({ program, accelerator: 'tcg', runDirectory: folder, log: silentLog })
  atEnd(t, () => monitor.close())
  await mkdir(join(folder, id))
  const start = async (tap?: TapSpec, restorePath?: string): Promise<BareGuest> => {
    const [first, ...rest] = monitor.unitSpec(
      machineOf(id, {
        kernelPath: BARE_GUEST,
        compute,
        diskPath,
        seedPath,
        ...(tap === undefined ? {} : { tap }),
        ...(restorePath === undefined ? {} : { restorePath, restoreForm: 'mapped' }),
      }),
    ).command
    return BareGuest.start(t, [first, ...rest])
  }
  return {
    diskPath,
    agentPath: agentSocketPath(folder, id),
    start,
    grow: async (mib) => {
      await truncate(diskPath, mib * MIB)
      await monitor.ensureDiskSize(id, mib, never)
    },
    saveAndRestore: async (guest, tap) => {
      await monitor.ensurePaused(id, never)
      await monitor.save({ id, path: memory, memoryMib: MEMORY_MIB }, never)
      await guest.end()
      await rm(join(folder, id, 'qmp.sock'), { force: true })
      const restored = await start(tap, memory)
      await until(
        () => monitor.inspect(id),
        ({ kind }) => kind === 'paused',
      )
      await monitor.ensureRunning(id, never)
      return restored
    },
  }
}

/** Firecracker by hand: a configuration file, and its API. */
export const bareUnderFirecracker: StartBareStage = async (t) => {
  const { folder, diskPath } = await makeFolder(t)
  const path = (name: string): string => join(folder, name)
  const [api, agentPath, memory, state] = [path('api'), path('agent'), path('memory'), path('state')]
  const launch = async (...args: readonly string[]): Promise<BareGuest> => {
    for (const socket of [api, agentPath]) await rm(socket, { force: true })
    const own = ['--api-sock', api, '--enable-pci', '--no-seccomp', '--level', 'Error']
    const guest = await BareGuest.start(t, [firecracker ?? '', ...own, ...args])
    await until(() => existsSync(api), Boolean)
    return guest
  }
  return {
    diskPath,
    agentPath,
    start: async (tap) => {
      await writeFile(path('config'), JSON.stringify(configOf({ diskPath, agentPath, tap })))
      return launch('--config-file', path('config'))
    },
    grow: async (mib) => {
      await truncate(diskPath, mib * MIB)
      await call(api, 'PATCH', '/drives/disk', { drive_id: 'disk', path_on_host: diskPath })
    },
    saveAndRestore: async (guest) => {
      await call(api, 'PATCH', '/vm', { state: 'Paused' })
      await call(api, 'PUT', '/snapshot/create', { snapshot_path: state, mem_file_path: memory })
      await guest.end()
      const restored = await launch()
      const mem_backend = { backend_type: 'File', backend_path: memory }
      await call(api, 'PUT', '/snapshot/load', { snapshot_path: state, mem_backend, clock_realtime: true })
      await call(api, 'PATCH', '/vm', { state: 'Resumed' })
      return restored
    },
  }
}

type Parts = { readonly diskPath: string; readonly agentPath: string; readonly tap: TapSpec | undefined }

function configOf({ diskPath, agentPath, tap }: Parts): unknown {
  const net = { iface_id: 'net', guest_mac: tap?.guestMac, host_dev_name: tap?.device }
  return {
    'boot-source': {
      kernel_image_path: BARE_GUEST,
      boot_args: `console=ttyS0 ip=${tap?.ipv4Address ?? ''}::::::off`,
    },
    'machine-config': { vcpu_count: 1, mem_size_mib: MEMORY_MIB },
    drives: [{ drive_id: 'disk', path_on_host: diskPath, is_root_device: true, is_read_only: false }],
    'network-interfaces': tap === undefined ? [] : [net],
    vsock: { guest_cid: 3, uds_path: agentPath },
    entropy: {},
  }
}

/** Sends a request to Firecracker's API; throws unless it succeeds. */
async function call(socketPath: string, method: string, path: string, body: unknown): Promise<void> {
  const sending = request({ socketPath, method, path, headers: { 'content-type': 'application/json' } })
  sending.end(JSON.stringify(body))
  const [answer] = (await once(sending, 'response')) as [IncomingMessage]
  const text = Buffer.concat((await answer.toArray()) as Buffer[]).toString()
  if (answer.statusCode !== 204) throw new Error(`${method} ${path}: ${answer.statusCode} ${text}`)
}

/** The stages of the monitors that are here, with the reason why one cannot be used. */
export const bareStages: readonly { name: string; skip: string | false; stageOf: StartBareStage }[] = [
  { name: 'QEMU', skip: skipWithoutBareGuest, stageOf: bareUnderQemu },
  {
    name: 'Firecracker',
    skip: skipWithoutBareGuest === false ? skipWithoutFirecracker : skipWithoutBareGuest,
    stageOf: bareUnderFirecracker,
  },
]
