import { X509Certificate } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { release } from 'node:os'
import { readTlsFiles } from '../../api/listener/tls-files.ts'
import {
  availableMibIn,
  controllersIn,
  forwardingOf,
  isClockSet,
  loadableModules,
  systemdVersion,
} from '../../host/figures/host-features.ts'
import { memoryFigures } from '../../host/figures/linux-figures.ts'
import { run } from '../../host/exec/exec.ts'
import { poolFigures, probePool } from '../../host/pool/pool-marker.ts'
import { poolPaths } from '../../host/pool/pool-paths.ts'
import { checkDescriptorStore } from '../../host/systemd/descriptor-store.ts'
import { findUnit } from '../../host/systemd/own-unit.ts'
import { SystemdBus } from '../../host/systemd/systemd-bus.ts'
import { errorChain } from '../../log/error-chain.ts'
import { silentLog } from '../../log/log.ts'
import { buildMonitors } from '../build-monitors.ts'
import type { Config } from '../../config/config.ts'
import type { CertificateFact, Fact, HostFacts, StoreFact } from '../../core/doctor/host-facts.ts'

const UNIT = 'vmhostd.service'

type Question = { readonly configPath: string; readonly config: Config; readonly configuration: Fact<'used'> }

/** Reads all facts about this host. A fact that cannot be read has its reason; this throws nothing that is expected. */
export async function readFacts({ configPath, config, configuration }: Question): Promise<HostFacts> {
  const { monitors, offers, kvm } = await buildMonitors(config, silentLog)
  const version = (kind: 'qemu' | 'firecracker') =>
    fact(async () => (await monitors[kind].installed()).version)
  const { stateDirectory, runDirectory, capacity } = config
  return {
    nowMs: Date.now(),
    configPath,
    configuration,
    kernel: release(),
    systemd: await fact(systemdVersion),
    modules: await fact(loadableModules),
    forwarding: forwardingOf(),
    controllers: await fact(controllersIn),
    monitors: offers(),
    kvm,
    monitorVersions: { qemu: await version('qemu'), firecracker: await version('firecracker') },
    xorriso: await fact(async () => (await run(['xorriso', '-version'])).stdout.split('\n', 1)[0] ?? ''),
    pool: await fact(() => poolOf(config.storage.poolDirectory)),
    room: [
      {
        what: 'state',
        directory: stateDirectory,
        availableMib: await fact(() => availableMibIn(stateDirectory)),
      },
      { what: 'run', directory: runDirectory, availableMib: await fact(() => availableMibIn(runDirectory)) },
    ],
    memory: await fact(() => ({ totalMib: memoryFigures().totalMib, reserveMib: capacity.memoryReserveMib })),
    diskReserveMib: capacity.diskReserveMib,
    ...(await certificatesOf(config)),
    clockIsSet: await fact(isClockSet),
    descriptorStore: await fact(descriptorStore),
  }
}

async function fact<T>(read: () => T | Promise<T>): Promise<Fact<T>> {
  try {
    return { known: true, value: await read() }
  } catch (error) {
    return { known: false, because: errorChain(error) }
  }
}

async function poolOf(directory: string) {
  const { poolId, reflink } = await probePool(directory)
  const { availableMib } = await poolFigures(poolPaths(directory), poolId)
  return { directory, reflink, availableMib }
}

async function certificatesOf({
  controller,
  coordination,
}: Config): Promise<Pick<HostFacts, 'tlsFiles' | 'certificates'>> {
  const listeners = [
    { listener: 'controller', files: controller },
    ...(coordination.enabled ? [{ listener: 'nodes', files: coordination }] : []),
  ]
  const tlsFiles = await Promise.all(
    listeners.map(async ({ listener, files: { caFile, certificateFile, keyFile } }) => ({
      listener,
      files: await fact(() => {
        readTlsFiles({ ca: caFile, certificate: certificateFile, key: keyFile })
        return 'fit' as const
      }),
    })),
  )
  const paths = new Map([
    [controller.certificateFile, 'server'],
    [controller.caFile, 'authority'],
    ...(coordination.enabled ? ([[coordination.certificateFile, 'node']] as const) : []),
    ...(coordination.enabled && coordination.caFile !== controller.caFile
      ? ([[coordination.caFile, 'node authority']] as const)
      : []),
  ])
  return { tlsFiles, certificates: [...paths].flatMap(([path, name]) => certificateIn(path, name)) }
}

/** Returns the first certificate of a file; none if it cannot be read, which the listener's finding says. */
function certificateIn(path: string, name: string): readonly CertificateFact[] {
  if (!existsSync(path)) return []
  try {
    const { validFromDate, validToDate } = new X509Certificate(readFileSync(path))
    return [{ name, path, notBeforeMs: validFromDate.getTime(), notAfterMs: validToDate.getTime() }]
  } catch {
    return []
  }
}

/** Checks the unit of the daemon as the daemon itself does at its start. */
async function descriptorStore(): Promise<StoreFact> {
  const bus = new SystemdBus({ log: silentLog })
  try {
    const unit = await findUnit(bus, UNIT)
    if (unit === undefined)
      return {
        available: false,
        because: `systemd does not know ${UNIT}`,
        remedy: 'install the package vmhostd',
      }
    return await checkDescriptorStore(unit)
  } finally {
    bus.close()
  }
}
