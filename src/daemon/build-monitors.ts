import { constants as fsConstants, accessSync, existsSync } from 'node:fs'
import { HostFault } from '../core/errors.ts'
import { chooseMonitor, judgeKvm } from '../core/monitor/choose-monitor.ts'
import { FirecrackerMonitor } from '../host/firecracker/firecracker-monitor.ts'
import { poolPaths } from '../host/pool/pool-paths.ts'
import { tryKvm } from '../host/kvm/try-kvm.ts'
import { QemuMonitor } from '../host/qemu/qemu-monitor.ts'
import { given } from '../lib/given.ts'
import type { Config } from '../config/config.ts'
import type { KvmJudgement, MonitorOffers, MonitorQuestion } from '../core/monitor/choose-monitor.ts'
import type { Log } from '../log/log.ts'
import type { Monitors } from '../ports/monitor.ts'

export type BuiltMonitors = {
  readonly monitors: Monitors
  readonly programs: MonitorQuestion['programs']
  /** Returns what this host offers now: a program may be installed, replaced or removed while the daemon runs. */
  readonly offers: () => MonitorOffers
  /** The result of the one try of KVM. */
  readonly kvm: KvmJudgement
}

/** Makes the driver of each kind, and finds out once how fast KVM is here. */
export async function buildMonitors(
  { monitor, runDirectory, storage }: Config,
  log: Log,
): Promise<BuiltMonitors> {
  const programs = {
    qemu: monitor.program ?? findProgram(QEMU),
    firecracker: monitor.firecrackerProgram ?? findProgram('firecracker'),
  }
  const kvm = await tryKvm()
  const common = { runDirectory: `${runDirectory}/vm`, log }
  const firecracker = new FirecrackerMonitor({
    ...common,
    program: programs.firecracker,
    metadataService: monitor.metadataService,
    diskPath: poolPaths(storage.poolDirectory).disk,
  })
  // Whether it is offered depends on its version. Each later look notes it again.
  if (isExecutable(programs.firecracker)) await firecracker.installed().catch(onlyFaults)
  const offers = (): MonitorOffers =>
    chooseMonitor({
      ...given({ firecrackerRefusal: firecracker.refusal }),
      kind: monitor.kind,
      accelerator: monitor.accelerator,
      isExecutable: {
        qemu: isExecutable(programs.qemu),
        firecracker: isExecutable(programs.firecracker),
      },
      programs,
      kvm,
    })
  const { kinds, default: chosen, because } = offers()
  for (const kind of ['qemu', 'firecracker'] as const) {
    const { isOffered, accelerator, because: why } = kinds[kind]
    log.info(
      { kind, program: programs[kind], offered: isOffered, accelerator, because: why },
      'monitor found',
    )
  }
  log.info({ kind: chosen, because }, 'monitor of new VMs chosen')
  const { accelerator } = kinds.qemu
  const monitors = { qemu: new QemuMonitor({ ...common, program: programs.qemu, accelerator }), firecracker }
  return { monitors, programs, offers, kvm: judgeKvm(kvm) }
}

function onlyFaults(error: unknown): void {
  if (!(error instanceof HostFault)) throw error
}

const QEMU = process.arch === 'arm64' ? 'qemu-system-aarch64' : 'qemu-system-x86_64'

/**
 * Returns the path of a program. For a program that is not installed yet, returns where it will be; starting a VM then
 * reports it as missing.
 */
function findProgram(name: string): string {
  const folders = ['/usr/local/bin', '/usr/bin']
  return `${folders.find((folder) => isExecutable(`${folder}/${name}`)) ?? '/usr/bin'}/${name}`
}

function isExecutable(path: string): boolean {
  // For a missing file, access(2) would make an error for each VM that is created.
  if (!existsSync(path)) return false
  try {
    accessSync(path, fsConstants.X_OK)
    return true
  } catch {
    return false
  }
}
