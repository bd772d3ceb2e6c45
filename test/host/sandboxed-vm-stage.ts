/** A guest as it lives on a host: the monitor's command, the pool's files and the unit's sandbox, together. */
import { createHash } from 'node:crypto'
import { createReadStream, writeSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { TestContext } from 'node:test'
import { markOfTests } from '../record.ts'
import { renderSeed } from '../../src/core/disks/seed.ts'
import { SignedUrl } from '../../src/core/outbound/signed-url.ts'
import type { UnitSpec } from '../../src/core/unit/unit-spec.ts'
import type { MachineSpec } from '../../src/core/monitor/machine-spec.ts'
import type { Sha256, UserId, VmId } from '../../src/core/ids.ts'
import type { Pool } from '../../src/host/storage/pool.ts'
import { ConsoleHistory } from '../../src/host/pty/console-history.ts'
import { ConsoleMaster } from '../../src/host/pty/console-master.ts'
import { QemuMonitor } from '../../src/host/qemu/qemu-monitor.ts'
import { PRIVATE_SOCKET } from '../../src/host/systemd/bus.ts'
import { SystemdBus } from '../../src/host/systemd/systemd-bus.ts'
import { SystemdUnits } from '../../src/host/systemd/systemd-units.ts'
import type { SavedStates } from '../../src/ports/saved-states.ts'
import { silentLog } from '../../src/log/log.ts'
import { atEnd } from '../contract/at-end.ts'
import { until } from '../contract/until.ts'
import { machineOf } from '../fakes/machine.ts'
import { poolOn } from './pool-on.ts'

const GUEST = '/srv/guest'
const PROGRAM = `/usr/bin/qemu-system-${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}`
export const BOOT_MS = 60_000
export const DISK_MIB = 100
export const id = 'sandboxed' as VmId
export const userId = 700_011 as UserId
const never = new AbortController().signal

/** Fetches one of the demo guest's images into the pool. */
async function fetched(pool: Pool, name: string): Promise<Sha256> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(join(GUEST, name))) hash.update(chunk as Buffer)
  const sha256 = hash.digest('hex') as Sha256
  await pool.ensureImage(sha256, { url: new SignedUrl(pathToFileURL(join(GUEST, name)).href) }, never)
  return sha256
}

async function machineIn(pool: Pool, ptsPath: string, changes: Partial<MachineSpec>): Promise<MachineSpec> {
  const [kernel, initrd, rootfsSha256] = await Promise.all([
    fetched(pool, 'vmlinuz'),
    fetched(pool, 'initrd.cpio.gz'),
    fetched(pool, 'rootfs.raw'),
  ])
  const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
  await pool.ensureDisk({ id, userId, sizeMib: DISK_MIB, rootfsSha256, mark: markOfTests }, never)
  const content = { id, instanceId: 'i-1', sshAuthorizedKeys: [], daemonSshKey: 'ssh-ed25519 AAAA' }
  await pool.ensureSeed(id, userId, renderSeed(content, sha256))
  await pool.savedStates.ensureDirectory(id)
  const files = pool.files(id, [
    { role: 'kernel', sha256: kernel },
    { role: 'initrd', sha256: initrd },
  ])
  return machineOf(id, {
    userId,
    kernelPath: files.kernel,
    diskPath: files.disk,
    seedPath: files.seed,
    ptsPath,
    saveDirectory: pool.savedStates.paths(id).directory,
    ...(files.initrd === undefined ? {} : { initrdPath: files.initrd }),
    ...changes,
  })
}

export type SandboxStage = {
  readonly monitor: QemuMonitor
  readonly units: SystemdUnits
  readonly savedStates: SavedStates
  /** Mount point of a file system that holds only the pool. */
  readonly mountPoint: string
  readonly start: (
    changes?: Partial<MachineSpec>,
    edit?: (spec: UnitSpec, machine: MachineSpec) => UnitSpec,
  ) => Promise<MachineSpec>
  /** Grows the disk's file, as a step does before the guest is notified. */
  readonly growFile: (sizeMib: number) => Promise<void>
  /** All output on the console until now. */
  readonly said: () => string
  /** Runs a command in the guest's shell and resolves to its output. */
  readonly ask: (command: string, boundMs?: number) => Promise<string>
}

export async function stageOf(t: TestContext): Promise<SandboxStage> {
  const { reopen, mountPoint } = await poolOn('xfs', t)
  const pool = reopen({ localImagesDirectory: GUEST })
  const runDirectory = '/run/vmhostd-test'
  const bus = new SystemdBus({ log: silentLog, addresses: [PRIVATE_SOCKET] })
  const units = new SystemdUnits({ bus, log: silentLog, runDirectory })
  const console = ConsoleMaster.open({ history: ConsoleHistory.inMemory(), log: silentLog })
  const monitor = new QemuMonitor({
    program: PROGRAM,
    accelerator: 'tcg',
    runDirectory: `${runDirectory}/vm`,
    log: silentLog,
  })
  atEnd(t, () => bus.close())
  atEnd(t, () => console.close())
  atEnd(t, () => units.ensureStopped(id, never))
  atEnd(t, () => monitor.close())
  const said = (): string => Buffer.from(console.output.since(0).bytes).toString()
  let asked = 0
  let rootfsSha256: Sha256 | undefined
  return {
    monitor,
    units,
    savedStates: pool.savedStates,
    mountPoint,
    start: async (changes = {}, edit = (spec) => spec) => {
      const machine = await machineIn(pool, console.path, changes)
      await units.ensureStarted(id, edit(monitor.unitSpec(machine), machine), never)
      return machine
    },
    growFile: async (sizeMib) => {
      rootfsSha256 ??= await fetched(pool, 'rootfs.raw')
      await pool.ensureDisk({ id, userId, sizeMib, rootfsSha256, mark: markOfTests }, never)
    },
    said,
    ask: async (command, boundMs = BOOT_MS) => {
      const number = ++asked
      // The shell echoes the command: only printf puts the number between the brackets.
      writeSync(console.fd, `printf '<%s>%s</%s>' ${number} "$(${command})" ${number}\n`)
      const answer = new RegExp(`<${number}>([^]*)</${number}>`)
      const output = await until(said, (text) => answer.test(text), boundMs)
      return (answer.exec(output)?.[1] ?? '').replaceAll('\r', '').trim()
    },
  }
}
